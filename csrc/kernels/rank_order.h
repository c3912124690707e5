/* Sorts places by length as GNU's C++ library does, so that lists which XProf sorts come out in XProf's order, equal
 * lengths included.
 *
 * Why this exists: XProf sorts with std::sort, which is not stable, and what it does next depends on the order of
 * equal items. It numbers calls of input pipelines and keeps the first of them, thins out snapshots of memory, lists
 * buffers at the peak, takes GPU streams with equally many events in turn to derive lines from, and assigns steps of
 * a device that begin together. A stable sort would give results that differ from XProf's in more than the order of
 * rows. */
#ifndef FASTPROF_RANK_ORDER_H
#define FASTPROF_RANK_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Sorts the numbers in `order`, each an index of `length`, by length, longest first. Makes the same comparisons and
 * moves as std::sort does there. In place, n log n at worst. */
void fp_rank_order(const int64_t *length, int32_t *order, size_t count);

#endif
