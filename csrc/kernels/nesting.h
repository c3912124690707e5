/* Nesting: which event of a line encloses which, and how much of its time is its own. */
#ifndef FASTPROF_NESTING_H
#define FASTPROF_NESTING_H

#include "memory.h"

enum fp_placement { FP_NESTS = 0, FP_APART = 1, FP_TIMELESS = 2 };

/* A line is rows first..last; its events have ids from event_id on. */
typedef struct fp_line_rows {
  int64_t first, last, event_id;
} fp_line_rows;

/* Rows of a line are sorted by start, longer first. An event's parent is the innermost event before it that
 * includes it, ends included, so of equal spans the second lies under the first; an event that crosses the
 * end of another one is not inside it. Self time is the duration less the union of the children.
 * `placement` (NULL: all nest): FP_APART events (asynchronous ones) neither enclose nor lie in another;
 * of FP_TIMELESS events nothing is known, their outputs stay as they are.
 * parent_id is -1 where there is none. False for want of memory. */
bool fp_nesting(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                const fp_line_rows *lines, size_t line_count, int32_t *depth, int64_t *parent_id, int64_t *self_time);

#endif
