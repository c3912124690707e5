/* How large the largest free chunk is, and how much free memory is in chunks too small for a request: bounds of both. */
#ifndef FASTPROF_FREE_BOUNDS_H
#define FASTPROF_FREE_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What allocators tell after each event; those of allocator a are bounds[a] to bounds[a + 1], in the order of time. */
typedef struct fp_free_events {
  const uint8_t *is_allocation;
  const double *fragmentation; /* (free - largest chunk) / free; NaN: not told */
  const int64_t *free_bytes, *heap, *stack;
  const uint16_t *recorded;    /* bits: which of them are told */
  uint16_t free_bit, heap_bit;
  const int64_t *moved;        /* bytes that the event takes or gives back, -1: not known */
  const int64_t *request;      /* bytes that have to fit in a chunk; below 1: nothing has to */
  const int64_t *bounds;
  size_t allocator_count;
} fp_free_events;

/* Bytes after each event; -1: not known. */
typedef struct fp_free_bounds {
  int64_t *largest_low, *largest_high;       /* the largest free chunk is between */
  int64_t *too_small_least, *too_small_most; /* free memory in chunks that do not hold the request is between */
  int64_t *taken_low, *taken_high;           /* what the allocator has taken from the device is between */
  uint8_t *grows; /* of each allocator: it has not taken all from the beginning, so that `fragmentation` is of less than
                   * what is free to it */
  /* What is known of free memory by its addresses: columns of fp_chunk_sums. They are set to 0 where the stack may lie
   * in it, or where it is more than what is free. The last two may be too_small_most and too_small_least themselves. */
  int64_t *known, *chunks, *fitting, *known_too_small;
} fp_free_bounds;

/* Takes time in the order of the events. */
void fp_bound_free_memory(const fp_free_events *events, const fp_free_bounds *out);

#endif
