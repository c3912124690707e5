/* Where the fields of many messages lie, for readers that look at few of them. */
#ifndef FASTPROF_MESSAGE_FIELDS_H
#define FASTPROF_MESSAGE_FIELDS_H

#include "memory.h"
#include "status.h"

/* Field numbers that are left out: below this, and each a bit of `left_out`. */
enum { FP_NUMBERS_LEFT_OUT = 128 };

typedef struct fp_message_span {
  uint64_t offset, length;
} fp_message_span;

/* Made by setting all above the vectors, and zeroing them. Message i has fields first[i] to first[i + 1]. */
typedef struct fp_message_fields {
  fp_memory *memory;
  const uint8_t *data; /* the caller's, only read */
  uint64_t size;
  const fp_message_span *messages; /* likewise; they must lie in `data` */
  size_t count;
  uint64_t left_out[FP_NUMBERS_LEFT_OUT / 64];
  fp_vector first;   /* int64_t, one more than there are messages */
  fp_vector numbers; /* int64_t: the number of each field */
  fp_vector values;  /* uint64_t: the value of a number, the offset of the bytes of others */
  fp_vector lengths; /* int64_t: of bytes; -1 of a number */
} fp_message_fields;

/* Groups are left out. FP_CHANGED: a message does not lie in the data. */
fp_code fp_message_fields_read(fp_message_fields *found, fp_fault *fault);
void fp_message_fields_free(fp_message_fields *found);

#endif
