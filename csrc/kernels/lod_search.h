/* Finding events: those of chosen names, and those around an event. `wanted` is one byte per name, not 0 for chosen
 * names. */
#ifndef FASTPROF_LOD_SEARCH_H
#define FASTPROF_LOD_SEARCH_H

#include "kernels/lod.h"

#define FP_NO_EVENT UINT32_MAX

/* How many events of a lane have a wanted name. */
uint64_t fp_lane_hits(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted);

/* A place in the order of start, track, lane. */
typedef struct fp_place {
  int64_t start;
  int64_t track, lane; /* -1: before all */
} fp_place;

/* The first wanted event of the given lanes behind a place, or, if not `forward`, the last one before it; FP_NO_EVENT
 * if there is none. */
uint32_t fp_next_hit(const fp_lod *lod, const uint32_t *lanes, size_t lane_count, const uint8_t *wanted, fp_place place,
                     bool forward);
/* How many wanted events of a lane are before a place. */
uint64_t fp_hits_before(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted, fp_place place);

/* The innermost event that encloses event `at` of lane `lane_number`; FP_NO_EVENT if none does. */
uint32_t fp_lod_parent(const fp_lod *lod, size_t lane_number, uint32_t at);

/* The index of the lane that an event is on. */
size_t fp_lod_lane_of(const fp_lod *lod, uint32_t at);

/* Counts the events whose parent is `at`, and writes the first `most` of them to `children`, by lane, then start.
 * Returns -1 if more than `effort` events would have to be examined. */
int64_t fp_lod_children(const fp_lod *lod, uint32_t at, uint32_t *children, size_t most, size_t effort);

#endif
