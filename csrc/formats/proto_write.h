/* Writing protobuf messages front to back into growing bytes.
 *
 * The length of a message is known only when it ends, so four bytes are kept for it, as a varint padded with
 * continuation bits:
 *
 *    [tag][00 00 00 00]  contents ...           proto_begin: room for the length
 *    [tag][ac 82 80 00]  contents (300 bytes)   proto_end: 300 in four bytes
 *
 * A message must be shorter than 2^28 bytes. */
#ifndef FASTPROF_PROTO_WRITE_H
#define FASTPROF_PROTO_WRITE_H

#include "formats/growing_bytes.h"
#include "formats/wire.h"

enum { PROTO_LENGTH_SIZE = 4 };

/* How many bytes a varint takes. */
static inline size_t proto_varint_size(uint64_t value) {
  size_t size = 1;
  while (value >>= 7) size++;
  return size;
}

/* Seven bits per byte, the lowest first, at most ten bytes. Returns where they end. */
static inline uint8_t *proto_varint_at(uint8_t *to, uint64_t value) {
  for (; value > 0x7F; value >>= 7) *to++ = (uint8_t)(value | 0x80);
  *to++ = (uint8_t)value;
  return to;
}

static inline void proto_put_varint(fp_bytes *out, uint64_t value) {
  uint8_t *to = fp_bytes_room(out, 10);
  if (to) out->size += (size_t)(proto_varint_at(to, value) - to);
}

/* A field of type int32, int64, uint32, uint64, bool or enum. */
static inline void proto_put_number(fp_bytes *out, uint32_t field, uint64_t value) {
  proto_put_varint(out, field << 3 | WIRE_VARINT);
  proto_put_varint(out, value);
}

/* A field of type fixed64 or sfixed64. */
static inline void proto_put_fixed(fp_bytes *out, uint32_t field, uint64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> 8 * i);
  proto_put_varint(out, field << 3 | WIRE_I64);
  fp_bytes_put(out, bytes, sizeof bytes);
}

/* A field of type double. */
static inline void proto_put_double(fp_bytes *out, uint32_t field, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  proto_put_fixed(out, field, bits);
}

/* Begins a message whose length proto_end() writes; returns where its contents begin. */
static inline size_t proto_begin(fp_bytes *out, uint32_t field) {
  proto_put_varint(out, field << 3 | WIRE_LEN);
  fp_bytes_put(out, "\0\0\0\0", PROTO_LENGTH_SIZE);
  return out->size;
}

/* Writes the length of the message whose contents began at `from`. */
static inline void proto_end(fp_bytes *out, size_t from) {
  if (out->failed) return;
  size_t length = out->size - from;
  for (int i = 0; i < PROTO_LENGTH_SIZE; i++) {
    int more = i < PROTO_LENGTH_SIZE - 1 ? 0x80 : 0;
    out->data[from - PROTO_LENGTH_SIZE + (size_t)i] = (uint8_t)((length >> 7 * i & 0x7F) | more);
  }
}

#endif
