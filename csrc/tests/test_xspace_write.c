/* Metadata as they are written, byte for byte, and lanes beside those of a search that tries all. */
#include "formats/xspace_write.h"

#include "tests/check.h"
#include "tests/message.h"

static fp_bytes begin(fp_memory *memory) {
  fp_memory_init(memory);
  return (fp_bytes){.memory = memory};
}

static void end(fp_bytes *out) {
  fp_bytes_free(out);
  CHECK_INT(out->memory->live, 0);
}

static void check_bytes(const fp_bytes *out, const message *wanted) {
  CHECK(!out->failed);
  CHECK_INT(out->size, wanted->size);
  CHECK(!memcmp(out->data, wanted->bytes, wanted->size));
}

static void metadata_have_names_and_a_stat(void) {
  static char text[400];
  const int64_t offsets[] = {0, 2, 400};
  memset(text, 'x', sizeof text);
  for (int64_t stat = 0; stat < 4; stat += 3) {
    fp_memory memory;
    fp_bytes out = begin(&memory);
    message wanted = {0};
    fp_put_event_metadata(&out, 127, offsets, (const uint8_t *)text, 2, stat);
    for (int i = 0; i < 2; i++) {
      message entry = {0}, value = {0}, own = {0};
      size_t size = (size_t)(offsets[i + 1] - offsets[i]);
      put_int(&value, 1, 127 + i);
      put_bytes(&value, 2, text, size);
      put_int(&own, 1, stat);
      put_bytes(&own, 5, text, size);
      if (stat) put_message(&value, 5, &own);
      else message_free(&own);
      put_int(&entry, 1, 127 + i);
      put_message(&entry, 2, &value);
      put_message(&wanted, 4, &entry);
    }
    check_bytes(&out, &wanted);
    message_free(&wanted);
    end(&out);
  }
}

enum { EVENTS = 300 };

static void lanes_are_the_first_that_are_free(void) {
  dice chance = {5};
  for (int round = 0; round < 200; round++) {
    int64_t starts[EVENTS], ends[EVENTS], busy[EVENTS];
    int32_t lanes[EVENTS], found, most = 0;
    int64_t now = 0;
    size_t count = roll_below(&chance, EVENTS);
    for (size_t i = 0; i < count; i++) {
      now += (int64_t)roll_below(&chance, 4);
      starts[i] = now;
      ends[i] = now + (int64_t)roll_below(&chance, 1 + (uint64_t)round);
      busy[i] = INT64_MIN;
    }
    fp_memory memory;
    fp_memory_init(&memory);
    CHECK_INT(fp_first_free_lanes(&memory, starts, ends, count, lanes, &found), FP_OK);
    for (size_t i = 0; i < count; i++) {
      int32_t lane = 0;
      while (busy[lane] > starts[i]) lane++;
      CHECK_INT(lanes[i], lane);
      busy[lane] = ends[i];
      if (lane >= most) most = lane + 1;
    }
    CHECK_INT(found, most);
    CHECK_INT(memory.live, 0);
  }
}

static void running_out_of_memory_is_reported(void) {
  const int64_t starts[] = {0, 0, 0}, ends[] = {9, 9, 9};
  int32_t lanes[3], found;
  fp_code code = FP_NO_MEMORY;
  int64_t allowed = 0;
  for (; code != FP_OK; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    code = fp_first_free_lanes(&memory, starts, ends, 3, lanes, &found);
    CHECK(code == FP_OK || code == FP_NO_MEMORY);
    CHECK_INT(memory.live, 0);
  }
  fp_memory memory;
  fp_bytes out = begin(&memory);
  memory.countdown = 0;
  const int64_t offsets[] = {0, 2};
  fp_put_event_metadata(&out, 1, offsets, (const uint8_t *)"ab", 1, 0);
  CHECK(out.failed);
  end(&out);
}

int main(void) {
  RUN(metadata_have_names_and_a_stat);
  RUN(lanes_are_the_first_that_are_free);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
