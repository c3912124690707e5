/* Pieces against asking for each picosecond, on short random spans and lines. */
#include "kernels/foremost.h"
#include "kernels/reasons.h"
#include "tests/check.h"
#include "tests/spans.h"

enum { MOST = 24, RANGE = 60, CODES = 5 };

/* ---- foremost ---- */

/* The span of the lowest rank at a time, the first of equal ones; -1: none. */
static int64_t foremost_at(const spans *all, const int64_t *end, const int32_t *rank, int64_t time) {
  int64_t best = -1;
  for (size_t i = 0; i < all->count; i++)
    if (all->start[i] <= time && time < end[i] && (best < 0 || rank[i] < rank[best])) best = (int64_t)i;
  return best;
}

static void pieces_have_no_holes_and_name_the_lowest_rank(void) {
  dice chance = {7};
  for (int round = 0; round < 400; round++) {
    fp_memory memory;
    fp_memory_init(&memory);
    spans all;
    int64_t end[MOST], first = -5, last = RANGE;
    int32_t rank[MOST];
    fp_vector pieces = {0};
    spans_make(&all, MOST);
    spans_roll(&all, roll_below(&chance, MOST), RANGE, &chance);
    spans_sort(&all);
    for (size_t i = 0; i < all.count; i++) {
      end[i] = all.start[i] + all.duration[i];
      rank[i] = (int32_t)roll_below(&chance, 3);
    }
    CHECK(fp_foremost(&memory, all.start, end, rank, all.count, first, last, &pieces) == FP_OK);
    const fp_piece *items = pieces.items;
    int64_t time = first;
    for (size_t i = 0; i < pieces.count; i++) {
      CHECK_INT(items[i].begin, time);
      CHECK(items[i].end > time && (!i || items[i].span != items[i - 1].span));
      for (; time < items[i].end; time++) CHECK_INT(items[i].span, foremost_at(&all, end, rank, time));
    }
    CHECK_INT(time, last);
    fp_vector_free(&memory, &pieces);
    CHECK_INT(memory.live, 0);
    spans_free(&all);
  }
}

static void ranks_beyond_the_queues_are_refused(void) {
  const int64_t begin[] = {0, 1}, end[] = {9, 9};
  const int32_t wrong[] = {-1, FP_MOST_RANKS};
  for (int i = 0; i < 2; i++) {
    const int32_t rank[] = {FP_MOST_RANKS - 1, wrong[i]};
    fp_memory memory;
    fp_vector pieces = {0};
    fp_memory_init(&memory);
    CHECK(fp_foremost(&memory, begin, end, rank, 2, 0, 9, &pieces) == FP_OUT_OF_RANGE);
    CHECK_INT(pieces.count, 0);
    CHECK_INT(memory.live, 0);
  }
}

static void an_empty_window_has_no_pieces(void) {
  const int64_t begin[] = {0}, end[] = {9};
  const int32_t rank[] = {0};
  fp_memory memory;
  fp_vector pieces = {0};
  fp_memory_init(&memory);
  CHECK(fp_foremost(&memory, begin, end, rank, 1, 5, 5, &pieces) == FP_OK);
  CHECK_INT(pieces.count, 0);
  fp_vector_free(&memory, &pieces);
}

/* ---- reasons ---- */

/* The row that says what the thread does while `row` is the innermost, found by asking its parents first. */
static int64_t said_by(const nested *found, const uint8_t *codes, const fp_code_powers *powers, int64_t row) {
  if (row < 0) return -1;
  int64_t around = said_by(found, codes, powers, found->parent[row]);
  if (!codes[row] || (around >= 0 && codes[around] == codes[row])) return around;
  return around < 0 || powers->takes[codes[row]] >= powers->holds[codes[around]] ? row : around;
}

/* The last row that is open at a time and lies in no other that ended before: the innermost of a line that nests. */
static int64_t innermost_at(const spans *line, int64_t time) {
  int64_t innermost = -1;
  for (size_t row = 0; row < line->count; row++)
    if (line->start[row] <= time && time < line->start[row] + line->duration[row]) innermost = (int64_t)row;
  return innermost;
}

