/* A hash table whose slots hold the numbers of keys. Distinct keys lie side by side, in the order of their numbers, so
 * that a lookup touches a slot and a key, and never the columns far behind. The table starts small, because most columns
 * hold few distinct keys and a small table stays in the cache; whenever half of it is full, one four times as large
 * replaces it.
 *
 *    rows   (7,1) (3,2) (7,1)      slots   [ 0 2 0 0 1 ... ]  1 + number      keys   7 1 | 3 2      */
#include <string.h>

#include "kernels/key_numbers.h"

typedef struct key_table {
  size_t width, known; /* integers of a key; distinct keys so far */
  int32_t *slots;      /* open addressing: 1 + the number of the key; 0: free */
  size_t slot_count;   /* a power of two */
  int64_t *keys;       /* room for one more than half as many as slots */
} key_table;

enum {
  SMALL = 1 << 12, /* the most slots that the first table gets */
  AHEAD = 16       /* keys whose slots are fetched before the first of them is looked up */
};

/* Multiplies and shifts in turn; the seed keeps a file from being made so that its keys collide. */
static uint64_t hash_of(const int64_t *key, size_t width, uint64_t seed) {
  uint64_t hash = seed | 1;
  for (size_t j = 0; j < width; j++) {
    hash = (hash ^ (uint64_t)key[j]) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 29;
    hash *= seed | 1;
    hash ^= hash >> 32;
  }
  return hash;
}

static bool equal(const int64_t *a, const int64_t *b, size_t width) {
  for (size_t j = 0; j < width; j++)
    if (a[j] != b[j]) return false;
  return true;
}

/* The slot of a key with this hash, or the free one where it belongs. */
static int32_t *slot_of(const key_table *table, const int64_t *key, uint64_t hash) {
  size_t width = table->width, last = table->slot_count - 1, slot = hash & last;
  while (table->slots[slot] && !equal(&table->keys[(size_t)(table->slots[slot] - 1) * width], key, width))
    slot = (slot + 1) & last;
  return &table->slots[slot];
}

/* Replaces the slots by `slot_count` others; fails only when memory runs out. */
static bool resize(fp_memory *memory, key_table *table, size_t slot_count) {
  int32_t *slots = fp_alloc_zeroed(memory, slot_count, sizeof *slots);
  int64_t *keys = slots ? fp_alloc(memory, (slot_count / 2 + 1) * table->width * sizeof *keys) : NULL;
  if (!keys) {
    fp_release(memory, slots);
    return false;
  }
  if (table->known) memcpy(keys, table->keys, table->known * table->width * sizeof *keys);
  fp_release(memory, table->slots);
  fp_release(memory, table->keys);
  table->slots = slots, table->slot_count = slot_count, table->keys = keys;
  for (size_t i = 0; i < table->known; i++) {
    const int64_t *key = &keys[i * table->width];
    *slot_of(table, key, hash_of(key, table->width, memory->seed)) = (int32_t)i + 1;
  }
  return true;
}

/* Numbers a key, which becomes the next one if it is not known yet; -1: memory ran out. */
static int32_t number_of(fp_memory *memory, key_table *table, const int64_t *key, uint64_t hash) {
  int32_t *slot = slot_of(table, key, hash);
  if (*slot) return *slot - 1;
  memcpy(&table->keys[table->known * table->width], key, table->width * sizeof *key);
  int32_t number = (int32_t)table->known++;
  *slot = number + 1;
  bool full = 2 * table->known > table->slot_count;
  return full && !resize(memory, table, table->slot_count * 4) ? -1 : number;
}

fp_code fp_key_numbers(fp_memory *memory, const int64_t *const *columns, size_t width, size_t count, int32_t *numbers,
                       size_t *distinct) {
  key_table table = {.width = width};
  size_t slot_count = 16;
  while (slot_count < 2 * count && slot_count < SMALL) slot_count *= 2;
  bool ok = resize(memory, &table, slot_count);
  int64_t keys[AHEAD * FP_KEY_WIDTH];
  uint64_t hashes[AHEAD];
  for (size_t from = 0; ok && from < count; from += AHEAD) {
    size_t here = count - from < AHEAD ? count - from : AHEAD;
    for (size_t i = 0; i < here; i++) {
      for (size_t j = 0; j < width; j++) keys[i * width + j] = columns[j][from + i];
      hashes[i] = hash_of(&keys[i * width], width, memory->seed);
      __builtin_prefetch(&table.slots[hashes[i] & (table.slot_count - 1)]);
    }
    for (size_t i = 0; ok && i < here; i++)
      ok = (numbers[from + i] = number_of(memory, &table, &keys[i * width], hashes[i])) >= 0;
  }
  fp_release(memory, table.slots);
  fp_release(memory, table.keys);
  *distinct = table.known;
  return ok ? FP_OK : FP_NO_MEMORY;
}
