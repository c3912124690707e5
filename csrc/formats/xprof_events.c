#include "formats/xprof_events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/json_values.h"
#include "formats/xspace.h"

enum { FLOW_IN = 1, FLOW_OUT = 2, NUMBER_BITS = 56, FEW = 24, NUMBER_SIZE = 400 };
static const uint64_t LONGEST = INT64_MAX, NUMBER_MASK = (UINT64_C(1) << NUMBER_BITS) - 1;
static const double PS_IN_US = 1e6;

/* By number of their kind; others are said to be of none. */
static const char *const CONTEXTS[] = {
    "", "", "tf_exec", "tfrt_exec", "batch_sched", "PjRt", "as_batch_sched", "tfrt_rt", "tpu_embed", "gpu_launch",
    "batcher", "tpu_stream", "tpu_launch", "pathways_exec", "pjrt_library_call", "threadpool_event", "jax_serving",
    "sparsecore_offload",
};

static void write_text(fp_bytes *out, const fp_texts *texts, int64_t number) {
  if (number < 0) {
    fp_bytes_text(out, "\"\"");
    return;
  }
  fp_json_text(out, texts->bytes + texts->offsets[number], (size_t)(texts->offsets[number + 1] - texts->offsets[number]));
}

static void write_double(fp_bytes *out, double value, const char *form) {
  char text[NUMBER_SIZE];
  snprintf(text, sizeof text, form, value);
  for (char *at = text; *at; at++)
    if (*at == ',') *at = '.'; /* a process may have set a locale */
  fp_bytes_text(out, text);
}

/* Times are unsigned: what began before 0 is far off, and told as roughly as XProf does. */
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

static void write_head(fp_bytes *out, const fp_drawn *drawn, size_t track, int64_t row, bool has_tid, uint64_t start) {
  write_key_digits(out, "{\"pid\":", drawn->pid[track]);
  if (has_tid) write_key_digits(out, ",\"tid\":", drawn->tid[track]);
  fp_bytes_text(out, ",\"name\":");
  write_text(out, &drawn->names, drawn->name[row]);
  fp_bytes_text(out, ",\"ts\":");
  write_micros(out, start);
}

static void write_args(fp_bytes *out, const fp_drawn_marks *marks, int64_t row, bool has_uid) {
  bool grouped = marks->group[row] >= 0;
  if (!grouped && !has_uid) return;
  fp_bytes_text(out, ",\"args\":{");
  if (grouped) write_key_digits(out, "\"group_id\":", (uint64_t)marks->group[row]);
  if (has_uid) write_key_digits(out, grouped ? ",\"uid\":" : "\"uid\":", marks->serial[row]);
  fp_bytes_byte(out, '}');
}

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

static void write_flow(fp_bytes *out, uint64_t flow) {
  write_key_digits(out, ",\"bind_id\":", flow >> 2 & NUMBER_MASK);
  if (*context_of(flow)) write_context(out, context_of(flow));
  if (flow & FLOW_IN) fp_bytes_text(out, ",\"flow_in\":true");
  if (flow & FLOW_OUT) fp_bytes_text(out, ",\"flow_out\":true");
}

static void write_slice(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track, int64_t row) {
  write_head(out, drawn, track, row, true, drawn->start[row]);
  fp_bytes_text(out, ",\"dur\":");
  write_micros(out, drawn->duration[row] ? drawn->duration[row] : 1); /* without one it would not end */
  if (marks->flow[row]) write_flow(out, marks->flow[row]);
  fp_bytes_text(out, ",\"ph\":\"X\"");
  write_args(out, marks, row, true);
  write_end(out, marks, row);
}

/* Moves to the next row that is wanted; false where there is none. */
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

/* The beginning or end of a flight; the end of one that has both says no more than its group. */
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

void fp_write_flights(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track) {
  for (int64_t row = drawn->tracks[track]; row < drawn->tracks[track + 1]; row++) {
    if (!marks->visible[row]) continue;
    bool starts = marks->flow[row] & FLOW_OUT, ends = marks->flow[row] & FLOW_IN;
    write_flight(out, drawn, marks, track, row, starts ? BEGINNING : ends ? END : NEITHER, true);
    if (starts && ends) write_flight(out, drawn, marks, track, row, END, false);
  }
}

