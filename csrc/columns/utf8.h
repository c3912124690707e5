/* UTF-8 as Arrow and protobuf define it: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef FASTPROF_UTF8_H
#define FASTPROF_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at `p`, of `left` > 0 bytes; 0 if no valid one begins there. */
size_t fp_utf8_character(const uint8_t *p, size_t left);

/* Whether all of a text is valid. */
bool fp_utf8_valid(const uint8_t *text, size_t length);

/* Writes the text with U+FFFD in place of each byte that is not part of a character, and returns how many bytes that
 * takes. `out` has room for 3 * length bytes; NULL: only count. */
size_t fp_utf8_repair(const uint8_t *text, size_t length, uint8_t *out);

#endif
