/* The open events of all levels form a stack, `at[0]` outermost. Each source event is compared with the stack from
 * the outside in: as far as names agree levels continue, and the first that differs ends itself and everything
 * deeper. */
#include "kernels/derived_line.h"

#include "time_sums.h"

/* The open derived event of one level. `event`: its number; `scoped`: whether `scope` is known. */
typedef struct level {
  int64_t begin, end, name, scope;
  size_t event;
  int32_t group;
  bool scoped;
} level;

/* The stack of open events, and how many events have been started. */
typedef struct open_levels {
  const fp_derived_line *line;
  size_t depth, count;
  level at[FP_DERIVED_LEVELS];
} open_levels;

static int64_t length_of(const level *one) { return (int64_t)((uint64_t)one->end - (uint64_t)one->begin); }

/* Writes an event to the output columns, if there are any. */
static void write_event(const open_levels *open, const level *one) {
  if (!open->line->start) return;
  open->line->start[one->event] = one->begin;
  open->line->duration[one->event] = length_of(one);
  open->line->name[one->event] = one->name;
  open->line->group[one->event] = one->group;
}

/* From level `first` inwards: an event with the same times as the one above it ends a nanosecond before that one. The
 * total is limited so that the deepest event keeps at least a nanosecond. */
static void shorten(open_levels *open, size_t first) {
  if (open->depth <= first + 1) return;
  int64_t most = length_of(&open->at[open->depth - 1]) / 1000 - 1, by = 0, begin = 0, end = 0;
  for (size_t i = first; i < open->depth; i++) {
    level *one = &open->at[i];
    if (by < most && i > first && begin == one->begin && end == one->end) by++;
    begin = one->begin;
    end = one->end;
    if (by) one->end = end - 1000 * by;
  }
}

/* Ends the levels from `first` on. */
static void end_levels(open_levels *open, size_t first) {
  shorten(open, first);
  for (size_t i = first; i < open->depth; i++) write_event(open, &open->at[i]);
  if (open->depth > first) open->depth = first;
}

/* Whether a derived event continues with the next source event. */
static bool goes_on(const level *one, const level *next, bool over_gaps) {
  if (one->name != next->name || one->group != next->group) return false;
  if (one->scoped && next->scoped && one->scope != next->scope) return false;
  if (over_gaps || next->group >= 0) return true;
  int64_t length = length_of(one);
  return fp_time_sum(fp_time_sum(one->end, length), length) >= next->begin;
}

/* Continues the event of a level, or ends it and starts another. Returns whether it is another. */
static bool add_level(open_levels *open, size_t depth, const level *next, bool over_gaps) {
  level *one = &open->at[depth];
  if (depth < open->depth && goes_on(one, next, over_gaps)) {
    if (next->begin < one->begin) one->begin = next->begin;
    if (next->end > one->end) one->end = next->end;
    return false;
  }
  end_levels(open, depth);
  *one = *next;
  one->event = open->count++;
  open->depth = depth + 1;
  return true;
}

/* Adds the levels of source event i. Returns whether its outermost level is a new event. */
static bool add_names(open_levels *open, const fp_derived_from *from, size_t i, bool over_gaps) {
  size_t list = (size_t)from->names[i];
  const int64_t *name = from->name_lists.value + from->name_lists.offset[list];
  size_t count = (size_t)(from->name_lists.offset[list + 1] - from->name_lists.offset[list]);
  const int64_t *scope = NULL;
  if (from->scopes && from->scopes[i] >= 0) {
    const int64_t *bounds = from->scope_lists.offset + from->scopes[i];
    if ((size_t)(bounds[1] - bounds[0]) == count) scope = from->scope_lists.value + bounds[0];
  }
  if (count > FP_DERIVED_LEVELS) count = FP_DERIVED_LEVELS;
  bool fresh = false;
  for (size_t depth = 0; depth < count; depth++) {
    level next = {.begin = from->start[i], .end = fp_time_sum(from->start[i], from->duration[i]), .name = name[depth]};
    next.group = from->group[i] < 0 ? -1 : from->group[i];
    next.scoped = scope != NULL;
    next.scope = scope ? scope[depth] : 0;
    bool added = add_level(open, depth, &next, over_gaps);
    if (depth == 0) fresh = added;
  }
  if (count) end_levels(open, count);
  return fresh;
}

static bool has_names(const fp_derived_from *from, size_t i) {
  const int64_t *bounds = from->name_lists.offset;
  return from->names[i] >= 0 && bounds[from->names[i] + 1] > bounds[from->names[i]];
}

/* Events that are still open at the end are written as they are, unless they were to be closed. */
size_t fp_derive_line(const fp_derived_from *from, bool over_gaps, bool close, const fp_derived_line *line) {
  open_levels open;
  open.line = line;
  open.depth = open.count = 0;
  for (size_t i = 0; i < from->count; i++) {
    bool closes = from->closed && from->closed[i];
    if (closes) end_levels(&open, 0);
    if (from->names[i] >= 0) closes = add_names(&open, from, i, over_gaps) || closes;
    if (line->closes) line->closes[i] = closes;
    if (line->deepest) line->deepest[i] = has_names(from, i) ? (int64_t)open.at[open.depth - 1].event : -1;
  }
  if (close) end_levels(&open, 0);
  for (size_t i = 0; i < open.depth; i++) write_event(&open, &open.at[i]);
  return open.count;
}
