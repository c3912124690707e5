/* Parents of events by a stack of those that may still enclose one. Rows come by start, so an event can only lie in
 * one that is on the stack, and what ends before the present event ends can never enclose a later one.
 *
 *    row 0   |--------------------|           stack after row 0:  0
 *    row 1     |------|                                row 1:  0 1      parent 0
 *    row 2       |--|                                  row 2:  0 1 2    parent 1
 *    row 3            |---------|                      row 3:  0 3      parent 0 (1 and 2 do not reach its end)
 *    row 4                  |-------|                  row 4:  4        parent -1 (it crosses the end of 0)
 *
 * A region is pushed like an event but has no row of its own: what lies in it inherits the parent that the region
 * has, and an event that lies only partly in it has been removed from the stack by it. */
#include "kernels/event_parents.h"

#include "time_sums.h"

/* An event or a region on the stack. `row`: the parent that an event inside it gets; -1: none. */
typedef struct open_span {
  int64_t start, end;
  int32_t row;
} open_span;

/* Removes from the stack what does not include the span, and returns the parent that the rest gives it. */
static int32_t enclosing(fp_vector *stack, int64_t start, int64_t end, int64_t slack) {
  const open_span *open = stack->items;
  while (stack->count) {
    const open_span *top = &open[stack->count - 1];
    if (top->start <= start && fp_reaches(top->end, start, end, slack)) return top->row;
    stack->count--;
  }
  return -1;
}

static bool enter(fp_memory *memory, fp_vector *stack, open_span span) {
  open_span *fresh = fp_vector_add(memory, stack, sizeof *fresh);
  if (fresh) *fresh = span;
  return fresh != NULL;
}

/* The first region that applies from row `before` or later. */
static size_t first_region(const fp_region *regions, size_t count, int64_t before) {
  size_t low = 0;
  while (low < count) {
    size_t middle = low + (count - low) / 2;
    if (regions[middle].before < before)
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

/* Regions are taken in before the row that they come before. */
fp_code fp_parents(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *apart,
                   const fp_region *regions, size_t region_count, int64_t slack, int64_t first, int64_t last, int32_t *parent) {
  fp_vector stack = {0};
  bool ok = true;
  const fp_region *region = regions + first_region(regions, region_count, first), *end_of_regions = regions + region_count;
  for (int64_t row = first; ok && row < last; row++) {
    for (; ok && region < end_of_regions && region->before == row; region++) {
      int64_t end = fp_time_sum(region->start, region->duration);
      ok = enter(memory, &stack, (open_span){region->start, end, enclosing(&stack, region->start, end, slack)});
    }
    parent[row] = -1;
    if (!ok || (apart && apart[row])) continue;
    int64_t end = fp_time_sum(start[row], duration[row]);
    parent[row] = enclosing(&stack, start[row], end, slack);
    ok = enter(memory, &stack, (open_span){start[row], end, (int32_t)row});
  }
  fp_vector_free(memory, &stack);
  return ok ? FP_OK : FP_NO_MEMORY;
}
