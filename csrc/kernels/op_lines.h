/* Op lines of devices: the own time of their events, and how long chosen ones are the innermost.
 *
 * How they nest is told in nesting.h. */
#ifndef FASTPROF_OP_LINES_H
#define FASTPROF_OP_LINES_H

#include "kernels/nesting.h"

typedef enum fp_self_result {
  FP_SELF_DONE = 0,
  FP_SELF_CROSSED = 1,  /* siblings overlap: the sum of some children is not their union */
  FP_SELF_NO_MEMORY = 2
} fp_self_result;

/* Of each row of the lines: its duration less the union of the events nested in it, and, where `stacked` is given, less
 * the sum of those directly nested in it. Rows of a line may come in any order, quickest by start, longer first. */
fp_self_result fp_self_times(fp_memory *memory, const int64_t *start, const int64_t *duration, const fp_line_rows *lines,
                             size_t line_count, int64_t *self_time, int64_t *stacked);

/* Rows of a line are sorted by start, longer first. How long an event with any of these bits in marks[row] is the innermost one of its line, on any of the lines. A
 * negative duration counts as none. False for want of memory. */
bool fp_innermost_time(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                       uint8_t bits, const fp_line_rows *lines, size_t line_count, uint64_t *time);

/* The first begin and the last end of `count` events, one or more; a negative duration counts as none. False where an
 * end does not fit 64 bits. */
bool fp_extent(const int64_t *start, const int64_t *duration, size_t count, int64_t *begin, int64_t *end);

#endif
