/* Both searches go down the graph from many events at once, so that each event and each link is visited a bounded
 * number of times, however they are connected.
 *
 * Nearest marks. A breadth-first search from all marked events gives each event its distance from the nearest mark:
 *
 *    M (0)                   M: marked, distance 0
 *    |-- a (1)               a: child of M
 *    |-- link --> b (1)      b: consumer of a link that M produces for
 *             `-- c (2)      c: child of b
 *
 * Events are then visited by ascending distance. Each takes the answer of the first of its parents that is one step
 * nearer, in the order in which a search upwards from it would meet them: the enclosing event, then its links. So the
 * answer is the one that nearest() in event_groups.c gives.
 *
 * Covered roots. Every root of a level sends its number down to all events below it. An event keeps the first two
 * different numbers that arrive and passes on only those:
 *
 *    r1 --> x --> r2 --> y       x keeps r1; r2 keeps r1 (and so is covered); y keeps r1 and r2
 *    r3 ----------^              r2 also receives r3; a third number would be dropped
 *
 * Two numbers are enough: the question is only whether a number other than the root's own has arrived. So an event is
 * visited at most twice for each of its parents, even on circles of links. */
#include "kernels/event_reach.h"

#include <string.h>

/* ---- the nearest mark above every event ----------------------------------------------------------- */

/* Distances from the marks, and the events in order of distance. */
typedef struct layers {
  fp_graph *graph;
  int32_t *distance;      /* by row; -1: not reached from any mark */
  int32_t *link_distance; /* of its nearest producer */
  int32_t *link_nearest;  /* the answer of the first of its nearest producers; -1: not looked up yet */
  int32_t *order;         /* rows by distance: also the queue of the search */
  size_t count;
} layers;

/* Gives a row its distance, unless it has a smaller one. */
static void reach(layers *l, int32_t row, int32_t distance) {
  if (l->distance[row] >= 0) return;
  l->distance[row] = distance;
  l->order[l->count++] = row;
}

/* Visits what is one step below a row. The first producer of a link that is reached is the nearest, so later ones are
 * ignored. */
static void reach_below(layers *l, int32_t row) {
  fp_graph *graph = l->graph;
  int32_t next = l->distance[row] + 1;
  for (int32_t child = graph->first_child[row]; child >= 0; child = graph->next_sibling[child]) reach(l, child, next);
  if (!(graph->linked[row] & 1)) return;
  size_t i = fp_first_member(graph->producers, graph->producer_count, row);
  for (; i < graph->producer_count && graph->producers[i].row == row; i++) {
    int32_t link = graph->producers[i].link;
    if (l->link_distance[link] >= 0) continue;
    l->link_distance[link] = next - 1;
    for (int64_t j = graph->consumers_of[link]; j < graph->consumers_of[link + 1]; j++) reach(l, graph->to_link[j], next);
  }
}

/* The answer of the first of a link's nearest producers. It is the same for all consumers, and so it is looked up
 * once. */
static int32_t through_link(layers *l, int32_t link, const int32_t *nearest) {
  fp_graph *graph = l->graph;
  if (l->link_nearest[link] < 0) {
    int64_t j = graph->producers_of[link];
    while (l->distance[graph->from_link[j]] != l->link_distance[link]) j++;
    l->link_nearest[link] = nearest[graph->from_link[j]];
  }
  return l->link_nearest[link];
}

/* The answer of the first of a row's nearest parents. */
static int32_t from_above(layers *l, int32_t row, const int32_t *nearest) {
  fp_graph *graph = l->graph;
  int32_t above = graph->parent[row], wanted = l->distance[row] - 1;
  if (above >= 0 && l->distance[above] == wanted) return nearest[above];
  size_t i = fp_first_member(graph->consumers, graph->consumer_count, row);
  while (l->link_distance[graph->consumers[i].link] != wanted) i++;
  return through_link(l, graph->consumers[i].link, nearest);
}

/* Two passes over the same order: distances on the way down, answers by ascending distance. */
fp_code fp_nearest_above_all(fp_graph *graph, const uint8_t *marks, uint8_t bits, int32_t *nearest) {
  layers l = {.graph = graph};
  l.distance = fp_alloc(graph->memory, graph->count * sizeof(int32_t));
  l.order = fp_alloc(graph->memory, graph->count * sizeof(int32_t));
  l.link_distance = fp_alloc(graph->memory, graph->link_count * sizeof(int32_t));
  l.link_nearest = fp_alloc(graph->memory, graph->link_count * sizeof(int32_t));
  bool ok = l.distance && l.order && l.link_distance && l.link_nearest;
  if (ok) {
    memset(l.distance, 0xff, graph->count * sizeof(int32_t));
    memset(l.link_distance, 0xff, graph->link_count * sizeof(int32_t));
    memset(l.link_nearest, 0xff, graph->link_count * sizeof(int32_t));
    memset(nearest, 0xff, graph->count * sizeof(int32_t));
    for (size_t row = 0; row < graph->count; row++)
      if (marks[row] & bits) reach(&l, (int32_t)row, 0);
    for (size_t i = 0; i < l.count; i++) reach_below(&l, l.order[i]);
    for (size_t i = 0; i < l.count; i++) {
      int32_t row = l.order[i];
      nearest[row] = l.distance[row] ? from_above(&l, row, nearest) : row;
    }
  }
  fp_release(graph->memory, l.distance);
  fp_release(graph->memory, l.order);
  fp_release(graph->memory, l.link_distance);
  fp_release(graph->memory, l.link_nearest);
  return ok ? FP_OK : FP_NO_MEMORY;
}

