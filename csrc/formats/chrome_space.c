/* The XSpace, when all names are known: its planes, of each the lines, the metadata and the stats.
 *
 *    spill      [events] ... [events]  |  XPlane 1: length, id, name  XLine: length, id, name  XLine ...  metadata  XPlane 2 ...
 *                  |             |                                                           ^         ^
 *    XSpace        '-------------'------------- are read here --------------------------- --'---------'
 *
 * Lengths come before contents, so a plane is put together first: its bytes, and where ranges of events go. */
#include <stdlib.h>
#include <string.h>

#include "formats/chrome_processes.h"
#include "formats/chrome_stats.h"
#include "formats/json_values.h"
#include "formats/proto_write.h"

enum {
  SPACE_PLANES = 1, SPACE_FLOWS = 1000, PLANE_ID = 1, PLANE_NAME = 2, PLANE_LINES = 3, PLANE_EVENT_METADATA = 4,
  PLANE_STAT_METADATA = 5, PLANE_STATS = 6, LINE_ID = 1, LINE_NAME = 2, LINE_TIMESTAMP = 3, LINE_DISPLAY_ID = 10,
  MAP_KEY = 1, MAP_VALUE = 2, METADATA_ID = 1, METADATA_NAME = 2, METADATA_STATS = 5,
  FLOW_ENDS = 1, FLOW_LINES = 2, FLOW_TEXTS = 3, FLOW_BESIDE = 4
};
enum { PS_IN_NS = 1000, PS_IN_US = 1000000, MOST_REPEATED = 256 };
static const int64_t MOST_NS = INT64_C(9223372036854775);

/* Where ranges of the spill go in the bytes of a plane. */
typedef struct insertion {
  size_t at;
  uint64_t offset, length;
} insertion;

/* A plane that is put together. `names`: int32_t, of the stats that it uses, some more than once. */
typedef struct assembly {
  fp_bytes bytes;
  fp_vector insertions, names;
  uint64_t inserted;
} assembly;

/* What is sorted by plane: lines with events, metadata, names of stats. `at`: of plane i, from at[i] to at[i + 1]. */
typedef struct by_plane {
  uint32_t *items, *at;
} by_plane;

/* What all planes need. `counts`: by process, zero between planes; `frames`: the text of stackFrames. */
typedef struct space {
  by_plane lines, metadata, stats;
  size_t *fragments_at;
  uint64_t *counts;
  chrome_text_view frames;
} space;

static void put_bytes(fp_bytes *out, uint32_t field, const uint8_t *bytes, size_t length) {
  proto_put_varint(out, field << 3 | WIRE_LEN);
  proto_put_varint(out, length);
  fp_bytes_put(out, bytes, length);
}

/* ---- names ---- */

static const chrome_process *process_of(const fp_chrome *chrome, int32_t number) {
  return (const chrome_process *)chrome->processes.items + number;
}

/* ---- lines ---- */

static int compare_fragments(const void *a, const void *b) {
  const chrome_fragment *first = a, *second = b;
  if (first->line != second->line) return first->line < second->line ? -1 : 1;
  if (first->epoch != second->epoch) return first->epoch < second->epoch ? -1 : 1;
  return (first->offset > second->offset) - (first->offset < second->offset);
}

static bool fits(int64_t ns, int64_t zero) {
  int64_t apart;
  return !__builtin_sub_overflow(ns, zero, &apart) && apart < MOST_NS && apart > -MOST_NS;
}

/* Epochs too far from the zero have no place: their events are left out. */
static bool is_near(const fp_chrome *chrome, int32_t number) {
  const chrome_epoch *epoch = (const chrome_epoch *)chrome->epochs.items + number;
  return fits(epoch->first_ns, chrome->zero_ns) && fits(epoch->last_ns, chrome->zero_ns) && fits(epoch->base_ns, chrome->zero_ns);
}

static void drop_far_epochs(fp_chrome *chrome) {
  const chrome_epoch *epochs = chrome->epochs.items;
  for (size_t i = 0; i < chrome->epochs.count; i++)
    if (!is_near(chrome, (int32_t)i)) chrome_remark(chrome, CHROME_BAD_TIME, epochs[i].first_offset, epochs[i].count);
}

