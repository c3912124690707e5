/* Levels of detail: the events of a lane joined into slices, coarser from level to level.
 *
 *    events     |-| || |---| |  |-----------------|  | ||
 *    level k    |============|  |=================|  |==|
 *
 * What is shorter than 2^k ps and close together is one slice; a longer event is a slice of its own. */
#ifndef FASTPROF_MIPMAP_H
#define FASTPROF_MIPMAP_H

#include "kernels/lanes.h"
#include "kernels/name_times.h"
#include "memory.h"

enum { FP_COARSEST = 54 };

/* Neighbouring events of a lane, or one event. `first` is the number of its first event on the lane; its last is the
 * one before the next slice's first. `busy` is the sum of the events' times, `name` the name with the most of it. */
typedef struct fp_slice {
  int64_t start, end, busy;
  uint32_t first, name;
} fp_slice;

/* The slices of a lane at one level: `count` of them from number `first` on. */
typedef struct fp_level {
  uint64_t first;
  uint32_t count, level;
} fp_level;

/* A lane: events first .. first + count of a track, and its levels, finest first. */
typedef struct fp_lane {
  uint32_t first, count, track, lane, first_level, levels;
} fp_lane;

/* The end of event i on its lane: where the next one begins if they overlap, as they may on the last lane. */
static inline int64_t fp_lane_end(const int64_t *start, const int64_t *duration, size_t i, size_t count) {
  int64_t end = fp_counted_end(start[i], duration[i]);
  return i + 1 < count && start[i + 1] < end ? start[i + 1] : end;
}

/* The time of an event that ends at `end` on its lane. */
static inline int64_t fp_lane_busy(int64_t start, int64_t duration, int64_t end) {
  uint64_t length = (uint64_t)end - (uint64_t)start;
  return duration <= 0 ? 0 : (uint64_t)duration > length ? (int64_t)length : duration;
}

static inline int fp_bits(uint64_t value) { return value ? 64 - __builtin_clzll(value) : 0; }

/* The level from which on two neighbours are in the same slice. At level k time is divided into buckets of 2^k ps;
 * two neighbours are joined if both are shorter than a bucket and begin in the same one. They begin in the same
 * bucket if their starts agree in all bits from k on, that is, if the exclusive or of the starts has at most k bits.
 * So the level is the maximum of three bit counts. It does not depend on other events, so slices of level k + 1 are
 * unions of slices of level k. */
static inline int fp_joined_from(int64_t start, int64_t end, int64_t next_start, int64_t next_end) {
  int near = fp_bits((uint64_t)start ^ (uint64_t)next_start);
  int length = fp_bits((uint64_t)end - (uint64_t)start), next_length = fp_bits((uint64_t)next_end - (uint64_t)next_start);
  int longer = length > next_length ? length : next_length;
  return near > longer ? near : longer;
}

/* The levels of many lanes. Zeroed memory with `memory` set, also that of `times`, is empty; fp_mipmap_free releases
 * it. */
typedef struct fp_mipmap {
  fp_memory *memory;
  fp_name_times times;
  fp_vector slices, levels; /* fp_slice; fp_level, whose `first` is an index of `slices` */
  fp_vector sums;           /* fp_name_time: the names of each slice of the level that was made last */
  fp_vector bounds;         /* for each of these slices: where its sums begin, and its level of joining the next */
} fp_mipmap;

/* Adds the levels of a lane that are worth keeping, and writes to `lane` which they are; lane->count is the number of
 * its events. Names are below `names`. A level is worth keeping where it has few slices compared with the events and
 * with the next finer level. Levels in between are computed from the next finer kept one, or from the events, when
 * they are drawn. Fails only when memory runs out. */
bool fp_mipmap_add(fp_mipmap *mipmap, const int64_t *start, const int64_t *duration, const uint32_t *name, size_t names,
                   fp_lane *lane);
void fp_mipmap_free(fp_mipmap *mipmap);

#endif
