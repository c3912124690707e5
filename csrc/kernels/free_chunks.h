/* Free memory that is known by its address: ranges that were freed within the trace and are not in use again. */
#ifndef FASTPROF_FREE_CHUNKS_H
#define FASTPROF_FREE_CHUNKS_H

#include "memory.h"
#include "status.h"

/* Events of several allocators, in order of time; those of allocator a are bounds[a] .. bounds[a + 1]. Only read. */
typedef struct fp_chunk_events {
  const uint8_t *is_allocation; /* 0: a free */
  const uint8_t *held_before;   /* 1: a free of memory that was in use before the first event */
  const int64_t *address;       /* the bits of an unsigned one */
  const int64_t *size;          /* bytes; an event is skipped if it is below 1 or reaches beyond the last address */
  const int64_t *request;       /* by event: the bytes that have to fit in a chunk; never grows within an allocator */
  size_t count;                 /* below 2^31 */
  const int64_t *bounds;
  size_t allocator_count;
} fp_chunk_events;

/* What is known after each event. Adjoining free ranges are one chunk. */
typedef struct fp_chunk_sums {
  int64_t *bytes;    /* in known chunks */
  int64_t *chunks;   /* how many there are */
  int64_t *fitting;  /* bytes in known chunks that can hold `request` */
  int64_t *too_small; /* bytes in chunks that cannot hold it and cannot be larger: memory in use on both sides */
} fp_chunk_sums;

/* Replays the events: an allocation takes its range out of free memory, a free puts it back. Writes every column.
 * Takes n log n time, however addresses overlap. Fails only when memory runs out.
 *
 *    address     0        8       16       24
 *    known       [in use ][ free  ][in use ]?        the chunk 8..16 is closed: it is exactly 8 bytes
 *    later       [in use ][ free           ]?        after a free of 16..24: at least 16 bytes, perhaps more
 */
fp_code fp_known_chunks(fp_memory *memory, const fp_chunk_events *events, const fp_chunk_sums *out);

#endif
