/* Transfers between a device and its host: pairs of a start and the end that completes it, placed on rows so that few
 * of a row overlap. */
#ifndef FASTPROF_OFFLOADS_H
#define FASTPROF_OFFLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "status.h"

/* The largest number of rows. A transfer that fits on none goes on the last. */
enum { FP_OFFLOAD_ROWS = 41 };

/* Pairs starts with ends. Both come in order of time; those with equal `key` (below `keys`) belong together, and an
 * end completes the earliest open start of its key. An end without an open start is left out.
 *
 *    event   S(a) S(b) S(a) E(a) E(b) E(a)         S: start, E: end, with their keys
 *    pairs   1st S(a) with 1st E(a), S(b) with E(b), 2nd S(a) with 2nd E(a)
 *
 * Writes for each transfer, in order of its end, the places of its start and end, and its row: of the rows that are
 * free when it starts the one that became free first (of several such the last), else a new one. `transfers` gets
 * their number. */
fp_code fp_offloads(fp_memory *memory, const int64_t *begin, const int64_t *end, const int32_t *key, const uint8_t *starts,
                    size_t count, size_t keys, int64_t *start_at, int64_t *end_at, int32_t *row,
                    size_t *transfers);

#endif
