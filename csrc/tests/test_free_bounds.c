/* Bounds of free memory: the arithmetic of six digits by example, each way in which an allocator can change by
 * example, and for random records that bounds are in order. */
#include "kernels/free_bounds.h"

#include <math.h>

#include "tests/check.h"

enum { MOST = 8, FREE_BIT = 2, HEAP_BIT = 4, ALL = FREE_BIT | HEAP_BIT };

/* An event of an allocator that has 1,000,000 bytes. */
typedef struct record {
  bool is_allocation;
  int64_t moved, heap;
  double fragmentation;
  int64_t request;
} record;

typedef struct result {
  int64_t low[MOST], high[MOST], least[MOST], most[MOST], taken_low[MOST], taken_high[MOST];
  uint8_t grows[1];
  int64_t known[MOST], chunks[MOST], fitting[MOST], too_small[MOST];
} result;

/* Runs the kernel on events of one allocator of 1,000,000 bytes. `out` may hold known chunks. */
static void bound(const record *events, size_t count, int64_t stack, uint16_t recorded, result *out) {
  uint8_t is_allocation[MOST];
  double fragmentation[MOST];
  int64_t free_bytes[MOST], heap[MOST], stacks[MOST], moved[MOST], request[MOST], bounds[] = {0, (int64_t)count};
  uint16_t bits[MOST];
  for (size_t i = 0; i < count; i++) {
    is_allocation[i] = events[i].is_allocation, fragmentation[i] = events[i].fragmentation;
    heap[i] = events[i].heap, moved[i] = events[i].moved, request[i] = events[i].request;
    stacks[i] = stack, bits[i] = recorded, free_bytes[i] = 1000000 - heap[i] - stack;
  }
  const fp_free_events input = {is_allocation, fragmentation, free_bytes, heap, stacks, bits, FREE_BIT, HEAP_BIT,
                                moved, request, bounds, 1};
  const fp_free_bounds output = {out->low, out->high, out->least, out->most, out->taken_low, out->taken_high,
                                 out->grows, out->known, out->chunks, out->fitting, out->too_small};
  fp_bound_free_memory(&input, &output);
}

/* The bounds after a single event. */
static result of_one(double fragmentation, int64_t heap, int64_t request) {
  const record event = {true, 10, heap, fragmentation, request};
  result out = {0};
  bound(&event, 1, 0, ALL, &out);
  return out;
}

static void without_fragmentation_all_that_is_free_is_one_chunk(void) {
  result found = of_one(0, 400000, 600000);
  CHECK_INT(found.low[0], 600000);
  CHECK_INT(found.high[0], 600000);
  CHECK_INT(found.most[0], 0);
  found = of_one(0, 400000, 600001);
  CHECK_INT(found.least[0], 600000);
  CHECK_INT(found.most[0], 600000);
}

static void six_digits_give_the_largest_chunk_to_half_a_unit(void) {
  result found = of_one(0.123456, 0, 100);
  CHECK_INT(found.low[0], 876543); /* 1,000,000 x (1 - 0.1234565) */
  CHECK_INT(found.high[0], 876545);
  found = of_one(1.23456e-8, 0, 100);
  CHECK_INT(found.low[0], 999999);
  CHECK_INT(found.high[0], 1000000);
}

static void the_more_is_free_the_less_six_digits_tell(void) {
  result found = of_one(0.123456, 1000000 - INT64_C(1000000000000), 100);
  CHECK_INT(found.low[0] / 10, 87654349999);
  CHECK_INT(found.high[0] / 10, 87654450000);
}

static void more_digits_give_it_to_the_byte(void) {
  result found = of_one(0.12345678, 0, 100);
  CHECK_INT(found.low[0], 876543);
  CHECK_INT(found.high[0], 876544);
}

static void invalid_shares_show_nothing(void) {
  const double shares[] = {NAN, -0.1, 1.5, INFINITY};
  for (int i = 0; i < 4; i++) {
    result found = of_one(shares[i], 0, 100);
    CHECK_INT(found.low[0], -1);
    CHECK_INT(found.high[0], -1);
    CHECK_INT(found.least[0], -1);
    CHECK_INT(found.most[0], -1);
  }
  CHECK_INT(of_one(1, 0, 100).most[0], 1000000);
}

static void where_nothing_follows_nothing_is_too_small(void) {
  result found = of_one(NAN, 0, 0);
  CHECK_INT(found.least[0], 0);
  CHECK_INT(found.most[0], 0);
}

