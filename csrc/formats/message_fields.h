/* Where the fields of many messages lie, for readers in Python that need only a few of them. */
#ifndef FASTPROF_MESSAGE_FIELDS_H
#define FASTPROF_MESSAGE_FIELDS_H

#include "memory.h"
#include "status.h"

/* Only field numbers below this can be left out; each is a bit of `left_out`. */
enum { FP_NUMBERS_LEFT_OUT = 128 };

/* Where a message lies in the data. */
typedef struct fp_message_span {
  uint64_t offset, length;
} fp_message_span;

/* The caller sets the fields before the vectors and zeroes the rest. Message i has the fields first[i] .. first[i +
 * 1]. */
typedef struct fp_message_fields {
  fp_memory *memory;
  const uint8_t *data; /* the caller's; only read */
  uint64_t size;
  const fp_message_span *messages; /* the caller's; they must lie in `data` */
  size_t count;
  uint64_t left_out[FP_NUMBERS_LEFT_OUT / 64];
  fp_vector first;   /* int64_t, one more than there are messages */
  fp_vector numbers; /* int64_t: the number of each field */
  fp_vector values;  /* uint64_t: the value of a number, or the offset of bytes */
  fp_vector lengths; /* int64_t: the length of bytes; -1 for a number */
} fp_message_fields;

/* Lists the fields of all messages. Groups are left out. FP_CHANGED: a message does not lie in the data. Faults do not
 * say what was read. */
fp_code fp_message_fields_read(fp_message_fields *found, fp_fault *fault);
void fp_message_fields_free(fp_message_fields *found);

#endif
