#include "columns/bounds.h"

/* A flag in place of a return keeps branches out of the loops. Of plain columns the extremes are found, as the compiler
 * takes many numbers at once for these, in their own width. */
#define ALL_WITHIN(type)                                                            \
  if (numbers->stride == sizeof(type) && numbers->count) {                          \
    const type *column = numbers->first;                                            \
    type smallest = column[0], largest = column[0];                                 \
    for (size_t i = 1; i < numbers->count; i++) {                                   \
      smallest = column[i] < smallest ? column[i] : smallest;                       \
      largest = column[i] > largest ? column[i] : largest;                          \
    }                                                                               \
    outside = (int64_t)smallest < least || (int64_t)largest >= limit;               \
  } else {                                                                          \
    for (size_t i = 0; i < numbers->count; i++, at += numbers->stride) {            \
      int64_t value = (int64_t) * (const type *)(const void *)at;                   \
      outside |= (value < least) | (value >= limit);                                \
    }                                                                               \
  }                                                                                 \
  break;

bool fp_all_within(const fp_numbers *numbers, int64_t least, int64_t limit) {
  const uint8_t *at = numbers->first;
  bool outside = false;
  switch (numbers->code) {
    case 'B': ALL_WITHIN(uint8_t)
    case 'h': ALL_WITHIN(int16_t)
    case 'H': ALL_WITHIN(uint16_t)
    case 'i': ALL_WITHIN(int32_t)
    case 'I': ALL_WITHIN(uint32_t)
    case 'q': ALL_WITHIN(int64_t)
    case 'Q': ALL_WITHIN(int64_t)
    default: return false;
  }
  return !outside;
}

bool fp_are_bounds(const int64_t *bounds, size_t count, int64_t limit) {
  if (!count || bounds[0] < 0 || bounds[count - 1] > limit) return false;
  bool descends = false;
  for (size_t i = 1; i < count; i++) descends |= bounds[i] < bounds[i - 1];
  return !descends;
}

bool fp_are_slices(const int64_t *first, size_t count, size_t stride, int64_t limit) {
  const uint8_t *at = (const uint8_t *)first;
  bool outside = false;
  for (size_t i = 0; i < count; i++, at += stride) {
    const int64_t *pair = (const int64_t *)(const void *)at;
    outside |= pair[0] < 0 || pair[1] < pair[0] || pair[1] > limit;
  }
  return !outside;
}

bool fp_are_spans(const uint64_t *first, size_t count, size_t stride, uint64_t size) {
  const uint8_t *at = (const uint8_t *)first;
  bool outside = false;
  for (size_t i = 0; i < count; i++, at += stride) {
    const uint64_t *pair = (const uint64_t *)(const void *)at;
    outside |= pair[0] > size || pair[1] > size - pair[0];
  }
  return !outside;
}

bool fp_are_sorted(const int32_t *first, size_t count, size_t stride) {
  const uint8_t *at = (const uint8_t *)first;
  bool descends = false;
  for (size_t i = 1; i < count; i++, at += stride)
    descends |= *(const int32_t *)(const void *)(at + stride) < *(const int32_t *)(const void *)at;
  return !descends;
}
