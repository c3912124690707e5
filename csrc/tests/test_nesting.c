/* Nesting: each rule by example, and random spans against the definition in spans.c, in stretches of any length. */
#include "kernels/nesting.h"

#include "tests/check.h"
#include "tests/spans.h"

/* A line of up to eight events that all nest, in one stretch. */
typedef struct small {
  int32_t depth[8];
  int64_t parent[8], self_time[8];
} small;

static small nest(const int64_t (*times)[2], size_t count) {
  int64_t start[8], duration[8];
  for (size_t i = 0; i < count; i++) start[i] = times[i][0], duration[i] = times[i][1];
  small out;
  fp_memory memory;
  fp_memory_init(&memory);
  const fp_line_rows line = {0, (int64_t)count, 0};
  CHECK(fp_nesting_lines(&memory, start, duration, NULL, &line, 1, 0, out.depth, out.parent, out.self_time) == FP_OK);
  CHECK_INT(memory.live, 0);
  return out;
}

/* Self time is the duration less the direct children:
 *
 *   0  |-------------------------------------------------|   self 100 - 20 - 30
 *   1       |---------|                                      self 20 - 5
 *   2        |-|                                             self 5
 *   3                      |--------------|                  self 30
 */
static void children_take_their_time_from_their_parent(void) {
  const int64_t times[][2] = {{0, 100}, {10, 20}, {12, 5}, {40, 30}};
  small out = nest(times, 4);
  const int64_t parents[] = {-1, 0, 1, 0}, selves[] = {50, 15, 5, 30};
  for (int i = 0; i < 4; i++) {
    CHECK_INT(out.parent[i], parents[i]);
    CHECK_INT(out.self_time[i], selves[i]);
  }
  CHECK(out.depth[0] == 0 && out.depth[1] == 1 && out.depth[2] == 2 && out.depth[3] == 1);
}

/* Three equal spans form a chain: only the last has time of its own. */
static void of_equal_spans_the_second_lies_under_the_first(void) {
  const int64_t times[][2] = {{5, 10}, {5, 10}, {5, 10}};
  small out = nest(times, 3);
  CHECK(out.parent[0] == -1 && out.parent[1] == 0 && out.parent[2] == 1);
  CHECK(out.self_time[0] == 0 && out.self_time[1] == 0 && out.self_time[2] == 10);
}

/* An end that is reached exactly still encloses, even for an event of no length at that point. */
static void spans_may_share_an_end(void) {
  const int64_t times[][2] = {{0, 10}, {5, 5}, {10, 0}};
  small out = nest(times, 3);
  CHECK(out.parent[1] == 0 && out.parent[2] == 1 && out.self_time[0] == 5 && out.self_time[1] == 5);
}

/* Event 2 begins inside event 1 and ends behind it, so both are children of event 0:
 *
 *   0  |-------------------------------------------------|   self 100 - (10..40)
 *   1       |---------|
 *   2            |---------|
 */
static void an_event_that_crosses_an_end_is_not_inside(void) {
  const int64_t times[][2] = {{0, 100}, {10, 20}, {20, 20}};
  small out = nest(times, 3);
  CHECK(out.parent[2] == 0 && out.depth[2] == 1);
  CHECK_INT(out.self_time[0], 70); /* the union of both children is 30 long */
  CHECK(out.self_time[1] == 20 && out.self_time[2] == 20);
}

/* An event that ends before it starts is a leaf: nothing can lie in it, but it can lie in another. */
static void negative_durations_enclose_nothing(void) {
  const int64_t times[][2] = {{0, -5}, {1, 3}, {2, -1}};
  small out = nest(times, 3);
  CHECK(out.parent[0] == -1 && out.parent[1] == -1 && out.self_time[0] == -5);
  CHECK(out.parent[2] == 1 && out.self_time[1] == 3 && out.self_time[2] == -1);
}

static void times_at_the_ends_of_64_bits_do_not_overflow(void) {
  const int64_t times[][2] = {{INT64_MIN, INT64_MAX}, {INT64_MIN, 0}, {-2, 1}, {5, INT64_MAX}, {6, INT64_MAX}, {7, INT64_MIN}};
  small out = nest(times, 6);
  CHECK_INT(out.self_time[0], INT64_MAX - 1);
  CHECK(out.parent[1] == 0 && out.parent[2] == 0);
  /* ends behind the last possible time count as the last time, so part of the fourth is not covered */
  CHECK(out.parent[4] == 3 && out.self_time[3] == 6 && out.self_time[4] == INT64_MAX);
  CHECK_INT(out.parent[5], 4);
}

