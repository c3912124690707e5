/* Pairs of starts and ends, and the rows that they are placed on. */
#include "kernels/offloads.h"

#include "tests/check.h"

enum { MOST = 200 };

typedef struct paired {
  int64_t start_at[MOST], end_at[MOST], count;
  int32_t row[MOST];
} paired;

static paired pair(const int64_t *begin, const int64_t *end, const int32_t *key, const uint8_t *starts, size_t count) {
  paired found;
  fp_memory memory;
  fp_memory_init(&memory);
  size_t transfers;
  CHECK(fp_offloads(&memory, begin, end, key, starts, count, 3, found.start_at, found.end_at, found.row, &transfers) == FP_OK);
  found.count = (int64_t)transfers;
  CHECK_INT(memory.live, 0);
  return found;
}

/* Starts and ends with their keys, and the transfers that they form:
 *
 *   time    0    1    2    10   20   30   40
 *   event   S0   S0   S1   E0   E1   E0   E0        pairs: (0, 10), (2, 20), (1, 30); the last end has no start
 */
static void an_end_completes_the_earliest_start_of_its_key(void) {
  const int64_t begin[] = {0, 1, 2, 10, 20, 30, 40}, end[] = {1, 2, 3, 11, 21, 31, 41};
  const int32_t key[] = {0, 0, 1, 0, 1, 0, 0};
  const uint8_t starts[] = {1, 1, 1, 0, 0, 0, 0}; /* the last has no start left */
  paired found = pair(begin, end, key, starts, 7);
  CHECK_INT(found.count, 3);
  const int64_t start_at[] = {0, 2, 1}, end_at[] = {3, 4, 5};
  for (int i = 0; i < 3; i++) {
    CHECK_INT(found.start_at[i], start_at[i]);
    CHECK_INT(found.end_at[i], end_at[i]);
    CHECK_INT(found.row[i], i);
  }
}

/* Rows become free at 10, 15 and 30; the transfer that begins at 20 takes the first of them:
 *
 *   row 0  |---------|                                 and 20..40
 *   row 1   |-------------|
 *   row 2    |---------------------------|
 */
static void a_transfer_takes_the_row_that_got_free_first(void) {
  /* three that overlap, then one that begins when the first two have ended */
  const int64_t begin[] = {0, 1, 2, 9, 14, 29, 20, 39}, end[] = {1, 2, 3, 10, 15, 30, 21, 40};
  const int32_t key[] = {0, 1, 2, 0, 1, 2, 0, 0};
  const uint8_t starts[] = {1, 1, 1, 0, 0, 0, 1, 0};
  paired found = pair(begin, end, key, starts, 8);
  CHECK_INT(found.count, 4);
  const int32_t row[] = {0, 1, 2, 0};
  for (int i = 0; i < 4; i++) CHECK_INT(found.row[i], row[i]);
}

static void what_fits_on_no_row_goes_on_the_last(void) {
  int64_t begin[MOST], end[MOST];
  int32_t key[MOST];
  uint8_t starts[MOST];
  for (int i = 0; i < MOST; i++) {
    begin[i] = i;
    end[i] = i + 1;
    key[i] = 0;
    starts[i] = i < MOST / 2;
  }
  paired found = pair(begin, end, key, starts, MOST);
  CHECK_INT(found.count, MOST / 2);
  for (int i = 0; i < MOST / 2; i++) CHECK_INT(found.row[i], i < FP_OFFLOAD_ROWS ? i : FP_OFFLOAD_ROWS - 1);
}

static void every_failing_allocation_is_reported(void) {
  const int64_t begin[] = {0, 5}, end[] = {1, 6};
  const int32_t key[] = {0, 0};
  const uint8_t starts[] = {1, 0};
  for (int64_t fails = 0;; fails++) {
    int64_t start_at[2], end_at[2];
    int32_t row[2];
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = fails;
    size_t found;
    fp_code code = fp_offloads(&memory, begin, end, key, starts, 2, 1, start_at, end_at, row, &found);
    CHECK_INT(memory.live, 0);
    if (code == FP_OK) {
      CHECK_INT(found, 1);
      CHECK(fails >= 2);
      return;
    }
  }
}

int main(void) {
  RUN(an_end_completes_the_earliest_start_of_its_key);
  RUN(a_transfer_takes_the_row_that_got_free_first);
  RUN(what_fits_on_no_row_goes_on_the_last);
  RUN(every_failing_allocation_is_reported);
  return 0;
}
