/* Salvage: where to go on in damaged bytes. Every offset is tried until one begins a chain of known fields. Random
 * bytes form one field by chance quite often (a tag and a varint are two bytes), but four in a row, with messages
 * inside that have the right fields themselves, hardly ever.
 *
 *    ... damage ... | event | event | event | event |
 *    tried at every byte here ^ four fields in a row: go on at this offset
 */
#include "formats/wire.h"
#include "formats/xspace.h"

enum {
  CHAIN = 4,         /* fields in a row that are accepted as undamaged */
  EVENT = 100,       /* a value beside those of enum fp_message, for use in this file */
  EVENT_FIELDS = 32, /* fields of an event that are checked: every trial must be cheap */
};

/* Whether a message has a field with this tag, its wire type included. */
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

/* Reads a known field. Unknown ones are not skipped but rejected: a group might reach to the end of the data. */
static bool next_known(const uint8_t **p, const uint8_t *end, int what, wire_field *field) {
  const uint8_t *q = *p;
  uint32_t tag;
  return wire_tag(&q, end, &tag) && known(what, tag) && !wire_next(p, end, field);
}

/* Whether the bytes can be an XEvent. */
static bool is_event(const uint8_t *p, const uint8_t *end) {
  wire_field field;
  for (int i = 0; i < EVENT_FIELDS && p < end; i++)
    if (!next_known(&p, end, EVENT, &field)) return false;
  return true;
}

/* Whether CHAIN known fields begin here, or fewer that reach exactly to the end. Lines and planes in them must look
 * like lines and planes inside. */
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
