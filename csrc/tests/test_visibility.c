/* Visible events: each rule by example, and random traces against a slow reading of the rule. */
#include "kernels/visibility.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 120, MOST_TRACKS = 5, FLOWS = 6 };

/* A trace and its columns. */
typedef struct trace {
  uint64_t start[MOST], duration[MOST];
  int32_t flow[MOST], order[MOST];
  uint8_t flow_end[MOST], points[MOST_TRACKS], layer[MOST], visible[MOST];
  uint32_t serial[MOST];
  int64_t tracks[MOST_TRACKS + 1];
  fp_traced traced;
} trace;

static void set(trace *made, size_t track_count) {
  made->traced = (fp_traced){made->start, made->duration, made->tracks, made->points,
                             made->flow,  made->flow_end, track_count,  FLOWS};
}

/* One track of slices, no flows. */
static void set_line(trace *made, const uint64_t (*slices)[2], size_t count) {
  memset(made, 0, sizeof *made);
  for (size_t i = 0; i < count; i++) {
    made->start[i] = slices[i][0];
    made->duration[i] = slices[i][1];
    made->flow[i] = -1;
  }
  made->tracks[1] = (int64_t)count;
  set(made, 1);
}

/* Computes everything that a view needs, and the view. */
static void look(trace *made, uint64_t begin, uint64_t end, uint64_t resolution) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_view view = {begin, end, resolution};
  CHECK(fp_traced_order(&memory, &made->traced, made->order) == FP_OK);
  fp_traced_serials(&made->traced, made->order, made->serial);
  CHECK(fp_traced_layers(&memory, &made->traced, made->order, made->layer) == FP_OK);
  CHECK(fp_traced_visible(&memory, &made->traced, made->order, made->layer, NULL, &view, made->visible) == FP_OK);
  CHECK_INT(memory.live, 0);
}

/* At a resolution of 10, slices of length 1 are visible if they begin 10 or more behind the end of the last visible
 * one at their depth:
 *
 *   start     0    5    11   12   40        50   55   61
 *   visible   yes  -    yes  -    yes       yes  -    yes        (40 is 100 long; 50 begins a new depth below it)
 */
static void short_slices_are_shown_where_they_lie_far_apart(void) {
  const uint64_t slices[][2] = {{0, 1}, {5, 1}, {11, 1}, {12, 1}, {40, 100}, {50, 1}, {55, 1}, {61, 1}};
  const uint8_t wanted[] = {1, 0, 1, 0, 1, 1, 0, 1}; /* below the long one the first is shown whatever is beside it */
  trace made;
  set_line(&made, slices, 8);
  look(&made, 0, 200, 10);
  for (int i = 0; i < 8; i++) CHECK_INT(made.visible[i], wanted[i]);
}

/* The window 10..20 includes both of its ends; a slice of no length at 10 and one that begins at 20 are in it. */
static void a_window_shows_what_overlaps_it(void) {
  const uint64_t slices[][2] = {{0, 5}, {10, 0}, {20, 5}, {30, 1}};
  trace made;
  set_line(&made, slices, 4);
  look(&made, 10, 20, 0);
  CHECK_INT(made.visible[0], 0);
  CHECK_INT(made.visible[1], 1);
  CHECK_INT(made.visible[2], 1);
  CHECK_INT(made.visible[3], 0);
}

static void a_flow_is_shown_entirely_or_not_at_all(void) {
  /* two tracks; flow 0 begins with nothing before it, flow 1 directly behind it */
  trace made;
  memset(&made, 0, sizeof made);
  const uint64_t start[] = {0, 3, 1000, 1003};
  const int32_t flow[] = {0, 1, 0, 1};
  for (int i = 0; i < 4; i++) made.start[i] = start[i], made.duration[i] = 1, made.flow[i] = flow[i], made.flow_end[i] = i > 1;
  made.tracks[1] = 2, made.tracks[2] = 4;
  set(&made, 2);
  look(&made, 0, 2000, 100);
  CHECK_INT(made.visible[0], 1);
  CHECK_INT(made.visible[1], 0);
  CHECK_INT(made.visible[2], 1);
  CHECK_INT(made.visible[3], 0);
}

/* Three events start at 7, on two tracks. They are numbered by length, longest first: 9, 5, 3. */
static void events_that_start_together_have_serials_of_all_tracks(void) {
  trace made;
  memset(&made, 0, sizeof made);
  const uint64_t start[] = {7, 7, 8, 7, 9}, duration[] = {9, 3, 1, 5, 1};
  const uint32_t wanted[] = {0, 2, 0, 1, 0};
  for (int i = 0; i < 5; i++) made.start[i] = start[i], made.duration[i] = duration[i], made.flow[i] = -1;
  made.tracks[1] = 3, made.tracks[2] = 5;
  set(&made, 2);
  look(&made, 0, 100, 0);
  for (int i = 0; i < 5; i++) CHECK_INT(made.serial[i], wanted[i]);
}

/* On a track of points durations do not count: starts at least 10 apart are visible. */
static void points_count_by_their_starts(void) {
  const uint64_t slices[][2] = {{0, 50}, {9, 50}, {10, 50}, {15, 0}};
  const uint8_t wanted[] = {1, 0, 1, 0};
  trace made;
  set_line(&made, slices, 4);
  made.points[0] = 1;
  look(&made, 0, 100, 10);
  for (int i = 0; i < 4; i++) CHECK_INT(made.visible[i], wanted[i]);
}

/* ---- a slow reading of the rule ---- */

