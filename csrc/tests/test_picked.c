/* Columns of picked stats: which value counts, and that growing and copying keep all of them. */
#include "columns/picked.h"

#include "tests/check.h"
#include "tests/message.h"

enum { INT = 0, TEXT = 3, REF = 5, STATS = 70, EVENTS = 3000 };

static void of_several_values_of_one_event_the_first_counts(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_picked stats[2] = {{0}};
  CHECK(fp_picked_add(&memory, stats, 0, 0, INT, 5));
  CHECK(fp_picked_add(&memory, stats, 1, 0, REF, 6));
  CHECK(fp_picked_add(&memory, stats, 0, 0, TEXT, 7));
  CHECK(fp_picked_add(&memory, stats, 0, 3, TEXT, INT64_MIN));
  CHECK(stats[0].count == 2 && stats[1].count == 1);
  CHECK(stats[0].row[0] == 0 && stats[0].kind[0] == INT && stats[0].value[0] == 5);
  CHECK(stats[0].row[1] == 3 && stats[0].kind[1] == TEXT && stats[0].value[1] == INT64_MIN);
  CHECK(stats[1].row[0] == 0 && stats[1].kind[0] == REF && stats[1].value[0] == 6);
  for (int i = 0; i < 2; i++) fp_picked_free(&memory, &stats[i]), fp_picked_free(&memory, &stats[i]);
  CHECK_INT(memory.live, 0);
}

static void columns_used_again_forget_what_was_in_them(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_picked stat = {0};
  CHECK(fp_picked_add(&memory, &stat, 0, 9, INT, 1));
  const void *block = stat.block;
  stat.count = 0;
  CHECK(fp_picked_add(&memory, &stat, 0, 9, INT, 2));
  CHECK(stat.count == 1 && stat.value[0] == 2 && stat.block == block);
  fp_picked_free(&memory, &stat);
}

static void many_stats_of_many_events_keep_their_values(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_picked stats[STATS] = {{0}};
  for (int32_t row = 0; row < EVENTS; row++)
    for (size_t i = 0; i < STATS; i++)
      if (row % (int32_t)(i + 1) == 0) CHECK(fp_picked_add(&memory, stats, i, row, (int)(i % 8), row * 100 + (int64_t)i));
  for (size_t i = 0; i < STATS; i++) {
    CHECK_INT(stats[i].count, (EVENTS + i) / (i + 1));
    for (size_t at = 0; at < stats[i].count; at++) {
      int32_t row = (int32_t)(at * (i + 1));
      CHECK(stats[i].row[at] == row && stats[i].kind[at] == i % 8 && stats[i].value[at] == row * 100 + (int64_t)i);
    }
    fp_picked_free(&memory, &stats[i]);
  }
  CHECK_INT(memory.live, 0);
}

static void running_out_of_memory_changes_nothing(void) {
  for (int64_t allocations = 0; allocations < 4; allocations++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allocations;
    fp_picked stat = {0};
    int32_t row = 0;
    while (fp_picked_add(&memory, &stat, 0, row, INT, -row)) row++;
    CHECK(stat.count == (size_t)row && stat.capacity == stat.count && (row > 0) == (allocations > 0));
    for (int32_t i = 0; i < row; i++) CHECK(stat.row[i] == i && stat.kind[i] == INT && stat.value[i] == -i);
    memory.countdown = -1;
    CHECK(fp_picked_add(&memory, &stat, 0, row, INT, -row) && stat.row[row] == row);
    fp_picked_free(&memory, &stat);
    CHECK_INT(memory.live, 0);
  }
}

static void own_texts_get_their_number_in_all(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_picked stat = {0};
  const struct {
    int kind;
    int64_t value, wanted;
  } cases[] = {{TEXT, 100, 70}, {TEXT, 99, 99}, {REF, 100, 100}, {TEXT, 101, 71}};
  for (int32_t i = 0; i < 4; i++) CHECK(fp_picked_add(&memory, &stat, 0, i, cases[i].kind, cases[i].value));
  const int32_t own[] = {70, 71};
  for (int numbered = 0; numbered < 2; numbered++) {
    int32_t row[4];
    uint8_t kind[4];
    int64_t value[4];
    fp_picked_copy(&stat, numbered ? own : NULL, 100, TEXT, row, kind, value);
    for (int32_t i = 0; i < 4; i++) CHECK(row[i] == i && kind[i] == cases[i].kind);
    for (int i = 0; i < 4; i++) CHECK_INT(value[i], numbered ? cases[i].wanted : cases[i].value);
  }
  fp_picked_free(&memory, &stat);
}

static void there_may_be_nothing_to_copy(void) {
  const fp_picked nothing = {0};
  fp_picked_copy(&nothing, NULL, 0, TEXT, NULL, NULL, NULL);
}

int main(void) {
  RUN(of_several_values_of_one_event_the_first_counts);
  RUN(columns_used_again_forget_what_was_in_them);
  RUN(many_stats_of_many_events_keep_their_values);
  RUN(running_out_of_memory_changes_nothing);
  RUN(own_texts_get_their_number_in_all);
  RUN(there_may_be_nothing_to_copy);
  return 0;
}
