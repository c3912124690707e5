/* Fields of a message at a place of a capture. Only the header of a field need be in memory, so that messages may be
 * larger than memory. */
#ifndef FASTPROF_PLACED_FIELDS_H
#define FASTPROF_PLACED_FIELDS_H

#include "formats/byte_window.h"
#include "formats/wire.h"

enum { FP_MOST_OF_HEADER = 20 }; /* a tag and a value of ten bytes each */

typedef struct fp_placed_field {
  uint32_t tag;
  bool short_tag; /* it is written in one byte, as it should be */
  uint64_t value; /* of a number; of a length-delimited field the length */
  uint64_t at;    /* where the payload of a length-delimited field begins */
} fp_placed_field;

/* Reads any field at *at of a message that ends at `end`, *at < end, and leaves *at behind it. The same results as
 * those of wire_next; FP_CHANGED and what else fp_window_load returns. */
fp_code fp_next_field_any(fp_window *window, uint64_t *at, uint64_t end, fp_placed_field *field);

/* The same. Length-delimited fields with short headers are most of a capture. */
static inline fp_code fp_next_field(fp_window *window, uint64_t *at, uint64_t end, fp_placed_field *field) {
  uint64_t place = *at;
  if (place >= window->first && place + 2 <= window->end && place + 2 <= end) {
    const uint8_t *p = fp_window_at(window, place);
    if ((p[0] & 0x87) == WIRE_LEN && p[0] >= 8 && p[1] < 0x80 && p[1] <= end - (place + 2)) {
      *field = (fp_placed_field){p[0], true, p[1], place + 2};
      *at = place + 2 + p[1];
      return FP_OK;
    }
  }
  return fp_next_field_any(window, at, end, field);
}

/* Reads a varint at *at, likewise. */
fp_code fp_next_varint(fp_window *window, uint64_t *at, uint64_t end, uint64_t *value);

#endif
