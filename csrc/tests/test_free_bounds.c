#include "kernels/free_bounds.h"

#include <math.h>

#include "tests/check.h"

enum { MOST = 8, FREE_BIT = 2, HEAP_BIT = 4, ALL = FREE_BIT | HEAP_BIT };

/* An allocator of 1,000,000 bytes, event by event. */
typedef struct told {
  bool is_allocation;
  int64_t moved, heap;
  double fragmentation;
  int64_t request;
} told;

typedef struct result {
  int64_t low[MOST], high[MOST], least[MOST], most[MOST];
  uint8_t grows[1];
  int64_t known[MOST], chunks[MOST], fitting[MOST], too_small[MOST];
} result;

static void bound(const told *events, size_t count, int64_t stack, uint16_t recorded, result *out) {
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
  const fp_free_bounds output = {out->low, out->high, out->least, out->most, out->grows,
                                 out->known, out->chunks, out->fitting, out->too_small};
  fp_bound_free_memory(&input, &output);
}

static result of_one(double fragmentation, int64_t heap, int64_t request) {
  const told event = {true, 10, heap, fragmentation, request};
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

static void six_digits_tell_the_largest_chunk_to_half_a_unit(void) {
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

static void more_digits_tell_it_to_the_byte(void) {
  result found = of_one(0.12345678, 0, 100);
  CHECK_INT(found.low[0], 876543);
  CHECK_INT(found.high[0], 876544);
}

static void shares_that_are_none_tell_nothing(void) {
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
  const told event = {true, 10, 0, 0.5, 1000};
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
  const told event = {true, 10, 0, 0.5, 1000};
  result out = {.known = {900000}, .chunks = {5}, .fitting = {200000}, .too_small = {700000}};
  bound(&event, 1, 0, ALL, &out);
  CHECK_INT(out.least[0], 700000);
  CHECK_INT(out.most[0], 700000);
}

static void chunks_where_the_stack_may_lie_are_not_known(void) {
  const told event = {true, 10, 0, 0.5, 1000};
  result out = {.known = {700000}, .chunks = {5}, .fitting = {650000}, .too_small = {50000}};
  bound(&event, 1, 200000, ALL, &out);
  CHECK_INT(out.known[0] + out.chunks[0] + out.fitting[0] + out.too_small[0], 0);
  CHECK_INT(out.least[0], 0);
  CHECK_INT(out.most[0], 400001); /* of 800,000, 399,999 at the least are the largest chunk */
}

static bool grows(told first, told second, int64_t stack, uint16_t recorded) {
  const told events[] = {first, second};
  result out = {0};
  bound(events, 2, stack, recorded, &out);
  CHECK_INT(out.low[0] < 0, out.grows[0]);
  CHECK_INT(out.least[1], out.grows[0] ? -1 : 0);
  return out.grows[0];
}

static void an_allocator_that_grows_gives_itself_away(void) {
  const told before = {true, 10, 500000, 0.5, 10};                           /* largest: 250,000 */
  CHECK(!grows(before, (told){true, 100000, 600000, 0.5, 10}, 0, ALL));      /* 200,000 */
  CHECK(!grows(before, (told){true, 100000, 600000, 0.375, 10}, 0, ALL));    /* 250,000 */
  CHECK(grows(before, (told){true, 100000, 600000, 0.25, 10}, 0, ALL));      /* 300,000: more */
  CHECK(grows(before, (told){true, 100000, 600000, 0.75, 10}, 0, ALL));      /* 100,000: far less was left */
  CHECK(grows(before, (told){true, 300000, 800000, 0, 10}, 0, ALL));         /* it did not fit */
  CHECK(!grows(before, (told){false, 100000, 400000, 0.5, 10}, 0, ALL));     /* 300,000 */
  CHECK(grows(before, (told){false, 100000, 400000, 0.75, 10}, 0, ALL));     /* 150,000: a free made it smaller */
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
  const fp_free_bounds output = {out.low, out.high, out.least, out.most, out.grows,
                                 out.known, out.chunks, out.fitting, out.too_small};
  fp_bound_free_memory(&input, &output);
  CHECK_INT(out.grows[0], 0);
  CHECK(out.low[1] <= 50000 && out.high[1] >= 50000);
}

static void where_events_are_missing_nothing_is_odd(void) {
  const told before = {true, 10, 500000, 0.5, 10};
  CHECK(!grows(before, (told){true, 100000, 600001, 0.25, 10}, 0, ALL));
  CHECK(!grows(before, (told){true, -1, 600000, 0.25, 10}, 0, ALL));
  CHECK(!grows(before, (told){true, 100000, 600000, 0.25, 10}, 0, FREE_BIT));
}

int main(void) {
  RUN(without_fragmentation_all_that_is_free_is_one_chunk);
  RUN(six_digits_tell_the_largest_chunk_to_half_a_unit);
  RUN(the_more_is_free_the_less_six_digits_tell);
  RUN(more_digits_tell_it_to_the_byte);
  RUN(shares_that_are_none_tell_nothing);
  RUN(where_nothing_follows_nothing_is_too_small);
  RUN(known_chunks_narrow_what_is_too_small);
  RUN(where_the_largest_chunk_may_be_too_small_it_counts_for_both);
  RUN(what_is_known_to_be_too_small_is_the_least_in_any_case);
  RUN(chunks_where_the_stack_may_lie_are_not_known);
  RUN(an_allocator_that_grows_gives_itself_away);
  RUN(a_stack_that_takes_free_memory_is_no_growth);
  RUN(where_events_are_missing_nothing_is_odd);
  return 0;
}
