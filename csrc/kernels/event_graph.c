#include "kernels/event_graph.h"

#include <string.h>

/* Counting sort: (row, link) pairs, sorted by row, become lists of rows by link. Counts are kept two places further
 * on, sums one place further on, so that filling the lists leaves begins[l] where list l begins:
 *
 *    members (row, link)   (0,1) (2,0) (2,1) (5,1)
 *    counts at [l + 2]     0 0 1 3
 *    begins                0 1 4             rows  2 | 0 2 5
 */
static bool by_link(fp_graph *graph, const fp_member *members, size_t count, int64_t **begins, int32_t **rows) {
  int64_t *at = fp_alloc_zeroed(graph->memory, graph->link_count + 2, sizeof *at);
  int32_t *found = fp_alloc(graph->memory, count * sizeof *found);
  *begins = at;
  *rows = found;
  if (!at || !found) return false;
  for (size_t i = 0; i < count; i++) at[members[i].link + 2]++;
  for (size_t l = 2; l < graph->link_count + 2; l++) at[l] += at[l - 1];
  for (size_t i = 0; i < count; i++) found[at[members[i].link + 1]++] = members[i].row;
  return true;
}

/* Lists of children from parents. Rows are visited backwards, so each list comes out in ascending order. */
static void nest_children(fp_graph *graph) {
  memset(graph->first_child, 0xff, graph->count * sizeof(int32_t));
  for (size_t i = graph->count; i-- > 0;) {
    int32_t above = graph->parent[i];
    graph->next_sibling[i] = -1;
    if (above < 0) continue;
    graph->next_sibling[i] = graph->first_child[above];
    graph->first_child[above] = (int32_t)i;
  }
}

/* Most events have no links; `linked` spares them the search among members. */
fp_code fp_graph_open(fp_graph *graph) {
  size_t bytes = graph->count * sizeof(int32_t);
  graph->first_child = fp_alloc(graph->memory, bytes);
  graph->next_sibling = fp_alloc(graph->memory, bytes);
  graph->linked = fp_alloc_zeroed(graph->memory, graph->count, 1);
  graph->seen = fp_alloc_zeroed(graph->memory, graph->count, sizeof(int32_t));
  graph->link_seen = fp_alloc_zeroed(graph->memory, graph->link_count, sizeof(int32_t));
  bool ok = graph->first_child && graph->next_sibling && graph->linked && graph->seen && graph->link_seen &&
            by_link(graph, graph->producers, graph->producer_count, &graph->producers_of, &graph->from_link) &&
            by_link(graph, graph->consumers, graph->consumer_count, &graph->consumers_of, &graph->to_link);
  if (!ok) return FP_NO_MEMORY;
  nest_children(graph);
  for (size_t i = 0; i < graph->producer_count; i++) graph->linked[graph->producers[i].row] |= 1;
  for (size_t i = 0; i < graph->consumer_count; i++) graph->linked[graph->consumers[i].row] |= 2;
  return FP_OK;
}

void fp_graph_close(fp_graph *graph) {
  void **owned[] = {(void **)&graph->first_child, (void **)&graph->next_sibling, (void **)&graph->producers_of,
                    (void **)&graph->consumers_of, (void **)&graph->from_link, (void **)&graph->to_link,
                    (void **)&graph->linked, (void **)&graph->seen, (void **)&graph->link_seen};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
    fp_release(graph->memory, *owned[i]);
    *owned[i] = NULL;
  }
  fp_vector_free(graph->memory, &graph->queue);
}

/* Bisection. Only events with links get here, so the members need no index by row. */
size_t fp_first_member(const fp_member *members, size_t count, int32_t row) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (members[middle].row < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
