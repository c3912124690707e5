/* What is recorded is one number per event: fragmentation = (free - largest) / free, rounded to six digits. It gives
 * the largest free chunk directly if the allocator took all its memory at the start. An allocator that grows counts
 * as free only what it has taken and does not use, here called *in hand*, while `free_bytes` includes what it could
 * still take:
 *
 *    device memory   [ in use | in hand | not taken yet ]
 *                              <-------- free_bytes ----->       recorded
 *                              <------->                         not recorded; fragmentation is a part of this
 *
 * The second part of this file bounds memory in hand. Every event changes it, and the largest chunk in it, in one of
 * a few ways; each way is a pair of inequalities between the amounts before and after. Bounds are carried forward
 * over the events and then back, and a contradiction discards the run of events.
 *
 * All bounds are integers. Doubles occur only as factors, and every division is rounded outwards. */
#include "kernels/free_bounds.h"

#include <float.h>

/* Profilers write doubles as text of six significant digits. The first digit is worth one of these. */
static const double UNITS[] = {1,     1e-1,  1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,  1e-8,  1e-9,  1e-10, 1e-11, 1e-12,
                               1e-13, 1e-14, 1e-15, 1e-16, 1e-17, 1e-18, 1e-19, 1e-20, 1e-21, 1e-22, 1e-23, 1e-24};
/* The worth of the sixth digit relative to the first, and for each of UNITS how many of the former make 1. */
static const double LAST_DIGIT = 1e-5, LAST_DIGITS[] = {1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                                                        1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
                                                        1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29};
enum { LAST_UNIT = sizeof UNITS / sizeof *UNITS - 1 };

/* An amount of memory between two bounds. Sizes are never negative; low > high means that records contradict each
 * other. */
typedef struct span {
  int64_t low, high;
} span;

/* Which part of the memory in hand the largest chunk is, 0 to 1. */
typedef struct part {
  double low, high;
} part;

/* How far the recorded share may be from the exact one: half a unit of its last digit if it has no more than six
 * digits, and the error of the arithmetic in any case. */
static double doubt_of(double share) {
  size_t unit = 0;
  while (UNITS[unit] > share && unit < LAST_UNIT) unit++;
  double little = 4 * DBL_EPSILON, digits = share * LAST_DIGITS[unit];
  double off = digits - (double)(int64_t)(digits + 0.5);
  return off > -1e-4 && off < 1e-4 ? UNITS[unit] * LAST_DIGIT / 2 + little : little;
}

static bool is_share(double value) { return value >= 0 && value <= 1; }

/* The part that the largest chunk is, from the share of memory that is not in it. */
static part part_of_largest(double share) {
  if (share == 0) return (part){1, 1};
  double doubt = doubt_of(share);
  part found = {1 - share - doubt, 1 - share + doubt};
  if (found.low < 0) found.low = 0;
  if (found.high > 1) found.high = 1;
  return found;
}

/* Both give `factor` of `whole` as an integer, rounded to the stated side. */
static int64_t rounded_down(double factor, int64_t whole) {
  return factor >= 1 ? whole : (int64_t)(factor * (double)whole);
}

static int64_t rounded_up(double factor, int64_t whole) {
  int64_t down = rounded_down(factor, whole);
  return down < whole ? down + 1 : whole;
}

/* The largest chunk, from its part of an amount. */
static span largest_of(part of, span whole) {
  return (span){rounded_down(of.low, whole.low), rounded_up(of.high, whole.high)};
}

/* Whether an event has all columns of `bits`. */
static bool has_records(const fp_free_events *events, size_t row, uint16_t bits) {
  return (events->recorded[row] & bits) == bits;
}

/* The largest chunk if fragmentation is a part of all that is free: true unless the allocator grows. */
static void find_largest(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  double share = events->fragmentation[row];
  int64_t whole = events->free_bytes[row];
  span found = {-1, -1};
  if (has_records(events, row, events->free_bit) && whole >= 0 && is_share(share))
    found = largest_of(part_of_largest(share), (span){whole, whole});
  out->largest_low[row] = found.low;
  out->largest_high[row] = found.high;
}

/* Whether nothing is missing between an event and the one before it: heap and free memory change by what the event
 * moves, and the stack is unchanged. */
