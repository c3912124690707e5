/* Shares form chains (C shares B, B shares A) that are resolved to the owner and shortened on the way, as in a
 * union-find. Each time that an owner's memory is taken gets a number, a `taking`. When it is given back, `until`
 * notes the event. Takings up to the peak whose `until` lies behind the peak are what is alive there, so the peak
 * needs no copy of the heap. */
#include "kernels/heap_trace.h"

#include <string.h>

enum { NEVER = INT32_MAX };

/* The state while the events are followed. */
typedef struct walk {
  const fp_heap_events *events;
  const fp_heap_sizes *sizes;
  const fp_heap *out;
  int32_t *shared; /* by buffer: whose memory it shares; -1: it owns its memory */
  int32_t *users;  /* by owner: how many buffers use its memory now, itself included */
  int32_t *taking; /* by owner: the number of its last taking */
  int32_t *until;  /* by taking: the event that gave it back, or NEVER */
  uint64_t heap, unpadded;
  int32_t takings;
} walk;

/* The buffer that owns a buffer's memory. */
static int32_t owner(const walk *w, int32_t buffer) {
  while (w->shared[buffer] >= 0) {
    int32_t above = w->shared[w->shared[buffer]];
    if (above >= 0) w->shared[buffer] = above; /* each walk shortens the chain for the next */
    buffer = w->shared[buffer];
  }
  return buffer;
}

/* An owner's memory is taken; `shown` is the buffer that is in it. */
static void take(walk *w, int32_t own, int32_t shown, int32_t event) {
  w->heap += (uint64_t)w->sizes->size[own];
  w->unpadded += (uint64_t)w->sizes->unpadded[own];
  w->out->alive[w->takings] = own;
  w->out->shown[w->takings] = shown;
  w->until[w->takings] = NEVER;
  w->taking[own] = w->takings++;
  if (w->out->held[shown] < 0) w->out->held[shown] = event;
}

/* The last user of an owner's memory has been freed. */
static void give_back(walk *w, int32_t own, int32_t event) {
  w->heap -= (uint64_t)w->sizes->size[own];
  w->unpadded -= (uint64_t)w->sizes->unpadded[own];
  w->until[w->taking[own]] = event;
  if (w->out->held[own] >= 0 && w->out->freed[own] < 0) w->out->freed[own] = event;
}

/* These three return false for an event that contradicts the state. */
static bool allocate(walk *w, int32_t buffer, int32_t event) {
  if (w->shared[buffer] >= 0 || w->users[buffer] > 0) return false;
  w->users[buffer] = 1;
  take(w, buffer, buffer, event);
  return true;
}

static bool release(walk *w, int32_t buffer, int32_t event) {
  int32_t own = owner(w, buffer);
  if (w->users[own] <= 0 || w->out->start[buffer] < 0) return false;
  w->out->end[buffer] = event;
  if (own != buffer && w->out->held[buffer] >= 0) w->out->freed[buffer] = event;
  if (!--w->users[own]) give_back(w, own, event);
  return true;
}

static bool share(walk *w, int32_t buffer, int32_t canonical, int32_t event) {
  if (canonical < 0) return false;
  int32_t own = owner(w, canonical);
  if (own == buffer || w->shared[buffer] >= 0 || w->users[buffer] > 0) return false;
  w->shared[buffer] = own;
  if (!w->users[own]++) take(w, own, buffer, event);
  return true;
}

/* Handles one event and the life of its buffer; false: it is skipped. */
static bool step(walk *w, int32_t event) {
  int32_t buffer = w->events->buffer[event];
  bool lives = false;
  if (buffer < 0) return false;
  switch (w->events->kind[event]) {
    case FP_HEAP_ALLOC: lives = allocate(w, buffer, event); break;
    case FP_HEAP_FREE: return release(w, buffer, event);
    case FP_HEAP_SHARE: lives = share(w, buffer, w->events->canonical[event], event); break;
    default: return false;
  }
  if (lives && w->out->start[buffer] < 0) w->out->start[buffer] = event;
  if (lives) w->out->end[buffer] = (int32_t)w->events->count;
  return lives;
}

/* Nothing has happened to any buffer. */
static void begin(walk *w) {
  size_t bytes = w->sizes->count * sizeof(int32_t);
  int32_t *none[] = {w->shared, w->out->start, w->out->end, w->out->held, w->out->freed};
  for (size_t i = 0; bytes && i < sizeof none / sizeof *none; i++) memset(none[i], 0xFF, bytes);
  if (bytes) memset(w->users, 0, bytes);
}

/* Handles all events. The peak is the first of the highest points. Returns the number of takings up to it. */
static int32_t follow(walk *w, fp_heap_peak *peak) {
  int32_t takings = 0;
  size_t count = w->events->count;
  for (size_t i = 0; i < count; i++) {
    w->out->heap[i] = (int64_t)w->heap;
    w->out->unpadded[i] = (int64_t)w->unpadded;
    if (!step(w, (int32_t)i)) peak->passed_over++;
    if ((int64_t)w->heap <= peak->bytes) continue;
    peak->bytes = (int64_t)w->heap;
    peak->unpadded = (int64_t)w->unpadded;
    peak->event = (int64_t)i;
    takings = w->takings;
  }
  w->out->heap[count] = (int64_t)w->heap;
  w->out->unpadded[count] = (int64_t)w->unpadded;
  return takings;
}

/* Keeps those takings up to the peak that were not given back by then. */
static void keep_alive(const walk *w, int32_t takings, fp_heap_peak *peak) {
  for (int32_t i = 0; i < takings; i++) {
    if (w->until[i] <= peak->event) continue;
    w->out->alive[peak->alive] = w->out->alive[i];
    w->out->shown[peak->alive++] = w->out->shown[i];
  }
}

/* Memory that is never freed is in use up to the last event. */
static void finish(const walk *w) {
  for (size_t i = 0; i < w->sizes->count; i++) {
    if (w->out->held[i] >= 0 && w->out->freed[i] < 0) w->out->freed[i] = (int32_t)w->events->count - 1;
    w->out->root[i] = owner(w, (int32_t)i);
  }
}

fp_code fp_heap_trace(fp_memory *memory, const fp_heap_events *events, const fp_heap_sizes *sizes, const fp_heap *out,
                   fp_heap_peak *peak) {
  int32_t *state = fp_alloc(memory, (3 * sizes->count + events->count) * sizeof *state);
  if (!state) return FP_NO_MEMORY;
  walk w = {.events = events, .sizes = sizes, .out = out, .shared = state, .users = state + sizes->count,
            .taking = state + 2 * sizes->count, .until = state + 3 * sizes->count};
  memset(peak, 0, sizeof *peak);
  begin(&w);
  int32_t takings = follow(&w, peak);
  finish(&w);
  keep_alive(&w, takings, peak);
  fp_release(memory, state);
  return FP_OK;
}
