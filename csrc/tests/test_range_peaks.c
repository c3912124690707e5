/* Peaks of ranges against examining every value. */
#include "kernels/range_peaks.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 70 };

/* The definition: look at every value. */
static int64_t first_largest(const int64_t *values, int64_t first, int64_t last) {
  int64_t best = -1;
  for (int64_t i = first; i < last; i++)
    if (best < 0 || values[i] > values[best]) best = i;
  return best;
}

static void ranges_have_the_first_of_their_largest_values(void) {
  dice chance = {5};
  int64_t first[MOST], last[MOST], peak[MOST];
  for (int round = 0; round < 500; round++) {
    size_t count = roll_below(&chance, MOST);
    int64_t *values = malloc(count * sizeof *values + 1);
    CHECK(values != NULL);
    for (size_t i = 0; i < count; i++) values[i] = (int64_t)roll_below(&chance, 6) - 3;
    if (count && round % 7 == 0) values[0] = INT64_MIN, values[count - 1] = INT64_MAX;
    for (size_t i = 0; i < MOST; i++) {
      first[i] = (int64_t)roll_below(&chance, count + 1);
      last[i] = (int64_t)roll_below(&chance, count + 1);
    }
    fp_memory memory;
    fp_memory_init(&memory);
    CHECK(fp_range_peaks(&memory, values, count, first, last, MOST, peak) == FP_OK);
    CHECK_INT(memory.live, 0);
    for (size_t i = 0; i < MOST; i++) CHECK_INT(peak[i], first_largest(values, first[i], last[i]));
    free(values);
  }
}

static void the_largest_that_follows_is_of_the_same_stretch(void) {
  const int64_t values[] = {5, 9, 2, 9, 0, 7, -1}, bounds[] = {0, 4, 4, 7};
  const int32_t wanted[] = {1, 3, 3, -1, 5, -1, -1};
  int32_t peak[7];
  fp_following_peaks(values, bounds, 3, peak);
  for (int i = 0; i < 7; i++) CHECK_INT(peak[i], wanted[i]);
}

static void running_out_of_memory_is_reported(void) {
  const int64_t value = 1, first = 0, last = 1;
  int64_t peak = 7;
  fp_memory memory;
  fp_memory_init(&memory);
  memory.countdown = 0;
  CHECK(fp_range_peaks(&memory, &value, 1, &first, &last, 1, &peak) != FP_OK);
  memory.countdown = 1;
  CHECK(fp_range_peaks(&memory, &value, 1, &first, &last, 1, &peak) == FP_OK);
  CHECK_INT(peak, 0);
}

int main(void) {
  RUN(ranges_have_the_first_of_their_largest_values);
  RUN(the_largest_that_follows_is_of_the_same_stretch);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