/* A line of the events of one epoch. `is_again`: another of its epochs has been put, with the name as a whole. */
static void put_line(fp_chrome *chrome, assembly *to, const chrome_fragment *fragments, size_t count, bool is_again) {
  const chrome_line *line = (const chrome_line *)chrome->lines.items + fragments->line;
  const chrome_plane *plane = (const chrome_plane *)chrome->planes.items + line->plane;
  const chrome_thread *thread = chrome_thread_of_line(chrome, line);
  fp_bytes head = {.memory = chrome->memory}, name = {.memory = chrome->memory};
  uint64_t length = 0;
  if (!is_near(chrome, fragments->epoch)) return;
  for (size_t i = 0; i < count; i++) length += fragments[i].length;
  chrome_put_line_name(chrome, &name, line, plane);
  proto_put_number(&head, LINE_ID, (uint64_t)line->xline_id);
  put_bytes(&head, LINE_NAME, name.data, chrome_cut(name.data, name.size, is_again ? MOST_REPEATED : SIZE_MAX));
  proto_put_number(&head, LINE_TIMESTAMP, (uint64_t)((const chrome_epoch *)chrome->epochs.items)[fragments->epoch].base_ns);
  if (thread && thread->sort_index) proto_put_number(&head, LINE_DISPLAY_ID, (uint64_t)thread->sort_index);
  proto_put_varint(&to->bytes, PLANE_LINES << 3 | WIRE_LEN);
  proto_put_varint(&to->bytes, head.size + length);
  fp_bytes_put(&to->bytes, head.data, head.size);
  for (size_t i = 0; i < count; i++) {
    insertion *place = fp_vector_add(chrome->memory, &to->insertions, sizeof *place);
    if (place) *place = (insertion){to->bytes.size, fragments[i].offset, fragments[i].length};
    else chrome->failed = true;
  }
  to->inserted += length;
  chrome->failed |= head.failed || name.failed;
  fp_bytes_free(&head);
  fp_bytes_free(&name);
}

/* ---- metadata and stats ---- */

/* Notes that a plane uses the name of a stat. */
static void use(fp_chrome *chrome, assembly *to, int32_t name) {
  const int32_t *names = to->names.items;
  if (to->names.count && names[to->names.count - 1] == name) return;
  int32_t *added = fp_vector_add(chrome->memory, &to->names, sizeof *added);
  if (added) *added = name;
  else chrome->failed = true;
}

/* Puts XStats of a plane, and notes their names. */
static void put_stats(fp_chrome *chrome, assembly *to, const fp_bytes *stats) {
  const uint8_t *p = stats->data, *end = p + stats->size;
  chrome_written stat;
  while (stats->size && chrome_next_written(&p, end, &stat)) {
    put_bytes(&to->bytes, PLANE_STATS, stat.fields, (size_t)(stat.end - stat.fields));
    use(chrome, to, stat.name);
  }
}

static void put_event_metadata(fp_chrome *chrome, assembly *to, const chrome_metadata *metadata) {
  fp_bytes value = {.memory = chrome->memory}, stat = {.memory = chrome->memory};
  size_t length;
  const uint8_t *text = chrome_string(&chrome->names, metadata->name, &length);
  proto_put_number(&value, METADATA_ID, (uint64_t)metadata->id);
  put_bytes(&value, METADATA_NAME, text, length);
  if (metadata->cat >= 0) {
    int32_t word = chrome_word_number(chrome, WORD_CAT);
    text = chrome_string(&chrome->cats, metadata->cat, &length);
    if (word >= 0) {
      use(chrome, to, word);
      chrome_put_stat_text(&stat, word, text, length);
      if (stat.size) stat.data[0] = WIRE_TAG(METADATA_STATS, WIRE_LEN);
      fp_bytes_put(&value, stat.data, stat.size);
    }
  }
  proto_put_varint(&to->bytes, PLANE_EVENT_METADATA << 3 | WIRE_LEN);
  proto_put_varint(&to->bytes, 1 + proto_varint_size((uint64_t)metadata->id) + 1 + proto_varint_size(value.size) + value.size);
  proto_put_number(&to->bytes, MAP_KEY, (uint64_t)metadata->id);
  put_bytes(&to->bytes, MAP_VALUE, value.data, value.size);
  chrome->failed |= value.failed || stat.failed;
  fp_bytes_free(&value);
  fp_bytes_free(&stat);
}

