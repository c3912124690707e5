/* Insertion sort with a budget of moves; a merge sort takes over when the budget is spent. Insertion needs no memory,
 * and on nearly sorted rows it is one comparison a row. */
#include "kernels/time_order.h"

#include <string.h>

enum {
  MOVES = 8, /* moves per row that insertion may make before merging is worth its memory */
  RUN = 32   /* rows that insertion sorts before they are merged */
};

typedef struct times {
  const int64_t *start, *duration;
} times;

/* Whether row b, which comes later in the order so far, must come before row a. */
static inline bool after(const times *of, int64_t a, int64_t b) {
  if (of->start[a] != of->start[b]) return of->start[a] > of->start[b];
  return of->duration[a] < of->duration[b];
}

/* Insertion sort of rows first..first + count. False: it would need more than `moves` moves. The last sorted row's
 * times are kept in registers, since most rows follow it directly. */
static bool inserted(const times *of, int64_t *order, int64_t first, int64_t count, int64_t moves) {
  const int64_t *start = of->start, *duration = of->duration;
  int64_t last_start = INT64_MIN, last_duration = INT64_MAX;
  for (int64_t i = 0; i < count; i++) {
    int64_t row = first + i, at = i;
    if (start[row] < last_start || (start[row] == last_start && duration[row] > last_duration)) {
      for (; at > 0 && after(of, order[at - 1], row); at--) order[at] = order[at - 1];
      moves -= i - at;
      if (moves < 0) return false;
    } else {
      last_start = start[row];
      last_duration = duration[row];
    }
    order[at] = row;
  }
  return true;
}

/* Merges two sorted ranges of `from` into `to`; one copy if they follow each other already. */
static void merge(const times *of, const int64_t *from, int64_t *to, int64_t low, int64_t middle, int64_t high) {
  if (middle == high || !after(of, from[middle - 1], from[middle])) {
    memcpy(to + low, from + low, (size_t)(high - low) * sizeof *to);
    return;
  }
  int64_t a = low, b = middle;
  for (int64_t at = low; at < high; at++)
    to[at] = b == high || (a < middle && !after(of, from[a], from[b])) ? from[a++] : from[b++];
}

/* Bottom-up merge sort: runs of RUN rows, sorted by insertion, are merged in pairs, back and forth between two
 * arrays. */
static void merged(const times *of, int64_t *order, int64_t *other, int64_t first, int64_t count) {
  for (int64_t low = 0; low < count; low += RUN) {
    int64_t length = count - low < RUN ? count - low : RUN;
    inserted(of, order + low, first + low, length, RUN * RUN);
  }
  int64_t *from = order, *to = other;
  for (int64_t width = RUN; width < count; width *= 2) {
    for (int64_t low = 0; low < count; low += 2 * width) {
      int64_t middle = low + width < count ? low + width : count;
      int64_t high = middle + width < count ? middle + width : count;
      merge(of, from, to, low, middle, high);
    }
    int64_t *done = to;
    to = from;
    from = done;
  }
  if (from != order) memcpy(order, from, (size_t)count * sizeof *order);
}

/* `order` is filled anew by merging; what insertion had left in it is not used. */
bool fp_time_order(fp_memory *memory, const int64_t *start, const int64_t *duration, int64_t first, int64_t last,
                   int64_t *order) {
  const times of = {start, duration};
  int64_t count = last - first;
  if (inserted(&of, order, first, count, MOVES * count)) return true;
  int64_t *other = fp_alloc(memory, (size_t)count * sizeof *other);
  if (!other) return false;
  merged(&of, order, other, first, count); /* stable, as insertion is */
  fp_release(memory, other);
  return true;
}
