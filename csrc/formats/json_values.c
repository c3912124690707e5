#include "formats/json_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE = 4096, MOST_DIGITS = 20, DOUBLE_SIZE = 40, PS_IN_US = 1000000, FRACTION_DIGITS = 6 };
static const int64_t EXACT = INT64_C(1) << 53;

/* How a byte is escaped: 0: not at all; 'u': as \u00XX; else the letter behind a backslash. */
static uint8_t escape_of(uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
      return byte;
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return byte < 0x20 || byte == 0x7F ? 'u' : 0;
  }
}

static bool is_plain(uint8_t byte) {
  return byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7F;
}

/* Escapes a short text. Room for the worst case, six bytes for each, is reserved once. */
static void escape_piece(fp_bytes *out, const uint8_t *text, size_t length) {
  uint8_t *room = fp_bytes_room(out, 6 * length), *to = room;
  if (!to) return;
  for (size_t i = 0; i < length; i++) {
    uint8_t byte = text[i];
    if (is_plain(byte)) {
      *to++ = byte;
      continue;
    }
    uint8_t escape = escape_of(byte);
    *to++ = '\\';
    *to++ = escape;
    if (escape != 'u') continue;
    *to++ = '0';
    *to++ = '0';
    *to++ = (uint8_t)('0' + (byte >> 4));
    *to++ = (uint8_t)"0123456789abcdef"[byte & 15];
  }
  out->size += (size_t)(to - room);
}

/* In pieces, so that the worst case of a long text is not reserved all at once. */
void fp_json_escaped(fp_bytes *out, const uint8_t *text, size_t length) {
  while (length) {
    size_t piece = length < PIECE ? length : PIECE;
    escape_piece(out, text, piece);
    text += piece;
    length -= piece;
  }
}

bool fp_json_cut_text(fp_bytes *out, const uint8_t *text, size_t length, size_t most) {
  bool is_cut = length > most;
  if (is_cut)
    for (length = most; length && (text[length] & 0xC0) == 0x80;) length--;
  fp_bytes_byte(out, '"');
  fp_json_escaped(out, text, length);
  if (is_cut) fp_bytes_text(out, "...<truncated>");
  fp_bytes_byte(out, '"');
  return is_cut;
}

void fp_json_text(fp_bytes *out, const uint8_t *text, size_t length) {
  fp_bytes_byte(out, '"');
  fp_json_escaped(out, text, length);
  fp_bytes_byte(out, '"');
}

/* Writes digits that end at `end`, and returns where they begin. */
static uint8_t *digits_before(uint8_t *end, uint64_t value) {
  do *--end = (uint8_t)('0' + value % 10);
  while (value /= 10);
  return end;
}

void fp_json_digits(fp_bytes *out, uint64_t value) {
  uint8_t digits[MOST_DIGITS];
  uint8_t *first = digits_before(digits + MOST_DIGITS, value);
  fp_bytes_put(out, first, (size_t)(digits + MOST_DIGITS - first));
}

/* The absolute value, also of INT64_MIN. */
static uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

void fp_json_int(fp_bytes *out, int64_t value) {
  if (value < 0) fp_bytes_byte(out, '-');
  fp_json_digits(out, magnitude(value));
}

void fp_json_exact_int(fp_bytes *out, int64_t value) {
  bool quoted = value > EXACT || value < -EXACT;
  if (quoted) fp_bytes_byte(out, '"');
  fp_json_int(out, value);
  if (quoted) fp_bytes_byte(out, '"');
}

void fp_json_exact_uint(fp_bytes *out, uint64_t value) {
  bool quoted = value > (uint64_t)EXACT;
  if (quoted) fp_bytes_byte(out, '"');
  fp_json_digits(out, value);
  if (quoted) fp_bytes_byte(out, '"');
}

/* Replaces the decimal separator by a point. A process may have set a locale whose separator is another, of one byte
 * or several. Returns the new length. */
static size_t with_a_point(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++) {
    if ((*from >= '0' && *from <= '9') || *from == '-' || *from == '+' || *from == 'e') *to++ = *from;
    else if (to == text || to[-1] != '.') *to++ = '.';
  }
  return (size_t)(to - text);
}

/* Integers take the quick way; for others the number of digits is found by trial, as 15 mostly suffice. */
void fp_json_double(fp_bytes *out, double value) {
  char text[DOUBLE_SIZE];
  if (isnan(value)) {
    fp_bytes_text(out, "\"NaN\"");
    return;
  }
  if (isinf(value)) {
    fp_bytes_text(out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    return;
  }
  if (fabs(value) < 1e15 && value == (double)(int64_t)value) {
    if (signbit(value)) fp_bytes_byte(out, '-');
    fp_json_digits(out, magnitude((int64_t)value));
    fp_bytes_text(out, ".0");
    return;
  }
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  fp_bytes_put(out, text, with_a_point(text));
}

/* Written from the last digit to the first, trailing zeros of the fraction left out. */
void fp_json_micros(fp_bytes *out, int64_t ps) {
  uint8_t text[2 + MOST_DIGITS + FRACTION_DIGITS], *end = text + sizeof text, *first = end;
  uint64_t whole = magnitude(ps) / PS_IN_US, part = magnitude(ps) % PS_IN_US;
  if (part) {
    int digits = FRACTION_DIGITS;
    for (; part % 10 == 0; part /= 10) digits--;
    for (; digits; digits--, part /= 10) *--first = (uint8_t)('0' + part % 10);
    *--first = '.';
  }
  first = digits_before(first, whole);
  if (ps < 0) *--first = '-';
  fp_bytes_put(out, first, (size_t)(end - first));
}
