/* Searches in random hosts against examining every event. */
#include "kernels/lod_search.h"

#include "tests/check.h"
#include "tests/lods.h"

static const uint8_t WANTED[LOD_NAMES] = {0, 1, 0, 1, 0};

/* Whether an event is before (-1), at (0) or behind (1) a place in the order of start, track, lane. */
static int beside(const fp_lod *lod, size_t at, fp_place place) {
  const fp_lane *lane = lod->lanes + fp_lod_lane_of(lod, (uint32_t)at);
  const int64_t own[] = {lod->start[at], lane->track, lane->lane}, other[] = {place.start, place.track, place.lane};
  for (int i = 0; i < 3; i++)
    if (own[i] != other[i]) return own[i] < other[i] ? -1 : 1;
  return 0;
}

static fp_place place_of(const fp_lod *lod, size_t at) {
  const fp_lane *lane = lod->lanes + fp_lod_lane_of(lod, (uint32_t)at);
  return (fp_place){lod->start[at], lane->track, lane->lane};
}

/* The next wanted event behind (or before) a place, by examining all events. */
static uint32_t next_slowly(const fp_lod *lod, fp_place place, bool forward) {
  uint32_t best = FP_NO_EVENT;
  for (size_t at = 0; at < lod->events; at++) {
    int side = beside(lod, at, place);
    if (!WANTED[lod->name[at]] || side == 0 || (side > 0) != forward) continue;
    if (best == FP_NO_EVENT || (beside(lod, at, place_of(lod, best)) < 0) == forward) best = (uint32_t)at;
  }
  return best;
}

static void hits_are_found_in_the_order_of_time(void) {
  dice chance = {17};
  for (int round = 0; round < 20; round++) {
    made_lod made;
    CHECK(lod_make(&made, 60, 150, round & 1, &chance, -1));
    const fp_lod *lod = &made.lod;
    uint32_t lanes[300];
    CHECK(lod->lane_count <= 299);
    for (uint32_t i = 0; i < lod->lane_count; i++) lanes[i] = i;
    lanes[lod->lane_count] = 4000000; /* there is no such lane */
    uint64_t hits = 0, wanted = 0;
    for (size_t i = 0; i < lod->lane_count; i++) hits += fp_lane_hits(lod, lod->lanes + i, WANTED);
    for (size_t at = 0; at < lod->events; at++) wanted += WANTED[lod->name[at]];
    CHECK_INT(hits, wanted);
    for (int k = 0; k < 60; k++) {
      fp_place place = {(int64_t)roll_below(&chance, 160) - 5, (int64_t)roll_below(&chance, 5) - 1, (int64_t)roll_below(&chance, 6) - 1};
      if (k & 1) place = place_of(lod, roll_below(&chance, lod->events));
      if (k == 2) place = (fp_place){INT64_MIN, -1, -1};
      if (k == 4) place = (fp_place){INT64_MAX, 9, 9};
      for (int forward = 0; forward < 2; forward++)
        CHECK_INT(fp_next_hit(lod, lanes, lod->lane_count + 1, WANTED, place, forward), next_slowly(lod, place, forward));
      uint64_t before = 0, slowly = 0;
      for (size_t i = 0; i < lod->lane_count; i++) before += fp_hits_before(lod, lod->lanes + i, WANTED, place);
      for (size_t at = 0; at < lod->events; at++) slowly += WANTED[lod->name[at]] && beside(lod, at, place) < 0;
      CHECK_INT(before, slowly);
    }
    lod_free(&made);
  }
}

/* Whether one event includes another on the same track. */
static bool encloses(const fp_lod *lod, size_t outer, size_t inner) {
  const fp_lane *one = lod->lanes + fp_lod_lane_of(lod, (uint32_t)outer), *other = lod->lanes + fp_lod_lane_of(lod, (uint32_t)inner);
  return one->track == other->track && one->lane < other->lane && lod->start[outer] <= lod->start[inner] &&
         fp_counted_end(lod->start[outer], lod->duration[outer]) >= fp_counted_end(lod->start[inner], lod->duration[inner]);
}

static void the_lowest_event_that_encloses_another_is_its_parent(void) {
  dice chance = {18};
  for (int round = 0; round < 15; round++) {
    made_lod made;
    CHECK(lod_make(&made, 80, 300, round & 1, &chance, -1));
    const fp_lod *lod = &made.lod;
    uint32_t parent[300], children[300];
    for (size_t at = 0; at < lod->events; at++) {
      parent[at] = FP_NO_EVENT;
      for (size_t outer = 0; outer < lod->events; outer++)
        if (encloses(lod, outer, at)) parent[at] = (uint32_t)outer; /* lanes further down come later */
      CHECK_INT(fp_lod_parent(lod, fp_lod_lane_of(lod, (uint32_t)at), (uint32_t)at), parent[at]);
    }
    for (size_t at = 0; at < lod->events; at++) {
      int64_t count = 0, found = fp_lod_children(lod, (uint32_t)at, children, 300, 100000);
      for (size_t child = 0; child < lod->events; child++)
        if (parent[child] == at) CHECK_INT(children[count++], child);
      CHECK_INT(found, count);
    }
    lod_free(&made);
  }
}

static void children_past_the_effort_are_not_counted(void) {
  const int64_t start[] = {0, 1, 2, 3}, duration[] = {10, 1, 1, 1};
  const uint32_t name[4] = {0}, event[4] = {0};
  const fp_lane lanes[] = {{.first = 0, .count = 1}, {.first = 1, .count = 3, .lane = 1}};
  const fp_lod lod = {.start = start, .duration = duration, .name = name, .event = event, .lanes = lanes, .events = 4,
                      .lane_count = 2, .names = 1};
  uint32_t children[2] = {0};
  CHECK_INT(fp_lod_children(&lod, 0, children, 2, 3), 3);
  CHECK(children[0] == 1 && children[1] == 2);
  CHECK_INT(fp_lod_children(&lod, 0, children, 2, 2), -1);
  CHECK_INT(fp_lod_children(&lod, 2, children, 2, 2), 0);
}

static void names_that_are_not_there_are_no_hits(void) {
  const int64_t start[] = {1}, duration[] = {1};
  const uint32_t name[] = {LOD_NAMES}, event[1] = {0}, numbers[] = {0};
  const fp_lane lane = {.count = 1};
  const fp_lod lod = {.start = start, .duration = duration, .name = name, .event = event, .lanes = &lane, .events = 1,
                      .lane_count = 1, .names = LOD_NAMES};
  CHECK_INT(fp_lane_hits(&lod, &lane, WANTED), 0);
  CHECK_INT(fp_next_hit(&lod, numbers, 1, WANTED, (fp_place){0, -1, -1}, true), FP_NO_EVENT);
}

int main(void) {
  RUN(hits_are_found_in_the_order_of_time);
  RUN(the_lowest_event_that_encloses_another_is_its_parent);
  RUN(children_past_the_effort_are_not_counted);
  RUN(names_that_are_not_there_are_no_hits);
  return 0;
}
