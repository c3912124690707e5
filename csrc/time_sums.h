/* Sums of times and durations that stop at the limits of int64 instead of wrapping: a damaged file can hold any number,
 * and an event that ends "at the end of time" keeps its place in the order of ends, where one that wraps does not. */
#ifndef FASTPROF_TIME_SUMS_H
#define FASTPROF_TIME_SUMS_H

#include <stdbool.h>
#include <stdint.h>

/* a + b, or the limit that the sum would pass. With a start and a duration: the end. */
static inline int64_t fp_time_sum(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* The end of an event whose negative duration counts as 0. */
static inline int64_t fp_end_of(int64_t start, int64_t duration) {
  return duration > 0 ? fp_time_sum(start, duration) : start;
}

static inline void fp_add_time(int64_t *sum, int64_t time) { *sum = fp_time_sum(*sum, time); }

/* Whether an event that ends at `outer` encloses one from `start` to `end` that begins no earlier than it. Times of traces
 * are rounded, so one that begins before `outer` may end up to `slack` behind it:
 *
 *    A |-----------|
 *    B        |-----|      lies in A with a slack of 1
 *    C             |-|     does not: it begins where A ends */
static inline bool fp_reaches(int64_t outer, int64_t start, int64_t end, int64_t slack) {
  return outer >= end || (start < outer && fp_time_sum(outer, slack) >= end);
}

/* How long it is from one time to another; 0 if the second comes first. */
static inline int64_t fp_time_between(int64_t from, int64_t to) {
  int64_t length;
  return from >= to ? 0 : __builtin_sub_overflow(to, from, &length) ? INT64_MAX : length;
}

#endif
