/* Calls of input pipelines of tf.data: which iterators each call ran, and where its time went. */
#ifndef FASTPROF_PIPELINE_CALLS_H
#define FASTPROF_PIPELINE_CALLS_H

#include "memory.h"
#include "status.h"

/* What an iterator may do in its own time. Where several go on at once, the first listed here gets the time. */
enum fp_self_part { FP_FILE_READ, FP_USER_FUNCTION, FP_TAKING, FP_WAITING, FP_OTHER, FP_SELF_PARTS };

/* In `around`: the row lies directly in one without a mark. */
enum { FP_AROUND_UNMARKED = -2 };
/* Reduces a forest to its marked rows. `kept` receives the marked rows; for each of them `above` receives the nearest
 * marked one above it, and `around` the one directly around it (-1: none, -2: it is not marked), as indices of
 * `kept`. `number` receives for every row the index of the nearest marked one at or above it; -1: none. parent[row] <
 * row.
 *
 *    rows      0*  1   2*  3*          (*: marked; 1 lies in 0, 2 lies in 1, 3 lies in 2)
 *    kept      0 2 3
 *    above    -1 0 1       around   -1 -2 1
 *    number    0 0 1 2
 */
void fp_marked_rows(const int32_t *parent, const uint8_t *marks, size_t count, int32_t *kept, int32_t *above, int32_t *around,
                    int32_t *number);

/* Writes for each row the nearest row at or above it that has one of `bits` in its mark; -1: none. parent[row] < row.
 */
void fp_nearest_marked(const int32_t *parent, const uint8_t *marks, uint8_t bits, size_t count, int32_t *nearest);

/* The children of each row of a forest: those of row r are child[first[r]] .. child[first[r + 1]], by `start`, then
 * by row; by row alone where `start` is NULL. A row whose parent is outside 0..count is a child of none. */
typedef struct fp_children {
  uint32_t *first;
  int32_t *child;
} fp_children;

/* Fails only when memory runs out; the children must be closed in either case. */
bool fp_children_open(fp_memory *memory, const int32_t *parent, const int64_t *start, size_t count, fp_children *children);
void fp_children_close(fp_memory *memory, fp_children *children);

/* Lists the trees below `roots`, each row before what is below it: rows go to `order`, their depth below the root to
 * `depth`; both have room for `count`. A row that is reached twice is listed once. `listed` gets the number of
 * rows. */
fp_code fp_preorder(fp_memory *memory, const int32_t *parent, size_t count, const int32_t *roots, size_t root_count,
                    int32_t *order, int32_t *depth, size_t *listed);

/* Iterator events by row. `parent` is the event that requested this one's element; -1: none. A circle of parents is
 * ignored; a root on a circle is not below itself. `iterator` is below iterator_count. */
typedef struct fp_iterator_events {
  const int64_t *start, *duration;
  const int32_t *parent, *iterator;
  size_t count, iterator_count;
} fp_iterator_events;

/* An activity within an event: a read of a file, a user function, … Sorted by event, then start. */
typedef struct fp_activity {
  int64_t start, end;
  int32_t event, part;
} fp_activity;

/* Calls of pipelines: the event and the pipeline of each; calls of a pipeline are consecutive. Segments are listed
 * for calls with `traced` set. */
typedef struct fp_root_calls {
  const int32_t *event, *pipeline;
  const uint8_t *traced;
  size_t count;
} fp_root_calls;

/* An iterator in a call. `self` is the duration of its events less the time in which their children run; `critical`
 * is its share of the call's duration; is_blocking: it is on the path that the call waits for. */
typedef struct fp_call_record {
  int64_t start, total, self, critical;
  int32_t call, iterator, count, is_blocking;
} fp_call_record;

/* A stretch of critical time. */
typedef struct fp_call_segment {
  int64_t start, duration;
  int32_t call, iterator;
} fp_call_segment;

/* What the critical time of an iterator consists of, over all calls of a pipeline. */
typedef struct fp_call_parts {
  int64_t time[FP_SELF_PARTS];
  int32_t pipeline, iterator;
} fp_call_parts;

/* The input, owned by the caller. */
typedef struct fp_pipeline_work {
  fp_iterator_events events;
  const fp_activity *activities;
  size_t activity_count;
  const uint8_t *own_part; /* by iterator: the part for time in which no activity is recorded */
  fp_root_calls calls;
} fp_pipeline_work;

/* Appends to records (fp_call_record), segments (fp_call_segment) and parts (fp_call_parts).
 *
 * The duration of a call is divided from its root down. Each event has a window; the root's is its interval. Children
 * take their intervals out of the window of their parent in order of start, except for what an earlier child has
 * taken already: that is their window. What remains is critical time of the parent's own iterator. So the critical
 * times of a call add up to its duration.
 *
 *    root      |=====================|          window: all of it
 *    child a      |------|                      takes its interval
 *    child b          |--------|                takes the part behind a
 *    critical  |rr|aaaaaa|bbbbb|rrrr|
 *
 * An event blocks the call if its parent does and the two overlap in time. Fails only when memory runs out. */
fp_code fp_pipeline_calls(fp_memory *memory, const fp_pipeline_work *work, fp_vector *records, fp_vector *segments,
                       fp_vector *parts);

#endif
