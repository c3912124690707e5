/* What can go wrong, and where: a code, the byte offset of the fault, and the name of what was being read. */
#ifndef FASTPROF_STATUS_H
#define FASTPROF_STATUS_H

#include <stdint.h>

typedef enum fp_code {
  FP_OK = 0,
  FP_NO_MEMORY = 1,
  FP_TRUNCATED = 2,     /* the input ends inside a message */
  FP_BAD_TAG = 3,       /* field number 0, or a wire type that does not exist */
  FP_BAD_VARINT = 4,    /* more than ten bytes, or cut off by the end of its message */
  FP_BAD_LENGTH = 5,    /* a length that runs past the end of the enclosing message */
  FP_BAD_GROUP = 6,     /* an end of group without its start, or a start without its end */
  FP_BAD_UTF8 = 7,      /* a string field that is not UTF-8 */
  FP_TOO_DEEP = 8,      /* messages nested more than a hundred deep */
  FP_CHANGED = 9,       /* the bytes are not those that were indexed */
  /* remarks for the log, not faults */
  FP_NO_METADATA = 10,  /* an event with a metadata id that its plane does not declare */
  FP_NO_TEXT = 11,      /* a ref to an id that is not declared */
  /* of kernels */
  FP_OVERFLOW = 12,     /* a sum that does not fit 64 bits */
  FP_UNSORTED = 13,     /* rows that are not in the order that a kernel needs */
  FP_OUT_OF_RANGE = 14, /* a number that leads outside of a table */
  FP_CROSSED = 15,      /* some siblings overlap, so the sum of their durations is more than their union */
  FP_TOO_LONG = 16,     /* more work than the caller allows */
  FP_UNREADABLE = 17,   /* the system could not read a file */
  FP_TOO_MANY = 18,     /* messages that take too much memory for the size of the capture */
  FP_BAD_JSON = 19      /* neither JSON nor one of its dialects */
} fp_code;

/* `what` is a string constant such as "XEvent.stats"; it is not freed. */
typedef struct fp_fault {
  fp_code code;
  uint64_t offset;
  const char *what;
} fp_fault;

/* Fills the fault and returns its code, so that a failing function can end in one line. */
static inline fp_code fp_fail(fp_fault *fault, fp_code code, uint64_t offset, const char *what) {
  fault->code = code;
  fault->offset = offset;
  fault->what = what;
  return code;
}

/* A code as one word, for tables. */
const char *fp_code_name(fp_code code);
/* A sentence for a code, to be followed by what was being read. */
const char *fp_code_text(fp_code code);

#endif
