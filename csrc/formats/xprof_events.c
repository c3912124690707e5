/* The bytes must be those that XProf writes, so that its page and comparisons accept them: order of keys, number of
 * digits, which fields are left out. Nothing here is this package's choice. */
#include "formats/xprof_events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/json_values.h"
#include "formats/xspace.h"

enum { FLOW_IN = 1, FLOW_OUT = 2, NUMBER_BITS = 56, FEW = 24, NUMBER_SIZE = 400, TEXTS_OF_AN_EVENT = 8 };
static const uint64_t LONGEST = INT64_MAX, NUMBER_MASK = (UINT64_C(1) << NUMBER_BITS) - 1;
static const double PS_IN_US = 1e6;

/* Categories of flows, by their number; unknown ones have no name. */
static const char *const CONTEXTS[] = {
    "", "", "tf_exec", "tfrt_exec", "batch_sched", "PjRt", "as_batch_sched", "tfrt_rt", "tpu_embed", "gpu_launch",
    "batcher", "tpu_stream", "tpu_launch", "pathways_exec", "pjrt_library_call", "threadpool_event", "jax_serving",
    "sparsecore_offload",
};

/* A text of a pool in quotes, cut if it is longer than its limit; a negative number is the empty text. */
static void write_text(fp_bytes *out, const fp_texts *texts, int64_t number) {
  if (number < 0) {
    fp_bytes_text(out, "\"\"");
    return;
  }
  const uint8_t *text = texts->bytes + texts->offsets[number];
  size_t length = (size_t)(texts->offsets[number + 1] - texts->offsets[number]);
  if (!texts->limit || !texts->limit->most) fp_json_text(out, text, length);
  else texts->limit->cut += fp_json_cut_text(out, text, length, texts->limit->most);
}

/* A double in a form of printf, with a point whatever the locale. */
static void write_double(fp_bytes *out, double value, const char *form) {
  char text[NUMBER_SIZE];
  snprintf(text, sizeof text, form, value);
  for (char *at = text; *at; at++)
    if (*at == ',') *at = '.';
  fp_bytes_text(out, text);
}

/* Times are unsigned: an event that began before 0 is far in the future. XProf loses digits of such times, and so
 * does this. */
static void write_micros(fp_bytes *out, uint64_t ps) {
  if (ps <= LONGEST) {
    fp_json_micros(out, (int64_t)ps);
    return;
  }
  write_double(out, (double)ps / PS_IN_US, "%.17g");
}

static void write_key_digits(fp_bytes *out, const char *key, uint64_t value) {
  fp_bytes_text(out, key);
  fp_json_digits(out, value);
}

/* The fields that every event begins with. */
static void write_head(fp_bytes *out, const fp_drawn *drawn, size_t track, int64_t row, bool has_tid, uint64_t start) {
  write_key_digits(out, "{\"pid\":", drawn->pid[track]);
  if (has_tid) write_key_digits(out, ",\"tid\":", drawn->tid[track]);
  fp_bytes_text(out, ",\"name\":");
  write_text(out, &drawn->names, drawn->name[row]);
  fp_bytes_text(out, ",\"ts\":");
  write_micros(out, start);
}

/* The group and the serial number, if it has them. */
static void write_args(fp_bytes *out, const fp_drawn_marks *marks, int64_t row, bool has_uid) {
  bool grouped = marks->group[row] >= 0;
  if (!grouped && !has_uid) return;
  fp_bytes_text(out, ",\"args\":{");
  if (grouped) write_key_digits(out, "\"group_id\":", (uint64_t)marks->group[row]);
  if (has_uid) write_key_digits(out, grouped ? ",\"uid\":" : "\"uid\":", marks->serial[row]);
  fp_bytes_byte(out, '}');
}

/* The serial number, which distinguishes events with the same start, if it is not 0; then the end of the object. */
static void write_end(fp_bytes *out, const fp_drawn_marks *marks, int64_t row) {
  if (marks->serial[row]) write_key_digits(out, ",\"z\":", marks->serial[row]);
  fp_bytes_text(out, "},\n");
}

