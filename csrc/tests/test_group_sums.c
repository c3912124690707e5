/* Sums by group: exact, additive over calls, and refused where 64 bits do not hold them. */
#include "kernels/group_sums.h"

#include "tests/check.h"
#include "tests/message.h"

static void values_are_summed_by_group(void) {
  const int32_t groups[] = {1, 0, 1, -1, 2, 1};
  const int64_t values[] = {5, -3, 7, 1000, 0, -4};
  fp_group_sum sums[4] = {0};
  CHECK(fp_group_sums(groups, values, 6, sums, 4) == FP_OK);
  CHECK(sums[0].count == 1 && sums[0].total == -3 && sums[0].minimum == -3 && sums[0].maximum == -3);
  CHECK(sums[1].count == 3 && sums[1].total == 8 && sums[1].minimum == -4 && sums[1].maximum == 7);
  CHECK(sums[2].count == 1 && sums[2].total == 0 && sums[2].minimum == 0 && sums[2].maximum == 0);
  CHECK(sums[3].count == 0 && sums[3].total == 0 && sums[3].minimum == 0 && sums[3].maximum == 0);
}

static void calls_add_up(void) {
  dice chance = {2};
  enum { VALUES = 1000, GROUPS = 7 };
  int32_t groups[VALUES];
  int64_t values[VALUES];
  for (int i = 0; i < VALUES; i++) {
    groups[i] = (int32_t)roll_below(&chance, GROUPS + 1) - 1;
    values[i] = (int64_t)roll(&chance) >> 20;
  }
  fp_group_sum whole[GROUPS] = {0}, split[GROUPS] = {0};
  CHECK(fp_group_sums(groups, values, VALUES, whole, GROUPS) == FP_OK);
  for (int i = 0; i < VALUES; i += 125) CHECK(fp_group_sums(groups + i, values + i, 125, split, GROUPS) == FP_OK);
  CHECK(!memcmp(whole, split, sizeof whole));
}

static void groups_out_of_range_are_left_out(void) {
  const int32_t groups[] = {INT32_MIN, -1, 1, INT32_MAX};
  const int64_t values[] = {1, 2, 3, 4};
  fp_group_sum *sum = calloc(1, sizeof *sum);
  CHECK(sum && fp_group_sums(groups, values, 4, sum, 1) == FP_OK);
  CHECK_INT(sum->count, 0);
  free(sum);
}

static void a_sum_that_does_not_fit_is_said(void) {
  const int32_t groups[] = {0, 0, 0};
  const int64_t up[] = {INT64_MAX, 1, 0}, down[] = {INT64_MIN, -1, 0}, fits[] = {INT64_MAX, INT64_MIN, 1};
  fp_group_sum sum = {0};
  CHECK(fp_group_sums(groups, up, 3, &sum, 1) != FP_OK);
  sum = (fp_group_sum){0};
  CHECK(fp_group_sums(groups, down, 3, &sum, 1) != FP_OK);
  sum = (fp_group_sum){0};
  CHECK(fp_group_sums(groups, fits, 3, &sum, 1) == FP_OK && sum.total == 0 && sum.minimum == INT64_MIN && sum.maximum == INT64_MAX);
}

int main(void) {
  RUN(values_are_summed_by_group);
  RUN(calls_add_up);
  RUN(groups_out_of_range_are_left_out);
  RUN(a_sum_that_does_not_fit_is_said);
  return 0;
}