static bool follows(const fp_free_events *events, size_t row) {
  int64_t moved = events->moved[row];
  bool recorded = has_records(events, row, events->heap_bit) && has_records(events, row - 1, events->heap_bit);
  if (moved < 0 || !recorded) return false;
  int64_t heap, taken;
  if (__builtin_sub_overflow(events->heap[row], events->heap[row - 1], &heap)) return false;
  if (__builtin_sub_overflow(events->free_bytes[row - 1], events->free_bytes[row], &taken)) return false;
  int64_t change = events->is_allocation[row] ? moved : -moved;
  return heap == change && taken == change;
}

/* Whether the largest free chunk, as find_largest has it, changes in a way that is impossible. Then the allocator
 * grows. An allocation cannot make it larger, nor smaller by more than its own size, and takes from it only if it
 * fits. A free cannot make it smaller, and the new chunk is at most the freed one and two neighbours. */
static bool changes_oddly(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  int64_t low = out->largest_low[row], high = out->largest_high[row];
  int64_t low_before = out->largest_low[row - 1], high_before = out->largest_high[row - 1];
  if (low < 0 || low_before < 0 || !follows(events, row)) return false;
  int64_t moved = events->moved[row];
  if (!events->is_allocation[row]) return high < low_before || high < moved || (low - moved) / 2 > high_before;
  return low > high_before || moved > high_before || high < low_before - moved;
}

/* Sets what is known by addresses to 0. */
static void forget(const fp_free_bounds *out, size_t row) {
  out->known[row] = out->chunks[row] = out->fitting[row] = out->known_too_small[row] = 0;
}

/* Known chunks do not count where the stack may lie in them, or where they are more than what is free. */
static void forget_hidden(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  bool is_more = has_records(events, row, events->free_bit) && out->known[row] > events->free_bytes[row];
  if (events->stack[row] || out->known[row] < 0 || is_more) forget(out, row);
}

/* ---- Allocators that grow: memory in hand
 *
 * An allocator takes more memory only when a request fits in none of its chunks. It gives memory back only when a piece
 * that it took is entirely free, a request fits in no chunk, and it may not take more. So a free leaves the memory
 * taken unchanged, and an allocation leaves it or adds to it. With D in hand before an event that moves m bytes, and
 * p, q the largest chunk's part of memory in hand before and after, there are these ways:
 *
 *   free         kept       the largest chunk is the same          q (D + m) = p D
 *                joined     it grows, with up to two neighbours    p D + unit <= q (D + m) <= m + 2 p D
 *   allocation   kept       another chunk was used                 q (D - m) = p D
 *                parted     it is cut                              p D - m <= q (D - m) <= p D - unit
 *                grown      m does not fit: p D < m                the rest of the new piece is one chunk
 *                collected  m does not fit, too little is left     pieces may be given back
 *
 * Each is solved for D. The bounds after an event are the union over the ways that are possible. */

/* No device has more memory; doubles hold all integers below, and twice as much. */
static const int64_t MOST_BYTES = INT64_C(1) << 50;
/* BFC allocators divide memory in units of this many bytes. */
enum { UNIT = 256 };
/* More than the relative error of a bound's arithmetic. */
static const double SLACK = 1e-14;

static bool is_empty(span one) { return one.low > one.high; }

static int64_t less(int64_t one, int64_t other) { return one < other ? one : other; }
static int64_t more(int64_t one, int64_t other) { return one > other ? one : other; }

/* Lowers one->high to whole / by, rounded up, if by > 0. */
static void at_most(span *one, double whole, double by) {
  if (!(by > 0 && whole < (double)one->high * by)) return;
  double limit = whole / by;
  one->high = limit < 0 ? -1 : (int64_t)(limit + limit * SLACK);
}

/* Raises one->low to whole / by, rounded down and then up to an integer, if by > 0. */
static void at_least(span *one, double whole, double by) {
  if (!(by > 0 && whole > (double)one->low * by)) return;
  double limit = whole / by;
  limit -= limit * SLACK;
  if (limit > (double)MOST_BYTES * 2) limit = (double)MOST_BYTES * 2;
  one->low = more(one->low, (int64_t)limit + ((double)(int64_t)limit < limit));
}

/* The amounts that satisfy both; the amounts that satisfy either. */
static span both(span one, span other) { return (span){more(one.low, other.low), less(one.high, other.high)}; }
static span shifted(span one, int64_t change) { return (span){one.low + change, one.high + change}; }

