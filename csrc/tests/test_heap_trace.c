/* Heaps of compiled programs: by example, and random events against the definitions in heaps.c. */
#include "kernels/heap_trace.h"

#include "tests/check.h"
#include "tests/heaps.h"
#include "tests/message.h"

enum { A, B, C, D };

typedef struct step {
  int32_t kind, buffer, canonical;
} step;

static const int64_t SIZES[] = {64, 16, 32, 8};

/* A case from a list of steps and the sizes above. */
static heap_case case_of(const step *steps, size_t count) {
  heap_case one = {.count = count, .buffers = 4};
  for (size_t i = 0; i < 4; i++) one.size[i] = SIZES[i], one.unpadded[i] = SIZES[i] / 2;
  for (size_t i = 0; i < count; i++) {
    one.kind[i] = steps[i].kind;
    one.buffer[i] = steps[i].buffer;
    one.canonical[i] = steps[i].canonical;
  }
  return one;
}

/* Runs the kernel and checks its result against the definitions as well. */
static heap_result follow(const step *steps, size_t count) {
  heap_case one = case_of(steps, count);
  fp_memory memory;
  heap_result found;
  fp_memory_init(&memory);
  CHECK(heap_follow(&memory, &one, &found));
  heap_check(&one, &found);
  return found;
}

#define FOLLOW(steps) follow(steps, sizeof(steps) / sizeof *(steps))

/* A has 64 bytes, B 16. The heap reaches 80 twice; the first time counts:
 *
 *   event   alloc A   alloc B   free B   alloc B   free A
 *   heap         64        80       64        80       16
 */
static void the_peak_is_the_first_of_the_highest_points(void) {
  const step steps[] = {{FP_HEAP_ALLOC, A, -1}, {FP_HEAP_ALLOC, B, -1}, {FP_HEAP_FREE, B, -1}, {FP_HEAP_ALLOC, B, -1},
                        {FP_HEAP_FREE, A, -1}};
  heap_result found = FOLLOW(steps);
  CHECK(found.heap[0] == 0 && found.heap[1] == 64 && found.heap[2] == 80 && found.heap[3] == 64);
  CHECK_INT(found.unpadded[2], 40);
  CHECK(found.peak.bytes == 80 && found.peak.unpadded == 40 && found.peak.event == 1 && found.peak.alive == 2);
  CHECK(found.alive[0] == A && found.alive[1] == B);
  CHECK(found.start[A] == 0 && found.end[A] == 4 && found.start[B] == 1 && found.end[B] == 5);
  CHECK(found.start[C] == -1 && found.end[C] == -1 && found.held[C] == -1 && found.freed[C] == -1);
}

/* B shares A, and C shares B and so A. The 64 bytes stay in use until the third free:
 *
 *   event   alloc A   share B   free A   share C   free B   free C
 *   users         1         2        1         2        1        0
 */
static void shared_memory_counts_once_and_until_the_last_of_its_buffers_is_freed(void) {
  const step steps[] = {{FP_HEAP_ALLOC, A, -1}, {FP_HEAP_SHARE, B, A},  {FP_HEAP_FREE, A, -1},
                        {FP_HEAP_SHARE, C, B},  {FP_HEAP_FREE, B, -1}, {FP_HEAP_FREE, C, -1}};
  heap_result found = FOLLOW(steps);
  for (size_t i = 1; i < 6; i++) CHECK_INT(found.heap[i], 64);
  CHECK_INT(found.heap[6], 0);
  CHECK(found.root[B] == A && found.root[C] == A && found.root[D] == D);
  CHECK(found.start[A] == 0 && found.end[A] == 2 && found.start[C] == 3 && found.end[C] == 5);
  CHECK(found.held[A] == 0 && found.freed[A] == 5 && found.held[B] == -1);
  CHECK(found.peak.alive == 1 && found.shown[0] == A);
}

/* A is free when B begins to share it: its memory is taken a second time, and B is the buffer shown in it.
 *
 *   event   alloc A   free A   alloc D   share B with A   free D   free B   alloc C
 *   in use        A        -         D             D, A        A        -         C
 */
static void a_share_of_free_memory_takes_it_again(void) {
  const step steps[] = {{FP_HEAP_ALLOC, A, -1}, {FP_HEAP_FREE, A, -1}, {FP_HEAP_ALLOC, D, -1}, {FP_HEAP_SHARE, B, A},
                        {FP_HEAP_FREE, D, -1},  {FP_HEAP_FREE, B, -1}, {FP_HEAP_ALLOC, C, -1}};
  heap_result found = FOLLOW(steps);
  CHECK(found.peak.bytes == 72 && found.peak.event == 3 && found.peak.alive == 2);
  CHECK(found.alive[0] == D && found.shown[0] == D && found.alive[1] == A && found.shown[1] == B);
  CHECK(found.held[A] == 0 && found.freed[A] == 1 && found.held[B] == 3 && found.freed[B] == 5);
  CHECK(found.held[C] == 6 && found.freed[C] == 6 && found.end[C] == 7);
}

