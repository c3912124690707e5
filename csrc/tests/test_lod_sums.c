/* Sums over windows of random hosts against adding up every event; and limits of 64 bits. */
#include "kernels/lod_sums.h"

#include "tests/check.h"
#include "tests/lods.h"

typedef struct slow_sum {
  int64_t count, total, clipped, least, most, longest;
} slow_sum;

/* Adds one event to the sums, clipped to the window. */
static void add_slowly(slow_sum *sums, const fp_lod *lod, size_t at, int64_t from, int64_t last) {
  slow_sum *sum = sums + lod->name[at];
  int64_t duration = lod->duration[at] > 0 ? lod->duration[at] : 0, start = lod->start[at], end = start + duration;
  int64_t inside = (end < last + 1 ? end : last + 1) - (start > from ? start : from);
  if (!sum->count || duration < sum->least) sum->least = duration;
  if (!sum->count || duration > sum->most) sum->most = duration, sum->longest = (int64_t)at;
  sum->count++;
  sum->total += duration;
  sum->clipped += inside > 0 ? inside : 0;
}

static void compare(const fp_range_sums *found, const slow_sum *wanted) {
  size_t names = 0;
  const fp_range_sum *sums = found->sums.items;
  for (int n = 0; n < LOD_NAMES; n++) names += wanted[n].count > 0;
  CHECK_INT(found->sums.count, names);
  for (size_t i = 0; i < names; i++) {
    const slow_sum *sum = wanted + sums[i].name;
    CHECK_INT(sums[i].count, sum->count);
    CHECK_INT(sums[i].total, sum->total);
    CHECK_INT(sums[i].clipped, sum->clipped);
    CHECK_INT(sums[i].least, sum->least);
    CHECK_INT(sums[i].most, sum->most);
    CHECK_INT(sums[i].longest, sum->longest);
  }
}

static void sums_of_a_window_are_those_of_its_events(void) {
  dice chance = {12};
  for (int round = 0; round < 60; round++) {
    made_lod made;
    CHECK(lod_make(&made, 150, 1000, round & 1, &chance, -1));
    const fp_lod *lod = &made.lod;
    const int64_t from = (int64_t)roll_below(&chance, 1200) - 100, last = from + (int64_t)roll_below(&chance, 700);
    slow_sum wanted[LOD_NAMES] = {{0}};
    for (size_t at = 0; at < lod->events; at++)
      if (lod->start[at] <= last && fp_counted_end(lod->start[at], lod->duration[at]) > from) add_slowly(wanted, lod, at, from, last);
    fp_memory memory;
    fp_memory_init(&memory);
    fp_range_sums sums = {.memory = &memory};
    for (size_t i = 0; i < lod->lane_count; i++) CHECK(fp_sum_lane(&sums, lod, lod->lanes + i, from, last) == FP_OK);
    compare(&sums, wanted);
    fp_range_sums_free(&sums);
    CHECK_INT(memory.live, 0);
    lod_free(&made);
  }
}

static void sums_of_a_run_are_not_clipped(void) {
  dice chance = {13};
  made_lod made;
  CHECK(lod_make(&made, 150, 1000, false, &chance, -1));
  slow_sum wanted[LOD_NAMES] = {{0}};
  for (size_t at = 40; at < 90; at++) add_slowly(wanted, &made.lod, at, INT64_MIN / 2, INT64_MAX / 2);
  fp_memory memory;
  fp_memory_init(&memory);
  fp_range_sums sums = {.memory = &memory};
  CHECK(fp_sum_run(&sums, &made.lod, 40, 50) == FP_OK);
  compare(&sums, wanted);
  CHECK(fp_sum_run(&sums, &made.lod, made.lod.events - 1, SIZE_MAX) == FP_OK && fp_sum_run(&sums, &made.lod, made.lod.events, 5) == FP_OK);
  fp_range_sums_free(&sums);
  lod_free(&made);
}

static void where_events_overlap_long_ones_from_before_count(void) {
  const int64_t start[] = {0, 1, 2}, duration[] = {1000, 5, 5};
  const uint32_t name[] = {0, 0, 0}, event[3] = {0};
  const fp_lane lane = {.count = 3, .lane = FP_MOST_LANES - 1};
  const fp_lod lod = {.start = start, .duration = duration, .name = name, .event = event, .lanes = &lane, .events = 3,
                      .lane_count = 1, .names = 1};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_range_sums sums = {.memory = &memory};
  CHECK(fp_sum_lane(&sums, &lod, &lane, 500, 599) == FP_OK);
  const fp_range_sum *sum = sums.sums.items;
  CHECK(sums.sums.count == 1 && sum->count == 1 && sum->total == 1000 && sum->clipped == 100);
  fp_range_sums_free(&sums);
}

static void sums_that_64_bits_cannot_hold_are_the_largest_number(void) {
  const int64_t start[] = {INT64_MIN, 0}, duration[] = {INT64_MAX, INT64_MAX};
  const uint32_t name[] = {0, 0}, event[2] = {0};
  const fp_lane lane = {.count = 2};
  const fp_lod lod = {.start = start, .duration = duration, .name = name, .event = event, .lanes = &lane, .events = 2,
                      .lane_count = 1, .names = 1};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_range_sums sums = {.memory = &memory};
  CHECK(fp_sum_lane(&sums, &lod, &lane, INT64_MIN, INT64_MAX) == FP_OK);
  const fp_range_sum *sum = sums.sums.items;
  CHECK(sum->count == 2 && sum->total == INT64_MAX && sum->clipped == INT64_MAX && sum->least == INT64_MAX);
  fp_range_sums_free(&sums);
}

static void names_that_are_not_there_are_left_out(void) {
  const int64_t start[] = {1}, duration[] = {1};
  const uint32_t name[] = {7}, event[1] = {0};
  const fp_lane lane = {.count = 1};
  const fp_lod lod = {.start = start, .duration = duration, .name = name, .event = event, .lanes = &lane, .events = 1,
                      .lane_count = 1, .names = 7};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_range_sums sums = {.memory = &memory};
  CHECK(fp_sum_lane(&sums, &lod, &lane, 0, 10) == FP_OK && sums.sums.count == 0);
  fp_range_sums_free(&sums);
}

static void without_memory_it_says_so(void) {
  dice chance = {6};
  made_lod made;
  CHECK(lod_make(&made, 50, 1000, false, &chance, -1));
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    fp_range_sums sums = {.memory = &memory};
    bool done = fp_sum_lane(&sums, &made.lod, made.lod.lanes, 0, 1000) == FP_OK && fp_sum_run(&sums, &made.lod, 0, 10) == FP_OK;
    fp_range_sums_free(&sums);
    CHECK_INT(memory.live, 0);
    if (!done) continue;
    CHECK(allowed >= 2);
    break;
  }
  lod_free(&made);
}

int main(void) {
  RUN(sums_of_a_window_are_those_of_its_events);
  RUN(sums_of_a_run_are_not_clipped);
  RUN(where_events_overlap_long_ones_from_before_count);
  RUN(sums_that_64_bits_cannot_hold_are_the_largest_number);
  RUN(names_that_are_not_there_are_left_out);
  RUN(without_memory_it_says_so);
  return 0;
}
