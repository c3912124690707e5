/* What the viewer keeps of a host: its events by track, lane and start, and the levels of each lane. */
#ifndef FASTPROF_LOD_H
#define FASTPROF_LOD_H

#include "kernels/mipmap.h"

/* The events of a track as they are read: sorted by start, longer first. Its rows count up from `row`. */
typedef struct fp_track_rows {
  const int64_t *start, *duration;
  const int32_t *name;
  size_t count;
  uint32_t row, track;
} fp_track_rows;

/* Columns that the caller has made room in. */
typedef struct fp_lod_columns {
  int64_t *start, *duration;
  uint32_t *name, *event;
} fp_lod_columns;

/* Several tracks on the way. Zeroed memory with `memory` set, also in `mipmap` and its `times`, begins it. */
typedef struct fp_lod_group {
  fp_memory *memory;
  fp_mipmap mipmap;
  fp_vector lanes;        /* fp_lane */
  fp_vector lane, order;  /* of the events of the track: uint16_t, uint32_t */
  fp_vector first;        /* uint32_t: of its lanes */
  size_t events;          /* so far */
} fp_lod_group;

typedef enum fp_lod_code { FP_LOD_OK, FP_LOD_NO_MEMORY, FP_LOD_UNSORTED, FP_LOD_BAD_NAME } fp_lod_code;

/* Writes the events of the next track behind those before it, by lane, and adds its lanes and their levels. Events are
 * numbered from `at` on, which is where the group begins. Of names that are not below `names` it says so. */
fp_lod_code fp_lod_track(fp_lod_group *group, const fp_track_rows *rows, uint32_t at, uint32_t names,
                         const fp_lod_columns *out);
void fp_lod_group_free(fp_lod_group *group);

/* All of it, as it lies in a file. */
typedef struct fp_lod {
  const int64_t *start, *duration;
  const uint32_t *name, *event;
  const fp_lane *lanes;
  const fp_level *levels;
  const fp_slice *slices;
  size_t events, lane_count, level_count, slice_count, names;
} fp_lod;

/* Whether lanes and levels lie within it, so that nothing outside is read whatever else it says. */
bool fp_lod_sound(const fp_lod *lod);

/* The first event of a lane that begins later than a time, counted from the lane's first. */
size_t fp_lod_begun(const fp_lod *lod, const fp_lane *lane, int64_t time);

#endif
