/* An ordered set of numbers below a limit: bits, and above each level of bits another that says where there are any. */
#ifndef FASTPROF_NUMBER_SET_H
#define FASTPROF_NUMBER_SET_H

#include "memory.h"

enum { FP_NUMBER_LEVELS = 6 }; /* of 6 bits each */

/* Zeroed memory is a valid empty set of no numbers. */
typedef struct fp_number_set {
  uint64_t *levels[FP_NUMBER_LEVELS];
  int level_count;
} fp_number_set;

/* An empty set of numbers below `limit`, which is at most 2^36; false for want of memory. */
bool fp_number_set_open(fp_memory *memory, fp_number_set *set, size_t limit);
void fp_number_set_close(fp_memory *memory, fp_number_set *set);

/* Numbers must be below the limit. Each takes one look a level at most. */
void fp_number_set_add(fp_number_set *set, size_t number);
void fp_number_set_remove(fp_number_set *set, size_t number);
bool fp_number_set_has(const fp_number_set *set, size_t number);
/* The largest member that is not above the number; -1: none. */
int64_t fp_number_set_upto(const fp_number_set *set, size_t number);
/* The smallest member that is not below the number; -1: none. */
int64_t fp_number_set_from(const fp_number_set *set, size_t number);

#endif
