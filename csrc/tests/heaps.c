#include "tests/heaps.h"

#include "tests/check.h"

/* A copy in a block of exactly its size; `items` NULL: only the block. */
static void *copy_of(const void *items, size_t bytes) {
  void *block = malloc(bytes ? bytes : 1);
  CHECK(block != NULL);
  if (items && bytes) memcpy(block, items, bytes);
  return block;
}

bool heap_follow(fp_memory *memory, const heap_case *one, heap_result *out) {
  size_t n = one->count, m = one->buffers;
  int32_t *kind = copy_of(one->kind, n * 4), *buffer = copy_of(one->buffer, n * 4);
  int32_t *canonical = copy_of(one->canonical, n * 4);
  int64_t *size = copy_of(one->size, m * 8), *unpadded = copy_of(one->unpadded, m * 8);
  fp_heap heap = {copy_of(NULL, (n + 1) * 8), copy_of(NULL, (n + 1) * 8), copy_of(NULL, m * 4),
                  copy_of(NULL, m * 4),       copy_of(NULL, m * 4),       copy_of(NULL, m * 4),
                  copy_of(NULL, m * 4),       copy_of(NULL, n * 4),       copy_of(NULL, n * 4)};
  fp_heap_events events = {kind, buffer, canonical, n};
  fp_heap_sizes sizes = {size, unpadded, m};
  bool done = fp_heap_trace(memory, &events, &sizes, &heap, &out->peak) == FP_OK;
  CHECK_INT(memory->live, 0);
  if (done) {
    memcpy(out->heap, heap.heap, (n + 1) * 8);
    memcpy(out->unpadded, heap.unpadded, (n + 1) * 8);
    int32_t *to[] = {out->start, out->end, out->held, out->freed, out->root};
    const int32_t *from[] = {heap.start, heap.end, heap.held, heap.freed, heap.root};
    for (size_t i = 0; m && i < 5; i++) memcpy(to[i], from[i], m * 4);
    memcpy(out->alive, heap.alive, out->peak.alive * 4);
    memcpy(out->shown, heap.shown, out->peak.alive * 4);
  }
  free(kind), free(buffer), free(canonical), free(size), free(unpadded);
  free(heap.heap), free(heap.unpadded), free(heap.start), free(heap.end), free(heap.held), free(heap.freed);
  free(heap.root), free(heap.alive), free(heap.shown);
  return done;
}

/* Groups of buffers that share memory, without union-find: the owner of each buffer, how many users an owner has, and
 * whether a buffer has occurred. */
typedef struct groups {
  int32_t owner[MOST_BUFFERS], users[MOST_BUFFERS];
  bool met[MOST_BUFFERS];
} groups;

/* Gives all buffers of one owner to another. */
static void move_group(groups *g, size_t buffers, int32_t from, int32_t to) {
  for (size_t i = 0; i < buffers; i++)
    if (g->owner[i] == from) g->owner[i] = to;
}

/* Applies one event; false if it contradicts the state. Which buffers of a group are freed does not matter, only how
 * many. */
static bool apply(groups *g, const heap_case *one, size_t i) {
  int32_t *users = g->users;
  int32_t b = one->buffer[i], c = one->canonical[i];
  if (b < 0) return false;
  if (one->kind[i] == FP_HEAP_ALLOC) {
    if (g->owner[b] != b || users[b] > 0) return false;
    users[b] = 1;
    return g->met[b] = true;
  }
  if (one->kind[i] == FP_HEAP_FREE) {
    if (users[g->owner[b]] <= 0 || !g->met[b]) return false;
    users[g->owner[b]]--;
    return true;
  }
  if (one->kind[i] != FP_HEAP_SHARE || c < 0) return false;
  if (g->owner[b] != b || g->owner[c] == b || users[b] > 0) return false;
  move_group(g, one->buffers, b, g->owner[c]);
  users[g->owner[b]]++;
  return g->met[b] = true;
}

/* After each event the heap is summed up again from scratch. */
void heap_check(const heap_case *one, const heap_result *found) {
  groups g = {{0}, {0}, {false}};
  int64_t most = 0, at = 0;
  size_t passed_over = 0;
  for (size_t i = 0; i < one->buffers; i++) g.owner[i] = (int32_t)i;
  for (size_t i = 0; i < one->count; i++) {
    if (!apply(&g, one, i)) passed_over++;
    uint64_t heap = 0, unpadded = 0;
    for (size_t b = 0; b < one->buffers; b++) {
      if (g.users[b] > 0) heap += (uint64_t)one->size[b], unpadded += (uint64_t)one->unpadded[b];
    }
    CHECK_INT(found->heap[i + 1], heap);
    CHECK_INT(found->unpadded[i + 1], unpadded);
    if ((int64_t)heap <= most) continue;
    most = (int64_t)heap;
    at = (int64_t)i;
  }
  CHECK_INT(found->heap[0], 0);
  CHECK_INT(found->peak.bytes, most);
  CHECK_INT(found->peak.event, at);
  CHECK_INT(found->peak.passed_over, passed_over);
  uint64_t alive = 0;
  for (size_t i = 0; i < found->peak.alive; i++) alive += (uint64_t)one->size[found->alive[i]];
  CHECK_INT(alive, most);
  for (size_t b = 0; b < one->buffers; b++) {
    CHECK_INT(found->root[b], g.owner[b]);
    CHECK_INT(found->start[b] >= 0, g.met[b]);
    CHECK(found->start[b] <= found->end[b] && found->end[b] <= (int32_t)one->count);
    CHECK((found->held[b] < 0) == (found->freed[b] < 0) && found->held[b] <= found->freed[b]);
    CHECK(found->held[b] < 0 || found->start[b] >= 0);
  }
}
