/* Questions to an event graph: the nearest marked event above an event, and the group that each event belongs to. */
#ifndef FASTPROF_EVENT_GROUPS_H
#define FASTPROF_EVENT_GROUPS_H

#include "kernels/event_graph.h"
#include "status.h"

/* For each of `rows`, writes the nearest event at or above it that has one of `bits` in its mark; -1 if there is none.
 * Fails only when memory runs out. */
fp_code fp_nearest_above(fp_graph *graph, const uint8_t *marks, uint8_t bits, const int32_t *rows, size_t count,
                      int32_t *nearest);

/* Something below an event of group `parent` is in group `child`. */
typedef struct fp_relation {
  int32_t parent, child;
} fp_relation;

/* Numbers groups from first_group on, one for each root in their order, and writes the number to group[] of the root and
 * of every event below it that has no group yet. group[] is -1 where an event has no group.
 *
 * With `level` (NULL: none; as in fp_cover) a root is skipped if it has a group already or another root of its level is
 * above it; roots must be sorted by level then. Circles of links through roots of very many levels could make that
 * search slow: past a bound of effort the remaining roots are not skipped.
 *
 * Appends the root of each new group (int32_t) to *group_roots and each pair of groups where the first reaches into
 * the second to *relations; pairs may repeat. Fails only when memory runs out. */
fp_code fp_group_events(fp_graph *graph, const int32_t *roots, size_t root_count, const int32_t *level, int32_t first_group,
                     int32_t *group, fp_vector *group_roots, fp_vector *relations);

#endif
