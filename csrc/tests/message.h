/* Protobuf messages built by hand: the input of most tests. Every byte can be chosen, wrong ones included. */
#ifndef FASTPROF_MESSAGE_H
#define FASTPROF_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory is an empty message. Its owner frees it, or gives it to put_message. */
typedef struct message {
  uint8_t *bytes;
  size_t size, capacity;
} message;

void put_raw(message *m, const void *bytes, size_t size);
void put_byte(message *m, unsigned byte);
void put_varint(message *m, uint64_t value);
/* A varint in `size` bytes, more than it needs. */
void put_long_varint(message *m, uint64_t value, int size);
/* Fields of type varint, fixed64, fixed32, or with a length. */
void put_int(message *m, unsigned field, int64_t value);
void put_double(message *m, unsigned field, double value);
void put_fixed32(message *m, unsigned field, uint32_t value);
void put_bytes(message *m, unsigned field, const void *bytes, size_t size);
void put_text(message *m, unsigned field, const char *text);
void put_begin_group(message *m, unsigned field);
void put_end_group(message *m, unsigned field);
/* A field that is a message; frees `inner`. */
void put_message(message *m, unsigned field, message *inner);
void message_free(message *m);
/* A copy in a block of exactly its size, so that a sanitizer sees reads beyond it; for free(). */
uint8_t *message_copy(const message *m);

/* Pseudo-random numbers, the same on every machine and in every run. */
typedef struct dice {
  uint64_t state;
} dice;

uint64_t roll(dice *d);
/* A number from 0 to below - 1; `below` must not be 0. */
uint64_t roll_below(dice *d, uint64_t below);

#endif
