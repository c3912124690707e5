/* One pass over each message; nested messages are only noted as bytes, and a caller reads those that it needs in
 * another call. */
#include "formats/message_fields.h"

#include "formats/wire.h"

static bool is_left_out(const fp_message_fields *found, uint32_t number) {
  return number < FP_NUMBERS_LEFT_OUT && (found->left_out[number / 64] >> (number % 64) & 1);
}

/* Makes room for a field in the three columns, which grow together. */
static bool has_room(fp_message_fields *found) {
  fp_vector *columns[] = {&found->numbers, &found->values, &found->lengths};
  for (int i = 0; i < 3; i++)
    if (!fp_vector_reserve(found->memory, columns[i], sizeof(int64_t), 1)) return false;
  return true;
}

/* Appends a field to the three columns. */
static bool add(fp_message_fields *found, const wire_field *field) {
  size_t at = found->numbers.count;
  bool bytes = (field->tag & 7) == WIRE_LEN;
  if ((at == found->numbers.capacity || at == found->values.capacity || at == found->lengths.capacity) && !has_room(found))
    return false;
  ((int64_t *)found->numbers.items)[at] = field->tag >> 3;
  ((uint64_t *)found->values.items)[at] = bytes ? (uint64_t)(field->payload - found->data) : field->value;
  ((int64_t *)found->lengths.items)[at] = bytes ? (int64_t)field->value : -1;
  found->numbers.count = found->values.count = found->lengths.count = at + 1;
  return true;
}

/* Lists the fields of one message. */
static fp_code read_one(fp_message_fields *found, const fp_message_span *span, fp_fault *fault) {
  if (span->offset > found->size || span->length > found->size - span->offset)
    return fp_fail(fault, FP_CHANGED, span->offset, NULL);
  const uint8_t *p = found->data + span->offset, *end = p + span->length;
  while (p < end) {
    const uint8_t *start = p;
    wire_field field;
    fp_code code = wire_next(&p, end, &field);
    if (code) return fp_fail(fault, code, (uint64_t)(start - found->data), NULL);
    bool group = (field.tag & 7) == WIRE_SGROUP;
    if (!group && !is_left_out(found, field.tag >> 3) && !add(found, &field)) return fp_fail(fault, FP_NO_MEMORY, 0, NULL);
  }
  return FP_OK;
}

/* first[i] is where the fields of message i begin; one more entry is where those of the last one end. */
fp_code fp_message_fields_read(fp_message_fields *found, fp_fault *fault) {
  if (!fp_vector_reserve(found->memory, &found->first, sizeof(int64_t), found->count + 1))
    return fp_fail(fault, FP_NO_MEMORY, 0, NULL);
  int64_t *first = found->first.items;
  for (size_t i = 0; i < found->count; i++) {
    first[i] = (int64_t)found->numbers.count;
    fp_code code = read_one(found, &found->messages[i], fault);
    if (code) return code;
  }
  first[found->count] = (int64_t)found->numbers.count;
  found->first.count = found->count + 1;
  return FP_OK;
}

void fp_message_fields_free(fp_message_fields *found) {
  fp_vector_free(found->memory, &found->first);
  fp_vector_free(found->memory, &found->numbers);
  fp_vector_free(found->memory, &found->values);
  fp_vector_free(found->memory, &found->lengths);
}
