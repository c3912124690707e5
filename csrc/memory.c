#include "memory.h"

#include <string.h>
#include <time.h>

/* The seed differs between processes and allocators. It need not be secret, only hard to know in advance. */
void fp_memory_init(fp_memory *memory) {
  atomic_init(&memory->live, 0);
  atomic_init(&memory->countdown, -1);
  atomic_init(&memory->held, 0);
  atomic_init(&memory->most, INT64_MAX);
  atomic_init(&memory->is_exceeded, false);
  memory->blocks = NULL;
  struct timespec now = {0, 0};
  timespec_get(&now, TIME_UTC);
  uint64_t seed = (uint64_t)(uintptr_t)memory ^ (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec;
  seed = (seed ^ seed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  seed = (seed ^ seed >> 27) * UINT64_C(0x94D049BB133111EB);
  memory->seed = seed ^ seed >> 31;
}

/* Takes one allocation off the countdown. A loop, as two threads may not both take the last one. */
static bool may_allocate(fp_memory *memory) {
  int64_t left = atomic_load_explicit(&memory->countdown, memory_order_relaxed);
  while (left > 0)
    if (atomic_compare_exchange_weak_explicit(&memory->countdown, &left, left - 1, memory_order_relaxed, memory_order_relaxed))
      return true;
  return left < 0;
}

/* Whether this number of bytes beyond those that are held would be too many. */
static bool exceeds(fp_memory *memory, size_t size) {
  int64_t remaining = atomic_load_explicit(&memory->most, memory_order_relaxed) - atomic_load_explicit(&memory->held, memory_order_relaxed);
  if (remaining >= 0 && size <= (uint64_t)remaining) return false;
  atomic_store_explicit(&memory->is_exceeded, true, memory_order_relaxed);
  return true;
}

/* Counts a block, if there is one. */
static void *handed_out(fp_memory *memory, void *block) {
  if (!block) return NULL;
  atomic_fetch_add_explicit(&memory->live, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&memory->held, (int64_t)fp_block_size(block), memory_order_relaxed);
  return block;
}

void *fp_alloc(fp_memory *memory, size_t size) {
  if (!may_allocate(memory) || exceeds(memory, size)) return NULL;
  return handed_out(memory, fp_block_make(memory->blocks, size, false));
}

void *fp_alloc_zeroed(fp_memory *memory, size_t count, size_t item_size) {
  if (!may_allocate(memory) || (item_size && count > SIZE_MAX / item_size) || exceeds(memory, count * item_size)) return NULL;
  return handed_out(memory, fp_block_make(memory->blocks, count * item_size, true));
}

void *fp_resize(fp_memory *memory, void *block, size_t size) {
  if (!block) return fp_alloc(memory, size);
  size_t old = fp_block_size(block);
  if (!may_allocate(memory) || (size > old && exceeds(memory, size - old))) return NULL;
  void *moved = fp_block_resize(memory->blocks, block, size);
  if (moved) atomic_fetch_add_explicit(&memory->held, (int64_t)size - (int64_t)old, memory_order_relaxed);
  return moved;
}

void fp_give_away(fp_memory *memory, void *block) {
  if (!block) return;
  atomic_fetch_sub_explicit(&memory->live, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&memory->held, (int64_t)fp_block_size(block), memory_order_relaxed);
}

void fp_release(fp_memory *memory, void *block) {
  if (!block) return; /* memory may be NULL, too: of what was never begun */
  fp_give_away(memory, block);
  fp_block_free(memory->blocks, block);
}

/* Grows by half, so that n appends copy O(n) bytes; the first block has room for eight items. */
bool fp_vector_reserve(fp_memory *memory, fp_vector *vector, size_t item_size, size_t extra) {
  if (extra <= vector->capacity - vector->count) return true;
  if (extra > SIZE_MAX / item_size - vector->count) return false;
  size_t need = vector->count + extra;
  size_t capacity = vector->capacity + vector->capacity / 2;
  if (capacity < need) capacity = need;
  if (capacity < 8) capacity = 8;
  if (capacity > SIZE_MAX / item_size) capacity = need;
  void *items = fp_resize(memory, vector->items, capacity * item_size);
  if (!items) return false;
  vector->items = items;
  vector->capacity = capacity;
  return true;
}

void *fp_vector_add(fp_memory *memory, fp_vector *vector, size_t item_size) {
  if (!fp_vector_reserve(memory, vector, item_size, 1)) return NULL;
  char *item = (char *)vector->items + vector->count * item_size;
  memset(item, 0, item_size);
  vector->count++;
  return item;
}

void fp_vector_free(fp_memory *memory, fp_vector *vector) {
  fp_release(memory, vector->items);
  memset(vector, 0, sizeof *vector);
}
