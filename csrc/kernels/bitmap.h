/* Validity bitmaps, as Arrow has them: bit i of byte i / 8, least significant first. */
#ifndef FASTPROF_BITMAP_H
#define FASTPROF_BITMAP_H

#include <stddef.h>
#include <stdint.h>

/* Sets bit i where bit codes[i] of `wanted` is set, clears it elsewhere; writes (count + 7) / 8 bytes. Returns how
 * many are set. Codes are below 32. */
size_t fp_bitmap_of_codes(const uint8_t *codes, size_t count, uint32_t wanted, uint8_t *bitmap);

#endif
