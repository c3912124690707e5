/* Lines of a file, for one event and one arrow:
 *
 *    {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"XLA Ops"}},
 *    {"ph":"X","pid":1,"tid":2,"ts":1.5,"dur":0.25,"name":"fusion","args":{"flops":8}},
 *    {"ph":"s","pid":1,"tid":2,"ts":1.5,"name":"launch","cat":"flow","id":7},
 *
 * The format has no nesting other than by time, so overlapping events of a track are spread over rows
 * (open_slices.h), and each row is a thread in the file. Readers take times as microseconds in doubles and round
 * them in their own ways; rows are chosen so that slices nest for all of them (see docs/trace.md). */
#include "formats/trace_json.h"

#include "time_sums.h"

enum { MOST_OF_SHARED_TEXT = 10000, FIXED_ROOM = 512 }; /* bytes: of a text that events repeat; of an event's rest */
static const int64_t TIDS = INT64_C(1) << 32, PS_IN_US = 1000000, PS_IN_NS = 1000;

/* A text that many events may repeat: a long one is cut. */
static void put_shared_text(fp_bytes *out, fp_text text) {
  fp_json_cut_text(out, text.bytes, text.length, MOST_OF_SHARED_TEXT);
}

/* {"ph":"X","pid":1,"tid":2 */
static void begin_object(fp_bytes *out, const char *phase, int64_t pid, int64_t tid) {
  fp_bytes_text(out, "{\"ph\":\"");
  fp_bytes_text(out, phase);
  fp_bytes_text(out, "\",\"pid\":");
  fp_json_int(out, pid);
  if (tid < 0) return;
  fp_bytes_text(out, ",\"tid\":");
  fp_json_int(out, tid);
}

static void put_time(fp_bytes *out, const char *key, int64_t ps) {
  fp_bytes_text(out, key);
  fp_json_micros(out, ps);
}

/* An object that names a process or thread; rows behind the first add their number. */
static void put_metadata(fp_bytes *out, const char *key, int64_t pid, int64_t tid, fp_text name, int64_t row) {
  begin_object(out, "M", pid, tid);
  fp_bytes_text(out, ",\"name\":\"");
  fp_bytes_text(out, key);
  fp_bytes_text(out, "\",\"args\":{\"name\":\"");
  fp_json_escaped(out, name.bytes, name.length);
  if (row) {
    fp_bytes_text(out, " (");
    fp_json_int(out, row + 1);
    fp_bytes_byte(out, ')');
  }
  fp_bytes_text(out, "\"}},\n");
}

/* An object that gives a process or thread its rank. */
static void put_sort_index(fp_bytes *out, const char *key, int64_t pid, int64_t tid, int64_t sort) {
  begin_object(out, "M", pid, tid);
  fp_bytes_text(out, ",\"name\":\"");
  fp_bytes_text(out, key);
  fp_bytes_text(out, "\",\"args\":{\"sort_index\":");
  fp_json_int(out, sort);
  fp_bytes_text(out, "}},\n");
}

/* Names a process, the first time that one of its tracks occurs. */
static void describe_process(fp_trace_json *writer, int64_t number) {
  if (number < 0 || (size_t)number >= writer->process_count) return;
  fp_trace_track *process = writer->processes + number;
  if (process->described++) return;
  put_metadata(&writer->out, "process_name", process->pid, -1, fp_text_of(&writer->titles, process->name), 0);
  put_sort_index(&writer->out, "process_sort_index", process->pid, -1, process->sort);
}

/* Names a row of a track. */
static void describe_row(fp_trace_json *writer, const fp_trace_track *track, int64_t tid, int64_t row) {
  put_metadata(&writer->out, "thread_name", track->pid, tid, fp_text_of(&writer->titles, track->name), row);
  put_sort_index(&writer->out, "thread_sort_index", track->pid, tid, track->sort);
}

/* Adds a row to the present track, with an id that no track has. */
static bool add_row(fp_trace_json *writer, const fp_trace_track *track) {
  int64_t row = (int64_t)writer->row_tids.count;
  int64_t *tid = fp_vector_add(writer->out.memory, &writer->row_tids, sizeof *tid);
  if (!tid) return false;
  if (row && writer->spare_tid == writer->spare_end) {
    writer->spare_tid = TIDS;
    writer->spare_end = INT64_MAX;
  }
  *tid = row ? writer->spare_tid++ : track->tid;
  describe_row(writer, track, *tid, row);
  return true;
}

/* Begins a track: no slice of another one is open in it. */
static bool begin_line(fp_trace_json *writer, int32_t number) {
  fp_trace_track *track = writer->tracks + number;
  writer->line = number + 1;
  writer->row_tids.count = 0;
  fp_open_slices_clear(&writer->open);
  describe_process(writer, track->process);
  return add_row(writer, track);
}

