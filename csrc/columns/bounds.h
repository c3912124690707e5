/* Checks of columns that others index by: the border runs them before a kernel does. */
#ifndef FASTPROF_BOUNDS_H
#define FASTPROF_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An integer in each of `count` items that are `stride` bytes apart: a column, or a field of structs. */
typedef struct fp_numbers {
  const void *first;
  size_t count, stride;
  char code; /* as in Python's struct: B, H, h, I, i, Q, q */
} fp_numbers;

/* Whether all are from `least` on and below `limit`. An unsigned one above the largest int64 counts as negative. */
bool fp_all_within(const fp_numbers *numbers, int64_t least, int64_t limit);

/* Whether int64s never descend, and the first is not below 0, nor the last above `limit`: the bounds of slices. No bounds
 * at all are none. */
bool fp_are_bounds(const int64_t *bounds, size_t count, int64_t limit);

/* Whether pairs of first and last, int64s that begin items `stride` bytes apart, are slices of `limit` rows. */
bool fp_are_slices(const int64_t *first, size_t count, size_t stride, int64_t limit);

/* Whether pairs of offset and length, uint64s that begin items `stride` bytes apart, lie within `size` bytes. */
bool fp_are_spans(const uint64_t *first, size_t count, size_t stride, uint64_t size);

/* Whether int32s that begin items `stride` bytes apart never descend. */
bool fp_are_sorted(const int32_t *first, size_t count, size_t stride);

#endif
