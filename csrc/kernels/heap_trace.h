/* A heap as it fills and empties while a compiled program runs: allocations, frees and shares of memory become the
 * bytes in use at each point, the peak and what is alive there, and the life of each buffer. */
#ifndef FASTPROF_HEAP_TRACE_H
#define FASTPROF_HEAP_TRACE_H

#include "memory.h"
#include "status.h"

/* Kinds of events; others are skipped. */
enum { FP_HEAP_ALLOC, FP_HEAP_FREE, FP_HEAP_SHARE };

/* The events, in the order of the program. */
typedef struct fp_heap_events {
  const int32_t *kind;
  const int32_t *buffer;    /* -1: unknown; such an event is skipped */
  const int32_t *canonical; /* for FP_HEAP_SHARE: the buffer whose memory `buffer` shares; else ignored */
  size_t count;             /* below 2^31 - 1 */
} fp_heap_events;

/* The bytes of each buffer, with and without padding. */
typedef struct fp_heap_sizes {
  const int64_t *size, *unpadded;
  size_t count; /* number of buffers; buffers of events are below it */
} fp_heap_sizes;

/* The results; the caller owns the arrays. */
typedef struct fp_heap {
  int64_t *heap, *unpadded; /* count + 1 each: in use before each event, and at the end */
  /* By buffer: it lives from event `start` to event `end`, which is count if it is never freed. -1: not in the trace. */
  int32_t *start, *end;
  /* By buffer: its own memory is in use from event `held` to event `freed`, when it and all that share it have been
   * freed for the first time; count - 1, the last event, if they never are. -1: it owns no memory. */
  int32_t *held, *freed;
  int32_t *root;  /* by buffer: the buffer that owns its memory; itself if it shares none */
  int32_t *alive; /* room for count: the owners of memory that is in use at the peak, in the order of allocation */
  int32_t *shown; /* beside `alive`: the buffer that took the memory, if a share took it again after it was free */
} fp_heap;

/* The highest point of the heap. */
typedef struct fp_heap_peak {
  int64_t bytes, unpadded;
  int64_t event;       /* the one that made the peak; 0 if there is no peak */
  size_t alive;        /* number of items of `alive` */
  size_t passed_over;  /* events skipped because they contradict the state: a free of free memory, … */
} fp_heap_peak;

/* Follows the events. Shared memory is in use from its allocation until its owner and all that share it have been
 * freed; a share of memory that is free already takes it again. Sums wrap. Fails only when memory runs out.
 *
 *    alloc A (4)      heap 4      users of A: 1
 *    share B with A   heap 4      users of A: 2      root of B: A
 *    free A           heap 4      users of A: 1      A's memory stays in use for B
 *    free B           heap 0      users of A: 0
 */
fp_code fp_heap_trace(fp_memory *memory, const fp_heap_events *events, const fp_heap_sizes *sizes, const fp_heap *out,
                   fp_heap_peak *peak);

#endif
