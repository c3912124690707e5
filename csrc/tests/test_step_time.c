/* Step time: each rule by example, the limits of 64 bits, and random events whose times must be the same with and
 * without lines. */
#include "kernels/step_time.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 64, GROUPS = 4, HOST_COMPUTE = 1, WAIT = 11, COMPUTE = 14 };

typedef struct event {
  int32_t group;
  uint8_t type;
  int64_t start, duration;
} event;

typedef struct result {
  int64_t total[GROUPS][FP_EVENT_TYPES], clipped[GROUPS][FP_EVENT_TYPES];
  uint8_t seen[GROUPS][FP_EVENT_TYPES];
} result;

/* Runs the kernel; false if memory ran out. */
static bool flatten(fp_memory *memory, const event *events, size_t count, const int64_t *lines, size_t line_count,
                    const int64_t clip[GROUPS][2], result *out) {
  int32_t group[MOST];
  uint8_t type[MOST];
  int64_t start[MOST], duration[MOST];
  for (size_t i = 0; i < count; i++)
    group[i] = events[i].group, type[i] = events[i].type, start[i] = events[i].start, duration[i] = events[i].duration;
  memset(out, 0, sizeof *out);
  const fp_typed_events typed = {group, type, start, duration, count, lines, line_count};
  const fp_step_times times = {clip ? &clip[0][0] : NULL, out->total[0], clip ? out->clipped[0] : NULL, out->seen[0], GROUPS};
  bool done = fp_step_time(memory, &typed, &times) == FP_OK;
  CHECK_INT(memory->live, 0);
  return done;
}

/* The times of four groups, with steps of different kinds: inside the events, around them, empty, and all of time. */
static result flattened(const event *events, size_t count, const int64_t *lines, size_t line_count) {
  static const int64_t steps[GROUPS][2] = {{10, 90}, {0, 1000}, {0, 0}, {INT64_MIN, INT64_MAX}};
  fp_memory memory;
  fp_memory_init(&memory);
  result out;
  CHECK(flatten(&memory, events, count, lines, line_count, steps, &out));
  return out;
}

/* The step is 10..90. Pieces of the group, and the type that each counts for:
 *
 *   host compute  |-------------------------------------------------|             0..20, 50..100 = 70
 *   wait                    |--------------|                                      20..40, 45..50 = 25
 *   compute                           |-|                                         5
 *   nothing                                                         |----|        10
 *   host compute                                                         |----|   10
 */
static void the_higher_type_has_the_time(void) {
  const event events[] = {{0, HOST_COMPUTE, 0, 100}, {0, WAIT, 20, 30}, {0, COMPUTE, 40, 5}, {0, HOST_COMPUTE, 110, 10}};
  result out = flattened(events, 4, NULL, 0);
  CHECK_INT(out.total[0][HOST_COMPUTE], 80);
  CHECK_INT(out.total[0][WAIT], 25);
  CHECK_INT(out.total[0][COMPUTE], 5);
  CHECK_INT(out.total[0][0], 10); /* between the first and the last, nothing is open */
  CHECK_INT(out.clipped[0][HOST_COMPUTE], 50);
  CHECK_INT(out.clipped[0][WAIT], 25);
  CHECK_INT(out.clipped[0][0], 0);
  CHECK(!out.seen[0][0] && out.seen[0][HOST_COMPUTE] && out.seen[0][WAIT] && out.seen[0][COMPUTE] && !out.seen[0][13]);
}

/* Groups -1 and GROUPS and type 255 are out of range: these rows count nowhere. */
static void groups_do_not_mix_and_some_rows_are_of_none(void) {
  const event events[] = {{1, WAIT, 0, 10}, {0, WAIT, 5, 10}, {-1, WAIT, 0, 99}, {GROUPS, WAIT, 0, 99},
                          {1, 255, 0, 99},  {3, WAIT, 7, 1}};
  result out = flattened(events, 6, NULL, 0);
  CHECK(out.total[1][WAIT] == 10 && out.total[0][WAIT] == 10 && out.total[3][WAIT] == 1);
  CHECK(out.total[1][0] == 0 && out.seen[2][0] == 0);
}

/* Ends come before starts: an event of no length closes its type and opens it again, if another event has it open. */
static void an_event_of_no_length_lets_lower_types_be_seen(void) {
  const event events[] = {{0, WAIT, 0, 100}, {0, HOST_COMPUTE, 10, 20}, {0, WAIT, 15, 0}};
  const int64_t three[] = {0, 3}, two[] = {0, 2};
  result with = flattened(events, 3, three, 1), without = flattened(events, 2, two, 1);
  CHECK(with.seen[0][HOST_COMPUTE] && !without.seen[0][HOST_COMPUTE]);
  CHECK(with.total[0][HOST_COMPUTE] == 0 && with.total[0][WAIT] == 100);
}

