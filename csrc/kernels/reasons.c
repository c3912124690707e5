/* A stack of open events, as in nesting.h. Each knows which row says what the thread does while it is the innermost: its
 * own, or the one that its parent has. The innermost owns the time from `from`, where its latest child ended. */
#include "kernels/reasons.h"

#include "time_sums.h"

typedef struct frame {
  int64_t said_by; /* the row that says what the thread does; -1: none */
  int64_t end;
  int64_t from; /* its latest child ended here; the time from here on is its own */
} frame;

typedef struct walk {
  fp_memory *memory;
  const uint8_t *codes;
  const fp_code_powers *powers;
  fp_vector stack; /* frame: events still open */
  fp_vector *pieces;
  size_t first; /* the first piece of this line */
} walk;

/* Appends a piece, or extends the last one of the line if the same row says what both are. */
static bool add(walk *line, int64_t row, int64_t begin, int64_t end) {
  if (end <= begin || row < 0) return true;
  if (line->pieces->count > line->first) {
    fp_piece *last = (fp_piece *)line->pieces->items + line->pieces->count - 1;
    if (last->end == begin && last->span == row) {
      last->end = end;
      return true;
    }
  }
  fp_piece *fresh = fp_vector_add(line->memory, line->pieces, sizeof *fresh);
  if (fresh) *fresh = (fp_piece){begin, end, row};
  return fresh != NULL;
}

static bool pop(walk *line) {
  const frame *top = (frame *)line->stack.items + --line->stack.count;
  return add(line, top->said_by, top->from, top->end);
}

/* Which row says what the thread does in an event that lies in one for which `around` does. */
static int64_t said_by(const walk *line, int64_t row, int64_t around) {
  uint8_t own = line->codes[row];
  if (!own || (around >= 0 && own == line->codes[around])) return around;
  bool takes = around < 0 || line->powers->takes[own] >= line->powers->holds[line->codes[around]];
  return takes ? row : around;
}

/* Closes what ends before this event does, ends the piece of what is left, and opens the event. */
static bool push(walk *line, int64_t row, int64_t begin, int64_t end) {
  while (line->stack.count && ((frame *)line->stack.items)[line->stack.count - 1].end < end)
    if (!pop(line)) return false;
  int64_t around = -1;
  if (line->stack.count) {
    frame *top = (frame *)line->stack.items + line->stack.count - 1;
    if (!add(line, top->said_by, top->from, begin)) return false;
    if (end > top->from) top->from = end;
    around = top->said_by;
  }
  frame *fresh = fp_vector_add(line->memory, &line->stack, sizeof *fresh);
  if (fresh) *fresh = (frame){said_by(line, row, around), end, begin};
  return fresh != NULL;
}

fp_code fp_reasons(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *codes,
                   const fp_code_powers *powers, const fp_line_rows *lines, size_t line_count, fp_vector *pieces) {
  walk line = {.memory = memory, .codes = codes, .powers = powers, .pieces = pieces};
  bool ok = true;
  for (size_t i = 0; ok && i < line_count; i++) {
    line.first = pieces->count;
    for (int64_t row = lines[i].first; ok && row < lines[i].last; row++)
      ok = push(&line, row, start[row], fp_end_of(start[row], duration[row]));
    while (ok && line.stack.count) ok = pop(&line);
  }
  fp_vector_free(memory, &line.stack);
  return ok ? FP_OK : FP_NO_MEMORY;
}
