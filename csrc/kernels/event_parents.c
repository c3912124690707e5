#include "kernels/event_parents.h"

#include "time_sums.h"

/* Something that what comes next on a line may lie in. `row`: what is the parent of what does; -1: nothing. */
typedef struct open_span {
  int64_t start, end;
  int32_t row;
} open_span;

/* Closes what does not include the span; returns the parent of what lies in what is left. */
static int32_t enclosing(fp_vector *stack, int64_t start, int64_t end) {
  const open_span *open = stack->items;
  while (stack->count) {
    const open_span *top = &open[stack->count - 1];
    if (top->start <= start && top->end >= end) return top->row;
    stack->count--;
  }
  return -1;
}

static bool enter(fp_memory *memory, fp_vector *stack, open_span span) {
  open_span *fresh = fp_vector_add(memory, stack, sizeof *fresh);
  if (fresh) *fresh = span;
  return fresh != NULL;
}

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

bool fp_parents(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *apart,
                const fp_region *regions, size_t region_count, int64_t first, int64_t last, int32_t *parent) {
  fp_vector stack = {0};
  bool ok = true;
  const fp_region *region = regions + first_region(regions, region_count, first), *end_of_regions = regions + region_count;
  for (int64_t row = first; ok && row < last; row++) {
    for (; ok && region < end_of_regions && region->before == row; region++) {
      int64_t end = fp_time_sum(region->start, region->duration);
      ok = enter(memory, &stack, (open_span){region->start, end, enclosing(&stack, region->start, end)});
    }
    parent[row] = -1;
    if (!ok || (apart && apart[row])) continue;
    int64_t end = fp_time_sum(start[row], duration[row]);
    parent[row] = enclosing(&stack, start[row], end);
    ok = enter(memory, &stack, (open_span){start[row], end, (int32_t)row});
  }
  fp_vector_free(memory, &stack);
  return ok;
}