static span either(span one, span other) {
  return (span){less(one.low, other.low), more(one.high, other.high)};
}

/* One way in which an event may have gone: memory in hand before and after, and the largest chunk's part of each. */
typedef struct change {
  span before, after;
  part part_before, part_after;
  double moved, unit;
  int64_t bytes; /* `moved` as an integer */
} change;

static const change IMPOSSIBLE = {.before = {INT64_MAX, -1}, .after = {INT64_MAX, -1}};

/* What is certain if the event went one of two ways: the union of their bounds. An impossible way adds nothing. */
static change one_of(change one, change other) {
  if (is_empty(one.before) || is_empty(one.after)) return other;
  if (is_empty(other.before) || is_empty(other.after)) return one;
  one.before = either(one.before, other.before);
  one.after = either(one.after, other.after);
  return one;
}

/* The ways, with the letters of the table above. */

/* Unless memory is taken, memory in hand changes by exactly what is moved. */
static change moved_by(change now, int64_t bytes) {
  now.before = both(now.before, shifted(now.after, -bytes));
  now.after = shifted(now.before, bytes);
  return now;
}

/* The largest chunk stays as it is: q (D + m) = p D after a free, q (D - m) = p D after an allocation. So D is q m /
 * |p - q|, for the extremes of p and q. */
static inline change kept(change now, bool is_free) {
  part p = now.part_before, q = now.part_after;
  double m = now.moved;
  double least = is_free ? p.low - q.high : q.low - p.high, its_q = is_free ? q.high : q.low;
  double most = is_free ? p.high - q.low : q.high - p.low, most_q = is_free ? q.low : q.high;
  if (m > 0 && most <= 0) return IMPOSSIBLE;
  at_most(&now.before, its_q * m, least);
  at_least(&now.before, most_q * m, most);
  at_least(&now.before, m, p.high);
  return moved_by(now, is_free ? now.bytes : -now.bytes);
}

/* The largest chunk is made of what is freed and up to two neighbours: p D + unit <= q (D + m) <= m + 2 p D. */
static inline change joined(change now) {
  part p = now.part_before, q = now.part_after;
  double m = now.moved;
  at_most(&now.before, q.high * m - now.unit, p.low - q.high);
  at_least(&now.before, now.unit - q.high * m, q.high - p.low);
  at_most(&now.before, (1 - q.low) * m, q.low - 2 * p.high);
  at_least(&now.after, m, q.high);
  return moved_by(now, now.bytes);
}

static change freed(change now) { return one_of(kept(now, true), joined(now)); }

/* The largest chunk is cut, by what is allocated at most: p D - m <= q (D - m) <= p D - unit. */
static inline change parted(change now) {
  part p = now.part_before, q = now.part_after;
  double m = now.moved;
  at_most(&now.before, q.low * m - now.unit, q.low - p.high);
  at_least(&now.before, now.unit - q.low * m, p.high - q.low);
  at_most(&now.before, (1 - q.high) * m, p.low - q.high);
  at_least(&now.before, m, p.high);
  return moved_by(now, -now.bytes);
}

/* The request did not fit, so memory was taken. What is left of the new piece is one chunk; all others were there
 * before. */
static inline change grown(change now) {
  part p = now.part_before, q = now.part_after;
  span *before = &now.before, *after = &now.after, first = *before;
  at_most(before, now.moved, p.low);
  at_most(before, now.moved + q.high * (double)after->high, p.low);
  before->high = less(before->high, after->high + now.bytes - 1);
  at_least(before, (1 - q.high) * (double)after->low, 1);
  at_most(after, (double)first.high, 1 - q.high);
  at_least(after, p.low * (double)first.low - now.moved, q.high);
  after->low = more(after->low, first.low - now.bytes + 1);
  return now;
}

/* The request did not fit, and less was left to take than it needs: pieces may have been given back. `most`: what
 * would be in hand if everything were taken. */
static change collected(change now, int64_t most) {
  now.before.low = more(now.before.low, most - now.bytes - UNIT + 1);
  at_most(&now.before, now.moved, now.part_before.low);
  return now;
}

static change allocated(change now, int64_t most) {
  change fitted = one_of(kept(now, false), parted(now));
  return one_of(fitted, one_of(grown(now), collected(now, most)));
}

