/* A time in picoseconds is the decimal number with its point moved by six places. So its digits are cut where the unit
 * is a picosecond, and what is cut off decides the rounding:
 *
 *    9.8719999999999999 us    digits 98719999999999999, point behind 1
 *    98719999999999999        point behind 1 + 6:  9871999|9999999999  ->  9872000 ps  ->  9872 ns, 0 ps
 *
 * No double is made on the way. A double is made of at most 19 digits that a double holds, times or divided by a power
 * of ten that a double holds, where both are exact, as the one rounding left is then right (Clinger, 1990); else by
 * strtod, from digits and an exponent, without a point: so the point of the locale does not matter. */
#include "formats/json_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { US_TO_PS_DIGITS = 6, MOST_TIME_DIGITS = 23, MOST_EXPONENT = 100000, EXACT_POWER = 22, MOST_DIGITS_OF_DOUBLE = 800 };
static const uint64_t LARGEST_EXACT = UINT64_C(1) << 53;

/* The parts of a number. */
typedef struct number_parts {
  const uint8_t *whole, *fraction; /* digits */
  size_t whole_length, fraction_length;
  int64_t exponent;
  bool is_negative, is_integer;
} number_parts;

static inline bool is_digit(uint8_t byte) {
  return (uint8_t)(byte - '0') < 10;
}

static const uint8_t *after_digits(const uint8_t *p, const uint8_t *end) {
  while (p < end && is_digit(*p)) p++;
  return p;
}

/* The exponent, which is cut at a size beyond which only its sign counts. NULL: there is none. */
static const uint8_t *read_exponent(const uint8_t *p, const uint8_t *end, int64_t *exponent) {
  bool is_negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  const uint8_t *first = p;
  for (; p < end && is_digit(*p); p++)
    if (*exponent < INT64_C(1) << 40) *exponent = *exponent * 10 + (*p - '0');
  if (is_negative) *exponent = -*exponent;
  return p == first ? NULL : p;
}

/* Takes a number apart. False: it is none. */
static bool take_apart(const uint8_t *p, size_t length, number_parts *parts) {
  const uint8_t *end = p + length;
  memset(parts, 0, sizeof *parts);
  parts->is_negative = p < end && *p == '-';
  p += parts->is_negative;
  parts->whole = p;
  p = after_digits(p, end);
  parts->whole_length = (size_t)(p - parts->whole);
  if (!parts->whole_length || (parts->whole_length > 1 && *parts->whole == '0')) return false;
  parts->is_integer = p == end;
  if (p < end && *p == '.') {
    parts->fraction = ++p;
    p = after_digits(p, end);
    parts->fraction_length = (size_t)(p - parts->fraction);
    if (!parts->fraction_length) return false;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    p = read_exponent(p + 1, end, &parts->exponent);
    if (!p) return false;
  }
  return p == end;
}

static inline uint8_t digit_at(const number_parts *parts, size_t i) {
  return (uint8_t)((i < parts->whole_length ? parts->whole[i] : parts->fraction[i - parts->whole_length]) - '0');
}

/* ---- integers and doubles ---- */

/* An integer of up to 20 digits. False: it does not fit 64 bits. */
static bool read_integer(const number_parts *parts, uint64_t *value) {
  *value = 0;
  if (parts->whole_length > 20) return false;
  for (size_t i = 0; i < parts->whole_length; i++)
    if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, parts->whole[i] - '0', value))
      return false;
  return true;
}

/* Digits and exponent without a point, for strtod. More than 800 digits change no double but by being more than zero,
 * which the last digit says: a 1 where any that was cut off is not 0. */
static double slow_double(const number_parts *parts) {
  char text[MOST_DIGITS_OF_DOUBLE + 32];
  size_t count = parts->whole_length + parts->fraction_length, size = 0, first = 0;
  int64_t exponent = parts->exponent - (int64_t)parts->fraction_length;
  while (first < count && !digit_at(parts, first)) first++;
  size_t last = count - first > MOST_DIGITS_OF_DOUBLE ? first + MOST_DIGITS_OF_DOUBLE : count;
  for (size_t i = first; i < last; i++) text[size++] = (char)('0' + digit_at(parts, i));
  bool is_more = false;
  for (size_t i = last; i < count && !is_more; i++) is_more = digit_at(parts, i) != 0;
  exponent += (int64_t)(count - last);
  if (is_more) text[size++] = '1', exponent--;
  if (!size) return 0;
  exponent = exponent > MOST_EXPONENT ? MOST_EXPONENT : exponent < -MOST_EXPONENT ? -MOST_EXPONENT : exponent;
  snprintf(text + size, sizeof text - size, "e%d", (int)exponent);
  return strtod(text, NULL);
}

