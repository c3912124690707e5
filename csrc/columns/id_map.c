#include "columns/id_map.h"

#include <string.h>

/* Multiplicative hashing: the high bits of the product are the best mixed ones. */
static uint64_t slot_of(const fp_id_map *map, int64_t id) {
  return ((uint64_t)id * map->factor) >> map->shift;
}

/* An array of rows by id. Later ids overwrite earlier ones, so the last of equal ids wins. */
static bool build_dense(fp_memory *memory, fp_id_map *map, const int64_t *ids, size_t count, int32_t first,
                        uint64_t size) {
  map->dense = fp_alloc(memory, size * sizeof *map->dense);
  if (!map->dense) return false;
  memset(map->dense, 0xFF, size * sizeof *map->dense);
  map->dense_count = size;
  for (size_t i = 0; i < count; i++) map->dense[ids[i]] = first + (int32_t)i;
  return true;
}

/* A hash table that is at most half full, with linear probing.
 *
 *    slot    0    1    2    3    4    5  ...       id 40 hashes to slot 2, which id 7 has taken,
 *    keys    -    -    7    40   -    -            so it is in slot 3; a search ends at the first free slot
 */
static bool build_sparse(fp_memory *memory, fp_id_map *map, const int64_t *ids, size_t count, int32_t first) {
  uint64_t size = 16;
  int bits = 4;
  for (; size < count * 2; bits++) size *= 2;
  map->keys = fp_alloc(memory, size * sizeof *map->keys);
  map->rows = fp_alloc(memory, size * sizeof *map->rows);
  if (!map->keys || !map->rows) {
    fp_id_map_free(memory, map);
    return false;
  }
  memset(map->rows, 0xFF, size * sizeof *map->rows);
  map->slot_count = size;
  map->factor = memory->seed | 1;
  map->shift = 64 - bits;
  for (size_t i = 0; i < count; i++) {
    uint64_t slot = slot_of(map, ids[i]);
    while (map->rows[slot] >= 0 && map->keys[slot] != ids[i]) slot = (slot + 1) & (size - 1);
    map->keys[slot] = ids[i];
    map->rows[slot] = first + (int32_t)i;
  }
  return true;
}

/* Dense if an array needs at most eight entries per id. Negative ids, as unsigned numbers, are huge and so make the
 * map sparse. */
bool fp_id_map_build(fp_memory *memory, fp_id_map *map, const int64_t *ids, size_t count, int32_t first) {
  memset(map, 0, sizeof *map);
  if (!count) return true;
  uint64_t largest = 0;
  for (size_t i = 0; i < count; i++)
    if ((uint64_t)ids[i] > largest) largest = (uint64_t)ids[i];
  if (largest < count * 8 + 64) return build_dense(memory, map, ids, count, first, largest + 1);
  return build_sparse(memory, map, ids, count, first);
}

int32_t fp_id_map_find_sparse(const fp_id_map *map, int64_t id) {
  uint64_t slot = slot_of(map, id);
  while (map->rows[slot] >= 0) {
    if (map->keys[slot] == id) return map->rows[slot];
    slot = (slot + 1) & (map->slot_count - 1);
  }
  return -1;
}

/* A copy of `size` bytes; NULL where there are none, and when memory runs out. */
static void *copy_of(fp_memory *memory, const void *bytes, size_t size) {
  void *copy = size ? fp_alloc(memory, size) : NULL;
  if (copy) memcpy(copy, bytes, size);
  return copy;
}

bool fp_id_map_copy(fp_memory *memory, const fp_id_map *map, fp_id_map *copy) {
  *copy = *map;
  copy->dense = copy_of(memory, map->dense, map->dense_count * sizeof *map->dense);
  copy->keys = copy_of(memory, map->keys, map->slot_count * sizeof *map->keys);
  copy->rows = copy_of(memory, map->rows, map->slot_count * sizeof *map->rows);
  bool complete = (!map->dense_count || copy->dense) && (!map->slot_count || (copy->keys && copy->rows));
  if (!complete) fp_id_map_free(memory, copy);
  return complete;
}

void fp_id_map_free(fp_memory *memory, fp_id_map *map) {
  fp_release(memory, map->dense);
  fp_release(memory, map->keys);
  fp_release(memory, map->rows);
  memset(map, 0, sizeof *map);
}