/* The largest chunk's part, as recorded; anything from 0 to 1 if it is not. */
static part recorded_part(const fp_free_events *events, size_t row) {
  double share = events->fragmentation[row];
  return is_share(share) ? part_of_largest(share) : (part){0, 1};
}

/* Memory in hand is kept in the columns taken_low and taken_high until the end, when the heap is added. */
static span hand_of(const fp_free_bounds *out, size_t row) {
  return (span){out->taken_low[row], out->taken_high[row]};
}

static void put_hand(const fp_free_bounds *out, size_t row, span hand) {
  out->taken_low[row] = hand.low;
  out->taken_high[row] = hand.high;
}

/* The events of one allocator. */
typedef struct stretch {
  size_t first, last;
  int64_t unit;      /* all sizes are multiples of it */
  size_t sure_until; /* from this event on known chunks may have been given back */
  bool grows;        /* so far: some event shows that less is in hand than is free */
} stretch;

/* The bounds that an event gives by itself: known chunks are in hand; the largest chunk has a unit or more, and so
 * has another one if it is not all; and the free bytes are the limit. */
static span alone(const fp_free_events *events, const fp_free_bounds *out, size_t row, part of, const stretch *all) {
  int64_t most = events->free_bytes[row];
  if (!has_records(events, row, events->free_bit) || events->stack[row] || most < 0 || most > MOST_BYTES)
    return (span){0, -1};
  bool is_sure = row < all->sure_until;
  span hand = {is_sure ? out->known[row] : 0, most};
  if (is_sure && out->fitting[row] > 0) at_least(&hand, (double)events->request[row], of.high);
  if (events->fragmentation[row] > 0 && is_share(events->fragmentation[row])) {
    at_least(&hand, (double)all->unit, of.high);
    at_least(&hand, (double)all->unit, 1 - of.low);
  }
  return hand;
}

/* Narrows the bounds of an event and the one before it by each other. False if the records contradict each other. */
static bool relate(const fp_free_events *events, const fp_free_bounds *out, size_t row, part before, part after,
                   int64_t unit) {
  int64_t moved = events->moved[row];
  change now = {hand_of(out, row - 1), hand_of(out, row), before, after, (double)moved, (double)unit, moved};
  if (moved > MOST_BYTES || is_empty(now.before) || is_empty(now.after)) return false;
  now = events->is_allocation[row] ? allocated(now, events->free_bytes[row - 1]) : freed(now);
  put_hand(out, row - 1, now.before);
  put_hand(out, row, now.after);
  return !is_empty(now.before) && !is_empty(now.after);
}

/* Whether an allocation may have made the allocator give memory back. */
static bool may_collect(const fp_free_events *events, const fp_free_bounds *out, size_t row, part before) {
  int64_t moved = events->moved[row];
  change now = {.before = hand_of(out, row - 1), .part_before = before, .moved = (double)moved, .bytes = moved};
  return events->is_allocation[row] && moved <= MOST_BYTES &&
         !is_empty(collected(now, events->free_bytes[row - 1]).before);
}

/* Bounds for events that follow each other without a gap: forwards, and, if anything limits memory in hand from
 * above, backwards again. False if records contradict each other. */
static bool find_hands(const fp_free_events *events, const fp_free_bounds *out, size_t first, size_t last,
                       stretch *all) {
  part before = recorded_part(events, first);
  put_hand(out, first, alone(events, out, first, before, all));
  if (is_empty(hand_of(out, first))) return false;
  for (size_t row = first + 1; row < last; row++) {
    part after = recorded_part(events, row);
    if (row < all->sure_until && may_collect(events, out, row, before)) all->sure_until = row;
    put_hand(out, row, alone(events, out, row, after, all));
    if (!relate(events, out, row, before, after, all->unit)) return false;
    all->grows |= out->taken_high[row] < events->free_bytes[row];
    before = after;
  }
  if (!all->grows) return true;
  for (size_t row = last - 1; row > first; row--) {
    part earlier = recorded_part(events, row - 1);
    if (!relate(events, out, row, earlier, before, all->unit)) return false;
    before = earlier;
  }
  return true;
}

/* The largest power of two, UNIT at most, that divides all sizes. */
static int64_t unit_of(const fp_free_events *events, size_t first, size_t last) {
  uint64_t bits = UNIT;
  for (size_t row = first; row < last; row++)
    if (events->moved[row] > 0) bits |= (uint64_t)events->moved[row];
  return (int64_t)(bits & (~bits + 1));
}

