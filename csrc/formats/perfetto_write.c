/* The packets of a trace, in order:
 *
 *    our own keys, interned; clocks; the root track       fp_perfetto_begin
 *    a process                                            before the first of its tracks
 *    a track                                              before its first event, and for each further row
 *    interned names, keys, texts                          before the first event that uses them
 *    SLICE_BEGIN or INSTANT, with annotations and flows   an event
 *    SLICE_END                                            before the next event of the track that starts no earlier
 *    COUNTER                                              a value of a counter
 *
 * Annotations that hold only numbers have a length of one byte (put_short); other lengths are proto_write.h's. */
#include "formats/perfetto_write.h"

#include <stdio.h>

#include "formats/proto_write.h"
#include "time_sums.h"

/* Field numbers of perfetto/trace/trace_packet.proto and what it includes. */
enum {
  TRACE_PACKET = 1,
  PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11, PACKET_INTERNED = 12, PACKET_FLAGS = 13,
  PACKET_CLOCKS = 6, PACKET_TRACK = 60,
  EVENT_ANNOTATION = 4, EVENT_TYPE = 9, EVENT_NAME = 10, EVENT_TRACK = 11, EVENT_COUNTER = 30,
  EVENT_DOUBLE_COUNTER = 44, EVENT_FLOW = 47, EVENT_LAST_FLOW = 48,
  ANNOTATION_KEY = 1, ANNOTATION_UINT = 3, ANNOTATION_INT = 4, ANNOTATION_DOUBLE = 5, ANNOTATION_TEXT = 6,
  ANNOTATION_NAME = 10, ANNOTATION_INTERNED = 17,
  INTERNED_NAMES = 2, INTERNED_KEYS = 3, INTERNED_TEXTS = 29, INTERNED_IID = 1, INTERNED_TEXT = 2,
  TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_PARENT = 5, TRACK_COUNTER = 8, TRACK_CHILD_ORDER = 11,
  TRACK_RANK = 12, TRACK_MERGE = 15, TRACK_MERGE_KEY = 17, TRACK_PROCESS_ORDER = 19,
  PROCESS_PID = 1, PROCESS_NAME = 6, COUNTER_UNIT = 3,
  CLOCKS_CLOCK = 1, CLOCK_ID = 1, CLOCK_TIME = 2
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };
enum { STATE_CLEARED = 1, NEEDS_STATE = 2, SEQUENCE = 1 };
enum { EXPLICIT_ORDER = 3, EXPLICIT_PROCESSES = 1, MERGE_BY_KEY = 3, UNIT_BYTES = 3, REALTIME = 1, BOOTTIME = 6 };
enum { MOST_OF_TEXT = 1 << 20, MOST_OF_EVENT = 1 << 26, PS_IN_NS = 1000 };

/* A field of type string. A text longer than a megabyte is cut. */
static void put_text(fp_bytes *out, uint32_t field, fp_text text) {
  text = fp_text_cut(text, MOST_OF_TEXT);
  proto_put_varint(out, field << 3 | WIRE_LEN);
  proto_put_varint(out, text.length);
  fp_bytes_put(out, text.bytes, text.length);
}

static fp_text text_from(const char *text) {
  return (fp_text){(const uint8_t *)text, strlen(text)};
}

/* ---- interning ---- */

/* Numbers of texts depend on what the session was asked before; ids depend on the file alone, because they count from
 * 1 in the order of first use. */

/* Gives a number its id. False if it has one, or when memory runs out. */
static bool give_id(fp_perfetto *writer, fp_vector *ids, uint32_t *last, uint64_t number) {
  if (number >= ids->count) {
    size_t extra = (size_t)number + 1 - ids->count;
    if (!fp_vector_reserve(writer->out.memory, ids, sizeof(uint32_t), extra)) {
      writer->out.failed = true;
      return false;
    }
    memset((uint32_t *)ids->items + ids->count, 0, extra * sizeof(uint32_t));
    ids->count += extra;
  }
  uint32_t *id = (uint32_t *)ids->items + number;
  if (*id) return false;
  *id = ++*last;
  return true;
}

