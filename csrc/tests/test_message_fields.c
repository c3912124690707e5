/* Places of the fields of messages: numbers, bytes, repeated and left-out fields, and faults. */
#include "formats/message_fields.h"

#include "tests/check.h"
#include "tests/message.h"

typedef struct reading {
  fp_memory memory;
  fp_message_fields found;
  fp_fault fault;
  fp_code code;
  uint8_t *block;
} reading;

/* Reads messages of a copy in a block of exactly its size. */
static void read_spans(reading *r, const message *m, const fp_message_span *spans, size_t count, int64_t allocations) {
  memset(r, 0, sizeof *r);
  fp_memory_init(&r->memory);
  r->memory.countdown = allocations;
  r->block = message_copy(m);
  r->found.memory = &r->memory;
  r->found.data = r->block;
  r->found.size = m->size;
  r->found.messages = spans;
  r->found.count = count;
  r->found.left_out[0] = UINT64_C(1) << 2;
  r->found.left_out[1] = UINT64_C(1) << (100 - 64);
  r->code = fp_message_fields_read(&r->found, &r->fault);
}

/* Frees everything, twice, and checks that no block is left. */
static void end(reading *r) {
  fp_message_fields_free(&r->found);
  fp_message_fields_free(&r->found); /* may be called twice */
  CHECK_INT(r->memory.live, 0);
  free(r->block);
}

static void check_field(const reading *r, size_t row, int64_t number, uint64_t value, int64_t length) {
  CHECK(row < r->found.numbers.count);
  CHECK_INT(((const int64_t *)r->found.numbers.items)[row], number);
  CHECK_INT(((const uint64_t *)r->found.values.items)[row], value);
  CHECK_INT(((const int64_t *)r->found.lengths.items)[row], length);
}

/* A message with numbers, bytes, a group, and fields that are to be left out. */
static void put_sample(message *m) {
  put_int(m, 1, -1);
  put_text(m, 2, "left out");
  put_text(m, 3, "abc");
  put_int(m, 100, 7);
  put_int(m, 200, 8);
  put_fixed32(m, 4, 9);
  put_begin_group(m, 5);
  put_int(m, 6, 1);
  put_end_group(m, 5);
}

static void fields_are_numbers_or_places(void) {
  message m = {0};
  put_int(&m, 9, 1); /* before the first message */
  size_t first = m.size;
  put_sample(&m);
  fp_message_span spans[] = {{first, m.size - first}, {0, 0}, {0, first}};
  reading r;
  read_spans(&r, &m, spans, 3, -1);
  CHECK_INT(r.code, FP_OK);
  CHECK_INT(r.found.first.count, 4);
  const int64_t *starts = r.found.first.items;
  CHECK_INT(starts[0], 0);
  CHECK_INT(starts[1], 4);
  CHECK_INT(starts[2], 4);
  CHECK_INT(starts[3], 5);
  check_field(&r, 0, 1, UINT64_MAX, -1);
  CHECK(!memcmp(r.block + ((const uint64_t *)r.found.values.items)[1], "abc", 3));
  CHECK_INT(((const int64_t *)r.found.lengths.items)[1], 3);
  check_field(&r, 2, 200, 8, -1);
  check_field(&r, 3, 4, 9, -1);
  check_field(&r, 4, 9, 1, -1);
  end(&r);
  message_free(&m);
}

static void faults_say_where(void) {
  message m = {0};
  put_int(&m, 1, 5);
  put_raw(&m, "\x1A\x05", 2);
  fp_message_span spans[] = {{0, m.size}};
  reading r;
  read_spans(&r, &m, spans, 1, -1);
  CHECK_INT(r.code, FP_BAD_LENGTH);
  CHECK_INT(r.fault.offset, 2);
  end(&r);
  fp_message_span outside[][1] = {{{0, m.size + 1}}, {{m.size + 1, 0}}, {{UINT64_MAX, UINT64_MAX}}};
  for (size_t i = 0; i < 3; i++) {
    read_spans(&r, &m, outside[i], 1, -1);
    CHECK_INT(r.code, FP_CHANGED);
    end(&r);
  }
  message_free(&m);
}

static void running_out_of_memory_is_reported(void) {
  message m = {0};
  put_sample(&m);
  fp_message_span spans[] = {{0, m.size}};
  reading r;
  int64_t allowed = 0;
  do {
    read_spans(&r, &m, spans, 1, allowed++);
    CHECK(r.code == FP_OK || r.code == FP_NO_MEMORY);
    end(&r);
  } while (r.code != FP_OK);
  CHECK(allowed > 4);
  message_free(&m);
}

int main(void) {
  RUN(fields_are_numbers_or_places);
  RUN(faults_say_where);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
