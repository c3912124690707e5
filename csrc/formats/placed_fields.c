/* The same checks as in wire.c, on places instead of pointers. */
#include "formats/placed_fields.h"

/* Makes the header at a place readable: *p .. *limit is what there is of it. */
static fp_code header_at(fp_window *w, uint64_t at, uint64_t end, const uint8_t **p, const uint8_t **limit) {
  uint64_t size = end - at < FP_MOST_OF_HEADER ? end - at : FP_MOST_OF_HEADER;
  fp_code code = fp_window_need(w, at, at + size);
  if (code) return code;
  *p = fp_window_at(w, at);
  *limit = *p + size;
  return FP_OK;
}

/* Skips a group and those in it, with a stack of field numbers, as in wire.c. */
static fp_code skip_group(fp_window *w, uint64_t *at, uint64_t end, uint32_t opening) {
  uint32_t open[WIRE_MAX_DEPTH];
  int depth = 1;
  open[0] = opening >> 3;
  while (depth) {
    const uint8_t *p, *limit;
    if (*at == end) return FP_BAD_GROUP;
    fp_code code = header_at(w, *at, end, &p, &limit);
    if (code) return code;
    const uint8_t *start = p;
    uint32_t tag;
    if (!wire_tag(&p, limit, &tag)) return FP_BAD_TAG;
    uint64_t inside = *at + (uint64_t)(p - start);
    fp_placed_field field;
    if ((tag & 7) == WIRE_SGROUP) {
      if (depth == WIRE_MAX_DEPTH) return FP_TOO_DEEP;
      open[depth++] = tag >> 3;
      *at = inside;
    } else if ((tag & 7) == WIRE_EGROUP) {
      if (open[--depth] != tag >> 3) return FP_BAD_GROUP;
      *at = inside;
    } else if ((code = fp_next_field_any(w, at, end, &field))) {
      return code;
    }
  }
  return FP_OK;
}

fp_code fp_next_field_any(fp_window *w, uint64_t *at, uint64_t end, fp_placed_field *field) {
  const uint8_t *p, *limit;
  fp_code code = header_at(w, *at, end, &p, &limit);
  if (code) return code;
  const uint8_t *start = p;
  *field = (fp_placed_field){0};
  if (!wire_tag(&p, limit, &field->tag)) return FP_BAD_TAG;
  field->short_tag = p == start + 1;
  uint64_t place = *at + (uint64_t)(p - start);
  switch (field->tag & 7) {
    case WIRE_VARINT:
      if (!wire_varint(&p, limit, &field->value)) return FP_BAD_VARINT;
      *at += (uint64_t)(p - start);
      return FP_OK;
    case WIRE_LEN:
      if (!wire_varint(&p, limit, &field->value)) return FP_BAD_LENGTH;
      field->at = *at + (uint64_t)(p - start);
      if (field->value > end - field->at) return FP_BAD_LENGTH;
      *at = field->at + field->value;
      return FP_OK;
    case WIRE_I64:
      if (end - place < 8) return FP_BAD_LENGTH;
      memcpy(&field->value, p, 8); /* a tag of ten bytes and eight more are within a header */
      *at = place + 8;
      return FP_OK;
    case WIRE_I32: {
      uint32_t bits;
      if (end - place < 4) return FP_BAD_LENGTH;
      memcpy(&bits, p, 4);
      field->value = bits;
      *at = place + 4;
      return FP_OK;
    }
    case WIRE_SGROUP: *at = place; return skip_group(w, at, end, field->tag);
    default: return FP_BAD_GROUP;
  }
}

fp_code fp_next_varint(fp_window *w, uint64_t *at, uint64_t end, uint64_t *value) {
  const uint8_t *p, *limit;
  fp_code code = header_at(w, *at, end, &p, &limit);
  if (code) return code;
  const uint8_t *start = p;
  if (!wire_varint(&p, limit, value)) return FP_BAD_VARINT;
  *at += (uint64_t)(p - start);
  return FP_OK;
}
