/* Finding the way again in damaged bytes, to salvage: where does a chain of known fields begin? */
#include "formats/wire.h"
#include "formats/xspace.h"

enum { CHAIN = 4 }; /* fields in a row that count as having found the way */

static bool known(enum fp_message what, uint32_t tag) {
  switch (what) {
    case FP_XSPACE: return (tag & 7) == WIRE_LEN && tag >> 3 >= 1 && tag >> 3 <= 4;
    case FP_XPLANE: return tag == WIRE_TAG(1, WIRE_VARINT) || ((tag & 7) == WIRE_LEN && tag >> 3 >= 2 && tag >> 3 <= 6);
    default:
      return tag == WIRE_TAG(1, WIRE_VARINT) || tag == WIRE_TAG(2, WIRE_LEN) || tag == WIRE_TAG(3, WIRE_VARINT) ||
             tag == WIRE_TAG(4, WIRE_LEN) || tag == WIRE_TAG(9, WIRE_VARINT) || tag == WIRE_TAG(10, WIRE_VARINT) ||
             tag == WIRE_TAG(11, WIRE_LEN);
  }
}

static bool is_event(const uint8_t *p, const uint8_t *end) {
  wire_field field;
  while (p < end) {
    if (wire_next(&p, end, &field)) return false;
    uint32_t tag = field.tag;
    bool scalar = (tag & 7) == WIRE_VARINT && (tag >> 3 <= 3 || tag >> 3 == 5);
    if (!scalar && tag != WIRE_TAG(4, WIRE_LEN)) return false;
  }
  return true;
}

static bool chain_begins(const uint8_t *p, const uint8_t *end, enum fp_message what) {
  for (int i = 0; i < CHAIN; i++) {
    wire_field field;
    if (p == end) return i > 0;
    if (wire_next(&p, end, &field) || !known(what, field.tag)) return false;
    if (what == FP_XLINE && field.tag == WIRE_TAG(4, WIRE_LEN) && !is_event(field.payload, field.payload + field.value))
      return false;
    if (what == FP_XSPACE && field.tag == WIRE_TAG(1, WIRE_LEN) &&
        !chain_begins(field.payload, field.payload + field.value, FP_XPLANE))
      return false;
  }
  return true;
}

uint64_t fp_resync(const uint8_t *data, uint64_t from, uint64_t end, enum fp_message what) {
  for (uint64_t at = from; at < end; at++)
    if (chain_begins(data + at, data + end, what)) return at;
  return end;
}
