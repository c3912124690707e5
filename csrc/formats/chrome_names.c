/* Processes and threads as events and M events name them, and what becomes of them: planes and lines.
 *
 *    M process_name pid 7 "python"      process 7  ->  plane "python"
 *    X pid 7 tid 9                      thread (7, 9)  ->  line 9 of the plane, named by thread_name
 */
#include "formats/chrome_stats.h"
#include "formats/proto_write.h"

#include <stdio.h>

enum { ORDER_OF_OTHERS = 1 << 20, ORDER_OF_OVERHEAD = 1 << 22, ORDER_OF_PROFILER };
enum { FIRST_DERIVED = 20, MOST_DERIVED = 368, MOST_REPEATED = 64 };
static const int64_t DERIVED = INT64_C(0xDEADBEEF); /* XProf's range of ids of lines that are made of others */

int32_t chrome_process_of(fp_chrome *chrome, chrome_id pid) {
  const fp_key key = {{(uint64_t)pid.kind, pid.bits, 0, 0}};
  chrome_usual_process *usual = &chrome->usual_processes[pid.bits % CHROME_USUAL];
  if (usual->process && usual->pid.kind == pid.kind && usual->pid.bits == pid.bits) return usual->process - 1;
  int32_t number = fp_key_map_add(&chrome->process_keys, &key);
  if (number >= 0 && (size_t)number == chrome->processes.count) {
    chrome_process *process = fp_vector_add(chrome->memory, &chrome->processes, sizeof *process);
    if (process) *process = (chrome_process){.pid = pid, .name = -1, .plane = -1, .label = -1, .stats.memory = chrome->memory};
  }
  if (number < 0 || (size_t)number >= chrome->processes.count) {
    chrome->failed = true;
    return -1;
  }
  *usual = (chrome_usual_process){pid, number + 1};
  return number;
}

int32_t chrome_thread_of(fp_chrome *chrome, chrome_id pid, chrome_id tid, bool add) {
  const fp_key key = {{(uint64_t)pid.kind, pid.bits, (uint64_t)tid.kind, tid.bits}};
  if (!add) return fp_key_map_find(&chrome->thread_keys, &key);
  int32_t number = fp_key_map_add(&chrome->thread_keys, &key);
  if (number >= 0 && (size_t)number == chrome->threads.count) {
    chrome_thread *thread = fp_vector_add(chrome->memory, &chrome->threads, sizeof *thread);
    if (thread) *thread = (chrome_thread){-1, 0};
  }
  if (number < 0 || (size_t)number >= chrome->threads.count) {
    chrome->failed = true;
    return -1;
  }
  return number;
}

int32_t chrome_device_plane(fp_chrome *chrome, int64_t ordinal) {
  char name[64];
  if (chrome->last_device_plane >= 0 && chrome->last_device == ordinal) return chrome->last_device_plane;
  snprintf(name, sizeof name, "/device:GPU:%lld", (long long)ordinal);
  int64_t order = ordinal >= 0 && ordinal < ORDER_OF_OTHERS ? ordinal + 1 : ORDER_OF_OTHERS;
  int32_t number = chrome_plane_named(chrome, name, order);
  if (number < 0) return number;
  chrome_plane *plane = (chrome_plane *)chrome->planes.items + number;
  plane->is_device = true;
  plane->ordinal = chrome->last_device = ordinal;
  chrome->last_device_plane = number;
  return number;
}

/* A new plane. */
static int32_t added_plane(fp_chrome *chrome, int32_t process, int32_t name, int64_t order) {
  chrome_plane *plane = fp_vector_add(chrome->memory, &chrome->planes, sizeof *plane);
  if (!plane) {
    chrome->failed = true;
    return -1;
  }
  *plane = (chrome_plane){.process = process, .name = name, .order = order, .model = -1};
  plane->stats.memory = chrome->memory;
  return (int32_t)chrome->planes.count - 1;
}

static bool is_name(const uint8_t *text, size_t length, const char *name) {
  return length == strlen(name) && !memcmp(text, name, length);
}

