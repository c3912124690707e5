/* Pairs allocations with the frees that end them, by address, in order of time. */
#ifndef FASTPROF_ALLOCATIONS_H
#define FASTPROF_ALLOCATIONS_H

#include "memory.h"
#include "status.h"

/* What became of an allocation's memory, or where a free's memory came from. */
enum fp_fate {
  FP_FATE_UNKNOWN,         /* the address is not recorded */
  FP_FREED,                /* an allocation and its free: both are in the trace */
  FP_HELD_AT_END,          /* an allocation that is not freed within the trace */
  FP_REPLACED,             /* an allocation whose address is allocated again: its free is missing */
  FP_HELD_BEFORE,          /* a free that is the first event at its address */
  FP_ALLOCATION_LOST,      /* a free at an address that is free already: its allocation is missing */
};

/* Events of several allocators, in order of time; those of allocator a are bounds[a] .. bounds[a + 1]. Only read. */
typedef struct fp_allocation_events {
  const uint8_t *is_allocation; /* 0: a free */
  const int64_t *address;       /* the bits of an unsigned one */
  const uint8_t *known;         /* 0 where the address is not recorded; NULL: all are */
  size_t count;                 /* below 2^31 */
  const int64_t *bounds;
  size_t allocator_count;
} fp_allocation_events;

/* Writes the partner of each event (the free of an allocation, the allocation of a free, -1: none) and its fate. An
 * allocation at an address that is in use replaces the one before it; with `keep_first` the one before it stays, and
 * the second is skipped as FP_REPLACED. Fails only when memory runs out.
 *
 *    alloc 100   alloc 100   free 100   free 100
 *    REPLACED    FREED       FREED      ALLOCATION_LOST
 */
fp_code fp_match_allocations(fp_memory *memory, const fp_allocation_events *events, bool keep_first, int32_t *partner,
                          uint8_t *fate);

#endif
