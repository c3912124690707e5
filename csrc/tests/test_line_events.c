/* Events with integers and texts, byte for byte; texts that are not there; and memory that runs out. */
#include "formats/line_events.h"

#include "tests/check.h"

static const int64_t IDS[] = {1, 300}, OFFSETS[] = {0, -1}, DURATIONS[] = {128, 0}, FIRST[] = {0, 2, 3};
static const int64_t STATS[] = {1, 2, 1}, TEXT_AT[] = {0, 0, 2};
static const uint8_t TEXTS[] = {'a', 'b'}, IS_TEXT[] = {0, 1, 1};

static fp_line_events two_events(const int64_t *values) {
  return (fp_line_events){2, IDS, OFFSETS, DURATIONS, FIRST, STATS, values, IS_TEXT, 2, TEXT_AT, TEXTS};
}

static fp_code write_with(fp_memory *memory, fp_bytes *out, const int64_t *values, int64_t allocations) {
  fp_memory_init(memory);
  memory->countdown = allocations;
  *out = (fp_bytes){.memory = memory};
  fp_line_events events = two_events(values);
  return fp_put_line_events(out, &events);
}

static void events_have_the_bytes_of_the_format(void) {
  static const int64_t values[] = {-2, 1, 0};
  static const uint8_t wanted[] = {
      0x22, 0x1e, 0x08, 1, 0x10, 0, 0x18, 0x80, 0x01,
      0x22, 0x0d, 0x08, 1, 0x20, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
      0x22, 0x06, 0x08, 2, 0x2a, 2, 'a', 'b',
      0x22, 0x16, 0x08, 0xac, 0x02, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x18, 0,
      0x22, 0x04, 0x08, 1, 0x2a, 0,
  };
  fp_memory memory;
  fp_bytes out;
  CHECK_INT(write_with(&memory, &out, values, -1), FP_OK);
  CHECK_INT(out.size, sizeof wanted);
  CHECK(memcmp(out.data, wanted, sizeof wanted) == 0);
  fp_bytes_free(&out);
  CHECK_INT(memory.live, 0);
}

static void a_text_that_is_not_there_is_refused_before_anything_is_written(void) {
  static const int64_t values[] = {7, 2, 0}, negative[] = {7, -1, 0};
  fp_memory memory;
  fp_bytes out;
  CHECK_INT(write_with(&memory, &out, values, -1), FP_OUT_OF_RANGE);
  CHECK_INT(out.size, 0);
  CHECK_INT(write_with(&memory, &out, negative, -1), FP_OUT_OF_RANGE);
  fp_bytes_free(&out);
}

static void memory_that_runs_out_is_a_status(void) {
  static const int64_t values[] = {7, 1, 0};
  fp_memory memory;
  fp_bytes out;
  CHECK_INT(write_with(&memory, &out, values, 0), FP_NO_MEMORY);
  fp_bytes_free(&out);
  CHECK_INT(memory.live, 0);
}

int main(void) {
  RUN(events_have_the_bytes_of_the_format);
  RUN(a_text_that_is_not_there_is_refused_before_anything_is_written);
  RUN(memory_that_runs_out_is_a_status);
  return 0;
}
