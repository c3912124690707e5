/* Searches from single events, breadth first. `graph->queue` is both the queue and the list of all events that the
 * search has visited: it is read from the front while new events are appended. `seen` holds the number of the last
 * search that visited a row, so that no array has to be cleared between searches.
 *
 * A search upwards from one event is quick where chains are short, which is the rule. Where they are long, n searches
 * cost n times the length of a chain; then the functions of event_reach.h answer for all events at once. */
#include "kernels/event_groups.h"

#include <string.h>

#include "kernels/event_reach.h"

/* ---- walks --------------------------------------------------------------------------------------- */

/* Starts a search: increments the stamp, so that everything counts as not visited. The arrays are cleared only when
 * the stamps run out. */
static void begin_walk(fp_graph *graph) {
  if (graph->stamp == INT32_MAX) {
    memset(graph->seen, 0, graph->count * sizeof(int32_t));
    memset(graph->link_seen, 0, graph->link_count * sizeof(int32_t));
    graph->stamp = 0;
  }
  graph->stamp++;
  graph->queue.count = 0;
}

/* Queues a row, unless this search has visited it. Fails only when memory runs out. */
static bool visit(fp_graph *graph, int32_t row) {
  if (graph->seen[row] == graph->stamp) return true;
  graph->effort++;
  int32_t *item = fp_vector_add(graph->memory, &graph->queue, sizeof *item);
  if (!item) return false;
  graph->seen[row] = graph->stamp;
  *item = row;
  return true;
}

/* Queues the rows at the other end of the row's links. A search follows each link once: a second producer of a link
 * leads to the same consumers as the first. */
static bool visit_linked(fp_graph *graph, int32_t row, const fp_member *members, size_t count, const int64_t *begins,
                         const int32_t *rows) {
  for (size_t i = fp_first_member(members, count, row); i < count && members[i].row == row; i++) {
    int32_t link = members[i].link;
    if (graph->link_seen[link] == graph->stamp) continue;
    graph->link_seen[link] = graph->stamp;
    for (int64_t j = begins[link]; j < begins[link + 1]; j++)
      if (!visit(graph, rows[j])) return false;
  }
  return true;
}

/* Queues the parents of a row: the enclosing event, then the producers of the links that it consumes from. */
static bool visit_above(fp_graph *graph, int32_t row) {
  if (graph->parent[row] >= 0 && !visit(graph, graph->parent[row])) return false;
  return !(graph->linked[row] & 2) || visit_linked(graph, row, graph->consumers, graph->consumer_count,
                                                   graph->producers_of, graph->from_link);
}

/* Queues the children of a row: enclosed events, then the consumers of the links that it produces for. */
static bool visit_below(fp_graph *graph, int32_t row) {
  for (int32_t child = graph->first_child[row]; child >= 0; child = graph->next_sibling[child])
    if (!visit(graph, child)) return false;
  return !(graph->linked[row] & 1) || visit_linked(graph, row, graph->producers, graph->producer_count,
                                                   graph->consumers_of, graph->to_link);
}

/* Writes the nearest marked row at or above `row` to *found; -1 if there is none. The test of the row itself comes
 * first because it spares a search in most cases. */
static bool nearest(fp_graph *graph, const uint8_t *marks, uint8_t bits, int32_t row, int32_t *found) {
  *found = marks[row] & bits ? row : -1;
  if (*found >= 0) return true;
  begin_walk(graph);
  if (!visit(graph, row)) return false;
  for (size_t i = 0; i < graph->queue.count; i++) {
    int32_t at = ((int32_t *)graph->queue.items)[i];
    if (marks[at] & bits) {
      *found = at;
      return true;
    }
    if (!visit_above(graph, at)) return false;
  }
  return true;
}

/* Whether single searches have become too expensive: they have visited twice as many events as one search over the
 * entire graph would, and a constant for small graphs. */
static bool is_long(const fp_graph *graph, uint64_t from) {
  return graph->effort - from > 2 * (uint64_t)graph->count + 4096;
}

/* If single searches get long, all answers are computed at once, those already found included. */
fp_code fp_nearest_above(fp_graph *graph, const uint8_t *marks, uint8_t bits, const int32_t *rows, size_t count,
                      int32_t *found) {
  uint64_t before = graph->effort;
  for (size_t i = 0; i < count; i++) {
    if (!nearest(graph, marks, bits, rows[i], &found[i])) return FP_NO_MEMORY;
    if (!is_long(graph, before)) continue;
    int32_t *all = fp_alloc(graph->memory, graph->count * sizeof *all);
    bool ok = all && fp_nearest_above_all(graph, marks, bits, all) == FP_OK;
    for (size_t j = 0; ok && j < count; j++) found[j] = all[rows[j]];
    fp_release(graph->memory, all);
    return ok ? FP_OK : FP_NO_MEMORY;
  }
  return FP_OK;
}