/* An event of no length alone: its end counts first, so its type stays open until a higher one ends. */
static void an_event_of_no_length_alone_holds_its_type(void) {
  const event events[] = {{0, WAIT, 0, 0}, {0, COMPUTE, 10, 5}, {0, HOST_COMPUTE, 20, 5}};
  result out = flattened(events, 3, NULL, 0);
  CHECK(out.total[0][WAIT] == 10 && out.total[0][COMPUTE] == 5 && out.total[0][0] == 5 && out.total[0][HOST_COMPUTE] == 5);
}

/* The step of group 2 is empty: all of its events lie outside, and only the clipped times notice. */
static void a_step_may_lie_outside(void) {
  const event events[] = {{2, WAIT, 5, 10}, {2, COMPUTE, -20, 10}};
  result out = flattened(events, 2, NULL, 0);
  for (int type = 0; type < FP_EVENT_TYPES; type++) CHECK_INT(out.clipped[2][type], 0);
  CHECK(out.seen[2][WAIT] && out.seen[2][COMPUTE] && out.total[2][0] == 15);
}

static void any_times_are_taken(void) {
  const event events[] = {{0, WAIT, INT64_MIN, INT64_MAX}, {0, WAIT, INT64_MAX, INT64_MAX}, {0, COMPUTE, 5, -10},
                          {0, COMPUTE, INT64_MIN, -10},    {0, COMPUTE, 0, INT64_MAX},      {1, COMPUTE, INT64_MAX, 0},
                          {3, WAIT, 7, -INT64_MAX},        {3, WAIT, 8, INT64_MIN}};
  result out = flattened(events, 8, NULL, 0);
  for (int group = 0; group < GROUPS; group++)
    for (int type = 0; type < FP_EVENT_TYPES; type++) CHECK(out.total[group][type] >= 0 && out.clipped[group][type] >= 0);
  CHECK(out.total[1][COMPUTE] == 0 && !out.seen[1][WAIT]);
  const event longest[] = {{3, WAIT, INT64_MIN, INT64_MAX}, {3, COMPUTE, 0, INT64_MAX}};
  out = flattened(longest, 2, NULL, 0);
  CHECK(out.total[3][WAIT] == INT64_MAX && out.total[3][0] == 1 && out.clipped[3][COMPUTE] == INT64_MAX);
}

/* Nine days do not fit the keys of the quick path. */
static void days_are_measured_to_the_picosecond(void) {
  const int64_t day = INT64_C(86400000000000000);
  const event events[] = {{3, HOST_COMPUTE, 0, 9 * day + 1}, {3, WAIT, 5, 3}, {3, WAIT, 8 * day, 7}};
  result out = flattened(events, 3, NULL, 0);
  CHECK(out.total[3][HOST_COMPUTE] == 9 * day - 9 && out.total[3][WAIT] == 10);
}

/* Lines only allow rows to be left out: the times of random events are the same with any number of lines. */
static void lines_change_nothing(void) {
  dice chance = {11};
  const uint8_t types[] = {HOST_COMPUTE, WAIT, COMPUTE, 10};
  for (int round = 0; round < 3000; round++) {
    event events[MOST];
    int64_t lines[MOST + 1] = {0};
    size_t count = 0, line_count = 0, most = 1 + roll_below(&chance, 40);
    while (count < most) {
      int64_t at = 0, last = INT64_MAX;
      size_t in_line = 1 + roll_below(&chance, most - count);
      for (size_t i = 0; i < in_line; i++, count++) {
        int64_t step = (int64_t)roll_below(&chance, 4), length = (int64_t)roll_below(&chance, 12);
        if (step == 0 && length > last) length = last; /* of equal starts the longer first */
        at += step;
        last = length;
        if (roll_below(&chance, 50) == 0) last = length = -(int64_t)roll_below(&chance, 9);
        events[count] = (event){(int32_t)roll_below(&chance, 3), types[roll_below(&chance, 4)], at, length};
      }
      lines[++line_count] = (int64_t)count;
    }
    result with = flattened(events, count, lines, line_count), without = flattened(events, count, NULL, 0);
    CHECK(!memcmp(&with, &without, sizeof with));
  }
}

static void running_out_of_memory_is_reported(void) {
  const event events[] = {{0, WAIT, 0, 10}, {1, WAIT, 0, 10}};
  fp_memory memory;
  result out;
  for (int64_t allowed = 0;; allowed++) {
    fp_memory_init(&memory);
    memory.countdown = allowed;
    if (flatten(&memory, events, 2, NULL, 0, NULL, &out)) {
      CHECK(allowed > 2);
      break;
    }
  }
  CHECK_INT(out.total[1][WAIT], 10);
}

int main(void) {
  RUN(the_higher_type_has_the_time);
  RUN(groups_do_not_mix_and_some_rows_are_of_none);
  RUN(an_event_of_no_length_lets_lower_types_be_seen);
  RUN(an_event_of_no_length_alone_holds_its_type);
  RUN(a_step_may_lie_outside);
  RUN(any_times_are_taken);
  RUN(days_are_measured_to_the_picosecond);
  RUN(lines_change_nothing);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
