/* A sweep from the begin of one span, or the end of the one that counts, to the next. Spans that have begun are in a heap
 * by rank. Those that are over stay in it until they reach the top: removing them earlier would need a search. */
#include "kernels/foremost.h"

typedef struct sweep {
  fp_memory *memory;
  const int64_t *begin, *end;
  const int32_t *rank;
  size_t count, begun;
  fp_vector heap; /* int64_t: places of spans */
} sweep;

/* The order of the heap: by rank, then by place. */
static bool before(const sweep *s, int64_t a, int64_t b) {
  return s->rank[a] != s->rank[b] ? s->rank[a] < s->rank[b] : a < b;
}

static bool push(sweep *s, int64_t fresh) {
  if (!fp_vector_add(s->memory, &s->heap, sizeof fresh)) return false;
  int64_t *heap = s->heap.items;
  size_t at = s->heap.count - 1;
  for (; at && before(s, fresh, heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = fresh;
  return true;
}

static void pop(sweep *s) {
  int64_t *heap = s->heap.items, last = heap[--s->heap.count];
  size_t at = 0, count = s->heap.count;
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && before(s, heap[child + 1], heap[child])) child++;
    if (!before(s, heap[child], last)) break;
    heap[at] = heap[child];
  }
  heap[at] = last;
}

/* Adds the spans that have begun by now, and drops those that are over from the top. Fails only when memory runs out. */
static bool advance(sweep *s, int64_t now) {
  for (; s->begun < s->count && s->begin[s->begun] <= now; s->begun++)
    if (s->end[s->begun] > now && !push(s, (int64_t)s->begun)) return false;
  while (s->heap.count && s->end[*(int64_t *)s->heap.items] <= now) pop(s);
  return true;
}

/* Appends a piece, or extends the last one if it has the same span. */
static bool add(fp_memory *memory, fp_vector *pieces, fp_piece one) {
  fp_piece *last = pieces->count ? (fp_piece *)pieces->items + pieces->count - 1 : NULL;
  if (last && last->span == one.span && last->end == one.begin) {
    last->end = one.end;
    return true;
  }
  fp_piece *fresh = fp_vector_add(memory, pieces, sizeof *fresh);
  if (fresh) *fresh = one;
  return fresh != NULL;
}

fp_code fp_foremost(fp_memory *memory, const int64_t *begin, const int64_t *end, const int32_t *rank, size_t count,
                    int64_t first, int64_t last, fp_vector *pieces) {
  sweep s = {.memory = memory, .begin = begin, .end = end, .rank = rank, .count = count};
  bool ok = true;
  for (int64_t now = first; ok && now < last;) {
    ok = advance(&s, now);
    int64_t span = s.heap.count ? *(int64_t *)s.heap.items : -1, until = last;
    if (span >= 0 && end[span] < until) until = end[span];
    if (s.begun < count && begin[s.begun] < until) until = begin[s.begun];
    ok = ok && add(memory, pieces, (fp_piece){now, until, span});
    now = until;
  }
  fp_vector_free(memory, &s.heap);
  return ok ? FP_OK : FP_NO_MEMORY;
}