/* Kineto: the plane of what a process does, but for the work of devices. All of its host processes are one. */
static int32_t kineto_plane(fp_chrome *chrome, chrome_id pid) {
  size_t length = 0;
  const uint8_t *text = pid.kind == CHROME_TEXT_ID ? chrome_string(&chrome->texts, (int32_t)pid.bits, &length) : NULL;
  if (text && length > 13 && length < 20 && !memcmp(text, "GPU ", 4) && !memcmp(text + length - 9, " Counters", 9)) {
    int64_t ordinal = 0;
    for (size_t i = 4; i < length - 9; i++) ordinal = ordinal * 10 + (text[i] - '0');
    return chrome_device_plane(chrome, ordinal);
  }
  if (text && (!length || is_name(text, length, "Spans") || is_name(text, length, "Traces")))
    return chrome_plane_named(chrome, "/host:profiler", ORDER_OF_PROFILER);
  if (pid.kind == CHROME_INT_ID && (int64_t)pid.bits == -1) return chrome_plane_named(chrome, "/host:overhead", ORDER_OF_OVERHEAD);
  return chrome_plane_named(chrome, "/host:CPU", 0);
}

int64_t chrome_tf1_gpu(const uint8_t *text, size_t length, size_t *stream) {
  static const char lane[] = "/stream:", end[] = " Compute";
  int64_t ordinal = 0;
  size_t from, digits;
  if (length < sizeof end - 1 || memcmp(text + length - (sizeof end - 1), end, sizeof end - 1)) return -1;
  from = length -= sizeof end - 1;
  while (from && text[from - 1] >= '0' && text[from - 1] <= '9') from--;
  if (from == length || from < sizeof lane - 1 || memcmp(text + from - (sizeof lane - 1), lane, sizeof lane - 1)) return -1;
  *stream = from;
  digits = from -= sizeof lane - 1;
  while (from && text[from - 1] >= '0' && text[from - 1] <= '9') from--;
  if (from == digits || digits - from > 9 || from < 4 || (memcmp(text + from - 4, "GPU:", 4) && memcmp(text + from - 4, "gpu:", 4))) return -1;
  for (; from < digits; from++) ordinal = ordinal * 10 + (text[from] - '0');
  return ordinal;
}

/* TF1: the plane of the GPU whose stream a process is; else -1. */
static int32_t tf1_plane(fp_chrome *chrome, const chrome_process *process) {
  size_t length, stream;
  if (chrome->dialect != CHROME_TF1 || process->name < 0) return -1;
  const uint8_t *text = chrome_string(&chrome->texts, process->name, &length);
  int64_t ordinal = chrome_tf1_gpu(text, length, &stream);
  return ordinal < 0 ? -1 : chrome_device_plane(chrome, ordinal);
}

int32_t chrome_plane_of_process(fp_chrome *chrome, int32_t process) {
  if (process < 0) return -1;
  chrome_process *found = (chrome_process *)chrome->processes.items + process;
  if (chrome->dialect == CHROME_KINETO) {
    if (found->plane < 0) {
      int32_t plane = kineto_plane(chrome, found->pid);
      found = (chrome_process *)chrome->processes.items + process;
      found->plane = plane;
    }
    return found->plane;
  }
  if (found->plane < 0) {
    int32_t plane = tf1_plane(chrome, found);
    if (plane < 0) plane = added_plane(chrome, process, -1, 0);
    found = (chrome_process *)chrome->processes.items + process;
    found->plane = plane;
  }
  return found->plane;
}

int32_t chrome_plane_named(fp_chrome *chrome, const char *name, int64_t order) {
  int32_t text = fp_strings_add(&chrome->texts, (const uint8_t *)name, strlen(name));
  const fp_key key = {{(uint64_t)(uint32_t)text, 0, 0, 0}};
  int32_t number = text < 0 ? -1 : fp_key_map_add(&chrome->plane_keys, &key);
  if (number >= 0 && (size_t)number == chrome->named_planes.count) {
    int32_t plane = added_plane(chrome, -1, text, order), *added = plane < 0 ? NULL : fp_vector_add(chrome->memory, &chrome->named_planes, sizeof *added);
    if (added) *added = plane;
  }
  if (number >= 0 && (size_t)number < chrome->named_planes.count) return ((const int32_t *)chrome->named_planes.items)[number];
  chrome->failed = true;
  return -1;
}

/* What a line is found by: threads by their process, too, others by their name. */
static fp_key line_key(int32_t plane, int32_t process, chrome_role role, chrome_id tid, int32_t name) {
  uint64_t owner = role == CHROME_THREAD ? (uint64_t)(uint32_t)process : UINT64_C(1) << 40 | (uint64_t)(uint32_t)name;
  return (fp_key){{(uint64_t)(uint32_t)plane << 32 | (uint64_t)role, (uint64_t)tid.kind, tid.bits, owner}};
}

