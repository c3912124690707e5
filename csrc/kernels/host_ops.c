/* A machine that is fed the events of a line by start. FP_OPS_NEST is the stack of nesting.c. FP_OPS_STACK has to
 * take ends in order of time as well. Most ends come innermost first and are kept on a stack of their own (`nested`);
 * an op that crosses another has its end in a heap (`crossed`). The next end is the earlier of the two tops:
 *
 *    A |--------------|        nested: A, B      crossed: C     next end: B, then A, then C
 *    B    |----|
 *    C       |-------------|
 */
#include "kernels/host_ops.h"

#include "time_sums.h"

/* An op that has begun. */
typedef struct activity {
  int64_t begin, end;
  int64_t inside; /* FP_OPS_NEST: its children reach up to here. FP_OPS_STACK: the sum of their durations */
  int64_t number; /* counts up along the line */
  int32_t op;
  bool eager;
} activity;

/* When an activity ends, and its number. */
typedef struct ending {
  int64_t end, number;
} ending;

/* The state of one line; the vectors keep their memory for the next. */
typedef struct machine {
  fp_memory *memory;
  const fp_host_ops *input;
  fp_op_line *line;
  fp_op_sum *sums;
  fp_vector open;    /* activity: those that have begun and not ended, outermost first */
  fp_vector nested;  /* ending: a stack, the earliest on top */
  fp_vector crossed; /* ending: a heap, the earliest first */
  int64_t number;    /* of the next activity */
  int64_t first_begin, last_end;
  int64_t enqueue_begin, enqueue_end; /* of the last infeed enqueue */
  int64_t counted;                    /* ops of the line so far */
  bool any, any_enqueue, out_of_memory;
} machine;

/* fp_vector_add that remembers a failure, to distinguish it from an overflow. */
static void *fresh_item(machine *at, fp_vector *vector, size_t size) {
  void *item = fp_vector_add(at->memory, vector, size);
  if (!item) at->out_of_memory = true;
  return item;
}

/* Both return false if the result does not fit 64 bits. */
static bool add(int64_t *sum, int64_t value) { return !__builtin_add_overflow(*sum, value, sum); }

static bool between(int64_t begin, int64_t end, int64_t *length) { return !__builtin_sub_overflow(end, begin, length); }

/* Ends in order of time; at equal times the op that began earlier ends first. */
static bool before(const ending *a, const ending *b) { return a->end < b->end || (a->end == b->end && a->number < b->number); }

/* Adds the last infeed enqueue and the time from its start to this one's. The last of a line is never added: nothing
 * follows it. */
static bool count_enqueue(machine *at, const activity *op) {
  if (at->any_enqueue) {
    int64_t duration, gap;
    if (!between(at->enqueue_begin, at->enqueue_end, &duration) || !between(at->enqueue_begin, op->begin, &gap)) return false;
    if (!add(&at->line->enqueue, duration) || !add(&at->line->enqueue_start, gap)) return false;
  }
  at->any_enqueue = true;
  at->enqueue_begin = op->begin;
  at->enqueue_end = op->end;
  return true;
}

/* Counts one occurrence of an op, `duration` long, with self time `own`. The ranks in `met` ascend over lines: a row
 * has two ops at most, so 2 * first leaves room for those of all rows before it. */
static bool count_op(machine *at, const activity *op, int64_t duration, int64_t own) {
  fp_op_sum *sum = &at->sums[op->op];
  if (!sum->occurrences || duration < sum->shortest) sum->shortest = duration;
  const int64_t met = 1 + 2 * at->line->first + at->counted++;
  if (!sum->met || met < sum->met) sum->met = met;
  sum->occurrences++;
  sum->eager |= op->eager;
  if (!add(&sum->time, duration) || !add(&sum->self_time, own) || !add(&at->line->self_time, own)) return false;
  return !at->input->enqueues[op->op] || count_enqueue(at, op);
}

/* FP_OPS_NEST: takes what this op covers off the self time of the one that encloses it. The op counts at once; later
 * children take time off its sum. */
static bool begin_nested(machine *at, activity op) {
  fp_vector *open = &at->open;
  activity *top = NULL;
  while (open->count) {
    top = (activity *)open->items + open->count - 1;
    if (top->end >= op.end) break;
    open->count--;
  }
  if (open->count) {
    int64_t from = op.begin > top->inside ? op.begin : top->inside, covered;
    if (op.end > from) {
      if (!between(from, op.end, &covered)) return false;
      if (!add(&at->sums[top->op].self_time, -covered) || !add(&at->line->self_time, -covered)) return false;
      top->inside = op.end;
    }
  }
  int64_t duration;
  if (!between(op.begin, op.end, &duration) || !count_op(at, &op, duration, duration)) return false;
  op.inside = op.begin;
  activity *fresh = fresh_item(at, open, sizeof *fresh);
  if (fresh) *fresh = op;
  return fresh != NULL;
}

/* FP_OPS_STACK: the end of activity `number`. Pops up to it, and counts what lies above it as lost. */
static bool end_stacked(machine *at, int64_t number) {
  fp_vector *open = &at->open;
  while (open->count) {
    const activity *op = (activity *)open->items + --open->count;
    if (op->number != number) {
      at->line->lost++;
      continue;
    }
    int64_t duration;
    if (!between(op->begin, op->end, &duration)) return false;
    if (open->count && !add(&((activity *)open->items)[open->count - 1].inside, duration)) return false;
    return count_op(at, op, duration, duration - op->inside);
  }
  return true;
}