/* ---- groups -------------------------------------------------------------------------------------- */

/* Writes to *covered whether another root of the row's level is above it. */
static bool has_root_above(fp_graph *graph, int32_t row, const int32_t *level, bool *covered) {
  *covered = false;
  begin_walk(graph);
  graph->seen[row] = graph->stamp; /* a circle of links leads back to itself, which is not above it */
  if (!visit_above(graph, row)) return false;
  for (size_t i = 0; i < graph->queue.count; i++) {
    int32_t at = ((int32_t *)graph->queue.items)[i];
    if (level[at] == level[row]) {
      *covered = true;
      return true;
    }
    if (!visit_above(graph, at)) return false;
  }
  return true;
}

/* Appends a pair of groups. Events that lie together mostly repeat the last pair, which is left out. */
static bool relate(fp_graph *graph, fp_vector *relations, int32_t parent, int32_t child) {
  fp_relation *last = relations->count ? (fp_relation *)relations->items + relations->count - 1 : NULL;
  if (last && last->parent == parent && last->child == child) return true;
  fp_relation *fresh = fp_vector_add(graph->memory, relations, sizeof *fresh);
  if (fresh) *fresh = (fp_relation){parent, child};
  return fresh != NULL;
}

/* Gives group `number` to the root and to everything below it that has no group. The search stops at events of other
 * groups: below those, everything has a group already. */
static bool spread(fp_graph *graph, int32_t root, int32_t number, int32_t *group, fp_vector *relations) {
  begin_walk(graph);
  if (!visit(graph, root)) return false;
  for (size_t i = 0; i < graph->queue.count; i++) {
    int32_t at = ((int32_t *)graph->queue.items)[i];
    if (group[at] >= 0) {
      if (group[at] != number && !relate(graph, relations, number, group[at])) return false;
      continue;
    }
    group[at] = number;
    if (!visit_below(graph, at)) return false;
  }
  return true;
}

/* The state of all searches for roots above roots: from single events as long as those are cheap, then through a
 * cover. */
typedef struct search {
  fp_cover cover;
  uint64_t before; /* graph->effort when it began, spreading left out */
  uint64_t most;   /* limit of the cover's effort; past it roots count as not covered */
  int32_t known;   /* the level that the cover answers for; 0: it is not open */
} search;

/* Writes to *covered whether another root of its level is above the root. */
static bool is_covered(search *s, int32_t root, bool *covered) {
  const int32_t *level = s->cover.level;
  if (!is_long(s->cover.graph, s->before)) return has_root_above(s->cover.graph, root, level, covered);
  *covered = false;
  if (s->known != level[root]) {
    if (s->cover.effort > s->most) return true;
    if (!s->known && !fp_cover_open(&s->cover)) return false;
    if (!fp_cover_level(&s->cover, level[root])) return false;
    s->known = level[root];
  }
  *covered = fp_is_covered(&s->cover, root);
  return true;
}

/* One root after the other. Searches upwards come before spreading downwards, and only the former are limited. */
fp_code fp_group_events(fp_graph *graph, const int32_t *roots, size_t root_count, const int32_t *level, int32_t first_group,
                     int32_t *group, fp_vector *group_roots, fp_vector *relations) {
  search s = {.cover = {.graph = graph, .level = level, .group = group}, .before = graph->effort};
  s.most = 64 * ((uint64_t)graph->count + graph->producer_count + graph->consumer_count + 64);
  int32_t number = first_group;
  bool ok = true;
  for (size_t i = 0; ok && i < root_count; i++) {
    bool covered = level && group[roots[i]] >= 0;
    ok = covered || !level || is_covered(&s, roots[i], &covered);
    if (!ok || covered) continue;
    uint64_t searched = graph->effort;
    int32_t *root = fp_vector_add(graph->memory, group_roots, sizeof *root);
    ok = root && spread(graph, roots[i], number, group, relations);
    if (ok) *root = roots[i];
    number++;
    s.before += graph->effort - searched; /* only searches upwards count as effort here */
  }
  fp_cover_close(&s.cover);
  return ok ? FP_OK : FP_NO_MEMORY;
}