static void asynchronous_and_timeless_events_stay_out(void) {
  const int64_t start[] = {0, 1, 2, 3}, duration[] = {10, 8, 7, 2};
  const uint8_t placement[] = {FP_NESTS, FP_APART, FP_TIMELESS, FP_NESTS};
  int32_t depth[4] = {-7, -7, -7, -7};
  int64_t parent[4] = {-7, -7, -7, -7}, self_time[4] = {-7, -7, -7, -7};
  fp_memory memory;
  fp_memory_init(&memory);
  const fp_line_rows line = {0, 4, 50};
  CHECK(fp_nesting_lines(&memory, start, duration, placement, &line, 1, 0, depth, parent, self_time) == FP_OK);
  CHECK(depth[1] == 0 && parent[1] == -1 && self_time[1] == 8);
  CHECK(depth[2] == -7 && parent[2] == -7 && self_time[2] == -7);
  CHECK(parent[3] == 50 && depth[3] == 1 && self_time[0] == 8);
}

static void lines_know_nothing_of_each_other(void) {
  const int64_t start[] = {0, 1, 1, 2}, duration[] = {10, 5, 5, 1};
  int32_t depth[4];
  int64_t parent[4], self_time[4];
  fp_memory memory;
  fp_memory_init(&memory);
  const fp_line_rows lines[] = {{0, 2, 0}, {2, 2, 2}, {2, 4, 100}};
  CHECK(fp_nesting_lines(&memory, start, duration, NULL, lines, 3, 0, depth, parent, self_time) == FP_OK);
  CHECK(parent[1] == 0 && parent[2] == -1 && parent[3] == 100);
  CHECK(self_time[0] == 5 && self_time[2] == 4);
}

static void random_spans_nest_as_the_definition_says(void) {
  dice chance = {11};
  for (int round = 0; round < 1500; round++) {
    spans line;
    spans_make(&line, 200);
    spans_roll(&line, (size_t)roll_below(&chance, 200), 1 + (int64_t)roll_below(&chance, 300), &chance);
    line.slack = round % 4;
    nested wanted, found;
    nested_make(&wanted, line.count);
    nested_make(&found, line.count);
    nest_slowly(&line, &wanted);
    nest_in_stretches(&line, &found, line.count + 1, &chance);
    nested_compare(&wanted, &found, line.count);
    nested_free(&wanted);
    nested_free(&found);
    spans_free(&line);
  }
}

static void stretches_of_any_length_give_the_same(void) {
  dice chance = {12};
  for (int round = 0; round < 600; round++) {
    spans line;
    spans_make(&line, 100);
    spans_roll(&line, (size_t)roll_below(&chance, 100), 200, &chance);
    line.slack = round % 3;
    nested wanted, found;
    nested_make(&wanted, line.count);
    nested_make(&found, line.count);
    nest_slowly(&line, &wanted);
    for (size_t largest = 1; largest < 40; largest += 7) {
      nest_in_stretches(&line, &found, largest, &chance);
      nested_compare(&wanted, &found, line.count);
    }
    nested_free(&wanted);
    nested_free(&found);
    spans_free(&line);
  }
}

static void without_memory_it_says_so(void) {
  int64_t start[200], duration[200], parent[200], self_time[200];
  int32_t depth[200];
  for (int i = 0; i < 200; i++) start[i] = i, duration[i] = 1000 - i;
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    fp_nesting nesting = {.memory = &memory};
    bool done = true;
    for (int i = 0; done && i < 200; i += 20)
      done = fp_nesting_push(&nesting, start + i, duration + i, NULL, 20, i, i == 180, depth + i, parent + i, self_time + i) == FP_OK;
    fp_nesting_free(&nesting);
    fp_nesting_free(&nesting);
    CHECK_INT(memory.live, 0);
    if (!done) continue;
    CHECK(allowed > 8);
    return;
  }
}

int main(void) {
  RUN(children_take_their_time_from_their_parent);
  RUN(of_equal_spans_the_second_lies_under_the_first);
  RUN(spans_may_share_an_end);
  RUN(an_event_that_crosses_an_end_is_not_inside);
  RUN(negative_durations_enclose_nothing);
  RUN(times_at_the_ends_of_64_bits_do_not_overflow);
  RUN(asynchronous_and_timeless_events_stay_out);
  RUN(lines_know_nothing_of_each_other);
  RUN(random_spans_nest_as_the_definition_says);
  RUN(stretches_of_any_length_give_the_same);
  RUN(without_memory_it_says_so);
  return 0;
}
