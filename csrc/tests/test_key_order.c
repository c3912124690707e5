#include "formats/key_order.h"
#include "tests/check.h"

enum { COUNT = 3000 };

static fp_memory memory;
static uint64_t state;

static uint64_t drawn(uint64_t below) {
  state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (state >> 33) % below;
}

static int compare(const void *a, const void *b) {
  const fp_event_key *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  if (x->reversed_duration != y->reversed_duration) return x->reversed_duration < y->reversed_duration ? -1 : 1;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Orders keys as qsort does, whatever number of them. */
static void check_order(const fp_event_key *keys, size_t count) {
  fp_event_key found[COUNT], wanted[COUNT];
  memcpy(found, keys, count * sizeof *keys);
  memcpy(wanted, keys, count * sizeof *keys);
  qsort(wanted, count, sizeof *wanted, compare);
  CHECK(fp_order_keys(&memory, found, count));
  CHECK(!memcmp(found, wanted, count * sizeof *keys));
  CHECK_INT(memory.live, 0);
}

static void keys_are_ordered_by_start_then_length_then_place(void) {
  fp_event_key keys[COUNT] = {{0}};
  fp_memory_init(&memory);
  for (int round = 0; round < 200; round++) {
    size_t count = round < 100 ? (size_t)round : drawn(COUNT);
    uint64_t starts = 1 + drawn(round % 2 ? 4 : 100000), durations = 1 + drawn(4);
    for (size_t i = 0; i < count; i++)
      keys[i] = (fp_event_key){(int64_t)drawn(starts) - 3, ~(int64_t)drawn(durations), drawn(1 << 20) << 20 | i, (uint32_t)i, 0, 0, 1};
    check_order(keys, count);
  }
}

static void keys_that_come_late_are_put_before_those_that_they_enclose(void) {
  fp_event_key keys[COUNT] = {{0}};
  fp_memory_init(&memory);
  for (int round = 0; round < 50; round++) {
    for (size_t i = 0; i < COUNT; i++) {
      int64_t late = drawn(round < 25 ? 5 : 200) ? 0 : (int64_t)drawn(round % 25 * 20 + 1);
      keys[i] = (fp_event_key){(int64_t)i - late, -1, i, 1, 0, 0, 1};
    }
    check_order(keys, COUNT);
  }
}

static void keys_from_last_to_first_are_reversed(void) {
  fp_event_key keys[COUNT] = {{0}};
  fp_memory_init(&memory);
  for (size_t i = 0; i < COUNT; i++) keys[i] = (fp_event_key){-(int64_t)i, -1, i, 1, 0, 0, 1};
  check_order(keys, COUNT);
}

static void keys_in_order_need_no_memory(void) {
  fp_event_key keys[COUNT] = {{0}};
  fp_memory_init(&memory);
  for (size_t i = 0; i < COUNT; i++) keys[i] = (fp_event_key){(int64_t)i / 3, -1, i, 1, 0, 0, 1};
  memory.countdown = 0;
  CHECK(fp_order_keys(&memory, keys, COUNT));
  for (size_t i = 0; i < COUNT; i++) CHECK_INT(keys[i].offset, i);
  keys[COUNT - 1].start = -1;
  CHECK(!fp_order_keys(&memory, keys, COUNT));
  CHECK_INT(memory.live, 0);
}

int main(void) {
  RUN(keys_are_ordered_by_start_then_length_then_place);
  RUN(keys_that_come_late_are_put_before_those_that_they_enclose);
  RUN(keys_from_last_to_first_are_reversed);
  RUN(keys_in_order_need_no_memory);
  return 0;
}
