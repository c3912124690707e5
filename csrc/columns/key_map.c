/* As columns/strings.c, with keys of fixed size. */
#include "columns/key_map.h"

#include <string.h>

static uint64_t folded(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static size_t hash_of(uint64_t seed, const fp_key *key) {
  uint64_t hash = ~seed, factor = seed | 1;
  for (int i = 0; i < 4; i++) hash = folded(hash ^ key->words[i], factor) + key->words[i];
  return (size_t)(hash ^ hash >> 32);
}

/* The slot of a key, or the free one where it belongs. The map must have slots; half of them are always free. */
static size_t slot_of(const fp_key_map *map, const fp_key *key) {
  size_t slot = hash_of(map->memory->seed, key) & (map->slot_count - 1);
  const fp_key *keys = map->keys.items;
  while (map->slots[slot] && memcmp(&keys[map->slots[slot] - 1], key, sizeof *key))
    slot = (slot + 1) & (map->slot_count - 1);
  return slot;
}

/* Doubles the slots. Fails only when memory runs out; the map is unchanged then. */
static bool grow(fp_key_map *map) {
  size_t count = map->slot_count ? map->slot_count * 2 : 64;
  uint32_t *slots = fp_alloc_zeroed(map->memory, count, sizeof *slots);
  if (!slots) return false;
  fp_release(map->memory, map->slots);
  map->slots = slots;
  map->slot_count = count;
  const fp_key *keys = map->keys.items;
  for (size_t i = 0; i < map->keys.count; i++) slots[slot_of(map, &keys[i])] = (uint32_t)i + 1;
  return true;
}

int32_t fp_key_map_find(const fp_key_map *map, const fp_key *key) {
  return map->slot_count ? (int32_t)map->slots[slot_of(map, key)] - 1 : -1;
}

int32_t fp_key_map_add(fp_key_map *map, const fp_key *key) {
  if (map->keys.count * 2 >= map->slot_count && !grow(map)) return -1;
  size_t slot = slot_of(map, key);
  if (map->slots[slot]) return (int32_t)map->slots[slot] - 1;
  if (map->keys.count >= INT32_MAX) return -1;
  fp_key *added = fp_vector_add(map->memory, &map->keys, sizeof *added);
  if (!added) return -1;
  *added = *key;
  map->slots[slot] = (uint32_t)map->keys.count;
  return (int32_t)map->keys.count - 1;
}

void fp_key_map_free(fp_key_map *map) {
  fp_vector_free(map->memory, &map->keys);
  fp_release(map->memory, map->slots);
  map->slots = NULL;
  map->slot_count = 0;
}
