/* A pool of distinct strings, numbered in the order in which they first occur. */
#ifndef FASTPROF_STRINGS_H
#define FASTPROF_STRINGS_H

#include "memory.h"

/* `bytes` holds the strings end to end: string i is bytes[offsets[i]] .. bytes[offsets[i + 1]], which is the layout
 * of an Arrow column. Zeroed memory with `memory` set is a valid empty pool. The pool owns its arrays. */
typedef struct fp_strings {
  fp_memory *memory;
  fp_vector bytes;   /* uint8_t */
  fp_vector offsets; /* int64_t, one more than there are strings; none while the pool is empty */
  uint32_t *slots;   /* open addressing: 1 + the number of a string; 0: free */
  uint32_t *hashes;  /* hash of string i */
  size_t slot_count; /* power of two */
} fp_strings;

/* The number of a text, which is copied into the pool if it is new; -1 when memory runs out. */
int32_t fp_strings_add(fp_strings *pool, const uint8_t *text, size_t length);
/* The number of a text; -1 if it is not in the pool. */
int32_t fp_strings_find(const fp_strings *pool, const uint8_t *text, size_t length);
/* How many strings the pool has. */
size_t fp_strings_count(const fp_strings *pool);
void fp_strings_free(fp_strings *pool);

#endif