static void put_one_stat_name(fp_chrome *chrome, assembly *to, int32_t number, const uint8_t *text, size_t length) {
  uint64_t id = (uint64_t)number + 1;
  size_t value_size = 1 + proto_varint_size(id) + 1 + proto_varint_size(length) + length;
  proto_put_varint(&to->bytes, PLANE_STAT_METADATA << 3 | WIRE_LEN);
  proto_put_varint(&to->bytes, 1 + proto_varint_size(id) + 1 + proto_varint_size(value_size) + value_size);
  proto_put_number(&to->bytes, MAP_KEY, id);
  proto_put_varint(&to->bytes, MAP_VALUE << 3 | WIRE_LEN);
  proto_put_varint(&to->bytes, value_size);
  proto_put_number(&to->bytes, METADATA_ID, id);
  put_bytes(&to->bytes, METADATA_NAME, text, length);
  chrome->failed |= to->bytes.failed;
}

static int compare_names(const void *a, const void *b) {
  const int32_t *first = a, *second = b;
  return (*first > *second) - (*first < *second);
}

/* Names of the stats that a plane uses. Stacks that events refer to are names, too. */
static void put_stat_metadata(fp_chrome *chrome, assembly *to, const chrome_text_view *stacks) {
  const chrome_frame *frames = chrome->frames.items;
  int32_t *names = to->names.items, stack = chrome->words[WORD_STACK], end_stack = chrome->words[WORD_END_STACK];
  bool has_stacks = false;
  size_t length;
  if (to->names.count) qsort(names, to->names.count, sizeof *names, compare_names);
  for (size_t i = 0; i < to->names.count; i++) {
    has_stacks |= names[i] == stack || names[i] == end_stack;
    if (i && names[i] == names[i - 1]) continue;
    const uint8_t *text = chrome_string(&chrome->stats, names[i], &length);
    put_one_stat_name(chrome, to, names[i], text, length);
  }
  for (size_t i = 0; has_stacks && i < chrome->frames.count; i++) {
    fp_bytes text = {.memory = chrome->memory};
    chrome_put_stack(chrome, &text, stacks, frames[i].id);
    put_one_stat_name(chrome, to, frames[i].stat, text.data ? text.data : (const uint8_t *)"", text.size);
    chrome->failed |= text.failed;
    fp_bytes_free(&text);
  }
}

/* ---- planes ---- */

/* Kineto: the process that most events of a plane are of, whose labels are the plane's. */
static int32_t main_process(const fp_chrome *chrome, const space *all, int32_t number) {
  const chrome_line *lines = chrome->lines.items;
  const uint32_t *first = all->lines.items + all->lines.at[number], *last = all->lines.items + all->lines.at[number + 1];
  uint64_t most = 0;
  int32_t found = -1;
  for (const uint32_t *line = first; line < last; line++) {
    uint64_t count = all->counts[lines[*line].process] += lines[*line].event_count;
    if (count <= most) continue;
    most = count;
    found = lines[*line].process;
  }
  for (const uint32_t *line = first; line < last; line++) all->counts[lines[*line].process] = 0;
  return found;
}

/* Adds a part of the XSpace, which has been spilled. */
static void add_part(fp_chrome *chrome, uint64_t place, uint64_t length) {
  size_t count = chrome->parts.count;
  fp_chrome_part *last = count ? (fp_chrome_part *)chrome->parts.items + count - 1 : NULL;
  if (!length) return;
  if (last && last->place + last->length == place) {
    last->length += length;
    return;
  }
  fp_chrome_part *part = fp_vector_add(chrome->memory, &chrome->parts, sizeof *part);
  if (part) *part = (fp_chrome_part){place, length};
  else chrome->failed = true;
}

static void put_literal(fp_chrome *chrome, const uint8_t *bytes, size_t length) {
  fp_bytes_put(&chrome->spill, bytes, length);
  chrome->failed |= chrome->spill.failed;
  if (!chrome->failed) add_part(chrome, chrome->spilled, length);
  chrome->spilled += length;
}

/* Puts a message that has been put together into the XSpace. */
static void put_message(fp_chrome *chrome, uint32_t field, assembly *message) {
  const insertion *places = message->insertions.items;
  uint8_t head[16];
  size_t at = 0;
  fp_bytes tag = {.memory = chrome->memory};
  chrome->failed |= message->bytes.failed;
  proto_put_varint(&tag, (uint64_t)field << 3 | WIRE_LEN);
  proto_put_varint(&tag, message->bytes.size + message->inserted);
  if (!tag.failed) memcpy(head, tag.data, tag.size);
  chrome->failed |= tag.failed;
  if (!chrome->failed) put_literal(chrome, head, tag.size);
  for (size_t i = 0; !chrome->failed && i < message->insertions.count; i++) {
    put_literal(chrome, message->bytes.data + at, places[i].at - at);
    add_part(chrome, places[i].offset, places[i].length);
    at = places[i].at;
  }
  if (!chrome->failed) put_literal(chrome, message->bytes.data + at, message->bytes.size - at);
  fp_bytes_free(&tag);
  fp_bytes_free(&message->bytes);
  fp_vector_free(chrome->memory, &message->insertions);
  fp_vector_free(chrome->memory, &message->names);
}

