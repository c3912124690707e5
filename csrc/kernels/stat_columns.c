/* Chosen rows and rows of the stat both ascend: two lists are merged, with steps that double in the stat's list. */
#include "kernels/stat_columns.h"

#include <string.h>

/* A value as the column holds it: integers become doubles in a column of doubles. */
static int64_t in_column(const fp_stat_column *column, uint8_t kind, int64_t value) {
  double number;
  if (kind == column->integer) number = (double)value;
  else if (kind == column->natural) number = (double)(uint64_t)value;
  else return value;
  memcpy(&value, &number, sizeof value);
  return value;
}

/* The first place from `at` on whose row is not less than `row`. Steps double, so a few rows among many cost a few
 * looks each, and dense rows cost one look each. */
static size_t seek(const fp_stat *stat, size_t at, int32_t row) {
  size_t step = 1, low = at;
  while (at < stat->count && stat->row[at] < row) {
    low = at + 1;
    at += step;
    step *= 2;
  }
  size_t high = at < stat->count ? at : stat->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (stat->row[middle] < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Both lists of rows ascend, so the search only moves forward. */
bool fp_stat_beside(const fp_stat *stat, const int32_t *rows, const int32_t *place, size_t count,
                    const fp_stat_column *column) {
  bool any_odd = false;
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    at = seek(stat, at, rows[i]);
    if (at == stat->count) break;
    if (stat->row[at] != rows[i]) continue;
    bool is_accepted = column->accepted >> stat->kind[at] & 1;
    if (is_accepted) {
      column->value[place[i]] = in_column(column, stat->kind[at], stat->value[at]);
      column->recorded[place[i]] |= column->bit;
    }
    if (stat->kind[at] != column->plain && (!is_accepted || stat->value[at])) {
      column->odd[place[i]] |= column->bit;
      any_odd = true;
    }
  }
  return any_odd;
}
