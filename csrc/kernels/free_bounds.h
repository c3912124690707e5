/* Bounds of how large the largest free chunk is, and of how much free memory lies in chunks too small for a request. */
#ifndef FASTPROF_FREE_BOUNDS_H
#define FASTPROF_FREE_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What allocators record after each event, in order of time; those of allocator a are bounds[a] .. bounds[a + 1].
 * Only read. */
typedef struct fp_free_events {
  const uint8_t *is_allocation;
  const double *fragmentation; /* (free - largest chunk) / free; NaN: not recorded */
  const int64_t *free_bytes, *heap, *stack;
  const uint16_t *recorded;    /* bits: which of these columns the event has */
  uint16_t free_bit, heap_bit;
  const int64_t *moved;        /* bytes that the event allocates or frees; -1: unknown */
  const int64_t *request;      /* bytes that have to fit in a chunk; below 1: none */
  const int64_t *bounds;
  size_t allocator_count;
} fp_free_events;

/* Bytes after each event, all written; -1: unknown. The caller owns the arrays. */
typedef struct fp_free_bounds {
  int64_t *largest_low, *largest_high;       /* the largest free chunk is between */
  int64_t *too_small_least, *too_small_most; /* free memory in chunks that do not hold the request is between */
  int64_t *taken_low, *taken_high;           /* the memory that the allocator has taken from the device is between */
  uint8_t *grows; /* by allocator: it takes memory from the device in pieces, so `fragmentation` is a part of less than
                   * what it reports as free */
  /* Free memory known by its addresses: columns of fp_chunk_sums. They are set to 0 where the stack may lie in it, or
   * where it is more than what is free. The last two may be the arrays too_small_most and too_small_least. */
  int64_t *known, *chunks, *fitting, *known_too_small;
} fp_free_bounds;

/* Computes all bounds, in time linear in the events. Allocates nothing. */
void fp_bound_free_memory(const fp_free_events *events, const fp_free_bounds *out);

#endif
