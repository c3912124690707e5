/* Tiles of random hosts against the definition of slices, at all levels, kept or not; and damaged tables. */
#include "kernels/lod_tile.h"

#include "tests/check.h"
#include "tests/lods.h"

typedef struct slice {
  double start, duration;
  float share;
  uint32_t count, name, at;
} slice;

/* Whether event i is shorter than a bucket of the level, and so may be joined. */
static bool is_short(const fp_lod *lod, const fp_lane *lane, size_t i, int level) {
  int64_t end = fp_lane_end(lod->start + lane->first, lod->duration + lane->first, i, lane->count);
  return (uint64_t)end - (uint64_t)lod->start[lane->first + i] < (uint64_t)1 << level;
}

/* The slice that begins with event `first` of a lane, by definition; returns the event behind its last. */
static size_t slice_slowly(const fp_lod *lod, const fp_lane *lane, size_t first, const fp_window *window, slice *out, int64_t *end) {
  const int64_t *start = lod->start + lane->first, *duration = lod->duration + lane->first;
  const uint32_t *name = lod->name + lane->first;
  int64_t time[LOD_NAMES] = {0}, busy = 0;
  bool met[LOD_NAMES] = {0};
  size_t next = first;
  for (bool on = true; on; next++) {
    *end = fp_lane_end(start, duration, next, lane->count);
    int64_t length = duration[next] < 0 ? 0 : duration[next];
    if (length > *end - start[next]) length = *end - start[next];
    time[name[next]] += length;
    met[name[next]] = true;
    busy += length;
    on = next + 1 < lane->count && is_short(lod, lane, next, window->level) && is_short(lod, lane, next + 1, window->level) &&
         start[next] >> window->level == start[next + 1] >> window->level;
  }
  uint32_t most = LOD_NAMES;
  for (uint32_t n = 0; n < LOD_NAMES; n++)
    if (met[n] && (most == LOD_NAMES || time[n] > time[most])) most = n;
  *out = (slice){(double)(start[first] - window->origin), (double)(next == first + 1 ? busy : *end - start[first]), 1.0f,
                 (uint32_t)(next - first), window->name + most, window->at + lane->first + (uint32_t)first};
  if (next > first + 1 && *end > start[first]) out->share = (float)((double)busy / out->duration);
  return next;
}

static void begin(fp_tile *tile, fp_memory *memory) {
  fp_memory_init(memory);
  *tile = (fp_tile){.memory = memory};
  tile->times.memory = memory;
}

/* Draws a lane and compares every slice with the definition. */
static void check_lane(const fp_lod *lod, const fp_lane *lane, const fp_window *window) {
  fp_memory memory;
  fp_tile tile;
  begin(&tile, &memory);
  CHECK(fp_tile_lane(&tile, lod, lane, window, 77) == FP_OK);
  const slice *found = tile.drawn.items;
  size_t seen = 0;
  for (size_t i = 0; i < lane->count;) {
    slice wanted;
    int64_t end, start = lod->start[lane->first + i];
    size_t next = slice_slowly(lod, lane, i, window, &wanted, &end);
    bool inside = false; /* whether any event of it is */
    for (; i < next; i++) {
      int64_t its_end = fp_lane_end(lod->start + lane->first, lod->duration + lane->first, i, lane->count);
      inside |= lod->start[lane->first + i] <= window->last && (its_end > window->from || lod->start[lane->first + i] >= window->from);
    }
    if (!inside) continue;
    CHECK(seen < tile.drawn.count && start <= window->last);
    CHECK(found[seen].start == wanted.start && found[seen].duration == wanted.duration && found[seen].share == wanted.share);
    CHECK_INT(found[seen].count, wanted.count);
    CHECK_INT(found[seen].name, wanted.name);
    CHECK_INT(found[seen].at, wanted.at);
    seen++;
  }
  CHECK_INT(tile.drawn.count, seen);
  CHECK_INT(tile.rows.count, seen > 0);
  fp_tile_free(&tile);
  CHECK_INT(memory.live, 0);
}

static void tiles_show_what_the_definition_says(void) {
  dice chance = {21};
  for (int round = 0; round < 12; round++) {
    made_lod made;
    const int64_t range = round % 2 ? 3000 : 60000;
    CHECK(lod_make(&made, round % 3 ? 250 : 2500, range, round % 4 == 3, &chance, -1));
    CHECK(round % 3 || made.lod.level_count);
    for (int level = 0; level < 20; level += 1 + round % 3) {
      int64_t from = (int64_t)roll_below(&chance, (uint64_t)range * 2) - range / 2;
      fp_window window = {from, from + ((int64_t)1024 << level) - 1, 5, 0, 1000, 90, level};
      for (size_t i = 0; i < made.lod.lane_count; i++) check_lane(&made.lod, made.lod.lanes + i, &window);
    }
    lod_free(&made);
  }
}

