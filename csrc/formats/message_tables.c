/* Messages are read as deep as tables lead, and tables only lead to later ones: the depth does not depend on the data.
 *
 *    spans      | a {3: {1: 7}, 3: {1: 8}} | b {3: {1: 9}} |
 *    table 0    row 0: 0                     row 1: 1
 *    table 1    row 0: 0 7   row 1: 0 8      row 2: 1 9
 */
#include "formats/message_tables.h"

#include "formats/wire.h"

/* A zeroed row; NULL when memory runs out. It stays where it is until another row of the table is added. */
static int64_t *add_row(fp_message_tables *found, fp_message_table *table, int64_t parent) {
  if (!fp_vector_reserve(found->memory, &table->values, sizeof(int64_t), table->width)) return NULL;
  int64_t *row = (int64_t *)table->values.items + table->values.count;
  memset(row, 0, table->width * sizeof *row);
  for (uint32_t i = table->ints + 2; i < table->width; i += 2) row[i] = -1;
  row[0] = parent;
  table->values.count += table->width;
  return row;
}

static fp_code add_numbers(fp_message_tables *found, fp_message_table *table, int64_t parent, const wire_field *field,
                           fp_fault *fault) {
  bool packed = (field->tag & 7) == WIRE_LEN;
  const uint8_t *p = packed ? field->payload : NULL, *end = packed ? p + field->value : NULL;
  uint64_t value = field->value;
  if (packed && p == end) return FP_OK;
  do {
    const uint8_t *start = p;
    if (packed && !wire_varint(&p, end, &value)) return fp_fail(fault, FP_BAD_VARINT, (uint64_t)(start - found->data), NULL);
    int64_t *row = add_row(found, table, parent);
    if (!row) return fp_fail(fault, FP_NO_MEMORY, 0, NULL);
    row[1] = (int64_t)value;
  } while (packed && p < end);
  return FP_OK;
}

static fp_code read_one(fp_message_tables *found, size_t number, int64_t parent, const uint8_t *p, const uint8_t *end,
                        fp_fault *fault) {
  fp_message_table *table = &found->tables[number];
  int64_t at = (int64_t)(table->values.count / table->width);
  int64_t *row = add_row(found, table, parent);
  if (!row) return fp_fail(fault, FP_NO_MEMORY, 0, NULL);
  while (p < end) {
    const uint8_t *start = p;
    wire_field field;
    fp_code code = wire_next(&p, end, &field);
    if (code) return fp_fail(fault, code, (uint64_t)(start - found->data), NULL);
    uint32_t key = field.tag >> 3;
    bool is_group = (field.tag & 7) == WIRE_SGROUP, is_bytes = (field.tag & 7) == WIRE_LEN;
    if (key >= FP_TABLE_FIELDS || is_group) continue;
    size_t place = table->place[key];
    if (table->use[key] == FP_FIELD_INT && !is_bytes) {
      row[1 + place] = (int64_t)field.value;
    } else if (table->use[key] == FP_FIELD_SPAN && is_bytes) {
      row[1 + table->ints + 2 * place] = field.payload - found->data;
      row[2 + table->ints + 2 * place] = (int64_t)field.value;
    } else if (table->use[key] == FP_FIELD_NUMBERS) {
      code = add_numbers(found, &found->tables[place], at, &field, fault);
    } else if (table->use[key] == FP_FIELD_SPANS && is_bytes) {
      int64_t *span = add_row(found, &found->tables[place], at);
      if (!span) return fp_fail(fault, FP_NO_MEMORY, 0, NULL);
      span[1] = field.payload - found->data;
      span[2] = (int64_t)field.value;
    } else if (table->use[key] == FP_FIELD_TABLE && is_bytes) {
      code = read_one(found, place, at, field.payload, field.payload + field.value, fault);
    }
    if (code) return code;
  }
  return FP_OK;
}

fp_code fp_message_tables_read(fp_message_tables *found, const fp_message_span *spans, size_t count, fp_fault *fault) {
  for (size_t i = 0; i < count; i++) {
    if (spans[i].offset > found->size || spans[i].length > found->size - spans[i].offset)
      return fp_fail(fault, FP_CHANGED, spans[i].offset, NULL);
    const uint8_t *begin = found->data + spans[i].offset;
    fp_code code = read_one(found, 0, (int64_t)i, begin, begin + spans[i].length, fault);
    if (code) return code;
  }
  return FP_OK;
}

void fp_message_tables_free(fp_message_tables *found) {
  for (size_t i = 0; i < FP_MOST_TABLES; i++) fp_vector_free(found->memory, &found->tables[i].values);
}
