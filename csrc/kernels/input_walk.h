/* The nodes of a graph, each where a walk from consumers to producers first meets it. */
#ifndef FASTPROF_INPUT_WALK_H
#define FASTPROF_INPUT_WALK_H

#include <stddef.h>
#include <stdint.h>

/* Node n takes outputs of producer[begins[n]] .. producer[begins[n + 1] - 1]. */
typedef struct {
  const int64_t *begins, *producer;
} fp_inputs;

/* Writes the nodes that a walk depth first meets, from the roots in their order to inputs in theirs, and the depth of
 * each, that of roots being 1. Returns their number. `next` and `path` have room for a number a node; `next` comes
 * filled with -1. Circles end where they close. Nodes and inputs are each looked at once. Cannot fail. */
size_t fp_input_walk(const fp_inputs *inputs, const int64_t *roots, size_t root_count, int64_t *next, int64_t *path,
                     int64_t *order, int64_t *depth);

#endif
