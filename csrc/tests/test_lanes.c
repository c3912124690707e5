/* Lanes: by example, and random events against a definition that examines every event of every lane. */
#include "kernels/lanes.h"

#include "tests/check.h"
#include "tests/spans.h"

enum { ROWS = 200 };

/* The definition: each lane holds the events put there, and all of them are compared. */
static int32_t lay_slowly(const int64_t *start, const int64_t *duration, size_t count, uint16_t *lane) {
  int32_t lanes = 0;
  for (size_t i = 0; i < count; i++) {
    const int64_t end = fp_counted_end(start[i], duration[i]);
    int32_t at = 0;
    for (size_t k = 0; k < i; k++) {
      const int64_t other = fp_counted_end(start[k], duration[k]);
      if (other > start[i] && other >= end && lane[k] >= at) at = lane[k] + 1;
    }
    for (bool taken = true; taken; at += taken) {
      taken = false;
      for (size_t k = 0; k < i && !taken; k++) taken = lane[k] == at && fp_counted_end(start[k], duration[k]) > start[i];
    }
    lane[i] = (uint16_t)at;
    if (at >= lanes) lanes = at + 1;
  }
  return lanes;
}

/* Runs the kernel and checks that it frees its memory. */
static int32_t lay(const int64_t *start, const int64_t *duration, size_t count, uint16_t *lane) {
  fp_memory memory;
  fp_memory_init(&memory);
  int32_t lanes;
  fp_code code = fp_lanes(&memory, start, duration, count, lane, &lanes);
  CHECK_INT(memory.live, 0);
  return code == FP_OK ? lanes : -(int32_t)code;
}

/* Events that nest have their depth as lane:
 *
 *   lane 0  |--------------------------------------------|        and 100..110
 *   lane 1       |--------|                                       and 40..70
 *   lane 2       |--|
 */
static void lanes_of_nested_events_are_their_depths(void) {
  const int64_t start[] = {0, 10, 12, 40, 100}, duration[] = {100, 20, 5, 30, 10};
  uint16_t lane[5];
  CHECK_INT(lay(start, duration, 5, lane), 3);
  CHECK(lane[0] == 0 && lane[1] == 1 && lane[2] == 2 && lane[3] == 1 && lane[4] == 0);
}

/* What crosses goes below the lowest event that encloses it, to the first lane that is free there:
 *
 *   lane 0  |-------------------------------------------------|   encloses all
 *   lane 1       |----|
 *   lane 2          |------|                                      crosses the end of the one above
 *   lane 3          ||                                            lanes 1 and 2 both enclose it
 *   lane 1                 |--|                                   lane 1 is free again
 */
static void an_event_that_crosses_another_lies_below_what_encloses_both(void) {
  const int64_t start[] = {0, 10, 15, 16, 30, 200, 210}, duration[] = {100, 10, 15, 2, 5, 20, 20};
  uint16_t lane[7];
  CHECK_INT(lay(start, duration, 7, lane), 4);
  CHECK(lane[0] == 0 && lane[1] == 1 && lane[2] == 2 && lane[3] == 3);
  CHECK(lane[4] == 1 && lane[5] == 0 && lane[6] == 1);
}

/* Three events in the picosecond 5, two in the picosecond 6: each takes a lane there. */
static void events_without_a_duration_take_a_picosecond(void) {
  const int64_t start[] = {5, 5, 5, 6, 6}, duration[] = {1, 0, -7, 0, INT64_MIN};
  uint16_t lane[5];
  CHECK_INT(lay(start, duration, 5, lane), 3);
  CHECK(lane[0] == 0 && lane[1] == 1 && lane[2] == 2 && lane[3] == 0 && lane[4] == 1);
}

static void times_at_the_ends_of_64_bits_do_not_overflow(void) {
  const int64_t start[] = {INT64_MIN, INT64_MIN, 0, INT64_MAX - 1, INT64_MAX - 1, INT64_MAX, INT64_MAX};
  const int64_t duration[] = {INT64_MAX, 0, INT64_MAX, 5, 0, INT64_MAX, 0};
  uint16_t lane[7];
  CHECK_INT(lay(start, duration, 7, lane), 3);
  CHECK(lane[0] == 0 && lane[1] == 1 && lane[2] == 0 && lane[3] == 1 && lane[4] == 2 && lane[5] == 0 && lane[6] == 0);
}

