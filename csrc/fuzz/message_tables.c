/* Tables of any bytes, whatever becomes of fields, refer to rows of the tables around them and to bytes that are there;
 * texts and integers at such places are read, or a fault says where they are not. */
#include "formats/message_tables.h"
#include "formats/span_values.h"
#include "fuzz/target.h"

enum { MESSAGES = 3, NUMBERS = MESSAGES, SPANS, TABLES };

/* Of each field of the first tables: nothing, a column, or rows of a later table. */
static void plan_fields(fp_message_tables *found, dice *chance) {
  static const fp_field_use uses[] = {FP_FIELD_PASSED, FP_FIELD_INT, FP_FIELD_SPAN, FP_FIELD_NUMBERS, FP_FIELD_SPANS,
                                      FP_FIELD_TABLE, FP_FIELD_TABLE, FP_FIELD_TABLE};
  for (size_t t = 0; t < MESSAGES; t++) {
    fp_message_table *table = &found->tables[t];
    uint32_t spans = 0;
    for (size_t key = 1; key < FP_TABLE_FIELDS; key++) {
      table->use[key] = (uint8_t)uses[roll_below(chance, t + 1 < MESSAGES ? 8 : 5)];
      if (table->use[key] == FP_FIELD_INT) table->place[key] = (uint8_t)table->ints++;
      if (table->use[key] == FP_FIELD_SPAN) table->place[key] = (uint8_t)spans++;
      if (table->use[key] == FP_FIELD_TABLE) table->place[key] = (uint8_t)(t + 1 + roll_below(chance, MESSAGES - 1 - t));
      if (table->use[key] == FP_FIELD_NUMBERS) table->place[key] = NUMBERS;
      if (table->use[key] == FP_FIELD_SPANS) table->place[key] = SPANS;
    }
    table->width = 1 + table->ints + 2 * spans;
  }
  found->tables[NUMBERS].width = 2;
  found->tables[SPANS].width = 3;
}

static void check_span(const fp_message_tables *found, int64_t offset, int64_t length) {
  if (length < 0) CHECK(length == -1);
  else CHECK(offset >= 0 && (uint64_t)offset <= found->size && (uint64_t)length <= found->size - (uint64_t)offset);
}

static void check_rows(const fp_message_tables *found) {
  for (size_t t = 0; t < TABLES; t++) {
    const fp_message_table *table = &found->tables[t];
    CHECK(table->values.count % table->width == 0);
    const int64_t *rows = table->values.items;
    size_t first_span = t == SPANS ? 1 : 1 + table->ints;
    for (size_t at = 0; at < table->values.count; at += table->width) {
      CHECK(rows[at] >= 0 && (t > 0 || rows[at] == 0));
      for (size_t i = first_span; t != NUMBERS && i + 1 < table->width; i += 2) check_span(found, rows[at + i], rows[at + i + 1]);
    }
  }
}

/* The spans of a table, as texts and as packed integers. */
static void read_spans(fp_memory *memory, const fp_message_tables *found) {
  const fp_message_table *table = &found->tables[SPANS];
  const int64_t *rows = table->values.items;
  fp_strings pool = {.memory = memory};
  fp_vector values = {0};
  for (size_t at = 0; at < table->values.count; at += table->width) {
    fp_message_span span = {(uint64_t)rows[at + 1], (uint64_t)rows[at + 2]};
    int32_t number;
    int64_t end = -1;
    fp_fault fault = {0};
    CHECK(fp_span_texts(found->data, found->size, &span, 1, at % 2 == 0, &pool, &number, &fault) == FP_OK);
    CHECK(number >= 0 && (size_t)number < fp_strings_count(&pool));
    if (fp_span_ints(memory, found->data, found->size, &span, 1, &values, &end, &fault) == FP_OK) CHECK(end == (int64_t)values.count);
    else CHECK(fault.offset >= span.offset && fault.offset <= span.offset + span.length);
  }
  fp_strings_free(&pool);
  fp_vector_free(memory, &values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  fp_memory memory;
  fp_memory_init(&memory);
  uint8_t *copy = malloc(size ? size : 1);
  CHECK(copy);
  if (size) memcpy(copy, data, size);
  fp_message_tables found = {.memory = &memory, .data = copy, .size = size};
  plan_fields(&found, &chance);
  fp_message_span span = {0, size};
  fp_fault fault = {0};
  if (fp_message_tables_read(&found, &span, 1, &fault) != FP_OK) CHECK(fault.offset <= size);
  check_rows(&found);
  read_spans(&memory, &found);
  fp_message_tables_free(&found);
  CHECK(memory.live == 0);
  free(copy);
  return 0;
}
