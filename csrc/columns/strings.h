/* A pool of distinct strings, numbered in the order in which they were first met. */
#ifndef FASTPROF_STRINGS_H
#define FASTPROF_STRINGS_H

#include "memory.h"

/* `bytes` holds the strings end to end; string i is bytes[offsets[i]] to bytes[offsets[i + 1]].
 * Zeroed memory with `memory` set is a valid empty pool. The pool owns all of it. */
typedef struct fp_strings {
  fp_memory *memory;
  fp_vector bytes;   /* uint8_t */
  fp_vector offsets; /* int64_t, one more than there are strings; none at all while empty */
  uint32_t *slots;   /* open addressing: index + 1, 0 is free */
  uint32_t *hashes;  /* hash of string i */
  size_t slot_count; /* power of two */
} fp_strings;

/* The number of the text in the pool, added if it is new; -1 for want of memory. */
int32_t fp_strings_add(fp_strings *pool, const uint8_t *text, size_t length);
/* The number of the text in the pool; -1 where it is not there. */
int32_t fp_strings_find(const fp_strings *pool, const uint8_t *text, size_t length);
size_t fp_strings_count(const fp_strings *pool);
void fp_strings_free(fp_strings *pool);

#endif
