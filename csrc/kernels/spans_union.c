/* Spans are joined as they come; what comes out are sorted lists, fewer and shorter than what went in. Neighbouring
 * lists are merged, back and forth between two arrays, until one is left:
 *
 *    spans of two threads   |a------|  |c|     |b--|   |d---|
 *                             |a--|
 *    lists                  |a------|  |c|                       0
 *                                              |b--|   |d---|    1, which begins before c
 *    merged                 |a------|..........
 */
#include "kernels/spans_union.h"

#include <string.h>

#include "time_sums.h"

/* Joins a time to the last of a list if they meet, else lengthens the list by it; it begins no earlier. */
static inline size_t lengthened(fp_filled *list, size_t count, fp_filled one) {
  if (!count || one.begin > list[count - 1].end) {
    list[count] = one;
    return count + 1;
  }
  if (one.end > list[count - 1].end) list[count - 1].end = one.end;
  return count;
}

/* Where the sorted list ends that begins at `at`. */
static size_t list_end(const fp_filled *times, size_t at, size_t count) {
  if (at == count) return count;
  while (++at < count && times[at].begin >= times[at - 1].begin) continue;
  return at;
}

/* Merges each list with the one behind it, and returns how many times are left. */
static size_t with_neighbours(const fp_filled *from, size_t count, fp_filled *to) {
  size_t made = 0;
  for (size_t a = 0, middle, b, end; a < count; a = end) {
    middle = b = list_end(from, a, count);
    end = list_end(from, middle, count);
    fp_filled *list = to + made;
    size_t length = 0;
    while (a < middle || b < end) {
      bool first = b == end || (a < middle && from[a].begin <= from[b].begin);
      length = lengthened(list, length, first ? from[a++] : from[b++]);
    }
    made += length;
  }
  return made;
}

static fp_code one_list(fp_memory *memory, fp_vector *filled) {
  fp_filled *times = filled->items;
  size_t count = filled->count;
  if (list_end(times, 0, count) == count) return FP_OK;
  fp_filled *other = fp_alloc(memory, count * sizeof *other);
  if (!other) return FP_NO_MEMORY;
  fp_filled *from = times, *to = other;
  while (list_end(from, 0, count) < count) {
    count = with_neighbours(from, count, to);
    fp_filled *done = to;
    to = from;
    from = done;
  }
  if (from != times) memcpy(times, from, count * sizeof *times);
  filled->count = count;
  fp_release(memory, other);
  return FP_OK;
}

fp_code fp_spans_union(fp_memory *memory, const int64_t *start, const int64_t *duration, size_t count,
                       fp_vector *filled) {
  fp_filled *last = NULL;
  for (size_t i = 0; i < count; i++) {
    if (duration[i] <= 0) continue;
    int64_t end = fp_end_of(start[i], duration[i]);
    if (end <= start[i]) continue;
    if (last && start[i] >= last->begin && start[i] <= last->end) {
      if (end > last->end) last->end = end;
      continue;
    }
    last = fp_vector_add(memory, filled, sizeof *last);
    if (!last) return FP_NO_MEMORY;
    *last = (fp_filled){start[i], end};
  }
  return one_list(memory, filled);
}
