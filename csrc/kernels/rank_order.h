/* Places ranked by length, in the order that XProf gives to equal ones: calls of pipelines, snapshots of memory. */
#ifndef FASTPROF_RANK_ORDER_H
#define FASTPROF_RANK_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Orders the numbers in `order`, each a place in `length`, by length, longest first. The sort is not stable: it makes the
 * very comparisons and moves that std::sort of GNU's C++ library makes, so numbers of equal length end up in the
 * same order as there. n log n at worst, in place. */
void fp_rank_order(const int64_t *length, int32_t *order, size_t count);

#endif
