/* A table by name, filled event by event. Times are clipped to the window in unsigned arithmetic: a window may span
 * all of int64. */
#include "kernels/lod_sums.h"

#include "time_sums.h"

/* The sums of a name, added if it is new; NULL when memory runs out. */
static fp_range_sum *sum_of(fp_range_sums *sums, uint32_t name) {
  if (sums->place[name]) return (fp_range_sum *)sums->sums.items + sums->place[name] - 1;
  fp_range_sum *sum = fp_vector_add(sums->memory, &sums->sums, sizeof *sum);
  if (!sum) return NULL;
  sums->place[name] = (uint32_t)sums->sums.count;
  sum->name = name;
  return sum;
}

/* Adds one event, clipped to the window from `from` to `last`. Names outside the table are damage and left out. */
static bool add(fp_range_sums *sums, const fp_lod *lod, size_t at, int64_t from, int64_t last) {
  if (lod->name[at] >= sums->names) return true;
  fp_range_sum *sum = sum_of(sums, lod->name[at]);
  if (!sum) return false;
  const int64_t start = lod->start[at], duration = lod->duration[at] > 0 ? lod->duration[at] : 0;
  const int64_t end = fp_time_sum(start, duration);
  const bool over = end > last;
  uint64_t inside = (uint64_t)(over ? last : end) - (uint64_t)(start > from ? start : from);
  if (over && duration) inside++; /* `last` is the window's last picosecond, not its end */
  if (!duration) inside = 0;
  if (!sum->count || duration < sum->least) sum->least = duration;
  if (!sum->count || duration > sum->most) {
    sum->most = duration;
    sum->longest = (uint32_t)at;
  }
  sum->count++;
  fp_add_time(&sum->total, duration);
  fp_add_time(&sum->clipped, inside > INT64_MAX ? INT64_MAX : (int64_t)inside);
  return true;
}

/* Allocates `place` on first use, when the number of names is known. */
static bool ready(fp_range_sums *sums, const fp_lod *lod) {
  if (sums->place) return true;
  sums->place = fp_alloc_zeroed(sums->memory, lod->names + 1, sizeof *sums->place);
  sums->names = lod->names;
  return sums->place != NULL;
}

/* Events of a lane do not overlap, so only the last one begun by `from` can reach into the window. The last lane of
 * all is the exception: there any earlier event may, and all are examined. */
fp_code fp_sum_lane(fp_range_sums *sums, const fp_lod *lod, const fp_lane *lane, int64_t from, int64_t last) {
  if (!ready(sums, lod)) return FP_NO_MEMORY;
  const size_t until = fp_lod_begun(lod, lane, last);
  size_t first = fp_lod_begun(lod, lane, from);
  if (lane->lane == FP_MOST_LANES - 1)
    first = 0; /* events overlap here: any before may reach into the window */
  else if (first)
    first--;
  for (size_t i = first; i < until; i++) {
    size_t at = lane->first + i;
    if (fp_counted_end(lod->start[at], lod->duration[at]) <= from && lod->start[at] < from) continue;
    if (!add(sums, lod, at, from, last)) return FP_NO_MEMORY;
  }
  return FP_OK;
}

fp_code fp_sum_run(fp_range_sums *sums, const fp_lod *lod, size_t at, size_t count) {
  if (!ready(sums, lod)) return FP_NO_MEMORY;
  for (size_t i = at; i < lod->events && i - at < count; i++)
    if (!add(sums, lod, i, INT64_MIN, INT64_MAX)) return FP_NO_MEMORY;
  return FP_OK;
}

void fp_range_sums_free(fp_range_sums *sums) {
  fp_release(sums->memory, sums->place);
  sums->place = NULL;
  fp_vector_free(sums->memory, &sums->sums);
}
