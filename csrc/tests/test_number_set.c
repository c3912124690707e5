/* Ordered sets of numbers against a byte for every number. */
#include "kernels/number_set.h"

#include "tests/check.h"
#include "tests/message.h"

/* The definitions: look at every number. */
static int64_t upto(const uint8_t *there, size_t number) {
  for (int64_t i = (int64_t)number; i >= 0; i--)
    if (there[i]) return i;
  return -1;
}

static int64_t from(const uint8_t *there, size_t number, size_t limit) {
  for (size_t i = number; i < limit; i++)
    if (there[i]) return (int64_t)i;
  return -1;
}

/* Compares all questions about one number. */
static void check_like(const fp_number_set *set, const uint8_t *there, size_t number, size_t limit) {
  CHECK_INT(fp_number_set_has(set, number), there[number]);
  CHECK_INT(fp_number_set_upto(set, number), upto(there, number));
  CHECK_INT(fp_number_set_from(set, number), from(there, number, limit));
}

static void neighbours_are_found_as_by_looking_at_each(void) {
  const size_t limits[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 20000};
  dice chance = {3};
  for (size_t which = 0; which < sizeof limits / sizeof *limits; which++) {
    size_t limit = limits[which];
    uint8_t *there = calloc(limit, 1);
    fp_memory memory;
    fp_number_set set;
    fp_memory_init(&memory);
    CHECK(there && fp_number_set_open(&memory, &set, limit));
    for (int round = 0; round < 3000; round++) {
      size_t number = roll_below(&chance, limit);
      if (roll_below(&chance, round < 1500 ? 3 : 12) == 0) {
        there[number] = 1;
        fp_number_set_add(&set, number);
      } else {
        int64_t member = upto(there, number); /* or few would ever be removed */
        if (member >= 0) {
          there[member] = 0;
          fp_number_set_remove(&set, (size_t)member);
        }
      }
      check_like(&set, there, roll_below(&chance, limit), limit);
      check_like(&set, there, number, limit);
      if (round % 500 == 0) check_like(&set, there, 0, limit), check_like(&set, there, limit - 1, limit);
    }
    fp_number_set_close(&memory, &set);
    fp_number_set_close(&memory, &set);
    CHECK_INT(memory.live, 0);
    free(there);
  }
}

static void far_neighbours_take_few_looks(void) {
  enum { LIMIT = 1 << 22 };
  fp_memory memory;
  fp_number_set set;
  fp_memory_init(&memory);
  CHECK(fp_number_set_open(&memory, &set, LIMIT));
  fp_number_set_add(&set, 0);
  fp_number_set_add(&set, LIMIT - 1);
  for (size_t i = 1; i < LIMIT - 1; i++) {
    CHECK(fp_number_set_upto(&set, i) == 0);
    CHECK(fp_number_set_from(&set, i) == LIMIT - 1);
  }
  fp_number_set_close(&memory, &set);
}

static void running_out_of_memory_is_reported(void) {
  for (int64_t allowed = 0; allowed < 4; allowed++) {
    fp_memory memory;
    fp_number_set set;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    CHECK_INT(fp_number_set_open(&memory, &set, 5000), allowed >= 3);
    fp_number_set_close(&memory, &set);
    CHECK_INT(memory.live, 0);
  }
}

int main(void) {
  RUN(neighbours_are_found_as_by_looking_at_each);
  RUN(far_neighbours_take_few_looks);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
