/* Finding events: those of some names, and those around one. */
#ifndef FASTPROF_LOD_SEARCH_H
#define FASTPROF_LOD_SEARCH_H

#include "kernels/lod.h"

#define FP_NO_EVENT UINT32_MAX

/* How many events of a lane have a name for which `wanted`, a byte by name, is not 0. */
uint64_t fp_lane_hits(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted);

/* A place in the order of start, track, lane. */
typedef struct fp_place {
  int64_t start;
  int64_t track, lane; /* -1: before all */
} fp_place;

/* The number of the first wanted event of lanes `lanes` that is past a place, or of the last before it; FP_NO_EVENT: none. */
uint32_t fp_next_hit(const fp_lod *lod, const uint32_t *lanes, size_t lane_count, const uint8_t *wanted, fp_place place,
                     bool forward);
/* How many wanted events of a lane are before a place. */
uint64_t fp_hits_before(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted, fp_place place);

/* The innermost event that encloses an event of lane `lane_number`: FP_NO_EVENT: none does. */
uint32_t fp_lod_parent(const fp_lod *lod, size_t lane_number, uint32_t at);

/* The lane of an event. */
size_t fp_lod_lane_of(const fp_lod *lod, uint32_t at);

/* Events whose parent is `at`, in the order of lane and start: writes the first `most`, and counts all. -1 where more than
 * `effort` events had to be looked at. */
int64_t fp_lod_children(const fp_lod *lod, uint32_t at, uint32_t *children, size_t most, size_t effort);

#endif
