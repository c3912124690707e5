/* Tables of nested messages: rows and their parents, defaults, last values, packed numbers, lists of texts, and faults. */
#include "formats/message_tables.h"

#include "tests/check.h"
#include "tests/message.h"

typedef struct reading {
  fp_memory memory;
  fp_message_tables found;
  fp_fault fault;
  fp_code code;
  uint8_t *block;
} reading;

static void set_table(fp_message_tables *found, size_t number, uint32_t ints, uint32_t spans) {
  found->tables[number].ints = ints;
  found->tables[number].width = 1 + ints + 2 * spans;
}

static void set_field(fp_message_tables *found, size_t table, size_t field, fp_field_use use, uint8_t place) {
  found->tables[table].use[field] = (uint8_t)use;
  found->tables[table].place[field] = place;
}

/* Table 0: integer 1, text 2, messages 3 (table 1: integer 1), numbers 4 (table 2), texts 5 (table 3). */
static void begin(reading *r, const message *m, int64_t allocations) {
  memset(r, 0, sizeof *r);
  fp_memory_init(&r->memory);
  r->memory.countdown = allocations;
  r->block = message_copy(m);
  r->found.memory = &r->memory;
  r->found.data = r->block;
  r->found.size = m->size;
  set_table(&r->found, 0, 1, 1);
  set_table(&r->found, 1, 1, 0);
  set_table(&r->found, 2, 1, 0);
  set_table(&r->found, 3, 0, 1);
  set_field(&r->found, 0, 1, FP_FIELD_INT, 0);
  set_field(&r->found, 0, 2, FP_FIELD_SPAN, 0);
  set_field(&r->found, 0, 3, FP_FIELD_TABLE, 1);
  set_field(&r->found, 0, 4, FP_FIELD_NUMBERS, 2);
  set_field(&r->found, 0, 5, FP_FIELD_SPANS, 3);
  set_field(&r->found, 1, 1, FP_FIELD_INT, 0);
}

/* Frees everything, twice, and checks that no block is left. */
static void end(reading *r) {
  fp_message_tables_free(&r->found);
  fp_message_tables_free(&r->found);
  CHECK_INT(r->memory.live, 0);
  free(r->block);
}

static void check_table(const reading *r, size_t number, const int64_t *values, size_t count) {
  CHECK_INT(r->found.tables[number].values.count, count);
  for (size_t i = 0; i < count; i++) CHECK_INT(((const int64_t *)r->found.tables[number].values.items)[i], values[i]);
}

/* Fields of all kinds, and some that are passed over; the text "last" is at 16. */
static void put_sample(message *m) {
  message inner = {0};
  put_int(m, 1, 5);
  put_text(m, 2, "first");
  put_int(m, 1, -6);
  put_text(m, 2, "last");
  put_int(&inner, 1, 7);
  put_int(&inner, 2, 9);
  put_message(m, 3, &inner);
  put_message(m, 3, &inner);
  put_bytes(m, 4, "\x01\x80\x01", 3);
  put_int(m, 4, 3);
  put_bytes(m, 4, "", 0);
  put_text(m, 5, "x");
  put_int(m, 31, 1);
  put_int(m, 32, 1);
  put_text(m, 1, "not a number");
  put_int(m, 2, 1);
  put_begin_group(m, 3);
  put_end_group(m, 3);
}

static void messages_are_rows_with_parents(void) {
  message m = {0};
  put_sample(&m);
  const fp_message_span spans[] = {{0, 0}, {0, m.size}, {0, m.size}};
  reading r;
  begin(&r, &m, -1);
  r.code = fp_message_tables_read(&r.found, spans, 3, &r.fault);
  CHECK_INT(r.code, FP_OK);
  const int64_t *first = (const int64_t *)r.found.tables[0].values.items;
  int64_t last = first[6];
  CHECK(!memcmp(r.block + last, "last", 4));
  const int64_t rows[] = {0, 0, 0, -1, 1, -6, last, 4, 2, -6, last, 4};
  check_table(&r, 0, rows, 12);
  const int64_t inner[] = {1, 7, 1, 0, 2, 7, 2, 0};
  check_table(&r, 1, inner, 8);
  const int64_t numbers[] = {1, 1, 1, 128, 1, 3, 2, 1, 2, 128, 2, 3};
  check_table(&r, 2, numbers, 12);
  CHECK_INT(r.found.tables[3].values.count, 6);
  CHECK(r.block[((const int64_t *)r.found.tables[3].values.items)[1]] == 'x');
  end(&r);
  message_free(&m);
}

static void faults_say_where(void) {
  const char *damaged[] = {"\x08\x01\x1A\x05", "\x08\x01\x1A\x02\x08\xFF", "\x08\x01\x22\x01\xFF", "\x08\x01\x07"};
  const size_t sizes[] = {4, 6, 5, 3};
  const uint64_t places[] = {2, 4, 4, 2};
  for (size_t i = 0; i < 4; i++) {
    message m = {0};
    put_raw(&m, damaged[i], sizes[i]);
    const fp_message_span span = {0, m.size};
    reading r;
    begin(&r, &m, -1);
    CHECK(fp_message_tables_read(&r.found, &span, 1, &r.fault) != FP_OK);
    CHECK_INT(r.fault.offset, places[i]);
    end(&r);
    const fp_message_span outside = {1, m.size};
    begin(&r, &m, -1);
    CHECK_INT(fp_message_tables_read(&r.found, &outside, 1, &r.fault), FP_CHANGED);
    end(&r);
    message_free(&m);
  }
}

static void running_out_of_memory_is_reported(void) {
  message m = {0};
  put_sample(&m);
  const fp_message_span span = {0, m.size};
  reading r;
  int64_t allowed = 0;
  do {
    begin(&r, &m, allowed++);
    r.code = fp_message_tables_read(&r.found, &span, 1, &r.fault);
    CHECK(r.code == FP_OK || r.code == FP_NO_MEMORY);
    end(&r);
  } while (r.code != FP_OK);
  CHECK_INT(allowed, 5);
  message_free(&m);
}

int main(void) {
  RUN(messages_are_rows_with_parents);
  RUN(faults_say_where);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
