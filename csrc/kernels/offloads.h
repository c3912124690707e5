/* Transfers between a device and its host: a start and the end that completes it, placed on rows so that few overlap. */
#ifndef FASTPROF_OFFLOADS_H
#define FASTPROF_OFFLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"

/* How many rows there are at most; what fits on none goes on the last. */
enum { FP_OFFLOAD_ROWS = 41 };

/* Starts and ends in order of time, `key` (from 0, below `keys`) tells which belong together: an end completes the earliest
 * start of its key that none has completed yet, else it is left out. Writes of each transfer, in the order of their
 * ends, the places of start and end, and its row: of those that are free when it starts the one that got free first, of
 * several the last of them; else a new one. Returns how many transfers there are, -1: memory ran out. */
int64_t fp_offloads(fp_memory *memory, const int64_t *begin, const int64_t *end, const int32_t *key, const uint8_t *starts,
                    size_t count, size_t keys, int64_t *start_at, int64_t *end_at, int32_t *row);

#endif
