/* The path from a root to the node at which the walk stands is a stack; each node on it knows which input comes next.
 *
 *   a takes b, c     path  a    a b    a b d    a b    a      a c           order  a b d c
 *   b takes d              1    1 2    1 2 3                  1 2           depth  1 2 3 2
 *   c takes d                                                 d was met
 */
#include "kernels/input_walk.h"

size_t fp_input_walk(const fp_inputs *inputs, const int64_t *roots, size_t root_count, int64_t *next, int64_t *path,
                     int64_t *order, int64_t *depth) {
  size_t met = 0;
  for (size_t root = 0; root < root_count; root++) {
    int64_t reached = roots[root];
    size_t length = 0;
    for (;;) {
      if (next[reached] < 0) {
        next[reached] = inputs->begins[reached];
        path[length++] = reached;
        order[met] = reached;
        depth[met++] = (int64_t)length;
      }
      while (length && next[path[length - 1]] == inputs->begins[path[length - 1] + 1]) length--;
      if (!length) break;
      reached = inputs->producer[next[path[length - 1]]++];
    }
  }
  return met;
}
