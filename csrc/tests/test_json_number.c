/* Numbers as text, their picoseconds and kinds: the table of the format's conformance, and long digits. */
#include "formats/json_number.h"

#include <locale.h>
#include <math.h>

#include "tests/check.h"
#include "tests/message.h"

static void times_are_exact(void) {
  static const struct {
    const char *text;
    int64_t ns;
    int32_t ps;
    bool is_time;
  } cases[] = {
      {"0", INT64_C(0), 0, true},
      {"-0", INT64_C(0), 0, true},
      {"0.0", INT64_C(0), 0, true},
      {"1", INT64_C(1000), 0, true},
      {"1.5", INT64_C(1500), 0, true},
      {"0.0000005", INT64_C(0), 0, true},
      {"0.0000015", INT64_C(0), 2, true},
      {"0.0000025", INT64_C(0), 2, true},
      {"0.00000149999", INT64_C(0), 1, true},
      {"0.000001", INT64_C(0), 1, true},
      {"9.8719999999999999", INT64_C(9872), 0, true},
      {"51.668999999999997", INT64_C(51669), 0, true},
      {"1144986.7189879999", INT64_C(1144986718), 988, true},
      {"66914.493396999998", INT64_C(66914493), 397, true},
      {"1428625731896.179", INT64_C(1428625731896179), 0, true},
      {"1695835542481129", INT64_C(1695835542481129000), 0, true},
      {"1610366728298138", INT64_C(1610366728298138000), 0, true},
      {"1.6957018270000001e15", INT64_C(1695701827000000100), 0, true},
      {"1.5e15", INT64_C(1500000000000000000), 0, true},
      {"2E-3", INT64_C(2), 0, true},
      {"2e+3", INT64_C(2000000), 0, true},
      {"1e-7", INT64_C(0), 0, true},
      {"5e-7", INT64_C(0), 0, true},
      {"15e-7", INT64_C(0), 2, true},
      {"25e-7", INT64_C(0), 2, true},
      {"-9.872", INT64_C(-9872), 0, true},
      {"-0.0000005", INT64_C(0), 0, true},
      {"-0.0000015", INT64_C(-1), 998, true},
      {"9223372036854.775807", INT64_C(9223372036854775), 807, true},
      {"9223372036854.7758074", INT64_C(9223372036854775), 807, true},
      {"9223372036854.775808", INT64_C(9223372036854775), 808, true},
      {"-9223372036854.775808", INT64_C(-9223372036854776), 192, true},
      {"9223372036854775.807999", INT64_C(9223372036854775807), 999, true},
      {"9223372036854775.808", 0, 0, false},
      {"-9223372036854775.808", (-INT64_C(9223372036854775807) - 1), 0, true},
      {"-9223372036854775.8080004", (-INT64_C(9223372036854775807) - 1), 0, true},
      {"-9223372036854775.808001", 0, 0, false},
      {"1e13", INT64_C(10000000000000000), 0, true},
      {"1e16", 0, 0, false},
      {"1e400", 0, 0, false},
      {"1e-400", INT64_C(0), 0, true},
      {"123456789012345678901234567890e-20", INT64_C(1234567890123), 457, true},
      {"1587074269993629", INT64_C(1587074269993629000), 0, true},
      {"12.5", INT64_C(12500), 0, true},
      {"12345678", INT64_C(12345678000), 0, true},
      {"12345678.000001", INT64_C(12345678000), 1, true},
      {"123456789.5", INT64_C(123456789500), 0, true},
      {"99999999.999", INT64_C(99999999999), 0, true},
      {"1234567.8", INT64_C(1234567800), 0, true},
      {"012345678", 0, 0, false},
      {"00000000", 0, 0, false},
      {"1234567/", 0, 0, false},
      {"1234567:", 0, 0, false},
      {"12345678:", 0, 0, false},
      {"1234 678", 0, 0, false},
      {"1234567\xb8", 0, 0, false},
      {"", 0, 0, false},
      {"abc", 0, 0, false},
      {"0x10", 0, 0, false},
      {"NaN", 0, 0, false},
      {"inf", 0, 0, false},
      {"-Infinity", 0, 0, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fp_json_time time = {0, 0};
    CHECK_INT(fp_json_read_time((const uint8_t *)cases[i].text, strlen(cases[i].text), &time), cases[i].is_time);
    if (!cases[i].is_time) continue;
    CHECK_INT(time.ns, cases[i].ns);
    CHECK_INT(time.ps, cases[i].ps);
  }
}

static void numbers_have_kinds(void) {
  static const struct {
    const char *text;
    fp_json_number_kind kind;
    uint64_t bits;
    double value;
  } cases[] = {
      {"0", FP_JSON_INT, (uint64_t)INT64_C(0), 0},
      {"-0", FP_JSON_INT, (uint64_t)INT64_C(0), 0},
      {"1", FP_JSON_INT, (uint64_t)INT64_C(1), 0},
      {"-1", FP_JSON_INT, (uint64_t)INT64_C(-1), 0},
      {"9223372036854775807", FP_JSON_INT, (uint64_t)INT64_C(9223372036854775807), 0},
      {"9223372036854775808", FP_JSON_UINT, UINT64_C(9223372036854775808), 0},
      {"18446744073709551615", FP_JSON_UINT, UINT64_C(18446744073709551615), 0},
      {"18446744073709551616", FP_JSON_DIGITS, 0, 0},
      {"-9223372036854775808", FP_JSON_INT, (uint64_t)INT64_MIN, 0},
      {"-9223372036854775809", FP_JSON_DIGITS, 0, 0},
      {"10159970886766084423", FP_JSON_UINT, UINT64_C(10159970886766084423), 0},
      {"1180591620717411303424", FP_JSON_DIGITS, 0, 0},
      {"0.1", FP_JSON_DOUBLE, 0, 0.1},
      {"1.0", FP_JSON_DOUBLE, 0, 1.0},
      {"1e3", FP_JSON_DOUBLE, 0, 1000.0},
      {"-0.0", FP_JSON_DOUBLE, 0, -0.0},
      {"1e400", FP_JSON_DOUBLE, 0, HUGE_VAL},
      {"-1e400", FP_JSON_DOUBLE, 0, -HUGE_VAL},
      {"4.9e-324", FP_JSON_DOUBLE, 0, 5e-324},
      {"2.4703282292062327e-324", FP_JSON_DOUBLE, 0, 0.0},
      {"1e-400", FP_JSON_DOUBLE, 0, 0.0},
      {"1.7976931348623157e308", FP_JSON_DOUBLE, 0, 1.7976931348623157e+308},
      {"135.515152", FP_JSON_DOUBLE, 0, 135.515152},
      {"01", FP_JSON_NO_NUMBER, 0, 0},
      {"+1", FP_JSON_NO_NUMBER, 0, 0},
      {".5", FP_JSON_NO_NUMBER, 0, 0},
      {"1.", FP_JSON_NO_NUMBER, 0, 0},
      {"0x10", FP_JSON_NO_NUMBER, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fp_json_number found = fp_json_read_number((const uint8_t *)cases[i].text, strlen(cases[i].text));
    CHECK_INT(found.kind, cases[i].kind);
    if (found.kind == FP_JSON_INT || found.kind == FP_JSON_UINT) CHECK_INT(found.bits, cases[i].bits);
    if (found.kind == FP_JSON_DOUBLE) CHECK(!memcmp(&found.value, &cases[i].value, sizeof(double)));
  }
}

/* Random digits against strtod, and against the point moved by hand. */
static void doubles_are_those_of_strtod(void) {
  dice d = {7};
  for (int i = 0; i < 200000; i++) {
    char text[64];
    int digits = 1 + (int)roll_below(&d, 22), point = (int)roll_below(&d, (uint64_t)digits), size = 0;
    for (int k = 0; k < digits; k++) {
      if (k && k == point) text[size++] = '.';
      text[size++] = (char)((k ? '0' : '1') + (char)roll_below(&d, k ? 10 : 9));
    }
    size += sprintf(text + size, "e%d", (int)roll_below(&d, 80) - 40);
    fp_json_number found = fp_json_read_number((const uint8_t *)text, (size_t)size);
    double wanted = strtod(text, NULL);
    CHECK_INT(found.kind, FP_JSON_DOUBLE);
    CHECK(!memcmp(&found.value, &wanted, sizeof wanted));
  }
}

static void long_numbers_are_numbers(void) {
  char text[5001];
  memset(text, '9', 5000);
  text[1] = '.';
  fp_json_number found = fp_json_read_number((const uint8_t *)text, 5000);
  CHECK(found.kind == FP_JSON_DOUBLE && found.value == 10.0);
  fp_json_time time;
  CHECK(fp_json_read_time((const uint8_t *)text, 5000, &time));
  CHECK_INT(time.ns, 10000);
  memset(text, '0', 5000);
  text[0] = '1', text[1] = '.', text[4999] = '1'; /* a half, and a bit more */
  memcpy(text + 2, "0000005", 7);
  CHECK(fp_json_read_time((const uint8_t *)text, 5000, &time));
  CHECK_INT(time.ps, 1);
  CHECK(fp_json_read_time((const uint8_t *)text, 4999, &time));
  CHECK_INT(time.ps, 0);
}

static void words_are_no_finite_numbers(void) {
  static const char *const words[] = {"NaN", "nan", "-nan", "-NaN", "inf", "-inf", "Infinity", "-Infinity", "+inf", "INF"};
  double value;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    CHECK(fp_json_read_nonfinite((const uint8_t *)words[i], strlen(words[i]), &value));
    CHECK(i < 4 ? isnan(value) : isinf(value) && signbit(value) == (words[i][0] == '-'));
  }
  CHECK(!fp_json_read_nonfinite((const uint8_t *)"infinit", 7, &value));
  CHECK(!fp_json_read_nonfinite((const uint8_t *)"", 0, &value));
}

int main(void) {
  RUN(times_are_exact);
  RUN(numbers_have_kinds);
  RUN(doubles_are_those_of_strtod);
  RUN(long_numbers_are_numbers);
  RUN(words_are_no_finite_numbers);
  return 0;
}
