/* Texts and repeated integers at places of a file: each text once, invalid UTF-8, absent texts, and faults. */
#include "formats/span_values.h"

#include "tests/check.h"
#include "tests/message.h"

static const uint8_t DATA[] = "abab\xFFz";
enum { SIZE = sizeof DATA - 1 };

static fp_code texts(fp_memory *memory, fp_strings *pool, const fp_message_span *spans, size_t count, bool is_text,
                     int32_t *numbers, fp_fault *fault) {
  *pool = (fp_strings){.memory = memory};
  return fp_span_texts(DATA, SIZE, spans, count, is_text, pool, numbers, fault);
}

static void each_text_is_stored_once(void) {
  fp_memory memory;
  fp_strings pool;
  fp_fault fault;
  int32_t numbers[4];
  const fp_message_span spans[] = {{0, 2}, {2, 2}, {7, FP_NO_SPAN}, {4, 2}};
  fp_memory_init(&memory);
  for (int is_text = 0; is_text < 2; is_text++) {
    CHECK_INT(texts(&memory, &pool, spans, 4, is_text, numbers, &fault), FP_OK);
    CHECK_INT(numbers[0], 0);
    CHECK_INT(numbers[1], 0);
    CHECK_INT(numbers[2], -1);
    CHECK_INT(numbers[3], 1);
    const int64_t *offsets = pool.offsets.items;
    CHECK_INT(offsets[2] - offsets[1], is_text ? 4 : 2);
    CHECK(!memcmp((const char *)pool.bytes.items + 2, is_text ? "\xEF\xBF\xBDz" : "\xFFz", is_text ? 4 : 2));
    fp_strings_free(&pool);
  }
  CHECK_INT(memory.live, 0);
}

static void packed_integers_follow_each_other(void) {
  static const uint8_t packed[] = {1, 2, 0x80, 0x01, 0xFF};
  const fp_message_span spans[] = {{0, 2}, {1, 0}, {2, 2}, {4, 1}};
  fp_memory memory;
  fp_vector values = {0};
  fp_fault fault;
  int64_t ends[4];
  fp_memory_init(&memory);
  CHECK_INT(fp_span_ints(&memory, packed, sizeof packed, spans, 3, &values, ends, &fault), FP_OK);
  CHECK_INT(ends[0], 2);
  CHECK_INT(ends[1], 2);
  CHECK_INT(ends[2], 3);
  CHECK_INT(((int64_t *)values.items)[2], 128);
  CHECK_INT(fp_span_ints(&memory, packed, sizeof packed, spans + 3, 1, &values, ends, &fault), FP_BAD_VARINT);
  CHECK_INT(fault.offset, 4);
  fp_vector_free(&memory, &values);
  CHECK_INT(memory.live, 0);
}

static void spans_outside_of_the_data_are_faults(void) {
  const fp_message_span outside[] = {{SIZE + 1, 0}, {0, SIZE + 1}, {UINT64_MAX, 2}, {2, FP_NO_SPAN - 1}};
  fp_memory memory;
  fp_strings pool;
  fp_vector values = {0};
  fp_fault fault;
  int32_t number;
  int64_t end;
  fp_memory_init(&memory);
  for (size_t i = 0; i < 4; i++) {
    CHECK_INT(texts(&memory, &pool, &outside[i], 1, true, &number, &fault), FP_CHANGED);
    CHECK_INT(fp_span_ints(&memory, DATA, SIZE, &outside[i], 1, &values, &end, &fault), FP_CHANGED);
    fp_strings_free(&pool);
  }
  CHECK_INT(memory.live, 0);
}

static void running_out_of_memory_is_reported(void) {
  const fp_message_span spans[] = {{0, 2}, {4, 2}};
  fp_code code = FP_NO_MEMORY;
  int64_t allowed = 0;
  for (; code != FP_OK; allowed++) {
    fp_memory memory;
    fp_strings pool;
    fp_fault fault;
    int32_t numbers[2];
    fp_memory_init(&memory);
    memory.countdown = allowed;
    code = texts(&memory, &pool, spans, 2, true, numbers, &fault);
    CHECK(code == FP_OK || code == FP_NO_MEMORY);
    fp_strings_free(&pool);
    CHECK_INT(memory.live, 0);
  }
  CHECK(allowed > 3);
}

int main(void) {
  RUN(each_text_is_stored_once);
  RUN(packed_integers_follow_each_other);
  RUN(spans_outside_of_the_data_are_faults);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
