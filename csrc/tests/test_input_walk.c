/* Walks from consumers to producers against plain recursion. */
#include <stdbool.h>

#include "kernels/input_walk.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 12, MOST_INPUTS = 4 };

typedef struct {
  int64_t begins[MOST + 1], producer[MOST * MOST_INPUTS], order[MOST], depth[MOST];
  bool met[MOST];
  size_t count;
} walk;

static void recurse(walk *w, int64_t node, int64_t depth) {
  if (w->met[node]) return;
  w->met[node] = true;
  w->order[w->count] = node;
  w->depth[w->count++] = depth;
  for (int64_t at = w->begins[node]; at < w->begins[node + 1]; at++) recurse(w, w->producer[at], depth + 1);
}

static void random_graphs_are_walked_as_by_recursion(void) {
  dice chance = {5};
  for (int round = 0; round < 3000; round++) {
    walk w = {0};
    int64_t roots[MOST], next[MOST], path[MOST], order[MOST], depth[MOST];
    size_t nodes = 1 + roll_below(&chance, MOST), root_count = roll_below(&chance, nodes + 1);
    for (size_t node = 0; node < nodes; node++) {
      w.begins[node + 1] = w.begins[node] + (int64_t)roll_below(&chance, MOST_INPUTS);
      for (int64_t at = w.begins[node]; at < w.begins[node + 1]; at++) w.producer[at] = (int64_t)roll_below(&chance, nodes);
      next[node] = -1;
    }
    for (size_t i = 0; i < root_count; i++) {
      roots[i] = (int64_t)roll_below(&chance, nodes);
      recurse(&w, roots[i], 1);
    }
    fp_inputs inputs = {w.begins, w.producer};
    size_t count = fp_input_walk(&inputs, roots, root_count, next, path, order, depth);
    CHECK_INT(count, w.count);
    for (size_t i = 0; i < count; i++) {
      CHECK_INT(order[i], w.order[i]);
      CHECK_INT(depth[i], w.depth[i]);
    }
  }
}

int main(void) {
  RUN(random_graphs_are_walked_as_by_recursion);
  return 0;
}
