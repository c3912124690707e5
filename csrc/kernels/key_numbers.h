/* Equal keys get equal numbers. Joins and groupings by several columns are made from this. */
#ifndef FASTPROF_KEY_NUMBERS_H
#define FASTPROF_KEY_NUMBERS_H

#include "memory.h"
#include "status.h"

enum { FP_KEY_WIDTH = 4 }; /* the most integers of a key */

/* Numbers the distinct keys from 0, in the order in which they first occur. A key is `width` (1 to FP_KEY_WIDTH) integers;
 * columns[j][i] is the j-th integer of key i. `distinct` gets the number of distinct keys.
 *
 *    columns   7 7 3 7         numbers   0 0 1 0        distinct 2
 *              1 1 1 1
 */
fp_code fp_key_numbers(fp_memory *memory, const int64_t *const *columns, size_t width, size_t count, int32_t *numbers,
                       size_t *distinct);

#endif
