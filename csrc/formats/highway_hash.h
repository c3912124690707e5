/* HighwayHash of 64 bits, with the key that Riegeli's files use. */
#ifndef FASTPROF_HIGHWAY_HASH_H
#define FASTPROF_HIGHWAY_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t fp_riegeli_hash(const uint8_t *data, size_t size);

#endif
