/* A heap as it fills and empties on the way through a compiled program: from allocations, frees and shares of memory to
 * how much is in use at each point, the peak and what is alive there, and how long each buffer lives. */
#ifndef FASTPROF_HEAP_TRACE_H
#define FASTPROF_HEAP_TRACE_H

#include "memory.h"

enum { FP_HEAP_ALLOC, FP_HEAP_FREE, FP_HEAP_SHARE };

/* In the order of the program. */
typedef struct fp_heap_events {
  const int32_t *kind;
  const int32_t *buffer;    /* -1: not known; such an event is passed over */
  const int32_t *canonical; /* of FP_HEAP_SHARE: the buffer whose memory `buffer` takes part in; else not looked at */
  size_t count;             /* below 2^31 - 1 */
} fp_heap_events;

/* Bytes of each buffer, and bytes without padding. */
typedef struct fp_heap_sizes {
  const int64_t *size, *unpadded;
  size_t count; /* of buffers; those of events are below it */
} fp_heap_sizes;

typedef struct fp_heap {
  int64_t *heap, *unpadded; /* count + 1 each: in use before each event, and at the end */
  /* By buffer, -1: it is not in the trace. It lives from event `start` to event `end`, count where it is never freed. */
  int32_t *start, *end;
  /* By buffer, -1: it owns no memory by itself. Its memory is in use from event `held` to event `freed`, at which it and
   * all that share it are freed for the first time; count - 1, the last event, where they never are. */
  int32_t *held, *freed;
  int32_t *root;  /* by buffer: whose memory it is in the end; itself where it shares none */
  int32_t *alive; /* room for count: the owners of what is in use at the peak, in the order in which it was taken */
  int32_t *shown; /* beside `alive`: the buffer that is in that memory, where it was taken again after it was free */
} fp_heap;

typedef struct fp_heap_peak {
  int64_t bytes, unpadded;
  int64_t event;       /* that made the peak; 0 where there is none */
  size_t alive;        /* entries of `alive` */
  size_t passed_over;  /* events that make no sense: frees of what is free, allocations of what is in use, … */
} fp_heap_peak;

/* Memory that is shared is in use from its allocation until its owner and all that share it are freed; a share of what is
 * free already takes the memory again. Sums wrap around. False for want of memory. */
bool fp_heap_trace(fp_memory *memory, const fp_heap_events *events, const fp_heap_sizes *sizes, const fp_heap *out,
                   fp_heap_peak *peak);

#endif
