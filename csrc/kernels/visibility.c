/* XProf decides event by event, in order of time, whether an event is visible: it is if it is at least one unit of
 * resolution long, or begins at least one unit behind the end of the last visible event *at its depth*. A row
 * therefore remembers the ends of visible events as a staircase by depth:
 *
 *    depth 0   |==================|                        ends[0] = 20
 *    depth 1      |=====|                                  ends[1] = 10
 *    an event that begins at 12 lies below depth 0 (20 > 12) and not below depth 1 (10 <= 12):
 *    its depth is 1, and the gap that decides is 12 - 10
 *
 * Beside each end is the least end down to that depth. It descends, so depth_at() can search it; the ends themselves
 * need not, where events cross.
 *
 * Flows (arrows between events) are decided by their first event: if it is visible, all events of the flow are. A
 * layer of the cache is the same decision at the layer's resolution: an event goes to the first layer that would show
 * it, and all finer layers count it as shown. */
#include "kernels/visibility.h"

enum { FILTERED = FP_LAYERS - 1 }; /* layers that may leave events out: all but the last */
static const uint64_t RESOLUTIONS[FP_LAYERS] = {
    UINT64_C(1000000000000), UINT64_C(100000000000), UINT64_C(10000000000), 1000000000, 100000000, 10000000, 1000000,
    100000, 10000, 1000, 100, 10, 1,
};

/* ---- one order of all tracks: a heap of tracks, by the next event of each ---- */

/* The state of the merge. */
typedef struct fp_merge {
  const fp_traced *traced;
  int32_t *heap;  /* tracks */
  int64_t *next;  /* by track: its next event */
  size_t count;
} fp_merge;

/* Whether the next event of one track comes before that of another. */
static bool comes_before(const fp_merge *merge, int32_t one, int32_t other) {
  const fp_traced *traced = merge->traced;
  int64_t a = merge->next[one], b = merge->next[other];
  if (traced->start[a] != traced->start[b]) return traced->start[a] < traced->start[b];
  if (traced->duration[a] != traced->duration[b]) return traced->duration[a] > traced->duration[b];
  return one < other;
}

/* Moves the track at `hole` down to its place in the heap. */
static void sift_down(fp_merge *merge, size_t hole) {
  int32_t moved = merge->heap[hole];
  for (size_t child; (child = 2 * hole + 1) < merge->count; hole = child) {
    if (child + 1 < merge->count && comes_before(merge, merge->heap[child + 1], merge->heap[child])) child++;
    if (!comes_before(merge, merge->heap[child], moved)) break;
    merge->heap[hole] = merge->heap[child];
  }
  merge->heap[hole] = moved;
}

/* Takes the earliest next event until all tracks are used up. */
static void run_merge(fp_merge *merge, int32_t *order) {
  const int64_t *tracks = merge->traced->tracks;
  for (size_t at = merge->count; at-- > 0;) sift_down(merge, at);
  while (merge->count) {
    int32_t track = merge->heap[0];
    *order++ = (int32_t)merge->next[track]++;
    if (merge->next[track] == tracks[track + 1]) merge->heap[0] = merge->heap[--merge->count];
    sift_down(merge, 0);
  }
}

fp_code fp_traced_order(fp_memory *memory, const fp_traced *traced, int32_t *order) {
  fp_merge merge = {.traced = traced};
  merge.heap = fp_alloc(memory, traced->track_count * sizeof *merge.heap);
  merge.next = fp_alloc(memory, traced->track_count * sizeof *merge.next);
  bool there = merge.heap && merge.next;
  if (there) {
    for (size_t track = 0; track < traced->track_count; track++) {
      merge.next[track] = traced->tracks[track];
      if (traced->tracks[track] < traced->tracks[track + 1]) merge.heap[merge.count++] = (int32_t)track;
    }
    run_merge(&merge, order);
  }
  fp_release(memory, merge.heap);
  fp_release(memory, merge.next);
  return there ? FP_OK : FP_NO_MEMORY;
}

void fp_traced_serials(const fp_traced *traced, const int32_t *order, uint32_t *serial) {
  uint32_t last = 0;
  for (size_t i = 0; i < fp_traced_count(traced); i++) {
    last = i && traced->start[order[i]] == traced->start[order[i - 1]] ? last + 1 : 0;
    serial[order[i]] = last;
  }
}

