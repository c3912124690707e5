/* Pairs of allocations and frees: by example, and random events against looking back from every event. */
#include "kernels/allocations.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 64, FREE_EVENT = 0, ALLOCATES = 1 };

typedef struct step {
  uint8_t is_allocation;
  int64_t address;
} step;

typedef struct result {
  int32_t partner[MOST];
  uint8_t fate[MOST];
} result;

/* Runs the kernel on columns of exactly the right size. */
static bool matched(fp_memory *memory, const step *steps, const uint8_t *known, size_t count, const int64_t *bounds,
                    size_t allocators, bool keep_first, result *out) {
  uint8_t *is_allocation = malloc(count + 1);
  int64_t *address = malloc(count * sizeof *address + 1);
  int32_t *partner = malloc(count * sizeof *partner + 1);
  uint8_t *fate = malloc(count + 1);
  CHECK(is_allocation && address && partner && fate);
  for (size_t i = 0; i < count; i++) {
    is_allocation[i] = steps[i].is_allocation;
    address[i] = steps[i].address;
  }
  fp_allocation_events events = {is_allocation, address, known, count, bounds, allocators};
  bool ok = fp_match_allocations(memory, &events, keep_first, partner, fate) == FP_OK;
  CHECK_INT(memory->live, 0);
  if (ok) {
    memcpy(out->partner, partner, count * sizeof *partner);
    memcpy(out->fate, fate, count);
  }
  free(is_allocation), free(address), free(partner), free(fate);
  return ok;
}

/* The events of one allocator. */
static result match(const step *steps, size_t count, bool keep_first) {
  const int64_t bounds[] = {0, (int64_t)count};
  fp_memory memory;
  result out;
  fp_memory_init(&memory);
  CHECK(matched(&memory, steps, NULL, count, bounds, 1, keep_first, &out));
  return out;
}

/* Checks the partner and the fate of one event. */
static void check(const result *found, size_t row, int32_t partner, uint8_t fate) {
  CHECK_INT(found->partner[row], partner);
  CHECK_INT(found->fate[row], fate);
}

/* Address 16 is used twice; -16 is a high address, and not freed. */
static void a_free_ends_the_allocation_of_its_address(void) {
  const step steps[] = {{ALLOCATES, 16}, {ALLOCATES, -16}, {FREE_EVENT, 16}, {ALLOCATES, 16}, {FREE_EVENT, 16}};
  result found = match(steps, 5, false);
  check(&found, 0, 2, FP_FREED);
  check(&found, 1, -1, FP_HELD_AT_END);
  check(&found, 2, 0, FP_FREED);
  check(&found, 3, 4, FP_FREED);
  check(&found, 4, 3, FP_FREED);
}

/*   event   free 8        free 8            alloc 8   free 8   free 8
 *   fate    HELD_BEFORE   ALLOCATION_LOST   FREED     FREED    ALLOCATION_LOST
 */
static void the_first_free_of_an_address_frees_what_was_held_before(void) {
  const step steps[] = {{FREE_EVENT, 8}, {FREE_EVENT, 8}, {ALLOCATES, 8}, {FREE_EVENT, 8}, {FREE_EVENT, 8}};
  result found = match(steps, 5, false);
  check(&found, 0, -1, FP_HELD_BEFORE);
  check(&found, 1, -1, FP_ALLOCATION_LOST);
  check(&found, 2, 3, FP_FREED);
  check(&found, 4, -1, FP_ALLOCATION_LOST);
}

/* The free of the first allocation must be missing: an allocator does not give out memory in use. */
static void of_two_allocations_of_an_address_the_free_is_of_the_second(void) {
  const step steps[] = {{ALLOCATES, 8}, {ALLOCATES, 8}, {FREE_EVENT, 8}};
  result found = match(steps, 3, false);
  check(&found, 0, -1, FP_REPLACED);
  check(&found, 1, 2, FP_FREED);
}

/* With keep_first the second allocation is ignored. */
static void or_of_the_first_where_that_is_kept(void) {
  const step steps[] = {{ALLOCATES, 8}, {ALLOCATES, 8}, {FREE_EVENT, 8}, {FREE_EVENT, 8}};
  result found = match(steps, 4, true);
  check(&found, 0, 2, FP_FREED);
  check(&found, 1, -1, FP_REPLACED);
  check(&found, 3, -1, FP_ALLOCATION_LOST);
}

static void allocators_do_not_mix_and_may_have_no_events(void) {
  const step steps[] = {{ALLOCATES, 8}, {FREE_EVENT, 8}};
  const int64_t bounds[] = {0, 0, 1, 1, 2};
  fp_memory memory;
  result found;
  fp_memory_init(&memory);
  CHECK(matched(&memory, steps, NULL, 2, bounds, 4, false, &found));
  check(&found, 0, -1, FP_HELD_AT_END);
  check(&found, 1, -1, FP_HELD_BEFORE);
}

