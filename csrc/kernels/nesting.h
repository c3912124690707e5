/* Nesting: which event of a line encloses which, and how much of its time is its own. */
#ifndef FASTPROF_NESTING_H
#define FASTPROF_NESTING_H

#include "memory.h"
#include "status.h"

/* Whether an event takes part in nesting: it does; it is apart (asynchronous); it has no time. */
enum fp_placement { FP_NESTS = 0, FP_APART = 1, FP_TIMELESS = 2 };

/* The self time of an event of an earlier stretch, known now that the event has closed. */
typedef struct fp_late_self {
  int64_t event_id, self_time;
} fp_late_self;

/* The state of a line between its stretches. Zeroed memory with `memory` set is the start of a line; fp_nesting_free
 * releases it. */
typedef struct fp_nesting {
  fp_memory *memory;
  fp_vector stack; /* events that may still enclose later ones, outermost first */
  fp_vector late;  /* fp_late_self; the caller takes them and sets count to 0 */
  int64_t slack;   /* what an event may end later than its parent */
} fp_nesting;

/* Computes depth, parent and self time for the next stretch of a line's events, which are sorted by start, longer
 * first; their ids count up from event_id.
 *
 * The parent of an event is the innermost earlier event that includes it, equal ends included: of two equal spans the
 * second lies in the first, and an event that crosses the end of another does not lie in it. Self time is the
 * duration less the union of the children.
 *
 * With a slack, an event also lies in one that it begins in, before the end, and that it outlasts by no more than the
 * slack: clocks of traces round.
 *
 *    A |------------------------|     depth 0   self = A - (B u C)
 *    B    |-------|                   depth 1   child of A
 *    C         |-----------|          depth 1   child of A: it crosses the end of B
 *    D             |---|              depth 2   child of C
 *
 * `placement` (NULL: all nest): FP_APART events neither enclose others nor lie in one; FP_TIMELESS events are skipped
 * and their outputs stay as they are. parent_id is -1 where there is no parent. The self time of events that are
 * still open when the stretch ends is not final: it is reported through `late`, unless this is the `last` stretch.
 * Fails only when memory runs out. */
fp_code fp_nesting_push(fp_nesting *nesting, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                     size_t count, int64_t event_id, bool last, int32_t *depth, int64_t *parent_id, int64_t *self_time);
void fp_nesting_free(fp_nesting *nesting);

/* A complete line: rows first..last of a table; its events' ids count up from event_id. */
typedef struct fp_line_rows {
  int64_t first, last, event_id;
} fp_line_rows;

/* The same for complete lines of one table; outputs are columns of that table. Fails only when memory runs out. */
fp_code fp_nesting_lines(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                      const fp_line_rows *lines, size_t line_count, int64_t slack, int32_t *depth, int64_t *parent_id,
                      int64_t *self_time);

#endif
