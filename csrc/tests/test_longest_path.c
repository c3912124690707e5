/* Longest paths against trying every path. */
#include "kernels/longest_path.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 9, MOST_EDGES = 14 };

/* The definition: the best of all paths that end at a node. Edges go from smaller nodes to larger ones. */
static int64_t best_to(const fp_path_edges *edges, int32_t node) {
  int64_t best = 0;
  for (size_t i = 0; i < edges->count; i++) {
    if (edges->target[i] != node) continue;
    int64_t sum = best_to(edges, edges->source[i]) + edges->weight[i];
    if (sum > best) best = sum;
  }
  return best;
}

static void random_paths_are_the_longest(void) {
  dice chance = {11};
  for (int round = 0; round < 2000; round++) {
    int32_t from[MOST_EDGES], to[MOST_EDGES], via[MOST];
    int64_t weight[MOST_EDGES], reach[MOST], cut;
    fp_path_edges edges = {from, to, weight, roll_below(&chance, MOST_EDGES), 2 + roll_below(&chance, MOST - 1)};
    for (size_t i = 0; i < edges.count; i++) {
      from[i] = (int32_t)roll_below(&chance, edges.nodes - 1);
      to[i] = from[i] + 1 + (int32_t)roll_below(&chance, edges.nodes - 1 - (size_t)from[i]);
      weight[i] = (int64_t)roll_below(&chance, 10) - 2;
    }
    fp_memory memory;
    fp_memory_init(&memory);
    CHECK(fp_longest_path(&memory, &edges, reach, via, &cut) == FP_OK);
    CHECK_INT(memory.live, 0);
    CHECK_INT(cut, 0);
    for (int32_t node = 0; node < (int32_t)edges.nodes; node++) {
      CHECK_INT(reach[node], best_to(&edges, node));
      if (via[node] < 0) continue;
      CHECK_INT(to[via[node]], node);
      CHECK_INT(reach[node], reach[from[via[node]]] + weight[via[node]]);
    }
  }
}

/*    0 --> 1 --> 2 --> 3      1 and 2 make a circle with the edge back: 1 is reached by 0's edge alone
 *          ^_____|                                                                                   */
static void a_circle_is_cut_at_its_first_node(void) {
  const int32_t from[] = {0, 1, 2, 2}, to[] = {1, 2, 1, 3};
  const int64_t weight[] = {5, 1, 100, 2};
  fp_path_edges edges = {from, to, weight, 4, 4};
  int64_t reach[4], cut;
  int32_t via[4];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_longest_path(&memory, &edges, reach, via, &cut) == FP_OK);
  CHECK_INT(cut, 1);
  const int64_t wanted[] = {0, 5, 6, 8};
  for (int i = 0; i < 4; i++) CHECK_INT(reach[i], wanted[i]);
}

static void sums_stop_at_the_limits(void) {
  const int32_t from[] = {0, 1, 1}, to[] = {1, 2, 1};
  const int64_t weight[] = {INT64_MAX, INT64_MAX, 1};
  fp_path_edges edges = {from, to, weight, 3, 3};
  int64_t reach[3], cut;
  int32_t via[3];
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_longest_path(&memory, &edges, reach, via, &cut) == FP_OK);
  CHECK_INT(reach[2], INT64_MAX);
  CHECK_INT(cut, 1); /* the edge from 1 to itself */
  edges.nodes = edges.count = 0;
  CHECK(fp_longest_path(&memory, &edges, reach, via, &cut) == FP_OK);
}

static void running_out_of_memory_is_reported(void) {
  const int32_t from = 0, to = 1;
  const int64_t weight = 3;
  fp_path_edges edges = {&from, &to, &weight, 1, 2};
  int64_t reach[2], cut;
  int32_t via[2];
  fp_memory memory;
  fp_memory_init(&memory);
  memory.countdown = 0;
  CHECK(fp_longest_path(&memory, &edges, reach, via, &cut) != FP_OK);
}

int main(void) {
  RUN(random_paths_are_the_longest);
  RUN(a_circle_is_cut_at_its_first_node);
  RUN(sums_stop_at_the_limits);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
