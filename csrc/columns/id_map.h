/* From the ids of a name table (any int64) to their rows: an array where ids are dense, else a hash table. */
#ifndef FASTPROF_ID_MAP_H
#define FASTPROF_ID_MAP_H

#include "memory.h"

/* Zeroed memory is a valid empty map. */
typedef struct fp_id_map {
  int32_t *dense; /* row of id, -1: none */
  uint64_t dense_count;
  int64_t *keys; /* open addressing beside `rows`; rows[slot] < 0 is free */
  int32_t *rows;
  uint64_t slot_count; /* power of two */
  uint64_t factor;     /* of the hash; odd, and another in every process */
  int shift;           /* to as many bits as slots have */
} fp_id_map;

/* Maps ids[i] to rows first + i; a later equal id wins. False for want of memory, the map empty. */
bool fp_id_map_build(fp_memory *memory, fp_id_map *map, const int64_t *ids, size_t count, int32_t first);
/* A map of the same entries that owns its memory. False for want of memory, the copy empty. */
bool fp_id_map_copy(fp_memory *memory, const fp_id_map *map, fp_id_map *copy);
void fp_id_map_free(fp_memory *memory, fp_id_map *map);

int32_t fp_id_map_find_sparse(const fp_id_map *map, int64_t id);

/* The row of the id, or -1. */
static inline int32_t fp_id_map_find(const fp_id_map *map, int64_t id) {
  if ((uint64_t)id < map->dense_count) return map->dense[id];
  return map->slot_count ? fp_id_map_find_sparse(map, id) : -1;
}

#endif
