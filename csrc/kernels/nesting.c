#include "kernels/nesting.h"

#include "time_sums.h"

/* An open event. `covered` makes the union of the children a running sum: children come by start, so only the part of
 * a child behind `covered` is new. */
typedef struct frame {
  int64_t event_id, end;
  int64_t covered; /* its children so far reach up to here */
  int64_t self_time;
} frame;

/* Closes the innermost event: its self time is final. It goes to the output, or to `late` if the event belongs to an
 * earlier stretch. */
static bool pop(fp_nesting *nesting, int64_t event_id, int64_t *self_time) {
  frame *top = (frame *)nesting->stack.items + --nesting->stack.count;
  if (top->event_id >= event_id) {
    self_time[top->event_id - event_id] = top->self_time;
    return true;
  }
  fp_late_self *late = fp_vector_add(nesting->memory, &nesting->late, sizeof *late);
  if (late) *late = (fp_late_self){top->event_id, top->self_time};
  return late != NULL;
}

/* Closes what ends before the event does; what is left encloses it. The top is its parent, and loses the part of its
 * self time that the event newly covers. */
fp_code fp_nesting_push(fp_nesting *nesting, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                     size_t count, int64_t event_id, bool last, int32_t *depth, int64_t *parent_id, int64_t *self_time) {
  fp_vector *stack = &nesting->stack;
  for (size_t row = 0; row < count; row++) {
    if (placement && placement[row] == FP_TIMELESS) continue;
    int64_t end = fp_time_sum(start[row], duration[row]);
    self_time[row] = duration[row];
    depth[row] = 0;
    parent_id[row] = -1;
    if (placement && placement[row] == FP_APART) continue;
    while (stack->count && !fp_reaches(((frame *)stack->items)[stack->count - 1].end, start[row], end, nesting->slack))
      if (!pop(nesting, event_id, self_time)) return FP_NO_MEMORY;
    if (stack->count) {
      frame *top = (frame *)stack->items + stack->count - 1;
      depth[row] = (int32_t)stack->count;
      parent_id[row] = top->event_id;
      int64_t from = start[row] > top->covered ? start[row] : top->covered;
      int64_t until = end < top->end ? end : top->end;
      if (until > from) {
        top->self_time -= until - from;
        top->covered = until;
      }
    }
    frame *fresh = fp_vector_add(nesting->memory, stack, sizeof *fresh);
    if (!fresh) return FP_NO_MEMORY;
    *fresh = (frame){event_id + (int64_t)row, end, start[row], duration[row]};
  }
  while (last && stack->count)
    if (!pop(nesting, event_id, self_time)) return FP_NO_MEMORY;
  return FP_OK;
}

void fp_nesting_free(fp_nesting *nesting) {
  fp_vector_free(nesting->memory, &nesting->stack);
  fp_vector_free(nesting->memory, &nesting->late);
}

fp_code fp_nesting_lines(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                      const fp_line_rows *lines, size_t line_count, int64_t slack, int32_t *depth, int64_t *parent_id,
                      int64_t *self_time) {
  fp_nesting nesting = {.memory = memory, .slack = slack};
  bool ok = true;
  for (size_t i = 0; ok && i < line_count; i++) {
    int64_t at = lines[i].first;
    ok = fp_nesting_push(&nesting, start + at, duration + at, placement ? placement + at : NULL,
                         (size_t)(lines[i].last - at), lines[i].event_id, true, depth + at, parent_id + at, self_time + at) == FP_OK;
  }
  fp_nesting_free(&nesting);
  return ok ? FP_OK : FP_NO_MEMORY;
}
