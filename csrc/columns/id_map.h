/* Rows by id: the ids of a name table (any int64) lead to their rows, through an array where ids are dense and a hash
 * table where they are not. */
#ifndef FASTPROF_ID_MAP_H
#define FASTPROF_ID_MAP_H

#include "memory.h"

/* Zeroed memory is a valid empty map. The map owns its arrays. */
typedef struct fp_id_map {
  int32_t *dense; /* by id: its row; -1: none */
  uint64_t dense_count;
  int64_t *keys; /* by slot: an id; open addressing */
  int32_t *rows; /* by slot: its row; negative: the slot is free */
  uint64_t slot_count; /* power of two */
  uint64_t factor;     /* of the hash: odd, and different in every process */
  int shift;           /* leaves as many high bits of the product as slots need */
} fp_id_map;

/* Maps ids[i] to row first + i; of equal ids the last wins. Fails only when memory runs out; the map is empty then. */
bool fp_id_map_build(fp_memory *memory, fp_id_map *map, const int64_t *ids, size_t count, int32_t first);
/* A map of the same entries that owns its memory. Fails only when memory runs out; the copy is empty then. */
bool fp_id_map_copy(fp_memory *memory, const fp_id_map *map, fp_id_map *copy);
void fp_id_map_free(fp_memory *memory, fp_id_map *map);

/* The second half of fp_id_map_find. */
int32_t fp_id_map_find_sparse(const fp_id_map *map, int64_t id);

/* The row of an id; -1 if the map does not have it. */
static inline int32_t fp_id_map_find(const fp_id_map *map, int64_t id) {
  if ((uint64_t)id < map->dense_count) return map->dense[id];
  return map->slot_count ? fp_id_map_find_sparse(map, id) : -1;
}

#endif
