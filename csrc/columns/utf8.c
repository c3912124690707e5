#include "columns/utf8.h"

#include <string.h>

size_t fp_utf8_character(const uint8_t *p, size_t left) {
  uint8_t lead = p[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (size > left) return 0;
  for (size_t i = 1; i < size; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if (lead == 0xE0 && p[1] < 0xA0) return 0; /* overlong */
  if (lead == 0xED && p[1] > 0x9F) return 0; /* surrogate */
  if (lead == 0xF0 && p[1] < 0x90) return 0; /* overlong */
  if (lead == 0xF4 && p[1] > 0x8F) return 0; /* past U+10FFFF */
  return size;
}

/* Nearly all text is ASCII, which is checked eight bytes at a time. */
bool fp_utf8_valid(const uint8_t *text, size_t length) {
  size_t i = 0;
  while (i < length) {
    uint64_t word;
    while (i + 8 <= length) {
      memcpy(&word, text + i, 8);
      if (word & UINT64_C(0x8080808080808080)) break;
      i += 8;
    }
    if (i == length) break;
    size_t size = fp_utf8_character(text + i, length - i);
    if (!size) return false;
    i += size;
  }
  return true;
}

size_t fp_utf8_repair(const uint8_t *text, size_t length, uint8_t *out) {
  size_t written = 0;
  for (size_t i = 0; i < length;) {
    size_t size = fp_utf8_character(text + i, length - i);
    if (out) {
      if (size)
        memcpy(out + written, text + i, size);
      else
        memcpy(out + written, "\xEF\xBF\xBD", 3);
    }
    written += size ? size : 3;
    i += size ? size : 1;
  }
  return written;
}
