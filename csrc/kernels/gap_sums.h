/* The time of a device by step, kind and cause. */
#ifndef FASTPROF_GAP_SUMS_H
#define FASTPROF_GAP_SUMS_H

#include "kernels/gap_pieces.h"

/* A sum over the pieces of one step, kind and cause. `group`: of the step, -1: between steps; `what`: the explanation
 * that most of the time has, -1: none has any; `explained`: the time that an event of the host explains;
 * `longest_begin`: of the longest piece, of equal ones the first. */
typedef struct fp_gap_sum {
  int32_t group, kind, cause, what;
  int64_t time, explained, count, longest, longest_begin;
} fp_gap_sum;

/* Appends the sums (fp_gap_sum) of some pieces, as they are first met. An explanation is the number of the name of the
 * event that explains a piece, or else `names` and above what the device moves or waits for; of two with equal time the
 * higher number counts. `name_of_row`: by row of the host's events, below `names`; -1: the last name. FP_OVERFLOW: a time
 * does not fit 64 bits. Fails else only when memory runs out. */
fp_code fp_gap_sums(fp_memory *memory, const fp_gap *gaps, size_t count, const int32_t *name_of_row, int32_t names,
                    fp_vector *sums);

#endif
