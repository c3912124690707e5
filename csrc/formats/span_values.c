/* The lists of fields that message_fields.h makes say where values lie; here they become columns. */
#include "formats/span_values.h"

#include "formats/field_values.h"

/* The bytes of a span as those of a field. False: they do not lie in the data. */
static bool field_at(const uint8_t *data, uint64_t size, const fp_message_span *span, wire_field *field) {
  if (span->offset > size || span->length > size - span->offset) return false;
  *field = (wire_field){.tag = WIRE_LEN, .value = span->length, .payload = data + span->offset};
  return true;
}

fp_code fp_span_texts(const uint8_t *data, uint64_t size, const fp_message_span *spans, size_t count, bool is_text,
                      fp_strings *pool, int32_t *numbers, fp_fault *fault) {
  for (size_t i = 0; i < count; i++) {
    wire_field field;
    fp_code code = FP_OK;
    numbers[i] = -1;
    if (spans[i].length == FP_NO_SPAN) continue;
    if (!field_at(data, size, &spans[i], &field)) return fp_fail(fault, FP_CHANGED, spans[i].offset, NULL);
    if (is_text) code = fp_field_text(pool, &field, &numbers[i]);
    else if ((numbers[i] = fp_strings_add(pool, field.payload, (size_t)field.value)) < 0) code = FP_NO_MEMORY;
    if (code) return fp_fail(fault, code, 0, NULL);
  }
  return FP_OK;
}

fp_code fp_span_ints(fp_memory *memory, const uint8_t *data, uint64_t size, const fp_message_span *spans, size_t count,
                     fp_vector *values, int64_t *ends, fp_fault *fault) {
  for (size_t i = 0; i < count; i++) {
    wire_field field;
    const uint8_t *at = data;
    if (!field_at(data, size, &spans[i], &field)) return fp_fail(fault, FP_CHANGED, spans[i].offset, NULL);
    fp_code code = fp_field_ints(memory, &field, values, &at);
    if (code) return fp_fail(fault, code, (uint64_t)(at - data), NULL);
    ends[i] = (int64_t)values->count;
  }
  return FP_OK;
}
