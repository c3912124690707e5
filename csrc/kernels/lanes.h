/* Lanes: rows of a track such that the events of a row do not overlap. */
#ifndef FASTPROF_LANES_H
#define FASTPROF_LANES_H

#include "memory.h"
#include "status.h"

enum { FP_MOST_LANES = 4096 };

/* Where an event ends for drawing: an event without a duration, or with a negative one, is one picosecond long. */
static inline int64_t fp_counted_end(int64_t start, int64_t duration) {
  int64_t end;
  return __builtin_add_overflow(start, duration > 1 ? duration : 1, &end) ? INT64_MAX : end;
}

/* Writes the lane of each event of a track. Events are sorted by start, longer first, or else it
 * fails with FP_UNSORTED. `found` gets the number of lanes.
 *
 * An event goes to the first free lane below the lowest event that encloses it entirely. So lanes of properly nested
 * events are their depths, and only events that cross need further lanes:
 *
 *    lane 0   |----- A -----|      |-- D --|
 *    lane 1      |- B -|                            B lies in A
 *    lane 2           |--- C ---|                   C crosses the end of A and of B: no event encloses it,
 *                                                   and lanes 0 and 1 are taken
 *
 * An event for which no lane is free goes to the last of FP_MOST_LANES; only there may events overlap. */
fp_code fp_lanes(fp_memory *memory, const int64_t *start, const int64_t *duration, size_t count, uint16_t *lane,
                 int32_t *found);

/* Sorts events by lane, keeping their order within each: order[i] is the event at place i. `first` has room for lanes
 * + 1 numbers and receives where each lane begins. */
void fp_lane_order(const uint16_t *lane, size_t count, size_t lanes, uint32_t *order, uint32_t *first);

#endif
