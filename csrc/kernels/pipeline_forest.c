/* Operations on forests given as parents: nearest marks, children, preorder. Declared in pipeline_calls.h. */
#include <stdlib.h>

#include "kernels/pipeline_calls.h"

/* One pass: the answer of a row's parent is known when the row is reached. */
void fp_marked_rows(const int32_t *parent, const uint8_t *marks, size_t count, int32_t *kept, int32_t *above, int32_t *around,
                    int32_t *number) {
  int32_t next = 0;
  for (size_t row = 0; row < count; row++) {
    int32_t outer = parent[row], nearest = outer >= 0 ? number[outer] : -1;
    number[row] = marks[row] ? next : nearest;
    if (!marks[row]) continue;
    kept[next] = (int32_t)row;
    above[next] = nearest;
    around[next++] = outer < 0 ? -1 : marks[outer] ? nearest : FP_AROUND_UNMARKED;
  }
}

void fp_nearest_marked(const int32_t *parent, const uint8_t *marks, uint8_t bits, size_t count, int32_t *nearest) {
  for (size_t row = 0; row < count; row++)
    nearest[row] = marks[row] & bits ? (int32_t)row : parent[row] >= 0 ? nearest[parent[row]] : -1;
}

typedef struct timed_row {
  int64_t start;
  int32_t row;
} timed_row;

static int compare_timed(const void *a, const void *b) {
  const timed_row *left = a, *right = b;
  if (left->start != right->start) return left->start < right->start ? -1 : 1;
  return (left->row > right->row) - (left->row < right->row);
}

/* Whether the row's parent is a row. */
static bool is_child(const int32_t *parent, size_t row, size_t count) {
  return parent[row] >= 0 && (size_t)parent[row] < count;
}

/* Sorts the children of one row by start. They may come from several lines, so rows ascend and starts need not;
 * mostly they do, and then nothing is allocated. */
static bool sort_by_start(fp_memory *memory, const int64_t *start, int32_t *rows, size_t count) {
  size_t sorted = 1;
  while (sorted < count && start[rows[sorted - 1]] <= start[rows[sorted]]) sorted++;
  if (sorted >= count) return true;
  timed_row *timed = fp_alloc(memory, count * sizeof *timed);
  if (!timed) return false;
  for (size_t i = 0; i < count; i++) timed[i] = (timed_row){start[rows[i]], rows[i]};
  qsort(timed, count, sizeof *timed, compare_timed);
  for (size_t i = 0; i < count; i++) rows[i] = timed[i].row;
  fp_release(memory, timed);
  return true;
}

/* Counting sort by parent. Counts are two places further on, so that filling leaves each begin in its place. */
bool fp_children_open(fp_memory *memory, const int32_t *parent, const int64_t *start, size_t count, fp_children *children) {
  uint32_t *first = children->first = fp_alloc_zeroed(memory, count + 2, sizeof *first);
  children->child = NULL;
  if (!first) return false;
  first += 2;
  for (size_t row = 0; row < count; row++)
    if (is_child(parent, row, count)) first[parent[row]]++;
  for (size_t row = 1; row < count; row++) first[row] += first[row - 1];
  first--;
  children->child = fp_alloc(memory, (count ? first[count] : 0) * sizeof *children->child);
  if (!children->child) return false;
  for (size_t row = 0; row < count; row++)
    if (is_child(parent, row, count)) children->child[first[parent[row]]++] = (int32_t)row;
  first = children->first;
  for (size_t row = 0; start && row < count; row++)
    if (first[row + 1] - first[row] > 1 &&
        !sort_by_start(memory, start, children->child + first[row], first[row + 1] - first[row]))
      return false;
  return true;
}

void fp_children_close(fp_memory *memory, fp_children *children) {
  fp_release(memory, children->first);
  fp_release(memory, children->child);
}

enum { LISTED = 1, ROOT = 2 }; /* states of a row; a root is never listed below another root */

/* A stack of rows. Children are pushed last first, so that the first is listed first. */
fp_code fp_preorder(fp_memory *memory, const int32_t *parent, size_t count, const int32_t *roots, size_t root_count,
                    int32_t *order, int32_t *depth, size_t *listed) {
  fp_children children = {0};
  uint8_t *seen = fp_alloc_zeroed(memory, count, sizeof *seen);
  int32_t *depth_of = fp_alloc_zeroed(memory, count, sizeof *depth_of);
  int32_t *stack = fp_alloc(memory, (count + root_count) * sizeof *stack);
  size_t found = 0, waiting = 0;
  bool ok = fp_children_open(memory, parent, NULL, count, &children) && seen && depth_of && stack;
  if (ok) {
    for (size_t i = root_count; i > 0; i--) stack[waiting++] = roots[i - 1];
    for (size_t i = 0; i < root_count; i++) seen[roots[i]] = ROOT;
    while (waiting) {
      int32_t row = stack[--waiting];
      if (seen[row] == LISTED) continue; /* a root that was named twice */
      seen[row] = LISTED;
      order[found] = row;
      depth[found++] = depth_of[row];
      for (uint32_t at = children.first[row + 1]; at > children.first[row]; at--) {
        int32_t child = children.child[at - 1];
        if (seen[child]) continue;
        depth_of[child] = depth_of[row] + 1;
        stack[waiting++] = child;
      }
    }
  }
  fp_children_close(memory, &children);
  fp_release(memory, seen);
  fp_release(memory, depth_of);
  fp_release(memory, stack);
  *listed = found;
  return ok ? FP_OK : FP_NO_MEMORY;
}
