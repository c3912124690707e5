/* Places of events among steps: by example, and random events against examining each step. */
#include "kernels/grouping_line.h"

#include <stdbool.h>

#include "tests/check.h"
#include "tests/message.h"

enum { STEPS = 12, EVENTS = 60, RANGE = 100 };

typedef struct steps {
  int64_t begin[STEPS], end[STEPS], upto[STEPS];
  int32_t value[STEPS];
  size_t count;
} steps;

static fp_grouping_line line_of(steps *s) {
  for (size_t i = 0; i < s->count; i++) {
    s->upto[i] = i && s->upto[i - 1] > s->end[i] ? s->upto[i - 1] : s->end[i];
    s->value[i] = 100 + (int32_t)i;
  }
  return (fp_grouping_line){s->begin, s->end, s->upto, s->value, s->count};
}

static void an_event_belongs_to_the_step_that_includes_or_overlaps_it(void) {
  steps three = {.begin = {10, 20, 40}, .end = {20, 30, 50}, .count = 3};
  fp_grouping_line line = line_of(&three);
  const int64_t start[] = {0, 5, 10, 15, 20, 30, 35, 40, 60}, duration[] = {5, 5, 10, 6, 0, 5, 10, 10, 1};
  const int32_t including[] = {-1, -1, 100, -1, 101, -1, -1, 102, -1};
  const int32_t overlapping[] = {-1, 100, 100, 100, 100, 101, 102, 102, -1};
  int32_t found[9];
  fp_including(&line, start, duration, 9, found);
  for (int i = 0; i < 9; i++) CHECK_INT(found[i], including[i]);
  fp_overlapping(&line, start, duration, 9, found);
  for (int i = 0; i < 9; i++) CHECK_INT(found[i], overlapping[i]);
}

static void a_line_without_steps_has_no_place(void) {
  steps none = {.count = 0};
  fp_grouping_line line = line_of(&none);
  const int64_t start[] = {5}, duration[] = {1};
  int32_t found[] = {7};
  fp_including(&line, start, duration, 1, found);
  CHECK_INT(found[0], -1);
  fp_overlapping(&line, start, duration, 1, found);
  CHECK_INT(found[0], -1);
}

/* Events in any order and steps that overlap. */
static void places_are_those_of_looking_at_each_step(void) {
  dice chance = {5};
  for (int round = 0; round < 500; round++) {
    steps some = {.count = roll_below(&chance, STEPS + 1)};
    int64_t start[EVENTS], duration[EVENTS], at = 0, now = 0;
    int32_t including[EVENTS], overlapping[EVENTS];
    for (size_t i = 0; i < some.count; i++) {
      some.begin[i] = at += (int64_t)roll_below(&chance, 12);
      some.end[i] = at + (int64_t)roll_below(&chance, 15);
    }
    fp_grouping_line line = line_of(&some);
    for (int i = 0; i < EVENTS; i++) {
      now = roll_below(&chance, 9) ? now + (int64_t)roll_below(&chance, 4) : (int64_t)roll_below(&chance, RANGE);
      start[i] = now;
      duration[i] = (int64_t)roll_below(&chance, 10);
    }
    fp_including(&line, start, duration, EVENTS, including);
    fp_overlapping(&line, start, duration, EVENTS, overlapping);
    for (int i = 0; i < EVENTS; i++) {
      size_t after = 0, from = 0;
      while (after < some.count && some.end[after] <= start[i]) after++;
      while (from < some.count && some.end[from] < start[i]) from++;
      bool inside = after < some.count && some.begin[after] <= start[i] && start[i] + duration[i] <= some.end[after];
      bool over = from < some.count && some.begin[from] <= start[i] + duration[i];
      CHECK_INT(including[i], inside ? some.value[after] : -1);
      CHECK_INT(overlapping[i], over ? some.value[from] : -1);
    }
  }
}

int main(void) {
  RUN(an_event_belongs_to_the_step_that_includes_or_overlaps_it);
  RUN(a_line_without_steps_has_no_place);
  RUN(places_are_those_of_looking_at_each_step);
  return 0;
}
