/* Depth first over each call's tree with a stack of its own: captures can nest deeper than the C stack allows. A
 * visit divides an event's window among its children and itself, and pushes the children with theirs. */
#include "kernels/pipeline_calls.h"

#include <string.h>

#include "time_sums.h"

enum { KNOWN_PARTS = FP_WAITING }; /* parts that activities have; the rest of the time is own_part */

typedef struct span {
  int64_t from, to;
} span;

/* An event that is still to be visited. `blocks`: the call waits for it. */
typedef struct frame {
  span window;
  int32_t event;
  bool blocks;
} frame;

/* The state of a walk over all calls. */
typedef struct walk {
  fp_memory *memory;
  const fp_pipeline_work *work;
  fp_children children;
  uint32_t *activities_of; /* by event: where its activities begin; one more than there are events */
  int64_t *record_of;      /* by iterator: its last record; of this call or an earlier one */
  int64_t *parts_of;       /* by iterator: its last parts; of this pipeline or an earlier one */
  fp_vector stack, own;    /* frame; span: what the children leave of a window */
  fp_vector *records, *segments, *parts;
} walk;

static int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static span interval(const fp_iterator_events *events, int32_t event) {
  return (span){events->start[event], fp_end_of(events->start[event], events->duration[event])};
}

/* The record of an iterator in a call, added if there is none; NULL when memory runs out. Calls come in order, so if
 * an iterator has a record in this call, it is its last one. */
static fp_call_record *record_of(walk *state, int32_t call, int32_t iterator, int64_t start) {
  int64_t at = state->record_of[iterator];
  if (at >= 0) {
    fp_call_record *known = (fp_call_record *)state->records->items + at;
    if (known->call == call) return known;
  }
  state->record_of[iterator] = (int64_t)state->records->count;
  fp_call_record *fresh = fp_vector_add(state->memory, state->records, sizeof *fresh);
  if (fresh) *fresh = (fp_call_record){.start = start, .call = call, .iterator = iterator};
  return fresh;
}

/* The parts of an iterator in a pipeline, added if there are none; NULL when memory runs out. */
static fp_call_parts *parts_of(walk *state, int32_t pipeline, int32_t iterator) {
  int64_t at = state->parts_of[iterator];
  if (at >= 0) {
    fp_call_parts *known = (fp_call_parts *)state->parts->items + at;
    if (known->pipeline == pipeline) return known;
  }
  state->parts_of[iterator] = (int64_t)state->parts->count;
  fp_call_parts *fresh = fp_vector_add(state->memory, state->parts, sizeof *fresh);
  if (fresh) *fresh = (fp_call_parts){.pipeline = pipeline, .iterator = iterator};
  return fresh;
}

/* Appends a remainder of the window, unless it is empty. */
static bool add_own(walk *state, int64_t from, int64_t to) {
  if (from >= to) return true;
  span *own = fp_vector_add(state->memory, &state->own, sizeof *own);
  if (own) *own = (span){from, to};
  return own != NULL;
}

/* Pushes the children of an event, the first of them on top, and writes what they leave of its window to `own`.
 * *covered: how much of the event's interval its children cover together. */
static bool enter_children(walk *state, const frame *above, int64_t *covered) {
  const fp_iterator_events *events = &state->work->events;
  span all = interval(events, above->event);
  int64_t reached = all.from, taken = above->window.from;
  uint32_t first = state->children.first[above->event], last = state->children.first[above->event + 1];
  if (!fp_vector_reserve(state->memory, &state->stack, sizeof(frame), last - first)) return false;
  frame *fresh = (frame *)state->stack.items + state->stack.count;
  for (uint32_t at = first; at < last; at++) {
    int32_t child = state->children.child[at];
    span its = interval(events, child);
    *covered += fp_time_between(later(its.from, reached), earlier(its.to, all.to));
    reached = later(reached, earlier(its.to, all.to));
    span window = {later(its.from, taken), earlier(its.to, above->window.to)};
    if (window.from < window.to) {
      if (!add_own(state, taken, window.from)) return false;
      taken = window.to;
    } else {
      window = (span){0, 0};
    }
    bool overlaps = earlier(its.to, all.to) > later(its.from, all.from);
    fresh[last - 1 - at] = (frame){window, child, above->blocks && overlaps};
  }
  state->stack.count += last - first;
  return add_own(state, taken, above->window.to);
}

/* How much of the event's own time lies in its activities of parts 0..part. Differences of these give each part the
 * time that no earlier part has. Activities and own time are both sorted, so one pass serves. */
static int64_t time_up_to(const walk *state, int32_t event, int32_t part) {
  const span *own = state->own.items, *end_of_own = own + state->own.count;
  int64_t reached = INT64_MIN, time = 0;
  for (uint32_t at = state->activities_of[event]; at < state->activities_of[event + 1]; at++) {
    const fp_activity *activity = state->work->activities + at;
    if (activity->part > part) continue;
    int64_t from = later(activity->start, reached);
    if (from >= activity->end) continue;
    reached = activity->end;
    while (own < end_of_own && own->to <= from) own++;
    for (const span *one = own; one < end_of_own && one->from < reached; one++) {
      time += fp_time_between(later(one->from, from), earlier(one->to, reached));
      own = one; /* the next activity may begin in this one */
    }
  }
  return time;
}