/* The id of a number that has one. */
static uint64_t id_of(const fp_vector *ids, uint64_t number) {
  return number < ids->count ? ((const uint32_t *)ids->items)[number] : 0;
}

/* An interned text. */
static void put_interned(fp_bytes *out, uint32_t field, uint64_t id, fp_text text) {
  text = fp_text_cut(text, MOST_OF_TEXT);
  proto_put_varint(out, field << 3 | WIRE_LEN);
  proto_put_varint(out, 1 + proto_varint_size(id) + 1 + proto_varint_size(text.length) + text.length);
  proto_put_number(out, INTERNED_IID, id);
  put_text(out, INTERNED_TEXT, text);
}

/* ---- tracks */

/* Uuids of processes are far above those of tracks, which count from 1. */
static uint64_t process_uuid(const fp_perfetto *writer, int64_t number) {
  return ((uint64_t)1 << 40) + (uint64_t)(writer->process_base + number);
}

/* Tracks with the same key are shown as one. */
static uint64_t merge_key(int32_t track) {
  return (uint64_t)track + 1;
}

/* Begins a packet of the only sequence. */
static size_t begin_packet(fp_perfetto *writer) {
  size_t packet = proto_begin(&writer->out, TRACE_PACKET);
  proto_put_number(&writer->out, PACKET_SEQUENCE, SEQUENCE);
  return packet;
}

/* Ranks are 32 bits wide. */
static uint64_t rank(int64_t sort) {
  int64_t most = INT32_MAX;
  return (uint64_t)(sort > most ? most : sort < -most ? -most : sort);
}

/* The time of day at time 0 of the trace. */
static void put_clocks(fp_perfetto *writer, uint64_t start_unix_ns) {
  fp_bytes *out = &writer->out;
  size_t packet = begin_packet(writer), clocks = proto_begin(out, PACKET_CLOCKS);
  for (int i = 0; i < 2; i++) {
    size_t clock = proto_begin(out, CLOCKS_CLOCK);
    proto_put_number(out, CLOCK_ID, i ? REALTIME : BOOTTIME);
    proto_put_number(out, CLOCK_TIME, i ? start_unix_ns : 0);
    proto_end(out, clock);
  }
  proto_end(out, clocks);
  proto_end(out, packet);
}

/* Describes a process, the first time that one of its tracks occurs. */
static void describe_process(fp_perfetto *writer, int64_t number) {
  fp_bytes *out = &writer->out;
  if (number < 0 || (size_t)number >= writer->process_count) return;
  fp_trace_track *process = writer->processes + number;
  if (process->described++) return;
  fp_text name = fp_text_of(&writer->titles, process->name);
  size_t packet = begin_packet(writer), track = proto_begin(out, PACKET_TRACK);
  proto_put_number(out, TRACK_UUID, process_uuid(writer, number));
  proto_put_number(out, TRACK_CHILD_ORDER, EXPLICIT_ORDER);
  proto_put_number(out, TRACK_RANK, rank(process->sort));
  size_t details = proto_begin(out, TRACK_PROCESS);
  proto_put_number(out, PROCESS_PID, (uint64_t)process->pid);
  put_text(out, PROCESS_NAME, name);
  proto_end(out, details);
  proto_end(out, track);
  proto_end(out, packet);
}

/* Describes a track, or one more row of a track with the same `key`, and returns its uuid. */
static uint64_t describe_track(fp_perfetto *writer, const fp_trace_track *of, uint64_t key, bool counts,
                               bool is_bytes) {
  fp_bytes *out = &writer->out;
  uint64_t uuid = ++writer->uuids;
  size_t packet = begin_packet(writer), track = proto_begin(out, PACKET_TRACK);
  proto_put_number(out, TRACK_UUID, uuid);
  proto_put_number(out, TRACK_PARENT, process_uuid(writer, of->process));
  put_text(out, TRACK_NAME, fp_text_of(&writer->titles, of->name));
  proto_put_number(out, TRACK_RANK, rank(of->sort));
  proto_put_number(out, TRACK_MERGE, MERGE_BY_KEY);
  proto_put_number(out, TRACK_MERGE_KEY, key);
  if (counts) {
    size_t counter = proto_begin(out, TRACK_COUNTER);
    if (is_bytes) proto_put_number(out, COUNTER_UNIT, UNIT_BYTES);
    proto_end(out, counter);
  }
  proto_end(out, track);
  proto_end(out, packet);
  return uuid;
}

