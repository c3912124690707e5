/* Heaps by definition, slowly: what the kernel heap_trace is compared with. */
#ifndef FASTPROF_TEST_HEAPS_H
#define FASTPROF_TEST_HEAPS_H

#include "kernels/heap_trace.h"

enum { MOST_EVENTS = 200, MOST_BUFFERS = 40 };

typedef struct heap_case {
  int32_t kind[MOST_EVENTS], buffer[MOST_EVENTS], canonical[MOST_EVENTS];
  size_t count;
  int64_t size[MOST_BUFFERS], unpadded[MOST_BUFFERS];
  size_t buffers;
} heap_case;

typedef struct heap_result {
  int64_t heap[MOST_EVENTS + 1], unpadded[MOST_EVENTS + 1];
  int32_t start[MOST_BUFFERS], end[MOST_BUFFERS], held[MOST_BUFFERS], freed[MOST_BUFFERS], root[MOST_BUFFERS];
  int32_t alive[MOST_EVENTS], shown[MOST_EVENTS];
  fp_heap_peak peak;
} heap_result;

/* Runs the kernel on blocks of exactly the right size. False if it ran out of memory. */
bool heap_follow(fp_memory *memory, const heap_case *one, heap_result *out);
/* Checks a result against the definitions: the sum of what is alive after each event, the peak, the life of each
 * buffer. */
void heap_check(const heap_case *one, const heap_result *found);

#endif
