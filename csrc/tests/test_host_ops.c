/* Ops of host threads, in both orders: by example, and random lines against the definitions. */
#include "kernels/host_ops.h"

#include "tests/check.h"
#include "tests/spans.h"

#define MOST_OPS 4

/* One line, whose event i has the name i % MOST_OPS, and the sums of its ops. */
typedef struct summed {
  fp_op_sum sums[MOST_OPS];
  fp_op_line line;
} summed;

static const int32_t NAMES[MOST_OPS] = {0, 1, 2, 3};
static const uint8_t ENQUEUES[MOST_OPS] = {0, 0, 0, 1};

/* Input whose op of every name has the number of the name. */
static fp_host_ops input_of(const int64_t *start, const int64_t *duration, const int32_t *meta) {
  return (fp_host_ops){.start = start, .duration = duration, .meta = meta, .op_of_meta = NAMES, .meta_count = MOST_OPS,
                       .enqueues = ENQUEUES, .op_count = MOST_OPS};
}

static summed sum_up(const fp_host_ops *input, fp_ops_order order, size_t count) {
  summed out = {.line = {.last = (int64_t)count}};
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK_INT(fp_host_ops_sum(&memory, input, order, &out.line, 1, out.sums), FP_OK);
  CHECK_INT(memory.live, 0);
  return out;
}

/* The same from pairs of start and duration. */
static summed sum_times(const int64_t (*times)[2], const int32_t *meta, fp_ops_order order, size_t count) {
  int64_t start[8], duration[8];
  for (size_t i = 0; i < count; i++) start[i] = times[i][0], duration[i] = times[i][1];
  const fp_host_ops input = input_of(start, duration, meta);
  return sum_up(&input, order, count);
}

/* Checks how often an op ran, and its times. */
static void check_sum(const fp_op_sum *sum, int64_t occurrences, int64_t time, int64_t self_time) {
  CHECK_INT(sum->occurrences, occurrences);
  CHECK_INT(sum->time, time);
  CHECK_INT(sum->self_time, self_time);
}

/* Where ops nest both orders give the same sums. Events are named by op:
 *
 *   op 0  |-----------------------------|                                 and 200..201
 *   op 1     |-----|                                                      and 40..70
 *   op 2      ||
 */
static void nested_ops_take_their_time_from_what_they_are_in(void) {
  const int64_t times[][2] = {{0, 100}, {10, 20}, {12, 5}, {40, 30}, {200, 1}};
  const int32_t meta[] = {0, 1, 2, 1, 0};
  for (fp_ops_order order = FP_OPS_NEST; order <= FP_OPS_STACK; order++) {
    summed out = sum_times(times, meta, order, 5);
    check_sum(&out.sums[0], 2, 101, 51);
    check_sum(&out.sums[1], 2, 50, 45);
    check_sum(&out.sums[2], 1, 5, 5);
    CHECK(out.sums[0].shortest == 1 && out.sums[1].shortest == 20 && !out.sums[3].met);
    CHECK(out.line.span == 201 && out.line.self_time == 101 && out.line.lost == 0);
  }
}

/* Ops 1 and 2 end together. By nesting all three count; on the stack only op 1 does:
 *
 *   op 0  |-------------------------------------------------|
 *   op 1       |---------|
 *   op 2              |--|
 */
static void an_op_that_ends_with_its_parent_is_lost_on_the_stack_and_so_is_all_around_it(void) {
  const int64_t times[][2] = {{0, 100}, {10, 20}, {25, 5}};
  const int32_t meta[] = {0, 1, 2};
  summed all = sum_times(times, meta, FP_OPS_NEST, 3);
  check_sum(&all.sums[0], 1, 100, 80);
  check_sum(&all.sums[1], 1, 20, 15);
  check_sum(&all.sums[2], 1, 5, 5);
  /* the end of 1 comes first and pops 2, which is lost; the end of 2 then finds no begin, and empties the stack */
  summed stacked = sum_times(times, meta, FP_OPS_STACK, 3);
  check_sum(&stacked.sums[0], 0, 0, 0);
  check_sum(&stacked.sums[1], 1, 20, 20);
  check_sum(&stacked.sums[2], 0, 0, 0);
  CHECK(stacked.line.lost == 2 && stacked.line.span == 100 && stacked.line.self_time == 20);
}

/* Ops 1 and 2 cross: op 0 loses the time that they cover together, once.
 *
 *   op 0  |-------------------------------------------------|
 *   op 1       |---------|
 *   op 2            |---------|
 */
static void ops_that_cross_share_no_time(void) {
  const int64_t times[][2] = {{0, 100}, {10, 20}, {20, 20}};
  const int32_t meta[] = {0, 1, 2};
  summed out = sum_times(times, meta, FP_OPS_NEST, 3);
  check_sum(&out.sums[0], 1, 100, 70); /* both children together are 30 long */
  check_sum(&out.sums[1], 1, 20, 20);
  check_sum(&out.sums[2], 1, 20, 20);
  CHECK_INT(out.line.self_time, 110);
}

