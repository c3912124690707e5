/* A stack of open events, as in nesting.h. Each knows which row says what the thread does while it is the innermost: its
 * own, or the one that its parent has. The innermost owns the time from `from`, where its latest child ended. The latest
 * piece waits until it is known how far it goes. */
#include "kernels/reasons.h"

#include "time_sums.h"

typedef struct frame {
  int64_t said_by; /* the row that says what the thread does; -1: none */
  int64_t end;
  int64_t from; /* its latest child ended here; the time from here on is its own */
} frame;

typedef struct walk {
  fp_memory *memory;
  const fp_reasons_in *in;
  const uint8_t *ranks; /* of the thread */
  fp_vector stack;      /* frame: events still open */
  fp_vector *spans;
  fp_piece latest; /* its `label` is the row, -1: there is none */
  size_t open;     /* the first stretch that ends after the latest piece begins */
} walk;

/* The first stretch that ends after a time. Mostly it is `at` or one of the next. */
static size_t open_after(const fp_reasons_in *in, size_t at, int64_t time) {
  size_t low = 0, high = in->open_count;
  if (!at || in->open[2 * at - 1] <= time) {
    size_t step = 1;
    for (low = at; low + step < high && in->open[2 * (low + step) - 1] <= time; step *= 2) low += step;
    if (low + step < high) high = low + step;
  } else {
    high = at;
  }
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (in->open[2 * middle + 1] <= time)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Appends the latest piece if it counts. */
static bool finish(walk *line) {
  const fp_piece *one = &line->latest;
  if (one->label < 0) return true;
  uint8_t rank = line->ranks[line->in->codes[one->label]];
  if (rank == FP_NO_RANK) return true;
  line->open = open_after(line->in, line->open, one->begin);
  if (line->open == line->in->open_count || line->in->open[2 * line->open] >= one->end) return true;
  fp_span *fresh = fp_vector_add(line->memory, line->spans, sizeof *fresh);
  if (fresh) *fresh = (fp_span){one->begin, one->end, rank, (int32_t)one->label};
  return fresh != NULL;
}

/* Begins a piece, or extends the latest one if the same row says what both are. */
static bool add(walk *line, int64_t row, int64_t begin, int64_t end) {
  if (end <= begin || row < 0) return true;
  if (line->latest.label == row && line->latest.end == begin) {
    line->latest.end = end;
    return true;
  }
  bool ok = finish(line);
  line->latest = (fp_piece){begin, end, row};
  return ok;
}

static bool pop(walk *line) {
  const frame *top = (frame *)line->stack.items + --line->stack.count;
  return add(line, top->said_by, top->from, top->end);
}

/* Which row says what the thread does in an event that lies in one for which `around` does. */
static int64_t said_by(const fp_reasons_in *in, int64_t row, int64_t around) {
  uint8_t own = in->codes[row];
  if (!own || (around >= 0 && own == in->codes[around])) return around;
  bool takes = around < 0 || in->powers->takes[own] >= in->powers->holds[in->codes[around]];
  return takes ? row : around;
}

/* Closes what ends before this event does, ends the piece of what is left, and opens the event. One that changes nothing
 * within what is left stays out: the piece goes on. */
static bool push(walk *line, int64_t row, int64_t begin, int64_t end) {
  while (line->stack.count && ((frame *)line->stack.items)[line->stack.count - 1].end < end)
    if (!pop(line)) return false;
  frame *top = line->stack.count ? (frame *)line->stack.items + line->stack.count - 1 : NULL;
  int64_t around = top ? top->said_by : -1, by = said_by(line->in, row, around);
  if (by == around) return true;
  if (top) {
    if (!add(line, around, top->from, begin)) return false;
    if (end > top->from) top->from = end;
  }
  frame *fresh = fp_vector_add(line->memory, &line->stack, sizeof *fresh);
  if (fresh) *fresh = (frame){by, end, begin};
  return fresh != NULL;
}

static bool of_thread(walk *line, const fp_thread *thread) {
  const fp_reasons_in *in = line->in;
  line->ranks = in->ranks + 256 * thread->role;
  line->latest.label = -1;
  line->open = 0;
  for (int64_t row = thread->first; row < thread->last; row++)
    if (!push(line, row, in->start[row], fp_end_of(in->start[row], in->duration[row]))) return false;
  while (line->stack.count)
    if (!pop(line)) return false;
  return finish(line);
}

fp_code fp_reasons(fp_memory *memory, const fp_reasons_in *in, fp_vector *spans) {
  walk line = {.memory = memory, .in = in, .spans = spans};
  bool ok = true;
  for (size_t i = 0; ok && i < in->thread_count; i++) ok = of_thread(&line, &in->threads[i]);
  fp_vector_free(memory, &line.stack);
  return ok ? FP_OK : FP_NO_MEMORY;
}
