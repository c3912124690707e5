/* Rows of a line sorted by time. Profilers mostly write them nearly sorted, and the sort makes use of that. */
#ifndef FASTPROF_TIME_ORDER_H
#define FASTPROF_TIME_ORDER_H

#include "memory.h"

/* Writes the rows first..last to `order`, sorted by start, longer first; equal rows keep their order. Takes linear
 * time where few rows are far from their place, n log n at worst. Fails only when memory runs out. */
bool fp_time_order(fp_memory *memory, const int64_t *start, const int64_t *duration, int64_t first, int64_t last,
                   int64_t *order);

#endif
