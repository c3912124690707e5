/* Op lines of devices: self time of their events, and the time in which chosen events are the innermost. nesting.h
 * says how events nest. */
#ifndef FASTPROF_OP_LINES_H
#define FASTPROF_OP_LINES_H

#include "kernels/nesting.h"
#include "status.h"

/* How fp_self_times ended; a higher value wins over a lower one when lines are combined. */
/* Writes for each row of the lines: to self_time its duration less the union of all events inside it, and to
 * `stacked` (NULL: not wanted) its duration less the sum of its direct children. The two differ only where siblings
 * overlap. Rows of a line may come in any order; sorted by start, longer first, they need no extra memory. */
fp_code fp_self_times(fp_memory *memory, const int64_t *start, const int64_t *duration, const fp_line_rows *lines,
                             size_t line_count, int64_t *self_time, int64_t *stacked);

/* Writes to *time the total time in which an event with any of `bits` in its mark is the innermost one of its line,
 * on any of the lines; time that several lines share counts once. Rows of a line are sorted by start, longer first; a
 * negative duration counts as 0. Fails only when memory runs out. */
fp_code fp_innermost_time(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                       uint8_t bits, const fp_line_rows *lines, size_t line_count, uint64_t *time);

/* Writes the first begin and the last end of `count` events, one or more; a negative duration counts as 0. FP_OVERFLOW:
 * an end does not fit 64 bits. */
fp_code fp_extent(const int64_t *start, const int64_t *duration, size_t count, int64_t *begin, int64_t *end);

#endif
