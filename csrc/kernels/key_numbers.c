#include "kernels/key_numbers.h"

static uint64_t hash_of(const int64_t *const *columns, size_t width, size_t row, uint64_t seed) {
  uint64_t hash = seed | 1;
  for (size_t j = 0; j < width; j++) {
    hash = (hash ^ (uint64_t)columns[j][row]) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 29;
    hash *= seed | 1;
    hash ^= hash >> 32;
  }
  return hash;
}

static bool equal(const int64_t *const *columns, size_t width, size_t a, size_t b) {
  for (size_t j = 0; j < width; j++)
    if (columns[j][a] != columns[j][b]) return false;
  return true;
}

int64_t fp_key_numbers(fp_memory *memory, const int64_t *const *columns, size_t width, size_t count, int32_t *numbers) {
  size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  int32_t *first = fp_alloc_zeroed(memory, slots, sizeof *first); /* row + 1 of the first key in a slot */
  if (!first) return -1;
  int32_t known = 0;
  for (size_t i = 0; i < count; i++) {
    size_t slot = hash_of(columns, width, i, memory->seed) & (slots - 1);
    while (first[slot] && !equal(columns, width, (size_t)first[slot] - 1, i)) slot = (slot + 1) & (slots - 1);
    if (!first[slot]) {
      first[slot] = (int32_t)i + 1;
      numbers[i] = known++;
    } else {
      numbers[i] = numbers[first[slot] - 1];
    }
  }
  fp_release(memory, first);
  return known;
}