static void known_chunks_narrow_what_is_too_small(void) {
  const record event = {true, 10, 0, 0.5, 1000};
  result out = {.known = {700000}, .chunks = {5}, .fitting = {650000}, .too_small = {50000}};
  bound(&event, 1, 0, ALL, &out);
  CHECK_INT(out.least[0], 50000);
  CHECK_INT(out.most[0], 350000);
  CHECK_INT(out.known[0], 700000);
}

static void where_the_largest_chunk_may_be_too_small_it_counts_for_both(void) {
  result found = of_one(0.123456, 0, 876544);
  CHECK_INT(found.least[0], 0);
  CHECK_INT(found.most[0], 1000000);
}

static void what_is_known_to_be_too_small_is_the_least_in_any_case(void) {
  const record event = {true, 10, 0, 0.5, 1000};
  result out = {.known = {900000}, .chunks = {5}, .fitting = {200000}, .too_small = {700000}};
  bound(&event, 1, 0, ALL, &out);
  CHECK_INT(out.least[0], 700000);
  CHECK_INT(out.most[0], 700000);
}

static void chunks_where_the_stack_may_lie_are_not_known(void) {
  const record event = {true, 10, 0, 0.5, 1000};
  result out = {.known = {700000}, .chunks = {5}, .fitting = {650000}, .too_small = {50000}};
  bound(&event, 1, 200000, ALL, &out);
  CHECK_INT(out.known[0] + out.chunks[0] + out.fitting[0] + out.too_small[0], 0);
  CHECK_INT(out.least[0], 0);
  CHECK_INT(out.most[0], 400001); /* of 800,000, 399,999 at the least are the largest chunk */
}

/* Whether the kernel concludes from two events that the allocator grows. */
static bool grows(record first, record second, int64_t stack, uint16_t recorded) {
  const record events[] = {first, second};
  result out = {0};
  bound(events, 2, stack, recorded, &out);
  CHECK(out.low[1] <= out.high[1]);
  return out.grows[0];
}

static void an_allocator_that_grows_gives_itself_away(void) {
  const record before = {true, 10, 500000, 0.5, 10};                           /* largest: 250,000 */
  CHECK(!grows(before, (record){true, 100000, 600000, 0.5, 10}, 0, ALL));      /* 200,000 */
  CHECK(!grows(before, (record){true, 100000, 600000, 0.375, 10}, 0, ALL));    /* 250,000 */
  CHECK(grows(before, (record){true, 100000, 600000, 0.25, 10}, 0, ALL));      /* 300,000: more */
  CHECK(grows(before, (record){true, 100000, 600000, 0.75, 10}, 0, ALL));      /* 100,000: far less was left */
  CHECK(grows(before, (record){true, 300000, 800000, 0, 10}, 0, ALL));         /* it did not fit */
  CHECK(!grows(before, (record){false, 100000, 400000, 0.5, 10}, 0, ALL));     /* 300,000 */
  CHECK(grows(before, (record){false, 100000, 400000, 0.75, 10}, 0, ALL));     /* 150,000: a free made it smaller */
}

static void a_stack_that_takes_free_memory_is_no_growth(void) {
  const uint8_t allocates[] = {1, 1};
  const double shares[] = {0.5, 0.5};
  const int64_t free_bytes[] = {500000, 100000}, heap[] = {500000, 500010}, stack[] = {0, 399990}, moved[] = {10, 10};
  const int64_t request[] = {10, 10}, bounds[] = {0, 2};
  const uint16_t bits[] = {ALL, ALL};
  result out = {0};
  const fp_free_events input = {allocates, shares, free_bytes, heap, stack, bits, FREE_BIT, HEAP_BIT,
                                moved, request, bounds, 1};
  const fp_free_bounds output = {out.low, out.high, out.least, out.most, out.taken_low, out.taken_high,
                                 out.grows, out.known, out.chunks, out.fitting, out.too_small};
  fp_bound_free_memory(&input, &output);
  CHECK_INT(out.grows[0], 0);
  CHECK(out.low[1] <= 50000 && out.high[1] >= 50000);
}

