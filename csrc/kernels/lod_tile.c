/* A level that is not kept is made from the next finer kept one, or from events, by the rule by which levels were
 * made (fp_joined_from). So a tile is the same whichever levels are kept.
 *
 *    kept level 6      |==| |=| |==|  |==|
 *    wanted level 8    |===========|  |==|       neighbours with fp_joined_from <= 8 become one slice
 *    window                 [............]       drawing begins at the slice that reaches into it, left edge included
 */
#include "kernels/lod_tile.h"

#include <string.h>

enum { HEADER = 8 * 4, PER_ROW = 3 * 4, PER_SLICE = 2 * 8 + 4 * 4 };
static const uint32_t MAGIC = 0x31545046, VERSION = 1;

/* A slice as it is written: `share` is the part of it in which there are events, `at` the number of its first event. */
typedef struct drawn {
  double start, duration;
  float share;
  uint32_t count, name, at;
} drawn;

/* A row of the tile: its slices end at number `end`, and begin where the row before ends. */
typedef struct row {
  uint32_t track, lane, end;
} row;

/* What slices are made from: the slices of a kept level, or events. */
typedef struct source {
  const fp_slice *slices; /* NULL: events */
  const int64_t *start, *duration;
  const uint32_t *name;
  size_t count, events;
} source;

typedef struct span {
  int64_t start, end;
} span;

/* The coarsest kept level of a lane that is not coarser than `level`; events if there is none. */
static source source_of(const fp_lod *lod, const fp_lane *lane, int level) {
  source from = {NULL, lod->start + lane->first, lod->duration + lane->first, lod->name + lane->first, lane->count, lane->count};
  const fp_level *levels = lod->levels + lane->first_level;
  for (uint32_t i = 0; i < lane->levels && (int)levels[i].level <= level; i++) {
    from.slices = lod->slices + levels[i].first;
    from.count = levels[i].count;
  }
  return from;
}

/* The times of item i. */
static span span_of(const source *of, size_t i) {
  if (of->slices) return (span){of->slices[i].start, of->slices[i].end};
  return (span){of->start[i], fp_lane_end(of->start, of->duration, i, of->events)};
}

static bool joined(span one, span next, int level) { return fp_joined_from(one.start, one.end, next.start, next.end) <= level; }

