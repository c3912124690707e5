/* Pieces against asking for each picosecond, on short random spans and lines. */
#include "kernels/reasons.h"
#include "tests/check.h"
#include "tests/spans.h"

enum { MOST = 24, RANGE = 60, CODES = 5 };

/* ---- foremost ---- */

/* The span of the lowest rank at a time, of equal ones the first to begin; -1: none. */
static int64_t foremost_at(const fp_span *those, size_t count, int64_t time) {
  int64_t best = -1;
  for (size_t i = 0; i < count; i++) {
    if (those[i].begin > time || time >= those[i].end) continue;
    if (best < 0 || those[i].rank < those[best].rank ||
        (those[i].rank == those[best].rank && those[i].begin < those[best].begin))
      best = (int64_t)i;
  }
  return best < 0 ? -1 : those[best].label;
}

static void pieces_have_no_holes_and_name_the_lowest_rank(void) {
  dice chance = {7};
  for (int round = 0; round < 1000; round++) {
    fp_memory memory;
    fp_memory_init(&memory);
    fp_span those[MOST];
    const int64_t first = -5, last = RANGE;
    const size_t count = roll_below(&chance, MOST), labels = round % 2 ? MOST : 3;
    fp_vector pieces = {0};
    for (size_t i = 0; i < count; i++) {
      int64_t begin = (int64_t)roll_below(&chance, RANGE) - 9;
      if (round % 3 && i) begin = those[i - 1].begin + (int64_t)roll_below(&chance, 4); /* few sorted lists */
      those[i] = (fp_span){begin, begin + (int64_t)roll_below(&chance, 20) - 2, (int32_t)roll_below(&chance, 3),
                           (int32_t)(labels == MOST ? i : roll_below(&chance, labels))};
    }
    CHECK(fp_foremost(&memory, those, count, first, last, &pieces) == FP_OK);
    const fp_piece *items = pieces.items;
    int64_t time = first;
    for (size_t i = 0; i < pieces.count; i++) {
      CHECK_INT(items[i].begin, time);
      CHECK(items[i].end > time && (!i || items[i].label != items[i - 1].label));
      for (; time < items[i].end; time++) CHECK_INT(items[i].label, foremost_at(those, count, time));
    }
    CHECK_INT(time, last);
    fp_vector_free(&memory, &pieces);
    CHECK_INT(memory.live, 0);
  }
}

static void ranks_beyond_the_queues_and_labels_below_0_are_refused(void) {
  const fp_span wrong[] = {{1, 9, -1, 0}, {1, 9, FP_MOST_RANKS, 0}, {1, 9, 0, -1}};
  for (int i = 0; i < 3; i++) {
    const fp_span those[] = {{0, 9, FP_MOST_RANKS - 1, 0}, wrong[i]};
    fp_memory memory;
    fp_vector pieces = {0};
    fp_memory_init(&memory);
    CHECK(fp_foremost(&memory, those, 2, 0, 9, &pieces) == FP_OUT_OF_RANGE);
    CHECK_INT(pieces.count, 0);
    CHECK_INT(memory.live, 0);
  }
}

static void an_empty_window_has_no_pieces(void) {
  const fp_span span = {0, 9, 0, 0};
  fp_memory memory;
  fp_vector pieces = {0};
  fp_memory_init(&memory);
  CHECK(fp_foremost(&memory, &span, 1, 5, 5, &pieces) == FP_OK);
  CHECK_INT(pieces.count, 0);
  fp_vector_free(&memory, &pieces);
}

/* ---- reasons ---- */

/* Appends the spans of all threads, thread by thread. False: memory ran out. */
static bool reasons(fp_memory *memory, const fp_reasons_in *in, fp_vector *found) {
  bool ok = true;
  for (size_t i = 0; ok && i < in->thread_count; i++) {
    fp_reasons_walk walk;
    fp_reasons_begin(&walk, memory, in, &in->threads[i]);
    for (fp_span one; fp_reasons_next(&walk, &one);) {
      fp_span *fresh = fp_vector_add(memory, found, sizeof *fresh);
      if (!fresh) {
        ok = false;
        break;
      }
      *fresh = one;
    }
    ok = ok && !walk.failed;
    fp_reasons_end(&walk);
  }
  return ok;
}

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

/* Stretches at random places; writes their begins and ends, and marks their times. */
static size_t open_some(int64_t *open, bool *is_open, dice *chance) {
  size_t count = 0;
  int64_t at = -RANGE + (int64_t)roll_below(chance, RANGE);
  memset(is_open, 0, 4 * RANGE * sizeof *is_open);
  while (at < 2 * RANGE - 12 && count < MOST) {
    open[2 * count] = at;
    open[2 * count + 1] = at + 1 + (int64_t)roll_below(chance, 9);
    for (; at < open[2 * count + 1]; at++) is_open[at + RANGE] = true;
    at += 1 + (int64_t)roll_below(chance, 20);
    count++;
  }
  return count;
}

