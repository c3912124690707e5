/* Two pointers: events come in order of time, so the first event of the grouping line that is not over yet only moves
 * forward.
 *
 *    steps        |--- 1 ---|  |--- 2 ---|
 *    events         |-| |-----|    |-|
 *    including       1    -1        2         the second event crosses the end of step 1
 *    overlapping     1     1        2
 */
#include "kernels/grouping_line.h"

#include <stdbool.h>

/* The first event of the line from `from` on that ends after `time`; with `equal`, at it or after. */
static size_t first_upto(const fp_grouping_line *line, size_t from, int64_t time, bool equal) {
  while (from < line->count && (equal ? line->upto[from] < time : line->upto[from] <= time)) from++;
  return from;
}

/* The same by bisection over the entire line: for events that go back in time, which would restart the walk. */
static size_t search_upto(const fp_grouping_line *line, int64_t time, bool equal) {
  size_t low = 0, high = line->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (equal ? line->upto[middle] < time : line->upto[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void place(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                  bool overlapping, int32_t *found) {
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    bool back = i > 0 && start[i] < start[i - 1];
    at = back ? search_upto(line, start[i], overlapping) : first_upto(line, at, start[i], overlapping);
    int64_t stop = (int64_t)((uint64_t)start[i] + (uint64_t)duration[i]);
    bool fits = at < line->count;
    if (fits) fits = overlapping ? line->begin[at] <= stop : line->begin[at] <= start[i] && stop <= line->end[at];
    found[i] = fits ? line->value[at] : -1;
  }
}

void fp_including(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                  int32_t *found) {
  place(line, start, duration, count, false, found);
}

void fp_overlapping(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                    int32_t *found) {
  place(line, start, duration, count, true, found);
}
