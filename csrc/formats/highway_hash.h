/* HighwayHash of 64 bits, with the key that Riegeli's files use. */
#ifndef FASTPROF_HIGHWAY_HASH_H
#define FASTPROF_HIGHWAY_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t fp_riegeli_hash(const uint8_t *data, size_t size);

/* The same of bytes that come in pieces: four lanes, and bytes that wait until there are 32. */
typedef struct fp_riegeli_hasher {
  uint64_t v0[4], v1[4], mul0[4], mul1[4];
  uint8_t rest[32];
  size_t rest_size;
} fp_riegeli_hasher;

void fp_riegeli_hash_begin(fp_riegeli_hasher *hasher);
void fp_riegeli_hash_more(fp_riegeli_hasher *hasher, const uint8_t *data, size_t size);
/* The hash of what has come; more may come. */
uint64_t fp_riegeli_hash_now(const fp_riegeli_hasher *hasher);

#endif
