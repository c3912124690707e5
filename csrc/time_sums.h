/* Sums of times and durations that stop at the limits of int64 instead of wrapping: a damaged file can hold any number,
 * and an event that ends "at the end of time" keeps its place in the order of ends, where one that wraps does not. */
#ifndef FASTPROF_TIME_SUMS_H
#define FASTPROF_TIME_SUMS_H

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

/* How long it is from one time to another; 0 if the second comes first. */
static inline int64_t fp_time_between(int64_t from, int64_t to) {
  int64_t length;
  return from >= to ? 0 : __builtin_sub_overflow(to, from, &length) ? INT64_MAX : length;
}

#endif
