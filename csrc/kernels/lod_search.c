#include "kernels/lod_search.h"

#define WANTED(lod, wanted, at) ((lod)->name[at] < (lod)->names && (wanted)[(lod)->name[at]])

uint64_t fp_lane_hits(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted) {
  uint64_t hits = 0;
  for (size_t i = 0; i < lane->count; i++) hits += WANTED(lod, wanted, lane->first + i);
  return hits;
}

/* Whether a lane comes before (-1), at (0) or behind (1) the lane of a place. */
static int side(const fp_lane *lane, fp_place place) {
  if (lane->track != place.track) return lane->track < place.track ? -1 : 1;
  return lane->lane == place.lane ? 0 : lane->lane < place.lane ? -1 : 1;
}

/* How many events of the lane are before the place, and how many are not behind it. The order is start first, then
 * lane: of events with the place's own start, those of earlier lanes are before it, and those of its own lane are at
 * it. */
static void around(const fp_lod *lod, const fp_lane *lane, fp_place place, size_t *before, size_t *upto) {
  size_t earlier = place.start == INT64_MIN ? 0 : fp_lod_begun(lod, lane, place.start - 1);
  size_t begun = fp_lod_begun(lod, lane, place.start);
  int where = side(lane, place);
  *before = where < 0 ? begun : earlier;
  *upto = where <= 0 ? begun : earlier;
}

uint64_t fp_hits_before(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted, fp_place place) {
  size_t before, upto;
  uint64_t hits = 0;
  around(lod, lane, place, &before, &upto);
  for (size_t i = 0; i < before; i++) hits += WANTED(lod, wanted, lane->first + i);
  return hits;
}

/* The better of `best` and the lane's first wanted event behind the place. Lanes are searched in their order, so of
 * equal starts the first lane wins. */
static uint32_t next_of_lane(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted, fp_place place, uint32_t best) {
  size_t before, upto;
  around(lod, lane, place, &before, &upto);
  for (size_t i = upto; i < lane->count; i++) {
    size_t at = lane->first + i;
    if (best != FP_NO_EVENT && lod->start[at] >= lod->start[best]) return best;
    if (WANTED(lod, wanted, at)) return (uint32_t)at;
  }
  return best;
}

/* The better of `best` and the lane's last wanted event before the place. */
static uint32_t previous_of_lane(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted, fp_place place, uint32_t best) {
  size_t before, upto;
  around(lod, lane, place, &before, &upto);
  for (size_t i = before; i--;) {
    size_t at = lane->first + i;
    if (best != FP_NO_EVENT && lod->start[at] < lod->start[best]) return best;
    if (WANTED(lod, wanted, at)) return (uint32_t)at;
  }
  return best;
}

uint32_t fp_next_hit(const fp_lod *lod, const uint32_t *lanes, size_t lane_count, const uint8_t *wanted, fp_place place,
                     bool forward) {
  uint32_t best = FP_NO_EVENT;
  for (size_t i = 0; i < lane_count; i++) {
    if (lanes[i] >= lod->lane_count) continue;
    const fp_lane *lane = lod->lanes + lanes[i];
    best = forward ? next_of_lane(lod, lane, wanted, place, best) : previous_of_lane(lod, lane, wanted, place, best);
  }
  return best;
}

size_t fp_lod_lane_of(const fp_lod *lod, uint32_t at) {
  size_t low = 0, high = lod->lane_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (lod->lanes[middle].first <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* Whether one event includes another, as drawn. */
static bool encloses(const fp_lod *lod, uint32_t outer, uint32_t inner) {
  int64_t end = fp_counted_end(lod->start[inner], lod->duration[inner]);
  return lod->start[outer] <= lod->start[inner] && fp_counted_end(lod->start[outer], lod->duration[outer]) >= end;
}

/* The encloser is on a lane above (see lanes.h), and on each such lane only the last event begun by then can enclose:
 * events of a lane do not overlap. */
uint32_t fp_lod_parent(const fp_lod *lod, size_t lane_number, uint32_t at) {
  const fp_lane *lane = lod->lanes + lane_number;
  for (uint32_t up = 1; up <= lane->lane && up <= lane_number; up++) {
    const fp_lane *above = lane - up;
    if (above->track != lane->track) break;
    size_t begun = fp_lod_begun(lod, above, lod->start[at]);
    uint32_t outer = above->first + (uint32_t)begun - 1;
    if (begun && encloses(lod, outer, at)) return outer;
  }
  return FP_NO_EVENT;
}

/* Children are on lanes below, among events that begin within `at`. The parent of each candidate is looked up:
 * another event may lie between. */
int64_t fp_lod_children(const fp_lod *lod, uint32_t at, uint32_t *children, size_t most, size_t effort) {
  const size_t own = fp_lod_lane_of(lod, at);
  const fp_lane *lane = lod->lanes + own;
  const int64_t last = fp_counted_end(lod->start[at], lod->duration[at]) - 1;
  int64_t count = 0;
  for (size_t i = own + 1; i < lod->lane_count && lod->lanes[i].track == lane->track; i++) {
    const fp_lane *below = lod->lanes + i;
    const size_t until = fp_lod_begun(lod, below, last);
    const bool at_first = lod->start[at] == INT64_MIN;
    for (size_t k = at_first ? 0 : fp_lod_begun(lod, below, lod->start[at] - 1); k < until; k++) {
      uint32_t child = below->first + (uint32_t)k;
      if (!effort--) return -1;
      if (!encloses(lod, at, child) || fp_lod_parent(lod, i, child) != at) continue;
      if ((size_t)count < most) children[count] = child;
      count++;
    }
  }
  return count;
}
