/* Stretches and overlaps against counting picosecond by picosecond on short random lines. */
#include "kernels/exposed.h"
#include "tests/check.h"
#include "tests/spans.h"

enum { MOST = 24, RANGE = 60, KINDS = 3 };

/* ---- innermost stretches ---- */

/* The row that owns the picosecond time..time + 1: it is open then, and either before its first child or between two of
 * its children in the order of rows. The last such row; -1: none. */
static bool is_innermost(const spans *line, const nested *found, size_t row, int64_t time) {
  int64_t from = line->start[row], end = from + (line->duration[row] > 0 ? line->duration[row] : 0);
  bool inside = false;
  for (size_t child = 0; child < line->count; child++) {
    if (found->parent[child] != (int64_t)row) continue;
    inside |= from <= time && time < line->start[child];
    int64_t until = line->start[child] + line->duration[child];
    if (until > from) from = until;
  }
  return inside || (from <= time && time < end);
}

/* Whether a stretch of the row includes the picosecond. */
static bool covers(const fp_vector *stretches, int64_t row, int64_t time) {
  const fp_stretch *items = stretches->items;
  for (size_t i = 0; i < stretches->count; i++)
    if (items[i].row == row && items[i].begin <= time && time < items[i].end) return true;
  return false;
}

/* Compares the stretches of a line with is_innermost, picosecond by picosecond. */
static void check_line(const spans *line, const nested *slow, const uint8_t *marks, const fp_vector *work,
                       const fp_vector *others) {
  for (int64_t time = -RANGE; time < 2 * RANGE; time++) {
    bool works = false;
    for (size_t row = 0; row < line->count; row++) {
      bool is = is_innermost(line, slow, row, time);
      works |= is && marks[row] == FP_WORK;
      CHECK_INT(covers(others, (int64_t)row, time), is && marks[row] > FP_WORK);
    }
    CHECK_INT(covers(work, -1, time), works);
  }
}

static void stretches_are_when_an_event_is_the_innermost(void) {
  dice chance = {5};
  for (int round = 0; round < 400; round++) {
    fp_memory memory;
    fp_memory_init(&memory);
    uint8_t marks[MOST];
    spans line;
    nested slow;
    fp_vector work = {0}, others = {0};
    spans_make(&line, MOST);
    nested_make(&slow, MOST);
    spans_roll(&line, roll_below(&chance, MOST), RANGE, &chance);
    for (size_t row = 0; row < line.count; row++) {
      if (line.duration[row] < 0) line.duration[row] = 0;
      marks[row] = (uint8_t)roll_below(&chance, 4);
    }
    spans_sort(&line);
    memset(line.placement, FP_NESTS, line.count);
    nest_slowly(&line, &slow);
    const fp_line_rows rows = {0, (int64_t)line.count, 0};
    CHECK(fp_innermost_stretches(&memory, line.start, line.duration, marks, &rows, 1, &work, &others) == FP_OK);
    check_line(&line, &slow, marks, &work, &others);
    fp_vector_free(&memory, &work);
    fp_vector_free(&memory, &others);
    CHECK_INT(memory.live, 0);
    nested_free(&slow);
    spans_free(&line);
  }
}

static void work_that_meets_is_one_stretch(void) {
  const int64_t start[] = {0, 0, 5, 10}, duration[] = {10, 5, 5, -3};
  const uint8_t marks[] = {2, 1, 1, 1};
  const fp_line_rows line = {0, 4, 0};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_vector work = {0}, others = {0};
  CHECK(fp_innermost_stretches(&memory, start, duration, marks, &line, 1, &work, &others) == FP_OK);
  CHECK_INT(work.count, 1);
  CHECK_INT(((fp_stretch *)work.items)->end, 10);
  CHECK_INT(others.count, 0);
  fp_vector_free(&memory, &work);
}

static void stretches_fail_cleanly_without_memory(void) {
  const int64_t start[] = {0, 1, 4, 9}, duration[] = {20, 2, 2, 1};
  const uint8_t marks[] = {2, 1, 3, 1};
  const fp_line_rows line = {0, 4, 0};
  bool done = false;
  for (int64_t nth = 0; !done; nth++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = nth;
    fp_vector work = {0}, others = {0};
    done = fp_innermost_stretches(&memory, start, duration, marks, &line, 1, &work, &others) == FP_OK;
    fp_vector_free(&memory, &work);
    fp_vector_free(&memory, &others);
    CHECK_INT(memory.live, 0);
    CHECK(nth < 20);
  }
}