/* The value of an argument. Texts that events share are cut, an event's own are complete. */
static void put_value(fp_bytes *out, const fp_trace_batch *batch, const fp_trace_arg *arg) {
  const fp_trace_stats *of = arg->of;
  size_t row = arg->row;
  int32_t text = of->text[row];
  switch (of->kind[row]) {
    case FP_AN_INT:
      fp_json_exact_int(out, of->int_value[row]);
      return;
    case FP_A_UINT:
      fp_json_exact_uint(out, (uint64_t)of->int_value[row]);
      return;
    case FP_A_DOUBLE:
      fp_json_double(out, of->double_value[row]);
      return;
    case FP_A_STR:
    case FP_A_REF:
      if (text < 0) fp_json_exact_uint(out, (uint64_t)of->int_value[row]);
      else if ((size_t)text < batch->lasting_texts || of == &batch->shared)
        put_shared_text(out, fp_text_of(&batch->texts, text));
      else {
        fp_text own = fp_text_of(&batch->texts, text);
        fp_json_text(out, own.bytes, own.length);
      }
      return;
    default:
      fp_bytes_text(out, "\"<opaque bytes>\"");
  }
}

/* An argument; one whose name occurred before gets a number. */
static void put_arg(fp_bytes *out, const fp_trace_batch *batch, const fp_trace_arg *arg) {
  fp_text name = fp_text_cut(fp_text_of(&batch->texts, arg->of->name[arg->row]), MOST_OF_SHARED_TEXT);
  fp_bytes_byte(out, '"');
  fp_json_escaped(out, name.bytes, name.length);
  if (arg->times) {
    fp_bytes_text(out, " (");
    fp_json_int(out, arg->times + 1);
    fp_bytes_byte(out, ')');
  }
  fp_bytes_text(out, "\":");
  put_value(out, batch, arg);
}

/* Writes ,"args":{…} if there are any arguments. `before` is what precedes the next one. */
static void put_args(fp_trace_json *writer, const fp_trace_batch *batch, size_t event) {
  fp_bytes *out = &writer->out;
  const fp_trace_arg *args = writer->walk.args.items;
  int32_t long_name = writer->walk.long_name;
  int64_t duration = batch->duration_ps[event];
  const char *before = ",\"args\":{";
  if (long_name >= 0) {
    fp_bytes_text(out, before);
    fp_bytes_text(out, "\"long_name\":");
    put_shared_text(out, fp_text_of(&batch->names, long_name));
    before = ",";
  }
  for (size_t i = 0; i < writer->walk.args.count; i++, before = ",") {
    fp_bytes_text(out, before);
    put_arg(out, batch, args + i);
  }
  if (duration < 0) {
    fp_bytes_text(out, before);
    fp_bytes_text(out, "\"duration_ps\":");
    fp_json_exact_int(out, duration);
    before = ",";
  }
  if (writer->walk.left_out) {
    fp_bytes_text(out, before);
    fp_bytes_text(out, "\"stats left out\":");
    fp_json_int(out, writer->walk.left_out);
    before = ",";
  }
  if (!before[1]) fp_bytes_byte(out, '}'); /* `before` is a comma: something was written */
}

/* An arrow is two objects with the same id, each at one of its events. */
static void put_flows(fp_trace_json *writer, const fp_trace_batch *batch, size_t event, int64_t pid, int64_t tid) {
  fp_bytes *out = &writer->out;
  size_t flow;
  while (fp_trace_walk_flow(&writer->walk, batch, event, &flow)) {
    begin_object(out, batch->flow_out[flow] ? "s" : "f", pid, tid);
    put_time(out, ",\"ts\":", fp_time_sum(batch->start_ps[event], writer->shift_ps));
    fp_bytes_text(out, ",\"name\":");
    put_shared_text(out, fp_text_of(&batch->names, batch->flow_kind[flow]));
    fp_bytes_text(out, ",\"cat\":\"flow\",\"id\":");
    fp_json_int(out, batch->flow_id[flow]);
    fp_bytes_text(out, batch->flow_out[flow] ? "},\n" : ",\"bp\":\"e\"},\n");
  }
}

/* How a reader turns the microseconds of JSON into nanoseconds: in doubles, rounded or cut off; see docs/trace.md. */
typedef int64_t in_ns(int64_t ps);

static double ns_of(int64_t ps) {
  return ((double)(ps / PS_IN_US) + (double)(ps % PS_IN_US) / (double)PS_IN_US) * 1000.0;
}

static int64_t cut(int64_t ps) { return (int64_t)ns_of(ps); }

static int64_t rounded(int64_t ps) {
  double ns = ns_of(ps), rest = ns - (double)(int64_t)ns;
  return (int64_t)ns + (rest >= 0.5) - (rest <= -0.5);
}

static int64_t in_ps(int64_t ns) {
  int64_t ps;
  return __builtin_mul_overflow(ns, PS_IN_NS, &ps) ? (ns < 0 ? INT64_MIN : INT64_MAX) : ps;
}

/* The first start, or one soon after it, that a reader counts as `ns` nanoseconds or more. Rounding in doubles has no
 * exact inverse, so it is found by steps that double. */
