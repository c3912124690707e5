/* Self times against the nesting kernel, and innermost times against counting picosecond by picosecond. */
#include "kernels/op_lines.h"
#include "kernels/time_order.h"

#include "tests/check.h"
#include "tests/message.h"
#include "tests/spans.h"

enum { MOST = 40, RANGE = 60 };

/* Siblings 1 and 2 overlap from 20 to 30: the union of the children is 30 long, their sum 40.
 *
 *   0  |------------------------|                                 self 20, stacked 10
 *   1       |---------|                                           20
 *   2            |---------|                                      15
 *   3             |--|                                            5
 *   4                                                    |----|   10
 */
static void own_time_is_less_the_union_or_the_sum_of_what_lies_within(void) {
  const int64_t start[] = {0, 10, 20, 22, 100, 5}, duration[] = {50, 20, 20, 5, 10, 3};
  const fp_line_rows lines[] = {{0, 5, 0}, {5, 6, 0}};
  int64_t own[6], stacked[6];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_self_times(&memory, start, duration, lines, 2, own, stacked) == FP_CROSSED);
  const int64_t wanted[] = {20, 20, 15, 5, 10, 3}, wanted_stacked[] = {10, 20, 15, 5, 10, 3};
  for (int i = 0; i < 6; i++) CHECK(own[i] == wanted[i] && stacked[i] == wanted_stacked[i]);
  CHECK_INT(memory.live, 0);
}

/* The rows of one line, unsorted: they are sorted in memory of their own. */
static void rows_may_come_in_any_order(void) {
  const int64_t start[] = {20, 0, 22, 10, 0}, duration[] = {20, 5, 5, 20, 50}, wanted[] = {15, 5, 5, 20, 15};
  const fp_line_rows line = {0, 5, 0};
  int64_t own[5];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_self_times(&memory, start, duration, &line, 1, own, NULL) == FP_CROSSED);
  for (int i = 0; i < 5; i++) CHECK_INT(own[i], wanted[i]);
  fp_code result = FP_NO_MEMORY;
  for (int64_t nth = 0; result == FP_NO_MEMORY; nth++) {
    memory.countdown = nth;
    result = fp_self_times(&memory, start, duration, &line, 1, own, NULL);
    CHECK_INT(memory.live, 0);
  }
  CHECK(result == FP_CROSSED);
}

/* Rows far from sorted are merged, others inserted: both give the same order as comparing all pairs. */
static void time_order_is_by_start_then_the_longer_then_as_they_came(void) {
  enum { COUNT = 300 };
  dice chance = {11};
  fp_memory memory;
  fp_memory_init(&memory);
  for (int round = 0; round < 60; round++) {
    int64_t start[COUNT], duration[COUNT], order[COUNT];
    int64_t reach = round % 3 == 0 ? 2 : round % 3 == 1 ? 40 : COUNT;
    for (int64_t i = 0; i < COUNT; i++) {
      start[i] = i + (int64_t)roll_below(&chance, (uint32_t)reach);
      duration[i] = (int64_t)roll_below(&chance, 3);
    }
    if (round % 5 == 0)
      for (int64_t i = 0; i < COUNT; i++) start[i] = -start[i];
    CHECK(fp_time_order(&memory, start, duration, 0, COUNT, order));
    for (int64_t i = 1; i < COUNT; i++) {
      int64_t a = order[i - 1], b = order[i];
      CHECK(start[a] <= start[b]);
      if (start[a] == start[b]) CHECK(duration[a] >= duration[b]);
      if (start[a] == start[b] && duration[a] == duration[b]) CHECK(a < b);
    }
    CHECK_INT(memory.live, 0);
  }
}

static void own_times_are_those_of_the_nesting(void) {
  dice chance = {7};
  fp_memory memory;
  fp_memory_init(&memory);
  for (int round = 0; round < 300; round++) {
    spans line;
    nested slow;
    int64_t own[MOST], stacked[MOST], sums[MOST];
    spans_make(&line, MOST);
    nested_make(&slow, MOST);
    spans_roll(&line, roll_below(&chance, MOST), RANGE, &chance);
    spans_sort(&line);
    memset(line.placement, FP_NESTS, line.count);
    nest_slowly(&line, &slow);
    const fp_line_rows rows = {0, (int64_t)line.count, 0};
    fp_code result = fp_self_times(&memory, line.start, line.duration, &rows, 1, own, stacked);
    CHECK(result <= FP_CROSSED);
    CHECK(result == FP_CROSSED || !memcmp(own, stacked, line.count * 8));
    for (size_t i = 0; i < line.count; i++) sums[i] = line.duration[i];
    for (size_t i = 0; i < line.count; i++)
      if (slow.parent[i] >= 0) sums[slow.parent[i]] -= line.duration[i];
    for (size_t i = 0; i < line.count; i++) CHECK(own[i] == slow.self_time[i] && stacked[i] == sums[i]);
    nested_free(&slow);
    spans_free(&line);
  }
}

/* Whether a chosen event of the line owns the picosecond time..time + 1: it is open then, and either before its first
 * child or between two of its children in the order of rows. */
static bool is_active(const spans *line, const nested *found, const uint8_t *marks, int64_t time) {
  for (size_t row = 0; row < line->count; row++) {
    int64_t from = line->start[row], end = from + (line->duration[row] > 0 ? line->duration[row] : 0);
    bool active = false;
    for (size_t child = 0; child < line->count; child++) {
      if (found->parent[child] != (int64_t)row) continue;
      active |= from <= time && time < line->start[child];
      from = line->start[child] + line->duration[child];
    }
    active |= from <= time && time < end;
    if (active && marks[row] & 2) return true;
  }
  return false;
}