/* Rows without a name, or with a number outside the table, neither count nor enclose anything. */
static void rows_without_an_op_are_not_there(void) {
  const int64_t times[][2] = {{-50, 500}, {0, 10}, {2, 3}, {4, 1000}};
  const int32_t meta[] = {-1, 0, 9, 1};
  summed out = sum_times(times, meta, FP_OPS_STACK, 4);
  check_sum(&out.sums[0], 1, 10, 10);
  check_sum(&out.sums[1], 0, 0, 0); /* lies on the first one when that ends */
  CHECK_INT(out.line.span, 1004);
}

/* Row 0 gets op 1 instead of op 0; row 1 loses its op and has op 2 only beside it; row 2 has op 0 and op 2. */
static void another_op_may_stand_in_for_a_name_or_beside_it(void) {
  const int64_t start[] = {0, 10, 20}, duration[] = {5, 5, 5};
  const int32_t meta[] = {0, 0, 0};
  const uint8_t eager[] = {0, 1, 1};
  const fp_row_op instead[] = {{0, 1}, {1, -1}}, beside[] = {{1, 2}, {2, 2}};
  fp_host_ops input = input_of(start, duration, meta);
  input.eager = eager;
  input.instead = instead, input.instead_count = 2;
  input.beside = beside, input.beside_count = 2;
  summed out = sum_up(&input, FP_OPS_NEST, 3);
  check_sum(&out.sums[0], 1, 5, 0); /* what stands beside has the same span, and lies within */
  check_sum(&out.sums[1], 1, 5, 5);
  check_sum(&out.sums[2], 2, 10, 10);
  CHECK(out.sums[0].eager == 1 && out.sums[1].eager == 0 && out.sums[2].eager == 0);
  CHECK(out.sums[1].met < out.sums[2].met && out.sums[2].met < out.sums[0].met);
}

static void infeed_enqueues_count_when_the_next_one_comes(void) {
  const int64_t times[][2] = {{0, 10}, {50, 20}, {100, 40}};
  const int32_t meta[] = {3, 3, 3};
  summed out = sum_times(times, meta, FP_OPS_STACK, 3);
  CHECK(out.line.enqueue == 30 && out.line.enqueue_start == 100);
}

static void negative_durations_are_none(void) {
  const int64_t times[][2] = {{0, 100}, {10, -20}};
  const int32_t meta[] = {0, 1};
  for (fp_ops_order order = FP_OPS_NEST; order <= FP_OPS_STACK; order++) {
    summed out = sum_times(times, meta, order, 2);
    check_sum(&out.sums[0], 1, 100, 100);
    check_sum(&out.sums[1], 1, 0, 0);
  }
}

static void lines_know_nothing_of_each_other_and_keep_their_order(void) {
  const int64_t start[] = {0, 1, 1, 2}, duration[] = {10, 5, 5, 1};
  const int32_t meta[] = {0, 1, 2, 1};
  fp_host_ops input = input_of(start, duration, meta);
  const fp_row_op beside[] = {{0, 3}, {2, 3}};
  input.beside = beside, input.beside_count = 2;
  fp_op_line lines[] = {{.first = 2, .last = 4}, {.first = 2, .last = 2}, {.first = 0, .last = 2}};
  fp_op_sum sums[MOST_OPS] = {0};
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK_INT(fp_host_ops_sum(&memory, &input, FP_OPS_NEST, lines, 3, sums), FP_OK);
  CHECK(lines[0].span == 5 && lines[1].span == 0 && lines[2].span == 10);
  CHECK(sums[1].occurrences == 2 && sums[1].time == 6);
  CHECK(sums[3].met && sums[3].met < 1 + 2 * 2); /* met in rows 0 and 2: the earlier rows come first */
}

static void sums_that_do_not_fit_are_reported(void) {
  const int64_t start[] = {0, 1}, duration[] = {INT64_MAX, INT64_MAX}, wide[] = {INT64_MIN, 0};
  const int32_t meta[] = {0, 0};
  fp_memory memory;
  fp_memory_init(&memory);
  for (fp_ops_order order = FP_OPS_NEST; order <= FP_OPS_STACK; order++) {
    fp_op_line line = {.last = 2};
    fp_op_sum sums[MOST_OPS] = {0};
    fp_host_ops input = input_of(order == FP_OPS_NEST ? start : wide, duration, meta);
    CHECK_INT(fp_host_ops_sum(&memory, &input, order, &line, 1, sums), FP_OVERFLOW);
    CHECK_INT(memory.live, 0);
  }
}

