/* The zero of a trace's times: the least time, but for those that are wrong. Times count by stretches of 73 minutes, so
 * that the median and what lies near it are known without keeping them.
 *
 *    times     0 0 | 1695835542481129 us ...            Unix times among zeros: only the former count
 *    times     0 | 12 us ...                            a clock that begins at 0
 */
#include "formats/chrome_parts.h"

#include <stdlib.h>

static const int64_t UNIX_NS = INT64_C(1000000000000000000), FAR_NS = INT64_C(9223372036854775), SECOND_NS = INT64_C(1000000000);

static int compare_hours(const void *a, const void *b) {
  const chrome_hour *first = a, *second = b;
  return (first->hour > second->hour) - (first->hour < second->hour);
}

/* Rounds down to whole nanoseconds: times are kept so. Times of the hours that count: Unix times, or all others. */
static bool counts(const chrome_hour *hour, bool is_unix) {
  return (hour->least_ns >= UNIX_NS) == is_unix;
}

static bool least_time(fp_chrome *chrome, bool is_unix, int64_t *least) {
  const chrome_hour *hours = chrome->hours.items;
  uint64_t total = 0, before = 0;
  int64_t median = 0;
  for (size_t i = 0; i < chrome->hours.count; i++) total += counts(&hours[i], is_unix) ? hours[i].count : 0;
  if (!total) return false;
  for (size_t i = 0; i < chrome->hours.count; i++) {
    if (!counts(&hours[i], is_unix)) continue;
    median = hours[i].least_ns;
    before += hours[i].count;
    if (2 * before >= total) break;
  }
  for (size_t i = 0; i < chrome->hours.count; i++) {
    if (!counts(&hours[i], is_unix)) continue;
    uint64_t apart = hours[i].least_ns > median ? (uint64_t)hours[i].least_ns - (uint64_t)median
                                                : (uint64_t)median - (uint64_t)hours[i].least_ns;
    if (apart > (uint64_t)FAR_NS) continue;
    *least = hours[i].least_ns;
    return true;
  }
  return false;
}

void chrome_find_zero(fp_chrome *chrome) {
  chrome_hour *hours = chrome->hours.items;
  uint64_t unix_count = 0, all = chrome->zero_count;
  if (chrome->hours.count) qsort(hours, chrome->hours.count, sizeof *hours, compare_hours);
  for (size_t i = 0; i < chrome->hours.count; i++) {
    all += hours[i].count;
    if (hours[i].least_ns >= UNIX_NS) unix_count += hours[i].count;
  }
  bool is_unix = unix_count && 2 * unix_count >= all, near_zero = chrome->least_after_zero < SECOND_NS;
  int64_t least = 0;
  bool found = least_time(chrome, is_unix, &least);
  if (!is_unix && chrome->zero_count && (!found || near_zero) && (!found || least > 0)) least = 0;
  chrome->zero_ns = chrome->dialect == CHROME_XPROF ? 0 : least;
  if (chrome->dialect == CHROME_KINETO && chrome->has_span) chrome->zero_ns = chrome->span.ns;
  if (chrome->dialect == CHROME_KINETO && chrome->has_base) {
    int64_t sum;
    const int64_t first = INT64_C(978307200000000000), last = INT64_C(7258118400000000000); /* 2001 to 2200 */
    chrome->has_unix = !__builtin_add_overflow(chrome->base_ns, chrome->zero_ns, &sum) && sum >= first && sum < last;
    chrome->unix_ns = sum;
    if (!chrome->has_unix) chrome_remark(chrome, CHROME_BAD_BASE, 0, 1);
  }
  if (!chrome->has_unix && chrome->dialect != CHROME_XPROF && chrome->zero_ns >= UNIX_NS) {
    chrome->has_unix = true;
    chrome->unix_ns = chrome->zero_ns;
  }
}