/* ---- roots below roots ---------------------------------------------------------------------------- */

/* A root's number on its way down: it still has to be passed to what is below `row`. */
typedef struct message {
  int32_t row, root;
} message;

/* Counting sort of the roots by level, with counts two places further on as in event_graph.c. */
static bool sort_by_level(fp_cover *cover) {
  const fp_graph *graph = cover->graph;
  int32_t last = 0;
  for (size_t row = 0; row < graph->count; row++)
    if (cover->level[row] > last) last = cover->level[row];
  cover->begins = fp_alloc_zeroed(graph->memory, (size_t)last + 3, sizeof(int64_t));
  if (!cover->begins) return false;
  for (size_t row = 0; row < graph->count; row++) cover->begins[cover->level[row] + 2]++;
  cover->begins[2] = 0; /* rows that are no roots */
  for (int32_t l = 2; l <= last + 2; l++) cover->begins[l] += cover->begins[l - 1];
  cover->rows = fp_alloc(graph->memory, (size_t)cover->begins[last + 2] * sizeof(int32_t));
  if (!cover->rows) return false;
  for (size_t row = 0; row < graph->count; row++)
    if (cover->level[row]) cover->rows[cover->begins[cover->level[row] + 1]++] = (int32_t)row;
  return true;
}

bool fp_cover_open(fp_cover *cover) {
  const fp_graph *graph = cover->graph;
  cover->above = fp_alloc(graph->memory, graph->count * sizeof *cover->above);
  cover->link_above = fp_alloc(graph->memory, graph->link_count * sizeof *cover->link_above);
  if (!cover->above || !cover->link_above || !sort_by_level(cover)) return false;
  memset(cover->above, 0xff, graph->count * sizeof *cover->above);
  memset(cover->link_above, 0xff, graph->link_count * sizeof *cover->link_above);
  return true;
}

void fp_cover_close(fp_cover *cover) {
  fp_memory *memory = cover->graph->memory;
  fp_release(memory, cover->above);
  fp_release(memory, cover->link_above);
  fp_release(memory, cover->begins);
  fp_release(memory, cover->rows);
  fp_vector_free(memory, &cover->queue);
  fp_vector_free(memory, &cover->noted_rows);
  fp_vector_free(memory, &cover->noted_links);
}

/* Keeps a root's number at an event or a link (`of`). *news: it was not there and had room. The first number of an
 * event or link puts it on the list `noted`, which is what forget() has to clear. */
static bool note(fp_cover *cover, fp_two_roots *all, int32_t of, int32_t root, fp_vector *noted, bool *news) {
  fp_two_roots *known = &all[of];
  *news = known->first != root && known->second < 0;
  if (!*news) return true;
  if (known->first >= 0) {
    known->second = root;
    return true;
  }
  int32_t *item = fp_vector_add(cover->graph->memory, noted, sizeof *item);
  if (!item) return false;
  *item = of;
  known->first = root;
  return true;
}

/* Passes a root's number to an event, which will pass it on if it is news. Events with a group are not entered. */
static bool pass_to(fp_cover *cover, int32_t row, int32_t root) {
  bool news;
  cover->effort++;
  if (cover->group[row] >= 0) return true;
  if (!note(cover, cover->above, row, root, &cover->noted_rows, &news)) return false;
  if (!news) return true;
  message *fresh = fp_vector_add(cover->graph->memory, &cover->queue, sizeof *fresh);
  if (fresh) *fresh = (message){row, root};
  return fresh != NULL;
}

/* Passes a root's number to everything one step below a row. */
static bool hand_down(fp_cover *cover, message from) {
  const fp_graph *graph = cover->graph;
  for (int32_t child = graph->first_child[from.row]; child >= 0; child = graph->next_sibling[child])
    if (!pass_to(cover, child, from.root)) return false;
  if (!(graph->linked[from.row] & 1)) return true;
  size_t i = fp_first_member(graph->producers, graph->producer_count, from.row);
  for (; i < graph->producer_count && graph->producers[i].row == from.row; i++) {
    int32_t link = graph->producers[i].link;
    bool news;
    if (!note(cover, cover->link_above, link, from.root, &cover->noted_links, &news)) return false;
    if (!news) continue;
    for (int64_t j = graph->consumers_of[link]; j < graph->consumers_of[link + 1]; j++)
      if (!pass_to(cover, graph->to_link[j], from.root)) return false;
  }
  return true;
}

/* Clears what the search of one level has left. Only what was noted is visited, so a level costs no more than what it
 * reaches. */
static void forget(fp_two_roots *all, fp_vector *noted) {
  for (size_t i = 0; i < noted->count; i++) all[((int32_t *)noted->items)[i]] = (fp_two_roots){-1, -1};
  noted->count = 0;
}

/* The queue is used as a stack: only which events are reached matters, not the order. */
bool fp_cover_level(fp_cover *cover, int32_t level) {
  forget(cover->above, &cover->noted_rows);
  forget(cover->link_above, &cover->noted_links);
  for (int64_t i = cover->begins[level]; i < cover->begins[level + 1]; i++) {
    int32_t root = cover->rows[i];
    if (cover->group[root] >= 0) continue;
    bool ok = hand_down(cover, (message){root, root});
    while (ok && cover->queue.count) ok = hand_down(cover, ((message *)cover->queue.items)[--cover->queue.count]);
    if (!ok) return false;
  }
  return true;
}

bool fp_is_covered(const fp_cover *cover, int32_t root) {
  fp_two_roots known = cover->above[root];
  return known.second >= 0 || (known.first >= 0 && known.first != root);
}