/* The definition of FP_OPS_STACK, at the cost of sorting by insertion and searching the stack. */
static void stack_slowly(const spans *line, const int32_t *meta, summed *out) {
  size_t at[400], stack[200], depth = 0, count = 0;
  int64_t inside[200], time[400];
  for (size_t row = 0; row < line->count; row++)
    for (int64_t side = 0; side < 2; side++) {
      const int64_t when = line->start[row] + side * line->duration[row];
      size_t place = count++;
      for (; place && time[place - 1] > when; place--) time[place] = time[place - 1], at[place] = at[place - 1];
      time[place] = when;
      at[place] = 2 * row + (size_t)side;
    }
  for (size_t i = 0; i < count; i++) {
    const size_t row = at[i] / 2;
    if (at[i] % 2 == 0) {
      inside[depth] = 0;
      stack[depth++] = row;
      continue;
    }
    bool found = false;
    while (depth && !found) found = stack[--depth] == row;
    if (!found) continue;
    const int64_t duration = time[i] - line->start[row];
    fp_op_sum *sum = &out->sums[meta[row]];
    sum->occurrences++;
    sum->time += duration;
    sum->self_time += duration - inside[depth];
    if (depth) inside[depth - 1] += duration;
  }
}

/* The definition of FP_OPS_NEST: the self times that nesting has. */
static void nested_of(const spans *line, const int32_t *meta, summed *out) {
  nested nesting;
  nested_make(&nesting, line->count);
  nest_slowly(line, &nesting);
  for (size_t row = 0; row < line->count; row++) {
    fp_op_sum *sum = &out->sums[meta[row]];
    sum->occurrences++;
    sum->time += line->duration[row];
    sum->self_time += nesting.self_time[row];
  }
  nested_free(&nesting);
}

/* Compares the sums of all ops. */
static void compare(const summed *wanted, const summed *found) {
  for (int op = 0; op < MOST_OPS; op++)
    check_sum(&found->sums[op], wanted->sums[op].occurrences, wanted->sums[op].time, wanted->sums[op].self_time);
}

static void random_lines_give_what_the_definitions_say(void) {
  dice chance = {21};
  for (int round = 0; round < 2000; round++) {
    spans line;
    spans_make(&line, 200);
    spans_roll(&line, (size_t)roll_below(&chance, 200), 1 + (int64_t)roll_below(&chance, 300), &chance);
    int32_t meta[200];
    for (size_t i = 0; i < line.count; i++) {
      meta[i] = (int32_t)roll_below(&chance, MOST_OPS);
      line.placement[i] = FP_NESTS;
    }
    const fp_host_ops input = input_of(line.start, line.duration, meta);
    summed stacked = {0}, all = {0};
    stack_slowly(&line, meta, &stacked);
    nested_of(&line, meta, &all);
    const summed found = sum_up(&input, FP_OPS_STACK, line.count), own = sum_up(&input, FP_OPS_NEST, line.count);
    compare(&stacked, &found);
    compare(&all, &own);
    int64_t counted = 0;
    for (int op = 0; op < MOST_OPS; op++) counted += found.sums[op].occurrences;
    CHECK_INT(counted + found.line.lost, (int64_t)line.count);
    spans_free(&line);
  }
}

static void without_memory_it_says_so(void) {
  int64_t start[200], duration[200];
  int32_t meta[200] = {0};
  for (int i = 0; i < 200; i++) start[i] = i, duration[i] = i < 100 ? 1000 - 2 * i : 1000;
  const fp_host_ops input = input_of(start, duration, meta);
  for (fp_ops_order order = FP_OPS_NEST; order <= FP_OPS_STACK; order++)
    for (int64_t allowed = 0;; allowed++) {
      fp_memory memory;
      fp_memory_init(&memory);
      memory.countdown = allowed;
      fp_op_line line = {.last = 200};
      fp_op_sum sums[MOST_OPS] = {0};
      const fp_code result = fp_host_ops_sum(&memory, &input, order, &line, 1, sums);
      CHECK_INT(memory.live, 0);
      if (result == FP_NO_MEMORY) continue;
      CHECK(result == FP_OK && allowed > 4);
      break;
    }
}

int main(void) {
  RUN(nested_ops_take_their_time_from_what_they_are_in);
  RUN(an_op_that_ends_with_its_parent_is_lost_on_the_stack_and_so_is_all_around_it);
  RUN(ops_that_cross_share_no_time);
  RUN(rows_without_an_op_are_not_there);
  RUN(another_op_may_stand_in_for_a_name_or_beside_it);
  RUN(infeed_enqueues_count_when_the_next_one_comes);
  RUN(negative_durations_are_none);
  RUN(lines_know_nothing_of_each_other_and_keep_their_order);
  RUN(sums_that_do_not_fit_are_reported);
  RUN(random_lines_give_what_the_definitions_say);
  RUN(without_memory_it_says_so);
  return 0;
}
