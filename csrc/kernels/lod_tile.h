/* What is drawn of a time window: the slices of many lanes at one level, as the bytes that the page reads. */
#ifndef FASTPROF_LOD_TILE_H
#define FASTPROF_LOD_TILE_H

#include "kernels/lod.h"
#include "status.h"

/* Times `from` to `last`, both included. A slice that begins at `origin` is written with the start `shift`: times are
 * relative, so that doubles hold them. */
typedef struct fp_window {
  int64_t from, last, origin;
  double shift;
  uint32_t at, name; /* added to the numbers of events and names, which count per host */
  int level;
} fp_window;

/* Zeroed memory with `memory` set, also that of `times`, is empty; fp_tile_free releases it. */
typedef struct fp_tile {
  fp_memory *memory;
  fp_name_times times;
  fp_vector drawn, rows;
} fp_tile;

/* Adds what overlaps the window on a lane: complete slices of the window's level, whether that level is kept or not,
 * and a row for them if there are any. Fails only when memory runs out. */
fp_code fp_tile_lane(fp_tile *tile, const fp_lod *lod, const fp_lane *lane, const fp_window *window, uint32_t track);

/* How many bytes fp_tile_write writes. */
size_t fp_tile_size(const fp_tile *tile);
/* Writes fp_tile_size bytes: a header of eight uint32, then columns of rows, padded to 8 bytes, then columns of
 * slices. */
void fp_tile_write(const fp_tile *tile, int level, uint64_t index, uint8_t *out);
void fp_tile_free(fp_tile *tile);

#endif
