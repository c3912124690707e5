/* Lanes: rows of a track such that the events of a row do not overlap. */
#ifndef FASTPROF_LANES_H
#define FASTPROF_LANES_H

#include "memory.h"

enum { FP_MOST_LANES = 4096 };

/* An event without a duration, or with a negative one, counts as one picosecond long. */
static inline int64_t fp_counted_end(int64_t start, int64_t duration) {
  int64_t end;
  return __builtin_add_overflow(start, duration > 1 ? duration : 1, &end) ? INT64_MAX : end;
}

/* Writes the lane of each event of a track, which are sorted by start, longer first, and returns how many lanes there are;
 * -1: for want of memory, -2: they are not sorted.
 *
 * An event goes to the first free lane below the lowest event that encloses it entirely: of events that nest properly,
 * lanes are depths. What finds no lane free goes to the last of FP_MOST_LANES: only there may events overlap. */
int32_t fp_lanes(fp_memory *memory, const int64_t *start, const int64_t *duration, size_t count, uint16_t *lane);

/* Orders events by lane, otherwise as they are: order[i] is the event that comes at place i. `first` has room for lanes + 1
 * numbers: where each lane begins. */
void fp_lane_order(const uint16_t *lane, size_t count, size_t lanes, uint32_t *order, uint32_t *first);

#endif
