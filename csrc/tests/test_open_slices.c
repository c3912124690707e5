/* Rows of slices: random slices must nest within their row, for each reader. */
#include "formats/open_slices.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 400 };

/* Ends what ends by a slice's start, checks that ends come in order, and adds the slice. */
static int32_t add(fp_open_slices *open, int64_t start, int64_t end, int64_t (*stack)[MOST], int *depth) {
  int32_t row;
  int64_t at, before = INT64_MIN;
  while (fp_open_slices_end(open, start, &row, &at)) {
    CHECK(at <= start && at >= before);
    CHECK_INT(stack[row][--depth[row]], at);
    before = at;
  }
  row = fp_open_slices_add(open, end);
  CHECK(row >= 0);
  return row;
}

static void slices_of_a_row_nest(void) {
  static int64_t stack[MOST][MOST];
  int depth[MOST] = {0};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_open_slices open = {.memory = &memory};
  dice d = {7};
  for (int round = 0; round < 200; round++) {
    int64_t start = 0, spread = round % 2 ? 300 : 12;
    for (int i = 0; i < MOST; i++) {
      start += (int64_t)(roll(&d) % 4);
      int64_t end = start + 1 + (int64_t)(roll(&d) % (uint64_t)spread);
      int32_t row = add(&open, start, end, stack, depth);
      CHECK((size_t)row < open.rows.count);
      CHECK(!depth[row] || stack[row][depth[row] - 1] >= end);
      stack[row][depth[row]++] = end;
    }
    int32_t row;
    int64_t at;
    while (fp_open_slices_end(&open, INT64_MAX, &row, &at)) CHECK_INT(stack[row][--depth[row]], at);
    for (int i = 0; i < MOST; i++) CHECK_INT(depth[i], 0);
    fp_open_slices_clear(&open);
    CHECK_INT(open.rows.count, 0);
  }
  fp_open_slices_free(&open);
  fp_open_slices_free(&open);
  CHECK_INT(memory.live, 0);
}

static void a_slice_goes_below_the_shortest_that_holds_it(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_open_slices open = {.memory = &memory};
  CHECK_INT(fp_open_slices_add(&open, 100), 0);
  CHECK_INT(fp_open_slices_add(&open, 120), 1);
  CHECK_INT(fp_open_slices_add(&open, 90), 0);
  CHECK_INT(fp_open_slices_add(&open, 110), 1);
  CHECK_INT(fp_open_slices_add(&open, INT64_MAX), 2);
  CHECK_INT(fp_open_slices_add(&open, 90), 0);
  fp_open_slices_free(&open);
}

/* For the second reader every slice is 3 longer. */
static int32_t add_for_two(fp_open_slices *open, int64_t start, int64_t end, int64_t other) {
  int32_t row;
  int64_t at;
  while (fp_open_slices_end(open, start, &row, &at)) continue;
  return fp_open_slices_add_for_all(open, &(fp_slice_end){other > end ? other : end, {end, other, end}});
}

static void a_row_nests_for_all_readers(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_open_slices open = {.memory = &memory};
  CHECK_INT(add_for_two(&open, 0, 100, 100), 0);
  CHECK_INT(add_for_two(&open, 50, 100, 101), 1); /* ends later to one of them */
  CHECK_INT(add_for_two(&open, 60, 100, 100), 0);
  CHECK_INT(add_for_two(&open, 100, 110, 110), 0);
  CHECK_INT(add_for_two(&open, 101, 120, 120), 1); /* over to both */
  for (int i = 0; i < 100; i++) CHECK_INT(add_for_two(&open, 102, 200 + i, 300 - i), 2 + i);
  CHECK_INT(add_for_two(&open, 103, 210, 250), 12); /* where 40 to 50 past 200 and 250 to 290 are held */
  fp_open_slices_free(&open);
  CHECK_INT(memory.live, 0);
}

static void many_rows_take_little_time(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_open_slices open = {.memory = &memory};
  int32_t row;
  int64_t end;
  for (int i = 0; i < 200000; i++) CHECK_INT(fp_open_slices_add(&open, 1000000 + i), i);
  for (int i = 0; i < 200000; i++) {
    CHECK(fp_open_slices_end(&open, INT64_MAX, &row, &end));
    CHECK_INT(row, i);
  }
  fp_open_slices_clear(&open);
  CHECK_INT(open.leaves, 0); /* many small lines may follow */
  for (int i = 0; i < 100000; i++) CHECK_INT(fp_open_slices_add(&open, 1000000 - i), 0);
  fp_open_slices_free(&open);
}

static void running_out_of_memory_is_reported(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  int64_t allowed = 0;
  for (bool done = false; !done; allowed++) {
    fp_open_slices open = {.memory = &memory};
    memory.countdown = allowed;
    done = true;
    for (int i = 0; done && i < 40; i++) done = fp_open_slices_add(&open, 100 + i) >= 0;
    fp_open_slices_free(&open);
    CHECK_INT(memory.live, 0);
  }
  CHECK(allowed > 6);
}

int main(void) {
  RUN(slices_of_a_row_nest);
  RUN(a_slice_goes_below_the_shortest_that_holds_it);
  RUN(a_row_nests_for_all_readers);
  RUN(many_rows_take_little_time);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
