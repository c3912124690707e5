/* A hash table whose slots hold rows, not keys: the columns are the keys. It starts small, because most columns hold
 * few distinct keys and a small table stays in the cache; whenever half of it is full, one four times as large replaces
 * it. */
#include "kernels/key_numbers.h"

/* Multiplies and shifts in turn; the seed keeps a file from being made so that its keys collide. */
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

/* Open addressing: a slot holds 1 + the row of the first of several equal keys; 0: free. */
typedef struct first_rows {
  int32_t *row;
  size_t slots; /* a power of two */
} first_rows;

/* The most slots that the first table gets. */
enum { SMALL = 1 << 12 };

/* The slot of a row's key, or the free one where it belongs. */
static int32_t *slot_of(const first_rows *table, const int64_t *const *columns, size_t width, size_t row,
                        uint64_t seed) {
  size_t last = table->slots - 1, slot = hash_of(columns, width, row, seed) & last;
  while (table->row[slot] && !equal(columns, width, (size_t)table->row[slot] - 1, row)) slot = (slot + 1) & last;
  return &table->row[slot];
}

/* Replaces the table by one four times as large. */
static bool enlarge(fp_memory *memory, first_rows *table, const int64_t *const *columns, size_t width) {
  first_rows larger = {NULL, table->slots * 4};
  larger.row = fp_alloc_zeroed(memory, larger.slots, sizeof *larger.row);
  if (!larger.row) return false;
  for (size_t i = 0; i < table->slots; i++)
    if (table->row[i]) *slot_of(&larger, columns, width, (size_t)table->row[i] - 1, memory->seed) = table->row[i];
  fp_release(memory, table->row);
  *table = larger;
  return true;
}

/* A row whose slot is taken has the number of the row in it. */
fp_code fp_key_numbers(fp_memory *memory, const int64_t *const *columns, size_t width, size_t count, int32_t *numbers,
                       size_t *distinct) {
  first_rows table = {NULL, 16};
  while (table.slots < 2 * count && table.slots < SMALL) table.slots *= 2;
  table.row = fp_alloc_zeroed(memory, table.slots, sizeof *table.row);
  bool ok = table.row != NULL;
  size_t known = 0;
  for (size_t i = 0; ok && i < count; i++) {
    int32_t *first = slot_of(&table, columns, width, i, memory->seed);
    if (*first) {
      numbers[i] = numbers[*first - 1];
      continue;
    }
    *first = (int32_t)i + 1;
    numbers[i] = (int32_t)known++;
    if (2 * known > table.slots) ok = enlarge(memory, &table, columns, width);
  }
  fp_release(memory, table.row);
  *distinct = known;
  return ok ? FP_OK : FP_NO_MEMORY;
}
