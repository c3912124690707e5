/* The stretches of time in which chosen events are the innermost of their line. */
#ifndef FASTPROF_STRETCHES_H
#define FASTPROF_STRETCHES_H

#include "kernels/nesting.h"
#include "status.h"

/* A stretch of time, never empty. `row`: the event that is innermost in it; -1 for work, which is joined over events.
 */
typedef struct fp_stretch {
  int64_t begin, end;
  int64_t row; /* of the event; -1 of work */
} fp_stretch;

/* Marks of events: not wanted; compute. Other values are kinds of transfers, whose stretches keep their row. */
enum { FP_UNMARKED = 0, FP_WORK = 1 };

/* Appends the stretches in which a marked event is the innermost of its line, line by line. FP_WORK goes to `work`,
 * with adjoining stretches joined; other marks go to `others`. Within a line whose events nest, stretches ascend and
 * are disjoint. Rows of a line are sorted by start, longer first; a negative duration counts as 0. Fails only when
 * memory runs out.
 *
 *    row 0 (work)      |-------------------|
 *    row 1 (transfer)       |-----|              others: row 1
 *    work              |----|     |--------|     two stretches, cut by row 1
 */
fp_code fp_innermost_stretches(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                            const fp_line_rows *lines, size_t line_count, fp_vector *work, fp_vector *others);

#endif
