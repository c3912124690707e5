/* The protobuf wire format: tags, varints, and skipping unknown fields. Readers advance `*p` and never read at or
 * behind `end`. The fast ones may read up to WIRE_SLACK bytes behind it, where the caller has made sure that these
 * exist. */
#ifndef FASTPROF_WIRE_H
#define FASTPROF_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "status.h"

enum { WIRE_VARINT = 0, WIRE_I64 = 1, WIRE_LEN = 2, WIRE_SGROUP = 3, WIRE_EGROUP = 4, WIRE_I32 = 5 };
enum { WIRE_MAX_DEPTH = 100, WIRE_SLACK = 48 }; /* protobuf's limit of nesting; what fast readers may overrun */

#define WIRE_TAG(field, type) ((uint32_t)(((field) << 3) | (type)))

/* Seven bits per byte, the lowest first, the high bit set on all bytes but the last. At most ten bytes; bits behind
 * the 64th are dropped, as protobuf does. False: the number does not end. */
static inline bool wire_varint(const uint8_t **p, const uint8_t *end, uint64_t *value) {
  const uint8_t *q = *p;
  if (q < end && *q < 0x80) {
    *value = *q;
    *p = q + 1;
    return true;
  }
  uint64_t result = 0;
  for (int i = 0; i < 10 && q < end; i++) {
    uint64_t byte = *q++;
    result |= (byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      *value = result;
      *p = q;
      return true;
    }
  }
  return false;
}

/* The same where ten bytes may be read from *p on. Finds the last byte by its clear high bit, then moves the groups
 * of seven bits together in pairs, pairs of pairs and so on: no loop over bytes.
 *
 *    bytes    1aaaaaaa 1bbbbbbb 0ccccccc          the lowest byte first
 *    bits     aaaaaaa  bbbbbbb  ccccccc  ->  bbbbbbbaaaaaaa  ccccccc  ->  cccccccbbbbbbbaaaaaaa
 */
static inline bool wire_varint_fast(const uint8_t **p, uint64_t *value) {
  const uint8_t *q = *p;
  if (*q < 0x80) {
    *value = *q;
    *p = q + 1;
    return true;
  }
  uint64_t word;
  memcpy(&word, q, 8);
  uint64_t stops = ~word & UINT64_C(0x8080808080808080);
  if (!stops) return wire_varint(p, q + 10, value);
  int bits = __builtin_ctzll(stops) + 1; /* of the bytes up to the last one */
  word &= UINT64_C(0x7F7F7F7F7F7F7F7F) & (UINT64_MAX >> (64 - bits));
  word = (word & UINT64_C(0x007F007F007F007F)) | (word & UINT64_C(0x7F007F007F007F00)) >> 1;
  word = (word & UINT64_C(0x00003FFF00003FFF)) | (word & UINT64_C(0x3FFF00003FFF0000)) >> 2;
  word = (word & UINT64_C(0x000000000FFFFFFF)) | (word & UINT64_C(0x0FFFFFFF00000000)) >> 4;
  *value = word;
  *p = q + bits / 8;
  return true;
}

/* A tag: a field number of 1 or more, and a wire type from 0 to 5. */
static inline bool wire_tag(const uint8_t **p, const uint8_t *end, uint32_t *tag) {
  uint64_t value;
  if (!wire_varint(p, end, &value) || value > UINT32_MAX || value < 8 || (value & 7) > 5) return false;
  *tag = (uint32_t)value;
  return true;
}

/* A length and its bytes, which lie before `end`: *payload .. *payload + *length. *p is advanced behind them. */
static inline bool wire_bytes(const uint8_t **p, const uint8_t *end, const uint8_t **payload, uint64_t *length) {
  if (!wire_varint(p, end, length) || *length > (uint64_t)(end - *p)) return false;
  *payload = *p;
  *p += *length;
  return true;
}

/* Skips the value of a field whose tag has been read. */
fp_code wire_skip(const uint8_t **p, const uint8_t *end, uint32_t tag);

/* A field: its tag, and its value if the wire type has one. */
typedef struct wire_field {
  uint32_t tag;
  uint64_t value;         /* of a varint, a fixed64 or a fixed32 */
  const uint8_t *payload; /* of a length-delimited field, `value` bytes */
} wire_field;

/* Reads one field. Groups are skipped with everything in them. */
fp_code wire_next(const uint8_t **p, const uint8_t *end, wire_field *field);

#endif
