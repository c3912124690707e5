#include "kernels/free_bounds.h"

#include <float.h>

/* Profilers write doubles as text of so many significant digits, the first of which is worth one unit. */
static const double LAST_DIGIT = 1e-5, SMALLEST_UNIT = 1e-25;

/* How far the share may be from what it was before it was written: half a unit of the last digit if it has no more
 * digits than such text; a little for the arithmetic in any case. */
static double doubt_of(double share) {
  double unit = 1, little = 4 * DBL_EPSILON;
  while (unit > share && unit > SMALLEST_UNIT) unit /= 10;
  double digits = share / unit / LAST_DIGIT, off = digits - (double)(int64_t)(digits + 0.5);
  return off > -1e-4 && off < 1e-4 ? unit * LAST_DIGIT / 2 + little : little;
}

static int64_t part_of(double share, int64_t whole) {
  if (!(share > 0)) return 0;
  return share >= 1 ? whole : (int64_t)(share * (double)whole);
}

static void find_largest(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  double share = events->fragmentation[row];
  int64_t whole = events->free_bytes[row], low, high;
  bool told = (events->recorded[row] & events->free_bit) && whole >= 0 && share >= 0 && share <= 1;
  if (!told) {
    low = high = -1;
  } else if (share == 0) {
    low = high = whole;
  } else {
    double doubt = doubt_of(share);
    low = part_of(1 - share - doubt, whole);
    high = part_of(1 - share + doubt, whole);
    if (high < whole) high++; /* rounded up */
  }
  out->largest_low[row] = low;
  out->largest_high[row] = high;
}

/* Whether nothing is missing between an event and the one before, and the stack is as it was. */
static bool follows(const fp_free_events *events, size_t row) {
  int64_t moved = events->moved[row];
  if (moved < 0 || !(events->recorded[row] & events->recorded[row - 1] & events->heap_bit)) return false;
  int64_t heap, taken;
  if (__builtin_sub_overflow(events->heap[row], events->heap[row - 1], &heap)) return false;
  if (__builtin_sub_overflow(events->free_bytes[row - 1], events->free_bytes[row], &taken)) return false;
  int64_t change = events->is_allocation[row] ? moved : -moved;
  return heap == change && taken == change;
}

/* Whether what seems to be the largest free chunk changes as none can: an allocation cannot make it larger, nor smaller
 * by more than itself, and does not fit where it is larger than it was; a free cannot make it smaller. */
static bool changes_oddly(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  int64_t low = out->largest_low[row], high = out->largest_high[row];
  int64_t low_before = out->largest_low[row - 1], high_before = out->largest_high[row - 1];
  if (low < 0 || low_before < 0 || !follows(events, row)) return false;
  if (!events->is_allocation[row]) return high < low_before;
  int64_t moved = events->moved[row];
  return low > high_before || moved > high_before || high < low_before - moved;
}

static void forget_hidden(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  bool is_more = (events->recorded[row] & events->free_bit) && out->known[row] > events->free_bytes[row];
  if (events->stack[row] || out->known[row] < 0 || is_more)
    out->known[row] = out->chunks[row] = out->fitting[row] = out->known_too_small[row] = 0;
}

static void find_too_small(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  int64_t request = events->request[row], whole = events->free_bytes[row], least, most;
  if (request <= 0) {
    least = most = 0;
  } else if (out->largest_low[row] < 0) {
    least = most = -1;
  } else if (out->largest_high[row] < request) {
    least = most = whole;
  } else {
    int64_t fitting = out->fitting[row], low = out->largest_low[row];
    least = out->known_too_small[row];
    most = whole - (low >= request && low > fitting ? low : fitting);
    if (most < least) most = least;
  }
  out->too_small_least[row] = least;
  out->too_small_most[row] = most;
}

void fp_bound_free_memory(const fp_free_events *events, const fp_free_bounds *out) {
  for (size_t allocator = 0; allocator < events->allocator_count; allocator++) {
    size_t first = (size_t)events->bounds[allocator], last = (size_t)events->bounds[allocator + 1];
    bool grows = false;
    for (size_t row = first; row < last; row++) {
      forget_hidden(events, out, row);
      find_largest(events, out, row);
      grows |= row > first && changes_oddly(events, out, row);
    }
    out->grows[allocator] = grows;
    for (size_t row = first; row < last; row++) {
      if (grows) out->largest_low[row] = out->largest_high[row] = -1;
      find_too_small(events, out, row);
    }
  }
}