/* ---- a row: the ends of what is visible, by depth ---- */

/* What is visible in a row so far. A track has one row, or one per layer. */
typedef struct fp_seen {
  uint64_t *ends;   /* two for each depth: the end, and the least end from depth 0 down to it */
  size_t depth, room;
  uint64_t last_flow, last_point;
  bool has_flow, has_point;
} fp_seen;

/* The depth of an event that begins at `begin`: below all events that end later, down to the first that does not. */
static size_t depth_at(const fp_seen *row, uint64_t begin) {
  size_t low = 0, high = row->depth;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (row->ends[2 * middle + 1] > begin) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Makes an event the last one at its depth; what was deeper is forgotten. Fails only when memory runs out. */
static bool put(fp_memory *memory, fp_seen *row, size_t depth, uint64_t end) {
  if (depth == row->room) {
    size_t room = row->room ? 2 * row->room : 4;
    uint64_t *ends = fp_resize(memory, row->ends, 2 * room * sizeof *ends);
    if (!ends) return false;
    row->ends = ends;
    row->room = room;
  }
  row->ends[2 * depth] = end;
  row->ends[2 * depth + 1] = depth && row->ends[2 * depth - 1] < end ? row->ends[2 * depth - 1] : end;
  row->depth = depth + 1;
  return true;
}

/* ---- decisions about flows: none yet, or whether the flow is visible ---- */

enum { UNKNOWN, UNSEEN, SEEN };

/* One resolution at which events are decided. The caller owns the rows. */
typedef struct fp_look {
  fp_memory *memory;
  const fp_traced *traced;
  uint64_t resolution;
  uint8_t *flows; /* by flow: UNKNOWN, UNSEEN or SEEN; NULL: flows do not count here */
} fp_look;

/* A point is visible one unit of resolution behind the last visible one. */
static bool shows_point(const fp_look *look, fp_seen *row, uint64_t start) {
  bool shown = !row->has_point || start - row->last_point >= look->resolution;
  if (shown) {
    row->has_point = true;
    row->last_point = start;
  }
  return shown;
}

/* An event of a flow: the first decides for the flow, and others may also be visible by themselves (`shown`). The
 * last event of a flow resets it, as its number may be used again. */
static bool shows_flow(const fp_look *look, fp_seen *row, int32_t event, uint64_t end, bool shown) {
  const fp_traced *traced = look->traced;
  uint8_t *flow = look->flows + traced->flow[event];
  bool first = *flow == UNKNOWN;
  if (first) {
    bool visible = shown || !row->has_flow || end - row->last_flow >= look->resolution;
    *flow = visible ? SEEN : UNSEEN;
  }
  shown = shown || *flow == SEEN;
  if (traced->flow_end[event]) *flow = UNKNOWN;
  if (shown) {
    row->has_flow = true;
    row->last_flow = end;
  }
  return shown;
}

/* Decides whether an event is visible and remembers it if so. Returns 0, 1, or -1 when memory runs out. */
static int shows(const fp_look *look, fp_seen *row, bool points, int32_t event) {
  const fp_traced *traced = look->traced;
  uint64_t start = traced->start[event], duration = traced->duration[event], end = start + duration;
  if (points) return shows_point(look, row, start);
  size_t depth = depth_at(row, start);
  bool shown = duration >= look->resolution || depth == row->depth || start - row->ends[2 * depth] >= look->resolution;
  if (look->flows && traced->flow[event] >= 0) shown = shows_flow(look, row, event, end, shown);
  if (shown && !put(look->memory, row, depth, end)) return -1;
  return shown;
}

/* Remembers an event as visible, whatever the rule says: a coarser layer shows it. */
static bool sees(const fp_look *look, fp_seen *row, bool points, int32_t event) {
  const fp_traced *traced = look->traced;
  uint64_t start = traced->start[event], end = start + traced->duration[event];
  if (points) {
    row->has_point = true;
    row->last_point = start;
    return true;
  }
  if (look->flows && traced->flow[event] >= 0) {
    uint8_t *flow = look->flows + traced->flow[event];
    if (traced->flow_end[event]) *flow = UNKNOWN;
    else if (*flow == UNKNOWN) *flow = SEEN;
    row->has_flow = true;
    row->last_flow = end;
  }
  return put(look->memory, row, depth_at(row, start), end);
}

static void release_rows(fp_memory *memory, fp_seen *rows, size_t count) {
  for (size_t i = 0; rows && i < count; i++) fp_release(memory, rows[i].ends);
  fp_release(memory, rows);
}

/* ---- layers ---- */

/* The resolution of a layer, with that layer's part of `flows`. */
static fp_look look_of(fp_memory *memory, const fp_traced *traced, int layer, uint8_t *flows) {
  return (fp_look){memory, traced, RESOLUTIONS[layer], flows ? flows + (size_t)layer * traced->flow_count : NULL};
}

/* The first layer that shows the event; all finer ones remember it too. Returns -1 when memory runs out. */
static int first_layer(fp_look *looks, fp_seen *rows, bool points, int32_t event) {
  int layer = 0, shown = 0;
  for (; layer < FILTERED; layer++)
    if ((shown = shows(&looks[layer], &rows[layer], points, event))) break;
  if (shown < 0) return -1;
  for (int finer = layer + 1; finer < FILTERED; finer++)
    if (!sees(&looks[finer], &rows[finer], points, event)) return -1;
  return layer;
}

/* Numbers the tracks that have events of flows, and counts them; -1: the track has none. Only these need a row per
 * layer in the walk over all tracks. */
static int32_t *rows_of_flows(fp_memory *memory, const fp_traced *traced, size_t *count) {
  int32_t *row = fp_alloc(memory, traced->track_count * sizeof *row);
  for (size_t track = 0; row && track < traced->track_count; track++) {
    row[track] = -1;
    for (int64_t i = traced->tracks[track]; i < traced->tracks[track + 1] && row[track] < 0; i++)
      if (traced->flow[i] >= 0) row[track] = (int32_t)(*count)++;
  }
  return row;
}

/* The track of an event, by bisection; empty tracks are passed over. */
static size_t track_of(const fp_traced *traced, int32_t event) {
  size_t low = 0, high = traced->track_count;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (traced->tracks[middle] <= event) low = middle;
    else high = middle;
  }
  while (traced->tracks[low + 1] <= event) low++;
  return low;
}

