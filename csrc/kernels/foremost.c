/* A sweep from the begin of one span, or the end of the one that counts, to the next. Spans that have begun wait in
 * queues, one for each rank, in which they are by place. Those that are over stay there until they are first. */
#include "kernels/foremost.h"

typedef struct sweep {
  const int64_t *begin, *end;
  const int32_t *rank;
  size_t count, begun;
  uint64_t waiting;                              /* a bit for each rank whose queue has spans */
  int64_t first[FP_MOST_RANKS], last[FP_MOST_RANKS]; /* of each queue */
  int64_t *next;                                 /* of each span, the one behind it in its queue; -1: none */
} sweep;

static void enqueue(sweep *s, int64_t span) {
  int32_t rank = s->rank[span];
  if (s->waiting >> rank & 1)
    s->next[s->last[rank]] = span;
  else
    s->first[rank] = span;
  s->waiting |= UINT64_C(1) << rank;
  s->last[rank] = span;
  s->next[span] = -1;
}

/* The span that counts now, -1: none. Adds those that have begun. */
static int64_t advance(sweep *s, int64_t now) {
  for (; s->begun < s->count && s->begin[s->begun] <= now; s->begun++)
    if (s->end[s->begun] > now) enqueue(s, (int64_t)s->begun);
  while (s->waiting) {
    int rank = __builtin_ctzll(s->waiting);
    int64_t span = s->first[rank];
    for (; span >= 0 && s->end[span] <= now; span = s->next[span]) continue;
    if (span >= 0) return s->first[rank] = span;
    s->waiting &= s->waiting - 1;
  }
  return -1;
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
  for (size_t i = 0; i < count; i++)
    if (rank[i] < 0 || rank[i] >= FP_MOST_RANKS) return FP_OUT_OF_RANGE;
  sweep s = {.begin = begin, .end = end, .rank = rank, .count = count, .next = fp_alloc(memory, count * sizeof *s.next)};
  bool ok = s.next != NULL;
  for (int64_t now = first; ok && now < last;) {
    int64_t span = advance(&s, now), until = last;
    if (span >= 0 && end[span] < until) until = end[span];
    if (s.begun < count && begin[s.begun] < until) until = begin[s.begun];
    ok = add(memory, pieces, (fp_piece){now, until, span});
    now = until;
  }
  fp_release(memory, s.next);
  return ok ? FP_OK : FP_NO_MEMORY;
}
