/* A sweep from the begin of one piece to the next. Sources are merged by a heap that has the next span of each. Spans that
 * have begun wait in queues, one for each rank, in order of their begin; those that are over stay there until they are
 * first. A span that ends before the present one does, and counts less, never counts: it waits nowhere.
 *
 *    rank 1    |=======present=======|
 *    rank 2        |--never--|
 *    rank 2              |-------waits------|
 */
#include "kernels/foremost.h"

/* A source and its next span. */
typedef struct list {
  fp_span span;
  const fp_span_source *from;
} list;

typedef struct waiting {
  fp_span span;
  size_t next; /* the one behind it in its queue, or of free places the next; NONE: none */
} waiting;

typedef struct sweep {
  fp_memory *memory;
  list *heap; /* the list whose span begins first is heap[0]; of equal ones the first source's */
  size_t lists;
  fp_vector places; /* waiting */
  size_t free;      /* the first place that nothing waits in */
  uint64_t ranks;   /* a bit for each rank whose queue has spans */
  size_t first[FP_MOST_RANKS], last[FP_MOST_RANKS]; /* of each queue */
  fp_code code;
} sweep;

static const size_t NONE = SIZE_MAX;

static inline waiting *place(const sweep *s, size_t at) { return (waiting *)s->places.items + at; }

/* ---- sources ---- */

static inline bool before(const list *a, const list *b) {
  return a->span.begin != b->span.begin ? a->span.begin < b->span.begin : a->from < b->from;
}

/* Moves heap[at] down to its place. */
static void sink(sweep *s, size_t at) {
  list moved = s->heap[at];
  for (size_t child; (child = 2 * at + 1) < s->lists; at = child) {
    if (child + 1 < s->lists && before(&s->heap[child + 1], &s->heap[child])) child++;
    if (!before(&s->heap[child], &moved)) break;
    s->heap[at] = s->heap[child];
  }
  s->heap[at] = moved;
}

/* Takes the next span of a source. False: there is none, or it is refused. */
static bool take(sweep *s, list *from) {
  if (!from->from->next(from->from->of, &from->span)) return false;
  bool known = from->span.rank >= 0 && from->span.rank < FP_MOST_RANKS && from->span.label >= 0;
  if (!known) s->code = FP_OUT_OF_RANGE;
  return known;
}

/* Goes on to the next span that may count. One that ends before `best` does, and counts less, never counts. */
static void drop(sweep *s, const fp_span *best) {
  list *top = s->heap;
  bool has = take(s, top);
  while (has && best && top->span.rank >= best->rank && top->span.end <= best->end) has = take(s, top);
  if (!has) *top = s->heap[--s->lists];
  if (s->lists > 1) sink(s, 0);
}

/* ---- spans that have begun ---- */

/* Where the span waits now; NONE: memory ran out. */
static size_t enqueue(sweep *s, const fp_span *span) {
  size_t at = s->free;
  if (at == NONE) {
    at = s->places.count;
    if (!fp_vector_add(s->memory, &s->places, sizeof(waiting))) {
      s->code = FP_NO_MEMORY;
      return NONE;
    }
  } else {
    s->free = place(s, at)->next;
  }
  *place(s, at) = (waiting){*span, NONE};
  if (s->ranks >> span->rank & 1)
    place(s, s->last[span->rank])->next = at;
  else
    s->first[span->rank] = at;
  s->ranks |= UINT64_C(1) << span->rank;
  s->last[span->rank] = at;
  return at;
}

/* The first span of the lowest rank that is not over; NONE: there is none. */
static size_t first_waiting(sweep *s, int64_t now) {
  while (s->ranks) {
    int rank = __builtin_ctzll(s->ranks);
    size_t at = s->first[rank];
    while (at != NONE && place(s, at)->span.end <= now) {
      size_t next = place(s, at)->next;
      place(s, at)->next = s->free;
      s->free = at;
      at = next;
    }
    if (at != NONE) return s->first[rank] = at;
    s->ranks &= s->ranks - 1;
  }
  return NONE;
}

/* ---- pieces ---- */