static void innermost_time_is_that_of_counting_each_picosecond(void) {
  enum { LINES = 4 };
  dice chance = {11};
  fp_memory memory;
  fp_memory_init(&memory);
  for (int round = 0; round < 300; round++) {
    int64_t start[LINES * MOST], duration[LINES * MOST];
    uint8_t marks[LINES * MOST];
    fp_line_rows rows[LINES];
    bool active[3 * RANGE] = {false};
    size_t count = 0, line_count = roll_below(&chance, LINES + 1);
    for (size_t i = 0; i < line_count; i++) {
      spans line;
      nested slow;
      spans_make(&line, MOST);
      nested_make(&slow, MOST);
      spans_roll(&line, roll_below(&chance, MOST), RANGE, &chance);
      for (size_t row = 0; row < line.count; row++)
        if (line.duration[row] < 0) line.duration[row] = 0;
      spans_sort(&line);
      memset(line.placement, FP_NESTS, line.count);
      nest_slowly(&line, &slow);
      rows[i] = (fp_line_rows){(int64_t)count, (int64_t)(count + line.count), 0};
      for (size_t row = 0; row < line.count; row++) marks[count + row] = (uint8_t)roll_below(&chance, 4);
      for (int64_t time = 0; time < 3 * RANGE; time++) active[time] |= is_active(&line, &slow, marks + count, time - RANGE);
      memcpy(start + count, line.start, line.count * 8);
      memcpy(duration + count, line.duration, line.count * 8);
      count += line.count;
      nested_free(&slow);
      spans_free(&line);
    }
    uint64_t time, wanted = 0;
    for (int i = 0; i < 3 * RANGE; i++) wanted += active[i];
    CHECK(fp_innermost_time(&memory, start, duration, marks, 2, rows, line_count, &time) == FP_OK);
    CHECK_INT(time, wanted);
    CHECK_INT(memory.live, 0);
  }
}

static void many_lines_are_merged_in_order(void) {
  enum { LINES = 9, EVENTS = 1000 };
  static int64_t start[LINES * EVENTS], duration[LINES * EVENTS];
  static uint8_t marks[LINES * EVENTS];
  fp_line_rows rows[LINES];
  for (int i = 0; i < LINES * EVENTS; i++) {
    start[i] = i % EVENTS * LINES + i / EVENTS; /* one after the other, on one line after the other */
    duration[i] = 1;
    marks[i] = i / EVENTS != 3;
    rows[i / EVENTS] = (fp_line_rows){i / EVENTS * EVENTS, (i / EVENTS + 1) * EVENTS, 0};
  }
  fp_memory memory;
  fp_memory_init(&memory);
  uint64_t time;
  CHECK(fp_innermost_time(&memory, start, duration, marks, 1, rows, LINES, &time) == FP_OK);
  CHECK_INT(time, (LINES - 1) * EVENTS);
}

static void negative_durations_count_as_none_and_late_ones_are_cut(void) {
  const int64_t start[] = {0, 5, INT64_MAX - 5}, duration[] = {10, -3, 100};
  const uint8_t marks[] = {1, 1, 1};
  const fp_line_rows line = {0, 3, 0};
  fp_memory memory;
  fp_memory_init(&memory);
  uint64_t time;
  CHECK(fp_innermost_time(&memory, start, duration, marks, 1, &line, 1, &time) == FP_OK);
  CHECK_INT(time, 15);
}

static void the_extent_is_from_the_first_begin_to_the_last_end(void) {
  const int64_t start[] = {7, 3, 20, INT64_MAX - 1}, duration[] = {100, 1, -50, 2};
  int64_t begin, end;
  CHECK(fp_extent(start, duration, 3, &begin, &end) == FP_OK);
  CHECK(begin == 3 && end == 107);
  CHECK(fp_extent(start, duration, 4, &begin, &end) != FP_OK);
}

static void running_out_of_memory_is_reported(void) {
  const int64_t start[] = {0, 2, 5}, duration[] = {10, 2, 2};
  const uint8_t marks[] = {1, 1, 1};
  const fp_line_rows line = {0, 3, 0};
  int64_t own[3];
  uint64_t time;
  for (int64_t allocations = 0; allocations < 10; allocations++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allocations;
    fp_code result = fp_self_times(&memory, start, duration, &line, 1, own, NULL);
    CHECK(result == (allocations >= 1 ? FP_OK : FP_NO_MEMORY));
    memory.countdown = allocations;
    bool done = fp_innermost_time(&memory, start, duration, marks, 1, &line, 1, &time) == FP_OK;
    CHECK(done == (allocations >= 4));
    CHECK_INT(memory.live, 0);
  }
}

int main(void) {
  RUN(own_time_is_less_the_union_or_the_sum_of_what_lies_within);
  RUN(rows_may_come_in_any_order);
  RUN(time_order_is_by_start_then_the_longer_then_as_they_came);
  RUN(own_times_are_those_of_the_nesting);
  RUN(innermost_time_is_that_of_counting_each_picosecond);
  RUN(many_lines_are_merged_in_order);
  RUN(negative_durations_count_as_none_and_late_ones_are_cut);
  RUN(the_extent_is_from_the_first_begin_to_the_last_end);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
