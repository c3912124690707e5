/* Salvage: where to go on in damaged bytes. Every offset is tried until one begins a chain of known fields. Random
 * bytes form one field by chance quite often (a tag and a varint are two bytes), but four in a row, with messages
 * inside that have the right fields themselves, hardly ever.
 *
 *    ... damage ... | event | event | event | event |
 *    tried at every byte here ^ four fields in a row: go on at this offset
 */
#include "formats/placed_fields.h"
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

/* A search: `code` is set once the bytes cannot be read, and nothing is known then. */
typedef struct search {
  fp_window *window;
  fp_code code;
} search;

/* Reads a known field. Unknown ones are not skipped but rejected: a group might reach to the end of the data. */
static bool next_known(search *s, uint64_t *at, uint64_t end, int what, fp_placed_field *field) {
  if ((s->code = fp_window_need(s->window, *at, *at + 1))) return false;
  uint64_t tag = *fp_window_at(s->window, *at), after = *at;
  fp_code code = tag < 0x80 ? FP_OK : fp_next_varint(s->window, &after, end, &tag);
  if (!code && (tag > UINT32_MAX || !known(what, (uint32_t)tag))) return false;
  if (!code) code = fp_next_field(s->window, at, end, field);
  if (fp_ends_reading(code)) s->code = code;
  return !code;
}

/* Whether the bytes can be an XEvent. */
static bool is_event(search *s, uint64_t at, uint64_t end) {
  fp_placed_field field;
  for (int i = 0; i < EVENT_FIELDS && at < end; i++)
    if (!next_known(s, &at, end, EVENT, &field)) return false;
  return true;
}

/* Whether CHAIN known fields begin here, or fewer that reach exactly to the end. Lines and planes in them must look
 * like lines and planes inside. */
static bool chain_begins(search *s, uint64_t at, uint64_t end, enum fp_message what) {
  for (int i = 0; i < CHAIN; i++) {
    fp_placed_field field;
    if (at == end) return i > 0;
    if (!next_known(s, &at, end, (int)what, &field)) return false;
    uint64_t inside = field.at + field.value;
    if (what == FP_XLINE && field.tag == WIRE_TAG(4, WIRE_LEN) && !is_event(s, field.at, inside)) return false;
    if (what == FP_XSPACE && field.tag == WIRE_TAG(1, WIRE_LEN) && !chain_begins(s, field.at, inside, FP_XPLANE))
      return false;
  }
  return true;
}

/* Bytes that begin no known field are passed over without a trial, since damage is often a long run of zeros. */
fp_code fp_resync(fp_window *window, uint64_t *at, uint64_t end, enum fp_message what) {
  search s = {window, FP_OK};
  bool begins[256];
  for (uint32_t byte = 0; byte < 256; byte++) begins[byte] = byte >= 0x80 || known((int)what, byte);
  while (*at < end) {
    fp_code code = fp_window_need(window, *at, *at + 1);
    if (code) return code;
    uint64_t stop = window->end < end ? window->end : end;
    const uint8_t *from = fp_window_at(window, *at), *p = from, *last = from + (stop - *at);
    while (p < last && !begins[*p]) p++;
    *at += (uint64_t)(p - from);
    if (*at == stop) continue;
    if (chain_begins(&s, *at, end, what)) return FP_OK;
    if (s.code) return s.code;
    ++*at;
  }
  return FP_OK;
}
