/* How much communication is hidden behind compute, and which transfers the exposed rest waits for. */
#ifndef FASTPROF_EXPOSED_H
#define FASTPROF_EXPOSED_H

#include "kernels/stretches.h"
#include "status.h"

/* A transfer between devices, or to or from the host. `rank`: where several are exposed at once, the one with the
 * lowest rank is blamed; of equal ranks the first. `exposed` and `hidden` are written: the time that it is blamed
 * for, and the time in which there is work beside it. */
typedef struct fp_transfer {
  int64_t begin, end;
  int32_t kind, rank;
  int64_t exposed, hidden;
} fp_transfer;

enum { FP_MOST_KINDS = 64 };

/* Columns of `sums`: these three, then three for each kind (see fp_overlaps). */
enum { FP_SUM_WORK, FP_SUM_TRANSFER, FP_SUM_EXPOSED, FP_SUM_KINDS };

/* The work and the transfers of a device. The caller owns all of it. */
typedef struct fp_overlap {
  const fp_stretch *work; /* ascending and disjoint */
  size_t work_count;
  fp_transfer *transfers; /* by begin */
  const int64_t *by_end;  /* places in transfers, by end */
  size_t transfer_count, kind_count;
  const int64_t *times; /* ascending: when to report sums */
  size_t time_count;
} fp_overlap;

/* Whether the input has the form that fp_overlaps relies on: everything sorted as stated, transfers not empty and of
 * kinds below kind_count. The caller checks this once; fp_overlaps does not. */
bool fp_overlap_is_in_order(const fp_overlap *of);

/* Writes for each of `times` a row of FP_SUM_KINDS + 3 * kind_count sums of the time before it: with work; with a
 * transfer; with a transfer but no work. Then for each kind: with a transfer of it; with one of it and work; and the
 * time for which a transfer of it is blamed.
 *
 *    work         |======|          |====|
 *    all-reduce      |---------|                exposed from the end of work to its own end
 *    send                |---------|            rank 2: blamed only when all-reduce is over
 *    exposed             |xxxxx|yyy|            x: all-reduce, y: send
 *
 * Linear in work and transfers, but for a heap of the transfers that are under way at once. Fails only when memory
 * runs out. */
fp_code fp_overlaps(fp_memory *memory, const fp_overlap *of, int64_t *sums);

#endif
