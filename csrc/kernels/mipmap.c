/* The first kept level of a lane is made from its events, each further one from the level before. A slice's name
 * needs the time of every name in it. Those sums are kept for the present level only (`sums`, `bounds`), and a
 * coarser level overwrites them in place: it has fewer slices and reads each before it writes there. */
#include "kernels/mipmap.h"

#include <string.h>

enum { NEVER = 255, FEW_EVENTS = 512 };

/* A slice of the present level: the index of its sums, and the level from which on the next slice is joined to it. */
typedef struct bound {
  size_t sums;
  uint8_t joined_from;
} bound;

/* For each event the level from which on it is joined with the next, and the number of slices at each level. Every
 * pair that is joined from level k on means one slice less at all levels from k on. */
static void count_slices(const int64_t *start, const int64_t *duration, size_t count, uint8_t *joined_from, size_t *slices) {
  size_t apart[65] = {0}; /* neighbours that are joined from this level on */
  int64_t end = fp_lane_end(start, duration, 0, count);
  for (size_t i = 0; i + 1 < count; i++) {
    int64_t next_end = fp_lane_end(start, duration, i + 1, count);
    int level = fp_joined_from(start[i], end, start[i + 1], next_end);
    joined_from[i] = (uint8_t)level;
    apart[level]++;
    end = next_end;
  }
  joined_from[count - 1] = NEVER;
  size_t left = count;
  for (int level = 0; level <= FP_COARSEST; level++) slices[level] = left -= apart[level];
}

/* A kept level has at least eight events per slice, and half as many slices as the finer one. Where slices have 64
 * events and more, levels that are only slightly coarser are kept as well: joining their slices when they are drawn
 * would touch too many events. */
static bool worth_keeping(size_t slices, size_t finer, size_t events) {
  if (slices > events / 8) return false;
  return slices <= finer / 2 || (slices <= events / 64 && slices <= finer - (finer + 15) / 16);
}

/* Appends a slice and its bound, and reserves room for its sums. NULL when memory runs out. */
static fp_slice *add_slice(fp_mipmap *mipmap, bound **edge) {
  fp_vector *slices = &mipmap->slices;
  if (!fp_vector_reserve(mipmap->memory, &mipmap->sums, sizeof(fp_name_time), mipmap->times.met)) return NULL;
  *edge = fp_vector_add(mipmap->memory, &mipmap->bounds, sizeof **edge);
  return *edge ? fp_vector_add(mipmap->memory, slices, sizeof(fp_slice)) : NULL;
}

/* Makes the first kept level, from events. */
static bool of_events(fp_mipmap *mipmap, const int64_t *start, const int64_t *duration, const uint32_t *name, size_t count,
                      const uint8_t *joined_from, int level) {
  mipmap->sums.count = mipmap->bounds.count = 0;
  for (size_t first = 0, next; first < count; first = next) {
    int64_t busy = 0, end = start[first];
    for (next = first;;) {
      end = fp_lane_end(start, duration, next, count);
      int64_t time = fp_lane_busy(start[next], duration[next], end);
      fp_name_times_add(&mipmap->times, name[next], time);
      busy += time;
      if (joined_from[next++] > level) break;
    }
    bound *edge;
    fp_slice *slice = add_slice(mipmap, &edge);
    if (!slice) return false;
    *edge = (bound){mipmap->sums.count, joined_from[next - 1]};
    *slice = (fp_slice){start[first], end, busy, (uint32_t)first, 0};
    size_t met = mipmap->times.met;
    slice->name = fp_name_times_take(&mipmap->times, (fp_name_time *)mipmap->sums.items + mipmap->sums.count);
    mipmap->sums.count += met;
  }
  return true;
}

/* Makes the next kept level from `count` slices, those from number `from` on. A slice that stays as it is keeps its
 * sums, which are only moved. */
static bool of_slices(fp_mipmap *mipmap, size_t from, size_t count, int level) {
  bound *bounds = mipmap->bounds.items;
  fp_name_time *sums = mipmap->sums.items;
  const size_t all_sums = mipmap->sums.count;
  size_t kept_sums = 0, kept = 0;
  for (size_t first = 0, next; first < count; first = next) {
    fp_slice *slice = fp_vector_add(mipmap->memory, &mipmap->slices, sizeof *slice);
    if (!slice) return false;
    const fp_slice *finer = (fp_slice *)mipmap->slices.items + from;
    *slice = finer[first];
    for (next = first + 1; bounds[next - 1].joined_from <= level; next++) slice->busy += finer[next].busy;
    slice->end = finer[next - 1].end;
    const size_t begin = bounds[first].sums, end = next < count ? bounds[next].sums : all_sums;
    const bound edge = {kept_sums, bounds[next - 1].joined_from};
    if (next == first + 1) {
      memmove(sums + kept_sums, sums + begin, (end - begin) * sizeof *sums);
      kept_sums += end - begin;
    } else {
      for (size_t i = begin; i < end; i++) fp_name_times_add(&mipmap->times, sums[i].name, sums[i].time);
      size_t met = mipmap->times.met;
      slice->name = fp_name_times_take(&mipmap->times, sums + kept_sums);
      kept_sums += met;
    }
    bounds[kept++] = edge;
  }
  mipmap->bounds.count = kept;
  mipmap->sums.count = kept_sums;
  return true;
}

/* Makes the levels that are worth keeping, from the finest to the coarsest. */
static bool add_levels(fp_mipmap *mipmap, const int64_t *start, const int64_t *duration, const uint32_t *name,
                       uint8_t *joined_from, fp_lane *lane) {
  size_t slices[FP_COARSEST + 1], finer = lane->count, from = 0;
  count_slices(start, duration, lane->count, joined_from, slices);
  for (int level = 0; level <= FP_COARSEST; level++) {
    if (!worth_keeping(slices[level], finer, lane->count)) continue;
    const size_t first = mipmap->slices.count;
    bool done = lane->levels ? of_slices(mipmap, from, finer, level)
                             : of_events(mipmap, start, duration, name, lane->count, joined_from, level);
    fp_level *added = done ? fp_vector_add(mipmap->memory, &mipmap->levels, sizeof *added) : NULL;
    if (!added) return false;
    *added = (fp_level){first, (uint32_t)(mipmap->slices.count - first), (uint32_t)level};
    lane->levels++;
    finer = added->count;
    from = first;
  }
  return true;
}

bool fp_mipmap_add(fp_mipmap *mipmap, const int64_t *start, const int64_t *duration, const uint32_t *name, size_t names,
                   fp_lane *lane) {
  lane->first_level = (uint32_t)mipmap->levels.count;
  lane->levels = 0;
  if (lane->count < FEW_EVENTS) return true;
  if (!fp_name_times_reserve(&mipmap->times, names)) return false;
  uint8_t *joined_from = fp_alloc(mipmap->memory, lane->count);
  if (!joined_from) return false;
  bool done = add_levels(mipmap, start, duration, name, joined_from, lane);
  fp_release(mipmap->memory, joined_from);
  return done;
}

void fp_mipmap_free(fp_mipmap *mipmap) {
  fp_name_times_free(&mipmap->times);
  fp_vector_free(mipmap->memory, &mipmap->slices);
  fp_vector_free(mipmap->memory, &mipmap->levels);
  fp_vector_free(mipmap->memory, &mipmap->sums);
  fp_vector_free(mipmap->memory, &mipmap->bounds);
}
