#include "kernels/nesting.h"

typedef struct frame {
  int64_t row, end;
  int64_t covered; /* children so far cover up to here */
} frame;

static int64_t end_of(int64_t start, int64_t duration) {
  int64_t end;
  if (!__builtin_add_overflow(start, duration, &end)) return end;
  return duration < 0 ? INT64_MIN : INT64_MAX;
}

static bool nest_line(fp_memory *memory, fp_vector *stack, const int64_t *start, const int64_t *duration,
                      const uint8_t *placement, const fp_line_rows *line, int32_t *depth, int64_t *parent_id,
                      int64_t *self_time) {
  stack->count = 0;
  for (int64_t row = line->first; row < line->last; row++) {
    if (placement && placement[row] == FP_TIMELESS) continue;
    int64_t end = end_of(start[row], duration[row]);
    self_time[row] = duration[row];
    depth[row] = 0;
    parent_id[row] = -1;
    if (placement && placement[row] == FP_APART) continue;
    frame *frames = stack->items;
    while (stack->count && frames[stack->count - 1].end < end) stack->count--;
    if (stack->count) {
      frame *top = &frames[stack->count - 1];
      depth[row] = (int32_t)stack->count;
      parent_id[row] = line->event_id + (top->row - line->first);
      int64_t from = start[row] > top->covered ? start[row] : top->covered;
      if (end > from) {
        self_time[top->row] -= end - from;
        top->covered = end;
      }
    }
    frame *frame = fp_vector_add(memory, stack, sizeof *frame);
    if (!frame) return false;
    frame->row = row;
    frame->end = end;
    frame->covered = start[row];
  }
  return true;
}

bool fp_nesting(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                const fp_line_rows *lines, size_t line_count, int32_t *depth, int64_t *parent_id, int64_t *self_time) {
  fp_vector stack = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < line_count; i++)
    ok = nest_line(memory, &stack, start, duration, placement, &lines[i], depth, parent_id, self_time);
  fp_vector_free(memory, &stack);
  return ok;
}
