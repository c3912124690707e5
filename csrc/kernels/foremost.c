/* A sweep from the begin of one piece to the next. Sorted lists of spans are merged by a heap that has the next span of
 * each. Spans that have begun wait in queues, one for each rank, in order of their begin; those that are over stay there
 * until they are first. A span that ends before the present one does, and counts less, never counts: it waits nowhere.
 *
 *    rank 1    |=======present=======|
 *    rank 2        |--never--|
 *    rank 2              |-------waits------|
 */
#include "kernels/foremost.h"

/* A sorted list of spans: `at`, its next one, begins at `begin`; it ends before `stop`. */
typedef struct list {
  int64_t begin;
  size_t at, stop;
} list;

typedef struct sweep {
  const fp_span *spans;
  list *heap; /* the list whose next span begins first is heap[0]; of equal ones the first list */
  size_t lists;
  uint64_t waiting; /* a bit for each rank whose queue has spans */
  size_t first[FP_MOST_RANKS], last[FP_MOST_RANKS]; /* of each queue */
  size_t *next;     /* of each span, the one behind it in its queue; NONE: none */
} sweep;

static const size_t NONE = SIZE_MAX;

static inline bool before(const list *a, const list *b) {
  return a->begin != b->begin ? a->begin < b->begin : a->at < b->at;
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

/* Goes on to the next span. */
static void drop(sweep *s) {
  list *top = s->heap;
  if (++top->at < top->stop)
    top->begin = s->spans[top->at].begin;
  else
    *top = s->heap[--s->lists];
  if (s->lists > 1) sink(s, 0);
}

/* How many sorted lists the spans are; writes them to `lists` unless that is NULL. */
static size_t sorted_lists(const fp_span *spans, size_t count, list *lists) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (i && spans[i].begin >= spans[i - 1].begin) continue;
    if (lists && found) lists[found - 1].stop = i;
    if (lists) lists[found] = (list){spans[i].begin, i, count};
    found++;
  }
  return found;
}

static void enqueue(sweep *s, size_t span) {
  int32_t rank = s->spans[span].rank;
  if (s->waiting >> rank & 1)
    s->next[s->last[rank]] = span;
  else
    s->first[rank] = span;
  s->waiting |= UINT64_C(1) << rank;
  s->last[rank] = span;
  s->next[span] = NONE;
}

/* The first span of the lowest rank that is not over; NONE: there is none. */
static size_t first_waiting(sweep *s, int64_t now) {
  while (s->waiting) {
    int rank = __builtin_ctzll(s->waiting);
    size_t span = s->first[rank];
    while (span != NONE && s->spans[span].end <= now) span = s->next[span];
    if (span != NONE) return s->first[rank] = span;
    s->waiting &= s->waiting - 1;
  }
  return NONE;
}

/* The span that counts from now on, and until when it surely does. Takes in those that begin meanwhile. */
static size_t advance(sweep *s, int64_t now, int64_t *until) {
  size_t best = first_waiting(s, now);
  if (best != NONE && s->spans[best].end < *until) *until = s->spans[best].end;
  for (; s->lists && s->heap->begin < *until; drop(s)) {
    const fp_span *one = &s->spans[s->heap->at];
    if (one->end <= one->begin || one->end <= now) continue;
    bool counts = best == NONE || one->rank < s->spans[best].rank;
    if (counts && one->begin > now) {
      *until = one->begin;
      break;
    }
    if (counts || one->end > s->spans[best].end) enqueue(s, s->heap->at);
    if (!counts) continue;
    best = s->heap->at;
    if (one->end < *until) *until = one->end;
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

static bool sweep_make(sweep *s, fp_memory *memory, const fp_span *spans, size_t count) {
  size_t lists = sorted_lists(spans, count, NULL);
  *s = (sweep){.spans = spans, .lists = lists};
  s->next = fp_alloc(memory, count * sizeof *s->next);
  s->heap = fp_alloc(memory, lists * sizeof *s->heap);
  if (!s->next || !s->heap) return false;
  sorted_lists(spans, count, s->heap);
  for (size_t at = lists / 2; at-- > 0;) sink(s, at);
  return true;
}

fp_code fp_foremost(fp_memory *memory, const fp_span *spans, size_t count, int64_t first, int64_t last,
                    fp_vector *pieces) {
  for (size_t i = 0; i < count; i++)
    if (spans[i].rank < 0 || spans[i].rank >= FP_MOST_RANKS || spans[i].label < 0) return FP_OUT_OF_RANGE;
  sweep s;
  bool ok = sweep_make(&s, memory, spans, count);
  for (int64_t now = first, until; ok && now < last; now = until) {
    until = last;
    size_t best = advance(&s, now, &until);
    ok = add(memory, pieces, (fp_piece){now, until, best == NONE ? -1 : spans[best].label});
  }
  fp_release(memory, s.next);
  fp_release(memory, s.heap);
  return ok ? FP_OK : FP_NO_MEMORY;
}
