/* The sort that std::sort of libstdc++ is: quicksort down to ranges of 16, with the median of three as pivot and
 * heapsort for ranges that have been split too often, then one insertion sort over everything. The order of equal
 * items follows from the exact sequence of moves, so steps must not be reordered or simplified. */
#include "kernels/rank_order.h"

#include <stdbool.h>

enum {
  FEW = 16,        /* smaller ranges are left to the insertion sort at the end */
  MOST_RANGES = 128 /* ranges that may wait: one for each split, and those are limited to twice the bits of a count */
};

typedef struct {
  const int64_t *length;
  int32_t *order;
} ranks;

typedef struct {
  size_t first, last;
  int splits; /* how often it may still be split; at 0 it is sorted as a heap, so that no input takes n^2 time */
} range;

/* The order: longest first. */
static bool before(const ranks *r, int32_t a, int32_t b) { return r->length[a] > r->length[b]; }

static bool goes_before(const ranks *r, size_t i, size_t j) { return before(r, r->order[i], r->order[j]); }

static void swap(const ranks *r, size_t i, size_t j) {
  int32_t held = r->order[i];
  r->order[i] = r->order[j];
  r->order[j] = held;
}

/* Puts `value` in its place below `hole` in the heap of `count` items that begins at `first`: the hole moves down to
 * a leaf along the children that come last, and the value moves up from there. */
static void sift(const ranks *r, size_t first, size_t hole, size_t count, int32_t value) {
  int32_t *heap = r->order + first;
  size_t top = hole, child = hole;
  while (child < (count - 1) / 2) {
    child = 2 * (child + 1);
    if (before(r, heap[child], heap[child - 1])) child--;
    heap[hole] = heap[child];
    hole = child;
  }
  if (count % 2 == 0 && child == (count - 2) / 2) {
    child = 2 * child + 1;
    heap[hole] = heap[child];
    hole = child;
  }
  while (hole > top && before(r, heap[(hole - 1) / 2], value)) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = value;
}

/* Heapsort of a range. */
static void heap_order(const ranks *r, size_t first, size_t last) {
  size_t count = last - first;
  for (size_t node = count / 2; node-- > 0;) sift(r, first, node, count, r->order[first + node]);
  while (last - first > 1) {
    last--;
    int32_t value = r->order[last];
    r->order[last] = r->order[first];
    sift(r, first, 0, last - first, value);
  }
}

/* Swaps the median of the second, the middle and the last item to the front of the range. */
static void choose_pivot(const ranks *r, size_t first, size_t last) {
  size_t a = first + 1, b = first + (last - first) / 2, c = last - 1, median;
  if (goes_before(r, a, b))
    median = goes_before(r, b, c) ? b : goes_before(r, a, c) ? c : a;
  else
    median = goes_before(r, a, c) ? a : goes_before(r, b, c) ? c : b;
  swap(r, first, median);
}

/* Splits the range by its front item. Returns where the part behind it begins. */
static size_t split(const ranks *r, size_t first, size_t last) {
  choose_pivot(r, first, last);
  size_t left = first + 1, right = last;
  for (;;) {
    while (goes_before(r, left, first)) left++;
    right--;
    while (goes_before(r, first, right)) right--;
    if (left >= right) return left;
    swap(r, left, right);
    left++;
  }
}

/* Splits until all ranges are small. The part behind waits, the part before is next, as in the library's recursion. */
static void split_all(const ranks *r, size_t count) {
  range pending[MOST_RANGES];
  int bits = 0;
  for (size_t left = count; left > 1; left /= 2) bits++;
  size_t held = 0;
  pending[held++] = (range){0, count, 2 * bits};
  while (held) {
    range one = pending[--held];
    while (one.last - one.first > FEW) {
      if (one.splits == 0) {
        heap_order(r, one.first, one.last);
        break;
      }
      size_t cut = split(r, one.first, one.last);
      one.splits--;
      pending[held++] = (range){cut, one.last, one.splits};
      one.last = cut;
    }
  }
}

/* Moves the number at `place` left to its place. Some number left of it does not come after it, so the loop needs no
 * bound. */
static void insert(const ranks *r, size_t place) {
  int32_t value = r->order[place];
  while (before(r, value, r->order[place - 1])) {
    r->order[place] = r->order[place - 1];
    place--;
  }
  r->order[place] = value;
}

/* The same for the first numbers, where the number may come before all others. */
static void insert_in_front(const ranks *r, size_t place) {
  int32_t value = r->order[place];
  if (!before(r, value, r->order[0])) {
    insert(r, place);
    return;
  }
  for (; place > 0; place--) r->order[place] = r->order[place - 1];
  r->order[0] = value;
}

void fp_rank_order(const int64_t *length, int32_t *order, size_t count) {
  if (count < 2) return;
  ranks r = {length, order};
  split_all(&r, count);
  for (size_t i = 1; i < count; i++) {
    if (i < FEW)
      insert_in_front(&r, i);
    else
      insert(&r, i);
  }
}