static bool sort_by_plane(fp_chrome *chrome, by_plane *sorted, const void *items, size_t count, size_t item_size, size_t plane_at) {
  size_t planes = chrome->planes.count;
  sorted->items = fp_alloc(chrome->memory, count * sizeof *sorted->items);
  sorted->at = fp_alloc_zeroed(chrome->memory, planes + 2, sizeof *sorted->at);
  if (!sorted->items || !sorted->at) return false;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < count; i++) {
      int32_t plane;
      memcpy(&plane, (const uint8_t *)items + i * item_size + plane_at, sizeof plane);
      if (!pass) sorted->at[plane + 2]++;
      else sorted->items[sorted->at[plane + 1]++] = (uint32_t)i;
      if (!pass && i + 1 == count)
        for (size_t p = 2; p < planes + 2; p++) sorted->at[p] += sorted->at[p - 1];
    }
  return true;
}

static void free_sorted(fp_chrome *chrome, by_plane *sorted) {
  fp_release(chrome->memory, sorted->items);
  fp_release(chrome->memory, sorted->at);
}

/* Fragments by line: of line i, from at[i] to at[i + 1]; those before at[0] are of flows. */
static size_t *fragments_by_line(fp_chrome *chrome) {
  chrome_fragment *fragments = chrome->fragments.items;
  size_t lines = chrome->lines.count, *at = fp_alloc_zeroed(chrome->memory, lines + 2, sizeof *at);
  if (!at) return NULL;
  if (chrome->fragments.count) qsort(fragments, chrome->fragments.count, sizeof *fragments, compare_fragments);
  for (size_t i = 0; i < chrome->fragments.count; i++) at[fragments[i].line + 1]++;
  for (size_t i = 1; i <= lines; i++) at[i] += at[i - 1];
  return at;
}

static void put_plane(fp_chrome *chrome, int32_t number, int64_t id, const space *all) {
  const chrome_plane *plane = (const chrome_plane *)chrome->planes.items + number;
  const chrome_fragment *fragments = chrome->fragments.items;
  const size_t *fragments_at = all->fragments_at;
  assembly to = {.bytes.memory = chrome->memory};
  fp_bytes name = {.memory = chrome->memory};
  int32_t process = plane->process >= 0 ? plane->process : main_process(chrome, all, number);
  chrome_put_plane_name(chrome, &name, plane, process);
  proto_put_number(&to.bytes, PLANE_ID, (uint64_t)id);
  put_bytes(&to.bytes, PLANE_NAME, name.data ? name.data : (const uint8_t *)"", name.size);
  for (uint32_t i = all->lines.at[number]; i < all->lines.at[number + 1]; i++) {
    uint32_t line = all->lines.items[i];
    for (size_t first = fragments_at[line], last; first < fragments_at[line + 1]; first = last) {
      for (last = first + 1; last < fragments_at[line + 1] && fragments[last].epoch == fragments[first].epoch; last++) {
      }
      put_line(chrome, &to, fragments + first, last - first, first > fragments_at[line]);
    }
  }
  for (uint32_t i = all->stats.at[number]; i < all->stats.at[number + 1]; i++)
    use(chrome, &to, ((const chrome_plane_stat *)chrome->plane_stats.items)[all->stats.items[i]].stat);
  for (uint32_t i = all->metadata.at[number]; i < all->metadata.at[number + 1]; i++)
    put_event_metadata(chrome, &to, (const chrome_metadata *)chrome->metadatas.items + all->metadata.items[i]);
  put_stats(chrome, &to, &plane->stats);
  if (process >= 0) put_stats(chrome, &to, &process_of(chrome, process)->stats);
  put_stat_metadata(chrome, &to, &all->frames);
  chrome->failed |= name.failed;
  fp_bytes_free(&name);
  put_message(chrome, SPACE_PLANES, &to);
}

/* A plane and what it is sorted by. */
typedef struct place {
  int64_t sort;
  int32_t number;
} place;