/* Puts an item into the hole, or above it where the heap requires it. */
static void sift_up(ending *heap, size_t hole, ending item) {
  while (hole && before(&item, &heap[(hole - 1) / 2])) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = item;
}

/* Removes the first item of the heap, and moves the last into the hole. */
static void remove_first(fp_vector *crossed) {
  ending *heap = crossed->items;
  const size_t count = --crossed->count;
  const ending item = heap[count];
  size_t hole = 0;
  for (size_t child = 1; child < count; child = 2 * hole + 1) {
    if (child + 1 < count && before(&heap[child + 1], &heap[child])) child++;
    if (!before(&heap[child], &item)) break;
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = item;
}

/* Handles all ends up to `time`, in their order. */
static bool end_until(machine *at, int64_t time) {
  for (;;) {
    const ending *inner = at->nested.count ? (ending *)at->nested.items + at->nested.count - 1 : NULL;
    const ending *other = at->crossed.count ? at->crossed.items : NULL;
    const bool crossed = other && (!inner || before(other, inner));
    const ending *next = crossed ? other : inner;
    if (!next || next->end > time) return true;
    const int64_t number = next->number;
    if (crossed) remove_first(&at->crossed);
    else at->nested.count--;
    if (!end_stacked(at, number)) return false;
  }
}

/* FP_OPS_STACK: handles earlier ends, then pushes the op and queues its end. */
static bool begin_stacked(machine *at, activity op) {
  if (!end_until(at, op.begin)) return false;
  activity *fresh = fresh_item(at, &at->open, sizeof *fresh);
  if (!fresh) return false;
  *fresh = op;
  const ending own = {op.end, op.number};
  const bool nests = !at->nested.count || before(&own, (ending *)at->nested.items + at->nested.count - 1);
  fp_vector *ends = nests ? &at->nested : &at->crossed;
  ending *added = fresh_item(at, ends, sizeof *added);
  if (!added) return false;
  if (nests) *added = own;
  else sift_up(ends->items, ends->count - 1, own);
  return true;
}

/* Begins an op of a row. An `op` outside the table is none. */
static bool begin(machine *at, fp_ops_order order, int64_t row, int64_t op, bool eager) {
  if (op < 0 || (size_t)op >= at->input->op_count) return true;
  const int64_t start = at->input->start[row], end = fp_end_of(start, at->input->duration[row]);
  if (!at->any) at->first_begin = start;
  if (!at->any || end > at->last_end) at->last_end = end;
  at->any = true;
  const activity fresh = {start, end, 0, at->number, (int32_t)op, eager};
  const bool done = order == FP_OPS_NEST ? begin_nested(at, fresh) : begin_stacked(at, fresh);
  at->number++;
  return done;
}

/* The index of the first pair whose row is not less than `row`. */
static size_t pair_from(const fp_row_op *pairs, size_t count, int64_t row) {
  size_t low = 0;
  while (low < count) {
    const size_t middle = low + (count - low) / 2;
    if (pairs[middle].row < row) low = middle + 1;
    else count = middle;
  }
  return low;
}

/* Feeds the rows of a line to the machine, each with the op of its name or the one that replaces it, then its second
 * op. */
static bool sum_line(machine *at, fp_ops_order order) {
  const fp_host_ops *input = at->input;
  size_t instead = pair_from(input->instead, input->instead_count, at->line->first);
  size_t beside = pair_from(input->beside, input->beside_count, at->line->first);
  for (int64_t row = at->line->first; row < at->line->last; row++) {
    const int32_t meta = input->meta[row];
    int64_t op = meta < 0 || (size_t)meta >= input->meta_count ? -1 : input->op_of_meta[meta];
    if (instead < input->instead_count && input->instead[instead].row == row) op = input->instead[instead++].op;
    if (op >= 0 && !begin(at, order, row, op, input->eager && input->eager[row])) return false;
    if (beside < input->beside_count && input->beside[beside].row == row)
      if (!begin(at, order, row, input->beside[beside++].op, false)) return false;
  }
  if (order == FP_OPS_STACK && !end_until(at, INT64_MAX)) return false;
  return !at->any || between(at->first_begin, at->last_end, &at->line->span);
}

fp_code fp_host_ops_sum(fp_memory *memory, const fp_host_ops *input, fp_ops_order order, fp_op_line *lines,
                              size_t line_count, fp_op_sum *sums) {
  machine at = {.memory = memory, .input = input, .sums = sums};
  bool done = true;
  for (size_t i = 0; done && i < line_count; i++) {
    lines[i] = (fp_op_line){.first = lines[i].first, .last = lines[i].last};
    at.line = &lines[i];
    at.open.count = at.nested.count = at.crossed.count = 0;
    at.number = at.counted = 0;
    at.any = at.any_enqueue = false;
    done = sum_line(&at, order);
  }
  fp_vector_free(memory, &at.open);
  fp_vector_free(memory, &at.nested);
  fp_vector_free(memory, &at.crossed);
  if (at.out_of_memory) return FP_NO_MEMORY;
  return done ? FP_OK : FP_OVERFLOW;
}
