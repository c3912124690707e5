/* Step time: events that overlap, flattened into time by event type, group by group. */
#ifndef FASTPROF_STEP_TIME_H
#define FASTPROF_STEP_TIME_H

#include "memory.h"

enum { FP_EVENT_TYPES = 18 };

/* Events to flatten: the group and type of each, its start and duration. An event whose group or type is out of
 * range is left out. */
typedef struct fp_typed_events {
  const int32_t *group;
  const uint8_t *type; /* below FP_EVENT_TYPES; the higher type wins where events overlap; 0 is no type */
  const int64_t *start, *duration;
  size_t count;            /* below 2^32 */
  const int64_t *lines;    /* NULL, or line_count + 1 rows: line i is rows lines[i]..lines[i + 1], ascending by start, */
  size_t line_count;       /*   the longer first; events of no line are left out */
} fp_typed_events;

/* What comes of a group; arrays of group_count times FP_EVENT_TYPES, or of group_count pairs. */
typedef struct fp_step_times {
  const int64_t *clip; /* begin and end of each group's step, or NULL */
  int64_t *total;      /* time by type; type 0 is the time between the first and the last event in which there is none */
  int64_t *clipped;    /* the same within the step; may be NULL where `clip` is */
  uint8_t *seen;       /* 1 where a type has a piece of time at all, if of no length; not told of type 0 */
  size_t group_count;
} fp_step_times;

/* Adds the times of each group. The boundaries of its events are taken in the order of time, ends before starts where
 * times are equal, then the higher type first; between a boundary and the next lies a piece of time, which counts for the
 * highest type that is open, or for type 0. False for want of memory. */
bool fp_step_time(fp_memory *memory, const fp_typed_events *events, const fp_step_times *out);

#endif
