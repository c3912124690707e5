/* Known free chunks: by example, and random ranges against a replay byte by byte. */
#include "kernels/free_chunks.h"

#include <time.h>

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 60, SPACE = 48, FREES = 0, ALLOCATES = 1 };

typedef struct step {
  uint8_t is_allocation, held_before;
  int64_t address, size, request;
} step;

typedef struct sums {
  int64_t bytes[MOST], chunks[MOST], fitting[MOST], too_small[MOST];
} sums;

/* Runs the kernel; false if memory ran out. */
static bool replayed(fp_memory *memory, const step *steps, size_t count, const int64_t *bounds, size_t allocators,
                     sums *out) {
  uint8_t is_allocation[MOST], held_before[MOST];
  int64_t address[MOST], size[MOST], request[MOST];
  for (size_t i = 0; i < count; i++) {
    is_allocation[i] = steps[i].is_allocation, held_before[i] = steps[i].held_before;
    address[i] = steps[i].address, size[i] = steps[i].size, request[i] = steps[i].request;
  }
  fp_chunk_events events = {is_allocation, held_before, address, size, request, count, bounds, allocators};
  fp_chunk_sums columns = {out->bytes, out->chunks, out->fitting, out->too_small};
  bool done = fp_known_chunks(memory, &events, &columns) == FP_OK;
  CHECK_INT(memory->live, 0);
  return done;
}

/* The events of one allocator. */
static sums replay(const step *steps, size_t count) {
  const int64_t bounds[] = {0, (int64_t)count};
  fp_memory memory;
  sums out;
  fp_memory_init(&memory);
  CHECK(replayed(&memory, steps, count, bounds, 1, &out));
  return out;
}

/* Checks the four sums after one event. */
static void check(const sums *found, size_t row, int64_t bytes, int64_t chunks, int64_t fitting, int64_t too_small) {
  CHECK_INT(found->bytes[row], bytes);
  CHECK_INT(found->chunks[row], chunks);
  CHECK_INT(found->fitting[row], fitting);
  CHECK_INT(found->too_small[row], too_small);
}

/* 100..130 is allocated and freed, then 110..120 is allocated from it:
 *
 *   after 0   [ in use          ]
 *   after 1   [ free 30         ]
 *   after 2   [ 10 ][in use][10 ]
 */
static void what_is_freed_is_known_until_it_is_used(void) {
  const step steps[] = {{ALLOCATES, 0, 100, 30, 40}, {FREES, 0, 100, 30, 40}, {ALLOCATES, 0, 110, 10, 0}};
  sums found = replay(steps, 3);
  check(&found, 0, 0, 0, 0, 0);
  check(&found, 1, 30, 1, 0, 0); /* too small, but it may be part of a larger one */
  check(&found, 2, 20, 2, 20, 0); /* nothing is requested any more: anything fits */
}

/* Three ranges of 10 are freed, the middle one last:
 *
 *   after 4   [free][used][free]      two chunks of 10; a request of 25 fits in neither
 *   after 5   [free 30         ]      one chunk, which holds 25
 */
static void neighbours_become_one_chunk(void) {
  const step steps[] = {{ALLOCATES, 0, 0, 10, 25},  {ALLOCATES, 0, 10, 10, 25}, {ALLOCATES, 0, 20, 10, 25},
                        {FREES, 0, 0, 10, 25},      {FREES, 0, 20, 10, 25},     {FREES, 0, 10, 10, 25}};
  sums found = replay(steps, 6);
  check(&found, 4, 20, 2, 0, 0);
  check(&found, 5, 30, 1, 30, 0);
}

/* The middle range is freed while both neighbours are in use: it has exactly 10 bytes, too few for 11. When the first
 * is freed as well, both are one chunk of 20, which holds 11. */
static void a_chunk_between_memory_in_use_is_known_from_end_to_end(void) {
  const step steps[] = {{ALLOCATES, 0, 0, 10, 11}, {ALLOCATES, 0, 10, 10, 11}, {ALLOCATES, 0, 20, 10, 11},
                        {FREES, 0, 10, 10, 11},    {FREES, 0, 0, 10, 11}};
  sums found = replay(steps, 5);
  check(&found, 3, 10, 1, 0, 10);
  check(&found, 4, 20, 1, 20, 0);
}

/* 20..25 and 0..10 are freed without an allocation in the trace: they were in use from the beginning, so the chunk
 * 10..20 is closed until then.
 *
 *   from the beginning   [0 used ][10 ...][20 used]
 *   after 1              [0 used ][10 free][20 used]      closed: 10 bytes are too small for certain
 *   after 2              [0 used ][10 free 15      ]
 *   after 3              [0 free 25                ]
 */
static void what_was_held_before_is_in_use_until_it_is_freed(void) {
  const step steps[] = {{ALLOCATES, 0, 10, 10, 50}, {FREES, 0, 10, 10, 50}, {FREES, 1, 20, 5, 50},
                        {FREES, 1, 0, 10, 50}};
  sums found = replay(steps, 4);
  check(&found, 1, 10, 1, 0, 10);
  check(&found, 2, 15, 1, 0, 0);
  check(&found, 3, 25, 1, 0, 0);
}

/* Addresses are unsigned: -8 with 8 bytes reaches exactly to the end of the address space, which does not fit. */
static void events_of_no_size_or_beyond_the_last_address_are_passed_over(void) {
  const step steps[] = {{FREES, 0, 0, 0, 9}, {FREES, 0, 8, -1, 9}, {FREES, 0, -8, 8, 9}, {FREES, 0, -16, 8, 9}};
  sums found = replay(steps, 4);
  check(&found, 2, 0, 0, 0, 0);
  check(&found, 3, 8, 1, 0, 0);
}

