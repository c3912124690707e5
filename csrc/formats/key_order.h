/* Keys of events in order of time: by start, longer first, then as they stand in the file. */
#ifndef FASTPROF_KEY_ORDER_H
#define FASTPROF_KEY_ORDER_H

#include "formats/xspace.h"

/* Sorts keys where they are. Takes linear time if few are far from their place, n log n at worst; beside them, memory for
 * the keys that are out of place, half of all at most. Fails only when memory runs out: then some are sorted. */
bool fp_order_keys(fp_memory *memory, fp_event_key *keys, size_t count);

#endif
