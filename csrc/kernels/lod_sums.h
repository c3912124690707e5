/* Sums by name over the events of a time window, or of a run of events. */
#ifndef FASTPROF_LOD_SUMS_H
#define FASTPROF_LOD_SUMS_H

#include "kernels/lod.h"
#include "status.h"

/* The sums of one name; sums stop at the largest number. */
typedef struct fp_range_sum {
  int64_t total, clipped, least, most; /* durations; `clipped`: the part of `total` that lies in the window */
  uint32_t name, longest;              /* `longest`: the number of the longest event, of equal ones the first */
  uint64_t count;
} fp_range_sum;

/* Zeroed memory with `memory` set is empty; fp_range_sums_free releases it. */
typedef struct fp_range_sums {
  fp_memory *memory;
  uint32_t *place; /* by name: 1 + its place in `sums`; 0: it has none */
  size_t names;
  fp_vector sums; /* fp_range_sum, in the order in which names first occurred */
} fp_range_sums;

/* Adds the events of a lane that overlap the times `from` to `last`, both included; an event without a duration is
 * one picosecond long here. Fails only when memory runs out. */
fp_code fp_sum_lane(fp_range_sums *sums, const fp_lod *lod, const fp_lane *lane, int64_t from, int64_t last);
/* Adds `count` events from number `at` on, on whatever lanes. Fails only when memory runs out. */
fp_code fp_sum_run(fp_range_sums *sums, const fp_lod *lod, size_t at, size_t count);
void fp_range_sums_free(fp_range_sums *sums);

#endif
