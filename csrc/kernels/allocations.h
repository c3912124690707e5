/* Allocations and their frees: which ends which, by address, in the order of time. */
#ifndef FASTPROF_ALLOCATIONS_H
#define FASTPROF_ALLOCATIONS_H

#include "memory.h"

/* What became of the memory of an event, or where it came from. */
enum fp_fate {
  FP_FATE_UNKNOWN,         /* its address is not recorded */
  FP_FREED,                /* an allocation and the free that ends it are known */
  FP_HELD_AT_END,          /* an allocation that no free follows */
  FP_REPLACED,             /* an allocation whose address was allocated again: its free is missing */
  FP_HELD_BEFORE,          /* a free, the first event at its address */
  FP_ALLOCATION_LOST,      /* a free at an address that was free already: its allocation is missing */
};

/* Events of several allocators: those of allocator a are bounds[a] to bounds[a + 1], in the order of time. */
typedef struct fp_allocation_events {
  const uint8_t *is_allocation; /* 0: a free */
  const int64_t *address;       /* the bits of an unsigned one */
  const uint8_t *known;         /* 0 where the address is not recorded; NULL: it is everywhere */
  size_t count;                 /* below 2^31 */
  const int64_t *bounds;
  size_t allocator_count;
} fp_allocation_events;

/* Writes the partner of each event, the free of an allocation and the allocation of a free, -1: none; and its fate.
 * A second allocation of an address that is not free ends the first, unless `keep_first`: then it is passed over, and
 * is the one that is FP_REPLACED. False for want of memory. */
bool fp_match_allocations(fp_memory *memory, const fp_allocation_events *events, bool keep_first, int32_t *partner,
                          uint8_t *fate);

#endif
