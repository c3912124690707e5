/* Tables of events, lanes and levels: their order, and what is refused. */
#include "kernels/lod.h"

#include "tests/check.h"
#include "tests/lods.h"

static void events_lie_by_track_lane_and_start(void) {
  dice chance = {1};
  for (int round = 0; round < 40; round++) {
    made_lod made;
    CHECK(lod_make(&made, 200, 400, round & 1, &chance, -1));
    const fp_lod *lod = &made.lod;
    CHECK_INT(lod->events, 600);
    CHECK(fp_lod_sound(lod));
    bool met[600] = {0};
    for (size_t k = 0; k < lod->lane_count; k++) {
      const fp_lane *lane = lod->lanes + k;
      CHECK(k == 0 || lane->track > lane[-1].track || lane->lane == lane[-1].lane + 1);
      for (uint32_t i = 0; i < lane->count; i++) {
        const size_t at = lane->first + i;
        CHECK(i == 0 || lod->start[at] >= fp_counted_end(lod->start[at - 1], lod->duration[at - 1]));
        CHECK(!met[lod->event[at]]);
        met[lod->event[at]] = true;
        CHECK_INT(lod->event[at] / 200, lane->track > 1 ? lane->track - 1 : 0);
      }
    }
    lod_free(&made);
  }
}

static void an_unknown_name_is_reported(void) {
  const int64_t start[] = {1, 2}, duration[] = {0, 0};
  const int32_t bad[2][2] = {{0, 3}, {-1, 0}};
  for (int i = 0; i < 2; i++) {
    int64_t starts[2], durations[2];
    uint32_t names[2], events[2];
    fp_memory memory;
    fp_memory_init(&memory);
    fp_lod_group group = {.memory = &memory, .mipmap = {.memory = &memory, .times = {.memory = &memory}}};
    const fp_track_rows rows = {start, duration, bad[i], 2, 0, 0};
    CHECK(fp_lod_track(&group, &rows, 0, 3, &(fp_lod_columns){starts, durations, names, events}) == FP_OUT_OF_RANGE);
    fp_lod_group_free(&group);
    CHECK_INT(memory.live, 0);
  }
}

static void unsorted_events_are_reported_and_nothing_is_added(void) {
  const int64_t start[] = {2, 1}, duration[] = {0, 0};
  const int32_t name[] = {0, 0};
  int64_t starts[2], durations[2];
  uint32_t names[2], events[2];
  fp_memory memory;
  fp_memory_init(&memory);
  fp_lod_group group = {.memory = &memory, .mipmap = {.memory = &memory, .times = {.memory = &memory}}};
  const fp_track_rows rows = {start, duration, name, 2, 0, 0};
  CHECK(fp_lod_track(&group, &rows, 0, 1, &(fp_lod_columns){starts, durations, names, events}) == FP_UNSORTED);
  CHECK(group.events == 0 && group.lanes.count == 0);
  fp_lod_group_free(&group);
}

/* Damages every number of every table: tables that pass as sound must stay within their arrays. */
static void damaged_tables_are_reported(void) {
  dice chance = {8};
  made_lod made;
  CHECK(lod_make(&made, 3000, 200000, false, &chance, -1));
  CHECK(made.lod.level_count > 2);
  for (int round = 0; round < 4000; round++) {
    const bool of_lanes = round & 1;
    uint32_t *numbers = of_lanes ? made.group.lanes.items : made.group.mipmap.levels.items;
    size_t count = of_lanes ? made.lod.lane_count * sizeof(fp_lane) / 4 : made.lod.level_count * sizeof(fp_level) / 4;
    uint32_t *number = numbers + roll_below(&chance, count), before = *number;
    *number = roll_below(&chance, 2) ? (uint32_t)roll(&chance) : before + 1;
    if (fp_lod_sound(&made.lod)) {
      for (size_t i = 0; i < made.lod.lane_count; i++)
        CHECK((uint64_t)made.lod.lanes[i].first + made.lod.lanes[i].count <= made.lod.events);
      for (size_t i = 0; i < made.lod.level_count; i++)
        CHECK(made.lod.levels[i].first + made.lod.levels[i].count <= made.lod.slice_count);
    }
    *number = before;
  }
  lod_free(&made);
}

static void without_memory_it_says_so(void) {
  for (int64_t allowed = 0;; allowed++) {
    dice chance = {2};
    made_lod made;
    bool done = lod_make(&made, 900, 4000, false, &chance, allowed);
    lod_free(&made);
    if (!done) continue;
    CHECK(allowed > 10);
    return;
  }
}

int main(void) {
  RUN(events_lie_by_track_lane_and_start);
  RUN(an_unknown_name_is_reported);
  RUN(unsorted_events_are_reported_and_nothing_is_added);
  RUN(damaged_tables_are_reported);
  RUN(without_memory_it_says_so);
  return 0;
}
