/* Which event encloses which: by example, and random events against the rule in parent_slowly. */
#include "kernels/event_parents.h"

#include "tests/check.h"
#include "tests/spans.h"

enum { MOST = 8 };

/* Parents of up to eight events of one line, made of (start, duration). */
static void parents_of(const int64_t (*times)[2], const uint8_t *apart, size_t count, int32_t *parent) {
  int64_t start[MOST], duration[MOST];
  for (size_t i = 0; i < count; i++) start[i] = times[i][0], duration[i] = times[i][1];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_parents(&memory, start, duration, apart, NULL, 0, 0, 0, (int64_t)count, parent) == FP_OK);
  CHECK_INT(memory.live, 0);
}

/* Six events; the parent of each is on the right:
 *
 *   0  |---------------------------------------|     -
 *   1  |---------------------------------------|     0: equal spans
 *   2            |-------------------|               1
 *   3            |                                   2: no length
 *   4                                |---------|     1: it ends with it
 *   5                                |----------|    -: it ends one later
 */
static void the_innermost_event_that_includes_another_is_its_parent(void) {
  const int64_t times[][2] = {{0, 40}, {0, 40}, {10, 20}, {10, 0}, {30, 10}, {30, 11}};
  const int32_t wanted[] = {-1, 0, 1, 2, 1, -1}; /* of equal spans the second lies in the first; ends belong to a span */
  int32_t parent[6];
  parents_of(times, NULL, 6, parent);
  for (int i = 0; i < 6; i++) CHECK_INT(parent[i], wanted[i]);
}

/* Events 1 and 3 are apart: 2 lies in 0, not in 1, and 3 in none. */
static void events_apart_neither_enclose_nor_lie_in_another(void) {
  const int64_t times[][2] = {{0, 40}, {0, 30}, {10, 20}, {10, 5}};
  const uint8_t apart[] = {0, 1, 0, 1};
  int32_t parent[4];
  parents_of(times, apart, 4, parent);
  CHECK(parent[0] == -1 && parent[1] == -1 && parent[2] == 0 && parent[3] == -1);
}

/* Negative durations end before they start: each lies in the one before as long as that does not end earlier. */
static void events_that_end_before_they_begin_have_their_place(void) {
  const int64_t times[][2] = {{0, 40}, {5, -3}, {5, -5}, {5, -6}, {6, -1}};
  int32_t parent[5];
  parents_of(times, NULL, 5, parent);
  CHECK(parent[0] == -1 && parent[1] == 0 && parent[2] == 1 && parent[3] == 2 && parent[4] == 0);
}

static void ends_that_do_not_fit_are_the_largest(void) {
  const int64_t times[][2] = {{INT64_MIN, INT64_MAX}, {5, INT64_MAX}, {INT64_MAX, 3}, {INT64_MAX, INT64_MIN}};
  int32_t parent[4];
  parents_of(times, NULL, 4, parent);
  CHECK(parent[0] == -1 && parent[1] == -1 && parent[2] == 1 && parent[3] == 2);
}

static void rows_of_other_lines_are_left_alone(void) {
  const int64_t start[] = {0, 0, 1}, duration[] = {40, 30, 5};
  int32_t parent[] = {7, 7, 7};
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_parents(&memory, start, duration, NULL, NULL, 0, 0, 1, 2, parent) == FP_OK);
  CHECK(parent[0] == 7 && parent[1] == -1 && parent[2] == 7);
  CHECK(fp_parents(&memory, start, duration, NULL, NULL, 0, 0, 2, 2, parent) == FP_OK && parent[2] == 7);
}

