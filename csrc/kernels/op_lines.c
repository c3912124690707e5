/* Self times come from a stack per line, as in nesting.c, without ids and depths.
 *
 * The time in which chosen events are innermost is a union over lines. Each line yields its stretches in order of
 * their begin (as stretches.c does), a batch at a time, and a heap of lines merges them:
 *
 *    line 0   |====|      |==|          heap by next begin: line 0, line 1
 *    line 1      |======|               union:  |=========||==|
 *                                               ^ upto moves on; only what lies behind it counts
 *
 * A line whose events cross may yield a stretch out of order. The merge notices, and starts again with all stretches
 * of each line sorted first: slower, and needed only for damaged captures. */
#include "kernels/op_lines.h"

#include <stdlib.h>

#include "kernels/time_order.h"
#include "time_sums.h"

/* Differences wrap: times so far apart are damage, and no result is meaningful for them. */
static int64_t less(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

/* fp_vector_add without a call where there is room; the item is not zeroed. It is called for every event. */
static inline void *append(fp_memory *memory, fp_vector *vector, size_t item_size) {
  if (vector->count == vector->capacity) return fp_vector_add(memory, vector, item_size);
  return (char *)vector->items + item_size * vector->count++;
}

/* ---- self times ---- */

/* An open event. `covered` makes the union of its children a running sum, as in nesting.c. */
typedef struct parent {
  int64_t row, end;
  int64_t covered; /* its children so far reach up to here */
} parent;

/* The rows of a line and where their results go. `order`: the rows sorted by time; NULL if they are sorted already. */
typedef struct self_line {
  fp_memory *memory;
  fp_vector *stack;
  const int64_t *start, *duration, *order;
  int64_t *self_time, *stacked; /* less the union of what is nested; less its sum, or NULL */
} self_line;

/* Whether rows are sorted by start, longer first. */
static bool in_order(const self_line *line, int64_t first, int64_t last) {
  for (int64_t row = first + 1; row < last; row++) {
    int64_t before = line->start[row - 1], begin = line->start[row];
    if (begin < before || (begin == before && line->duration[row] > line->duration[row - 1])) return false;
  }
  return true;
}

/* Self times of one line whose rows come in order of time. */
static fp_code nest_line(const self_line *line, int64_t first, int64_t last) {
  fp_vector *stack = line->stack;
  int64_t *self_time = line->self_time, *stacked = line->stacked;
  bool crossed = false;
  stack->count = 0;
  for (int64_t at = first; at < last; at++) {
    int64_t row = line->order ? line->order[at - first] : at;
    int64_t begin = line->start[row], duration = line->duration[row], end = fp_time_sum(begin, duration);
    self_time[row] = duration;
    if (stacked) stacked[row] = duration;
    while (stack->count && ((parent *)stack->items)[stack->count - 1].end < end) stack->count--;
    if (stack->count) {
      parent *top = (parent *)stack->items + stack->count - 1;
      int64_t from = begin > top->covered ? begin : top->covered;
      crossed |= begin < top->covered;
      if (stacked) stacked[top->row] = less(stacked[top->row], duration);
      if (end > from) {
        self_time[top->row] = less(self_time[top->row], less(end, from));
        top->covered = end;
      }
    }
    parent *fresh = append(line->memory, stack, sizeof *fresh);
    if (!fresh) return FP_NO_MEMORY;
    *fresh = (parent){row, end, begin};
  }
  return crossed ? FP_CROSSED : FP_OK;
}

/* Self times of one line, whose rows are sorted first if they need it. */
static fp_code nest_any(self_line *line, int64_t first, int64_t last) {
  line->order = NULL;
  if (in_order(line, first, last)) return nest_line(line, first, last);
  int64_t *order = fp_alloc(line->memory, (size_t)(last - first) * sizeof *order);
  fp_code result = FP_NO_MEMORY;
  if (order && fp_time_order(line->memory, line->start, line->duration, first, last, order)) {
    line->order = order;
    result = nest_line(line, first, last);
  }
  fp_release(line->memory, order);
  return result;
}

fp_code fp_self_times(fp_memory *memory, const int64_t *start, const int64_t *duration, const fp_line_rows *lines,
                             size_t line_count, int64_t *self_time, int64_t *stacked) {
  fp_vector stack = {0};
  self_line line = {memory, &stack, start, duration, NULL, self_time, stacked};
  fp_code result = FP_OK;
  for (size_t i = 0; i < line_count && result != FP_NO_MEMORY; i++) {
    fp_code of_line = nest_any(&line, lines[i].first, lines[i].last);
    if (of_line != FP_OK) result = of_line;
  }
  fp_vector_free(memory, &stack);
  return result;
}

/* ---- time in which chosen events are innermost ---- */

enum { BATCH = 256 }; /* stretches of a line that are computed at a time: they stay in the cache */

typedef struct stretch {
  int64_t begin, end;
} stretch;

/* An open event. */
typedef struct frame {
  int64_t end;
  int64_t from; /* its latest child ended here; the time from here on is its own */
  bool chosen;
} frame;

typedef struct op_events {
  fp_memory *memory;
  const int64_t *start, *duration;
  const uint8_t *marks;
  uint8_t bits;
} op_events;

/* A line while it is merged. */
typedef struct walk {
  int64_t row, last;
  fp_vector stack; /* frame: open events, outermost first */
  fp_vector ready; /* stretch: those from `taken` on are not merged yet */
  size_t taken;
  int64_t latest; /* begin of the last stretch that was added */
  bool crossed;   /* a stretch was added that begins before an earlier one */
} walk;

/* Appends a stretch to what is ready, and notices if it is out of order. */
static bool add(const op_events *events, walk *line, int64_t begin, int64_t end) {
  if (end <= begin) return true;
  stretch *fresh = append(events->memory, &line->ready, sizeof *fresh);
  if (!fresh) return false;
  *fresh = (stretch){begin, end};
  line->crossed |= begin < line->latest;
  line->latest = begin;
  return true;
}

/* Closes the innermost event: the time since its latest child is its own. */
static bool pop(const op_events *events, walk *line) {
  const frame *top = (frame *)line->stack.items + --line->stack.count;
  return !top->chosen || add(events, line, top->from, top->end);
}

/* Closes what ends before this event does, ends the stretch of what is left, and opens the event. */
static bool push(const op_events *events, walk *line, int64_t row) {
  int64_t begin = events->start[row];
  int64_t end = fp_end_of(begin, events->duration[row]);
  while (line->stack.count && ((frame *)line->stack.items)[line->stack.count - 1].end < end)
    if (!pop(events, line)) return false;
  if (line->stack.count) {
    frame *top = (frame *)line->stack.items + line->stack.count - 1;
    if (top->chosen && !add(events, line, top->from, begin)) return false;
    top->from = end;
  }
  frame *fresh = append(events->memory, &line->stack, sizeof *fresh);
  if (fresh) *fresh = (frame){end, begin, (events->marks[row] & events->bits) != 0};
  return fresh != NULL;
}

/* Replaces the merged stretches by the next `least` or more, as far as the line has them. */
static bool advance(const op_events *events, walk *line, size_t least) {
  line->ready.count = line->taken = 0;
  while (line->ready.count < least && (line->row < line->last || line->stack.count))
    if (!(line->row < line->last ? push(events, line, line->row++) : pop(events, line))) return false;
  return true;
}

static int64_t next_begin(const walk *line) { return ((stretch *)line->ready.items)[line->taken].begin; }

static int by_begin(const void *a, const void *b) {
  int64_t left = ((const stretch *)a)->begin, right = ((const stretch *)b)->begin;
  return (left > right) - (left < right);
}

/* Restores the heap by next begin; only heap[at] may be out of place, and only too early in the array. */
static void sift(walk **heap, size_t count, size_t at) {
  walk *moved = heap[at];
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && next_begin(heap[child + 1]) < next_begin(heap[child])) child++;
    if (next_begin(moved) <= next_begin(heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

/* Puts a line at its first event and computes its first stretches; with `sorted` all of them, sorted. */
static bool begin_walk(const op_events *events, walk *line, const fp_line_rows *rows, bool sorted) {
  line->row = rows->first;
  line->last = rows->last;
  line->latest = INT64_MIN;
  if (!advance(events, line, sorted ? SIZE_MAX : BATCH)) return false;
  if (!sorted) return true;
  if (line->ready.count) qsort(line->ready.items, line->ready.count, sizeof(stretch), by_begin);
  line->crossed = false;
  return true;
}

/* Adds up what the stretches of all lines cover. Stops with *crossed where a line yields a stretch out of order. */
static bool cover(const op_events *events, walk **heap, size_t count, uint64_t *time, bool *crossed) {
  int64_t upto = INT64_MIN;
  for (size_t i = count / 2; i-- > 0;) sift(heap, count, i);
  while (count) {
    walk *line = heap[0];
    const stretch *next = (stretch *)line->ready.items + line->taken++;
    int64_t from = next->begin > upto ? next->begin : upto;
    if (next->end > from) {
      *time += (uint64_t)next->end - (uint64_t)from;
      upto = next->end;
    }
    if (line->taken == line->ready.count && !advance(events, line, BATCH)) return false;
    *crossed |= line->crossed;
    if (*crossed) return true;
    if (line->taken == line->ready.count) heap[0] = heap[--count];
    if (count) sift(heap, count, 0);
  }
  return true;
}

/* One attempt: with `sorted`, lines sort their stretches and cannot be out of order. */
static bool time_of(const op_events *events, walk *walks, walk **heap, const fp_line_rows *lines, size_t line_count,
                    bool sorted, uint64_t *time, bool *crossed) {
  size_t count = 0;
  *time = 0;
  *crossed = false;
  for (size_t i = 0; i < line_count; i++) {
    if (!begin_walk(events, &walks[i], &lines[i], sorted)) return false;
    *crossed |= walks[i].crossed;
    if (walks[i].ready.count) heap[count++] = &walks[i];
  }
  return *crossed || cover(events, heap, count, time, crossed);
}

/* The quick attempt first; if a line's events cross, the one with sorted stretches. */
fp_code fp_innermost_time(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                       uint8_t bits, const fp_line_rows *lines, size_t line_count, uint64_t *time) {
  const op_events events = {memory, start, duration, marks, bits};
  walk *walks = fp_alloc_zeroed(memory, line_count, sizeof *walks);
  walk **heap = fp_alloc_zeroed(memory, line_count, sizeof *heap);
  bool crossed = false, ok = walks && heap;
  ok = ok && time_of(&events, walks, heap, lines, line_count, false, time, &crossed);
  if (ok && crossed) {
    for (size_t i = 0; i < line_count; i++) walks[i].stack.count = 0;
    ok = time_of(&events, walks, heap, lines, line_count, true, time, &crossed);
  }
  for (size_t i = 0; walks && i < line_count; i++) {
    fp_vector_free(memory, &walks[i].stack);
    fp_vector_free(memory, &walks[i].ready);
  }
  fp_release(memory, heap);
  fp_release(memory, walks);
  return ok ? FP_OK : FP_NO_MEMORY;
}

fp_code fp_extent(const int64_t *start, const int64_t *duration, size_t count, int64_t *begin, int64_t *end) {
  *begin = INT64_MAX;
  *end = INT64_MIN;
  bool fits = true;
  for (size_t i = 0; i < count; i++) {
    int64_t length = duration[i] > 0 ? duration[i] : 0, until;
    fits &= !__builtin_add_overflow(start[i], length, &until);
    *begin = start[i] < *begin ? start[i] : *begin;
    *end = until > *end ? until : *end;
  }
  return fits ? FP_OK : FP_OVERFLOW;
}
