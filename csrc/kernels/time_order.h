/* The rows of a line in the order of time, where they do not come in it: mostly they nearly do. */
#ifndef FASTPROF_TIME_ORDER_H
#define FASTPROF_TIME_ORDER_H

#include "memory.h"

/* Writes the rows `first` to `last` to `order`, by start, longer first, equal ones as they came. Linear where few rows are
 * far from their place, n log n at worst. False for want of memory. */
bool fp_time_order(fp_memory *memory, const int64_t *start, const int64_t *duration, int64_t first, int64_t last,
                   int64_t *order);

#endif
