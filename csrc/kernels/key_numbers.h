/* Equal keys get equal numbers: what joins are made of. */
#ifndef FASTPROF_KEY_NUMBERS_H
#define FASTPROF_KEY_NUMBERS_H

#include "memory.h"

/* Numbers the distinct keys from 0 in the order in which they are first met. A key is `width` (1 to 4) integers;
 * columns[j][i] is the j-th of key i. Returns how many distinct keys there are, or -1 for want of memory. */
int64_t fp_key_numbers(fp_memory *memory, const int64_t *const *columns, size_t width, size_t count, int32_t *numbers);

#endif
