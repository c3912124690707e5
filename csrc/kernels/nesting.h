/* Nesting: which event of a line encloses which, and how much of its time is its own. */
#ifndef FASTPROF_NESTING_H
#define FASTPROF_NESTING_H

#include "memory.h"

enum fp_placement { FP_NESTS = 0, FP_APART = 1, FP_TIMELESS = 2 };

typedef struct fp_late_self {
  int64_t event_id, self_time;
} fp_late_self;

/* A line on the way. Zeroed memory with `memory` set begins one; fp_nesting_free ends it. */
typedef struct fp_nesting {
  fp_memory *memory;
  fp_vector stack; /* events still open */
  fp_vector late;  /* fp_late_self: events that closed in a later stretch than they began in */
} fp_nesting;

/* The next stretch of a line's events, sorted by start, longer first; their ids count up from event_id.
 *
 * An event's parent is the innermost event before it that includes it, ends included: of equal spans the second
 * lies under the first, and an event that crosses the end of another one is not inside it. Self time is the
 * duration less the union of the children. `placement` (NULL: all nest): FP_APART events (asynchronous ones)
 * neither enclose nor lie in another; FP_TIMELESS ones are left out, their outputs stay as they are.
 *
 * parent_id is -1 where there is none. self_time of events still open at the end of the stretch is not final: it
 * comes in `late`, unless this is the `last` stretch. False for want of memory. */
bool fp_nesting_push(fp_nesting *nesting, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                     size_t count, int64_t event_id, bool last, int32_t *depth, int64_t *parent_id, int64_t *self_time);
void fp_nesting_free(fp_nesting *nesting);

/* A whole line: rows first..last, ids from event_id on. */
typedef struct fp_line_rows {
  int64_t first, last, event_id;
} fp_line_rows;

/* Whole lines of one table. */
bool fp_nesting_lines(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                      const fp_line_rows *lines, size_t line_count, int32_t *depth, int64_t *parent_id, int64_t *self_time);

#endif