static const char *context_of(uint64_t flow) {
  uint64_t category = flow >> (2 + NUMBER_BITS);
  return category < sizeof CONTEXTS / sizeof *CONTEXTS ? CONTEXTS[category] : "";
}

static void write_context(fp_bytes *out, const char *context) {
  fp_bytes_text(out, ",\"cat\":\"");
  fp_bytes_text(out, context);
  fp_bytes_byte(out, '"');
}

/* The number that connects the events of a flow, its category, and its direction. */
static void write_flow(fp_bytes *out, uint64_t flow) {
  write_key_digits(out, ",\"bind_id\":", flow >> 2 & NUMBER_MASK);
  if (*context_of(flow)) write_context(out, context_of(flow));
  if (flow & FLOW_IN) fp_bytes_text(out, ",\"flow_in\":true");
  if (flow & FLOW_OUT) fp_bytes_text(out, ",\"flow_out\":true");
}

/* A visible event. One without duration gets a picosecond, as the page would not end it otherwise. */
static void write_slice(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track, int64_t row) {
  write_head(out, drawn, track, row, true, drawn->start[row]);
  fp_bytes_text(out, ",\"dur\":");
  write_micros(out, drawn->duration[row] ? drawn->duration[row] : 1); 
  if (marks->flow[row]) write_flow(out, marks->flow[row]);
  fp_bytes_text(out, ",\"ph\":\"X\"");
  write_args(out, marks, row, true);
  write_end(out, marks, row);
}

/* Advances to the next row that is wanted; false if there is none. */
static bool next_row(const fp_drawn *drawn, const uint8_t *wanted, fp_drawn_place *place) {
  for (; place->track < drawn->track_count; place->track++) {
    int64_t first = drawn->tracks[place->track], last = drawn->tracks[place->track + 1];
    if (place->row < first) place->row = first;
    for (; place->row < last; place->row++)
      if (wanted[place->row]) return true;
  }
  return false;
}

void fp_write_drawn(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t most, fp_drawn_place *place) {
  while (out->size < most && !out->failed && next_row(drawn, marks->visible, place))
    write_slice(out, drawn, marks, place->track, place->row++);
}

static const char BEGINNING[] = ",\"ph\":\"b\"", END[] = ",\"ph\":\"e\"", NEITHER[] = ",\"ph\":\"n\"";

/* The begin or the end of a flight. The end of one that has both repeats only its group. */
static void write_flight(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track, int64_t row,
                         const char *phase, bool has_uid) {
  uint64_t flow = marks->flow[row], start = drawn->start[row] + (has_uid ? 0 : drawn->duration[row]);
  write_head(out, drawn, track, row, false, start);
  write_key_digits(out, ",\"id\":", flow >> 2 & NUMBER_MASK);
  write_context(out, context_of(flow));
  fp_bytes_text(out, phase);
  write_args(out, marks, row, has_uid);
  write_end(out, marks, row);
}

/* A flight that both starts and ends here is two objects. */
void fp_write_flights(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track) {
  for (int64_t row = drawn->tracks[track]; row < drawn->tracks[track + 1]; row++) {
    if (!marks->visible[row]) continue;
    bool starts = marks->flow[row] & FLOW_OUT, ends = marks->flow[row] & FLOW_IN;
    write_flight(out, drawn, marks, track, row, starts ? BEGINNING : ends ? END : NEITHER, true);
    if (starts && ends) write_flight(out, drawn, marks, track, row, END, false);
  }
}

/* ---- values as texts */

/* A value that is a double. */
static double double_of(const fp_named_values *values, int64_t at) {
  double value;
  if (values->real) return values->real[at];
  memcpy(&value, &values->value[at], sizeof value);
  return value;
}

