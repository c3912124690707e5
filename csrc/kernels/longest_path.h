/* The longest path of a graph whose edges have weights. */
#ifndef FASTPROF_LONGEST_PATH_H
#define FASTPROF_LONGEST_PATH_H

#include "memory.h"
#include "status.h"

/* Edges between nodes, which are below `nodes`. */
typedef struct {
  const int32_t *source, *target;
  const int64_t *weight;
  size_t count, nodes;
} fp_path_edges;

/* Writes the largest sum of weights of a path that ends at each node (at least 0), and the edge by which that path
 * arrives, or -1 where it begins. Sums stop at the limits of int64. Where edges make a circle, the first of its nodes
 * is reached without those that are not: `cut` is the number of edges that are left out so. Nodes and edges are each
 * looked at once. Edges and nodes are below 2^31. Fails only when memory runs out. */
fp_code fp_longest_path(fp_memory *memory, const fp_path_edges *edges, int64_t *reach, int32_t *via, int64_t *cut);

#endif
