/* Every allocation of the core goes through here, so that bytes are limited, and tests can count blocks and make the n-th
 * allocation fail. */
#ifndef FASTPROF_MEMORY_H
#define FASTPROF_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "large_blocks.h"

/* An allocator. The caller owns it; the threads that work for that caller share it. */
typedef struct fp_memory {
  _Atomic int64_t live;      /* blocks handed out and not yet released */
  _Atomic int64_t countdown; /* how many more allocations succeed; negative: no limit */
  _Atomic int64_t held;      /* bytes of live blocks */
  _Atomic int64_t most;      /* bytes that may be held */
  _Atomic bool is_exceeded;  /* an allocation failed because of `most` */
  fp_blocks *blocks;         /* where large blocks lie; NULL: in memory */
  uint64_t seed;             /* of hash tables, so that no file can be made whose names collide */
} fp_memory;

/* No live blocks, no limits, and a seed of its own. */
void fp_memory_init(fp_memory *memory);

/* All three return NULL when memory or the countdown runs out, or `most` would be exceeded. A size of 0 gives a block too. fp_resize leaves the old
 * block alone if it fails. */
void *fp_alloc(fp_memory *memory, size_t size);
void *fp_alloc_zeroed(fp_memory *memory, size_t count, size_t item_size);
void *fp_resize(fp_memory *memory, void *block, size_t size);
void fp_release(fp_memory *memory, void *block); /* NULL is fine */
/* Counts the block as released. The caller frees it by fp_block_free with `memory->blocks`. */
void fp_give_away(fp_memory *memory, void *block);

/* A growable array, whose items the owner of the vector interprets. Zeroed memory is a valid empty one;
 * fp_vector_free may be called twice. */
typedef struct fp_vector {
  void *items;
  size_t count, capacity;
} fp_vector;

/* Makes room for `extra` more items. False when memory runs out; the vector is unchanged then. */
bool fp_vector_reserve(fp_memory *memory, fp_vector *vector, size_t item_size, size_t extra);
/* Appends a zeroed item; NULL when memory runs out. Pointers into the vector are no longer valid. */
void *fp_vector_add(fp_memory *memory, fp_vector *vector, size_t item_size);
void fp_vector_free(fp_memory *memory, fp_vector *vector);

#endif
