/* Small hosts as the viewer keeps them, of random events: several tracks, in which events nest, cross and coincide. */
#ifndef FASTPROF_LODS_H
#define FASTPROF_LODS_H

#include "kernels/lod.h"
#include "tests/message.h"

enum { LOD_TRACKS = 4, LOD_NAMES = 5 };

typedef struct made_lod {
  fp_memory memory;
  fp_lod_group group;
  int64_t *start, *duration; /* as they lie, by lane */
  uint32_t *name, *event;
  fp_lod lod;
} made_lod;

/* `events` in each track but the second, which has none; those of the last are short. With `crowd`, many of them are crowded into one instant. Ends with
 * lod_free, whether it worked or not; false for want of memory, which `countdown` limits (negative: not). */
bool lod_make(made_lod *made, size_t events, int64_t range, bool crowd, dice *chance, int64_t countdown);
void lod_free(made_lod *made);

#endif
