/* Bytes that grow, and that keep their failure. */
#include "formats/growing_bytes.h"

#include "tests/check.h"

static void bytes_grow(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_bytes out = {.memory = &memory};
  for (int i = 0; i < 100000; i++) fp_bytes_text(&out, "abc");
  fp_bytes_byte(&out, 'd');
  CHECK_INT(out.size, 300001);
  CHECK(!memcmp(out.data + 299997, "abcd", 4));
  CHECK(!out.failed);
  fp_bytes_free(&out);
  fp_bytes_free(&out);
  CHECK_INT(memory.live, 0);
}

static void failure_stays(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_bytes out = {.memory = &memory};
  fp_bytes_text(&out, "abc");
  memory.countdown = 0;
  CHECK(!fp_bytes_room(&out, 1 << 20));
  CHECK(out.failed);
  memory.countdown = -1;
  fp_bytes_text(&out, "d");
  CHECK_INT(out.size, 3);
  fp_bytes_free(&out);
  fp_bytes huge = {.memory = &memory};
  CHECK(!fp_bytes_room(&huge, SIZE_MAX));
  fp_bytes_free(&huge);
  CHECK_INT(memory.live, 0);
}

int main(void) {
  RUN(bytes_grow);
  RUN(failure_stays);
  return 0;
}
