/* Finding the way again in damaged bytes, to salvage: where does a chain of known fields begin? */
#include "formats/wire.h"
#include "formats/xspace.h"

enum {
  CHAIN = 4,         /* fields in a row that count as having found the way */
  EVENT = 100,       /* beside enum fp_message, as it is of use here only */
  EVENT_FIELDS = 32, /* of an event that are looked at: every place that is tried must be cheap */
};

static bool known(int what, uint32_t tag) {
  switch (what) {
    case FP_XSPACE: return (tag & 7) == WIRE_LEN && tag >> 3 >= 1 && tag >> 3 <= 4;
    case FP_XPLANE: return tag == WIRE_TAG(1, WIRE_VARINT) || ((tag & 7) == WIRE_LEN && tag >> 3 >= 2 && tag >> 3 <= 6);
    case FP_XLINE:
      return tag == WIRE_TAG(1, WIRE_VARINT) || tag == WIRE_TAG(2, WIRE_LEN) || tag == WIRE_TAG(3, WIRE_VARINT) ||
             tag == WIRE_TAG(4, WIRE_LEN) || tag == WIRE_TAG(9, WIRE_VARINT) || tag == WIRE_TAG(10, WIRE_VARINT) ||
             tag == WIRE_TAG(11, WIRE_LEN);
    default:
      return tag == WIRE_TAG(4, WIRE_LEN) || ((tag & 7) == WIRE_VARINT && (tag >> 3 <= 3 || tag >> 3 == 5));
  }
}

/* A field of those that are known. Others are not walked over: a group may reach to the end of the data. */
static bool next_known(const uint8_t **p, const uint8_t *end, int what, wire_field *field) {
  const uint8_t *q = *p;
  uint32_t tag;
  return wire_tag(&q, end, &tag) && known(what, tag) && !wire_next(p, end, field);
}

static bool is_event(const uint8_t *p, const uint8_t *end) {
  wire_field field;
  for (int i = 0; i < EVENT_FIELDS && p < end; i++)
    if (!next_known(&p, end, EVENT, &field)) return false;
  return true;
}

static bool chain_begins(const uint8_t *p, const uint8_t *end, enum fp_message what) {
  for (int i = 0; i < CHAIN; i++) {
    wire_field field;
    if (p == end) return i > 0;
    if (!next_known(&p, end, (int)what, &field)) return false;
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
