/* One sweep over the boundaries of each group's events. Three things keep it fast on lines of millions of events:
 *
 * 1. A boundary is one 64-bit number that sorts as boundaries must: the time since the group's first boundary, one
 * bit for start or end, and the type, inverted so that higher types come first.
 *
 *    63                                    6     5     4        0
 *    | time since the group's first boundary | start? | 17 - type |
 *
 * 2. Events that change nothing are dropped before sorting: within a line, an event that lies in an earlier one of
 * its own type and group cannot open or close that type (see find_backward for the exception).
 *
 * 3. Boundaries of a line come out nearly sorted: starts ascend, and an end waits in a small buffer until a later
 * start has passed it. So a group is a few long sorted runs, one or so per line, and merging runs is cheaper than
 * sorting.
 *
 * Groups that last longer than 2^58 ps (80 hours) do not fit such keys; they take the slow path of sweep_long. */
#include "kernels/step_time.h"

#include <stdlib.h>
#include <string.h>

#include "time_sums.h"

/* TYPE_BITS holds FP_EVENT_TYPES; PENDING ends may wait for a later start. */
enum { TYPE_BITS = 5, KEY_BITS = TYPE_BITS + 1, PENDING = 16 };
static const uint64_t START = 1 << TYPE_BITS, LONGEST = UINT64_C(1) << (64 - KEY_BITS);

/* A boundary of a group that lasts too long for keys. */
typedef struct boundary {
  int64_t time;
  uint64_t rank; /* the low bits of a key */
} boundary;

/* What one call needs beside its input; the keys serve group after group. */
typedef struct workspace {
  uint32_t *rows;    /* the rows that matter, by group, in their order */
  size_t *first;     /* where each group begins in `rows`; one more than there are groups */
  uint64_t *keys;    /* room for the boundaries of the largest group, and as much again to merge into */
  size_t key_room;
} workspace;

/* The low bits of a key: they order boundaries of equal time. */
static uint64_t rank_of(uint8_t type, bool is_start) {
  return (is_start ? START : 0) | (uint64_t)(FP_EVENT_TYPES - 1 - type);
}

/* The event of a type that reaches furthest on a line so far. */
typedef struct cover {
  int32_t group;
  int64_t end;
} cover;

/* Whether the event lies in the one that reaches furthest; if not, it now is that one. */
static bool is_covered(cover *longest, int32_t group, int64_t end) {
  if (longest->group == group && end <= longest->end) return true;
  *longest = (cover){group, end};
  return false;
}

/* Whether the event has a group and a type. */
static bool takes_part(const fp_typed_events *events, size_t row, size_t group_count) {
  return events->group[row] >= 0 && (size_t)events->group[row] < group_count && events->type[row] < FP_EVENT_TYPES;
}

/* An event inside an event of its own type and group changes nothing, since the type is open already. The exception:
 * an event that ends no later than it starts closes its type before opening it, so the number of open events matters,
 * and no event of that type and group may be dropped. For the lowest types (0 and 1) this shows only if the duration
 * is negative. Sets bit `type` of all_matter[group] for each such group and type. */
static void find_backward(const fp_typed_events *events, size_t group_count, uint32_t *all_matter) {
  for (size_t row = 0; row < events->count; row++) {
    if (events->duration[row] > 0 && events->start[row] < INT64_MAX) continue;
    if (takes_part(events, row, group_count) && (events->type[row] > 1 || events->duration[row] < 0))
      all_matter[events->group[row]] |= UINT32_C(1) << events->type[row];
  }
}

/* Lists the rows that matter in `kept`, and counts them by group, one place further on, in `first`. Returns how many
 * there are. */
static size_t keep_rows(const fp_typed_events *events, size_t group_count, const uint32_t *all_matter, uint32_t *kept,
                        size_t *first) {
  const int64_t whole[] = {0, (int64_t)events->count};
  const int64_t *lines = events->lines ? events->lines : whole;
  size_t line_count = events->lines ? events->line_count : 1, count = 0;
  for (size_t line = 0; line < line_count; line++) {
    cover longest[FP_EVENT_TYPES];
    for (int type = 0; type < FP_EVENT_TYPES; type++) longest[type].group = -1;
    for (size_t row = (size_t)lines[line]; row < (size_t)lines[line + 1]; row++) {
      if (!takes_part(events, row, group_count)) continue;
      int32_t group = events->group[row];
      uint8_t type = events->type[row];
      int64_t start = events->start[row], end = fp_time_sum(start, events->duration[row]);
      if (events->lines && end > start && !(all_matter[group] >> type & 1) && is_covered(&longest[type], group, end)) continue;
      kept[count++] = (uint32_t)row;
      first[group + 1]++;
    }
  }
  return count;
}

static void free_workspace(fp_memory *memory, workspace *work) {
  fp_release(memory, work->rows);
  fp_release(memory, work->first);
  fp_release(memory, work->keys);
}

