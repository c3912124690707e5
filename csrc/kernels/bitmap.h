/* Validity bitmaps as Arrow defines them: bit i is bit i % 8 of byte i / 8. */
#ifndef FASTPROF_BITMAP_H
#define FASTPROF_BITMAP_H

#include <stddef.h>
#include <stdint.h>

/* Sets bit i if bit codes[i] of `wanted` is set, and clears it otherwise. Writes (count + 7) / 8 bytes and returns
 * how many bits are set. Codes are below 32. */
size_t fp_bitmap_of_codes(const uint8_t *codes, size_t count, uint32_t wanted, uint8_t *bitmap);

#endif