/* The span that counts from now on, and until when it surely does. Takes in those that begin meanwhile. */
static size_t advance(sweep *s, int64_t now, int64_t *until) {
  size_t best = first_waiting(s, now);
  if (best != NONE && place(s, best)->span.end < *until) *until = place(s, best)->span.end;
  while (s->code == FP_OK && s->lists && s->heap->span.begin < *until) {
    const fp_span *one = &s->heap->span;
    const fp_span *present = best == NONE ? NULL : &place(s, best)->span;
    bool over = one->end <= one->begin || one->end <= now, counts = !present || one->rank < present->rank;
    if (!over && counts && one->begin > now) {
      *until = one->begin;
      break;
    }
    if (!over && (counts || one->end > present->end)) {
      size_t at = enqueue(s, one);
      if (counts) best = at;
      if (counts && one->end < *until) *until = one->end;
    }
    drop(s, best == NONE ? NULL : &place(s, best)->span);
  }
  return best;
}

/* Appends a piece, or extends the last one if it has the same label. */
static bool add(fp_memory *memory, fp_vector *pieces, fp_piece one) {
  fp_piece *last = pieces->count ? (fp_piece *)pieces->items + pieces->count - 1 : NULL;
  if (last && last->label == one.label && last->end == one.begin) {
    last->end = one.end;
    return true;
  }
  fp_piece *fresh = fp_vector_add(memory, pieces, sizeof *fresh);
  if (fresh) *fresh = one;
  return fresh != NULL;
}

fp_code fp_foremost_of(fp_memory *memory, const fp_span_source *sources, size_t count, int64_t first, int64_t last,
                       fp_vector *pieces) {
  sweep s = {.memory = memory, .free = NONE, .heap = fp_alloc(memory, count * sizeof *s.heap)};
  if (!s.heap) s.code = FP_NO_MEMORY;
  for (size_t i = 0; s.code == FP_OK && i < count; i++) {
    s.heap[s.lists] = (list){{0}, &sources[i]};
    if (take(&s, &s.heap[s.lists])) s.lists++;
  }
  for (size_t at = s.lists / 2; at-- > 0;) sink(&s, at);
  for (int64_t now = first, until; s.code == FP_OK && now < last; now = until) {
    until = last;
    size_t best = advance(&s, now, &until);
    if (s.code != FP_OK) break;
    fp_piece one = {now, until, best == NONE ? -1 : place(&s, best)->span.label};
    if (!add(memory, pieces, one)) s.code = FP_NO_MEMORY;
  }
  fp_release(memory, s.heap);
  fp_vector_free(memory, &s.places);
  if (s.code != FP_OK) fp_vector_free(memory, pieces);
  return s.code;
}

/* ---- spans in an array ---- */

typedef struct slice {
  const fp_span *at, *stop;
} slice;

static bool next_of_slice(void *of, fp_span *span) {
  slice *rest = of;
  if (rest->at == rest->stop) return false;
  *span = *rest->at++;
  return true;
}

/* How many sorted lists the spans are; writes them to `lists` unless that is NULL. */
static size_t sorted_lists(const fp_span *spans, size_t count, slice *lists) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (i && spans[i].begin >= spans[i - 1].begin) continue;
    if (lists && found) lists[found - 1].stop = spans + i;
    if (lists) lists[found] = (slice){spans + i, spans + count};
    found++;
  }
  return found;
}

fp_code fp_foremost(fp_memory *memory, const fp_span *spans, size_t count, int64_t first, int64_t last,
                    fp_vector *pieces) {
  size_t found = sorted_lists(spans, count, NULL);
  slice *lists = fp_alloc(memory, found * sizeof *lists);
  fp_span_source *sources = fp_alloc(memory, found * sizeof *sources);
  fp_code code = FP_NO_MEMORY;
  if (lists && sources) {
    sorted_lists(spans, count, lists);
    for (size_t i = 0; i < found; i++) sources[i] = (fp_span_source){next_of_slice, &lists[i]};
    code = fp_foremost_of(memory, sources, found, first, last, pieces);
  }
  fp_release(memory, lists);
  fp_release(memory, sources);
  return code;
}