/* Counting sort of the rows that matter by group. Fails only when memory runs out; the caller frees the workspace in
 * either case. */
static bool sort_by_group(fp_memory *memory, const fp_typed_events *events, size_t group_count, workspace *work) {
  uint32_t *kept = fp_alloc(memory, events->count * sizeof *kept);
  uint32_t *all_matter = fp_alloc_zeroed(memory, group_count, sizeof *all_matter);
  work->first = fp_alloc_zeroed(memory, group_count + 1, sizeof *work->first);
  bool ok = kept && all_matter && work->first;
  if (ok) {
    find_backward(events, group_count, all_matter);
    size_t count = keep_rows(events, group_count, all_matter, kept, work->first);
    size_t largest = 0;
    for (size_t group = 0; group < group_count; group++) {
      if (work->first[group + 1] > largest) largest = work->first[group + 1];
      work->first[group + 1] += work->first[group];
    }
    work->rows = fp_alloc(memory, count * sizeof *work->rows);
    work->key_room = 2 * largest;
    work->keys = fp_alloc(memory, work->key_room * sizeof(boundary)); /* room for either form of boundary */
    ok = work->rows && work->keys;
    for (size_t i = 0; ok && i < count; i++) work->rows[work->first[events->group[kept[i]]]++] = kept[i];
    if (ok) { /* each group's place is now its end, which is where the next one begins */
      memmove(work->first + 1, work->first, group_count * sizeof *work->first);
      work->first[0] = 0;
    }
  }
  fp_release(memory, all_matter);
  fp_release(memory, kept);
  return ok;
}

/* Keys on their way out, with the ends that wait for a later start.
 *
 *    events     |---------|      |---|        keys out: S1 S2 E2 E1 S3 E3
 *                  |---|
 *    waiting    E1    E1 E2  E1
 */
typedef struct sink {
  uint64_t *keys;
  size_t count;
  uint64_t ends[PENDING]; /* the latest first */
  size_t waiting;
} sink;

/* Puts out the waiting ends that come before a key, the earliest first. */
static void put_ends_before(sink *out, uint64_t key) {
  while (out->waiting && out->ends[out->waiting - 1] < key) out->keys[out->count++] = out->ends[--out->waiting];
}

/* Puts out an event's start and queues its end. If too many ends wait, all are put out: the run is broken, which
 * costs a merge but no correctness. An event without length has its end before its start. */
static void put_event(sink *out, uint64_t start, uint64_t end) {
  if (out->waiting == PENDING) put_ends_before(out, UINT64_MAX);
  put_ends_before(out, start);
  if (end < start) { /* no length */
    out->keys[out->count++] = end;
    out->keys[out->count++] = start;
    return;
  }
  out->keys[out->count++] = start;
  size_t at = out->waiting++;
  for (; at && out->ends[at - 1] < end; at--) out->ends[at] = out->ends[at - 1];
  out->ends[at] = end;
}

/* Writes the boundaries of a group to `keys` and returns their number. Rows come line by line; a start that goes back
 * marks the next line. */
static size_t put_keys(const fp_typed_events *events, const uint32_t *rows, size_t count, int64_t begin, uint64_t *keys) {
  sink out = {.keys = keys};
  int64_t before = INT64_MIN;
  for (size_t i = 0; i < count; i++) {
    int64_t start = events->start[rows[i]], end = fp_time_sum(start, events->duration[rows[i]]);
    uint8_t type = events->type[rows[i]];
    if (start < before) put_ends_before(&out, UINT64_MAX); /* the next line */
    before = start;
    put_event(&out, ((uint64_t)start - (uint64_t)begin) << KEY_BITS | rank_of(type, true),
              ((uint64_t)end - (uint64_t)begin) << KEY_BITS | rank_of(type, false));
  }
  put_ends_before(&out, UINT64_MAX);
  return out.count;
}

/* The end of the sorted run that begins at `from`. */
static size_t run_end(const uint64_t *keys, size_t from, size_t count) {
  size_t end = from + 1;
  while (end < count && keys[end - 1] <= keys[end]) end++;
  return end < count ? end : count;
}

/* Merges two sorted runs that adjoin. The loop has no branch that depends on the data. */
static void merge(const uint64_t *left, const uint64_t *middle, const uint64_t *end, uint64_t *out) {
  const uint64_t *right = middle;
  while (left < middle && right < end) {
    bool take_left = *left <= *right;
    *out++ = take_left ? *left : *right;
    left += take_left;
    right += !take_left;
  }
  size_t rest = (size_t)(middle - left);
  if (rest) memcpy(out, left, rest * sizeof *out);
  if (right < end) memcpy(out + rest, right, (size_t)(end - right) * sizeof *out);
}

