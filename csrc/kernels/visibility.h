/* Which events XProf's streaming trace viewer shows at a resolution, and in which layer of its cache it keeps each.
 * This copies its rules, so that pictures agree. All times are unsigned, as there: an event that begins before 0
 * sorts last. */
#ifndef FASTPROF_VISIBILITY_H
#define FASTPROF_VISIBILITY_H

#include "memory.h"
#include "status.h"

/* Layer k holds the events that a resolution of 10^(12 - k) ps shows and coarser ones do not; the last one the rest. */
enum { FP_LAYERS = 13 };

/* Events by track, sorted by start, longer first, within each; below 2^31 in all. The order of tracks decides between
 * equal events of several tracks. The caller owns all of it. */
typedef struct fp_traced {
  const uint64_t *start, *duration;
  const int64_t *tracks;   /* track_count + 1 bounds */
  const uint8_t *points;   /* by track: 1 if only starts count, as for counters */
  const int32_t *flow;     /* by event: the flow it is part of, below flow_count; -1: none */
  const uint8_t *flow_end; /* by event: whether the flow ends with it */
  size_t track_count, flow_count;
} fp_traced;

static inline size_t fp_traced_count(const fp_traced *traced) {
  return (size_t)traced->tracks[traced->track_count];
}

/* Writes the events of all tracks in one order: by start, longer first, then by track. Fails only when memory runs
 * out. */
fp_code fp_traced_order(fp_memory *memory, const fp_traced *traced, int32_t *order);

/* Numbers events with the same start 0, 1, 2, … in that order, so that start and number identify an event. */
void fp_traced_serials(const fp_traced *traced, const int32_t *order, uint32_t *serial);

/* Writes the layer that each event is kept in. Fails only when memory runs out. */
fp_code fp_traced_layers(fp_memory *memory, const fp_traced *traced, const int32_t *order, uint8_t *layer);

/* A request: the events from `begin` to `end`, both included, at `resolution` ps per pixel; 0: every event. */
typedef struct fp_view {
  uint64_t begin, end, resolution;
} fp_view;

/* How many layers are read for a resolution, from the coarsest on. */
int fp_layers_read(uint64_t resolution);

/* Writes to `visible` which events are shown. `layer` is NULL where no cache is involved, so that all events are
 * read. `hidden` (may be NULL) marks events to leave out beforehand. Fails only when memory runs out. */
fp_code fp_traced_visible(fp_memory *memory, const fp_traced *traced, const int32_t *order, const uint8_t *layer,
                       const uint8_t *hidden, const fp_view *view, uint8_t *visible);

#endif
