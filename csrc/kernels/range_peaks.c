#include "kernels/range_peaks.h"

/* The better of two places: the one with the larger value, of equal values the first; -1 stands for no place. */
static int32_t better(const int64_t *values, int32_t a, int32_t b) {
  if (a < 0 || b < 0) return a < 0 ? b : a;
  if (values[a] != values[b]) return values[a] > values[b] ? a : b;
  return a < b ? a : b;
}

/* The best place in first..last. `nodes` is a segment tree: nodes from `count` on are the places themselves, and node
 * i is the better of 2i and 2i + 1. The loop takes the nodes that cover the range exactly, from both ends upwards.
 *
 *             1                  range [1, 4) of 4 places: leaves 5, 6, 7
 *         2       3              takes leaf 5 (it is a right child), then node 3 (which is leaves 6 and 7)
 *       4   5   6   7
 */
static int32_t peak_of(const int32_t *nodes, const int64_t *values, size_t count, size_t first, size_t last) {
  int32_t best = -1;
  for (first += count, last += count; first < last; first /= 2, last /= 2) {
    if (first & 1) best = better(values, best, nodes[first++]);
    if (last & 1) best = better(values, best, nodes[--last]);
  }
  return best;
}

/* Builds the tree from the leaves up, then answers each range. */
fp_code fp_range_peaks(fp_memory *memory, const int64_t *values, size_t count, const int64_t *first, const int64_t *last,
                    size_t range_count, int64_t *peak) {
  int32_t *nodes = fp_alloc(memory, (2 * count + 1) * sizeof *nodes);
  if (!nodes) return FP_NO_MEMORY;
  for (size_t i = 0; i < count; i++) nodes[count + i] = (int32_t)i;
  for (size_t i = count; i-- > 1;) nodes[i] = better(values, nodes[2 * i], nodes[2 * i + 1]);
  for (size_t i = 0; i < range_count; i++)
    peak[i] = first[i] < last[i] ? peak_of(nodes, values, count, (size_t)first[i], (size_t)last[i]) : -1;
  fp_release(memory, nodes);
  return FP_OK;
}

/* From the end of each stretch backwards. The `>=` lets the first of equal values win. */
void fp_following_peaks(const int64_t *values, const int64_t *bounds, size_t stretch_count, int32_t *peak) {
  for (size_t stretch = 0; stretch < stretch_count; stretch++) {
    int32_t best = -1;
    for (int64_t i = bounds[stretch + 1]; i-- > bounds[stretch];) {
      peak[i] = best;
      if (values[i] > 0 && (best < 0 || values[i] >= values[best])) best = (int32_t)i;
    }
  }
}
