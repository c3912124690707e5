/* Which events of a trace XProf's streaming trace viewer shows at a resolution, and in which of the layers of its cache it
 * keeps each. All times are unsigned, as there: what begins before 0 comes last. */
#ifndef FASTPROF_VISIBILITY_H
#define FASTPROF_VISIBILITY_H

#include "memory.h"

/* Layer k is of events told apart at 10^(12 - k) ps; the last takes all that is left. */
enum { FP_LAYERS = 13 };

/* Events by track, those of each in order: by start, longer first. Tracks come in the order that decides between equal
 * events of several. There are below 2^31 events. */
typedef struct fp_traced {
  const uint64_t *start, *duration;
  const int64_t *tracks;   /* track_count + 1 bounds */
  const uint8_t *points;   /* by track: only starts count, as of counters */
  const int32_t *flow;     /* which flow it is a part of, below flow_count; -1: none */
  const uint8_t *flow_end; /* whether the flow ends with it */
  size_t track_count, flow_count;
} fp_traced;

static inline size_t fp_traced_count(const fp_traced *traced) {
  return (size_t)traced->tracks[traced->track_count];
}

/* The events of all tracks in one order. False for want of memory. */
bool fp_traced_order(fp_memory *memory, const fp_traced *traced, int32_t *order);

/* What tells events apart that start together: 0, 1, 2 … in that order. */
void fp_traced_serials(const fp_traced *traced, const int32_t *order, uint32_t *serial);

/* The layer that each event is kept in. False for want of memory. */
bool fp_traced_layers(fp_memory *memory, const fp_traced *traced, const int32_t *order, uint8_t *layer);

/* What is looked at: events from `begin` to `end`, both included, at `resolution` ps; 0: each of them. */
typedef struct fp_view {
  uint64_t begin, end, resolution;
} fp_view;

/* How many layers are read for a resolution. */
int fp_layers_read(uint64_t resolution);

/* Writes to `visible` which events are shown. `layer` is NULL where no cache stands between: all are read. `hidden`, which
 * may be NULL, are events that are left out before. False for want of memory. */
bool fp_traced_visible(fp_memory *memory, const fp_traced *traced, const int32_t *order, const uint8_t *layer,
                       const uint8_t *hidden, const fp_view *view, uint8_t *visible);

#endif
