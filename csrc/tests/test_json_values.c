/* Values as JSON text, at the limits of each kind. */
#include "formats/json_values.h"

#include <locale.h>
#include <math.h>

#include "tests/check.h"

static fp_memory memory;
static fp_bytes out;

/* Compares what has been written since the last call. */
static void is(const char *wanted) {
  CHECK(!out.failed);
  if (out.size != strlen(wanted) || memcmp(out.data, wanted, out.size)) {
    fprintf(stderr, "%.*s is not %s\n", (int)out.size, (const char *)out.data, wanted);
    abort();
  }
  out.size = 0;
}

static void times_are_exact(void) {
  fp_json_micros(&out, 0), is("0");
  fp_json_micros(&out, 1), is("0.000001");
  fp_json_micros(&out, -1), is("-0.000001");
  fp_json_micros(&out, 1500000), is("1.5");
  fp_json_micros(&out, 7769000), is("7.769");
  fp_json_micros(&out, INT64_MAX), is("9223372036854.775807");
  fp_json_micros(&out, INT64_MIN), is("-9223372036854.775808");
}

static void long_texts_are_cut_between_characters(void) {
  const uint8_t *text = (const uint8_t *)"a\"\xC3\xA4z";
  CHECK(!fp_json_cut_text(&out, text, 5, 5));
  is("\"a\\\"\xC3\xA4z\"");
  CHECK(fp_json_cut_text(&out, text, 5, 4));
  is("\"a\\\"\xC3\xA4...<truncated>\"");
  CHECK(fp_json_cut_text(&out, text, 5, 3));
  is("\"a\\\"...<truncated>\"");
  CHECK(fp_json_cut_text(&out, text, 5, 0));
  is("\"...<truncated>\"");
}

static void large_integers_are_texts(void) {
  fp_json_exact_int(&out, INT64_C(9007199254740992)), is("9007199254740992");
  fp_json_exact_int(&out, INT64_C(9007199254740993)), is("\"9007199254740993\"");
  fp_json_exact_int(&out, -INT64_C(9007199254740993)), is("\"-9007199254740993\"");
  fp_json_exact_uint(&out, UINT64_MAX), is("\"18446744073709551615\"");
  fp_json_int(&out, INT64_MIN), is("-9223372036854775808");
}

static void doubles_are_as_short_as_they_can_be(void) {
  fp_json_double(&out, 0.1), is("0.1");
  fp_json_double(&out, 3), is("3.0");
  fp_json_double(&out, -0.0), is("-0.0");
  fp_json_double(&out, 1.0 / 3), is("0.3333333333333333");
  fp_json_double(&out, 0.1 + 0.2), is("0.30000000000000004");
  fp_json_double(&out, 1e300), is("1e+300");
  fp_json_double(&out, 5e-324), is("4.94065645841247e-324");
  fp_json_double(&out, NAN), is("\"NaN\"");
  fp_json_double(&out, INFINITY), is("\"Infinity\"");
  fp_json_double(&out, -INFINITY), is("\"-Infinity\"");
}

static void no_locale_changes_the_point(void) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8"};
  for (size_t i = 0; i < 3; i++) {
    if (!setlocale(LC_NUMERIC, names[i])) continue;
    fp_json_double(&out, 0.5), is("0.5");
  }
  setlocale(LC_NUMERIC, "C");
}

static void text_is_escaped(void) {
  static const uint8_t text[] = "a\"\\/\b\f\n\r\t\x01\x1F\x7F\xC3\xA9<b>";
  fp_json_text(&out, text, sizeof text - 1);
  is("\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\xC3\xA9<b>\"");
  fp_json_text(&out, text, 0), is("\"\"");
}

static void long_text_is_complete(void) {
  static uint8_t text[10001];
  memset(text, '\x02', sizeof text);
  fp_json_text(&out, text, sizeof text);
  CHECK_INT(out.size, 2 + 6 * sizeof text);
  out.size = 0;
}

int main(void) {
  fp_memory_init(&memory);
  out.memory = &memory;
  RUN(times_are_exact);
  RUN(long_texts_are_cut_between_characters);
  RUN(large_integers_are_texts);
  RUN(doubles_are_as_short_as_they_can_be);
  RUN(no_locale_changes_the_point);
  RUN(text_is_escaped);
  RUN(long_text_is_complete);
  fp_bytes_free(&out);
  CHECK_INT(memory.live, 0);
  return 0;
}