static int compare_places(const void *a, const void *b) {
  const place *first = a, *second = b;
  if (first->sort != second->sort) return first->sort < second->sort ? -1 : 1;
  return (first->number > second->number) - (first->number < second->number);
}

/* The id of a plane: its pid, if that is an integer and free. */
static int64_t plane_id(fp_chrome *chrome, const chrome_plane *plane, fp_key_map *taken, int64_t *next) {
  bool is_number = plane->process >= 0;
  if (is_number) {
    chrome_id pid = process_of(chrome, plane->process)->pid;
    is_number = pid.kind == CHROME_INT_ID || pid.kind == CHROME_UINT_ID;
  }
  for (;;) {
    int64_t id = is_number ? (int64_t)process_of(chrome, plane->process)->pid.bits : plane->process < 0 ? (*next)++ : -1 - (*next)++;
    const fp_key key = {{(uint64_t)id, 0, 0, 0}};
    size_t before = taken->keys.count;
    if (fp_key_map_add(taken, &key) < 0) chrome->failed = true;
    if (chrome->failed || taken->keys.count > before) return id;
    is_number = false;
  }
}

/* ---- the whole ---- */

/* No process has this id: one may be called like the plane of the environment. */
enum { ENVIRONMENT_ID = INT32_MAX };

/* When the trace was taken, and what else the document says of itself. */
static void put_environment(fp_chrome *chrome, const space *all) {
  static const char name[] = "Task Environment";
  static const char *const formats[] = {
      [CHROME_BROWSER] = "Chrome JSON", [CHROME_XPROF] = "XProf JSON", [CHROME_KINETO] = "Kineto JSON", [CHROME_TF1] = "TensorFlow 1 JSON"};
  const char *format = formats[chrome->dialect];
  assembly to = {.bytes.memory = chrome->memory};
  fp_bytes stats = {.memory = chrome->memory};
  chrome_put_stat_text(&stats, chrome_stat_number(chrome, "transcribed_from"), (const uint8_t *)format, strlen(format));
  chrome_put_stat_int(&stats, chrome_stat_number(chrome, "zero_ns"), chrome->zero_ns);
  if (chrome->dialect != CHROME_XPROF) /* whose times are exact */
    chrome_put_stat_int(&stats, chrome_stat_number(chrome, "slack_ps"), chrome->has_fractions ? PS_IN_NS : PS_IN_US);
  if (chrome->has_unix) {
    int64_t stop;
    chrome_put_stat_int(&stats, chrome_stat_number(chrome, "profile_start_time"), chrome->unix_ns);
    bool has_stop = chrome->has_span && !__builtin_add_overflow(chrome->unix_ns, chrome->span_ps / 1000, &stop);
    if (has_stop) chrome_put_stat_int(&stats, chrome_stat_number(chrome, "profile_stop_time"), stop);
  }
  proto_put_number(&to.bytes, PLANE_ID, ENVIRONMENT_ID);
  put_bytes(&to.bytes, PLANE_NAME, (const uint8_t *)name, sizeof name - 1);
  put_stats(chrome, &to, &stats);
  chrome_keep_last(chrome, &chrome->environment);
  put_stats(chrome, &to, &chrome->environment);
  put_stat_metadata(chrome, &to, &all->frames);
  chrome->failed |= stats.failed;
  fp_bytes_free(&stats);
  put_message(chrome, SPACE_PLANES, &to);
}

/* Ends of flows: the records, the ids of the lines that they name, and texts. */
static void put_flows(fp_chrome *chrome, const size_t *fragments_at, const int64_t *ids) {
  const chrome_fragment *fragments = chrome->fragments.items;
  const chrome_line *lines = chrome->lines.items;
  assembly to = {.bytes.memory = chrome->memory};
  size_t length;
  if (!chrome->flow_count) return;
  proto_put_varint(&to.bytes, FLOW_LINES << 3 | WIRE_LEN);
  proto_put_varint(&to.bytes, 16 * chrome->lines.count);
  for (size_t i = 0; i < chrome->lines.count; i++) {
    fp_bytes_put(&to.bytes, &ids[lines[i].plane], 8);
    fp_bytes_put(&to.bytes, &lines[i].xline_id, 8);
  }
  proto_put_varint(&to.bytes, FLOW_BESIDE << 3 | WIRE_LEN);
  proto_put_varint(&to.bytes, 4 * CHROME_BESIDE * chrome->lines.count);
  for (size_t i = 0; i < chrome->lines.count; i++) {
    int32_t beside[CHROME_BESIDE];
    chrome_lines_beside(chrome, &lines[i], beside);
    fp_bytes_put(&to.bytes, beside, sizeof beside);
  }
  for (size_t i = 0; i < fp_strings_count(&chrome->flow_texts); i++) {
    const uint8_t *text = chrome_string(&chrome->flow_texts, (int32_t)i, &length);
    put_bytes(&to.bytes, FLOW_TEXTS, text, length);
  }
  proto_put_varint(&to.bytes, FLOW_ENDS << 3 | WIRE_LEN);
  proto_put_varint(&to.bytes, chrome->flow_count * sizeof(chrome_flow_end));
  for (size_t i = 0; i < fragments_at[0]; i++) {
    insertion *at = fp_vector_add(chrome->memory, &to.insertions, sizeof *at);
    if (at) *at = (insertion){to.bytes.size, fragments[i].offset, fragments[i].length};
    else chrome->failed = true;
    to.inserted += fragments[i].length;
  }
  put_message(chrome, SPACE_FLOWS, &to);
}