static void where_events_are_missing_nothing_is_odd(void) {
  const record before = {true, 10, 500000, 0.5, 10};
  CHECK(!grows(before, (record){true, 100000, 600001, 0.25, 10}, 0, ALL));
  CHECK(!grows(before, (record){true, -1, 600000, 0.25, 10}, 0, ALL));
  CHECK(!grows(before, (record){true, 100000, 600000, 0.25, 10}, 0, FREE_BIT));
}

/* 600,064 bytes are taken: 200,192 are in use and the largest chunk has 250,112. */
static const record BEFORE = {true, 256, 200192, 0.374520, 256};

static void a_constant_largest_chunk_shows_the_memory_taken(void) {
  const record events[] = {BEFORE, {false, 256, 199936, 0.374920, 256}, {true, 512, 200448, 0.374119, 256}};
  result out = {0};
  bound(events, 3, 0, ALL, &out);
  CHECK(out.grows[0]);
  for (int i = 0; i < 3; i++) {
    CHECK(out.taken_low[i] <= 600064 && out.taken_high[i] >= 600064);
    CHECK(out.taken_high[i] - out.taken_low[i] < 3000);
    CHECK(out.low[i] <= 250112 && out.high[i] >= 250112 && out.high[i] - out.low[i] < 2000);
  }
}

/* 350,208 bytes more are taken, 950,272 in all. */
static void more_is_taken_for_what_fits_nowhere(void) {
  const record events[] = {BEFORE, {false, 256, 199936, 0.374920, 256}, {true, 300032, 499968, 0.444570, 256},
                         {false, 256, 499712, 0.444886, 256}};
  result out = {0};
  bound(events, 4, 0, ALL, &out);
  CHECK(out.grows[0]);
  CHECK(out.taken_high[1] < 602000);
  for (int i = 2; i < 4; i++) {
    CHECK(out.taken_low[i] <= 950272 && out.taken_high[i] >= 950272);
    CHECK(out.taken_high[i] - out.taken_low[i] < 5000);
  }
}

static void nothing_follows_across_a_gap(void) {
  const record events[] = {BEFORE, {false, 256, 199936, 0.374920, 256}, {true, 512, 300032, 0.374119, 256}};
  result out = {0};
  bound(events, 3, 0, ALL, &out);
  CHECK(out.taken_high[1] < 602000);
  CHECK_INT(out.taken_high[2], 1000000);
  CHECK(out.taken_low[2] < 310000);
}

static void contradictory_records_show_nothing(void) {
  const record events[] = {BEFORE, {false, 256, 199936, 0.9, 256}, {false, 256, 199680, 0.000001, 256}};
  result out = {0};
  bound(events, 3, 0, ALL, &out);
  for (int i = 0; i < 3; i++) {
    CHECK_INT(out.low[i], -1);
    CHECK_INT(out.high[i], -1);
    CHECK_INT(out.least[i], -1);
    CHECK_INT(out.most[i], -1);
    CHECK_INT(out.taken_low[i], -1);
    CHECK_INT(out.taken_high[i], -1);
  }
}

static void with_a_stack_an_allocator_that_grows_shows_nothing(void) {
  const record events[] = {BEFORE, {false, 256, 199936, 0.374920, 256}};
  result out = {0};
  bound(events, 2, 1000, ALL, &out);
  CHECK(out.grows[0]);
  CHECK_INT(out.high[0], -1);
  CHECK_INT(out.taken_high[1], -1);
}

/* Nine tenths are requested and fit in no chunk: known chunks may have been given back. */
static void known_chunks_may_be_given_back_for_what_fits_nowhere(void) {
  const record events[] = {BEFORE, {false, 256, 199936, 0.374920, 256}, {true, 768000, 967936, 0.1, 256}};
  result out = {.known = {0, 256, 256}, .chunks = {0, 1, 1}};
  bound(events, 3, 0, ALL, &out);
  CHECK_INT(out.known[1], 256);
  CHECK_INT(out.known[2] + out.chunks[2], 0);
  CHECK(out.taken_low[2] < 999000);
}

static void sizes_that_no_device_has_are_no_bounds(void) {
  const int64_t huge = INT64_MAX / 4;
  const record events[] = {{true, 256, -huge, 0.5, huge}, {false, huge, -2 * huge, 0.9, huge}, {true, 10, -huge, 0, 1}};
  result out = {0};
  bound(events, 3, 0, ALL, &out);
  for (int i = 0; i < 3; i++) CHECK(out.low[i] <= out.high[i] && out.taken_low[i] == -1);
}

