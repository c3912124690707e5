#include "columns/bounds.h"
#include "tests/check.h"

static void numbers_of_all_widths_are_compared(void) {
  const int32_t rows[] = {-1, 0, 4};
  const fp_numbers column = {rows, 3, sizeof *rows, 'i'};
  CHECK(fp_all_within(&column, -1, 5));
  CHECK(!fp_all_within(&column, 0, 5));
  CHECK(!fp_all_within(&column, -1, 4));
  const uint64_t huge[] = {1, UINT64_MAX};
  CHECK(!fp_all_within(&(fp_numbers){huge, 2, 8, 'Q'}, 0, INT64_MAX));
  CHECK(fp_all_within(&(fp_numbers){huge, 1, 8, 'Q'}, 0, INT64_MAX));
  const uint32_t large[] = {UINT32_MAX};
  CHECK(!fp_all_within(&(fp_numbers){large, 1, 4, 'I'}, 0, UINT32_MAX));
  CHECK(fp_all_within(&(fp_numbers){NULL, 0, 4, 'I'}, 0, 0));
  CHECK(!fp_all_within(&(fp_numbers){large, 1, 4, 'x'}, 0, INT64_MAX)); /* no type of number */
}

static void a_field_of_structs_is_compared(void) {
  const struct { int64_t other; int32_t row, link; } items[] = {{99, 1, 7}, {99, 2, 8}};
  CHECK(fp_all_within(&(fp_numbers){&items[0].row, 2, sizeof *items, 'i'}, 0, 3));
  CHECK(!fp_all_within(&(fp_numbers){&items[0].link, 2, sizeof *items, 'i'}, 0, 8));
}

static void bounds_ascend_within_their_limit(void) {
  const int64_t good[] = {0, 2, 2, 5}, back[] = {0, 3, 2}, below[] = {-1, 2};
  CHECK(fp_are_bounds(good, 4, 5));
  CHECK(!fp_are_bounds(good, 4, 4));
  CHECK(!fp_are_bounds(good, 0, 4));
  CHECK(!fp_are_bounds(back, 3, 9));
  CHECK(!fp_are_bounds(below, 2, 9));
}

static void slices_lie_within_their_rows(void) {
  const int64_t lines[][3] = {{0, 2, 100}, {2, 2, 0}, {1, 5, 0}};
  CHECK(fp_are_slices(lines[0], 3, sizeof *lines, 5));
  CHECK(!fp_are_slices(lines[0], 3, sizeof *lines, 4));
  const int64_t back[] = {3, 2}, below[] = {-1, 2};
  CHECK(!fp_are_slices(back, 1, sizeof back, 9));
  CHECK(!fp_are_slices(below, 1, sizeof below, 9));
}

static void spans_lie_within_their_bytes(void) {
  const uint64_t spans[][3] = {{0, 10, 7}, {10, 0, 7}, {4, 6, 7}, {5, 6, 7}}, huge[] = {8, UINT64_MAX};
  CHECK(fp_are_spans(spans[0], 3, sizeof *spans, 10));
  CHECK(!fp_are_spans(spans[0], 4, sizeof *spans, 10));
  CHECK(!fp_are_spans(huge, 1, sizeof huge, 10));
}

static void sorted_items_never_descend(void) {
  const int32_t pairs[][2] = {{1, 9}, {1, 0}, {2, 5}, {0, 7}};
  CHECK(fp_are_sorted(pairs[0], 3, sizeof *pairs));
  CHECK(!fp_are_sorted(pairs[0], 4, sizeof *pairs));
  CHECK(fp_are_sorted(NULL, 0, 4));
}

int main(void) {
  RUN(numbers_of_all_widths_are_compared);
  RUN(a_field_of_structs_is_compared);
  RUN(bounds_ascend_within_their_limit);
  RUN(slices_lie_within_their_rows);
  RUN(spans_lie_within_their_bytes);
  RUN(sorted_items_never_descend);
  return 0;
}
