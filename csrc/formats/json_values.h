/* Values as JSON: exact whatever they are, and text that any reader takes. */
#ifndef FASTPROF_JSON_VALUES_H
#define FASTPROF_JSON_VALUES_H

#include "formats/growing_bytes.h"

/* A string with its quotes. The bytes are UTF-8. */
void fp_json_text(fp_bytes *out, const uint8_t *text, size_t length);
/* What stands between the quotes. */
void fp_json_escaped(fp_bytes *out, const uint8_t *text, size_t length);
/* Digits. */
void fp_json_digits(fp_bytes *out, uint64_t value);
void fp_json_int(fp_bytes *out, int64_t value);
/* A number, or where readers that hold numbers as doubles would lose digits, past 2^53, a string of them. */
void fp_json_exact_int(fp_bytes *out, int64_t value);
void fp_json_exact_uint(fp_bytes *out, uint64_t value);
/* The shortest of 15 to 17 digits that stands for the same double, with a point or exponent; "NaN", "Infinity" and
 * "-Infinity" as strings. */
void fp_json_double(fp_bytes *out, double value);
/* Picoseconds as microseconds: a decimal fraction of as many digits as it takes, which is exact. */
void fp_json_micros(fp_bytes *out, int64_t ps);

#endif
