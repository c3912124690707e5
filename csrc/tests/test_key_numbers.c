/* Numbers of keys: by example, and random keys against comparing each with each. */
#include "kernels/key_numbers.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST_WIDTH = 4 };

/* Runs the kernel on columns of exactly their size. */
static int64_t numbers_of(fp_memory *memory, int64_t (*keys)[MOST_WIDTH], size_t width, size_t count, int32_t *numbers) {
  int64_t *columns[MOST_WIDTH];
  int32_t *out = malloc(count * sizeof *out + 1);
  CHECK(out != NULL);
  for (size_t j = 0; j < width; j++) {
    columns[j] = malloc(count * sizeof(int64_t) + 1);
    CHECK(columns[j] != NULL);
    for (size_t i = 0; i < count; i++) columns[j][i] = keys[i][j];
  }
  size_t distinct;
  fp_code code = fp_key_numbers(memory, (const int64_t *const *)columns, width, count, out, &distinct);
  int64_t found = code == FP_OK ? (int64_t)distinct : -1;
  if (found >= 0) memcpy(numbers, out, count * sizeof *out);
  for (size_t j = 0; j < width; j++) free(columns[j]);
  free(out);
  CHECK_INT(memory->live, 0);
  return found;
}

static void keys_are_numbered_as_they_are_met(void) {
  int64_t keys[][MOST_WIDTH] = {{7, 1}, {7, 2}, {-7, 1}, {7, 1}, {1, 7}, {7, 2}, {INT64_MIN, INT64_MAX}};
  const int32_t wanted[] = {0, 1, 2, 0, 3, 1, 4};
  int32_t numbers[7];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK_INT(numbers_of(&memory, keys, 2, 7, numbers), 5);
  for (int i = 0; i < 7; i++) CHECK_INT(numbers[i], wanted[i]);
}

static void a_key_is_all_of_its_parts(void) {
  int64_t keys[][MOST_WIDTH] = {{1, 2, 3, 4}, {1, 2, 3, 5}, {0, 2, 3, 4}, {1, 0, 3, 4}, {1, 2, 0, 4}, {1, 2, 3, 4}};
  int32_t numbers[6];
  fp_memory memory;
  fp_memory_init(&memory);
  const int64_t wanted[] = {2, 3, 4, 5}; /* how many distinct keys the first 1, 2, 3, 4 columns give */
  for (size_t width = 1; width <= MOST_WIDTH; width++)
    CHECK_INT(numbers_of(&memory, keys, width, 6, numbers), wanted[width - 1]);
  CHECK_INT(numbers[5], 0);
}

static void no_keys_have_no_numbers(void) {
  int64_t keys[1][MOST_WIDTH] = {{0}};
  int32_t number = 9;
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK_INT(numbers_of(&memory, keys, 1, 0, &number), 0);
  CHECK_INT(number, 9);
  CHECK_INT(numbers_of(&memory, keys, 1, 1, &number), 1);
  CHECK_INT(number, 0);
}

static void keys_by_lot_are_numbered_as_by_comparing_each_with_each(void) {
  enum { COUNT = 300 };
  static int64_t keys[COUNT][MOST_WIDTH];
  int32_t numbers[COUNT];
  dice chance = {1};
  fp_memory memory;
  for (int round = 0; round < 300; round++) {
    size_t count = roll_below(&chance, COUNT), width = 1 + roll_below(&chance, MOST_WIDTH);
    uint64_t range = 1 + roll_below(&chance, round % 2 ? 4 : 1000);
    unsigned shift = (unsigned)roll_below(&chance, 60);
    for (size_t i = 0; i < count; i++)
      for (size_t j = 0; j < width; j++) keys[i][j] = (int64_t)(roll_below(&chance, range) << shift);
    fp_memory_init(&memory);
    int32_t known = 0;
    int64_t found = numbers_of(&memory, keys, width, count, numbers);
    for (size_t i = 0; i < count; i++) {
      size_t first = 0;
      while (memcmp(keys[first], keys[i], width * sizeof(int64_t))) first++;
      CHECK_INT(numbers[i], first == i ? known++ : numbers[first]);
    }
    CHECK_INT(found, known);
  }
}

/* Keys like these would all fall into one slot if the hash had no seed. */
static void regular_keys_do_not_crowd(void) {
  enum { COUNT = 1 << 18 };
  int64_t(*keys)[MOST_WIDTH] = malloc(COUNT * sizeof *keys);
  int32_t *numbers = malloc(COUNT * sizeof *numbers);
  CHECK(keys && numbers);
  fp_memory memory;
  for (unsigned shift = 0; shift < 46; shift += 9) {
    for (int64_t i = 0; i < COUNT; i++) {
      keys[i][0] = (int64_t)((uint64_t)i << shift);
      keys[i][1] = -keys[i][0];
    }
    fp_memory_init(&memory);
    CHECK_INT(numbers_of(&memory, keys, 2, COUNT, numbers), COUNT);
    CHECK_INT(numbers[COUNT - 1], COUNT - 1);
  }
  free(keys), free(numbers);
}

static void running_out_of_memory_is_reported(void) {
  int64_t keys[][MOST_WIDTH] = {{1}, {2}};
  int32_t numbers[2];
  fp_memory memory;
  fp_memory_init(&memory);
  for (int64_t allowed = 0; allowed <= 2; allowed++) { /* the slots and the keys */
    memory.countdown = allowed;
    CHECK_INT(numbers_of(&memory, keys, 1, 2, numbers), allowed == 2 ? 2 : -1);
  }
}

static void running_out_of_memory_while_the_table_grows_is_reported(void) {
  enum { COUNT = 1 << 16 };
  int64_t(*keys)[MOST_WIDTH] = malloc(COUNT * sizeof *keys);
  int32_t *numbers = malloc(COUNT * sizeof *numbers);
  CHECK(keys && numbers);
  for (int64_t i = 0; i < COUNT; i++) keys[i][0] = i;
  enum { PARTS = 2 * 4 }; /* slots and keys of 4 tables: of 4,096 slots, then four times as many each */
  for (int64_t allowed = 0; allowed <= PARTS; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    CHECK_INT(numbers_of(&memory, keys, 1, COUNT, numbers), allowed == PARTS ? COUNT : -1);
  }
  CHECK_INT(numbers[COUNT - 1], COUNT - 1);
  free(keys), free(numbers);
}

int main(void) {
  RUN(keys_are_numbered_as_they_are_met);
  RUN(a_key_is_all_of_its_parts);
  RUN(no_keys_have_no_numbers);
  RUN(keys_by_lot_are_numbered_as_by_comparing_each_with_each);
  RUN(regular_keys_do_not_crowd);
  RUN(running_out_of_memory_is_reported);
  RUN(running_out_of_memory_while_the_table_grows_is_reported);
  return 0;
}
