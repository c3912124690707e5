/* Small hosts as the viewer stores them, with random events: several tracks on which events nest, cross and coincide.
 */
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

/* Makes `events` events in each track but the second, which has none; those of the last are short. With `crowd` many of
 * them lie in one instant. `countdown` limits allocations (negative: no limit); false if they ran out. lod_free must be
 * called in either case. */
bool lod_make(made_lod *made, size_t events, int64_t range, bool crowd, dice *chance, int64_t countdown);
void lod_free(made_lod *made);

#endif
