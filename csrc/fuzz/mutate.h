/* Damage as disks, networks, crashed profilers and fuzzers do it to files. */
#ifndef FASTPROF_MUTATE_H
#define FASTPROF_MUTATE_H

#include "tests/message.h"

typedef struct input {
  char name[1024];
  uint8_t *data;
  size_t size;
} input;

/* A damaged copy of one of the inputs; the caller frees it. */
input mutated(const input *from, size_t count, dice *chance);

#endif