/* Checks the spans of a line whose last code has no rank. */
static void compare_reasons(const spans *line, const uint8_t *codes, const fp_code_powers *powers, const fp_vector *found,
                            const bool *is_open) {
  nested slow;
  nested_make(&slow, MOST);
  nest_slowly(line, &slow);
  const fp_span *items = found->items;
  for (size_t i = 0; i < found->count; i++) {
    bool meets = false;
    for (int64_t time = items[i].begin; time < items[i].end; time++) meets |= is_open[time + RANGE];
    CHECK(meets && (!i || items[i].begin >= items[i - 1].end));
    CHECK_INT(items[i].rank, codes[items[i].label] + 1);
  }
  for (int64_t time = -RANGE; time < 2 * RANGE; time++) {
    int64_t row = said_by(&slow, codes, powers, innermost_at(line, time)), label = -1;
    for (size_t i = 0; i < found->count; i++)
      if (items[i].begin <= time && time < items[i].end) label = items[i].label;
    if (row >= 0 && codes[row] == CODES - 1) row = -1;
    if (is_open[time + RANGE]) CHECK_INT(label, row);
    CHECK(label < 0 || label == row);
  }
  nested_free(&slow);
}

static void the_innermost_event_that_may_says_what_a_thread_does(void) {
  dice chance = {11};
  for (int round = 0; round < 400; round++) {
    fp_memory memory;
    fp_memory_init(&memory);
    spans line;
    uint8_t codes[MOST], ranks[256];
    int64_t open[2 * MOST];
    bool is_open[4 * RANGE];
    fp_code_powers powers = {{0}, {0}};
    fp_vector found = {0};
    spans_make(&line, MOST);
    spans_roll(&line, roll_below(&chance, MOST), RANGE, &chance);
    spans_sort(&line);
    make_nest(&line);
    for (size_t row = 0; row < line.count; row++) codes[row] = (uint8_t)roll_below(&chance, CODES);
    for (int code = 1; code < CODES; code++) {
      powers.takes[code] = (uint8_t)roll_below(&chance, 4);
      powers.holds[code] = (uint8_t)roll_below(&chance, 4);
    }
    for (int code = 0; code < 256; code++) ranks[code] = code == CODES - 1 ? FP_NO_RANK : (uint8_t)(code + 1);
    memset(line.placement, FP_NESTS, line.count);
    const fp_thread thread = {0, (int64_t)line.count, 0};
    const fp_reasons_in in = {line.start, line.duration, codes, &powers, &thread, 1, ranks, open,
                              open_some(open, is_open, &chance)};
    CHECK(reasons(&memory, &in, &found));
    compare_reasons(&line, codes, &powers, &found, is_open);
    fp_vector_free(&memory, &found);
    CHECK_INT(memory.live, 0);
    spans_free(&line);
  }
}

static void equal_reasons_of_two_threads_stay_apart(void) {
  const int64_t start[] = {0, 5, 5}, duration[] = {5, 5, 5}, open[] = {-9, 99};
  const uint8_t codes[] = {1, 1, 1};
  uint8_t ranks[512];
  const fp_code_powers powers = {{0}, {0}};
  const fp_thread threads[] = {{0, 2, 1}, {2, 3, 0}};
  fp_memory memory;
  fp_vector found = {0};
  fp_memory_init(&memory);
  memset(ranks, 3, 256);
  memset(ranks + 256, 7, 256);
  const fp_reasons_in in = {start, duration, codes, &powers, threads, 2, ranks, open, 1};
  CHECK(reasons(&memory, &in, &found));
  CHECK_INT(found.count, 3);
  CHECK_INT(((fp_span *)found.items)[1].rank, 7); /* of the role of its thread */
  CHECK_INT(((fp_span *)found.items)[2].rank, 3);
  fp_vector_free(&memory, &found);
}

static void memory_that_runs_out_is_said(void) {
  const int64_t start[] = {0}, duration[] = {5}, open[] = {0, 5};
  const fp_span span = {0, 5, 0, 0};
  const uint8_t codes[] = {1}, ranks[256] = {0};
  const fp_code_powers powers = {{0}, {0}};
  const fp_thread threads[] = {{0, 1, 0}};
  const fp_reasons_in in = {start, duration, codes, &powers, threads, 1, ranks, open, 1};
  for (int after = 0; after < 4; after++) {
    fp_memory memory;
    fp_vector found = {0};
    fp_memory_init(&memory);
    memory.countdown = after;
    CHECK(fp_foremost(&memory, &span, 1, 0, 5, &found) == FP_NO_MEMORY);
    fp_vector_free(&memory, &found);
    CHECK_INT(memory.live, 0);
    memory.countdown = after;
    CHECK(fp_foremost_reasons(&memory, &in, 0, 5, &found) == FP_NO_MEMORY);
    fp_vector_free(&memory, &found);
    CHECK_INT(memory.live, 0);
  }
}

int main(void) {
  RUN(pieces_have_no_holes_and_name_the_lowest_rank);
  RUN(ranks_beyond_the_queues_and_labels_below_0_are_refused);
  RUN(an_empty_window_has_no_pieces);
  RUN(the_innermost_event_that_may_says_what_a_thread_does);
  RUN(equal_reasons_of_two_threads_stay_apart);
  RUN(memory_that_runs_out_is_said);
  return 0;
}
