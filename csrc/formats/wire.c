/* Reading fields one by one, checked at every step. The readers that are called for every event are inline, in wire.h
 * and xspace_event.h. */
#include "formats/wire.h"

/* Skips a group, and groups in it, with a stack of field numbers: each end must match the last open start. */
static fp_code skip_group(const uint8_t **p, const uint8_t *end, uint32_t opening) {
  uint32_t open[WIRE_MAX_DEPTH];
  int depth = 1;
  open[0] = opening >> 3;
  while (depth) {
    uint32_t tag;
    if (*p == end) return FP_BAD_GROUP;
    if (!wire_tag(p, end, &tag)) return FP_BAD_TAG;
    if ((tag & 7) == WIRE_SGROUP) {
      if (depth == WIRE_MAX_DEPTH) return FP_TOO_DEEP;
      open[depth++] = tag >> 3;
    } else if ((tag & 7) == WIRE_EGROUP) {
      if (open[--depth] != tag >> 3) return FP_BAD_GROUP;
    } else {
      fp_code code = wire_skip(p, end, tag);
      if (code) return code;
    }
  }
  return FP_OK;
}

/* A length must fit before it is used: a damaged one is anything up to 2^64. */
fp_code wire_skip(const uint8_t **p, const uint8_t *end, uint32_t tag) {
  uint64_t value;
  const uint8_t *payload;
  switch (tag & 7) {
    case WIRE_VARINT: return wire_varint(p, end, &value) ? FP_OK : FP_BAD_VARINT;
    case WIRE_I64:
      if (end - *p < 8) return FP_BAD_LENGTH;
      *p += 8;
      return FP_OK;
    case WIRE_I32:
      if (end - *p < 4) return FP_BAD_LENGTH;
      *p += 4;
      return FP_OK;
    case WIRE_LEN: return wire_bytes(p, end, &payload, &value) ? FP_OK : FP_BAD_LENGTH;
    case WIRE_SGROUP: return skip_group(p, end, tag);
    default: return FP_BAD_GROUP;
  }
}

/* The same as wire_skip, but values are kept. Fixed-size values are read as they lie in memory, least significant
 * byte first. */
fp_code wire_next(const uint8_t **p, const uint8_t *end, wire_field *field) {
  if (!wire_tag(p, end, &field->tag)) return FP_BAD_TAG;
  switch (field->tag & 7) {
    case WIRE_VARINT: return wire_varint(p, end, &field->value) ? FP_OK : FP_BAD_VARINT;
    case WIRE_LEN: return wire_bytes(p, end, &field->payload, &field->value) ? FP_OK : FP_BAD_LENGTH;
    case WIRE_I64:
      if (end - *p < 8) return FP_BAD_LENGTH;
      memcpy(&field->value, *p, 8);
      *p += 8;
      return FP_OK;
    case WIRE_I32: {
      uint32_t bits;
      if (end - *p < 4) return FP_BAD_LENGTH;
      memcpy(&bits, *p, 4);
      field->value = bits;
      *p += 4;
      return FP_OK;
    }
    default: return wire_skip(p, end, field->tag);
  }
}