/* Adds a row to the present track. */
static bool add_row(fp_perfetto *writer, int32_t track) {
  uint64_t *row = fp_vector_add(writer->out.memory, &writer->rows, sizeof *row);
  if (row) *row = describe_track(writer, writer->tracks + track, merge_key(track), false, false);
  return row != NULL;
}

/* ---- events */

static uint64_t nanoseconds(const fp_perfetto *writer, int64_t ps) {
  ps = fp_time_sum(ps, writer->shift_ps);
  return ps < 0 ? 0 : (uint64_t)ps / PS_IN_NS;
}

/* Begins a TrackEvent of a type on a track. */
static size_t begin_event(fp_perfetto *writer, uint64_t type, uint64_t uuid) {
  size_t event = proto_begin(&writer->out, PACKET_EVENT);
  proto_put_number(&writer->out, EVENT_TYPE, type);
  proto_put_number(&writer->out, EVENT_TRACK, uuid);
  return event;
}

/* Ends the slices that end by a time. */
static void end_slices(fp_perfetto *writer, int64_t until) {
  fp_bytes *out = &writer->out;
  int32_t row;
  int64_t at;
  while (fp_open_slices_end(&writer->open, until, &row, &at)) {
    size_t packet = begin_packet(writer);
    proto_put_number(out, PACKET_TIMESTAMP, nanoseconds(writer, at));
    proto_end(out, begin_event(writer, SLICE_END, ((const uint64_t *)writer->rows.items)[row]));
    proto_end(out, packet);
  }
}

fp_code fp_perfetto_end(fp_perfetto *writer) {
  end_slices(writer, INT64_MAX);
  fp_open_slices_clear(&writer->open);
  writer->line = 0;
  return !writer->out.failed ? FP_OK : FP_NO_MEMORY;
}

/* Begins a track: slices of the one before are ended first. */
static bool begin_line(fp_perfetto *writer, int32_t track) {
  if (fp_perfetto_end(writer) != FP_OK) return false;
  writer->line = track + 1;
  writer->rows.count = 0;
  describe_process(writer, writer->tracks[track].process);
  return add_row(writer, track);
}

/* ---- arguments */

/* Ids of our own keys, from 1; those of the batch's follow. */
enum { KEY_START, KEY_DURATION, KEY_LONG_NAME, KEY_LEFT_OUT, OWN_KEYS };
static const char *const KEYS[OWN_KEYS] = {"ts_ps", "dur_ps", "long_name", "stats left out"};

static uint64_t name_number(const fp_trace_batch *batch, int32_t name) {
  return (uint64_t)batch->name_base + (uint64_t)name;
}

/* The number of the batch's text in an argument if it is interned; -1 if it is written out: strings of events are, even
 * where another batch has the same. */
static int32_t interned_text(const fp_trace_batch *batch, const fp_trace_arg *arg) {
  uint8_t kind = arg->of->kind[arg->row];
  int32_t text = arg->of->text[arg->row];
  bool is_interned = kind == FP_A_REF || (kind == FP_A_STR && arg->of != &batch->stats);
  return is_interned && text >= 0 && (size_t)text < batch->lasting_texts ? text : -1;
}

/* Whether the name of an argument is interned: it has no number added, and other batches have it too. */
static bool is_interned_key(const fp_trace_batch *batch, const fp_trace_arg *arg) {
  return !arg->times && (size_t)arg->of->name[arg->row] < batch->lasting_texts;
}

/* A packet of interned data before an event. A new one is begun when it gets long. */
typedef struct interning {
  fp_perfetto *writer;
  size_t packet, data; /* where the packet and its data begin; 0: none is open */
} interning;

static void end_interning(interning *of) {
  if (!of->packet) return;
  proto_end(&of->writer->out, of->data);
  proto_end(&of->writer->out, of->packet);
  of->packet = 0;
}