/* How many items begin at or before `time`. */
static size_t begun(const source *of, int64_t time) {
  size_t low = 0, high = of->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((of->slices ? of->slices[middle].start : of->start[middle]) <= time)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The number of the first event of item i, on its lane. A file may be damaged, so it is limited. */
static size_t first_event(const source *of, size_t i) {
  if (i >= of->count) return of->events;
  size_t first = of->slices ? of->slices[i].first : i;
  return first < of->events ? first : of->events;
}

/* The busy time and the name of items first..next. For a single kept slice both are stored; else they are summed over
 * its events. */
static void sum_up(fp_tile *tile, const fp_lod *lod, const source *of, size_t first, size_t next, int64_t *busy, uint32_t *name) {
  if (next == first + 1 && of->slices) {
    *busy = of->slices[first].busy;
    *name = of->slices[first].name;
    return;
  }
  *busy = 0;
  const size_t to = first_event(of, next);
  for (size_t i = first_event(of, first); i < to; i++) {
    int64_t end = fp_lane_end(of->start, of->duration, i, of->events);
    int64_t time = fp_lane_busy(of->start[i], of->duration[i], end);
    *busy += time;
    if (of->name[i] < lod->names) fp_name_times_add(&tile->times, of->name[i], time);
  }
  *name = fp_name_times_take(&tile->times, NULL);
}

/* `time` - `from`; the difference may need more than 64 bits. */
static double apart(int64_t time, int64_t from) {
  return time >= from ? (double)((uint64_t)time - (uint64_t)from) : -(double)((uint64_t)from - (uint64_t)time);
}

/* Appends the slice that items first..next form. */
static bool draw(fp_tile *tile, const fp_lod *lod, const fp_lane *lane, const source *of, const fp_window *window, size_t first,
                 size_t next) {
  drawn *slice = fp_vector_add(tile->memory, &tile->drawn, sizeof *slice);
  if (!slice) return false;
  const size_t event = first_event(of, first);
  const span begin = span_of(of, first);
  const int64_t end = next == first + 1 ? begin.end : span_of(of, next - 1).end;
  int64_t busy;
  uint32_t name;
  sum_up(tile, lod, of, first, next, &busy, &name);
  slice->start = window->shift + apart(begin.start, window->origin);
  slice->count = (uint32_t)(first_event(of, next) - event);
  slice->duration = slice->count == 1 ? (double)busy : apart(end, begin.start);
  slice->share = slice->count == 1 || slice->duration <= 0 ? 1.0f : (float)((double)busy / slice->duration);
  slice->name = window->name + name;
  slice->at = window->at + lane->first + (uint32_t)event;
  return true;
}

/* The first slice to draw may begin before the window: the search steps back to the item that reaches into it, and
 * then to the first item of its slice. */
fp_code fp_tile_lane(fp_tile *tile, const fp_lod *lod, const fp_lane *lane, const fp_window *window, uint32_t track) {
  if (!fp_name_times_reserve(&tile->times, lod->names)) return FP_NO_MEMORY;
  const source of = source_of(lod, lane, window->level);
  const size_t drawn_before = tile->drawn.count, until = begun(&of, window->last);
  size_t first = begun(&of, window->from);
  if (first && (span_of(&of, first - 1).end > window->from)) first--;
  if (first >= until) return FP_OK;
  while (first && joined(span_of(&of, first - 1), span_of(&of, first), window->level)) first--;
  for (size_t next; first < until; first = next) {
    span last = span_of(&of, first);
    for (next = first + 1; next < of.count; next++) {
      span following = span_of(&of, next);
      if (!joined(last, following, window->level)) break;
      last = following;
    }
    if (!draw(tile, lod, lane, &of, window, first, next)) return FP_NO_MEMORY;
  }
  if (tile->drawn.count == drawn_before) return FP_OK;
  row *added = fp_vector_add(tile->memory, &tile->rows, sizeof *added);
  if (added) *added = (row){track, lane->lane, (uint32_t)tile->drawn.count};
  return added != NULL ? FP_OK : FP_NO_MEMORY;
}

static size_t rows_size(const fp_tile *tile) { return (tile->rows.count * PER_ROW + 7) / 8 * 8; }

size_t fp_tile_size(const fp_tile *tile) { return HEADER + rows_size(tile) + tile->drawn.count * PER_SLICE; }

/* Writes one field of each item as a column, and advances `out`. The bytes need not be aligned, hence memcpy. */
#define WRITE_COLUMN(type, items, item_type, field, count, out)   \
  for (size_t i = 0; i < (count); i++) {                          \
    const type value = ((const item_type *)(items))[i].field;     \
    memcpy((out) + i * sizeof value, &value, sizeof value);       \
  }                                                               \
  (out) += (count) * sizeof(type)

/* The bytes of a tile, little-endian; the page reads them as typed arrays, hence columns and the padding.
 *
 *    header   magic, version, rows, slices, level, 0, index (low, high)          8 x uint32
 *    rows     track[], lane[], end[]                                             uint32, padded to 8 bytes
 *    slices   start[], duration[]                                                double
 *             share[]                                                            float
 *             count[], name[], at[]                                              uint32
 */
void fp_tile_write(const fp_tile *tile, int level, uint64_t index, uint8_t *out) {
  const size_t rows = tile->rows.count, slices = tile->drawn.count;
  const uint32_t header[8] = {MAGIC, VERSION, (uint32_t)rows, (uint32_t)slices, (uint32_t)level, 0, (uint32_t)index,
                              (uint32_t)(index >> 32)};
  memcpy(out, header, sizeof header);
  out += sizeof header;
  uint8_t *columns = out + rows_size(tile);
  WRITE_COLUMN(uint32_t, tile->rows.items, row, track, rows, out);
  WRITE_COLUMN(uint32_t, tile->rows.items, row, lane, rows, out);
  WRITE_COLUMN(uint32_t, tile->rows.items, row, end, rows, out);
  memset(out, 0, (size_t)(columns - out));
  out = columns;
  WRITE_COLUMN(double, tile->drawn.items, drawn, start, slices, out);
  WRITE_COLUMN(double, tile->drawn.items, drawn, duration, slices, out);
  WRITE_COLUMN(float, tile->drawn.items, drawn, share, slices, out);
  WRITE_COLUMN(uint32_t, tile->drawn.items, drawn, count, slices, out);
  WRITE_COLUMN(uint32_t, tile->drawn.items, drawn, name, slices, out);
  WRITE_COLUMN(uint32_t, tile->drawn.items, drawn, at, slices, out);
}

void fp_tile_free(fp_tile *tile) {
  fp_name_times_free(&tile->times);
  fp_vector_free(tile->memory, &tile->drawn);
  fp_vector_free(tile->memory, &tile->rows);
}