/* Merges runs in pairs until one is left. Returns the sorted keys, which are in `keys` or in `room`. */
static uint64_t *sort_keys(uint64_t *keys, uint64_t *room, size_t count) {
  while (run_end(keys, 0, count) < count) {
    for (size_t from = 0; from < count;) {
      size_t middle = run_end(keys, from, count);
      size_t end = middle < count ? run_end(keys, middle, count) : count;
      merge(keys + from, keys + middle, keys + end, room + from);
      from = end;
    }
    uint64_t *sorted = room;
    room = keys;
    keys = sorted;
  }
  return keys;
}

/* The state of a sweep over one group's boundaries. */
typedef struct sweep {
  int64_t open[FP_EVENT_TYPES]; /* open events by type; negative where an end came before its start */
  int current;                   /* the highest type that is open; 0: none */
  const int64_t *clip;
  int64_t *total, *clipped;
  uint8_t *seen;
} sweep;

/* Opens or closes the type of a boundary, and keeps `current` the highest type that is open. */
static void cross(sweep *state, uint64_t rank) {
  int type = FP_EVENT_TYPES - 1 - (int)(rank & (START - 1));
  if (rank & START) {
    state->open[type]++;
    if (type > state->current) state->current = type;
  } else if (--state->open[type] == 0 && type == state->current) {
    do state->current--;
    while (state->current > 0 && state->open[state->current] <= 0);
    if (state->current < 0) state->current = 0;
  }
}

/* Counts the time from one boundary to the next for the type that is open. */
static void add_piece(sweep *state, int64_t from, int64_t to) {
  int type = state->current;
  if (type) state->seen[type] = 1;
  fp_add_time(&state->total[type], fp_time_between(from, to));
  if (!state->clip) return;
  int64_t begin = from > state->clip[0] ? from : state->clip[0], end = to < state->clip[1] ? to : state->clip[1];
  fp_add_time(&state->clipped[type], fp_time_between(begin, end));
}

/* Goes over a group's sorted keys. */
static void sweep_keys(sweep *state, const uint64_t *keys, size_t count, int64_t begin) {
  int64_t time = (int64_t)((uint64_t)begin + (keys[0] >> KEY_BITS));
  for (size_t i = 0; i + 1 < count; i++) {
    int64_t next = (int64_t)((uint64_t)begin + (keys[i + 1] >> KEY_BITS));
    cross(state, keys[i]);
    add_piece(state, time, next);
    time = next;
  }
}

static int compare_boundaries(const void *a, const void *b) {
  const boundary *left = a, *right = b;
  if (left->time != right->time) return left->time < right->time ? -1 : 1;
  return (left->rank > right->rank) - (left->rank < right->rank);
}

/* A group too long for keys: boundaries as structs, sorted by qsort. */
static void sweep_long(sweep *state, const fp_typed_events *events, const uint32_t *rows, size_t count, boundary *all) {
  for (size_t i = 0; i < count; i++) {
    int64_t start = events->start[rows[i]];
    uint8_t type = events->type[rows[i]];
    all[2 * i] = (boundary){start, rank_of(type, true)};
    all[2 * i + 1] = (boundary){fp_time_sum(start, events->duration[rows[i]]), rank_of(type, false)};
  }
  qsort(all, 2 * count, sizeof *all, compare_boundaries);
  for (size_t i = 0; i + 1 < 2 * count; i++) {
    cross(state, all[i].rank);
    add_piece(state, all[i].time, all[i + 1].time);
  }
}

/* Finds the extent of a group, and sweeps its boundaries in the form that this extent allows. */
static void sweep_group(const fp_typed_events *events, const workspace *work, size_t group, sweep *state) {
  const uint32_t *rows = work->rows + work->first[group];
  size_t count = work->first[group + 1] - work->first[group];
  if (!count) return;
  int64_t begin = INT64_MAX, last = INT64_MIN;
  for (size_t i = 0; i < count; i++) {
    int64_t start = events->start[rows[i]], end = fp_time_sum(start, events->duration[rows[i]]);
    int64_t low = start < end ? start : end, high = start < end ? end : start;
    if (low < begin) begin = low;
    if (high > last) last = high;
  }
  if ((uint64_t)last - (uint64_t)begin >= LONGEST) {
    sweep_long(state, events, rows, count, (boundary *)(void *)work->keys);
    return;
  }
  size_t boundaries = put_keys(events, rows, count, begin, work->keys);
  sweep_keys(state, sort_keys(work->keys, work->keys + work->key_room, boundaries), boundaries, begin);
}

fp_code fp_step_time(fp_memory *memory, const fp_typed_events *events, const fp_step_times *out) {
  workspace work = {0};
  bool ok = sort_by_group(memory, events, out->group_count, &work);
  for (size_t group = 0; ok && group < out->group_count; group++) {
    size_t at = group * FP_EVENT_TYPES;
    sweep state = {
      .clip = out->clip ? out->clip + 2 * group : NULL,
      .total = out->total + at,
      .clipped = out->clipped ? out->clipped + at : NULL,
      .seen = out->seen + at,
    };
    sweep_group(events, &work, group, &state);
  }
  free_workspace(memory, &work);
  return ok ? FP_OK : FP_NO_MEMORY;
}