static void events_of_unknown_address_take_no_part(void) {
  const step steps[] = {{ALLOCATES, 0}, {FREE_EVENT, 0}, {FREE_EVENT, 0}};
  const uint8_t known[] = {1, 0, 1};
  const int64_t bounds[] = {0, 3};
  fp_memory memory;
  result found;
  fp_memory_init(&memory);
  CHECK(matched(&memory, steps, known, 3, bounds, 1, false, &found));
  check(&found, 0, 2, FP_FREED);
  check(&found, 1, -1, FP_FATE_UNKNOWN);
}

/* The same, by looking back from every event. */
static result by_looking_back(const step *steps, size_t count) {
  result out;
  for (size_t i = 0; i < count; i++) {
    out.partner[i] = -1;
    out.fate[i] = steps[i].is_allocation ? FP_HELD_AT_END : FP_HELD_BEFORE;
    for (size_t j = i; j-- > 0;) {
      if (steps[j].address != steps[i].address) continue;
      if (steps[i].is_allocation) {
        if (steps[j].is_allocation) out.fate[j] = FP_REPLACED;
      } else if (steps[j].is_allocation) {
        out.partner[i] = (int32_t)j, out.partner[j] = (int32_t)i;
        out.fate[i] = out.fate[j] = FP_FREED;
      } else {
        out.fate[i] = FP_ALLOCATION_LOST;
      }
      break;
    }
  }
  return out;
}

static void any_order_is_matched_as_by_looking_back(void) {
  dice chance = {7};
  step steps[MOST];
  for (int round = 0; round < 2000; round++) {
    size_t count = roll_below(&chance, MOST + 1), addresses = 1 + roll_below(&chance, 12);
    for (size_t i = 0; i < count; i++)
      steps[i] = (step){roll_below(&chance, 2) != 0, ((int64_t)roll_below(&chance, addresses) - 4) * (INT64_C(1) << 40)};
    result found = match(steps, count, false), wanted = by_looking_back(steps, count);
    for (size_t i = 0; i < count; i++) check(&found, i, wanted.partner[i], wanted.fate[i]);
  }
}

static void tables_grow_and_regular_addresses_do_not_crowd(void) {
  enum { COUNT = 1 << 17 };
  uint8_t *is_allocation = calloc(COUNT, 1), *fate = malloc(COUNT);
  int64_t *address = malloc(COUNT * sizeof *address), bounds[] = {0, COUNT};
  int32_t *partner = malloc(COUNT * sizeof *partner);
  CHECK(is_allocation && fate && address && partner);
  memset(is_allocation, 1, COUNT / 2);
  for (unsigned shift = 0; shift < 47; shift += 8) {
    for (int64_t i = 0; i < COUNT; i++) address[i] = (int64_t)((uint64_t)(i % (COUNT / 2)) << shift);
    fp_allocation_events events = {is_allocation, address, NULL, COUNT, bounds, 1};
    fp_memory memory;
    fp_memory_init(&memory);
    CHECK(fp_match_allocations(&memory, &events, false, partner, fate) == FP_OK);
    for (int64_t i = 0; i < COUNT / 2; i++) CHECK_INT(partner[i], i + COUNT / 2);
  }
  free(is_allocation), free(fate), free(address), free(partner);
}

static void running_out_of_memory_is_reported(void) {
  enum { COUNT = 300 };
  uint8_t is_allocation[COUNT], fate[COUNT];
  int64_t address[COUNT], bounds[] = {0, 1, COUNT};
  int32_t partner[COUNT];
  for (int64_t i = 0; i < COUNT; i++) is_allocation[i] = 1, address[i] = i;
  fp_allocation_events events = {is_allocation, address, NULL, COUNT, bounds, 2};
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    bool done = fp_match_allocations(&memory, &events, false, partner, fate) == FP_OK;
    CHECK_INT(memory.live, 0);
    if (!done) continue;
    CHECK_INT(allowed, 4); /* a table each, and the second grows twice */
    break;
  }
}

int main(void) {
  RUN(a_free_ends_the_allocation_of_its_address);
  RUN(the_first_free_of_an_address_frees_what_was_held_before);
  RUN(of_two_allocations_of_an_address_the_free_is_of_the_second);
  RUN(or_of_the_first_where_that_is_kept);
  RUN(allocators_do_not_mix_and_may_have_no_events);
  RUN(events_of_unknown_address_take_no_part);
  RUN(any_order_is_matched_as_by_looking_back);
  RUN(tables_grow_and_regular_addresses_do_not_crowd);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
