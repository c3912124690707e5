/* Numbers of distinct keys of four words, in the order in which they first occur. */
#ifndef FASTPROF_KEY_MAP_H
#define FASTPROF_KEY_MAP_H

#include "memory.h"

typedef struct fp_key {
  uint64_t words[4];
} fp_key;

/* Zeroed memory with `memory` set is a valid empty map. The map owns its arrays. */
typedef struct fp_key_map {
  fp_memory *memory;
  fp_vector keys;    /* fp_key */
  uint32_t *slots;   /* open addressing: 1 + the number of a key; 0: free */
  size_t slot_count; /* power of two */
} fp_key_map;

/* The number of a key, which is added if it is new; -1 when memory runs out. */
int32_t fp_key_map_add(fp_key_map *map, const fp_key *key);
/* The number of a key; -1 if the map does not have it. */
int32_t fp_key_map_find(const fp_key_map *map, const fp_key *key);
void fp_key_map_free(fp_key_map *map);

#endif