static uint64_t drawn(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

static void whatever_is_recorded_bounds_are_in_order(void) {
  const int64_t sizes[] = {0, 1, 256, 1000, 300000, INT64_C(1) << 49, INT64_C(1) << 51, INT64_MAX};
  const double shares[] = {0, 1e-300, 1e-9, 0.25, 0.5, 0.750001, 0.999999, 1, -1, NAN, INFINITY};
  uint64_t state = 1;
  for (int round = 0; round < 20000; round++) {
    uint8_t is_allocation[MOST];
    double fragmentation[MOST];
    int64_t free_bytes[MOST], heap[MOST], stack[MOST], moved[MOST], request[MOST];
    uint16_t bits[MOST];
    result out = {0};
    for (int i = 0; i < MOST; i++) {
      is_allocation[i] = drawn(&state) % 2, fragmentation[i] = shares[drawn(&state) % 11];
      moved[i] = sizes[drawn(&state) % 8] * (drawn(&state) % 9 ? 1 : -1), request[i] = sizes[drawn(&state) % 8];
      heap[i] = i ? heap[i - 1] : sizes[drawn(&state) % 8], free_bytes[i] = i ? free_bytes[i - 1] : sizes[drawn(&state) % 8];
      int64_t change = is_allocation[i] ? moved[i] : -moved[i], sum;
      if (i && !__builtin_add_overflow(heap[i], change, &sum)) heap[i] = sum;
      if (i && !__builtin_sub_overflow(free_bytes[i], change, &sum)) free_bytes[i] = sum;
      stack[i] = drawn(&state) % 30 ? 0 : sizes[drawn(&state) % 8], bits[i] = drawn(&state) % 20 ? ALL : HEAP_BIT;
      out.known[i] = sizes[drawn(&state) % 8], out.fitting[i] = drawn(&state) % 3 ? 0 : out.known[i];
    }
    const int64_t bounds[] = {0, MOST};
    const fp_free_events input = {is_allocation, fragmentation, free_bytes, heap, stack, bits, FREE_BIT, HEAP_BIT,
                                  moved, request, bounds, 1};
    const fp_free_bounds output = {out.low, out.high, out.least, out.most, out.taken_low, out.taken_high,
                                   out.grows, out.known, out.chunks, out.fitting, out.too_small};
    fp_bound_free_memory(&input, &output);
    for (int i = 0; i < MOST; i++) {
      CHECK(-1 <= out.low[i] && out.low[i] <= out.high[i] && (out.low[i] >= 0 || out.high[i] == -1));
      CHECK(out.high[i] == -1 || out.high[i] <= free_bytes[i]);
      CHECK(-1 <= out.least[i] && out.least[i] <= out.most[i]);
      CHECK(-1 <= out.taken_low[i] && out.taken_low[i] <= out.taken_high[i]);
      CHECK(out.taken_high[i] == -1 || out.taken_high[i] - heap[i] <= free_bytes[i]);
    }
  }
}

int main(void) {
  RUN(without_fragmentation_all_that_is_free_is_one_chunk);
  RUN(six_digits_give_the_largest_chunk_to_half_a_unit);
  RUN(the_more_is_free_the_less_six_digits_tell);
  RUN(more_digits_give_it_to_the_byte);
  RUN(invalid_shares_show_nothing);
  RUN(where_nothing_follows_nothing_is_too_small);
  RUN(known_chunks_narrow_what_is_too_small);
  RUN(where_the_largest_chunk_may_be_too_small_it_counts_for_both);
  RUN(what_is_known_to_be_too_small_is_the_least_in_any_case);
  RUN(chunks_where_the_stack_may_lie_are_not_known);
  RUN(an_allocator_that_grows_gives_itself_away);
  RUN(a_stack_that_takes_free_memory_is_no_growth);
  RUN(where_events_are_missing_nothing_is_odd);
  RUN(a_constant_largest_chunk_shows_the_memory_taken);
  RUN(more_is_taken_for_what_fits_nowhere);
  RUN(nothing_follows_across_a_gap);
  RUN(contradictory_records_show_nothing);
  RUN(with_a_stack_an_allocator_that_grows_shows_nothing);
  RUN(known_chunks_may_be_given_back_for_what_fits_nowhere);
  RUN(sizes_that_no_device_has_are_no_bounds);
  RUN(whatever_is_recorded_bounds_are_in_order);
  return 0;
}
