/* Stats beside chosen rows: values, bits and kinds, and dense as well as sparse rows. */
#include "kernels/stat_columns.h"

#include <string.h>

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 200, PLAIN = 4, OTHER = 5, REFUSED = 6, ACCEPTED = 1 << PLAIN | 1 << OTHER, BIT = 8, BEFORE = 1 };

typedef struct columns {
  int64_t value[MOST];
  uint16_t recorded[MOST], odd[MOST];
} columns;

/* Runs the kernel on columns that begin as untouched. */
static bool placed(const fp_stat *stat, const int32_t *rows, const int32_t *place, size_t count, columns *out) {
  for (int i = 0; i < MOST; i++) out->value[i] = -1, out->recorded[i] = out->odd[i] = BEFORE;
  const fp_stat_column column = {out->value, out->recorded, out->odd, BIT, ACCEPTED, PLAIN, FP_NO_KIND, FP_NO_KIND};
  return fp_stat_beside(stat, rows, place, count, &column);
}

static void check(const columns *found, int place, int64_t value, int recorded, int odd) {
  CHECK_INT(found->value[place], value);
  CHECK_INT(found->recorded[place], recorded ? BEFORE | BIT : BEFORE);
  CHECK_INT(found->odd[place], odd ? BEFORE | BIT : BEFORE);
}

static void rows_that_have_the_stat_get_it_at_their_place(void) {
  const int32_t row[] = {2, 5, 9}, rows[] = {1, 2, 9, 12}, place[] = {3, 0, 1, 2};
  const uint8_t kind[] = {PLAIN, PLAIN, PLAIN};
  const int64_t value[] = {-20, 50, 90};
  const fp_stat stat = {row, kind, value, 3};
  columns found;
  CHECK(!placed(&stat, rows, place, 4, &found));
  check(&found, 0, -20, 1, 0);
  check(&found, 1, 90, 1, 0);
  check(&found, 2, -1, 0, 0);
  check(&found, 3, -1, 0, 0);
}

static void other_kinds_are_odd_unless_they_say_0(void) {
  const int32_t row[] = {0, 1, 2, 3};
  const uint8_t kind[] = {OTHER, OTHER, REFUSED, PLAIN};
  const int64_t value[] = {0, 7, 0, 0};
  const fp_stat stat = {row, kind, value, 4};
  columns found;
  CHECK(placed(&stat, row, row, 4, &found));
  check(&found, 0, 0, 1, 0);
  check(&found, 1, 7, 1, 1);
  check(&found, 2, -1, 0, 1);
  check(&found, 3, 0, 1, 0);
}

static void integers_become_doubles_in_a_column_of_them(void) {
  const int32_t row[] = {0, 1, 2};
  const uint8_t kind[] = {OTHER, REFUSED, PLAIN};
  const double half = 0.5;
  int64_t value[] = {-3, -1, 0};
  memcpy(&value[2], &half, sizeof half);
  const fp_stat stat = {row, kind, value, 3};
  double found[3] = {0};
  uint16_t recorded[3] = {0}, odd[3] = {0};
  int64_t *places = (int64_t *)(void *)found;
  const fp_stat_column column = {places, recorded, odd, BIT, ACCEPTED | 1 << REFUSED, PLAIN, OTHER, REFUSED};
  CHECK(fp_stat_beside(&stat, row, row, 3, &column));
  CHECK(found[0] == -3.0 && found[1] == 18446744073709551616.0 && found[2] == 0.5);
}

static void no_stat_and_no_rows_are_nothing(void) {
  const int32_t row[] = {2}, place[] = {0};
  const uint8_t kind[] = {PLAIN};
  const int64_t value[] = {3};
  const fp_stat stat = {row, kind, value, 1}, none = {NULL, NULL, NULL, 0};
  columns found;
  CHECK(!placed(&none, row, place, 1, &found));
  check(&found, 0, -1, 0, 0);
  CHECK(!placed(&stat, NULL, NULL, 0, &found));
  check(&found, 0, -1, 0, 0);
}

/* Random ascending rows; a higher rarity means fewer. */
static size_t some_rows(dice *chance, int32_t *rows, uint64_t rarity) {
  size_t count = 0;
  for (int32_t row = 0; row < MOST; row++)
    if (roll_below(chance, rarity) == 0) rows[count++] = row;
  return count;
}

static void few_and_many_rows_are_found_alike(void) {
  dice chance = {11};
  int32_t row[MOST], rows[MOST], place[MOST];
  uint8_t kind[MOST];
  int64_t value[MOST];
  columns found;
  for (int32_t i = 0; i < MOST; i++) place[i] = MOST - 1 - i;
  for (int round = 0; round < 1000; round++) {
    fp_stat stat = {row, kind, value, some_rows(&chance, row, 1 + roll_below(&chance, 30))};
    size_t count = some_rows(&chance, rows, 1 + roll_below(&chance, 30));
    for (size_t i = 0; i < stat.count; i++) kind[i] = PLAIN, value[i] = row[i];
    placed(&stat, rows, place, count, &found);
    for (size_t i = 0; i < count; i++) {
      size_t at = 0;
      while (at < stat.count && row[at] != rows[i]) at++;
      check(&found, place[i], at < stat.count ? rows[i] : -1, at < stat.count, 0);
    }
    for (size_t i = count; i < MOST; i++) check(&found, place[i], -1, 0, 0);
  }
}

int main(void) {
  RUN(rows_that_have_the_stat_get_it_at_their_place);
  RUN(other_kinds_are_odd_unless_they_say_0);
  RUN(integers_become_doubles_in_a_column_of_them);
  RUN(no_stat_and_no_rows_are_nothing);
  RUN(few_and_many_rows_are_found_alike);
  return 0;
}
