/* Free memory that is known by its addresses: what was seen freed and is not in use again. */
#ifndef FASTPROF_FREE_CHUNKS_H
#define FASTPROF_FREE_CHUNKS_H

#include "memory.h"

/* Events of several allocators, those of allocator a from bounds[a] to bounds[a + 1], in the order of time. */
typedef struct fp_chunk_events {
  const uint8_t *is_allocation; /* 0: a free */
  const uint8_t *held_before;   /* 1: a free of what was in use when the first event came */
  const int64_t *address;       /* the bits of an unsigned one */
  const int64_t *size;          /* bytes; below 1: the event is passed over, as are those beyond the last address */
  const int64_t *request;       /* bytes that have to fit at each event; never grows within an allocator */
  size_t count;                 /* below 2^31 */
  const int64_t *bounds;
  size_t allocator_count;
} fp_chunk_events;

/* What is known after each event. Neighbours that are free are one chunk. */
typedef struct fp_chunk_sums {
  int64_t *bytes;    /* in known chunks */
  int64_t *chunks;   /* how many there are */
  int64_t *fitting;  /* bytes in known chunks that hold `request`: the chunks that they are part of do as well */
  int64_t *too_small; /* bytes in chunks known from end to end, between ranges in use, that do not hold `request` */
} fp_chunk_sums;

/* Replays the events: an allocation takes its range from what is free, a free gives it back. Every column is written.
 * Takes time in the order of n log n, however addresses overlap. False for want of memory. */
bool fp_known_chunks(fp_memory *memory, const fp_chunk_events *events, const fp_chunk_sums *out);

#endif