static void unsorted_events_are_reported(void) {
  const int64_t start[] = {1, 0}, same[] = {1, 1}, duration[] = {1, 2};
  uint16_t lane[2];
  CHECK_INT(lay(start, duration, 2, lane), -FP_UNSORTED);
  CHECK_INT(lay(same, duration, 2, lane), -FP_UNSORTED);
  CHECK_INT(lay(start, duration, 0, lane), 0);
}

static void random_events_lie_as_the_definition_says(void) {
  dice chance = {5};
  for (int round = 0; round < 3000; round++) {
    spans line;
    spans_make(&line, ROWS);
    spans_roll(&line, (size_t)roll_below(&chance, ROWS), 1 + (int64_t)roll_below(&chance, 600), &chance);
    uint16_t found[ROWS], wanted[ROWS];
    int32_t lanes = lay_slowly(line.start, line.duration, line.count, wanted);
    CHECK_INT(lay(line.start, line.duration, line.count, found), lanes);
    for (size_t i = 0; i < line.count; i++) CHECK_INT(found[i], wanted[i]);
    spans_free(&line);
  }
}

static void crowds_share_the_last_lane(void) {
  enum { CROWD = 100000 };
  int64_t *start = calloc(CROWD, sizeof *start), *duration = calloc(CROWD, sizeof *duration);
  uint16_t *lane = calloc(CROWD, sizeof *lane);
  CHECK(start && duration && lane);
  for (int shape = 0; shape < 3; shape++) {
    for (int i = 0; i < CROWD; i++) {
      start[i] = shape == 0 ? 7 : i;                       /* all at once; each within the one before; each crosses it */
      duration[i] = shape == 0 ? 10 : shape == 1 ? 2 * CROWD - 2 * i : CROWD;
    }
    CHECK_INT(lay(start, duration, CROWD, lane), FP_MOST_LANES);
    for (int i = 0; i < CROWD; i++) CHECK_INT(lane[i], i < FP_MOST_LANES ? i : FP_MOST_LANES - 1);
  }
  free(start);
  free(duration);
  free(lane);
}

static void lanes_are_free_again_after_a_crowd(void) {
  enum { CROWD = 9000 };
  int64_t *start = calloc(CROWD, sizeof *start), *duration = calloc(CROWD, sizeof *duration);
  uint16_t *lane = calloc(CROWD, sizeof *lane);
  CHECK(start && duration && lane);
  for (int i = 0; i < CROWD; i++) {
    start[i] = i < 5000 ? i : 2 * CROWD + 2 * i;
    duration[i] = i < 5000 ? CROWD : 2;
  }
  CHECK_INT(lay(start, duration, CROWD, lane), FP_MOST_LANES);
  for (int i = 5000; i < CROWD; i++) CHECK_INT(lane[i], 0);
  free(start);
  free(duration);
  free(lane);
}

static void ordering_by_lane_keeps_the_order_of_time(void) {
  const uint16_t lane[] = {0, 2, 1, 0, 2, 0};
  const uint32_t wanted[] = {0, 3, 5, 2, 1, 4};
  uint32_t order[6], first[4];
  fp_lane_order(lane, 6, 3, order, first);
  for (int i = 0; i < 6; i++) CHECK_INT(order[i], wanted[i]);
  CHECK(first[0] == 0 && first[1] == 3 && first[2] == 4 && first[3] == 6);
}

static void without_memory_it_says_so(void) {
  int64_t start[100], duration[100];
  uint16_t lane[100];
  for (int i = 0; i < 100; i++) start[i] = i, duration[i] = 1000;
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    int32_t lanes;
    fp_code code = fp_lanes(&memory, start, duration, 100, lane, &lanes);
    CHECK_INT(memory.live, 0);
    if (code == FP_NO_MEMORY) continue;
    CHECK_INT(lanes, 100);
    CHECK(allowed > 3);
    return;
  }
}

int main(void) {
  RUN(lanes_of_nested_events_are_their_depths);
  RUN(an_event_that_crosses_another_lies_below_what_encloses_both);
  RUN(events_without_a_duration_take_a_picosecond);
  RUN(times_at_the_ends_of_64_bits_do_not_overflow);
  RUN(unsorted_events_are_reported);
  RUN(random_events_lie_as_the_definition_says);
  RUN(crowds_share_the_last_lane);
  RUN(lanes_are_free_again_after_a_crowd);
  RUN(ordering_by_lane_keeps_the_order_of_time);
  RUN(without_memory_it_says_so);
  return 0;
}
