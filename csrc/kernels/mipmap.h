/* Level of detail: the events of a lane in slices, coarser from level to level. */
#ifndef FASTPROF_MIPMAP_H
#define FASTPROF_MIPMAP_H

#include "kernels/lanes.h"
#include "kernels/name_times.h"
#include "memory.h"

enum { FP_COARSEST = 54 };

/* Events of a lane that are next to each other, or one event. `first`: the number of the first one on its lane; the last is
 * the one before the next slice's first. `busy`: their time; `name`: the one with the most of it. */
typedef struct fp_slice {
  int64_t start, end, busy;
  uint32_t first, name;
} fp_slice;

/* Slices of a lane: `count` from number `first` on. */
typedef struct fp_level {
  uint64_t first;
  uint32_t count, level;
} fp_level;

/* Events `first` to `first` + `count`, and their levels, finer ones first. */
typedef struct fp_lane {
  uint32_t first, count, track, lane, first_level, levels;
} fp_lane;

/* Where an event ends on its lane: where the next begins, if it overlaps that, as on the last lane of all. */
static inline int64_t fp_lane_end(const int64_t *start, const int64_t *duration, size_t i, size_t count) {
  int64_t end = fp_counted_end(start[i], duration[i]);
  return i + 1 < count && start[i + 1] < end ? start[i + 1] : end;
}

/* What an event, which ends there on its lane, takes of time. */
static inline int64_t fp_lane_busy(int64_t start, int64_t duration, int64_t end) {
  uint64_t length = (uint64_t)end - (uint64_t)start;
  return duration <= 0 ? 0 : (uint64_t)duration > length ? (int64_t)length : duration;
}

static inline int fp_bits(uint64_t value) { return value ? 64 - __builtin_clzll(value) : 0; }

/* The level from which on two neighbours are one slice: at level k, buckets are 2^k ps long, and what is shorter than a
 * bucket is joined with what follows if that is shorter too and begins in the same bucket. */
static inline int fp_joined_from(int64_t start, int64_t end, int64_t next_start, int64_t next_end) {
  int near = fp_bits((uint64_t)start ^ (uint64_t)next_start);
  int length = fp_bits((uint64_t)end - (uint64_t)start), next_length = fp_bits((uint64_t)next_end - (uint64_t)next_start);
  int longer = length > next_length ? length : next_length;
  return near > longer ? near : longer;
}

/* The levels of many lanes. Zeroed memory with `memory` set, also that of `times`, begins it; fp_mipmap_free ends it. */
typedef struct fp_mipmap {
  fp_memory *memory;
  fp_name_times times;
  fp_vector slices, levels; /* fp_slice, fp_level: whose `first` counts from the first of these slices */
  fp_vector sums;           /* fp_name_time: of the names of each slice of the level just made */
  fp_vector bounds;         /* of these slices: where their sums begin, and from which level on the next joins them */
} fp_mipmap;

/* Adds the levels of a lane that are worth keeping, and says in `lane` which ones they are; its `count` says how many events
 * it has. Names are below `names`. A level is kept where it has few slices beside events and finer levels; what is not kept
 * is found of the next finer one that is, or of the events, at little cost. False for want of memory. */
bool fp_mipmap_add(fp_mipmap *mipmap, const int64_t *start, const int64_t *duration, const uint32_t *name, size_t names,
                   fp_lane *lane);
void fp_mipmap_free(fp_mipmap *mipmap);

#endif
