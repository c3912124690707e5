#include "kernels/lod.h"

/* Room for the lanes and the order of a track's events. */
static bool room(fp_lod_group *group, size_t events) {
  group->lane.count = group->order.count = 0;
  return fp_vector_reserve(group->memory, &group->lane, sizeof(uint16_t), events) &&
         fp_vector_reserve(group->memory, &group->order, sizeof(uint32_t), events);
}

/* Copies a track's events in the order of their lanes; `order` NULL: as they are. False if a name is not below
 * `names`. */
static bool gather(const fp_track_rows *rows, const uint32_t *order, uint32_t names, const fp_lod_columns *to, size_t at) {
  bool known = true;
  for (size_t i = 0; i < rows->count; i++) {
    size_t from = order ? order[i] : i;
    to->start[at + i] = rows->start[from];
    to->duration[at + i] = rows->duration[from];
    to->name[at + i] = (uint32_t)rows->name[from];
    to->event[at + i] = rows->row + (uint32_t)from;
    known &= (uint32_t)rows->name[from] < names;
  }
  return known;
}

/* Lanes first, then the events in their order, then the levels of each lane. A track with one lane is copied as it
 * is. */
fp_code fp_lod_track(fp_lod_group *group, const fp_track_rows *rows, uint32_t at, uint32_t names,
                         const fp_lod_columns *out) {
  const size_t begin = group->events;
  if (!rows->count) return FP_OK;
  if (!room(group, rows->count)) return FP_NO_MEMORY;
  uint16_t *lane = group->lane.items;
  int32_t lanes;
  fp_code code = fp_lanes(group->memory, rows->start, rows->duration, rows->count, lane, &lanes);
  if (code != FP_OK) return code;
  group->first.count = 0;
  if (!fp_vector_reserve(group->memory, &group->first, sizeof(uint32_t), (size_t)lanes + 1)) return FP_NO_MEMORY;
  uint32_t *first = group->first.items;
  fp_lane_order(lane, rows->count, (size_t)lanes, group->order.items, first);
  if (!gather(rows, lanes > 1 ? group->order.items : NULL, names, out, begin)) return FP_OUT_OF_RANGE;
  for (int32_t i = 0; i < lanes; i++) {
    size_t from = begin + first[i];
    fp_lane *added = fp_vector_add(group->memory, &group->lanes, sizeof *added);
    if (!added) return FP_NO_MEMORY;
    *added = (fp_lane){(uint32_t)(at + from), first[i + 1] - first[i], rows->track, (uint32_t)i, 0, 0};
    if (!fp_mipmap_add(&group->mipmap, out->start + from, out->duration + from, out->name + from, names, added))
      return FP_NO_MEMORY;
  }
  group->events += rows->count;
  return FP_OK;
}

void fp_lod_group_free(fp_lod_group *group) {
  fp_mipmap_free(&group->mipmap);
  fp_vector_free(group->memory, &group->lanes);
  fp_vector_free(group->memory, &group->lane);
  fp_vector_free(group->memory, &group->order);
  fp_vector_free(group->memory, &group->first);
}

/* Lanes must follow each other without gaps, so that every event has one. */
bool fp_lod_sound(const fp_lod *lod) {
  for (size_t i = 0; i < lod->lane_count; i++) {
    const fp_lane *lane = lod->lanes + i;
    if (!lane->count || lane->first > lod->events || lane->count > lod->events - lane->first) return false;
    if (lane->first_level > lod->level_count || lane->levels > lod->level_count - lane->first_level) return false;
    if (i && (lane->track < lane[-1].track || lane->first != lane[-1].first + lane[-1].count)) return false;
  }
  for (size_t i = 0; i < lod->level_count; i++) {
    const fp_level *level = lod->levels + i;
    if (level->level > FP_COARSEST || !level->count) return false;
    if (level->first > lod->slice_count || level->count > lod->slice_count - level->first) return false;
  }
  return true;
}

size_t fp_lod_begun(const fp_lod *lod, const fp_lane *lane, int64_t time) {
  const int64_t *start = lod->start + lane->first;
  size_t low = 0, high = lane->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (start[middle] <= time)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
