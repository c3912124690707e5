#include "kernels/longest_path.h"

#include <string.h>

#include "time_sums.h"

/* A node is settled when all edges to it were looked at; then those from it are:
 *
 *        3       4              settled: a (0), b (3), c (max(3 + 4, 5) = 7)
 *     a ---> b ---> c
 *      \___________/
 *            5
 *
 * `leaving` has the edges by the node that they leave, node n's at first[n]..first[n + 1]. `missing` counts edges to a
 * node that were not looked at yet; it is -1 once the node is in `settled`. */
typedef struct {
  int32_t *first, *leaving, *missing, *settled;
  size_t settled_count;
} path_search;

static void settle(path_search *search, int32_t node) {
  search->missing[node] = -1;
  search->settled[search->settled_count++] = node;
}

/* Edges by the node that they leave: counts, then places, as a counting sort has it. */
static void order_edges(path_search *search, const fp_path_edges *edges) {
  int32_t *first = search->first;
  for (size_t i = 0; i < edges->count; i++) {
    first[edges->source[i] + 1]++;
    search->missing[edges->target[i]]++;
  }
  for (size_t node = 0; node < edges->nodes; node++) first[node + 1] += first[node];
  for (size_t i = edges->count; i-- > 0;) search->leaving[--first[edges->source[i] + 1]] = (int32_t)i;
  /* each first[n + 1] has moved down to where the edges of n begin: move them back */
  memmove(first, first + 1, edges->nodes * sizeof *first);
  first[edges->nodes] = (int32_t)edges->count;
}

static void follow(path_search *search, const fp_path_edges *edges, int32_t node, int64_t *reach, int32_t *via,
                   int64_t *cut) {
  for (int32_t place = search->first[node]; place < search->first[node + 1]; place++) {
    int32_t edge = search->leaving[place], to = edges->target[edge];
    if (search->missing[to] < 0) { /* of a circle that was broken */
      (*cut)++;
      continue;
    }
    int64_t sum = fp_time_sum(reach[node], edges->weight[edge]);
    if (sum > reach[to] || (sum == reach[to] && via[to] < 0)) {
      reach[to] = sum;
      via[to] = edge;
    }
    if (--search->missing[to] == 0) settle(search, to);
  }
}

static void search_all(path_search *search, const fp_path_edges *edges, int64_t *reach, int32_t *via, int64_t *cut) {
  size_t done = 0;
  for (size_t node = 0; node < edges->nodes; node++)
    if (!search->missing[node]) settle(search, (int32_t)node);
  for (size_t next = 0; next < edges->nodes; next++) {
    for (; done < search->settled_count; done++) follow(search, edges, search->settled[done], reach, via, cut);
    if (search->missing[next] >= 0) settle(search, (int32_t)next); /* it lies on a circle */
  }
  for (; done < search->settled_count; done++) follow(search, edges, search->settled[done], reach, via, cut);
}

fp_code fp_longest_path(fp_memory *memory, const fp_path_edges *edges, int64_t *reach, int32_t *via, int64_t *cut) {
  size_t nodes = edges->nodes;
  int32_t *room = fp_alloc(memory, (3 * nodes + 1 + edges->count) * sizeof *room);
  if (!room) return FP_NO_MEMORY;
  memset(room, 0, (3 * nodes + 1) * sizeof *room);
  path_search search = {room, room + 3 * nodes + 1, room + nodes + 1, room + 2 * nodes + 1, 0};
  order_edges(&search, edges);
  for (size_t node = 0; node < nodes; node++) reach[node] = 0, via[node] = -1;
  *cut = 0;
  search_all(&search, edges, reach, via, cut);
  fp_release(memory, room);
  return FP_OK;
}