static double read_double(const number_parts *parts) {
  static const double powers[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  size_t count = parts->whole_length + parts->fraction_length;
  int64_t exponent = parts->exponent - (int64_t)parts->fraction_length;
  double value;
  uint64_t digits = 0;
  bool is_short = count <= 19 && exponent >= -EXACT_POWER && exponent <= EXACT_POWER;
  for (size_t i = 0; is_short && i < count; i++) digits = digits * 10 + digit_at(parts, i);
  if (is_short && digits <= LARGEST_EXACT)
    value = exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
  else
    value = slow_double(parts);
  return parts->is_negative ? -value : value;
}

/* The usual number: up to 18 digits. */
static bool read_usual_number(const uint8_t *text, size_t length, uint64_t *value) {
  *value = 0;
  if (!length || length > 18 || (length > 1 && *text == '0')) return false;
  for (size_t i = 0; i < length; i++) {
    if (!is_digit(text[i])) return false;
    *value = *value * 10 + (uint64_t)(text[i] - '0');
  }
  return true;
}

fp_json_number fp_json_read_number(const uint8_t *text, size_t length) {
  fp_json_number found = {FP_JSON_NO_NUMBER, 0, 0};
  if (read_usual_number(text, length, &found.bits)) {
    found.kind = FP_JSON_INT;
    return found;
  }
  found.bits = 0;
  number_parts parts;
  if (!take_apart(text, length, &parts)) return found;
  if (!parts.is_integer) {
    found.kind = FP_JSON_DOUBLE;
    found.value = read_double(&parts);
    return found;
  }
  uint64_t value;
  bool fits = read_integer(&parts, &value), is_int = fits && value <= (uint64_t)INT64_MAX + parts.is_negative;
  found.kind = is_int ? FP_JSON_INT : fits && !parts.is_negative ? FP_JSON_UINT : FP_JSON_DIGITS;
  found.bits = parts.is_negative ? 0 - value : value;
  return found;
}

static bool is_word(const uint8_t *text, size_t length, const char *word) {
  if (length != strlen(word)) return false;
  for (size_t i = 0; i < length; i++)
    if ((text[i] | 0x20) != (uint8_t)word[i]) return false;
  return true;
}

bool fp_json_read_nonfinite(const uint8_t *text, size_t length, double *value) {
  bool is_negative = length && *text == '-', is_signed = is_negative || (length && *text == '+');
  text += is_signed;
  length -= is_signed;
  if (is_word(text, length, "nan")) *value = (double)NAN;
  else if (is_word(text, length, "inf") || is_word(text, length, "infinity")) *value = is_negative ? -HUGE_VAL : HUGE_VAL;
  else return false;
  return true;
}

/* ---- times ---- */

/* Whether the number behind the cut is more than a half, or a half and the number before it odd. */
static bool rounds_up(const number_parts *parts, size_t cut, size_t count, bool is_odd) {
  if (cut >= count) return false;
  uint8_t first = digit_at(parts, cut);
  if (first != 5) return first > 5;
  for (size_t i = cut + 1; i < count; i++)
    if (digit_at(parts, i)) return true;
  return is_odd;
}

/* Any number: the picoseconds of its absolute value in 128 bits. False: too large. */
static bool read_picoseconds(const number_parts *parts, unsigned __int128 *ps) {
  size_t count = parts->whole_length + parts->fraction_length, first = 0;
  while (first < count && !digit_at(parts, first)) first++;
  *ps = 0;
  if (first == count) return true;
  int64_t before = (int64_t)parts->whole_length - (int64_t)first + parts->exponent + US_TO_PS_DIGITS;
  if (before > MOST_TIME_DIGITS) return false;
  if (before < 0) return true;
  size_t taken = (size_t)before;
  for (size_t i = 0; i < taken; i++) *ps = *ps * 10 + (first + i < count ? digit_at(parts, first + i) : 0);
  *ps += rounds_up(parts, first + taken, count, *ps & 1);
  return true;
}

/* Eight digits at once: neighbours become numbers of two digits, these of four, these of eight.
 *
 *    "12345678"    1 2 3 4 5 6 7 8  ->  12 34 56 78  ->  1234 5678  ->  12345678
 *
 * False: not all are digits. A digit and 6 more are below 0x40, and above 0x2F. */
static inline bool read_eight(const uint8_t *text, uint64_t *value) {
  const uint64_t ones = UINT64_C(0x0101010101010101);
  uint64_t word = 0;
  for (int i = 0; i < 8; i++) word |= (uint64_t)text[i] << 8 * i;
  if (((word & 0xF0 * ones) | (((word + 6 * ones) & 0xF0 * ones) >> 4)) != 0x33 * ones) return false;
  word -= 0x30 * ones;
  word = (word * 10 + (word >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
  word = (word * 100 + (word >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
  *value = (word * 10000 + (word >> 32)) & 0xFFFFFFFF;
  return true;
}

/* The usual number: at most 15 digits, a point, at most six more. False: it is another. */
static bool read_usual_time(const uint8_t *text, size_t length, fp_json_time *time) {
  uint64_t whole = 0, part = 0;
  size_t i = length >= 8 && read_eight(text, &whole) ? 8 : 0;
  if (length > 22) return false;
  for (; i < length && is_digit(text[i]); i++) whole = whole * 10 + (uint64_t)(text[i] - '0');
  if (!i || i > 15 || (i > 1 && *text == '0')) return false;
  if (i < length) {
    size_t point = i++, places = length - i;
    if (text[point] != '.' || !places || places > US_TO_PS_DIGITS) return false;
    for (; i < length; i++) {
      if (!is_digit(text[i])) return false;
      part = part * 10 + (uint64_t)(text[i] - '0');
    }
    for (; places < US_TO_PS_DIGITS; places++) part *= 10;
  }
  time->ns = (int64_t)(whole * 1000 + part / 1000);
  time->ps = (int32_t)(part % 1000);
  return true;
}

bool fp_json_read_time(const uint8_t *text, size_t length, fp_json_time *time) {
  number_parts parts;
  unsigned __int128 ps;
  if (read_usual_time(text, length, time)) return true;
  if (!take_apart(text, length, &parts) || !read_picoseconds(&parts, &ps)) return false;
  uint64_t rest = (uint64_t)(ps % 1000);
  unsigned __int128 ns = ps / 1000 + (parts.is_negative && rest);
  if (ns > (unsigned __int128)INT64_MAX + parts.is_negative) return false;
  time->ns = (int64_t)(parts.is_negative ? 0 - (uint64_t)ns : (uint64_t)ns);
  time->ps = (int32_t)(parts.is_negative && rest ? 1000 - rest : rest);
  return true;
}
