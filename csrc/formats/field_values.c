/* Shared by the readers of programs and of memory plans. */
#include "formats/field_values.h"

#include "columns/utf8.h"

/* The repaired copy is only needed until the pool has made its own. */
fp_code fp_field_text(fp_strings *texts, const wire_field *field, int32_t *number) {
  const uint8_t *text = field->payload;
  uint8_t *repaired = NULL;
  size_t length = field->value;
  if (!fp_utf8_valid(text, length)) {
    if (!(repaired = fp_alloc(texts->memory, fp_utf8_repair(text, length, NULL)))) return FP_NO_MEMORY;
    length = fp_utf8_repair(text, length, repaired);
    text = repaired;
  }
  *number = fp_strings_add(texts, text, length);
  fp_release(texts->memory, repaired);
  return *number < 0 ? FP_NO_MEMORY : FP_OK;
}

/* An unpacked field is one value, which wire_next has read already; a packed one is a run of varints. */
fp_code fp_field_ints(fp_memory *memory, const wire_field *field, fp_vector *values, const uint8_t **at) {
  bool packed = (field->tag & 7) == WIRE_LEN;
  const uint8_t *p = packed ? field->payload : NULL, *end = packed ? p + field->value : NULL;
  uint64_t value = field->value;
  if (packed && p == end) return FP_OK;
  do {
    if (packed && !wire_varint(&p, end, &value)) {
      *at = p;
      return FP_BAD_VARINT;
    }
    if (values->count >= INT32_MAX) return FP_NO_MEMORY;
    int64_t *item = fp_vector_add(memory, values, sizeof *item);
    if (!item) return FP_NO_MEMORY;
    *item = (int64_t)value;
  } while (packed && p < end);
  return FP_OK;
}
