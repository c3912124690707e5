/* What every reader of an HloProto needs; see hlo_reading.h. A reader never looks behind the end of its message: the
 * fields of a message are read up to its own length, whatever comes behind. */
#include "formats/hlo_reading.h"

#include "formats/field_values.h"

/* Stops at the first fault. A fault is at the start of the field that is wrong. */
fp_code hlo_read_message(hlo_reading *r, const uint8_t *p, uint64_t length, int32_t row, hlo_field_reader reader,
                         const char *what) {
  const uint8_t *end = p + length;
  while (p < end) {
    const uint8_t *start = p;
    wire_field field;
    fp_code code = wire_next(&p, end, &field);
    if (code) return hlo_fail(r, code, start, what);
    if ((code = reader(r, row, &field))) return code;
  }
  return FP_OK;
}

fp_code hlo_read_inner(hlo_reading *r, const wire_field *field, int32_t row, hlo_field_reader reader, const char *what) {
  return hlo_read_message(r, field->payload, field->value, row, reader, what);
}

int32_t hlo_add_row(hlo_reading *r, fp_vector *table, size_t item_size) {
  if (table->count >= INT32_MAX || !fp_vector_add(r->hlo->memory, table, item_size)) return -1;
  return (int32_t)(table->count - 1);
}

fp_code hlo_add_text(hlo_reading *r, const wire_field *field, int32_t *number) {
  return fp_field_text(&r->hlo->texts, field, number) ? hlo_no_memory(r, "HLO text") : FP_OK;
}

fp_code hlo_add_ints(hlo_reading *r, const wire_field *field, fp_vector *values, const char *what) {
  const uint8_t *at = field->payload;
  fp_code code = fp_field_ints(r->hlo->memory, field, values, &at);
  if (code == FP_NO_MEMORY) return hlo_no_memory(r, what);
  return code ? hlo_fail(r, code, at, what) : FP_OK;
}
