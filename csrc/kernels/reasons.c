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

/* Gives the latest piece away if it counts. */
static void finish(fp_reasons_walk *line) {
  const fp_piece *one = &line->latest;
  if (one->label < 0) return;
  uint8_t rank = line->ranks[line->in->codes[one->label]];
  if (rank == FP_NO_RANK) return;
  line->open = open_after(line->in, line->open, one->begin);
  if (line->open == line->in->open_count || line->in->open[2 * line->open] >= one->end) return;
  *line->found = (fp_span){one->begin, one->end, rank, (int32_t)one->label};
  line->has_found = true;
}

/* Begins a piece, or extends the latest one if the same row says what both are. */
static void add(fp_reasons_walk *line, int64_t row, int64_t begin, int64_t end) {
  if (end <= begin || row < 0) return;
  if (line->latest.label == row && line->latest.end == begin) {
    line->latest.end = end;
    return;
  }
  finish(line);
  line->latest = (fp_piece){begin, end, row};
}

static void pop(fp_reasons_walk *line) {
  const frame *top = (frame *)line->stack.items + --line->stack.count;
  add(line, top->said_by, top->from, top->end);
}

/* Which row says what the thread does in an event that lies in one for which `around` does. */
static int64_t said_by(const fp_reasons_in *in, int64_t row, int64_t around) {
  uint8_t own = in->codes[row];
  if (!own || (around >= 0 && own == in->codes[around])) return around;
  bool takes = around < 0 || in->powers->takes[own] >= in->powers->holds[in->codes[around]];
  return takes ? row : around;
}

/* Closes one event that ends before the next one does, or ends the piece of the one that is left and opens the next. An
 * event that changes nothing within what is left stays out: the piece goes on. */
static void step(fp_reasons_walk *line) {
  int64_t row = line->row, begin = line->in->start[row], end = fp_end_of(begin, line->in->duration[row]);
  frame *top = line->stack.count ? (frame *)line->stack.items + line->stack.count - 1 : NULL;
  if (top && top->end < end) {
    pop(line);
    return;
  }
  line->row++;
  int64_t around = top ? top->said_by : -1, by = said_by(line->in, row, around);
  if (by == around) return;
  if (top) {
    add(line, around, top->from, begin);
    if (end > top->from) top->from = end;
  }
  frame *fresh = fp_vector_add(line->memory, &line->stack, sizeof *fresh);
  if (fresh)
    *fresh = (frame){by, end, begin};
  else
    line->failed = true;
}

void fp_reasons_begin(fp_reasons_walk *walk, fp_memory *memory, const fp_reasons_in *in, const fp_thread *thread) {
  *walk = (fp_reasons_walk){.memory = memory,
                            .in = in,
                            .ranks = in->ranks + 256 * thread->role,
                            .row = thread->first,
                            .stop = thread->last,
                            .latest = {0, 0, -1}};
}

bool fp_reasons_next(void *of, fp_span *span) {
  fp_reasons_walk *line = of;
  line->found = span;
  line->has_found = false;
  while (!line->has_found && !line->failed && !line->ended) {
    if (line->row < line->stop) {
      step(line);
    } else if (line->stack.count) {
      pop(line);
    } else {
      finish(line);
      line->ended = true;
    }
  }
  return line->has_found && !line->failed;
}

void fp_reasons_end(fp_reasons_walk *walk) { fp_vector_free(walk->memory, &walk->stack); }

fp_code fp_foremost_reasons(fp_memory *memory, const fp_reasons_in *in, int64_t first, int64_t last, fp_vector *pieces) {
  fp_reasons_walk *walks = fp_alloc(memory, in->thread_count * sizeof *walks);
  fp_span_source *sources = fp_alloc(memory, in->thread_count * sizeof *sources);
  fp_code code = FP_NO_MEMORY;
  if (walks && sources) {
    for (size_t i = 0; i < in->thread_count; i++) {
      fp_reasons_begin(&walks[i], memory, in, &in->threads[i]);
      sources[i] = (fp_span_source){fp_reasons_next, &walks[i]};
    }
    code = fp_foremost_of(memory, sources, in->thread_count, first, last, pieces);
    for (size_t i = 0; i < in->thread_count; i++) {
      if (walks[i].failed) code = FP_NO_MEMORY;
      fp_reasons_end(&walks[i]);
    }
    if (code != FP_OK) fp_vector_free(memory, pieces);
  }
  fp_release(memory, walks);
  fp_release(memory, sources);
  return code;
}