/* Divides an event's critical time among the parts. */
static bool add_parts(walk *state, int32_t pipeline, int32_t event, int64_t critical) {
  int32_t iterator = state->work->events.iterator[event];
  fp_call_parts *parts = parts_of(state, pipeline, iterator);
  if (!parts) return false;
  int64_t before = 0;
  if (state->activities_of[event] < state->activities_of[event + 1])
    for (int32_t part = 0; part < KNOWN_PARTS; part++) {
      int64_t time = time_up_to(state, event, part);
      fp_add_time(&parts->time[part], time - before);
      before = time;
    }
  fp_add_time(&parts->time[state->work->own_part[iterator]], critical - before);
  return true;
}

/* Lists the event's critical time, piece by piece. */
static bool add_segments(walk *state, int32_t call, int32_t iterator) {
  const span *own = state->own.items;
  for (size_t i = 0; i < state->own.count; i++) {
    fp_call_segment *segment = fp_vector_add(state->memory, state->segments, sizeof *segment);
    if (!segment) return false;
    *segment = (fp_call_segment){own[i].from, own[i].to - own[i].from, call, iterator};
  }
  return true;
}

/* Handles one event: its record, its children, its parts and segments. */
static bool visit(walk *state, int32_t call, const frame *here) {
  const fp_root_calls *calls = &state->work->calls;
  span all = interval(&state->work->events, here->event);
  int32_t iterator = state->work->events.iterator[here->event];
  int64_t covered = 0, critical = 0;
  state->own.count = 0;
  fp_call_record *record = record_of(state, call, iterator, all.from);
  if (!record || !enter_children(state, here, &covered)) return false;
  const span *own = state->own.items;
  for (size_t i = 0; i < state->own.count; i++) critical += fp_time_between(own[i].from, own[i].to);
  fp_add_time(&record->total, fp_time_between(all.from, all.to));
  fp_add_time(&record->self, fp_time_between(all.from, all.to) - covered);
  fp_add_time(&record->critical, critical);
  record->count++;
  record->is_blocking |= here->blocks;
  if (critical && !add_parts(state, calls->pipeline[call], here->event, critical)) return false;
  return !calls->traced[call] || add_segments(state, call, iterator);
}

/* Visits the tree of a call. An event has one parent, so only a circle through the root leads anywhere twice. */
static bool walk_call(walk *state, int32_t call) {
  int32_t root = state->work->calls.event[call];
  frame first = {interval(&state->work->events, root), root, true};
  bool ok = visit(state, call, &first);
  while (ok && state->stack.count) {
    frame here = ((frame *)state->stack.items)[--state->stack.count];
    if (here.event != root) ok = visit(state, call, &here);
  }
  return ok;
}

/* Writes where the activities of each event begin. */
static void place_activities(const fp_pipeline_work *work, uint32_t *begins) {
  size_t at = 0;
  for (size_t event = 0; event <= work->events.count; event++) {
    while (at < work->activity_count && (size_t)work->activities[at].event < event) at++;
    begins[event] = (uint32_t)at;
  }
}

/* Allocates the walk's arrays. Fails only when memory runs out; the caller frees in either case. */
static bool open_walk(walk *state) {
  const fp_iterator_events *events = &state->work->events;
  size_t of_iterators = events->iterator_count * sizeof *state->record_of;
  state->activities_of = fp_alloc(state->memory, (events->count + 1) * sizeof *state->activities_of);
  state->record_of = fp_alloc(state->memory, of_iterators);
  state->parts_of = fp_alloc(state->memory, of_iterators);
  if (!state->activities_of || !state->record_of || !state->parts_of) return false;
  memset(state->record_of, -1, of_iterators);
  memset(state->parts_of, -1, of_iterators);
  place_activities(state->work, state->activities_of);
  return fp_children_open(state->memory, events->parent, events->start, events->count, &state->children);
}

fp_code fp_pipeline_calls(fp_memory *memory, const fp_pipeline_work *work, fp_vector *records, fp_vector *segments,
                       fp_vector *parts) {
  walk state = {.memory = memory, .work = work, .records = records, .segments = segments, .parts = parts};
  bool ok = open_walk(&state);
  for (size_t call = 0; ok && call < work->calls.count; call++) ok = walk_call(&state, (int32_t)call);
  fp_children_close(memory, &state.children);
  fp_release(memory, state.activities_of);
  fp_release(memory, state.record_of);
  fp_release(memory, state.parts_of);
  fp_vector_free(memory, &state.stack);
  fp_vector_free(memory, &state.own);
  return ok ? FP_OK : FP_NO_MEMORY;
}
