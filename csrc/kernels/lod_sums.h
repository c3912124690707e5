/* Sums by name of events in a window of time, and of a run of events. */
#ifndef FASTPROF_LOD_SUMS_H
#define FASTPROF_LOD_SUMS_H

#include "kernels/lod.h"

typedef struct fp_range_sum {
  int64_t total, clipped, least, most; /* durations; `clipped`: of them what lies in the window. The largest number if more */
  uint32_t name, longest;              /* the number of the longest event, the first of equal ones */
  uint64_t count;
} fp_range_sum;

/* Zeroed memory with `memory` set begins one. */
typedef struct fp_range_sums {
  fp_memory *memory;
  uint32_t *place; /* by name: 1 + its place in sums, 0: not met */
  size_t names;
  fp_vector sums; /* fp_range_sum, in the order in which names were met */
} fp_range_sums;

/* Adds the events of a lane that overlap times `from` to `last`, both included; those without a duration count as one
 * picosecond long there. False for want of memory. */
bool fp_sum_lane(fp_range_sums *sums, const fp_lod *lod, const fp_lane *lane, int64_t from, int64_t last);
/* Adds `count` events from number `at` on, whatever their lanes. */
bool fp_sum_run(fp_range_sums *sums, const fp_lod *lod, size_t at, size_t count);
void fp_range_sums_free(fp_range_sums *sums);

#endif
