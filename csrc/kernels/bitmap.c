/* Sixteen codes at a time are compared with each wanted one, where the processor can; else a shift by the code, not a
 * comparison, decides: so any set of codes costs the same.
 *
 *    codes       0 5 3 3 0 5 ...     wanted 5 and 3
 *    equal to 3  0 0 1 1 0 0 ...
 *    equal to 5  0 1 0 0 0 1 ...     their or is the bitmap */
#include "kernels/bitmap.h"

#if defined(__x86_64__)
#include <emmintrin.h>

enum { AT_ONCE = 16, MOST_COMPARED = 4 };

/* The bitmap of as many codes as are taken sixteen at a time. */
static size_t compare_codes(const uint8_t *codes, size_t count, uint32_t wanted, uint8_t *bitmap, size_t *set) {
  size_t done = 0;
  if (__builtin_popcount(wanted) > MOST_COMPARED) return 0;
  for (; done + AT_ONCE <= count; done += AT_ONCE) {
    __m128i some = _mm_loadu_si128((const __m128i *)(const void *)(codes + done)), equal = _mm_setzero_si128();
    for (uint32_t left = wanted; left; left &= left - 1)
      equal = _mm_or_si128(equal, _mm_cmpeq_epi8(some, _mm_set1_epi8((char)__builtin_ctz(left))));
    unsigned bits = (unsigned)_mm_movemask_epi8(equal);
    bitmap[done / 8] = (uint8_t)bits;
    bitmap[done / 8 + 1] = (uint8_t)(bits >> 8);
    *set += (size_t)__builtin_popcount(bits);
  }
  return done;
}
#else
static size_t compare_codes(const uint8_t *codes, size_t count, uint32_t wanted, uint8_t *bitmap, size_t *set) {
  (void)codes, (void)count, (void)wanted, (void)bitmap, (void)set;
  return 0;
}
#endif

size_t fp_bitmap_of_codes(const uint8_t *codes, size_t count, uint32_t wanted, uint8_t *bitmap) {
  size_t set = 0;
  for (size_t at = compare_codes(codes, count, wanted, bitmap, &set); at < count; at += 8) {
    unsigned byte = 0;
    for (unsigned j = 0; j < 8 && at + j < count; j++) byte |= (wanted >> (codes[at + j] & 31) & 1) << j;
    bitmap[at / 8] = (uint8_t)byte;
    set += (size_t)__builtin_popcount(byte);
  }
  return set;
}