/* ---- overlaps ---- */

typedef struct made {
  fp_stretch work[MOST];
  fp_transfer transfers[MOST];
  int64_t by_end[MOST], times[MOST];
  fp_overlap of;
} made;

static int later(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

/* Fills by_end. */
static void sort_by_end(made *m) {
  for (size_t i = 0; i < m->of.transfer_count; i++) {
    size_t at = i;
    for (; at && m->transfers[m->by_end[at - 1]].end > m->transfers[i].end; at--) m->by_end[at] = m->by_end[at - 1];
    m->by_end[at] = (int64_t)i;
  }
}

/* Random work and transfers, and the times at which sums are due. */
static void roll_overlap(made *m, dice *chance) {
  m->of = (fp_overlap){.work = m->work, .transfers = m->transfers, .by_end = m->by_end, .times = m->times,
                       .work_count = roll_below(chance, 8), .transfer_count = roll_below(chance, MOST),
                       .time_count = roll_below(chance, MOST), .kind_count = KINDS};
  int64_t at = 0;
  for (size_t i = 0; i < m->of.work_count; i++) {
    m->work[i].begin = at + (int64_t)roll_below(chance, 6);
    at = m->work[i].end = m->work[i].begin + 1 + (int64_t)roll_below(chance, 8);
  }
  int64_t begins[MOST];
  for (size_t i = 0; i < m->of.transfer_count; i++) begins[i] = (int64_t)roll_below(chance, RANGE);
  qsort(begins, m->of.transfer_count, sizeof *begins, later);
  for (size_t i = 0; i < m->of.transfer_count; i++) {
    fp_transfer one = {.begin = begins[i], .end = begins[i] + 1 + (int64_t)roll_below(chance, 20), .exposed = 99};
    one.kind = (int32_t)roll_below(chance, KINDS);
    one.rank = (int32_t)roll_below(chance, 4);
    m->transfers[i] = one;
  }
  sort_by_end(m);
  for (size_t i = 0; i < m->of.time_count; i++) m->times[i] = (int64_t)roll_below(chance, 2 * RANGE) - RANGE / 2;
  qsort(m->times, m->of.time_count, sizeof *m->times, later);
}

/* Whether there is work in a picosecond. */
static bool works_at(const made *m, int64_t time) {
  for (size_t i = 0; i < m->of.work_count; i++)
    if (m->work[i].begin <= time && time < m->work[i].end) return true;
  return false;
}

static bool is_under_way(const fp_transfer *one, int64_t time) { return one->begin <= time && time < one->end; }

/* The transfer to blame at a time: the one of the lowest rank, of equal ranks the first; -1: none. */
static int blamed_at(const made *m, int64_t time) {
  int found = -1;
  for (size_t i = 0; i < m->of.transfer_count; i++)
    if (is_under_way(&m->transfers[i], time) && (found < 0 || m->transfers[i].rank < m->transfers[found].rank))
      found = (int)i;
  return found;
}

static void overlaps_are_those_of_counting_each_picosecond(void) {
  enum { WIDTH = FP_SUM_KINDS + 3 * KINDS };
  dice chance = {17};
  static made m;
  for (int round = 0; round < 2000; round++) {
    int64_t sums[MOST * WIDTH], wanted[WIDTH] = {0}, exposed[MOST] = {0}, hidden[MOST] = {0};
    fp_memory memory;
    fp_memory_init(&memory);
    roll_overlap(&m, &chance);
    CHECK(fp_overlap_is_in_order(&m.of));
    CHECK(fp_overlaps(&memory, &m.of, sums) == FP_OK);
    CHECK_INT(memory.live, 0);
    size_t timed = 0;
    for (int64_t time = -RANGE; time < 4 * RANGE; time++) {
      for (; timed < m.of.time_count && m.times[timed] == time; timed++)
        for (int i = 0; i < WIDTH; i++) CHECK_INT(sums[timed * WIDTH + (size_t)i], wanted[i]);
      bool works = works_at(&m, time);
      int blamed = blamed_at(&m, time);
      wanted[FP_SUM_WORK] += works;
      wanted[FP_SUM_TRANSFER] += blamed >= 0;
      wanted[FP_SUM_EXPOSED] += blamed >= 0 && !works;
      bool seen[KINDS] = {false};
      for (size_t i = 0; i < m.of.transfer_count; i++)
        if (is_under_way(&m.transfers[i], time)) {
          seen[m.transfers[i].kind] = true;
          hidden[i] += works;
        }
      for (int kind = 0; kind < KINDS; kind++) {
        wanted[FP_SUM_KINDS + 3 * kind] += seen[kind];
        wanted[FP_SUM_KINDS + 3 * kind + 1] += seen[kind] && works;
      }
      if (blamed >= 0 && !works) {
        exposed[blamed]++;
        wanted[FP_SUM_KINDS + 3 * m.transfers[blamed].kind + 2]++;
      }
    }
    CHECK_INT(timed, m.of.time_count);
    for (size_t i = 0; i < m.of.transfer_count; i++) {
      CHECK_INT(m.transfers[i].exposed, exposed[i]);
      CHECK_INT(m.transfers[i].hidden, hidden[i]);
    }
  }
}

static void what_is_not_in_order_is_reported(void) {
  fp_stretch work[] = {{0, 5, -1}, {5, 9, -1}};
  fp_transfer moved[] = {{.begin = 1, .end = 4, .kind = 0}, {.begin = 2, .end = 3, .kind = 1}};
  int64_t by_end[] = {1, 0}, times[] = {0, 9};
  fp_overlap of = {work, 2, moved, by_end, 2, 2, times, 2};
  CHECK(fp_overlap_is_in_order(&of));
  by_end[0] = 2;
  CHECK(!fp_overlap_is_in_order(&of));
  by_end[0] = 0, by_end[1] = 1;
  CHECK(!fp_overlap_is_in_order(&of));
  by_end[0] = 1, by_end[1] = 0;
  moved[1].kind = 2;
  CHECK(!fp_overlap_is_in_order(&of));
  moved[1].kind = 1, moved[1].begin = 0;
  CHECK(!fp_overlap_is_in_order(&of));
  moved[1].begin = 2, work[1].begin = 4;
  CHECK(!fp_overlap_is_in_order(&of));
  work[1].begin = 5, times[1] = -1;
  CHECK(!fp_overlap_is_in_order(&of));
  times[1] = 9, of.kind_count = FP_MOST_KINDS + 1;
  CHECK(!fp_overlap_is_in_order(&of));
}

static void overlaps_fail_cleanly_without_memory(void) {
  fp_transfer moved[] = {{.begin = 1, .end = 4, .kind = 0}};
  const int64_t by_end[] = {0}, times[] = {9};
  const fp_overlap of = {NULL, 0, moved, by_end, 1, 1, times, 1};
  int64_t sums[FP_SUM_KINDS + 3];
  fp_memory memory;
  fp_memory_init(&memory);
  memory.countdown = 0;
  CHECK(fp_overlaps(&memory, &of, sums) != FP_OK);
  CHECK_INT(memory.live, 0);
  memory.countdown = -1;
  CHECK(fp_overlaps(&memory, &of, sums) == FP_OK);
  CHECK_INT(sums[FP_SUM_EXPOSED], 3);
  CHECK_INT(memory.live, 0);
}

/* Each transfer is entered and left once, however many are under way. */
static void time_is_linear_however_many_are_under_way(void) {
  enum { COUNT = 200000 };
  static fp_transfer moved[COUNT];
  static int64_t by_end[COUNT];
  for (int i = 0; i < COUNT; i++) {
    moved[i] = (fp_transfer){.begin = i, .end = 2 * COUNT - i, .rank = COUNT - i};
    by_end[i] = COUNT - 1 - i;
  }
  const int64_t times[] = {3 * COUNT};
  const fp_overlap of = {NULL, 0, moved, by_end, COUNT, 1, times, 1};
  int64_t sums[FP_SUM_KINDS + 3];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_overlap_is_in_order(&of));
  CHECK(fp_overlaps(&memory, &of, sums) == FP_OK);
  CHECK_INT(sums[FP_SUM_EXPOSED], 2 * COUNT);
  CHECK_INT(moved[COUNT - 1].exposed, 2);
}

int main(void) {
  RUN(stretches_are_when_an_event_is_the_innermost);
  RUN(work_that_meets_is_one_stretch);
  RUN(stretches_fail_cleanly_without_memory);
  RUN(overlaps_are_those_of_counting_each_picosecond);
  RUN(what_is_not_in_order_is_reported);
  RUN(overlaps_fail_cleanly_without_memory);
  RUN(time_is_linear_however_many_are_under_way);
  return 0;
}
