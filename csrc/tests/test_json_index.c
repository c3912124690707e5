/* Marks of JSON text, found in three ways and by a reader that looks at one byte after the other. */
#include "formats/json_index.h"

#include "tests/check.h"
#include "tests/message.h"

enum { BLOCKS = 40, SIZE = BLOCKS * FP_JSON_BLOCK };

static size_t slow_marks(const uint8_t *text, size_t size, uint32_t *marks) {
  bool in_string = false, escaped = false;
  size_t count = 0;
  for (size_t i = 0; i < size; i++) {
    bool was_escaped = escaped;
    escaped = text[i] == '\\' && !was_escaped;
    if (text[i] == '"' && !was_escaped) {
      marks[count++] = (uint32_t)i;
      in_string = !in_string;
    } else if (!in_string && text[i] && strchr("{}[],:", text[i])) {
      marks[count++] = (uint32_t)i;
    }
  }
  return count;
}

static void check_ways(const uint8_t *text, fp_json_ways ways, dice *d) {
  static uint32_t wanted[SIZE], marks[SIZE];
  uint8_t has[BLOCKS];
  fp_json_index index = {0, 0, ways};
  size_t count = slow_marks(text, SIZE, wanted), found = 0;
  for (size_t block = 0; block < BLOCKS;) { /* in stretches */
    size_t step = 1 + (size_t)roll_below(d, BLOCKS - block);
    found += fp_json_index_blocks(&index, text + block * FP_JSON_BLOCK, step, (uint32_t)(block * FP_JSON_BLOCK),
                                  marks + found, has + block);
    block += step;
  }
  CHECK_INT(found, count);
  CHECK(!memcmp(marks, wanted, count * sizeof *marks));
  for (size_t block = 0; block < BLOCKS; block++) {
    uint8_t in_it = 0;
    for (size_t i = 0; i < FP_JSON_BLOCK; i++) {
      uint8_t byte = text[block * FP_JSON_BLOCK + i];
      in_it |= (uint8_t)((byte == '\\' ? FP_JSON_ESCAPES : 0) | (byte & 0x80 ? FP_JSON_HIGH : 0));
    }
    CHECK_INT(has[block], in_it);
  }
}

static void check_text(const uint8_t *text, dice *d) {
  check_ways(text, FP_JSON_PLAIN_C, d);
  check_ways(text, FP_JSON_VECTORS, d);
  check_ways(text, fp_json_best_ways(), d);
}

static void random_text_has_the_same_marks_in_all_ways(void) {
  static const char alphabet[] = "{}[],:\"\"\\\\\\ az09\x01\x7f\xc3\xa9[|;.<\\";
  uint8_t text[SIZE];
  dice d = {1};
  for (int times = 0; times < 3000; times++) {
    size_t letters = 2 + (size_t)roll_below(&d, sizeof alphabet - 2);
    for (size_t i = 0; i < SIZE; i++) text[i] = (uint8_t)alphabet[roll_below(&d, letters)];
    check_text(text, &d);
  }
}

static void any_byte_is_seen_the_same(void) {
  uint8_t text[SIZE];
  dice d = {2};
  for (int times = 0; times < 300; times++) {
    for (size_t i = 0; i < SIZE; i++) text[i] = (uint8_t)roll(&d);
    check_text(text, &d);
  }
}

static void runs_of_backslashes_escape_every_other_byte(void) {
  uint8_t text[SIZE];
  dice d = {3};
  for (size_t length = 0; length < 200; length++) {
    memset(text, 'x', SIZE);
    text[3] = '"';
    memset(text + 40, '\\', length);
    text[40 + length] = '"';
    text[45 + length] = ',';
    check_text(text, &d);
  }
}

int main(void) {
  RUN(random_text_has_the_same_marks_in_all_ways);
  RUN(any_byte_is_seen_the_same);
  RUN(runs_of_backslashes_escape_every_other_byte);
  return 0;
}