int32_t chrome_find_line(const fp_chrome *chrome, int32_t plane, chrome_role role, chrome_id tid) {
  const fp_key key = line_key(plane, -1, role, tid, -1);
  return fp_key_map_find(&chrome->line_keys, &key);
}

int32_t chrome_line_of(fp_chrome *chrome, int32_t plane, int32_t process, chrome_role role, chrome_id tid, int32_t name) {
  const fp_key key = line_key(plane, process, role, tid, name);
  if (plane < 0) return -1;
  chrome_usual_line *usual = &chrome->usual_lines[(tid.bits + (uint32_t)plane) % CHROME_USUAL];
  if (usual->line && !memcmp(&key, &usual->key, sizeof key)) return usual->line - 1;
  int32_t number = fp_key_map_add(&chrome->line_keys, &key);
  if (number >= 0 && (size_t)number == chrome->lines.count) {
    chrome_line *line = fp_vector_add(chrome->memory, &chrome->lines, sizeof *line);
    if (line) {
      *line = (chrome_line){.plane = plane, .process = process, .name = name, .role = role, .tid = tid};
      line->latest_ns = INT64_MIN;
    }
  }
  if (number < 0 || (size_t)number >= chrome->lines.count) {
    chrome->failed = true;
    return -1;
  }
  *usual = (chrome_usual_line){key, number + 1};
  return number;
}

int32_t chrome_named_line(fp_chrome *chrome, int32_t process, chrome_role role, const char *before, const uint8_t *rest,
                          size_t length) {
  const chrome_id none = {CHROME_NO_ID, 0};
  fp_bytes name = {.memory = chrome->memory};
  if (process < 0) return -1;
  fp_bytes_text(&name, before);
  fp_bytes_put(&name, rest, length);
  int32_t text = name.failed ? -1 : fp_strings_add(&chrome->texts, name.data, name.size);
  fp_bytes_free(&name);
  if (text < 0) {
    chrome->failed = true;
    return -1;
  }
  return chrome_line_of(chrome, chrome_plane_of_process(chrome, process), process, role, none, text);
}

int32_t chrome_metadata_of(fp_chrome *chrome, int32_t plane, int32_t name, int32_t cat) {
  while ((size_t)name >= chrome->last_metadatas.count) {
    chrome_last_metadata *fresh = fp_vector_add(chrome->memory, &chrome->last_metadatas, sizeof *fresh);
    if (!fresh) {
      chrome->failed = true;
      return -1;
    }
    fresh->plane = -1;
  }
  chrome_last_metadata *last = (chrome_last_metadata *)chrome->last_metadatas.items + name;
  if (last->plane == plane && last->cat == cat) return last->id;
  const fp_key key = {{(uint64_t)(uint32_t)plane, (uint64_t)(uint32_t)name, (uint64_t)(uint32_t)cat, 0}};
  int32_t number = fp_key_map_add(&chrome->metadata_keys, &key);
  if (number >= 0 && (size_t)number == chrome->metadatas.count) {
    chrome_metadata *fresh = fp_vector_add(chrome->memory, &chrome->metadatas, sizeof *fresh);
    chrome_plane *owner = (chrome_plane *)chrome->planes.items + plane;
    if (fresh) *fresh = (chrome_metadata){plane, name, cat, ++owner->metadata_count};
  }
  if (number < 0 || (size_t)number >= chrome->metadatas.count) {
    chrome->failed = true;
    return -1;
  }
  *last = (chrome_last_metadata){plane, cat, ((chrome_metadata *)chrome->metadatas.items)[number].id};
  return last->id;
}

/* ---- M events ---- */

/* The stat of an argument of a process-wide event: NAME, or NAME.KEY, whose NAME is cut, as many may have it. */
static int32_t process_stat(fp_chrome *chrome, const chrome_event *event, const fp_json_value *key, bool is_only) {
  static const char *const plain[] = {"name", "labels", "value", "sort_index", "number", "uptime"};
  size_t length, key_length = key->to - key->from;
  const uint8_t *name = chrome_string(&chrome->names, event->name, &length), *text = event->view->text + key->from;
  bool is_plain = false;
  for (size_t i = 0; is_only && i < sizeof plain / sizeof *plain; i++)
    is_plain |= strlen(plain[i]) == key_length && !memcmp(plain[i], text, key_length);
  fp_bytes full = {.memory = chrome->memory};
  fp_bytes_put(&full, name, is_plain ? length : chrome_cut(name, length, MOST_REPEATED));
  if (!is_plain) {
    fp_bytes_byte(&full, '.');
    text = chrome_text(chrome, event->view, key, &key_length);
    fp_bytes_put(&full, text, key_length);
  }
  fp_bytes_byte(&full, 0);
  int32_t number = full.failed ? -1 : chrome_stat_number(chrome, (const char *)full.data);
  if (number < 0) chrome->failed = true;
  fp_bytes_free(&full);
  return number;
}

