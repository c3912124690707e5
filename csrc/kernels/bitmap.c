/* The shift by a code, not a comparison, decides: so any set of codes costs the same. */
#include "kernels/bitmap.h"

/* Eight codes at a time make a byte; the rest make the last one. */
size_t fp_bitmap_of_codes(const uint8_t *codes, size_t count, uint32_t wanted, uint8_t *bitmap) {
  size_t set = 0, whole = count / 8;
  for (size_t i = 0; i < whole; i++) {
    unsigned byte = 0;
    for (unsigned j = 0; j < 8; j++) byte |= (wanted >> (codes[i * 8 + j] & 31) & 1) << j;
    bitmap[i] = (uint8_t)byte;
    set += (size_t)__builtin_popcount(byte);
  }
  if (count % 8) {
    unsigned byte = 0;
    for (unsigned j = 0; j < count % 8; j++) byte |= (wanted >> (codes[whole * 8 + j] & 31) & 1) << j;
    bitmap[whole] = (uint8_t)byte;
    set += (size_t)__builtin_popcount(byte);
  }
  return set;
}
