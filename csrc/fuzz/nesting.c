/* Depth, parent and self time of any spans agree with their definition, however the line is cut into stretches. */
#include "fuzz/target.h"
#include "tests/spans.h"

enum { MOST_SPANS = 300 };

/* A span is made of three bytes: steps forward, duration, and how it is placed. */
static size_t spans_of(const uint8_t *data, size_t size, spans *line) {
  size_t count = size / 3 < MOST_SPANS ? size / 3 : MOST_SPANS;
  int64_t at = size && data[0] & 1 ? INT64_MIN : -50;
  for (size_t i = 0; i < count; i++) {
    const uint8_t *p = data + 3 * i;
    at += p[0] == 255 ? INT64_C(1) << 61 : p[0] % 16;
    line->start[i] = at;
    line->duration[i] = p[1] == 255 ? INT64_MAX : p[1] == 254 ? INT64_MIN : p[1] == 253 ? -7 : p[1] % 32;
    line->placement[i] = p[2] % 8 > 2 ? FP_NESTS : p[2] % 8;
    if (at > INT64_MAX - (INT64_C(1) << 61)) return i + 1;
  }
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  spans line;
  spans_make(&line, MOST_SPANS);
  line.count = spans_of(data, size, &line);
  spans_sort(&line);
  line.slack = size ? data[0] % 4 : 0;
  nested wanted, found;
  nested_make(&wanted, line.count);
  nested_make(&found, line.count);
  nest_slowly(&line, &wanted);
  nest_in_stretches(&line, &found, line.count + 1, &chance);
  nested_compare(&wanted, &found, line.count);
  nest_in_stretches(&line, &found, 1 + line.count / 3, &chance);
  nested_compare(&wanted, &found, line.count);
  nested_free(&wanted);
  nested_free(&found);
  spans_free(&line);
  return 0;
}
