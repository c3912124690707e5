/* Numbers of JSON as they are written: times without rounding on the way, integers of 64 bits, doubles. */
#ifndef FASTPROF_JSON_NUMBER_H
#define FASTPROF_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a number is. FP_JSON_DIGITS: an integer that no 64 bits hold. */
typedef enum fp_json_number_kind {
  FP_JSON_NO_NUMBER, FP_JSON_INT, FP_JSON_UINT, FP_JSON_DOUBLE, FP_JSON_DIGITS
} fp_json_number_kind;

typedef struct fp_json_number {
  fp_json_number_kind kind;
  uint64_t bits; /* of the integer, in two's complement */
  double value;  /* of FP_JSON_DOUBLE, correctly rounded */
} fp_json_number;

/* A moment: whole nanoseconds, rounded down, and picoseconds 0 to 999 behind them. */
typedef struct fp_json_time {
  int64_t ns;
  int32_t ps;
} fp_json_time;

/* Reads a number by the grammar of RFC 8259. */
fp_json_number fp_json_read_number(const uint8_t *text, size_t length);
/* NaN and infinities, in any case, with or without a sign. */
bool fp_json_read_nonfinite(const uint8_t *text, size_t length, double *value);
/* Microseconds as a decimal number, rounded to the nearest picosecond, halves to even. False: it is not a number, or
 * its nanoseconds pass 64 bits. */
bool fp_json_read_time(const uint8_t *text, size_t length, fp_json_time *time);

#endif
