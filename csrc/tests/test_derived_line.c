/* Derived lines: each rule by example, and limits that hold for random events. */
#include "kernels/derived_line.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 64, MOST_DERIVED = MOST * 8 };

typedef struct made {
  int64_t start[MOST_DERIVED], duration[MOST_DERIVED], name[MOST_DERIVED], deepest[MOST];
  int32_t group[MOST_DERIVED];
  uint8_t closes[MOST];
  size_t count;
} made;

/* Names: list 0 is 1; list 1 is 1, 2; list 2 is 1, 3; list 3 is 1, 2, 4; list 4 is empty; list 5 is 9. */
static const int64_t offsets[] = {0, 1, 3, 5, 8, 8, 9}, values[] = {1, 1, 2, 1, 3, 1, 2, 4, 9};

/* Runs the kernel twice, first only to count, and checks that both agree. */
static made derive(fp_derived_from *from, bool over_gaps, bool close) {
  made found;
  fp_derived_line none = {0};
  fp_derived_line line = {found.start, found.duration, found.name, found.group, found.closes, found.deepest};
  from->name_lists = (fp_int_lists){offsets, values};
  found.count = fp_derive_line(from, over_gaps, close, &none);
  CHECK(found.count <= MOST_DERIVED);
  CHECK_INT(fp_derive_line(from, over_gaps, close, &line), found.count);
  return found;
}

/* Checks one derived event. */
static void check_event(const made *found, size_t at, int64_t start, int64_t duration, int64_t name, int32_t group) {
  CHECK(at < found->count);
  CHECK_INT(found->start[at], start);
  CHECK_INT(found->duration[at], duration);
  CHECK_INT(found->name[at], name);
  CHECK_INT(found->group[at], group);
}

/* Name, group and the derived events; a negative group is no group:
 *
 *   source    1 (0)   1 (0)   1 (1)   9 (1)   9 (-)
 *   derived   [0 ........15]  [1 ]    [2 ]    [3 ]
 */
static void events_of_one_name_and_group_become_one(void) {
  const int64_t start[] = {0, 10, 30, 50, 60}, duration[] = {5, 5, 5, 5, 5};
  const int32_t group[] = {0, 0, 1, 1, -7}, names[] = {0, 0, 0, 5, 5};
  fp_derived_from from = {start, duration, group, names, NULL, NULL, 5, {0}, {0}};
  made found = derive(&from, true, false);
  CHECK_INT(found.count, 4);
  check_event(&found, 0, 0, 15, 1, 0);
  check_event(&found, 1, 30, 5, 1, 1);
  check_event(&found, 2, 50, 5, 9, 1);
  check_event(&found, 3, 60, 5, 9, -1);
  const uint8_t closes[] = {1, 0, 1, 1, 1};
  for (size_t i = 0; i < 5; i++) CHECK_INT(found.closes[i], closes[i]);
}

/* The lists of names of the source events, and the derived events by level:
 *
 *   source     1,2     1,2,4    1,3     (empty)
 *   level 0    [1 ....................]
 *   level 1    [2 ............] [3    ]
 *   level 2             [4    ]
 */
static void a_new_outer_name_ends_the_inner_ones(void) {
  const int64_t start[] = {0, 10, 20, 30}, duration[] = {5, 5, 5, 5};
  const int32_t group[] = {-1, -1, -1, -1}, names[] = {1, 3, 2, 4};
  fp_derived_from from = {start, duration, group, names, NULL, NULL, 4, {0}, {0}};
  made found = derive(&from, true, true);
  CHECK_INT(found.count, 4);
  check_event(&found, 0, 0, 25, 1, -1);
  check_event(&found, 1, 0, 15, 2, -1);
  check_event(&found, 2, 10, 5, 4, -1);
  check_event(&found, 3, 20, 5, 3, -1);
  const int64_t deepest[] = {1, 2, 3, -1};
  for (size_t i = 0; i < 4; i++) CHECK_INT(found.deepest[i], deepest[i]);
}

/* Two source events with the same name and group: `closed` keeps them apart. */
static void what_it_lies_in_ends_an_event(void) {
  const int64_t start[] = {0, 10}, duration[] = {5, 5};
  const int32_t group[] = {0, 0}, names[] = {0, 0};
  const uint8_t closed[] = {0, 1};
  fp_derived_from from = {start, duration, group, names, NULL, closed, 2, {0}, {0}};
  made found = derive(&from, true, false);
  CHECK_INT(found.count, 2);
  CHECK_INT(found.closes[1], 1);
}

