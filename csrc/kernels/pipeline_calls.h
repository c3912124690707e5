/* Calls of input pipelines of tf.data: which iterators each call ran, and where its time went. */
#ifndef FASTPROF_PIPELINE_CALLS_H
#define FASTPROF_PIPELINE_CALLS_H

#include "memory.h"

/* What an iterator may do in its own time. Where several go on at once, the first named here has the time. */
enum fp_self_part { FP_FILE_READ, FP_USER_FUNCTION, FP_TAKING, FP_WAITING, FP_OTHER, FP_SELF_PARTS };

/* Rows with marks, alone: `kept` gets the row of each, `above` the number of the nearest one above it, -1: none, and `around`
 * that of the event right around it, -1: none, -2: one without a mark. Numbers are places in `kept`; `number` gets, for each
 * row, that of the nearest one at or above it, -1: none. `parent` is as below. */
enum { FP_UNMARKED = -2 };
void fp_marked_rows(const int32_t *parent, const uint8_t *marks, size_t count, int32_t *kept, int32_t *above, int32_t *around,
                    int32_t *number);

/* The nearest event at or above each row, on its line, that has one of `bits` in `marks`; -1: none. The event above a
 * row, parent[row], comes before it. */
void fp_nearest_marked(const int32_t *parent, const uint8_t *marks, uint8_t bits, size_t count, int32_t *nearest);

/* Children of each row in a forest, those of row r at child[first[r]] .. child[first[r + 1]], in order of `start`, then of
 * row; in order of row where `start` is NULL. Rows whose parent is not below `count` and not negative have none. */
typedef struct fp_children {
  uint32_t *first;
  int32_t *child;
} fp_children;

bool fp_children_open(fp_memory *memory, const int32_t *parent, const int64_t *start, size_t count, fp_children *children);
void fp_children_close(fp_memory *memory, fp_children *children);

/* The trees below `roots`, in order, each before what is below it: rows in `order`, how deep below their root in `depth`;
 * both have room for `count`. A row that is reached twice is listed once. Returns how many, or -1 for want of memory. */
int64_t fp_preorder(fp_memory *memory, const int32_t *parent, size_t count, const int32_t *roots, size_t root_count,
                    int32_t *order, int32_t *depth);

/* Iterator events by row. `parent`: the event that asked for this one's element, -1: none; a circle is reached from no root.
 * `iterator`: below iterator_count. */
typedef struct fp_iterator_events {
  const int64_t *start, *duration;
  const int32_t *parent, *iterator;
  size_t count, iterator_count;
} fp_iterator_events;

/* What went on during events: sorted by event, then start. */
typedef struct fp_activity {
  int64_t start, end;
  int32_t event, part;
} fp_activity;

/* Calls of pipelines: the event of each, and its pipeline; those of a pipeline follow each other. Their segments are told
 * where `traced` is not 0. */
typedef struct fp_root_calls {
  const int32_t *event, *pipeline;
  const uint8_t *traced;
  size_t count;
} fp_root_calls;

/* An iterator in a call. `self` is the duration of its events less the time in which their children run, `critical` is its
 * share of the duration of the call. */
typedef struct fp_call_record {
  int64_t start, total, self, critical;
  int32_t call, iterator, count, is_blocking;
} fp_call_record;

typedef struct fp_call_segment {
  int64_t start, duration;
  int32_t call, iterator;
} fp_call_segment;

/* What the critical time of an iterator is made of, over all calls of a pipeline. */
typedef struct fp_call_parts {
  int64_t time[FP_SELF_PARTS];
  int32_t pipeline, iterator;
} fp_call_parts;

typedef struct fp_pipeline_work {
  fp_iterator_events events;
  const fp_activity *activities;
  size_t activity_count;
  const uint8_t *own_part; /* by iterator: what it does where nothing is known to go on */
  fp_root_calls calls;
} fp_pipeline_work;

/* Appends to records (fp_call_record), segments (fp_call_segment) and parts (fp_call_parts).
 *
 * The time of a call is shared out from its root down. An event has a window, that of the root is its interval. The
 * children of an event take their intervals out of its window in order of start, but not what an earlier one has taken:
 * that is their window. What is left of the window is critical time of the event's own iterator. So the critical times of
 * a call add up to its duration. An event blocks the call where it overlaps its parent and that one blocks. False for want
 * of memory. */
bool fp_pipeline_calls(fp_memory *memory, const fp_pipeline_work *work, fp_vector *records, fp_vector *segments,
                       fp_vector *parts);

#endif