/* The definition: a state for each byte. */
static void look_at_each_byte(const step *steps, size_t count, size_t row, int64_t *four) {
  uint8_t state[SPACE] = {0}; /* 1: free, 2: in use */
  for (size_t i = 0; i < count; i++)
    for (int64_t j = 0; !steps[i].is_allocation && steps[i].held_before && j < steps[i].size; j++)
      state[steps[i].address + j] = 2;
  for (size_t i = 0; i <= row; i++)
    for (int64_t j = 0; j < steps[i].size; j++) state[steps[i].address + j] = steps[i].is_allocation ? 2 : 1;
  memset(four, 0, 4 * sizeof *four);
  for (int64_t first = 0, last; first < SPACE; first = last) {
    for (last = first + 1; last < SPACE && state[last] == state[first]; last++) continue;
    if (state[first] != 1) continue;
    int64_t size = last - first;
    four[0] += size, four[1]++;
    if (size >= steps[row].request) four[2] += size;
    else if (first && last < SPACE && state[first - 1] == 2 && state[last] == 2) four[3] += size;
  }
}

static void any_ranges_are_replayed_as_byte_by_byte(void) {
  dice chance = {9};
  step steps[MOST];
  for (int round = 0; round < 3000; round++) {
    size_t count = 1 + roll_below(&chance, MOST);
    int64_t request = 14, longest = 1 + (int64_t)roll_below(&chance, 12);
    for (size_t i = 0; i < count; i++) {
      if (roll_below(&chance, 8) == 0 && request) request -= (int64_t)roll_below(&chance, (uint64_t)request + 1);
      steps[i] = (step){.is_allocation = roll_below(&chance, 2) != 0, .held_before = roll_below(&chance, 9) == 0};
      steps[i].size = (int64_t)roll_below(&chance, (uint64_t)longest + 1);
      steps[i].request = request;
      steps[i].address = (int64_t)roll_below(&chance, (uint64_t)(SPACE - steps[i].size) + 1);
    }
    sums found = replay(steps, count);
    for (size_t row = 0; row < count; row++) {
      int64_t four[4];
      look_at_each_byte(steps, count, row, four);
      check(&found, row, four[0], four[1], four[2], four[3]);
    }
  }
}

static void allocators_have_addresses_of_their_own(void) {
  const step steps[] = {{FREES, 0, 0, 8, 1}, {FREES, 0, 8, 8, 1}};
  const int64_t bounds[] = {0, 1, 1, 2};
  fp_memory memory;
  sums found;
  fp_memory_init(&memory);
  CHECK(replayed(&memory, steps, 2, bounds, 3, &found));
  check(&found, 0, 8, 1, 8, 0);
  check(&found, 1, 8, 1, 8, 0);
}

/* Ranges inside ranges, each cutting the one before, then one that covers all: minutes, unless it is n log n. */
static void crowded_addresses_take_little_time(void) {
  enum { COUNT = 1 << 17 };
  uint8_t *is_allocation = malloc(COUNT), *held_before = calloc(COUNT, 1);
  int64_t *columns[7];
  CHECK(is_allocation && held_before);
  for (int i = 0; i < 7; i++) CHECK((columns[i] = calloc(COUNT, sizeof(int64_t))) != NULL);
  for (int64_t i = 0; i < COUNT; i++) {
    bool whole = i % 1024 == 1023;
    is_allocation[i] = i % 2 == 0 && !whole;
    columns[0][i] = whole ? 0 : i * 3 % (COUNT / 2);
    columns[1][i] = whole ? 2 * COUNT : COUNT - columns[0][i];
    columns[2][i] = COUNT - i;
  }
  const int64_t bounds[] = {0, COUNT};
  fp_chunk_events events = {is_allocation, held_before, columns[0], columns[1], columns[2], COUNT, bounds, 1};
  fp_chunk_sums out = {columns[3], columns[4], columns[5], columns[6]};
  fp_memory memory;
  fp_memory_init(&memory);
  clock_t begin = clock();
  CHECK(fp_known_chunks(&memory, &events, &out) == FP_OK);
  CHECK(clock() - begin < 10 * CLOCKS_PER_SEC);
  free(is_allocation), free(held_before);
  for (int i = 0; i < 7; i++) free(columns[i]);
}

static void running_out_of_memory_is_reported(void) {
  const step steps[] = {{FREES, 0, 0, 8, 1}, {FREES, 0, 16, 8, 1}};
  const int64_t bounds[] = {0, 1, 2};
  fp_memory memory;
  sums found;
  for (int64_t allowed = 0;; allowed++) {
    fp_memory_init(&memory);
    memory.countdown = allowed;
    if (replayed(&memory, steps, 2, bounds, 2, &found)) {
      CHECK(allowed >= 12);
      break;
    }
  }
  check(&found, 1, 8, 1, 8, 0);
}

int main(void) {
  RUN(what_is_freed_is_known_until_it_is_used);
  RUN(neighbours_become_one_chunk);
  RUN(a_chunk_between_memory_in_use_is_known_from_end_to_end);
  RUN(what_was_held_before_is_in_use_until_it_is_freed);
  RUN(events_of_no_size_or_beyond_the_last_address_are_passed_over);
  RUN(any_ranges_are_replayed_as_byte_by_byte);
  RUN(allocators_have_addresses_of_their_own);
  RUN(crowded_addresses_take_little_time);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
