#include "tests/message.h"

#include "tests/check.h"

void put_raw(message *m, const void *bytes, size_t size) {
  if (!size) return;
  if (m->size + size > m->capacity) {
    m->capacity = (m->size + size) * 2;
    m->bytes = realloc(m->bytes, m->capacity);
    CHECK(m->bytes != NULL);
  }
  memcpy(m->bytes + m->size, bytes, size);
  m->size += size;
}

void put_byte(message *m, unsigned byte) {
  uint8_t one = (uint8_t)byte;
  put_raw(m, &one, 1);
}

void put_varint(message *m, uint64_t value) {
  for (; value >= 0x80; value >>= 7) put_byte(m, (value & 0x7F) | 0x80);
  put_byte(m, (unsigned)value);
}

void put_long_varint(message *m, uint64_t value, int size) {
  for (int i = 0; i < size - 1; i++, value >>= 7) put_byte(m, (value & 0x7F) | 0x80);
  put_byte(m, value & 0x7F);
}

void put_int(message *m, unsigned field, int64_t value) {
  put_varint(m, field << 3);
  put_varint(m, (uint64_t)value);
}

void put_double(message *m, unsigned field, double value) {
  put_varint(m, field << 3 | 1);
  put_raw(m, &value, 8);
}

void put_fixed32(message *m, unsigned field, uint32_t value) {
  put_varint(m, field << 3 | 5);
  put_raw(m, &value, 4);
}

void put_bytes(message *m, unsigned field, const void *bytes, size_t size) {
  put_varint(m, field << 3 | 2);
  put_varint(m, size);
  put_raw(m, bytes, size);
}

void put_text(message *m, unsigned field, const char *text) { put_bytes(m, field, text, strlen(text)); }

void put_begin_group(message *m, unsigned field) { put_varint(m, field << 3 | 3); }

void put_end_group(message *m, unsigned field) { put_varint(m, field << 3 | 4); }

void put_message(message *m, unsigned field, message *inner) {
  put_bytes(m, field, inner->bytes, inner->size);
  message_free(inner);
}

void message_free(message *m) {
  free(m->bytes);
  memset(m, 0, sizeof *m);
}

uint8_t *message_copy(const message *m) {
  uint8_t *block = malloc(m->size ? m->size : 1);
  CHECK(block != NULL);
  if (m->size) memcpy(block, m->bytes, m->size);
  return block;
}

uint64_t roll(dice *d) {
  uint64_t z = d->state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

uint64_t roll_below(dice *d, uint64_t below) { return roll(d) % below; }