/* The args of a process-wide event as stats of its plane. */
static bool put_process_stats(fp_chrome *chrome, const chrome_event *event, int32_t number, uint32_t *at) {
  const fp_json_value *args = &event->fields[FIELD_ARGS];
  fp_json_value key, value;
  fp_json_step step;
  size_t count = 0;
  if (args->kind != FP_JSON_OBJECT) return true;
  fp_json_walk walk = fp_json_into(args);
  while ((step = fp_json_member(event->view, &walk, &key, &value)) == FP_WALK_ITEM) count++;
  *at = walk.at;
  if (step != FP_WALK_END) return step == FP_WALK_DEEP;
  walk = fp_json_into(args);
  chrome_begin_stats(chrome);
  while (fp_json_member(event->view, &walk, &key, &value) == FP_WALK_ITEM) {
    int32_t name = process_stat(chrome, event, &key, count == 1);
    if (name < 0) return true;
    if (chrome_is_again(chrome, name)) chrome_remark(chrome, CHROME_DUPLICATE_KEY, event->offset, 1);
    fp_bytes *stats = &((chrome_process *)chrome->processes.items)[number].stats;
    if (!chrome_put_stat(chrome, stats, name, event->view, &value, at)) return false;
    chrome->failed |= stats->failed;
  }
  return true;
}

/* Counts the keys that repeat in the args of an event that names something. */
static void note_repeated(fp_chrome *chrome, const chrome_event *event) {
  const fp_json_value *args = &event->fields[FIELD_ARGS];
  fp_json_bad_text bad = {0};
  uint32_t at;
  if (args->kind != FP_JSON_OBJECT) return;
  chrome->decoded.size = 0;
  fp_json_compact(&chrome->decoded, event->view, args, SIZE_MAX, &bad, &at);
  chrome->failed |= chrome->decoded.failed;
  if (bad.repeated) chrome_remark(chrome, CHROME_DUPLICATE_KEY, event->offset, bad.repeated);
}

/* An integer of args; false: it has none. */
static bool int_arg(const chrome_event *event, const char *key, int64_t *value) {
  fp_json_value found;
  if (!chrome_member(event->view, &event->fields[FIELD_ARGS], key, &found)) return false;
  fp_json_number number = chrome_read_number(event->view, &found);
  double edge = 9e18;
  if (number.kind == FP_JSON_INT) *value = (int64_t)number.bits;
  else if (number.kind == FP_JSON_DOUBLE && number.value > -edge && number.value < edge) *value = (int64_t)number.value;
  else return false;
  return true;
}

/* The name that args give; -1: none, or an empty one. */
static int32_t name_arg(fp_chrome *chrome, const chrome_event *event) {
  fp_json_value found;
  size_t length;
  if (!chrome_member(event->view, &event->fields[FIELD_ARGS], "name", &found)) return -1;
  int32_t number = chrome_intern(chrome, &chrome->texts, event->view, &found);
  chrome_string(&chrome->texts, number, &length);
  return length ? number : -1;
}

/* The label of a process, such as CPU or GPU 0. */
static void note_label(fp_chrome *chrome, const chrome_event *event, int32_t number) {
  fp_json_value found;
  size_t length;
  if (!chrome_member(event->view, &event->fields[FIELD_ARGS], "labels", &found) || found.kind != FP_JSON_TEXT) return;
  int32_t label = chrome_intern(chrome, &chrome->texts, event->view, &found);
  if (label < 0) return;
  chrome_process *process = (chrome_process *)chrome->processes.items + number;
  const uint8_t *text = chrome_string(&chrome->texts, label, &length);
  if (is_name(text, length, "CPU")) process->is_host = true;
  else process->label = label;
}

