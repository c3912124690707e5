/* A stack of open events, as in nesting.h. The innermost event owns the time from `from`, where its latest child
 * ended, to the next start or to its own end, whichever comes first. */
#include "kernels/stretches.h"

#include "time_sums.h"

/* An open event. */
typedef struct frame {
  int64_t row, end;
  int64_t from; /* its latest child ended here; the time from here on is its own */
} frame;

/* The state of a walk over lines. */
typedef struct walk {
  fp_memory *memory;
  const int64_t *start, *duration;
  const uint8_t *marks;
  fp_vector stack; /* frame: events still open */
  fp_vector *work, *others;
} walk;

/* Appends a stretch of a row, or extends the last one if both are work and adjoin. */
static bool add(walk *line, int64_t row, int64_t begin, int64_t end) {
  uint8_t mark = line->marks[row];
  if (end <= begin || mark == FP_UNMARKED) return true;
  fp_vector *to = mark == FP_WORK ? line->work : line->others;
  if (mark == FP_WORK && to->count) {
    fp_stretch *last = (fp_stretch *)to->items + to->count - 1;
    if (last->end == begin) {
      last->end = end;
      return true;
    }
  }
  fp_stretch *fresh = fp_vector_add(line->memory, to, sizeof *fresh);
  if (fresh) *fresh = (fp_stretch){begin, end, mark == FP_WORK ? -1 : row};
  return fresh != NULL;
}

/* Closes the innermost event: the time since its latest child is its own. */
static bool pop(walk *line) {
  const frame *top = (frame *)line->stack.items + --line->stack.count;
  return add(line, top->row, top->from, top->end);
}

/* Closes what ends before this event does, ends the stretch of what is left, and opens the event. */
static bool push(walk *line, int64_t row) {
  int64_t begin = line->start[row], end = fp_end_of(begin, line->duration[row]);
  while (line->stack.count && ((frame *)line->stack.items)[line->stack.count - 1].end < end)
    if (!pop(line)) return false;
  if (line->stack.count) {
    frame *top = (frame *)line->stack.items + line->stack.count - 1;
    if (!add(line, top->row, top->from, begin)) return false;
    if (end > top->from) top->from = end;
  }
  frame *fresh = fp_vector_add(line->memory, &line->stack, sizeof *fresh);
  if (fresh) *fresh = (frame){row, end, begin};
  return fresh != NULL;
}

fp_code fp_innermost_stretches(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                            const fp_line_rows *lines, size_t line_count, fp_vector *work, fp_vector *others) {
  walk line = {.memory = memory, .start = start, .duration = duration, .marks = marks, .work = work, .others = others};
  bool ok = true;
  for (size_t i = 0; ok && i < line_count; i++) {
    for (int64_t row = lines[i].first; ok && row < lines[i].last; row++) ok = push(&line, row);
    while (ok && line.stack.count) ok = pop(&line);
  }
  fp_vector_free(memory, &line.stack);
  return ok ? FP_OK : FP_NO_MEMORY;
}
