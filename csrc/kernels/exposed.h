/* How much communication compute hides, and what the rest of it waits for. */
#ifndef FASTPROF_EXPOSED_H
#define FASTPROF_EXPOSED_H

#include "kernels/stretches.h"

/* Something on the way between devices, or to and from the host. `rank`: of several that are exposed at once the one of
 * the lowest rank takes the blame, of equals the first. `exposed`, `hidden`: written; time it is to blame for, and time
 * of it in which there is work. */
typedef struct fp_transfer {
  int64_t begin, end;
  int32_t kind, rank;
  int64_t exposed, hidden;
} fp_transfer;

enum { FP_MOST_KINDS = 64 };

/* The columns of `sums`: three, then three a kind. */
enum { FP_SUM_WORK, FP_SUM_TRANSFER, FP_SUM_EXPOSED, FP_SUM_KINDS };

typedef struct fp_overlap {
  const fp_stretch *work; /* ascending and disjoint */
  size_t work_count;
  fp_transfer *transfers; /* by begin */
  const int64_t *by_end;  /* places in transfers, by end */
  size_t transfer_count, kind_count;
  const int64_t *times; /* ascending */
  size_t time_count;
} fp_overlap;

/* Whether it is as fp_overlaps needs it: all in order, transfers of some length and of kinds that there are. */
bool fp_overlap_is_in_order(const fp_overlap *of);

/* Writes a row of sums for each of `times`, of FP_SUM_KINDS + 3 * kind_count columns: how long, up to it, there was work,
 * a transfer, and a transfer but no work; then of each kind how long there was one of it, one of it and work, and for how
 * long it was to blame for what is exposed. Time is linear but for the ranks of what is under way at once. False for want
 * of memory. */
bool fp_overlaps(fp_memory *memory, const fp_overlap *of, int64_t *sums);

#endif