/* An event from 0 to 40, and a region from 5 to 60: the event at 10 lies in the region, so not in the first event. */
static void regions_cut_off_what_begins_before_them_and_ends_in_them(void) {
  const int64_t start[] = {0, 10, 12, 70}, duration[] = {40, 10, 2, 5};
  const fp_region regions[] = {{1, 5, 55}, {2, 11, 4}, {3, 65, 20}, {3, 70, 3}};
  const int32_t wanted[] = {-1, -1, 1, -1};
  int32_t parent[4];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_parents(&memory, start, duration, NULL, regions, 4, 0, 0, 4, parent) == FP_OK);
  for (int i = 0; i < 4; i++) CHECK_INT(parent[i], wanted[i]);
  CHECK(fp_parents(&memory, start, duration, NULL, regions, 4, 0, 2, 4, parent) == FP_OK && parent[2] == -1 && parent[3] == -1);
  CHECK_INT(memory.live, 0);
}

/* The parent of a row by definition: the last earlier event that may hold it. What lies in a region gets the parent of the
 * region. */
static int64_t parent_slowly(const spans *line, const uint8_t *apart, const uint8_t *is_region, size_t row) {
  int64_t parent = -1;
  for (size_t above = 0; above < row; above++)
    if (!apart[row] && !apart[above] && may_hold(line, above, row)) parent = (int64_t)above;
  return parent < 0 || !is_region[parent] ? parent : parent_slowly(line, apart, is_region, (size_t)parent);
}

static void parents_are_the_last_before_that_include(void) {
  dice chance = {1};
  fp_memory memory;
  fp_memory_init(&memory);
  for (int round = 0; round < 3000; round++) {
    enum { LONGEST = 40 };
    spans line;
    size_t count = roll_below(&chance, LONGEST), events = 0, region_count = 0;
    spans_make(&line, count);
    spans_roll(&line, count, 1 + (int64_t)roll_below(&chance, 60), &chance);
    spans_sort(&line);
    line.slack = round % 3;
    int64_t start[LONGEST], duration[LONGEST];
    uint8_t apart[LONGEST], is_region[LONGEST], event_apart[LONGEST];
    int32_t parent[LONGEST], place[LONGEST];
    fp_region regions[LONGEST];
    for (size_t i = 0; i < count; i++) {
      is_region[i] = round % 2 && roll_below(&chance, 4) == 0;
      apart[i] = !is_region[i] && roll_below(&chance, 6) == 0;
      place[i] = (int32_t)events;
      if (is_region[i]) {
        regions[region_count++] = (fp_region){(int64_t)events, line.start[i], line.duration[i]};
        continue;
      }
      start[events] = line.start[i], duration[events] = line.duration[i], event_apart[events++] = apart[i];
    }
    CHECK(fp_parents(&memory, start, duration, event_apart, regions, region_count, line.slack, 0, (int64_t)events, parent) == FP_OK);
    for (size_t row = 0; row < count; row++) {
      if (is_region[row]) continue;
      int64_t wanted = parent_slowly(&line, apart, is_region, row);
      CHECK_INT(parent[place[row]], wanted < 0 ? -1 : place[wanted]);
    }
    spans_free(&line);
  }
  CHECK_INT(memory.live, 0);
}

static void running_out_of_memory_is_reported(void) {
  enum { DEEP = 100 };
  int64_t start[DEEP], duration[DEEP];
  int32_t parent[DEEP];
  for (int i = 0; i < DEEP; i++) start[i] = i, duration[i] = DEEP - i;
  fp_memory memory;
  fp_memory_init(&memory);
  int64_t allowed = 0;
  const fp_region region = {0, 0, DEEP};
  for (memory.countdown = 0; fp_parents(&memory, start, duration, NULL, &region, 1, 0, 0, DEEP, parent) != FP_OK;
       memory.countdown = ++allowed)
    CHECK_INT(memory.live, 0);
  CHECK(allowed > 2 && parent[DEEP - 1] == DEEP - 2);
  CHECK_INT(memory.live, 0);
}

int main(void) {
  RUN(the_innermost_event_that_includes_another_is_its_parent);
  RUN(events_apart_neither_enclose_nor_lie_in_another);
  RUN(events_that_end_before_they_begin_have_their_place);
  RUN(ends_that_do_not_fit_are_the_largest);
  RUN(rows_of_other_lines_are_left_alone);
  RUN(regions_cut_off_what_begins_before_them_and_ends_in_them);
  RUN(parents_are_the_last_before_that_include);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