/* Cuts events so that none crosses the end of another. */
static void make_nest(spans *line) {
  for (size_t i = 0; i < line->count; i++) {
    if (line->duration[i] < 0) line->duration[i] = 0;
    for (size_t j = 0; j < i; j++) {
      int64_t end = line->start[j] + line->duration[j];
      if (line->start[i] < end && line->start[i] + line->duration[i] > end) line->duration[i] = end - line->start[i];
    }
  }
  spans_sort(line);
}

static void the_innermost_event_that_may_says_what_a_thread_does(void) {
  dice chance = {11};
  for (int round = 0; round < 400; round++) {
    fp_memory memory;
    fp_memory_init(&memory);
    spans line;
    nested slow;
    uint8_t codes[MOST];
    fp_code_powers powers = {{0}, {0}};
    fp_vector pieces = {0};
    spans_make(&line, MOST);
    nested_make(&slow, MOST);
    spans_roll(&line, roll_below(&chance, MOST), RANGE, &chance);
    spans_sort(&line);
    make_nest(&line);
    for (size_t row = 0; row < line.count; row++) codes[row] = (uint8_t)roll_below(&chance, CODES);
    for (int code = 1; code < CODES; code++) {
      powers.takes[code] = (uint8_t)roll_below(&chance, 4);
      powers.holds[code] = (uint8_t)roll_below(&chance, 4);
    }
    memset(line.placement, FP_NESTS, line.count);
    nest_slowly(&line, &slow);
    const fp_line_rows rows = {0, (int64_t)line.count, 0};
    CHECK(fp_reasons(&memory, line.start, line.duration, codes, &powers, &rows, 1, &pieces) == FP_OK);
    const fp_piece *items = pieces.items;
    size_t at = 0;
    for (int64_t time = -RANGE; time < 2 * RANGE; time++) {
      while (at < pieces.count && items[at].end <= time) at++;
      int64_t found = at < pieces.count && items[at].begin <= time ? items[at].span : -1;
      CHECK_INT(found, said_by(&slow, codes, &powers, innermost_at(&line, time)));
    }
    fp_vector_free(&memory, &pieces);
    CHECK_INT(memory.live, 0);
    nested_free(&slow);
    spans_free(&line);
  }
}

static void equal_reasons_of_two_lines_stay_apart(void) {
  const int64_t start[] = {0, 5, 5}, duration[] = {5, 5, 5};
  const uint8_t codes[] = {1, 1, 1};
  const fp_code_powers powers = {{0}, {0}};
  const fp_line_rows lines[] = {{0, 2, 0}, {2, 3, 0}};
  fp_memory memory;
  fp_vector pieces = {0};
  fp_memory_init(&memory);
  CHECK(fp_reasons(&memory, start, duration, codes, &powers, lines, 2, &pieces) == FP_OK);
  CHECK_INT(pieces.count, 3);
  fp_vector_free(&memory, &pieces);
}

static void memory_that_runs_out_is_said(void) {
  const int64_t start[] = {0}, duration[] = {5};
  const int32_t rank[] = {0};
  const uint8_t codes[] = {1};
  const fp_code_powers powers = {{0}, {0}};
  const fp_line_rows lines[] = {{0, 1, 0}};
  for (int after = 0; after < 2; after++) {
    fp_memory memory;
    fp_vector pieces = {0};
    fp_memory_init(&memory);
    memory.countdown = after;
    CHECK(fp_foremost(&memory, start, duration, rank, 1, 0, 5, &pieces) == FP_NO_MEMORY);
    fp_vector_free(&memory, &pieces);
    memory.countdown = after;
    CHECK(fp_reasons(&memory, start, duration, codes, &powers, lines, 1, &pieces) == FP_NO_MEMORY);
    fp_vector_free(&memory, &pieces);
    CHECK_INT(memory.live, 0);
  }
}

int main(void) {
  RUN(pieces_have_no_holes_and_name_the_lowest_rank);
  RUN(ranks_beyond_the_queues_are_refused);
  RUN(an_empty_window_has_no_pieces);
  RUN(the_innermost_event_that_may_says_what_a_thread_does);
  RUN(equal_reasons_of_two_lines_stay_apart);
  RUN(memory_that_runs_out_is_said);
  return 0;
}
