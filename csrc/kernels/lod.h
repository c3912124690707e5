/* What the viewer keeps of a host: its events by track, lane and start, and the levels of each lane.
 *
 *    track 0   lane 0   events 0..7      levels 3, 6, 9 (the kept ones)
 *              lane 1   events 7..9
 *    track 1   lane 0   events 9..14     ...
 */
#ifndef FASTPROF_LOD_H
#define FASTPROF_LOD_H

#include "kernels/mipmap.h"
#include "status.h"

/* The events of a track as they are decoded: sorted by start, longer first. Their rows count up from `row`. */
typedef struct fp_track_rows {
  const int64_t *start, *duration;
  const int32_t *name;
  size_t count;
  uint32_t row, track;
} fp_track_rows;

/* Columns in which the caller has made room for the events. */
typedef struct fp_lod_columns {
  int64_t *start, *duration;
  uint32_t *name, *event;
} fp_lod_columns;

/* Several tracks under construction. Zeroed memory with `memory` set, also in `mipmap` and its `times`, is empty. */
typedef struct fp_lod_group {
  fp_memory *memory;
  fp_mipmap mipmap;
  fp_vector lanes;        /* fp_lane */
  fp_vector lane, order;  /* uint16_t, uint32_t: lane and place of each event of the present track */
  fp_vector first;        /* uint32_t: where each of its lanes begins */
  size_t events;          /* of all tracks so far */
} fp_lod_group;

/* Writes the events of the next track behind those before it, sorted by lane, and adds its lanes and their levels.
 * Events are numbered from `at` on, where the group begins. FP_OUT_OF_RANGE: a name is not below `names`. */
fp_code fp_lod_track(fp_lod_group *group, const fp_track_rows *rows, uint32_t at, uint32_t names,
                         const fp_lod_columns *out);
void fp_lod_group_free(fp_lod_group *group);

/* All of a host's events, lanes, levels and slices, as they lie in a mapped file. Only read. */
typedef struct fp_lod {
  const int64_t *start, *duration;
  const uint32_t *name, *event;
  const fp_lane *lanes;
  const fp_level *levels;
  const fp_slice *slices;
  size_t events, lane_count, level_count, slice_count, names;
} fp_lod;

/* Whether lanes and levels stay within the arrays, so that nothing outside is read however damaged the file is.
 * Called once when a file is opened; everything below relies on it. */
bool fp_lod_sound(const fp_lod *lod);

/* How many events of a lane begin at or before `time`. */
size_t fp_lod_begun(const fp_lod *lod, const fp_lane *lane, int64_t time);

#endif