static void the_bytes_are_columns(void) {
  dice chance = {4};
  made_lod made;
  CHECK(lod_make(&made, 50, 1000, false, &chance, -1));
  fp_memory memory;
  fp_tile tile;
  begin(&tile, &memory);
  const fp_window window = {0, 1 << 20, 0, 0, 0, 0, 4};
  for (size_t i = 0; i < made.lod.lane_count; i++) CHECK(fp_tile_lane(&tile, &made.lod, made.lod.lanes + i, &window, 3) == FP_OK);
  const size_t size = fp_tile_size(&tile), rows = tile.rows.count, count = tile.drawn.count;
  uint8_t *bytes = calloc(size, 1);
  CHECK(bytes && rows == made.lod.lane_count && count > 40);
  fp_tile_write(&tile, 4, 0x100000002, bytes);
  uint32_t header[8], end;
  memcpy(header, bytes, sizeof header);
  CHECK(!memcmp(bytes, "FPT1", 4) && header[1] == 1 && header[2] == rows && header[3] == count);
  CHECK(header[4] == 4 && header[5] == 0 && header[6] == 2 && header[7] == 1);
  memcpy(&end, bytes + 32 + 4 * (3 * rows - 1), 4);
  CHECK_INT(end, count);
  const size_t slices = (32 + 12 * rows + 7) / 8 * 8;
  CHECK_INT(size, slices + 32 * count);
  for (size_t i = 0; i < count; i++) {
    slice found;
    memcpy(&found.start, bytes + slices + 8 * i, 8);
    memcpy(&found.at, bytes + slices + 28 * count + 4 * i, 4);
    CHECK(found.start == ((slice *)tile.drawn.items)[i].start && found.at == ((slice *)tile.drawn.items)[i].at);
  }
  free(bytes);
  fp_tile_free(&tile);
  lod_free(&made);
}

static void times_at_the_ends_of_64_bits_do_not_overflow(void) {
  const int64_t start[] = {INT64_MIN, -5, 0, INT64_MAX - 3, INT64_MAX}, duration[] = {INT64_MAX, 2, INT64_MAX - 10, 2, INT64_MAX};
  const uint32_t name[] = {0, 1, 0, 1, 0}, event[5] = {0};
  const fp_lane lane = {.count = 5};
  const fp_lod lod = {.start = start, .duration = duration, .name = name, .event = event, .lanes = &lane, .events = 5,
                      .lane_count = 1, .names = 2};
  const int64_t ends[] = {INT64_MIN, -1, 0, INT64_MAX};
  for (int level = 0; level <= FP_COARSEST; level++)
    for (int i = 0; i < 4; i++)
      for (int k = i; k < 4; k++)
        for (int o = 0; o < 4; o++) {
          fp_memory memory;
          fp_tile tile;
          begin(&tile, &memory);
          CHECK(fp_tile_lane(&tile, &lod, &lane, &(fp_window){ends[i], ends[k], ends[o], 0.5, 0, 0, level}, 0) == FP_OK);
          CHECK(level || ends[k] < INT64_MAX || ends[i] > INT64_MIN || tile.drawn.count == 5);
          fp_tile_free(&tile);
        }
}

/* Slices and names that are wrong in the file are drawn wrong, but nothing outside is read. */
static void damaged_slices_stay_within(void) {
  dice chance = {31};
  made_lod made;
  CHECK(lod_make(&made, 3000, 60000, false, &chance, -1));
  CHECK(made.lod.slice_count > 10);
  uint32_t *numbers = made.group.mipmap.slices.items;
  for (int round = 0; round < 200; round++) {
    numbers[roll_below(&chance, made.lod.slice_count * sizeof(fp_slice) / 4)] = (uint32_t)roll(&chance);
    if (round % 3 == 0) made.name[roll_below(&chance, made.lod.events)] = (uint32_t)roll(&chance);
    fp_memory memory;
    fp_tile tile;
    begin(&tile, &memory);
    const fp_window window = {100, 50000, 0, 0, 0, 0, (int)roll_below(&chance, 30)};
    for (size_t i = 0; i < made.lod.lane_count; i++) CHECK(fp_tile_lane(&tile, &made.lod, made.lod.lanes + i, &window, 0) == FP_OK);
    fp_tile_free(&tile);
  }
  lod_free(&made);
}

static void without_memory_it_says_so(void) {
  dice chance = {6};
  made_lod made;
  CHECK(lod_make(&made, 600, 3000, false, &chance, -1));
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_tile tile;
    begin(&tile, &memory);
    memory.countdown = allowed;
    bool done = true;
    const fp_window window = {0, 3000, 0, 0, 0, 0, 1};
    for (size_t i = 0; done && i < made.lod.lane_count; i++) done = fp_tile_lane(&tile, &made.lod, made.lod.lanes + i, &window, 0) == FP_OK;
    fp_tile_free(&tile);
    CHECK_INT(memory.live, 0);
    if (!done) continue;
    CHECK(allowed > 3);
    break;
  }
  lod_free(&made);
}

int main(void) {
  RUN(tiles_show_what_the_definition_says);
  RUN(the_bytes_are_columns);
  RUN(times_at_the_ends_of_64_bits_do_not_overflow);
  RUN(damaged_slices_stay_within);
  RUN(without_memory_it_says_so);
  return 0;
}