/* Writes one interned text into the open packet. */
static void intern(interning *of, uint32_t field, uint64_t id, fp_text text) {
  fp_bytes *out = &of->writer->out;
  if (of->packet && out->size - of->packet > MOST_OF_TEXT) end_interning(of);
  if (!of->packet) {
    of->packet = begin_packet(of->writer);
    proto_put_number(out, PACKET_FLAGS, NEEDS_STATE);
    of->data = proto_begin(out, PACKET_INTERNED);
  }
  put_interned(out, field, id, text);
}

/* Interns what an event uses for the first time. */
static void intern_event(fp_perfetto *writer, const fp_trace_batch *batch) {
  int32_t name = writer->walk.name, long_name = writer->walk.long_name;
  const fp_trace_arg *args = writer->walk.args.items;
  interning of = {writer, 0, 0};
  if (name >= 0 && give_id(writer, &writer->names, &writer->last_name, name_number(batch, name)))
    intern(&of, INTERNED_NAMES, writer->last_name, fp_text_of(&batch->names, name));
  if (long_name >= 0 && give_id(writer, &writer->long_names, &writer->last_text, name_number(batch, long_name)))
    intern(&of, INTERNED_TEXTS, writer->last_text, fp_text_of(&batch->names, long_name));
  for (size_t i = 0; i < writer->walk.args.count; i++) {
    int32_t key = args[i].of->name[args[i].row], text = interned_text(batch, args + i);
    if (is_interned_key(batch, args + i) && give_id(writer, &writer->keys, &writer->last_key, (uint64_t)key))
      intern(&of, INTERNED_KEYS, OWN_KEYS + (uint64_t)writer->last_key, fp_text_of(&batch->texts, key));
    if (text >= 0 && give_id(writer, &writer->texts, &writer->last_text, (uint64_t)text))
      intern(&of, INTERNED_TEXTS, writer->last_text, fp_text_of(&batch->texts, text));
  }
  end_interning(&of);
}

/* An annotation of numbers only: its length fits one byte, which is written afterwards. */
static void put_short(fp_bytes *out, uint64_t key_id, uint32_t field, uint64_t value) {
  proto_put_varint(out, EVENT_ANNOTATION << 3 | WIRE_LEN);
  fp_bytes_byte(out, 0);
  size_t from = out->size;
  proto_put_number(out, ANNOTATION_KEY, key_id);
  if (field == ANNOTATION_DOUBLE) proto_put_fixed(out, field, value);
  else proto_put_number(out, field, value);
  if (!out->failed) out->data[from - 1] = (uint8_t)(out->size - from);
}

static uint64_t key_id(const fp_perfetto *writer, const fp_trace_arg *arg) {
  return OWN_KEYS + id_of(&writer->keys, (uint64_t)arg->of->name[arg->row]);
}

/* The key of an annotation: interned, or written out with the number that distinguishes equal names. */
static void put_key(fp_perfetto *writer, const fp_trace_batch *batch, const fp_trace_arg *arg) {
  fp_bytes *out = &writer->out;
  if (is_interned_key(batch, arg)) {
    proto_put_number(out, ANNOTATION_KEY, key_id(writer, arg));
    return;
  }
  char times[24];
  fp_text text = fp_text_cut(fp_text_of(&batch->texts, arg->of->name[arg->row]), MOST_OF_TEXT);
  int length = arg->times ? snprintf(times, sizeof times, " (%d)", arg->times + 1) : 0;
  proto_put_varint(out, ANNOTATION_NAME << 3 | WIRE_LEN);
  proto_put_varint(out, text.length + (size_t)length);
  fp_bytes_put(out, text.bytes, text.length);
  fp_bytes_put(out, times, (size_t)length);
}

/* The field for an argument's value if that is a number or an interned text, and the number or id; 0: it is a text to
 * write out. */
