#include "tests/spans.h"

#include "tests/check.h"
#include "time_sums.h"

enum { UNTOUCHED = -77 };

static void *room_for(size_t count, size_t item_size) {
  void *block = malloc(count * item_size);
  CHECK(block || !count);
  return block;
}

void spans_make(spans *line, size_t room) {
  line->start = room_for(room, sizeof *line->start);
  line->duration = room_for(room, sizeof *line->duration);
  line->placement = room_for(room, sizeof *line->placement);
  line->count = 0;
  line->slack = 0;
}

void spans_free(spans *line) {
  free(line->start);
  free(line->duration);
  free(line->placement);
}

void spans_roll(spans *line, size_t count, int64_t range, dice *chance) {
  line->count = count;
  for (size_t i = 0; i < count; i++) {
    line->start[i] = (int64_t)roll_below(chance, (uint64_t)range);
    line->duration[i] = (int64_t)roll_below(chance, (uint64_t)range / (1 + roll_below(chance, 5)) + 1);
    uint64_t kind = roll_below(chance, 12);
    line->placement[i] = kind == 0 ? FP_APART : kind == 1 ? FP_TIMELESS : FP_NESTS;
  }
  spans_sort(line);
}

void spans_sort(spans *line) {
  for (size_t i = 1; i < line->count; i++) {
    int64_t start = line->start[i], duration = line->duration[i];
    uint8_t placement = line->placement[i];
    size_t to = i;
    for (; to && (line->start[to - 1] > start || (line->start[to - 1] == start && line->duration[to - 1] < duration)); to--) {
      line->start[to] = line->start[to - 1];
      line->duration[to] = line->duration[to - 1];
      line->placement[to] = line->placement[to - 1];
    }
    line->start[to] = start;
    line->duration[to] = duration;
    line->placement[to] = placement;
  }
}

void nested_make(nested *out, size_t count) {
  out->depth = room_for(count, sizeof *out->depth);
  out->parent = room_for(count, sizeof *out->parent);
  out->self_time = room_for(count, sizeof *out->self_time);
}

void nested_free(nested *out) {
  free(out->depth);
  free(out->parent);
  free(out->self_time);
}

static void clear(nested *out, size_t count) {
  for (size_t i = 0; i < count; i++) {
    out->depth[i] = UNTOUCHED;
    out->parent[i] = out->self_time[i] = UNTOUCHED;
  }
}

void nested_compare(const nested *wanted, const nested *found, size_t count) {
  for (size_t i = 0; i < count; i++) {
    CHECK_INT(found->depth[i], wanted->depth[i]);
    CHECK_INT(found->parent[i], wanted->parent[i]);
    CHECK_INT(found->self_time[i], wanted->self_time[i]);
  }
}

static int64_t end_of(const spans *line, size_t i) { return fp_time_sum(line->start[i], line->duration[i]); }

bool may_hold(const spans *line, size_t outer, size_t inner) {
  int64_t end = end_of(line, outer);
  if (end >= end_of(line, inner)) return true;
  return line->slack && line->start[inner] < end && end_of(line, inner) <= fp_time_sum(end, line->slack);
}

/* How long the children of an event last together. They come by their start. */
static int64_t covered_by_children(const spans *line, const nested *out, size_t parent) {
  int64_t covered = 0, until = INT64_MIN;
  for (size_t i = parent + 1; i < line->count; i++) {
    if (line->placement[i] != FP_NESTS || out->parent[i] != (int64_t)parent) continue;
    int64_t from = line->start[i] > until ? line->start[i] : until, end = end_of(line, i);
    if (end > end_of(line, parent)) end = end_of(line, parent);
    if (end <= from) continue;
    covered += end - from;
    until = end;
  }
  return covered;
}

void nest_slowly(const spans *line, nested *out) {
  clear(out, line->count);
  for (size_t i = 0; i < line->count; i++) {
    if (line->placement[i] == FP_TIMELESS) continue;
    out->depth[i] = 0;
    out->parent[i] = -1;
    if (line->placement[i] == FP_APART) continue;
    for (size_t j = i; j-- > 0;) {
      if (line->placement[j] != FP_NESTS || !may_hold(line, j, i)) continue;
      out->parent[i] = (int64_t)j;
      out->depth[i] = out->depth[j] + 1;
      break;
    }
  }
  for (size_t i = 0; i < line->count; i++) {
    if (line->placement[i] == FP_TIMELESS) continue;
    out->self_time[i] = line->duration[i];
    if (line->placement[i] == FP_NESTS) out->self_time[i] -= covered_by_children(line, out, i);
  }
}

static void *copy_of(const void *from, size_t count, size_t item_size) {
  void *to = room_for(count, item_size);
  if (count) memcpy(to, from, count * item_size);
  return to;
}

static void push(fp_nesting *nesting, const spans *line, nested *out, size_t at, size_t count, bool last) {
  int64_t *start = copy_of(line->start + at, count, sizeof *start);
  int64_t *duration = copy_of(line->duration + at, count, sizeof *duration);
  uint8_t *placement = copy_of(line->placement + at, count, sizeof *placement);
  nested share;
  nested_make(&share, count);
  clear(&share, count);
  CHECK(fp_nesting_push(nesting, start, duration, placement, count, (int64_t)at, last, share.depth, share.parent,
                        share.self_time) == FP_OK);
  for (size_t i = 0; i < count; i++) {
    out->depth[at + i] = share.depth[i];
    out->parent[at + i] = share.parent[i];
    out->self_time[at + i] = share.self_time[i];
  }
  nested_free(&share);
  free(start);
  free(duration);
  free(placement);
}

void nest_in_stretches(const spans *line, nested *out, size_t largest, dice *chance) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_nesting nesting = {.memory = &memory, .slack = line->slack};
  clear(out, line->count);
  size_t at = 0;
  do {
    size_t count = (size_t)roll_below(chance, largest + 1);
    if (count > line->count - at) count = line->count - at;
    push(&nesting, line, out, at, count, at + count == line->count);
    at += count;
  } while (at < line->count);
  const fp_late_self *late = nesting.late.items;
  for (size_t i = 0; i < nesting.late.count; i++) {
    CHECK(late[i].event_id >= 0 && late[i].event_id < (int64_t)line->count);
    out->self_time[late[i].event_id] = late[i].self_time;
  }
  fp_nesting_free(&nesting);
  fp_nesting_free(&nesting);
  CHECK_INT(memory.live, 0);
}
