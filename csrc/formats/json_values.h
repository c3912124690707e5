/* Values as JSON: exact whatever they are, and text that every reader accepts. */
#ifndef FASTPROF_JSON_VALUES_H
#define FASTPROF_JSON_VALUES_H

#include "formats/growing_bytes.h"

/* A string in quotes. The bytes must be UTF-8. */
void fp_json_text(fp_bytes *out, const uint8_t *text, size_t length);
/* The same of the first `most` bytes, cut between characters; a mark follows what was cut. Returns whether it was. */
bool fp_json_cut_text(fp_bytes *out, const uint8_t *text, size_t length, size_t most);
/* A string without the quotes. */
void fp_json_escaped(fp_bytes *out, const uint8_t *text, size_t length);
/* A number as digits. */
void fp_json_digits(fp_bytes *out, uint64_t value);
/* A number, however large. fp_json_exact_int is the one for values that a reader computes with. */
void fp_json_int(fp_bytes *out, int64_t value);
/* A number; beyond 2^53, where readers that hold numbers as doubles would lose digits, a string of digits. */
void fp_json_exact_int(fp_bytes *out, int64_t value);
void fp_json_exact_uint(fp_bytes *out, uint64_t value);
/* The shortest of 15 to 17 digits that gives the same double, with a point or an exponent. "NaN", "Infinity" and
 * "-Infinity" are strings, as JSON has no such numbers. */
void fp_json_double(fp_bytes *out, double value);
/* Picoseconds as microseconds: a decimal fraction with as many digits as it needs, so it is exact. */
void fp_json_micros(fp_bytes *out, int64_t ps);

#endif
