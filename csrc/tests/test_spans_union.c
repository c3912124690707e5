/* The union of spans against counting picosecond by picosecond; spans at the limits of 64 bits; memory that runs out. */
#include "kernels/spans_union.h"
#include "tests/check.h"
#include "tests/spans.h"

enum { MOST = 40, RANGE = 60 };

static fp_vector union_of(fp_memory *memory, const spans *of) {
  fp_vector filled = {0};
  CHECK_INT(fp_spans_union(memory, of->start, of->duration, of->count, &filled), FP_OK);
  return filled;
}

static bool lasts(const spans *of, int64_t time) {
  for (size_t i = 0; i < of->count; i++)
    if (of->start[i] <= time && time < of->start[i] + of->duration[i]) return true;
  return false;
}

static bool fills(const fp_vector *filled, int64_t time) {
  const fp_filled *items = filled->items;
  for (size_t i = 0; i < filled->count; i++)
    if (items[i].begin <= time && time < items[i].end) return true;
  return false;
}

static void times_in_which_a_span_lasts_are_filled(void) {
  dice chance = {11};
  fp_memory memory;
  fp_memory_init(&memory);
  for (int round = 0; round < 2000; round++) {
    spans of;
    spans_make(&of, MOST);
    spans_roll(&of, roll_below(&chance, MOST), RANGE, &chance);
    if (round % 2) spans_sort(&of);
    fp_vector filled = union_of(&memory, &of);
    const fp_filled *items = filled.items;
    for (size_t i = 0; i < filled.count; i++) {
      CHECK(items[i].begin < items[i].end);
      if (i) CHECK(items[i - 1].end < items[i].begin);
    }
    for (int64_t time = -RANGE; time < 3 * RANGE; time++) CHECK_INT(fills(&filled, time), lasts(&of, time));
    fp_vector_free(&memory, &filled);
    spans_free(&of);
  }
  CHECK_INT(memory.live, 0);
}

static void an_end_beyond_64_bits_is_the_last_time(void) {
  int64_t start[] = {INT64_MAX - 5, 7, INT64_MAX, 3}, duration[] = {100, INT64_MAX, 9, -4};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_vector filled = union_of(&memory, &(spans){start, duration, NULL, 4, 0});
  CHECK_INT(filled.count, 1);
  CHECK_INT(((fp_filled *)filled.items)->begin, 7);
  CHECK_INT(((fp_filled *)filled.items)->end, INT64_MAX);
  fp_vector_free(&memory, &filled);
}

static void memory_that_runs_out_is_reported(void) {
  int64_t start[] = {8, 4, 0, 6, 2}, duration[] = {1, 1, 1, 1, 1};
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    fp_vector filled = {0};
    fp_code code = fp_spans_union(&memory, start, duration, 5, &filled);
    size_t count = filled.count;
    fp_vector_free(&memory, &filled);
    CHECK_INT(memory.live, 0);
    if (code == FP_OK) {
      CHECK(allowed > 1);
      CHECK_INT(count, 5);
      return;
    }
    CHECK_INT(code, FP_NO_MEMORY);
  }
}

int main(void) {
  RUN(times_in_which_a_span_lasts_are_filled);
  RUN(an_end_beyond_64_bits_is_the_last_time);
  RUN(memory_that_runs_out_is_reported);
  return 0;
}
