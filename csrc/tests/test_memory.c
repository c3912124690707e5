/* The allocator counts blocks and limits allocations, also between threads; vectors grow and refuse impossible sizes.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>

#include "memory.h"

#include "tests/check.h"

static void blocks_are_counted(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  void *one = fp_alloc(&memory, 10), *other = fp_alloc_zeroed(&memory, 3, 8);
  CHECK_INT(memory.live, 2);
  one = fp_resize(&memory, one, 1000);
  CHECK_INT(memory.live, 2);
  fp_release(&memory, one);
  fp_release(&memory, other);
  fp_release(&memory, NULL);
  CHECK_INT(memory.live, 0);
}

static void nothing_is_a_block_too(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  void *blocks[] = {fp_alloc(&memory, 0), fp_alloc_zeroed(&memory, 0, 8), fp_alloc_zeroed(&memory, 8, 0),
                    fp_resize(&memory, NULL, 0)};
  for (int i = 0; i < 4; i++) CHECK(blocks[i] != NULL);
  blocks[0] = fp_resize(&memory, blocks[0], 0);
  CHECK(blocks[0] != NULL);
  for (int i = 0; i < 4; i++) fp_release(&memory, blocks[i]);
  CHECK_INT(memory.live, 0);
}

static void the_countdown_lets_so_many_through(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  memory.countdown = 2;
  void *one = fp_alloc(&memory, 1), *two = fp_resize(&memory, NULL, 1);
  CHECK(one && two);
  CHECK(!fp_alloc(&memory, 1) && !fp_alloc_zeroed(&memory, 1, 1) && !fp_resize(&memory, one, 9));
  memory.countdown = -1;
  one = fp_resize(&memory, one, 9); /* the block was still there */
  CHECK(one != NULL);
  fp_release(&memory, one);
  fp_release(&memory, two);
  CHECK_INT(memory.live, 0);
}

static void held_bytes_are_limited(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  void *one = fp_alloc(&memory, 1000);
  CHECK(memory.held >= 1000);
  memory.most = memory.held + 5000;
  CHECK(!fp_alloc(&memory, 6000) && !fp_alloc_zeroed(&memory, 3, 2000) && memory.is_exceeded);
  CHECK(!fp_resize(&memory, one, 7000)); /* the block is still there */
  one = fp_resize(&memory, one, 4000);
  CHECK(one != NULL && memory.held >= 4000);
  CHECK(!fp_alloc_zeroed(&memory, SIZE_MAX, 2));
  fp_release(&memory, one);
  CHECK_INT(memory.held, 0);
}

typedef struct taker {
  fp_memory *memory;
  int taken;
  void *blocks[2000];
} taker;

/* Up to 2,000 allocations by one thread; all threads share the countdown. */
static void *take_all(void *argument) {
  taker *t = argument;
  for (int i = 0; i < 2000; i++)
    if ((t->blocks[t->taken] = fp_alloc(t->memory, 1))) t->taken++;
  return NULL;
}

static void threads_share_the_countdown(void) {
  for (int round = 0; round < 20; round++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = 1000;
    static taker takers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
      takers[i] = (taker){.memory = &memory};
      CHECK(!pthread_create(&threads[i], NULL, take_all, &takers[i]));
    }
    int taken = 0;
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(threads[i], NULL));
    for (int i = 0; i < 4; i++) taken += takers[i].taken;
    CHECK_INT(taken, 1000);
    CHECK_INT(memory.live, 1000);
    CHECK_INT(memory.countdown, 0);
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < takers[i].taken; j++) fp_release(&memory, takers[i].blocks[j]);
    CHECK_INT(memory.live, 0);
  }
}

static void seeds_differ(void) {
  fp_memory one, other;
  fp_memory_init(&one);
  fp_memory_init(&other);
  CHECK(one.seed != other.seed);
}

static void vectors_keep_their_items_while_they_grow(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_vector vector = {0};
  for (int64_t i = 0; i < 1000; i++) {
    int64_t *item = fp_vector_add(&memory, &vector, sizeof *item);
    CHECK(item && *item == 0); /* zeroed */
    *item = i;
  }
  for (int64_t i = 0; i < 1000; i++) CHECK_INT(((int64_t *)vector.items)[i], i);
  fp_vector_free(&memory, &vector);
  fp_vector_free(&memory, &vector);
  CHECK_INT(memory.live, 0);
}

static void reserved_room_needs_no_more_memory(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_vector vector = {0};
  CHECK(fp_vector_reserve(&memory, &vector, 4, 100));
  memory.countdown = 0;
  for (int i = 0; i < 100; i++) CHECK(fp_vector_add(&memory, &vector, 4) != NULL);
  CHECK(fp_vector_add(&memory, &vector, 4) == NULL || vector.capacity > 100);
  CHECK(vector.count >= 100);
  fp_vector_free(&memory, &vector);
}

static void sizes_that_do_not_fit_are_refused(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_vector vector = {0};
  CHECK(fp_vector_add(&memory, &vector, 16) != NULL);
  CHECK(!fp_vector_reserve(&memory, &vector, 16, SIZE_MAX / 16));
  CHECK(!fp_vector_reserve(&memory, &vector, 16, SIZE_MAX - 1));
  CHECK(!fp_vector_reserve(&memory, &vector, 16, SIZE_MAX));
  CHECK(!fp_alloc_zeroed(&memory, SIZE_MAX / 2, 4));
  CHECK_INT(vector.count, 1);
  fp_vector_free(&memory, &vector);
  CHECK_INT(memory.live, 0);
}

int main(void) {
  RUN(blocks_are_counted);
  RUN(nothing_is_a_block_too);
  RUN(the_countdown_lets_so_many_through);
  RUN(held_bytes_are_limited);
  RUN(threads_share_the_countdown);
  RUN(seeds_differ);
  RUN(vectors_keep_their_items_while_they_grow);
  RUN(reserved_room_needs_no_more_memory);
  RUN(sizes_that_do_not_fit_are_refused);
  return 0;
}
