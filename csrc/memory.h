/* Every allocation of the core goes through here, so that tests can count blocks and fail the n-th. */
#ifndef FASTPROF_MEMORY_H
#define FASTPROF_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owned by the caller and shared by the threads that work for it. */
typedef struct fp_memory {
  _Atomic int64_t live;      /* blocks handed out and not yet released */
  _Atomic int64_t countdown; /* allocations that still succeed; negative: all do */
  uint64_t seed;             /* of the hash tables: no file can be made so that its names collide */
} fp_memory;

void fp_memory_init(fp_memory *memory);

/* All three may return NULL, for want of memory or because the countdown ran out. Sizes of 0 give a block. */
void *fp_alloc(fp_memory *memory, size_t size);
void *fp_alloc_zeroed(fp_memory *memory, size_t count, size_t item_size);
void *fp_resize(fp_memory *memory, void *block, size_t size);
void fp_release(fp_memory *memory, void *block); /* NULL is fine */

/* A growable array. Zeroed memory is a valid empty one; fp_vector_free may be called twice. */
typedef struct fp_vector {
  void *items;
  size_t count, capacity;
} fp_vector;

/* Room for `extra` more items; false for want of memory, the vector unchanged. */
bool fp_vector_reserve(fp_memory *memory, fp_vector *vector, size_t item_size, size_t extra);
/* One more item, zeroed, or NULL for want of memory. */
void *fp_vector_add(fp_memory *memory, fp_vector *vector, size_t item_size);
void fp_vector_free(fp_memory *memory, fp_vector *vector);

#endif
