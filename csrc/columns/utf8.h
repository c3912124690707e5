/* UTF-8 as Arrow and protobuf define it: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef FASTPROF_UTF8_H
#define FASTPROF_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool fp_utf8_valid(const uint8_t *text, size_t length);

/* Writes the text with each byte that is no part of a character replaced by U+FFFD; returns the bytes
 * written. `out` has room for 3 * length bytes, or is NULL to only measure. */
size_t fp_utf8_repair(const uint8_t *text, size_t length, uint8_t *out);

#endif