bool chrome_name_event(fp_chrome *chrome, const chrome_event *event, uint32_t *at) {
  size_t length;
  const uint8_t *name = chrome_string(&chrome->names, event->name, &length);
  int32_t process = chrome_process_of(chrome, event->pid);
  if (process < 0) return true;
  chrome_process *owner = (chrome_process *)chrome->processes.items + process;
  if (is_name(name, length, "process_name")) {
    int32_t text = name_arg(chrome, event);
    if (text >= 0) owner->name = text;
    note_repeated(chrome, event);
  } else if (length > 7 && !memcmp(name, "thread_", 7)) {
    int32_t thread = chrome_thread_of(chrome, event->pid, event->tid, true), text = name_arg(chrome, event);
    if (thread < 0) return true;
    chrome_thread *named = (chrome_thread *)chrome->threads.items + thread;
    if (is_name(name, length, "thread_name") && text >= 0) {
      /* XProf's ids are halves of those of lines, so that two lines may have one. */
      bool is_other = chrome->dialect == CHROME_XPROF && named->name >= 0 && named->name != text;
      if (is_other) chrome_remark(chrome, CHROME_RENAMED_THREAD, event->offset, 1);
      named->name = text;
    }
    if (is_name(name, length, "thread_sort_index")) int_arg(event, "sort_index", &named->sort_index);
    note_repeated(chrome, event);
  } else {
    if (is_name(name, length, "process_sort_index")) owner->is_sorted |= int_arg(event, "sort_index", &owner->sort_index);
    if (!put_process_stats(chrome, event, process, at)) return false;
    if (is_name(name, length, "process_labels")) note_label(chrome, event, process);
  }
  if (chrome->dialect != CHROME_KINETO) chrome_plane_of_process(chrome, process);
  return true;
}

/* ---- ids of lines ---- */

/* The integer behind the last blank of a text such as "stream 7". */
static bool trailing_number(const fp_chrome *chrome, chrome_id tid, int64_t *number) {
  size_t length;
  const uint8_t *text = chrome_string(&chrome->texts, (int32_t)tid.bits, &length);
  uint64_t value = 0;
  if (tid.kind != CHROME_TEXT_ID || length < 8 || length > 25 || memcmp(text, "stream ", 7)) return false;
  for (size_t i = 7; i < length; i++) {
    if ((uint8_t)(text[i] - '0') > 9) return false;
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  *number = (int64_t)value;
  return true;
}

/* Takes an id for a line. False: another line of the plane has it. */
static bool take_id(fp_chrome *chrome, fp_key_map *taken, chrome_line *line, int64_t id) {
  const fp_key key = {{(uint64_t)(uint32_t)line->plane, (uint64_t)id, 0, 0}};
  size_t before = taken->keys.count;
  if (fp_key_map_add(taken, &key) < 0) {
    chrome->failed = true;
    return true;
  }
  line->xline_id = id;
  return taken->keys.count > before;
}

/* Threads whose tid is a number have it; then the others of a plane get what is free. */
void chrome_number_lines(fp_chrome *chrome) {
  fp_key_map taken = {.memory = chrome->memory};
  chrome_line *lines = chrome->lines.items;
  size_t count = chrome->lines.count;
  uint8_t *done = fp_alloc_zeroed(chrome->memory, count, 1);
  int64_t *next = fp_alloc_zeroed(chrome->memory, 2 * (chrome->planes.count + 1), sizeof *next);
  chrome->failed |= !done || !next;
  for (size_t i = 0; !chrome->failed && i < count; i++) {
    int64_t id = (int64_t)lines[i].tid.bits;
    bool is_thread = lines[i].role == CHROME_THREAD || lines[i].role == CHROME_STREAM;
    bool is_number = lines[i].tid.kind == CHROME_INT_ID || lines[i].tid.kind == CHROME_UINT_ID;
    if (is_thread && (is_number || trailing_number(chrome, lines[i].tid, &id))) done[i] = take_id(chrome, &taken, &lines[i], id);
  }
  for (size_t i = 0; !chrome->failed && i < count; i++) {
    bool is_derived = lines[i].role != CHROME_THREAD && lines[i].role != CHROME_STREAM;
    int64_t *last = &next[2 * lines[i].plane + is_derived];
    while (!chrome->failed && !done[i]) {
      int64_t n = (*last)++;
      int64_t id = !is_derived ? -1 - n : n < MOST_DERIVED ? DERIVED + FIRST_DERIVED + n : INT64_MIN + n;
      done[i] = take_id(chrome, &taken, &lines[i], id);
    }
  }
  fp_key_map_free(&taken);
  fp_release(chrome->memory, done);
  fp_release(chrome->memory, next);
}