/* A value as XProf shows it where all values are texts: doubles with six digits, bytes not at all. */
static void write_as_text(fp_bytes *out, const fp_named_values *values, int64_t at, bool is_own) {
  fp_texts texts = values->texts;
  if (is_own && values->kind[at] == FP_STR) texts.limit = NULL;
  switch (values->kind[at]) {
    case FP_STR:
    case FP_REF:
      write_text(out, &texts, values->text[at]);
      return;
    case FP_BYTES:
      fp_bytes_text(out, "\"<opaque bytes>\"");
      return;
    default:
      break;
  }
  fp_bytes_byte(out, '"');
  if (values->kind[at] == FP_INT64) fp_json_int(out, values->value[at]);
  else if (values->kind[at] == FP_UINT64) fp_json_digits(out, (uint64_t)values->value[at]);
  else if (values->kind[at] == FP_DOUBLE) write_double(out, double_of(values, at), "%.6g");
  fp_bytes_byte(out, '"');
}

/* A value of a row; `turn` is its place among all of them, so that the last of equal keys can be found after sorting.
 */
typedef struct fp_listed {
  const fp_named_values *values;
  int64_t at;
  int32_t key;
  uint32_t turn;
} fp_listed;

/* The values of one row. Nearly all rows have few, which need no allocation. */
typedef struct fp_list {
  fp_memory *memory;
  fp_listed few[FEW];
  fp_vector many; /* fp_listed: for rows with more than FEW */
  fp_listed *items;
  size_t count;
  bool failed;
} fp_list;

static int by_key(const void *one, const void *other) {
  const fp_listed *a = one, *b = other;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->turn < b->turn ? -1 : a->turn > b->turn;
}

/* Appends a value, and moves all of them to `many` once they are more than FEW. */
static void list_value(fp_list *list, const fp_named_values *values, int64_t at) {
  fp_listed added = {values, at, values->key[at], (uint32_t)list->count};
  if (list->count < FEW) {
    list->items[list->count++] = added;
    return;
  }
  if (list->items == list->few) {
    list->many.count = 0;
    if (!fp_vector_reserve(list->memory, &list->many, sizeof added, 2 * FEW)) list->failed = true;
    else memcpy(list->many.items, list->few, sizeof list->few), list->many.count = FEW;
  }
  fp_listed *item = list->failed ? NULL : fp_vector_add(list->memory, &list->many, sizeof added);
  if (!item) {
    list->failed = true;
    return;
  }
  *item = added;
  list->items = list->many.items;
  list->count++;
}

/* Appends those values of a row that are shown. */
static void list_all(fp_list *list, const fp_named_values *values, int64_t row) {
  if (!values->first) return;
  for (int64_t at = values->first[row]; at < values->first[row + 1]; at++)
    if (values->key[at] >= 0 && values->kind[at] != FP_NONE) list_value(list, values, at);
}

/* Sorts by key, equal keys by turn. Few values take an insertion sort, which is stable. */
static void sort_list(fp_list *list) {
  if (list->count > FEW) {
    qsort(list->items, list->count, sizeof *list->items, by_key);
    return;
  }
  for (size_t i = 1; i < list->count; i++) {
    fp_listed moved = list->items[i];
    size_t at = i;
    for (; at && list->items[at - 1].key > moved.key; at--) list->items[at] = list->items[at - 1];
    list->items[at] = moved;
  }
}

/* Whether the values of an event take so much that one of its metadata, which each such event repeats, is left out. */
static bool is_full(const fp_event_values *given, const fp_listed *item, size_t written) {
  fp_text_limit *limit = given->of_meta.texts.limit;
  if (item->values != &given->of_meta || !limit || !limit->most || written / TEXTS_OF_AN_EVENT < limit->most) return false;
  limit->cut++;
  return true;
}

/* Writes the last value of each key. */
static void write_list(fp_bytes *out, const fp_event_values *given, fp_list *list) {
  bool more = false;
  fp_bytes_text(out, "\"args\":{");
  size_t from = out->size;
  for (size_t i = 0; i < list->count; i++) {
    const fp_listed *item = &list->items[i];
    if (i + 1 < list->count && list->items[i + 1].key == item->key) continue;
    if (is_full(given, item, out->size - from)) continue;
    if (more) fp_bytes_byte(out, ',');
    more = true;
    write_text(out, &given->keys, item->key);
    fp_bytes_byte(out, ':');
    write_as_text(out, item->values, item->at, item->values == &given->own);
  }
  fp_bytes_text(out, "},");
}

