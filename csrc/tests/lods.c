#include "tests/lods.h"

#include "tests/check.h"
#include "tests/spans.h"

/* Adds a track with random names. */
static bool add_track(made_lod *made, spans *line, uint32_t track, dice *chance) {
  int32_t *name = calloc(line->count + 1, sizeof *name);
  CHECK(name);
  for (size_t i = 0; i < line->count; i++) name[i] = (int32_t)roll_below(chance, LOD_NAMES);
  const fp_lod_columns out = {made->start, made->duration, made->name, made->event};
  const fp_track_rows rows = {line->start, line->duration, name, line->count, (uint32_t)made->group.events, track};
  fp_code code = fp_lod_track(&made->group, &rows, 0, LOD_NAMES, &out);
  free(name);
  CHECK(code == FP_OK || code == FP_NO_MEMORY);
  return code == FP_OK;
}

bool lod_make(made_lod *made, size_t events, int64_t range, bool crowd, dice *chance, int64_t countdown) {
  const size_t all = events * LOD_TRACKS + 1;
  *made = (made_lod){.start = calloc(all, 8), .duration = calloc(all, 8), .name = calloc(all, 4), .event = calloc(all, 4)};
  CHECK(made->start && made->duration && made->name && made->event);
  fp_memory_init(&made->memory);
  made->memory.countdown = countdown;
  made->group.memory = made->group.mipmap.memory = made->group.mipmap.times.memory = &made->memory;
  bool done = true;
  for (uint32_t track = 0; done && track < LOD_TRACKS; track++) {
    spans line;
    spans_make(&line, events + 1);
    if (track != 1) spans_roll(&line, events, range, chance);
    for (size_t i = 0; crowd && i < line.count / 2; i++) line.start[i] = range / 2;
    for (size_t i = 0; track == 3 && i < line.count; i++) line.duration[i] %= range / (int64_t)events + 2;
    spans_sort(&line);
    done = add_track(made, &line, track, chance);
    spans_free(&line);
  }
  const fp_lod_group *group = &made->group;
  made->lod = (fp_lod){.start = made->start, .duration = made->duration, .name = made->name, .event = made->event};
  made->lod.lanes = group->lanes.items;
  made->lod.levels = group->mipmap.levels.items;
  made->lod.slices = group->mipmap.slices.items;
  made->lod.events = group->events;
  made->lod.lane_count = group->lanes.count;
  made->lod.level_count = group->mipmap.levels.count;
  made->lod.slice_count = group->mipmap.slices.count;
  made->lod.names = LOD_NAMES;
  return done;
}

void lod_free(made_lod *made) {
  fp_lod_group_free(&made->group);
  fp_lod_group_free(&made->group);
  CHECK_INT(made->memory.live, 0);
  free(made->start);
  free(made->duration);
  free(made->name);
  free(made->event);
}
