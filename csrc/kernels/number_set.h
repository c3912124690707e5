/* An ordered set of numbers below a limit, as a tree of bits: each bit of a level says whether a 64-bit word of the
 * level below has any bit set.
 *
 *    level 1   word 0:  1 0 1 ...                bit 0: word 0 of level 0 is not empty, bit 2: word 2 is not
 *    level 0   word 0:  0 0 1 0 ...  word 1: 0   word 2:  1 0 ...           the set { 2, 128 }
 *
 * So the neighbour of a number is found in one step per level, up and down again: 6 levels for 2^36 numbers. */
#ifndef FASTPROF_NUMBER_SET_H
#define FASTPROF_NUMBER_SET_H

#include "memory.h"

enum { FP_NUMBER_LEVELS = 6 }; /* each takes 6 bits of a number */

/* Zeroed memory is a valid empty set of no numbers. */
typedef struct fp_number_set {
  uint64_t *levels[FP_NUMBER_LEVELS];
  int level_count;
} fp_number_set;

/* Makes an empty set of numbers below `limit`, which is at most 2^36. Fails only when memory runs out; the set is
 * empty then. */
bool fp_number_set_open(fp_memory *memory, fp_number_set *set, size_t limit);
void fp_number_set_close(fp_memory *memory, fp_number_set *set);

/* Numbers must be below the limit. Each call takes one step per level at most. */
void fp_number_set_add(fp_number_set *set, size_t number);
void fp_number_set_remove(fp_number_set *set, size_t number);
bool fp_number_set_has(const fp_number_set *set, size_t number);
/* The largest member that is not above the number; -1: none. */
int64_t fp_number_set_upto(const fp_number_set *set, size_t number);
/* The smallest member that is not below the number; -1: none. */
int64_t fp_number_set_from(const fp_number_set *set, size_t number);

#endif