/* An event with all its values: an object whose keys are in alphabetical order. */
static void write_event(fp_bytes *out, const fp_drawn *drawn, const fp_event_values *given, fp_list *list, size_t track,
                        int64_t row) {
  list->items = list->few;
  list->count = 0;
  if (given->meta[row] >= 0) list_all(list, &given->of_meta, given->meta[row]);
  list_all(list, &given->own, row);
  list_all(list, &given->derived, row);
  sort_list(list);
  fp_bytes_byte(out, '{');
  if (list->count) write_list(out, given, list);
  if (drawn->duration[row]) {
    fp_bytes_text(out, "\"dur\":");
    write_micros(out, drawn->duration[row]);
    fp_bytes_byte(out, ',');
  }
  fp_bytes_text(out, "\"name\":");
  write_text(out, &drawn->names, drawn->name[row]);
  write_key_digits(out, drawn->duration[row] ? ",\"ph\":\"X\",\"pid\":" : ",\"ph\":\"i\",\"pid\":", drawn->pid[track]);
  if (!drawn->duration[row]) fp_bytes_text(out, ",\"s\":\"t\"");
  write_key_digits(out, ",\"tid\":", drawn->tid[track]);
  fp_bytes_text(out, ",\"ts\":");
  write_micros(out, drawn->start[row]);
  fp_bytes_text(out, "},\n");
}

void fp_write_events(fp_bytes *out, const fp_drawn *drawn, const uint8_t *kept, const fp_event_values *given,
                     size_t most, fp_drawn_place *place) {
  fp_list list = {.memory = out->memory};
  while (out->size < most && !out->failed && !list.failed && next_row(drawn, kept, place))
    write_event(out, drawn, given, &list, place->track, place->row++);
  out->failed = out->failed || list.failed;
  fp_vector_free(out->memory, &list.many);
}

/* ---- counters */

/* A value of a counter. */
static void write_value(fp_bytes *out, const fp_named_values *values, int64_t at) {
  switch (values->kind[at]) {
    case FP_STR:
    case FP_REF:
      write_text(out, &values->texts, values->text[at]);
      return;
    case FP_DOUBLE:
      if (values->key[at] && isfinite(double_of(values, at))) write_double(out, double_of(values, at), "%.2f");
      else fp_json_double(out, double_of(values, at));
      return;
    case FP_UINT64:
      fp_json_digits(out, (uint64_t)values->value[at]);
      return;
    default:
      fp_json_int(out, values->value[at]);
  }
}

/* Rows without values are left out. */
void fp_write_points(fp_bytes *out, const uint64_t *start, const fp_named_values *values, int64_t count) {
  bool more = false;
  for (int64_t row = 0; row < count; row++) {
    if (values->first[row] == values->first[row + 1]) continue;
    fp_bytes_text(out, more ? ",[" : "[");
    more = true;
    write_micros(out, start[row]);
    for (int64_t at = values->first[row]; at < values->first[row + 1]; at++) {
      fp_bytes_byte(out, ',');
      write_value(out, values, at);
    }
    fp_bytes_byte(out, ']');
  }
}

/* ---- the hash of texts: MurmurHash64A with a seed of the library's */

static uint64_t mixed(uint64_t value) {
  return value ^ value >> 47;
}

uint64_t fp_gnu_hash(const uint8_t *text, size_t length) {
  const uint64_t factor = UINT64_C(0xc6a4a7935bd1e995), seed = UINT64_C(0xc70f6907);
  uint64_t hash = seed ^ length * factor;
  size_t whole = length / 8 * 8;
  for (size_t at = 0; at < whole; at += 8) {
    uint64_t word = 0;
    for (int byte = 7; byte >= 0; byte--) word = word << 8 | text[at + (size_t)byte];
    hash = (hash ^ mixed(word * factor) * factor) * factor;
  }
  if (length > whole) {
    uint64_t word = 0;
    for (size_t at = length; at-- > whole;) word = word << 8 | text[at];
    hash = (hash ^ word) * factor;
  }
  return mixed(mixed(hash) * factor);
}
