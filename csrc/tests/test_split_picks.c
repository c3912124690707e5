#include "kernels/split_picks.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 64, STATS = 5, TEXT = 4 };

typedef struct split {
  int64_t first[STATS + 1], kept[STATS];
  int32_t row[MOST];
  uint8_t kind[MOST];
  int64_t value[MOST];
} split;

static void *block_of(const void *bytes, size_t size) {
  void *block = malloc(size ? size : 1);
  CHECK(block != NULL);
  if (size) memcpy(block, bytes, size);
  return block;
}

/* As the caller does it: counts all shares, then splits one after the other. Every array is as large as it must be. */
static split split_of(const fp_pick_share *shares, size_t share_count, size_t stats) {
  split out = {0};
  int64_t *counts = block_of(out.kept, stats * 8);
  fp_pick_share *copies = block_of(shares, share_count * sizeof *shares);
  for (size_t i = 0; i < share_count; i++) {
    copies[i].picks = block_of(shares[i].picks, shares[i].count * sizeof(fp_pick));
    fp_count_picks(&copies[i], stats, counts);
  }
  for (size_t s = 0; s < stats; s++) out.first[s + 1] = out.first[s] + counts[s];
  size_t total = (size_t)out.first[stats];
  CHECK(total <= MOST);
  int64_t *first = block_of(out.first, stats * 8), *next = block_of(out.first, stats * 8);
  int32_t *row = block_of(out.row, total * 4);
  uint8_t *kind = block_of(out.kind, total);
  int64_t *value = block_of(out.value, total * 8);
  for (size_t i = 0; i < share_count; i++) {
    fp_split_picks(&copies[i], stats, first, next, row, kind, value);
    free((void *)(uintptr_t)copies[i].picks);
  }
  for (size_t s = 0; s < stats; s++) out.kept[s] = next[s] - first[s];
  memcpy(out.row, row, total * 4), memcpy(out.kind, kind, total), memcpy(out.value, value, total * 8);
  free(counts), free(copies), free(first), free(next), free(row), free(kind), free(value);
  return out;
}

static split split_one(const fp_pick *picks, size_t count, size_t stats) {
  const fp_pick_share share = {.picks = picks, .count = count};
  return split_of(&share, 1, stats);
}

static void picks_go_to_their_stat_in_order(void) {
  const fp_pick picks[] = {{3, 1, 7, 0, 30}, {3, 0, 8, 0, 31}, {4, 1, 9, 0, -40}, {9, 0, 6, 0, INT64_MIN}};
  split out = split_one(picks, 4, 2);
  CHECK(out.first[0] == 0 && out.kept[0] == 2 && out.first[1] == 2 && out.kept[1] == 2);
  const int32_t rows[] = {3, 9, 3, 4};
  const uint8_t kinds[] = {8, 6, 7, 9};
  const int64_t values[] = {31, INT64_MIN, 30, -40};
  for (int i = 0; i < 4; i++) CHECK(out.row[i] == rows[i] && out.kind[i] == kinds[i] && out.value[i] == values[i]);
}

static void of_several_of_one_event_and_stat_the_first_is_kept(void) {
  const fp_pick picks[] = {{0, 0, 1, 0, 5}, {0, 1, 1, 0, 6}, {0, 0, 2, 0, 7}, {0, 0, 3, 0, 8}, {1, 0, 4, 0, 9}};
  split out = split_one(picks, 5, 2);
  CHECK(out.kept[0] == 2 && out.kept[1] == 1);
  CHECK(out.value[0] == 5 && out.row[1] == 1 && out.value[1] == 9);
  CHECK(out.value[out.first[1]] == 6);
}

/* The last item of one stat and the first of the next may be of the same event. */
static void stats_that_lie_side_by_side_are_not_mixed(void) {
  const fp_pick picks[] = {{7, 0, 1, 0, 5}, {7, 1, 1, 0, 6}, {7, 2, 1, 0, 7}};
  split out = split_one(picks, 3, 3);
  CHECK(out.kept[0] == 1 && out.kept[1] == 1 && out.kept[2] == 1 && out.value[1] == 6 && out.value[2] == 7);
}

static void stats_that_nobody_asked_for_are_left_out(void) {
  const fp_pick picks[] = {{0, 2, 1, 0, 5}, {0, -1, 1, 0, 6}, {0, INT16_MAX, 2, 0, 7}, {1, 0, 3, 0, 8}, {1, INT16_MIN, 4, 0, 9}};
  split out = split_one(picks, 5, 2);
  CHECK(out.kept[0] == 1 && out.kept[1] == 0 && out.value[0] == 8);
}

static void there_may_be_no_picks_and_no_stats(void) {
  split out = split_one(NULL, 0, 3);
  CHECK(out.kept[0] == 0 && out.kept[1] == 0 && out.kept[2] == 0 && out.first[3] == 0);
  const fp_pick pick = {0, 0, 1, 0, 5};
  CHECK_INT(split_one(&pick, 1, 0).first[0], 0);
}

static void texts_of_a_share_get_their_number_in_all(void) {
  const int32_t own[] = {70, 71};
  const fp_pick picks[] = {{0, 0, TEXT, 0, 100}, {1, 0, TEXT, 0, 99}, {2, 0, TEXT + 1, 0, 100}, {3, 0, TEXT, 0, 101}};
  const fp_pick_share shares[] = {{picks, 4, own, 100, TEXT}, {picks, 1, NULL, 100, TEXT}};
  split out = split_of(shares, 2, 1);
  const int64_t wanted[] = {70, 99, 100, 71};
  for (int i = 0; i < 4; i++) CHECK_INT(out.value[i], wanted[i]);
  CHECK(out.kept[0] == 5 && out.value[4] == 100 && out.row[4] == 0);
}

static void picks_by_lot_are_those_of_their_stat(void) {
  dice chance = {1};
  for (int round = 0; round < 3000; round++) {
    fp_pick picks[MOST];
    size_t count = roll_below(&chance, MOST), stats = 1 + roll_below(&chance, STATS);
    int32_t row = 0;
    for (size_t i = 0; i < count; i++) {
      row += (int32_t)(roll_below(&chance, 4) / 2);
      picks[i] = (fp_pick){row, (int16_t)((int)roll_below(&chance, STATS + 2) - 1), (uint8_t)roll_below(&chance, 9), 0,
                           (int64_t)roll(&chance)};
    }
    size_t cut = roll_below(&chance, count + 1);
    const fp_pick_share shares[] = {{.picks = picks, .count = cut}, {.picks = picks + cut, .count = count - cut}};
    split out = split_of(shares, 2, stats);
    for (size_t s = 0; s < stats; s++) {
      int64_t at = out.first[s], last = -1;
      for (size_t i = 0; i < count; i++) {
        if (picks[i].stat != (int16_t)s || picks[i].row == last) continue;
        last = picks[i].row;
        CHECK(out.row[at] == picks[i].row && out.kind[at] == picks[i].kind && out.value[at] == picks[i].value);
        at++;
      }
      CHECK_INT(out.kept[s], at - out.first[s]);
    }
  }
}

int main(void) {
  RUN(picks_go_to_their_stat_in_order);
  RUN(of_several_of_one_event_and_stat_the_first_is_kept);
  RUN(stats_that_lie_side_by_side_are_not_mixed);
  RUN(stats_that_nobody_asked_for_are_left_out);
  RUN(there_may_be_no_picks_and_no_stats);
  RUN(texts_of_a_share_get_their_number_in_all);
  RUN(picks_by_lot_are_those_of_their_stat);
  return 0;
}