static uint32_t number_of(const fp_perfetto *writer, const fp_trace_batch *batch, const fp_trace_arg *arg, uint64_t *value) {
  const fp_trace_stats *of = arg->of;
  size_t row = arg->row;
  int32_t text = interned_text(batch, arg);
  uint8_t kind = of->kind[row];
  *value = (uint64_t)of->int_value[row];
  if (kind == FP_AN_INT) return ANNOTATION_INT;
  if (kind == FP_A_UINT || (kind == FP_A_REF && of->text[row] < 0)) return ANNOTATION_UINT;
  if (kind == FP_A_DOUBLE) {
    memcpy(value, of->double_value + row, sizeof *value);
    return ANNOTATION_DOUBLE;
  }
  *value = text < 0 ? 0 : id_of(&writer->texts, (uint64_t)text);
  return text < 0 ? 0 : ANNOTATION_INTERNED;
}

/* One argument. */
static void put_annotation(fp_perfetto *writer, const fp_trace_batch *batch, const fp_trace_arg *arg) {
  fp_bytes *out = &writer->out;
  uint64_t value;
  uint32_t field = number_of(writer, batch, arg, &value);
  if (field && is_interned_key(batch, arg)) {
    put_short(out, key_id(writer, arg), field, value);
    return;
  }
  size_t annotation = proto_begin(out, EVENT_ANNOTATION);
  put_key(writer, batch, arg);
  if (field == ANNOTATION_DOUBLE) proto_put_fixed(out, field, value);
  else if (field) proto_put_number(out, field, value);
  else if (arg->of->kind[arg->row] == FP_BYTES) put_text(out, ANNOTATION_TEXT, text_from("<opaque bytes>"));
  else put_text(out, ANNOTATION_TEXT, fp_text_of(&batch->texts, arg->of->text[arg->row]));
  proto_end(out, annotation);
}

/* All arguments of an event, up to a limit of its size, and its exact times if nanoseconds do not hold them. */
static void put_annotations(fp_perfetto *writer, const fp_trace_batch *batch, size_t event) {
  fp_bytes *out = &writer->out;
  const fp_trace_arg *args = writer->walk.args.items;
  int64_t start = batch->start_ps[event], duration = batch->duration_ps[event], left_out = writer->walk.left_out;
  int32_t long_name = writer->walk.long_name;
  size_t from = out->size;
  if (long_name >= 0)
    put_short(out, 1 + KEY_LONG_NAME, ANNOTATION_INTERNED, id_of(&writer->long_names, name_number(batch, long_name)));
  for (size_t i = 0; i < writer->walk.args.count; i++) {
    if (out->size - from > MOST_OF_EVENT) {
      left_out += (int64_t)(writer->walk.args.count - i);
      break;
    }
    put_annotation(writer, batch, args + i);
  }
  if (left_out) put_short(out, 1 + KEY_LEFT_OUT, ANNOTATION_INT, (uint64_t)left_out);
  bool is_whole = start % PS_IN_NS == 0 && start >= -writer->shift_ps;
  if (!is_whole || duration % PS_IN_NS || duration < 0) {
    put_short(out, 1 + KEY_START, ANNOTATION_INT, (uint64_t)fp_time_sum(start, writer->shift_ps));
    put_short(out, 1 + KEY_DURATION, ANNOTATION_INT, (uint64_t)duration);
  }
}

/* ---- the packet of an event */

/* Ends earlier slices and returns the row of the event; an instant goes to the first. -1 when memory runs out. */
static int32_t place(fp_perfetto *writer, int32_t track, int64_t start, int64_t duration) {
  end_slices(writer, start);
  if (duration <= 0) return 0;
  int32_t row = fp_open_slices_add(&writer->open, fp_time_sum(start, duration));
  if (row >= 0 && (size_t)row == writer->rows.count && !add_row(writer, track)) return -1;
  return row;
}