/* First walk, over the events of flows of all tracks in one order: a flow gets the layer that shows its first event. */
static bool layers_of_flows(fp_memory *memory, const fp_traced *traced, const int32_t *order, const int32_t *row_of,
                            fp_seen *rows, uint8_t *flows, uint8_t *layer_of) {
  fp_look looks[FILTERED];
  for (int layer = 0; layer < FILTERED; layer++) looks[layer] = look_of(memory, traced, layer, flows);
  for (size_t i = 0; i < fp_traced_count(traced); i++) {
    int32_t event = order[i], flow = traced->flow[event];
    if (flow < 0) continue;
    size_t track = track_of(traced, event);
    int layer = first_layer(looks, rows + FILTERED * (size_t)row_of[track], traced->points[track], event);
    if (layer < 0) return false;
    if (layer_of[flow] == UINT8_MAX) layer_of[flow] = (uint8_t)layer;
  }
  return true;
}

/* An event of a flow goes to the first layer that shows the flow, or to an earlier one at whose resolution it is long
 * enough. */
static int layer_in_flow(const fp_traced *traced, int32_t event, uint8_t of_flow) {
  int layer = 0;
  while (layer < FILTERED && layer < of_flow && traced->duration[event] < RESOLUTIONS[layer]) layer++;
  return layer;
}

/* Second walk, track by track: events of flows have their layers by now; others are decided beside them. */
static bool layers_of_track(fp_memory *memory, const fp_traced *traced, size_t track, const uint8_t *of_flows,
                            fp_seen *rows, uint8_t *layer_of) {
  fp_look looks[FILTERED];
  bool points = traced->points[track];
  for (int layer = 0; layer < FILTERED; layer++) {
    looks[layer] = look_of(memory, traced, layer, NULL);
    rows[layer].depth = 0;
    rows[layer].has_point = false;
  }
  for (int64_t at = traced->tracks[track]; at < traced->tracks[track + 1]; at++) {
    int32_t event = (int32_t)at;
    int layer;
    if (traced->flow[event] < 0) {
      layer = first_layer(looks, rows, points, event);
      if (layer < 0) return false;
    } else {
      layer = layer_in_flow(traced, event, of_flows[traced->flow[event]]);
      for (int finer = layer; finer < FILTERED; finer++)
        if (!sees(&looks[finer], &rows[finer], points, event)) return false;
    }
    layer_of[event] = (uint8_t)layer;
  }
  return true;
}

