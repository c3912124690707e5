/* Depth first with an explicit path of at most 101 stops. There is no memory of visited events: what is reached twice
 * counts twice, and circles end at the deepest level or when the visits run out. */
#include "kernels/pipeline_paths.h"

#include <string.h>

/* An event on the present path, and how far what it leads to has been walked: children first, then links. */
typedef struct stop {
  int64_t record;
  int32_t event;
  uint32_t child, ask, given; /* the next child, link and row of that link */
  bool blocks;
} stop;

/* The state of a walk. `stops` is the present path, from the root to the present event. */
typedef struct walk {
  fp_memory *memory;
  const fp_event_paths *paths;
  fp_children children;
  int64_t *record_of; /* by iterator: its latest record */
  stop stops[FP_DEEPEST_LEVEL + 1];
  fp_vector *records;
  uint64_t visits_left;
} walk;

/* Times wrap here, as they do in XProf. */
static int64_t end_of(const fp_event_paths *paths, int32_t event) {
  return (int64_t)((uint64_t)paths->start[event] + (uint64_t)paths->duration[event]);
}

/* How long two events overlap. */
static int64_t overlap(const fp_event_paths *paths, int32_t a, int32_t b) {
  int64_t from = paths->start[a] > paths->start[b] ? paths->start[a] : paths->start[b];
  int64_t end = end_of(paths, a), other = end_of(paths, b), to = end < other ? end : other;
  return to > from ? (int64_t)((uint64_t)to - (uint64_t)from) : 0;
}

static void add_wrapping(int64_t *sum, int64_t value) {
  *sum = (int64_t)((uint64_t)*sum + (uint64_t)value);
}

/* Puts an event on the path and counts it. Fails only when memory runs out. */
static bool enter(walk *state, int32_t call, stop *here, int32_t event, bool blocks) {
  const fp_event_paths *paths = state->paths;
  int32_t iterator = paths->iterator[event];
  int64_t at = state->record_of[iterator];
  fp_call_record *record = at < 0 ? NULL : (fp_call_record *)state->records->items + at;
  if (!record || record->call != call) {
    at = state->record_of[iterator] = (int64_t)state->records->count;
    record = fp_vector_add(state->memory, state->records, sizeof *record);
    if (!record) return false;
    *record = (fp_call_record){.start = paths->start[event], .call = call, .iterator = iterator};
  }
  add_wrapping(&record->total, paths->duration[event]);
  add_wrapping(&record->self, paths->duration[event]);
  record->is_blocking |= blocks;
  if (record->count < INT32_MAX) record->count++;
  uint32_t given = paths->asks[event] < paths->asks[event + 1] ? paths->gives[paths->link[paths->asks[event]]] : 0;
  *here = (stop){at, event, state->children.first[event], paths->asks[event], given, blocks};
  return true;
}

/* The next event that this one leads to; -1: none is left. */
static int32_t next_of(const walk *state, stop *here) {
  const fp_event_paths *paths = state->paths;
  if (here->child < state->children.first[here->event + 1]) return state->children.child[here->child++];
  while (here->ask < paths->asks[here->event + 1]) {
    if (here->given < paths->gives[paths->link[here->ask] + 1]) return paths->given[here->given++];
    if (++here->ask < paths->asks[here->event + 1]) here->given = paths->gives[paths->link[here->ask]];
  }
  return -1;
}

/* Depth first over all paths of a call. */
static fp_code walk_call(walk *state, int32_t call, int32_t root) {
  const fp_event_paths *paths = state->paths;
  int level = 0;
  if (paths->iterator[root] < 0) return FP_OK;
  if (!enter(state, call, state->stops, root, true)) return FP_NO_MEMORY;
  while (level >= 0) {
    stop *here = state->stops + level;
    int32_t event = next_of(state, here);
    if (event < 0) {
      level--;
      continue;
    }
    if (!state->visits_left--) return FP_TOO_LONG;
    int64_t common = overlap(paths, here->event, event);
    fp_call_record *above = (fp_call_record *)state->records->items + here->record;
    add_wrapping(&above->self, (int64_t)(0 - (uint64_t)common));
    if (level == FP_DEEPEST_LEVEL || paths->iterator[event] < 0) continue;
    if (!enter(state, call, state->stops + ++level, event, here->blocks && common > 0)) return FP_NO_MEMORY;
  }
  return FP_OK;
}

fp_code fp_pipeline_paths(fp_memory *memory, const fp_event_paths *paths, const int32_t *roots,
                          size_t root_count, fp_path_piece *piece, fp_vector *records) {
  walk state = {.memory = memory, .paths = paths, .records = records, .visits_left = piece->visits_left};
  fp_code result = FP_NO_MEMORY;
  size_t of_iterators = paths->iterator_count * sizeof *state.record_of;
  state.record_of = fp_alloc(memory, of_iterators);
  if (state.record_of && fp_children_open(memory, paths->parent, NULL, paths->count, &state.children)) {
    memset(state.record_of, -1, of_iterators);
    result = FP_OK;
    size_t call = 0;
    while (result == FP_OK && call < root_count && records->count < piece->most_records) {
      result = walk_call(&state, (int32_t)call, roots[call]);
      call++;
    }
    piece->calls = call;
    piece->visits_left = state.visits_left;
  }
  fp_children_close(memory, &state.children);
  fp_release(memory, state.record_of);
  return result;
}
