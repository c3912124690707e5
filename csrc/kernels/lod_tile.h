/* What is drawn of a window of time: the slices of many lanes, at one level. */
#ifndef FASTPROF_LOD_TILE_H
#define FASTPROF_LOD_TILE_H

#include "kernels/lod.h"

/* Times `from` to `last`, both of them included, and what times and numbers of slices count from: a slice that begins at
 * `origin` is told to begin at `shift`. */
typedef struct fp_window {
  int64_t from, last, origin;
  double shift;
  uint32_t at, name; /* added to numbers of events and of names */
  int level;
} fp_window;

/* Zeroed memory with `memory` set, also that of `times`, begins one. */
typedef struct fp_tile {
  fp_memory *memory;
  fp_name_times times;
  fp_vector drawn, rows;
} fp_tile;

/* Adds what overlaps the window of a lane: slices as level `level` has them, whether it is kept or not, with those parts of
 * them that lie outside the window. A row is added where there is any. False for want of memory. */
bool fp_tile_lane(fp_tile *tile, const fp_lod *lod, const fp_lane *lane, const fp_window *window, uint32_t track);

size_t fp_tile_size(const fp_tile *tile);
/* Writes fp_tile_size bytes: header, columns of rows, columns of slices. */
void fp_tile_write(const fp_tile *tile, int level, uint64_t index, uint8_t *out);
void fp_tile_free(fp_tile *tile);

#endif