/* The order of planes: by sort index, those of a dialect in its order. */
static place *ordered_planes(fp_chrome *chrome) {
  const chrome_plane *planes = chrome->planes.items;
  place *places = fp_alloc_zeroed(chrome->memory, chrome->planes.count, sizeof *places);
  for (size_t i = 0; places && i < chrome->planes.count; i++) {
    bool is_process = planes[i].process >= 0;
    places[i] = (place){is_process ? process_of(chrome, planes[i].process)->sort_index : planes[i].order, (int32_t)i};
  }
  if (places && chrome->planes.count) qsort(places, chrome->planes.count, sizeof *places, compare_places);
  return places;
}

/* Sorts what planes have. False: memory ran out. */
static bool begin_space(fp_chrome *chrome, space *all) {
  all->fragments_at = fragments_by_line(chrome);
  all->counts = fp_alloc_zeroed(chrome->memory, chrome->processes.count, sizeof *all->counts);
  return all->fragments_at && all->counts && chrome_read_frames(chrome, &all->frames) &&
         sort_by_plane(chrome, &all->lines, chrome->lines.items, chrome->lines.count, sizeof(chrome_line), offsetof(chrome_line, plane)) &&
         sort_by_plane(chrome, &all->metadata, chrome->metadatas.items, chrome->metadatas.count, sizeof(chrome_metadata),
                       offsetof(chrome_metadata, plane)) &&
         sort_by_plane(chrome, &all->stats, chrome->plane_stats.items, chrome->plane_stats.count, sizeof(chrome_plane_stat),
                       offsetof(chrome_plane_stat, plane));
}

static void free_space(fp_chrome *chrome, space *all) {
  free_sorted(chrome, &all->lines);
  free_sorted(chrome, &all->metadata);
  free_sorted(chrome, &all->stats);
  fp_release(chrome->memory, all->fragments_at);
  fp_release(chrome->memory, all->counts);
  chrome_free_view(chrome->memory, &all->frames);
}

void chrome_put_space(fp_chrome *chrome) {
  if (chrome->dialect == CHROME_KINETO) chrome_match_devices(chrome);
  space all = {0};
  fp_key_map taken = {.memory = chrome->memory};
  int64_t next = 0, *ids = fp_alloc_zeroed(chrome->memory, chrome->planes.count, sizeof *ids);
  place *places = ordered_planes(chrome);
  bool done = ids && places && begin_space(chrome, &all);
  const fp_key own = {{ENVIRONMENT_ID, 0, 0, 0}};
  chrome->failed |= !done || fp_key_map_add(&taken, &own) < 0;
  if (done) drop_far_epochs(chrome);
  chrome_process *processes = chrome->processes.items;
  for (size_t i = 0; i < chrome->processes.count; i++) chrome_keep_last(chrome, &processes[i].stats);
  for (size_t i = 0; done && !chrome->failed && i < chrome->planes.count; i++) {
    const chrome_plane *plane = (const chrome_plane *)chrome->planes.items + places[i].number;
    if (plane->is_left_out) continue;
    ids[places[i].number] = plane_id(chrome, plane, &taken, &next);
    put_plane(chrome, places[i].number, ids[places[i].number], &all);
  }
  if (!chrome->failed) put_environment(chrome, &all);
  if (!chrome->failed) put_flows(chrome, all.fragments_at, ids);
  free_space(chrome, &all);
  fp_key_map_free(&taken);
  fp_release(chrome->memory, ids);
  fp_release(chrome->memory, places);
}
