/* Which event of a line encloses which. */
#ifndef FASTPROF_EVENT_PARENTS_H
#define FASTPROF_EVENT_PARENTS_H

#include "memory.h"
#include "status.h"

/* A stretch of a line that is not an event but separates events. It applies from row `before` on. Regions are sorted by
 * `before`, and of equal ones the longer comes first. */
typedef struct fp_region {
  int64_t before, start, duration;
} fp_region;

/* Writes the row of the innermost event that encloses each event, or -1, to parent[first..last). These are the rows of
 * one line, sorted by start, the longer event first. Events with `apart` set (NULL: none are) neither enclose others nor
 * are enclosed. A region separates: an event inside it only gets a parent that is inside it too. `slack`: see fp_reaches.
 * Fails only when memory runs out. */
fp_code fp_parents(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *apart,
                   const fp_region *regions, size_t region_count, int64_t slack, int64_t first, int64_t last, int32_t *parent);

#endif
