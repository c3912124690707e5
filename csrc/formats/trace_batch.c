#include "formats/trace_batch.h"

enum { MOST_SHARED = 256 }; /* stats of its metadata that an event repeats at most */

/* An argument name: the last event that has it, how often, and whether from a stat of its own. */
typedef struct meeting {
  int64_t serial;
  int32_t times;
  int32_t own; /* one of the event's own stats has it */
} meeting;

fp_text fp_text_cut(fp_text text, size_t most) {
  if (text.length <= most) return text;
  while (most && (text.bytes[most] & 0xC0) == 0x80) most--;
  return (fp_text){text.bytes, most};
}

void fp_trace_walk_begin(fp_trace_walk *walk) {
  walk->stat = walk->added = walk->renamed = walk->flow = 0;
}

void fp_trace_walk_free(fp_trace_walk *walk) {
  fp_vector_free(walk->memory, &walk->args);
  fp_vector_free(walk->memory, &walk->met);
}

/* The entry of a name; NULL when memory runs out. Names are few, so a table by number will do. */
static meeting *met_with(fp_trace_walk *walk, int32_t name) {
  size_t need = (size_t)name + 1;
  if (walk->met.count < need) {
    size_t extra = need - walk->met.count;
    if (!fp_vector_reserve(walk->memory, &walk->met, sizeof(meeting), extra)) return NULL;
    memset((meeting *)walk->met.items + walk->met.count, 0, extra * sizeof(meeting));
    walk->met.count = need;
  }
  return (meeting *)walk->met.items + name;
}

/* Whether a stat has a name and a value. */
static bool has_value(const fp_trace_batch *batch, const fp_trace_stats *of, size_t row) {
  if (of->name[row] < 0 || (size_t)of->name[row] >= batch->texts.count) return false;
  return of->kind[row] < FP_NOTHING && (of->kind[row] != FP_A_STR || of->text[row] >= 0);
}

/* Appends an argument, unless it has no value or an own stat of the event has its name. */
static bool add(fp_trace_walk *walk, const fp_trace_batch *batch, const fp_trace_stats *of, size_t row) {
  bool own = of != &batch->shared;
  if (!has_value(batch, of, row)) return true;
  meeting *with = met_with(walk, of->name[row]);
  if (!with) return false;
  if (with->serial != walk->serial) *with = (meeting){walk->serial, 0, own};
  else if (with->own && !own) return true;
  fp_trace_arg *arg = fp_vector_add(walk->memory, &walk->args, sizeof *arg);
  if (arg) *arg = (fp_trace_arg){of, row, with->times++};
  return arg != NULL;
}

/* Appends the stats of one event, which begin at *place or later. */
static bool add_all(fp_trace_walk *walk, const fp_trace_batch *batch, const fp_trace_stats *of, const int64_t *event,
                    size_t *place, int64_t id) {
  while (*place < of->count && event[*place] < id) ++*place;
  for (; *place < of->count && event[*place] == id; ++*place)
    if (!add(walk, batch, of, *place)) return false;
  return true;
}

/* Finds the names of an event. */
static void name_event(fp_trace_walk *walk, const fp_trace_batch *batch, int64_t id, int32_t meta) {
  bool known = meta >= 0 && (size_t)meta < batch->metas;
  walk->name = known ? batch->meta_name[meta] : -1;
  walk->long_name = known ? batch->meta_long_name[meta] : -1;
  while (walk->renamed < batch->renamed_count && batch->renamed_event[walk->renamed] < id) walk->renamed++;
  if (walk->renamed == batch->renamed_count || batch->renamed_event[walk->renamed] != id) return;
  if (walk->long_name < 0) walk->long_name = walk->name;
  walk->name = batch->renamed_name[walk->renamed];
}

/* The writers add an argument "long_name". A stat with that name counts as the second one. */
static void make_way(fp_trace_walk *walk, const fp_trace_batch *batch) {
  static const char ours[] = "long_name";
  fp_trace_arg *args = walk->args.items;
  for (size_t i = 0; i < walk->args.count; i++) {
    fp_text name = fp_text_of(&batch->texts, args[i].of->name[args[i].row]);
    if (name.length == sizeof ours - 1 && !memcmp(name.bytes, ours, name.length)) args[i].times++;
  }
}

/* Every list of stats is sorted by event, so the walk only moves forward in each of them. */
bool fp_trace_walk_to(fp_trace_walk *walk, const fp_trace_batch *batch, size_t event) {
  int64_t id = batch->event_id[event];
  int32_t meta = batch->meta[event];
  walk->args.count = 0;
  walk->left_out = 0;
  walk->serial++;
  name_event(walk, batch, id, meta);
  if (!add_all(walk, batch, &batch->stats, batch->stat_event, &walk->stat, id)) return false;
  if (!add_all(walk, batch, &batch->added, batch->added_event, &walk->added, id)) return false;
  if (!batch->shared_first || meta < 0 || (size_t)meta >= batch->metas) return true;
  int64_t first = batch->shared_first[meta], last = batch->shared_first[meta + 1];
  if (last - first > MOST_SHARED) {
    walk->left_out = last - first - MOST_SHARED;
    last = first + MOST_SHARED;
  }
  for (int64_t row = first; row < last; row++)
    if (!add(walk, batch, &batch->shared, (size_t)row)) return false;
  if (walk->long_name >= 0) make_way(walk, batch);
  return true;
}

bool fp_trace_walk_flow(fp_trace_walk *walk, const fp_trace_batch *batch, size_t event, size_t *flow) {
  int64_t id = batch->event_id[event];
  while (walk->flow < batch->flow_count && batch->flow_event[walk->flow] < id) walk->flow++;
  if (walk->flow >= batch->flow_count || batch->flow_event[walk->flow] != id) return false;
  *flow = walk->flow++;
  return true;
}