typedef struct slow_row {
  uint64_t ends[MOST];
  size_t depth;
  bool has_flow, has_point;
  uint64_t last_flow, last_point;
} slow_row;

/* The rule without bisection: depths are searched from the top. */
static bool slow_shows(const trace *made, slow_row *row, bool point, int *flows, int32_t event, uint64_t resolution) {
  uint64_t start = made->start[event], end = start + made->duration[event];
  if (point) {
    if (row->has_point && start - row->last_point < resolution) return false;
    row->has_point = true, row->last_point = start;
    return true;
  }
  size_t depth = 0;
  while (depth < row->depth && row->ends[depth] > start) depth++;
  bool shown = made->duration[event] >= resolution || depth == row->depth || start - row->ends[depth] >= resolution;
  int32_t flow = made->flow[event];
  if (flow >= 0) {
    if (!flows[flow]) flows[flow] = shown || !row->has_flow || end - row->last_flow >= resolution ? 1 : -1;
    shown = shown || flows[flow] > 0;
    if (made->flow_end[event]) flows[flow] = 0;
    if (shown) row->has_flow = true, row->last_flow = end;
  }
  if (shown) row->ends[depth] = end, row->depth = depth + 1;
  return shown;
}

/* Random tracks with slices, points and flows. */
static void fill(trace *made, dice *chance) {
  memset(made, 0, sizeof *made);
  size_t tracks = 1 + roll_below(chance, MOST_TRACKS), at = 0;
  for (size_t track = 0; track < tracks; track++) {
    uint64_t time = roll_below(chance, 20);
    made->points[track] = roll_below(chance, 5) == 0;
    for (size_t more = roll_below(chance, MOST / MOST_TRACKS); more--; at++) {
      made->start[at] = time += roll_below(chance, 12);
      made->duration[at] = roll_below(chance, 3) ? roll_below(chance, 8) : roll_below(chance, 90);
      made->flow[at] = (int32_t)roll_below(chance, 2 * FLOWS) - FLOWS;
      if (made->flow[at] < 0) made->flow[at] = -1;
      made->flow_end[at] = roll_below(chance, 3) == 0;
    }
    made->tracks[track + 1] = (int64_t)at;
  }
  set(made, tracks);
}

static void a_view_without_layers_is_the_rule_in_order_of_time(void) {
  dice chance = {11};
  for (int round = 0; round < 400; round++) {
    static trace made;
    static slow_row rows[MOST_TRACKS];
    int flows[FLOWS] = {0};
    fp_memory memory;
    fp_memory_init(&memory);
    fill(&made, &chance);
    memset(rows, 0, sizeof rows);
    uint64_t resolution = 1 + roll_below(&chance, 30);
    fp_view view = {0, UINT64_MAX, resolution};
    CHECK(fp_traced_order(&memory, &made.traced, made.order) == FP_OK);
    CHECK(fp_traced_visible(&memory, &made.traced, made.order, NULL, NULL, &view, made.visible) == FP_OK);
    for (size_t i = 0; i < fp_traced_count(&made.traced); i++) {
      int32_t event = made.order[i];
      size_t track = 0;
      while (made.tracks[track + 1] <= event) track++;
      if (i) CHECK(made.start[made.order[i - 1]] <= made.start[event]);
      CHECK_INT(made.visible[event], slow_shows(&made, &rows[track], made.points[track], flows, event, resolution));
    }
  }
}

static void depth_is_found_however_deep(void) {
  enum { DEEP = 100000 };
  uint64_t *start = malloc(DEEP * sizeof *start), *duration = malloc(DEEP * sizeof *duration);
  int32_t *flow = malloc(DEEP * sizeof *flow), *order = malloc(DEEP * sizeof *order);
  uint8_t *layer = malloc(DEEP), *flow_end = calloc(DEEP, 1), point = 0;
  CHECK(start && duration && flow && order && layer && flow_end);
  for (size_t i = 0; i < DEEP; i++) start[i] = i, duration[i] = 2 * (DEEP - i), flow[i] = -1;
  const int64_t tracks[] = {0, DEEP};
  fp_traced traced = {start, duration, tracks, &point, flow, flow_end, 1, 0};
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_traced_order(&memory, &traced, order) == FP_OK);
  CHECK(fp_traced_layers(&memory, &traced, order, layer) == FP_OK);
  CHECK_INT(layer[DEEP - 1], 0);
  free(start), free(duration), free(flow), free(order), free(layer), free(flow_end);
}

static void running_out_of_memory_is_reported(void) {
  static trace made;
  dice chance = {3};
  do fill(&made, &chance);
  while (fp_traced_count(&made.traced) < 40);
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    fp_view view = {0, 1000, 3};
    bool done = fp_traced_order(&memory, &made.traced, made.order) == FP_OK &&
                fp_traced_layers(&memory, &made.traced, made.order, made.layer) == FP_OK &&
                fp_traced_visible(&memory, &made.traced, made.order, made.layer, NULL, &view, made.visible) == FP_OK;
    CHECK_INT(memory.live, 0);
    if (done) break;
    CHECK(allowed < 5000);
  }
}

int main(void) {
  RUN(short_slices_are_shown_where_they_lie_far_apart);
  RUN(a_window_shows_what_overlaps_it);
  RUN(a_flow_is_shown_entirely_or_not_at_all);
  RUN(events_that_start_together_have_serials_of_all_tracks);
  RUN(points_count_by_their_starts);
  RUN(a_view_without_layers_is_the_rule_in_order_of_time);
  RUN(depth_is_found_however_deep);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