/* Nine events that contradict the state: frees of free memory, repeated allocations, shares of itself or of nothing,
 * unknown kinds and buffers. */
static void what_makes_no_sense_is_passed_over(void) {
  const step steps[] = {{FP_HEAP_FREE, A, -1}, {FP_HEAP_ALLOC, A, -1}, {FP_HEAP_ALLOC, A, -1}, {FP_HEAP_SHARE, A, A},
                        {FP_HEAP_SHARE, B, -1}, {9, C, -1},            {FP_HEAP_ALLOC, -1, -1}, {FP_HEAP_SHARE, B, A},
                        {FP_HEAP_SHARE, A, B},  {FP_HEAP_SHARE, B, C}, {FP_HEAP_FREE, C, -1}};
  heap_result found = FOLLOW(steps);
  CHECK_INT(found.peak.passed_over, 9);
  CHECK(found.peak.bytes == 64 && found.heap[11] == 64);
}

static void an_empty_trace_has_no_peak(void) {
  heap_result found = follow(NULL, 0);
  CHECK(found.peak.bytes == 0 && found.peak.alive == 0 && found.heap[0] == 0);
}

static void sums_that_do_not_fit_wrap_around(void) {
  const step steps[] = {{FP_HEAP_ALLOC, A, -1}, {FP_HEAP_ALLOC, B, -1}};
  heap_case one = case_of(steps, 2);
  one.size[A] = one.size[B] = INT64_MAX;
  fp_memory memory;
  heap_result found;
  fp_memory_init(&memory);
  CHECK(heap_follow(&memory, &one, &found));
  CHECK(found.heap[2] == -2 && found.peak.bytes == INT64_MAX);
}

static void any_events_give_what_the_definition_says(void) {
  dice chance = {1};
  for (int round = 0; round < 3000; round++) {
    heap_case one = {.count = roll_below(&chance, 60), .buffers = 1 + roll_below(&chance, 9)};
    for (size_t b = 0; b < one.buffers; b++) one.size[b] = (int64_t)roll_below(&chance, 5), one.unpadded[b] = 1;
    for (size_t i = 0; i < one.count; i++) {
      one.kind[i] = (int32_t)roll_below(&chance, 4);
      one.buffer[i] = (int32_t)roll_below(&chance, one.buffers + 1) - 1;
      one.canonical[i] = (int32_t)roll_below(&chance, one.buffers + 1) - 1;
    }
    fp_memory memory;
    heap_result found;
    fp_memory_init(&memory);
    CHECK(heap_follow(&memory, &one, &found));
    heap_check(&one, &found);
  }
}

/* Each buffer shares the memory of the one before: one chain of all buffers. */
static void long_chains_of_shares_are_followed_quickly(void) {
  const size_t count = 300000;
  int32_t *kind = calloc(2 * count, 4), *buffer = calloc(2 * count, 4), *canonical = calloc(2 * count, 4);
  int64_t *size = calloc(count, 8), *series = calloc(4 * count + 2, 8);
  int32_t *rows = calloc(9 * count, 4);
  CHECK(kind && buffer && canonical && size && series && rows);
  for (size_t i = 0; i < count; i++) {
    size[i] = 1;
    buffer[i] = buffer[2 * count - 1 - i] = (int32_t)i;
    kind[i] = i ? FP_HEAP_SHARE : FP_HEAP_ALLOC;
    canonical[i] = (int32_t)i - 1;
    kind[2 * count - 1 - i] = FP_HEAP_FREE;
  }
  fp_heap_events events = {kind, buffer, canonical, 2 * count};
  fp_heap_sizes sizes = {size, size, count};
  fp_heap out = {series,           series + 2 * count + 1, rows,             rows + count,     rows + 2 * count,
                 rows + 3 * count, rows + 4 * count,       rows + 5 * count, rows + 7 * count};
  fp_memory memory;
  fp_heap_peak peak;
  fp_memory_init(&memory);
  CHECK(fp_heap_trace(&memory, &events, &sizes, &out, &peak) == FP_OK);
  CHECK(peak.bytes == 1 && peak.alive == 1 && peak.passed_over == 0 && series[2 * count] == 0);
  free(kind), free(buffer), free(canonical), free(size), free(series), free(rows);
}

static void the_allocation_may_fail(void) {
  const step steps[] = {{FP_HEAP_ALLOC, A, -1}};
  heap_case one = case_of(steps, 1);
  fp_memory memory;
  heap_result found;
  fp_memory_init(&memory);
  memory.countdown = 0;
  CHECK(!heap_follow(&memory, &one, &found));
}

int main(void) {
  RUN(the_peak_is_the_first_of_the_highest_points);
  RUN(shared_memory_counts_once_and_until_the_last_of_its_buffers_is_freed);
  RUN(a_share_of_free_memory_takes_it_again);
  RUN(what_makes_no_sense_is_passed_over);
  RUN(an_empty_trace_has_no_peak);
  RUN(sums_that_do_not_fit_wrap_around);
  RUN(any_events_give_what_the_definition_says);
  RUN(long_chains_of_shares_are_followed_quickly);
  RUN(the_allocation_may_fail);
  return 0;
}
