/* Strings of JSON as UTF-8, and values as compact text. */
#ifndef FASTPROF_JSON_TEXT_H
#define FASTPROF_JSON_TEXT_H

#include "formats/growing_bytes.h"
#include "formats/json_walk.h"

/* Faults of texts: how many bytes or escapes became U+FFFD. `offset`: of the first, from the beginning of the text.
 * `repeated`: in values, how many members have the key of an earlier one of their object. `unescaped`: how many texts
 * have escapes that JSON does not have, or are paths of Windows with single backslashes. */
typedef struct fp_json_bad_text {
  uint64_t count, offset, repeated, unescaped;
} fp_json_bad_text;

/* Appends what a string between quotes says. Each byte that is part of no character, and each lone surrogate, becomes
 * U+FFFD and is counted. A text whose backslashes nobody has escaped stands as it is written, but for quotes:
 *
 *    C:\Users\torch\nn     \U and \n are no escapes here, because JSON has no \U
 *    C:\temp\new.py       a path, although JSON has both escapes
 *
 * In other texts, an escape that JSON does not have is the characters as they stand. */
void fp_json_decode(fp_bytes *out, const uint8_t *text, size_t length, fp_json_bad_text *bad);

/* Appends a value without blanks outside of strings, its strings escaped as little as possible. Of members of one key
 * the last one's value stands at the place of the first. More than `most` bytes
 * are not written. False: it is not JSON, at `*at`. */
bool fp_json_compact(fp_bytes *out, const fp_json_view *view, const fp_json_value *value, size_t most,
                     fp_json_bad_text *bad, uint32_t *at);

#endif