/* Three steps: earlier slices end, what the event uses is interned, and the event's own packet. */
static bool put_event(fp_perfetto *writer, const fp_trace_batch *batch, size_t at) {
  fp_bytes *out = &writer->out;
  int64_t start = batch->start_ps[at], duration = batch->duration_ps[at];
  int32_t row = place(writer, batch->track[at], start, duration);
  if (row < 0 || !fp_trace_walk_to(&writer->walk, batch, at)) return false;
  int32_t name = writer->walk.name;
  intern_event(writer, batch);
  size_t packet = begin_packet(writer), flow;
  proto_put_number(out, PACKET_TIMESTAMP, nanoseconds(writer, start));
  proto_put_number(out, PACKET_FLAGS, NEEDS_STATE);
  size_t event = begin_event(writer, duration > 0 ? SLICE_BEGIN : INSTANT, ((const uint64_t *)writer->rows.items)[row]);
  if (name >= 0) proto_put_number(out, EVENT_NAME, id_of(&writer->names, name_number(batch, name)));
  put_annotations(writer, batch, at);
  while (fp_trace_walk_flow(&writer->walk, batch, at, &flow))
    proto_put_fixed(out, batch->flow_out[flow] ? EVENT_FLOW : EVENT_LAST_FLOW, (uint64_t)batch->flow_id[flow]);
  proto_end(out, event);
  proto_end(out, packet);
  return !out->failed;
}

fp_code fp_perfetto_events(fp_perfetto *writer, const fp_trace_batch *batch) {
  fp_trace_walk_begin(&writer->walk);
  for (size_t event = 0; event < batch->count; event++) {
    int32_t track = batch->track[event];
    if (track < 0 || (size_t)track >= writer->track_count) continue;
    if (track + 1 != writer->line && !begin_line(writer, track)) return FP_NO_MEMORY;
    if (!put_event(writer, batch, event)) return FP_NO_MEMORY;
  }
  return !writer->out.failed ? FP_OK : FP_NO_MEMORY;
}

/* Each counter has a track of its own. */
fp_code fp_perfetto_counter(fp_perfetto *writer, size_t track, const int64_t *times, const int64_t *integers,
                         const double *doubles, size_t count, bool is_bytes) {
  fp_bytes *out = &writer->out;
  if (track >= writer->track_count) return FP_OK;
  describe_process(writer, writer->tracks[track].process);
  uint64_t uuid = describe_track(writer, writer->tracks + track, merge_key((int32_t)track), true, is_bytes);
  for (size_t i = 0; i < count; i++) {
    size_t packet = begin_packet(writer);
    proto_put_number(out, PACKET_TIMESTAMP, nanoseconds(writer, times[i]));
    size_t event = begin_event(writer, COUNTER, uuid);
    if (doubles) proto_put_double(out, EVENT_DOUBLE_COUNTER, doubles[i]);
    else proto_put_number(out, EVENT_COUNTER, (uint64_t)integers[i]);
    proto_end(out, event);
    proto_end(out, packet);
  }
  return !out->failed ? FP_OK : FP_NO_MEMORY;
}

fp_code fp_perfetto_begin(fp_perfetto *writer, uint64_t start_unix_ns) {
  fp_bytes *out = &writer->out;
  size_t packet = begin_packet(writer);
  proto_put_number(out, PACKET_FLAGS, STATE_CLEARED);
  size_t interned = proto_begin(out, PACKET_INTERNED);
  for (uint64_t key = 0; key < OWN_KEYS; key++) put_interned(out, INTERNED_KEYS, 1 + key, text_from(KEYS[key]));
  proto_end(out, interned);
  proto_end(out, packet);
  if (start_unix_ns) put_clocks(writer, start_unix_ns);
  packet = begin_packet(writer);
  size_t root = proto_begin(out, PACKET_TRACK);
  proto_put_number(out, TRACK_UUID, 0);
  proto_put_number(out, TRACK_PROCESS_ORDER, EXPLICIT_PROCESSES);
  proto_end(out, root);
  proto_end(out, packet);
  return !out->failed ? FP_OK : FP_NO_MEMORY;
}

void fp_perfetto_free(fp_perfetto *writer) {
  fp_vector_free(writer->out.memory, &writer->rows);
  fp_bytes_free(&writer->out);
  fp_vector_free(writer->out.memory, &writer->names);
  fp_vector_free(writer->out.memory, &writer->long_names);
  fp_vector_free(writer->out.memory, &writer->keys);
  fp_vector_free(writer->out.memory, &writer->texts);
  fp_trace_walk_free(&writer->walk);
  fp_open_slices_free(&writer->open);
}
