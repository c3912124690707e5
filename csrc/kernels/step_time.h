/* Step time: events that overlap, flattened into time by event type, group by group. This is what the step breakdown
 * of XProf shows. */
#ifndef FASTPROF_STEP_TIME_H
#define FASTPROF_STEP_TIME_H

#include "memory.h"
#include "status.h"

enum { FP_EVENT_TYPES = 18 };

/* The events to flatten. An event whose group or type is out of range is left out. */
typedef struct fp_typed_events {
  const int32_t *group;
  const uint8_t *type; /* below FP_EVENT_TYPES; where events overlap the higher type gets the time; 0: no type */
  const int64_t *start, *duration;
  size_t count;            /* below 2^32 */
  const int64_t *lines;    /* NULL, or line_count + 1 bounds: line i is rows lines[i]..lines[i + 1], sorted by start, */
  size_t line_count;       /*   longer first; events of no line are left out */
} fp_typed_events;

/* The results, owned by the caller: arrays of group_count * FP_EVENT_TYPES, or of group_count pairs. */
typedef struct fp_step_times {
  const int64_t *clip; /* begin and end of each group's step, or NULL */
  int64_t *total;      /* time by type; type 0 is time between the first and the last event in which none is open */
  int64_t *clipped;    /* the part of it within the step; may be NULL where `clip` is */
  uint8_t *seen;       /* 1 where a type has a piece of time, even an empty one; never set for type 0 */
  size_t group_count;
} fp_step_times;

/* Adds the times of each group. The boundaries of its events are sorted by time; at equal times ends come before
 * starts, and the higher type before the lower. The time between two neighbouring boundaries is a piece, which counts
 * for the highest type that is open, or for type 0. Fails only when memory runs out.
 *
 *    type 5        |-----|
 *    type 2   |-------------|        |---|
 *    pieces   |  2 |  5  | 2|    0   | 2 |        total[2] = 2 + 2 + 2, total[5] = 5, total[0] = 0
 */
fp_code fp_step_time(fp_memory *memory, const fp_typed_events *events, const fp_step_times *out);

#endif
