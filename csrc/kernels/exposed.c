/* A sweep over all times at which anything changes: work begins or ends, a transfer begins or ends, or a row of sums
 * is due. Between two such times nothing changes, so pass() adds the length of that piece to the sums that apply.
 * Transfers that have begun are in a heap by rank. Those that are over stay in it until they reach the top: removing
 * them earlier would need a search. */
#include "kernels/exposed.h"

#include <string.h>

typedef struct sweep {
  const fp_overlap *of;
  fp_vector heap; /* int64_t: places of transfers that have begun, lowest rank first; some may be over */
  size_t working, begun, ended, timed; /* how far work, transfers, by_end and times have been handled */
  bool at_work;
  int64_t now;
  uint64_t active; /* a bit for each kind that is under way */
  uint64_t under_way[FP_MOST_KINDS]; /* transfers, by kind */
  uint64_t sums[FP_SUM_KINDS + 3 * FP_MOST_KINDS];
} sweep;

/* ---- the transfer to blame */

/* The order of the heap: by rank, then by begin. */
static bool before(const sweep *s, int64_t a, int64_t b) {
  int32_t left = s->of->transfers[a].rank, right = s->of->transfers[b].rank;
  return left != right ? left < right : a < b;
}

/* Adds a transfer to the heap. */
static bool push(fp_memory *memory, sweep *s, int64_t fresh) {
  if (!fp_vector_add(memory, &s->heap, sizeof fresh)) return false;
  int64_t *heap = s->heap.items;
  size_t at = s->heap.count - 1;
  for (; at && before(s, fresh, heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = fresh;
  return true;
}

/* Removes the first transfer from the heap. */
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

/* The transfer that is blamed now; NULL if none is under way. Drops those that are over from the top of the heap. */
static fp_transfer *to_blame(sweep *s) {
  while (s->heap.count) {
    fp_transfer *first = s->of->transfers + *(int64_t *)s->heap.items;
    if (first->end > s->now) return first;
    pop(s);
  }
  return NULL;
}

/* ---- the sweep */

/* The three sums of a kind: under way, under way beside work, blamed. */
static uint64_t *of_kind(sweep *s, int kind) { return s->sums + FP_SUM_KINDS + 3 * kind; }

/* Adds the piece of time from `now` to `until`, in which nothing changes. */
static void pass(sweep *s, int64_t until) {
  uint64_t time = (uint64_t)until - (uint64_t)s->now;
  if (s->at_work) s->sums[FP_SUM_WORK] += time;
  if (s->active) {
    s->sums[FP_SUM_TRANSFER] += time;
    for (uint64_t kinds = s->active; kinds; kinds &= kinds - 1) {
      uint64_t *sums = of_kind(s, __builtin_ctzll(kinds));
      sums[0] += time;
      if (s->at_work) sums[1] += time;
    }
    fp_transfer *blamed = s->at_work ? NULL : to_blame(s);
    if (blamed) {
      s->sums[FP_SUM_EXPOSED] += time;
      blamed->exposed += (int64_t)time;
      of_kind(s, blamed->kind)[2] += time;
    }
  }
  s->now = until;
}

/* The next time at which anything changes. False: no row of sums and no end of a transfer is left, so nothing more
 * has to be added. */
static bool next_change(const sweep *s, int64_t *time) {
  const fp_overlap *of = s->of;
  *time = INT64_MAX;
  if (s->working < of->work_count) {
    const fp_stretch *work = of->work + s->working;
    *time = s->at_work ? work->end : work->begin;
  }
  if (s->begun < of->transfer_count && of->transfers[s->begun].begin < *time) *time = of->transfers[s->begun].begin;
  if (s->ended < s->begun && of->transfers[of->by_end[s->ended]].end < *time)
    *time = of->transfers[of->by_end[s->ended]].end;
  if (s->timed < of->time_count && of->times[s->timed] < *time) *time = of->times[s->timed];
  return s->timed < of->time_count || s->ended < of->transfer_count;
}

/* Ends the transfers that end by now. `hidden` is the difference of two readings of the same clock, the work so far:
 * begin_transfers subtracts it, this adds it. */
static void end_transfers(sweep *s) {
  const fp_overlap *of = s->of;
  for (; s->ended < s->begun && of->transfers[of->by_end[s->ended]].end <= s->now; s->ended++) {
    fp_transfer *one = of->transfers + of->by_end[s->ended];
    one->hidden += (int64_t)s->sums[FP_SUM_WORK];
    if (!--s->under_way[one->kind]) s->active &= ~(UINT64_C(1) << one->kind);
  }
}

/* Begins the transfers that begin by now. Fails only when memory runs out. */
static bool begin_transfers(fp_memory *memory, sweep *s) {
  const fp_overlap *of = s->of;
  for (; s->begun < of->transfer_count && of->transfers[s->begun].begin <= s->now; s->begun++) {
    fp_transfer *one = of->transfers + s->begun;
    one->exposed = 0;
    one->hidden = -(int64_t)s->sums[FP_SUM_WORK];
    s->under_way[one->kind]++;
    s->active |= UINT64_C(1) << one->kind;
    if (!push(memory, s, (int64_t)s->begun)) return false;
  }
  return true;
}

/* Begins and ends work up to now. */
static void turn_work(sweep *s) {
  const fp_overlap *of = s->of;
  for (; s->working < of->work_count; s->at_work = !s->at_work) {
    const fp_stretch *work = of->work + s->working;
    if ((s->at_work ? work->end : work->begin) > s->now) return;
    s->working += s->at_work;
  }
}

/* At equal times transfers end before others begin, and sums are reported last. */
fp_code fp_overlaps(fp_memory *memory, const fp_overlap *of, int64_t *sums) {
  sweep s = {.of = of, .now = INT64_MIN};
  size_t width = FP_SUM_KINDS + 3 * of->kind_count;
  bool ok = true;
  for (int64_t time; ok && next_change(&s, &time);) {
    pass(&s, time > s.now ? time : s.now);
    end_transfers(&s);
    turn_work(&s);
    ok = begin_transfers(memory, &s);
    for (; s.timed < of->time_count && of->times[s.timed] <= s.now; s.timed++)
      memcpy(sums + s.timed * width, s.sums, width * sizeof *sums);
  }
  fp_vector_free(memory, &s.heap);
  return ok ? FP_OK : FP_NO_MEMORY;
}

/* ---- what it needs */

static bool work_ascends(const fp_overlap *of) {
  for (size_t i = 0; i < of->work_count; i++)
    if (of->work[i].end <= of->work[i].begin || (i && of->work[i].begin < of->work[i - 1].end)) return false;
  return true;
}

/* Transfers by begin, by_end by end, and all of them possible. */
static bool transfers_ascend(const fp_overlap *of) {
  for (size_t i = 0; i < of->transfer_count; i++) {
    const fp_transfer *one = of->transfers + i;
    if (one->end <= one->begin || (i && one->begin < one[-1].begin)) return false;
    if (one->kind < 0 || (size_t)one->kind >= of->kind_count) return false;
    if (of->by_end[i] < 0 || (size_t)of->by_end[i] >= of->transfer_count) return false;
    if (i && of->transfers[of->by_end[i]].end < of->transfers[of->by_end[i - 1]].end) return false;
  }
  return true;
}

bool fp_overlap_is_in_order(const fp_overlap *of) {
  if (of->kind_count > FP_MOST_KINDS) return false;
  for (size_t i = 1; i < of->time_count; i++)
    if (of->times[i] < of->times[i - 1]) return false;
  return work_ascends(of) && transfers_ascend(of);
}
