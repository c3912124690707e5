/* The order of equal lengths against digests of what std::sort gives, and inputs that drive quicksort to its worst. */
#include "kernels/rank_order.h"

#include "tests/check.h"

enum { MOST = 100000 };

static int64_t length[MOST];
static int32_t order[MOST];

static void rank(size_t count) {
  for (size_t i = 0; i < count; i++) order[i] = (int32_t)i;
  fp_rank_order(length, order, count);
}

/* FNV-1a over integers: a digest of an order of thousands. */
static uint64_t digest(size_t count) {
  uint64_t hash = UINT64_C(1469598103934665603);
  for (size_t i = 0; i < count; i++) hash = (hash ^ (uint64_t)order[i]) * UINT64_C(1099511628211);
  return hash;
}

/* Lengths with `kinds` different values, from a generator that is easily written again in another language. */
static void draw(size_t count, uint64_t kinds) {
  uint64_t state = count * 31 + kinds;
  for (size_t i = 0; i < count; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    length[i] = (int64_t)((state >> 33) % kinds);
  }
}

/* A sequence whose medians of three are always among the shortest left: quicksort alone would take n² time. */
static void draw_killer(size_t count) {
  size_t half = count / 2;
  for (size_t i = 1; i <= half; i++) {
    if (i % 2) {
      length[i - 1] = (int64_t)i;
      length[i] = (int64_t)(half + i);
    }
    length[half + i - 1] = (int64_t)(2 * i);
  }
  for (size_t i = 0; i < count; i++) length[i] = -(length[i] / 4);
}

static void the_longest_is_first(void) {
  const int64_t given[] = {3, -1, 7, INT64_MIN, INT64_MAX, 0};
  const int32_t wanted[] = {4, 2, 0, 5, 1, 3};
  memcpy(length, given, sizeof given);
  rank(6);
  for (int i = 0; i < 6; i++) CHECK_INT(order[i], wanted[i]);
}

static void few_equals_keep_their_order(void) {
  for (int i = 0; i < 16; i++) length[i] = 5;
  rank(16);
  for (int i = 0; i < 16; i++) CHECK_INT(order[i], i);
}

static void more_equals_are_in_the_order_of_the_cpp_library(void) {
  const int32_t wanted[] = {12, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 0, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  for (int i = 0; i < 24; i++) length[i] = 5;
  rank(24);
  for (int i = 0; i < 24; i++) CHECK_INT(order[i], wanted[i]);
}

/* The digests were computed with std::sort of libstdc++ 12 over the same lengths. */
static void many_with_equals_are_in_the_order_of_the_cpp_library(void) {
  const struct {
    size_t count;
    uint64_t kinds, digest;
  } wanted[] = {
      {40, 2, UINT64_C(0xb377b15a225d239b)},     {40, 3, UINT64_C(0xf6305aebce11f6d5)},
      {40, 50, UINT64_C(0x0abdb35ee3978223)},    {1000, 2, UINT64_C(0x02363483740a1c8d)},
      {1000, 3, UINT64_C(0x9e923755c895a011)},   {1000, 50, UINT64_C(0xd4376278df2bba2f)},
      {MOST, 2, UINT64_C(0x6031413c6783d15d)},   {MOST, 3, UINT64_C(0x295ff0cc08e2133b)},
      {MOST, 50, UINT64_C(0x2c41add37e58f03b)},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    draw(wanted[i].count, wanted[i].kinds);
    rank(wanted[i].count);
    CHECK(digest(wanted[i].count) == wanted[i].digest);
  }
}

static void lengths_made_to_take_long_are_sorted_as_a_heap(void) {
  draw_killer(4000);
  rank(4000);
  CHECK(digest(4000) == UINT64_C(0xec18e9b43dda21f5));
  draw_killer(MOST);
  rank(MOST); /* n² would be seconds under the sanitizers */
  for (size_t i = 1; i < MOST; i++) CHECK(length[order[i - 1]] >= length[order[i]]);
}

static void nothing_is_in_order(void) {
  order[0] = 7;
  fp_rank_order(length, order, 0);
  CHECK_INT(order[0], 7);
  rank(1);
  CHECK_INT(order[0], 0);
}

int main(void) {
  RUN(the_longest_is_first);
  RUN(few_equals_keep_their_order);
  RUN(more_equals_are_in_the_order_of_the_cpp_library);
  RUN(many_with_equals_are_in_the_order_of_the_cpp_library);
  RUN(lengths_made_to_take_long_are_sorted_as_a_heap);
  RUN(nothing_is_in_order);
  return 0;
}