/* Memory in hand after each event of an allocator; -1: unknown. */
static void find_all_hands(const fp_free_events *events, const fp_free_bounds *out, stretch *all) {
  for (size_t end, first = all->first; first < all->last; first = end) {
    for (end = first + 1; end < all->last && follows(events, end);) end++;
    bool grew = all->grows;
    if (find_hands(events, out, first, end, all)) continue;
    all->grows = grew; /* contradictory records prove nothing */
    for (size_t row = first; row < end; row++) put_hand(out, row, (span){-1, -1});
  }
}

/* ---- Memory in chunks that are too small ---- */

/* Free memory after an event. `others`: the most that can lie outside the largest chunk. `doubtful`: if no more than
 * this is free, the largest chunk may be too small as well. */
typedef struct extent {
  span free;
  int64_t others, doubtful;
} extent;

/* Bounds of the free memory in chunks that cannot hold the request. All of it, if the largest chunk cannot; at most
 * `others`, if the largest chunk or a known one can; else the larger of what either case allows. */
static void find_too_small(const fp_free_events *events, const fp_free_bounds *out, size_t row, extent of) {
  int64_t request = events->request[row], fitting = out->fitting[row], least = out->known_too_small[row], most;
  if (request <= 0) {
    least = most = 0;
  } else if (out->largest_low[row] < 0) {
    least = most = -1;
  } else if (out->largest_high[row] < request && !fitting) {
    least = more(least, of.free.low);
    most = of.free.high;
  } else {
    bool holds = fitting || out->largest_low[row] >= request;
    most = more(least, holds ? less(of.others, of.free.high - fitting) : more(of.others, of.doubtful));
  }
  out->too_small_least[row] = least;
  out->too_small_most[row] = most;
}

/* The memory taken from the device: memory in hand and what is in use. */
static span taken_of(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  span hand = hand_of(out, row);
  int64_t heap = events->heap[row];
  bool known = hand.high >= 0 && has_records(events, row, events->heap_bit) && heap >= 0 && heap <= MOST_BYTES;
  return known ? shifted(hand, heap) : (span){-1, -1};
}

/* Results of an event whose allocator grows: largest chunk, too small chunks and memory taken from memory in hand. */
static void finish_growing(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  span hand = hand_of(out, row), largest = {-1, -1}, doubtful = hand;
  part of = recorded_part(events, row);
  if (hand.high >= 0) largest = largest_of(of, hand);
  if (out->fitting[row]) largest.low = less(more(largest.low, events->request[row]), largest.high);
  out->largest_low[row] = largest.low;
  out->largest_high[row] = largest.high;
  at_most(&doubtful, (double)events->request[row], of.low);
  find_too_small(events, out, row, (extent){hand, hand.high - rounded_down(of.low, hand.high), doubtful.high});
  put_hand(out, row, taken_of(events, out, row));
}

/* Results of an event whose allocator took all its memory at the start. */
static void finish_whole(const fp_free_events *events, const fp_free_bounds *out, size_t row) {
  int64_t whole = events->free_bytes[row];
  find_too_small(events, out, row, (extent){{whole, whole}, whole - more(out->largest_low[row], 0), whole});
  put_hand(out, row, taken_of(events, out, row));
}

/* First pass: bounds as if all were taken, and whether the allocator grows. Second: what is in hand. Third: the
 * results. */
void fp_bound_free_memory(const fp_free_events *events, const fp_free_bounds *out) {
  for (size_t allocator = 0; allocator < events->allocator_count; allocator++) {
    size_t first = (size_t)events->bounds[allocator], last = (size_t)events->bounds[allocator + 1];
    stretch all = {first, last, unit_of(events, first, last), last, false};
    for (size_t row = first; row < last; row++) {
      forget_hidden(events, out, row);
      find_largest(events, out, row);
      all.grows |= row > first && changes_oddly(events, out, row);
    }
    find_all_hands(events, out, &all);
    if (all.grows)
      for (size_t row = all.sure_until; row < last; row++) forget(out, row);
    for (size_t row = first; row < last; row++) (all.grows ? finish_growing : finish_whole)(events, out, row);
    out->grows[allocator] = all.grows;
  }
}