/* Flows must be decided first, over all tracks in order of time; then each track can be handled by itself. */
fp_code fp_traced_layers(fp_memory *memory, const fp_traced *traced, const int32_t *order, uint8_t *layer) {
  size_t count = 0;
  int32_t *row_of = rows_of_flows(memory, traced, &count);
  fp_seen *flow_rows = fp_alloc_zeroed(memory, FILTERED * (count ? count : 1), sizeof *flow_rows);
  fp_seen *rows = fp_alloc_zeroed(memory, FILTERED, sizeof *rows);
  uint8_t *flows = fp_alloc_zeroed(memory, FILTERED, traced->flow_count);
  uint8_t *of_flows = fp_alloc(memory, traced->flow_count);
  bool done = row_of && flow_rows && rows && flows && of_flows;
  for (size_t flow = 0; done && flow < traced->flow_count; flow++) of_flows[flow] = UINT8_MAX;
  if (done && count) done = layers_of_flows(memory, traced, order, row_of, flow_rows, flows, of_flows);
  for (size_t track = 0; done && track < traced->track_count; track++)
    done = layers_of_track(memory, traced, track, of_flows, rows, layer);
  release_rows(memory, flow_rows, FILTERED * count);
  release_rows(memory, rows, FILTERED);
  fp_release(memory, row_of);
  fp_release(memory, flows);
  fp_release(memory, of_flows);
  return done ? FP_OK : FP_NO_MEMORY;
}

/* ---- a view ---- */

int fp_layers_read(uint64_t resolution) {
  int layer = 0;
  while (layer < FP_LAYERS - 1 && resolution < RESOLUTIONS[layer]) layer++;
  return layer + 1;
}

/* Whether a view reads an event from the cache. A layer is read from one unit of the next coarser layer before
 * `begin`, up to `end`: nothing longer is in it, except in layer 0, which is read entirely. */
static bool is_read(const fp_traced *traced, const uint8_t *layer, int layers, const fp_view *view, int32_t event) {
  if (traced->start[event] > view->end) return false;
  if (!layer) return true;
  int own = layer[event];
  if (own >= layers) return false;
  if (own == 0) return true;
  uint64_t before = RESOLUTIONS[own - 1];
  return view->begin <= before || traced->start[event] >= view->begin - before;
}

/* Whether the event has any time in common with the view. */
static bool overlaps(const fp_traced *traced, const fp_view *view, int32_t event) {
  uint64_t end = traced->start[event] + traced->duration[event];
  return view->begin <= end && traced->start[event] <= view->end;
}

/* A view of no length shows all that it reads; so does a resolution of 0. */
fp_code fp_traced_visible(fp_memory *memory, const fp_traced *traced, const int32_t *order, const uint8_t *layer,
                       const uint8_t *hidden, const fp_view *view, uint8_t *visible) {
  fp_seen *rows = fp_alloc_zeroed(memory, traced->track_count ? traced->track_count : 1, sizeof *rows);
  uint8_t *flows = fp_alloc_zeroed(memory, traced->flow_count, 1);
  fp_look look = {memory, traced, view->resolution, flows};
  int layers = fp_layers_read(view->resolution);
  bool done = rows && flows;
  for (size_t i = 0; done && i < fp_traced_count(traced); i++) {
    int32_t event = order[i];
    visible[event] = 0;
    if ((hidden && hidden[event]) || !is_read(traced, layer, layers, view, event)) continue;
    if (view->begin != view->end && !overlaps(traced, view, event)) continue;
    int shown = 1;
    if (view->begin != view->end && view->resolution) {
      size_t track = track_of(traced, event);
      shown = shows(&look, &rows[track], traced->points[track], event);
    }
    done = shown >= 0;
    visible[event] = shown > 0;
  }
  release_rows(memory, rows, traced->track_count);
  fp_release(memory, flows);
  return done ? FP_OK : FP_NO_MEMORY;
}