/* 0..10 and 30..40 are joined: the gap of 20 is twice the length. 1000 is too far, unless the events have a group. */
static void only_events_of_groups_go_on_over_long_gaps(void) {
  const int64_t start[] = {0, 30, 1000}, duration[] = {10, 10, 10};
  const int32_t none[] = {-1, -1, -1}, some[] = {3, 3, 3}, names[] = {0, 0, 0};
  fp_derived_from from = {start, duration, none, names, NULL, NULL, 3, {0}, {0}};
  made found = derive(&from, false, false);
  CHECK_INT(found.count, 2);
  check_event(&found, 0, 0, 40, 1, -1);
  from.group = some;
  CHECK_INT(derive(&from, false, false).count, 1);
}

/* Ranges 7, none, 8, and a list that is too long to count: the second continues the first, and the fourth the third. */
static void ranges_keep_events_apart_where_both_have_one(void) {
  const int64_t start[] = {0, 10, 20, 30}, duration[] = {5, 5, 5, 5}, bounds[] = {0, 1, 2, 4}, ids[] = {7, 8, 7, 8};
  const int32_t group[] = {-1, -1, -1, -1}, names[] = {0, 0, 0, 0}, scopes[] = {0, -1, 1, 2};
  fp_derived_from from = {start, duration, group, names, scopes, NULL, 4, {0}, {bounds, ids}};
  made found = derive(&from, true, false);
  CHECK_INT(found.count, 2); /* the last lies in as many ranges as it has no names: they do not count */
  check_event(&found, 0, 0, 15, 1, -1);
  check_event(&found, 1, 20, 15, 1, -1);
}

/* Three levels from 0 to 5000 end a nanosecond (1000 ps) apart:
 *
 *   level 0  |---------------------------------------|
 *   level 1  |-------------------------------|
 *   level 2  |-----------------------|
 */
static void levels_of_equal_times_get_shorter_when_they_end(void) {
  const int64_t start[] = {0, 100000}, duration[] = {5000, 2500};
  const int32_t group[] = {-1, -1}, names[] = {3, 5};
  fp_derived_from from = {start, duration, group, names, NULL, NULL, 2, {0}, {0}};
  made found = derive(&from, true, false);
  CHECK_INT(found.count, 4);
  check_event(&found, 0, 0, 5000, 1, -1);
  check_event(&found, 1, 0, 4000, 2, -1);
  check_event(&found, 2, 0, 3000, 4, -1);
  const int32_t last[] = {3, 3};
  from.names = last;
  from.count = 1;
  CHECK_INT(derive(&from, true, false).duration[2], 5000); /* still open */
  CHECK_INT(derive(&from, true, true).duration[2], 3000);
  const int64_t brief[] = {2000};
  from.duration = brief; /* at most down to the last nanosecond */
  CHECK_INT(derive(&from, true, true).duration[2], 1000);
}

static void times_at_the_ends_of_64_bits_are_no_trouble(void) {
  const int64_t start[] = {INT64_MIN, INT64_MAX, INT64_MAX - 1}, duration[] = {INT64_MAX, INT64_MAX, INT64_MIN};
  const int32_t group[] = {-1, -1, -1}, names[] = {3, 3, 1};
  fp_derived_from from = {start, duration, group, names, NULL, NULL, 3, {0}, {0}};
  CHECK(derive(&from, false, true).count >= 3);
}

static void events_by_lot_are_within_what_they_are_made_of(void) {
  dice chance = {3};
  for (int round = 0; round < 2000; round++) {
    int64_t start[MOST], duration[MOST], now = 0;
    int32_t group[MOST], names[MOST];
    uint8_t closed[MOST];
    size_t count = roll_below(&chance, MOST);
    for (size_t i = 0; i < count; i++) {
      start[i] = now += (int64_t)roll_below(&chance, 3000);
      duration[i] = (int64_t)roll_below(&chance, 5000);
      group[i] = (int32_t)roll_below(&chance, 3) - 1;
      names[i] = (int32_t)roll_below(&chance, 7) - 1;
      closed[i] = roll_below(&chance, 8) == 0;
    }
    fp_derived_from from = {start, duration, group, names, NULL, closed, count, {0}, {0}};
    made found = derive(&from, round % 2, round % 3);
    for (size_t i = 0; i < found.count; i++) {
      CHECK(found.start[i] >= start[0] && found.duration[i] >= 0);
      CHECK(found.name[i] > 0 && found.name[i] < 10);
    }
    for (size_t i = 0; i < count; i++)
      CHECK((found.deepest[i] >= 0) == (names[i] >= 0 && names[i] != 4));
  }
}

int main(void) {
  RUN(events_of_one_name_and_group_become_one);
  RUN(a_new_outer_name_ends_the_inner_ones);
  RUN(what_it_lies_in_ends_an_event);
  RUN(only_events_of_groups_go_on_over_long_gaps);
  RUN(ranges_keep_events_apart_where_both_have_one);
  RUN(levels_of_equal_times_get_shorter_when_they_end);
  RUN(times_at_the_ends_of_64_bits_are_no_trouble);
  RUN(events_by_lot_are_within_what_they_are_made_of);
  return 0;
}