static int64_t reached(in_ns *counted, int64_t ns) {
  int64_t at = fp_time_sum(in_ps(ns), counted == rounded ? -PS_IN_NS / 2 : 0);
  for (int64_t step = 1; at < INT64_MAX && counted(at) < ns; step *= 2) at = fp_time_sum(at, step);
  return at;
}

/* Where a slice ends for each reader: one adds picoseconds; the others round start and duration separately, so for
 * them its end may differ from where the next slice starts. */
static fp_slice_end slice_end(int64_t start, int64_t duration) {
  static in_ns *const counted[FP_READERS - 1] = {rounded, cut};
  int64_t exact = fp_time_sum(start, duration);
  fp_slice_end end = {exact, {exact}};
  for (int i = 1; i < FP_READERS; i++) {
    int64_t ns = counted[i - 1](start) + counted[i - 1](duration), over = reached(counted[i - 1], ns);
    end.ends[i] = in_ps(ns);
    if (over > end.over) end.over = over;
  }
  return end;
}

/* The row of an event; an instant goes to the first. -1 when memory runs out. */
static int32_t place(fp_trace_json *writer, const fp_trace_track *track, int64_t start, int64_t duration) {
  int32_t row;
  int64_t over;
  if (duration <= 0) return 0;
  start = fp_time_sum(start, writer->shift_ps);
  while (fp_open_slices_end(&writer->open, start, &row, &over)) continue;
  fp_slice_end end = slice_end(start, duration);
  row = fp_open_slices_add_for_all(&writer->open, &end);
  if (row >= 0 && (size_t)row == writer->row_tids.count && !add_row(writer, track)) return -1;
  return row;
}

/* Writes an event, with room reserved for its fixed part, and its arrows. */
static bool put_event(fp_trace_json *writer, const fp_trace_batch *batch, size_t event) {
  const fp_trace_track *track = writer->tracks + batch->track[event];
  fp_bytes *out = &writer->out;
  int64_t start = batch->start_ps[event], duration = batch->duration_ps[event];
  int32_t row = place(writer, track, start, duration);
  if (row < 0 || !fp_trace_walk_to(&writer->walk, batch, event) || !fp_bytes_room(out, FIXED_ROOM)) return false;
  int64_t tid = ((const int64_t *)writer->row_tids.items)[row];
  begin_object(out, duration > 0 ? "X" : "i", track->pid, tid);
  put_time(out, ",\"ts\":", fp_time_sum(start, writer->shift_ps));
  if (duration > 0) put_time(out, ",\"dur\":", duration);
  else fp_bytes_text(out, ",\"s\":\"t\"");
  fp_bytes_text(out, ",\"name\":");
  put_shared_text(out, fp_text_of(&batch->names, writer->walk.name));
  put_args(writer, batch, event);
  fp_bytes_text(out, "},\n");
  put_flows(writer, batch, event, track->pid, tid);
  return !out->failed;
}

void fp_trace_json_host(fp_trace_json *writer) {
  writer->line = 0;
}

fp_code fp_trace_json_events(fp_trace_json *writer, const fp_trace_batch *batch) {
  fp_trace_walk_begin(&writer->walk);
  for (size_t event = 0; event < batch->count; event++) {
    int32_t track = batch->track[event];
    if (track < 0 || (size_t)track >= writer->track_count) continue;
    if (track + 1 != writer->line && !begin_line(writer, track)) return FP_NO_MEMORY;
    if (!put_event(writer, batch, event)) return FP_NO_MEMORY;
  }
  return !writer->out.failed ? FP_OK : FP_NO_MEMORY;
}

/* Counters belong to a process, not to a thread. */
fp_code fp_trace_json_counter(fp_trace_json *writer, size_t track, const int64_t *times, const int64_t *integers,
                           const double *doubles, size_t count) {
  fp_bytes *out = &writer->out;
  if (track >= writer->track_count) return FP_OK;
  const fp_trace_track *of = writer->tracks + track;
  fp_text name = fp_text_of(&writer->titles, of->name);
  describe_process(writer, of->process);
  for (size_t i = 0; i < count; i++) {
    begin_object(out, "C", of->pid, -1);
    put_time(out, ",\"ts\":", fp_time_sum(times[i], writer->shift_ps));
    fp_bytes_text(out, ",\"name\":");
    put_shared_text(out, name);
    fp_bytes_text(out, ",\"args\":{\"value\":");
    if (doubles) fp_json_double(out, doubles[i]);
    else fp_json_int(out, integers[i]);
    fp_bytes_text(out, "}},\n");
  }
  return !out->failed ? FP_OK : FP_NO_MEMORY;
}

void fp_trace_json_free(fp_trace_json *writer) {
  fp_vector_free(writer->out.memory, &writer->row_tids);
  fp_bytes_free(&writer->out);
  fp_trace_walk_free(&writer->walk);
  fp_open_slices_free(&writer->open);
}