/* ---- values as texts */

static double double_of(const fp_named_values *values, int64_t at) {
  double value;
  if (values->real) return values->real[at];
  memcpy(&value, &values->value[at], sizeof value);
  return value;
}

/* As XProf tells it where all values are texts: doubles to six digits, no bytes. */
static void write_as_text(fp_bytes *out, const fp_named_values *values, int64_t at) {
  switch (values->kind[at]) {
    case FP_STR:
    case FP_REF:
      write_text(out, &values->texts, values->text[at]);
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

/* A value of a row, and where it stands among those of the same key. */
typedef struct fp_said {
  const fp_named_values *values;
  int64_t at;
  int32_t key;
  uint32_t turn;
} fp_said;

typedef struct fp_saying {
  fp_memory *memory;
  fp_said few[FEW];
  fp_vector many; /* fp_said, of rows with more */
  fp_said *items;
  size_t count;
  bool failed;
} fp_saying;

static int by_key(const void *one, const void *other) {
  const fp_said *a = one, *b = other;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->turn < b->turn ? -1 : a->turn > b->turn;
}

static void say(fp_saying *saying, const fp_named_values *values, int64_t at) {
  fp_said said = {values, at, values->key[at], (uint32_t)saying->count};
  if (saying->count < FEW) {
    saying->items[saying->count++] = said;
    return;
  }
  if (saying->items == saying->few) {
    saying->many.count = 0;
    if (!fp_vector_reserve(saying->memory, &saying->many, sizeof said, 2 * FEW)) saying->failed = true;
    else memcpy(saying->many.items, saying->few, sizeof saying->few), saying->many.count = FEW;
  }
  fp_said *item = saying->failed ? NULL : fp_vector_add(saying->memory, &saying->many, sizeof said);
  if (!item) {
    saying->failed = true;
    return;
  }
  *item = said;
  saying->items = saying->many.items;
  saying->count++;
}

static void say_all(fp_saying *saying, const fp_named_values *values, int64_t row) {
  if (!values->first) return;
  for (int64_t at = values->first[row]; at < values->first[row + 1]; at++)
    if (values->key[at] >= 0 && values->kind[at] != FP_NONE) say(saying, values, at);
}

static void sort_said(fp_saying *saying) {
  if (saying->count > FEW) {
    qsort(saying->items, saying->count, sizeof *saying->items, by_key);
    return;
  }
  for (size_t i = 1; i < saying->count; i++) {
    fp_said moved = saying->items[i];
    size_t at = i;
    for (; at && saying->items[at - 1].key > moved.key; at--) saying->items[at] = saying->items[at - 1];
    saying->items[at] = moved;
  }
}

static void write_said(fp_bytes *out, const fp_told *told, fp_saying *saying) {
  bool more = false;
  fp_bytes_text(out, "\"args\":{");
  for (size_t i = 0; i < saying->count; i++) {
    const fp_said *said = &saying->items[i];
    if (i + 1 < saying->count && saying->items[i + 1].key == said->key) continue;
    if (more) fp_bytes_byte(out, ',');
    more = true;
    write_text(out, &told->keys, said->key);
    fp_bytes_byte(out, ':');
    write_as_text(out, said->values, said->at);
  }
  fp_bytes_text(out, "},");
}

static void write_event(fp_bytes *out, const fp_drawn *drawn, const fp_told *told, fp_saying *saying, size_t track,
                        int64_t row) {
  saying->items = saying->few;
  saying->count = 0;
  if (told->meta[row] >= 0) say_all(saying, &told->of_meta, told->meta[row]);
  say_all(saying, &told->own, row);
  say_all(saying, &told->found, row);
  sort_said(saying);
  fp_bytes_byte(out, '{');
  if (saying->count) write_said(out, told, saying);
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

void fp_write_told(fp_bytes *out, const fp_drawn *drawn, const uint8_t *kept, const fp_told *told, size_t most,
                   fp_drawn_place *place) {
  fp_saying saying = {.memory = out->memory};
  while (out->size < most && !out->failed && !saying.failed && next_row(drawn, kept, place))
    write_event(out, drawn, told, &saying, place->track, place->row++);
  out->failed = out->failed || saying.failed;
  fp_vector_free(out->memory, &saying.many);
}

/* ---- counters */

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
