#include "kernels/number_set.h"

enum { BITS = 6, MASK = 63 };

/* Levels of bits, each a 64th of the one below, until one word is left. */
bool fp_number_set_open(fp_memory *memory, fp_number_set *set, size_t limit) {
  *set = (fp_number_set){0};
  size_t words = limit;
  do {
    words = words / 64 + 1;
    uint64_t *level = fp_alloc_zeroed(memory, words, sizeof *level);
    if (!level) {
      fp_number_set_close(memory, set);
      return false;
    }
    set->levels[set->level_count++] = level;
  } while (words > 1);
  return true;
}

void fp_number_set_close(fp_memory *memory, fp_number_set *set) {
  for (int level = 0; level < set->level_count; level++) fp_release(memory, set->levels[level]);
  *set = (fp_number_set){0};
}

/* Sets the number's bit, and the bits above it until one was set already. */
void fp_number_set_add(fp_number_set *set, size_t number) {
  for (int level = 0; level < set->level_count; level++, number >>= BITS) {
    uint64_t *word = &set->levels[level][number >> BITS];
    bool was_there = *word != 0;
    *word |= UINT64_C(1) << (number & MASK);
    if (was_there) return;
  }
}

/* Clears the number's bit, and the bits above it as long as words become empty. */
void fp_number_set_remove(fp_number_set *set, size_t number) {
  for (int level = 0; level < set->level_count; level++, number >>= BITS) {
    uint64_t *word = &set->levels[level][number >> BITS];
    *word &= ~(UINT64_C(1) << (number & MASK));
    if (*word) return;
  }
}

bool fp_number_set_has(const fp_number_set *set, size_t number) {
  return set->level_count && (set->levels[0][number >> BITS] >> (number & MASK) & 1);
}

/* Upwards until a word has a bit left of the path, then down along the highest bits. */
int64_t fp_number_set_upto(const fp_number_set *set, size_t number) {
  uint64_t below = ~UINT64_C(0) >> (MASK - (number & MASK)); /* bits of numbers up to this one */
  for (int level = 0; level < set->level_count; level++) {
    uint64_t bits = set->levels[level][number >> BITS] & below;
    number >>= BITS;
    if (bits) {
      number = number << BITS | (size_t)(MASK - __builtin_clzll(bits));
      while (level-- > 0) number = number << BITS | (size_t)(MASK - __builtin_clzll(set->levels[level][number]));
      return (int64_t)number;
    }
    below = (UINT64_C(1) << (number & MASK)) - 1;
  }
  return -1;
}

/* Upwards until a word has a bit right of the path, then down along the lowest bits. The shift by one comes
 * separately: the total may be 64, which C does not define. */
int64_t fp_number_set_from(const fp_number_set *set, size_t number) {
  uint64_t above = ~UINT64_C(0) << (number & MASK); /* bits of numbers from this one on */
  for (int level = 0; level < set->level_count; level++) {
    uint64_t bits = set->levels[level][number >> BITS] & above;
    number >>= BITS;
    if (bits) {
      number = number << BITS | (size_t)__builtin_ctzll(bits);
      while (level-- > 0) number = number << BITS | (size_t)__builtin_ctzll(set->levels[level][number]);
      return (int64_t)number;
    }
    above = (~UINT64_C(0) << (number & MASK)) << 1;
  }
  return -1;
}
