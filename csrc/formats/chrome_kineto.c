/* What dialects make of events: Kineto's lines are by device and stream, not by process, and its stats get the names that
 * XSpace has for them.
 *
 *    cat kernel, args.device 0, args.stream 7          line "stream 7" of /device:GPU:0
 *    cat gpu_user_annotation, pid 0, tid 7             line "stream 7 annotations": what encloses kernels is not one
 *    cat cuda_sync, args.stream 7                      line "stream 7 (sync)": waits are no work
 *    cat Trace, pid Spans                              /host:profiler
 *    anything else                                     the thread's line of /host:CPU
 */
#include <stdio.h>

#include "formats/chrome_processes.h"
#include "formats/chrome_stats.h"
#include "formats/json_values.h"

/* ---- categories and args ---- */

typedef enum side {
  HOST_SIDE, STREAM_SIDE, KERNEL_SIDE, NOTES_SIDE, SYNC_SIDE, CALL_SIDE, MTIA_SIDE, STEP_SIDE, COPY_SIDE, RANGE_SIDE, UNKNOWN_SIDE
} side;

/* Categories in lower case. */
static const struct category {
  const char *name;
  side side;
} categories[] = {
    {"kernel", KERNEL_SIDE}, {"gpu_memcpy", COPY_SIDE}, {"memcpy", COPY_SIDE}, {"gpu_memset", STREAM_SIDE},
    {"memset", STREAM_SIDE}, {"gpu_user_annotation", NOTES_SIDE}, {"cuda_sync", SYNC_SIDE}, {"xpu_sync", SYNC_SIDE},
    {"cuda_event", SYNC_SIDE}, {"mtia_ccp_events", MTIA_SIDE}, {"mtia_insight", NOTES_SIDE},
    {"collective_comm", STREAM_SIDE}, {"hpu_op", STREAM_SIDE},
    {"cuda_profiler_range", RANGE_SIDE}, {"cuda_runtime", CALL_SIDE}, {"cuda_driver", CALL_SIDE}, {"runtime", CALL_SIDE},
    {"xpu_runtime", CALL_SIDE}, {"xpu_driver", CALL_SIDE}, {"mtia_runtime", CALL_SIDE}, {"glow_runtime", CALL_SIDE},
    {"privateuse1_runtime", CALL_SIDE}, {"privateuse1_driver", CALL_SIDE}, {"user_annotation", STEP_SIDE},
    {"operator", STEP_SIDE}, {"cpu_op", STEP_SIDE}, {"cpu_instant_event", HOST_SIDE}, {"python_function", HOST_SIDE},
    {"overhead", HOST_SIDE}, {"trace", HOST_SIDE}};

static const struct category *category_of(const uint8_t *text, size_t length) {
  for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
    if (chrome_is_same(text, length, categories[i].name)) return &categories[i];
  return NULL;
}

/* Categories of vendors that have the names of others: musa_runtime, npu_driver, mps_kernel. */
static side side_by_ending(const uint8_t *text, size_t length) {
  static const struct category endings[] = {{"_runtime", CALL_SIDE},         {"_driver", CALL_SIDE},  {"_kernel", KERNEL_SIDE},
                                            {"_user_annotation", NOTES_SIDE}, {"_memcpy", COPY_SIDE}, {"_memset", STREAM_SIDE},
                                            {"_sync", SYNC_SIDE}};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t size = strlen(endings[i].name);
    if (length > size && chrome_is_same(text + length - size, size, endings[i].name)) return endings[i].side;
  }
  return UNKNOWN_SIDE;
}

bool chrome_is_kineto_category(const uint8_t *text, size_t length) {
  return category_of(text, length) || side_by_ending(text, length) != UNKNOWN_SIDE;
}

/* Kineto labels devices of all makers as GPUs; categories of calls and work name them. */
static void note_device_word(fp_chrome *chrome, const uint8_t *cat, size_t length) {
  static const char *const words[][2] = {{"xpu_", "XPU"}, {"hpu_", "HPU"}, {"mtia_", "MTIA"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t size = strlen(words[i][0]);
    if (length > size && chrome_is_same(cat, size, words[i][0])) chrome->device_word = words[i][1];
  }
}

/* The side of a category, which is looked up once. */
static side side_of(fp_chrome *chrome, int32_t cat) {
  if (cat < 0) return HOST_SIDE;
  for (size_t next; (next = chrome->sides.size) <= (size_t)cat;) {
    size_t length;
    const uint8_t *text = chrome_string(&chrome->cats, (int32_t)next, &length);
    const struct category *found = category_of(text, length);
    note_device_word(chrome, text, length);
    fp_bytes_byte(&chrome->sides, (uint8_t)(found ? found->side : side_by_ending(text, length)));
    if (chrome->sides.failed) {
      chrome->failed = true;
      return HOST_SIDE;
    }
  }
  return (side)chrome->sides.data[cat];
}

/* An arg that is an integer; false: the event has none. */
static bool int_arg(const chrome_event *event, chrome_arg arg, int64_t *value) {
  if (!(event->args_found >> arg & 1)) return false;
  fp_json_number number = chrome_read_number(event->view, &event->args[arg]);
  *value = (int64_t)number.bits;
  return number.kind == FP_JSON_INT || number.kind == FP_JSON_UINT;
}

/* ---- lines ---- */

/* The integer of an id; text such as "stream 7" has one behind its last blank. */
static bool id_number(const fp_chrome *chrome, chrome_id id, int64_t *number) {
  size_t length, i;
  *number = (int64_t)id.bits;
  if (id.kind == CHROME_INT_ID || id.kind == CHROME_UINT_ID) return true;
  if (id.kind != CHROME_TEXT_ID) return false;
  const uint8_t *text = chrome_string(&chrome->texts, (int32_t)id.bits, &length);
  *number = 0;
  for (i = length; i && (uint8_t)(text[i - 1] - '0') < 10; i--) {
  }
  if (i == length || length - i > 18 || (i && text[i - 1] != ' ')) return false;
  for (; i < length; i++) *number = *number * 10 + (text[i] - '0');
  return true;
}

static bool begins_with(const uint8_t *text, size_t length, const char *word) {
  return length >= strlen(word) && !memcmp(text, word, strlen(word));
}

/* What a device does by the category of an event; CHROME_THREAD: the host does it. */
static chrome_role role_of(const fp_chrome *chrome, const chrome_event *event, side on) {
  size_t length;
  if (on == HOST_SIDE || on == CALL_SIDE || on == STEP_SIDE || on == UNKNOWN_SIDE) return CHROME_THREAD;
  if (on == NOTES_SIDE) return CHROME_NOTES;
  const uint8_t *name = chrome_string(&chrome->names, event->name, &length);
  if (on == KERNEL_SIDE && begins_with(name, length, "metrics: ")) return CHROME_NOTES; /* XPU: counters of a kernel, around it */
  if (on != MTIA_SIDE) return on == SYNC_SIDE ? CHROME_SYNC : CHROME_STREAM;
  return begins_with(name, length, "event_") ? CHROME_SYNC : CHROME_STREAM; /* event_wait, event_record */
}

/* The line of what a device does: by device and stream, which args say, or else tid. */
static int32_t stream_line(fp_chrome *chrome, const chrome_event *event, chrome_role role, int64_t device) {
  int64_t stream;
  int32_t process = chrome_process_of(chrome, event->pid);
  chrome_id tid = event->tid;
  if (role != CHROME_NOTES && int_arg(event, ARG_STREAM, &stream)) tid = (chrome_id){CHROME_INT_ID, (uint64_t)stream};
  if (tid.kind != CHROME_NO_ID && id_number(chrome, tid, &stream)) {
    if (stream == INT64_C(4294967295)) stream = -1; /* no stream */
    tid = (chrome_id){CHROME_INT_ID, (uint64_t)stream};
  }
  return chrome_line_of(chrome, chrome_device_plane(chrome, device), process, role, tid, -1);
}

/* The plane of a device; -1: it has no events. */
static int32_t device_plane(const fp_chrome *chrome, int64_t ordinal) {
  const chrome_plane *planes = chrome->planes.items;
  for (size_t i = 0; i < chrome->planes.count; i++)
    if (planes[i].is_device && planes[i].ordinal == ordinal) return (int32_t)i;
  return -1;
}

void chrome_lines_beside(const fp_chrome *chrome, const chrome_line *line, int32_t found[CHROME_BESIDE]) {
  static const chrome_role roles[CHROME_BESIDE] = {CHROME_STREAM, CHROME_NOTES, CHROME_SYNC};
  int64_t device, stream;
  for (size_t i = 0; i < CHROME_BESIDE; i++) found[i] = -1;
  if (chrome->dialect != CHROME_KINETO || line->role != CHROME_THREAD || line->tid.kind == CHROME_NO_ID) return;
  const chrome_process *process = (const chrome_process *)chrome->processes.items + line->process;
  if (!chrome_labelled_device(chrome, process, &device) && !id_number(chrome, process->pid, &device)) return;
  if (!id_number(chrome, line->tid, &stream)) return;
  int32_t plane = device_plane(chrome, device);
  chrome_id tid = {CHROME_INT_ID, (uint64_t)(stream == INT64_C(4294967295) ? -1 : stream)};
  for (size_t i = 0; plane >= 0 && i < CHROME_BESIDE; i++) found[i] = chrome_find_line(chrome, plane, roles[i], tid);
}

int32_t chrome_thread_line(fp_chrome *chrome, const chrome_event *event) {
  if (chrome->dialect == CHROME_KINETO && event->phase == 'X') {
    int64_t device = 0;
    side on = side_of(chrome, event->cat);
    chrome_role role = role_of(chrome, event, on);
    if (event->cat < 0 || on == UNKNOWN_SIDE) role = chrome_role_of_process(chrome, event, &device);
    else if (role != CHROME_THREAD && !int_arg(event, ARG_DEVICE, &device) && !id_number(chrome, event->pid, &device)) device = 0;
    if (role != CHROME_THREAD) return stream_line(chrome, event, role, device);
  }
  int32_t process = chrome_process_of(chrome, event->pid);
  return chrome_line_of(chrome, chrome_plane_of_process(chrome, process), process, CHROME_THREAD, event->tid, -1);
}

/* Counters of a device have its number as pid: those of XPU and MTIA by their category, others by the label of the process. */
int32_t chrome_counter_line(fp_chrome *chrome, const chrome_event *event) {
  static const char *const endings[] = {"_counters", "_scope_profiler"};
  const chrome_id none = {CHROME_NO_ID, 0};
  size_t length;
  int64_t device, labelled;
  int32_t number = chrome_process_of(chrome, event->pid);
  if (chrome->dialect != CHROME_KINETO || number < 0 || event->pid.kind != CHROME_INT_ID) return -1;
  const chrome_process *process = (const chrome_process *)chrome->processes.items + number;
  bool is_of_device = chrome_labelled_device(chrome, process, &labelled) && !process->is_host;
  const uint8_t *cat = chrome_string(&chrome->cats, event->cat, &length);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t size = strlen(endings[i]);
    is_of_device |= length > size && chrome_is_same(cat + length - size, size, endings[i]);
  }
  if (!is_of_device || !id_number(chrome, event->pid, &device)) return -1;
  side_of(chrome, event->cat);
  int32_t name = fp_strings_add(&chrome->texts, (const uint8_t *)"_counters_", strlen("_counters_"));
  if (name < 0) chrome->failed = true;
  return name < 0 ? -1 : chrome_line_of(chrome, chrome_device_plane(chrome, device), number, CHROME_COUNTERS, none, name);
}

/* ---- derived stats ---- */

/* Appends " key:value" of an arg, whose brackets and blanks are left out. */
static void put_detail(fp_bytes *out, const chrome_event *event, chrome_arg arg, const char *key) {
  const fp_json_value *value = &event->args[arg];
  if (!(event->args_found >> arg & 1)) return;
  if (out->size) fp_bytes_byte(out, ' ');
  fp_bytes_text(out, key);
  fp_bytes_byte(out, ':');
  uint8_t *room = fp_bytes_room(out, value->to - value->from), *to = room;
  for (uint32_t i = value->from; room && i < value->to; i++) {
    uint8_t byte = event->view->text[i];
    if (!fp_json_is_blank(byte) && byte != '[' && byte != ']') *to++ = byte;
  }
  out->size += (size_t)(to - room);
}

static void put_kernel_details(fp_chrome *chrome, const chrome_event *event) {
  fp_bytes *text = &chrome->decoded;
  text->size = 0;
  put_detail(text, event, ARG_REGISTERS, "regs");
  put_detail(text, event, ARG_SHARED, "group_mem");
  put_detail(text, event, ARG_GRID, "grid");
  put_detail(text, event, ARG_BLOCK, "block");
  put_detail(text, event, ARG_OCCUPANCY, "occ_pct");
  put_detail(text, event, ARG_ESTIMATE, "est_occ_pct");
  put_detail(text, event, ARG_BLOCKS_PER_SM, "blocks_per_sm");
  put_detail(text, event, ARG_WARPS_PER_SM, "warps_per_sm");
  chrome->failed |= text->failed;
  if (text->size) chrome_add_derived_text(chrome, WORD_KERNEL_DETAILS, text->data, text->size);
}

/* "Memcpy HtoD (Pageable -> Device)" is of kind HtoD; ROCm and MTIA have names of their own. */
static void put_kind_of_copy(fp_bytes *out, const uint8_t *name, size_t length) {
  static const char *const ways[][2] = {
      {"CopyHostToDevice", "HtoD"}, {"CopyDeviceToHost", "DtoH"}, {"CopyDeviceToDevice", "DtoD"},
      {"HOST_TO_DEVICE", "HtoD"},   {"DEVICE_TO_HOST", "DtoH"},   {"DEVICE_TO_DEVICE", "DtoD"}};
  const size_t from = strlen("Memcpy ");
  size_t to = from;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    if (!chrome_begins_with(name, length, ways[i][0])) continue;
    fp_bytes_text(out, "kind:");
    fp_bytes_text(out, ways[i][1]);
    fp_bytes_byte(out, ' ');
  }
  if (!chrome_begins_with(name, length, "Memcpy ")) return;
  while (to < length && name[to] != ' ' && name[to] != '(') to++;
  if (to == from) return;
  fp_bytes_text(out, "kind:");
  fp_bytes_put(out, name + from, to - from);
  fp_bytes_byte(out, ' ');
}

/* "kind:HtoD size:4096 dest:0". Whether a copy is asynchronous is up to its call, which may stand behind it. */
static void put_memcpy_details(fp_chrome *chrome, const chrome_event *event) {
  char amounts[64];
  size_t length;
  int64_t bytes, device;
  fp_bytes text = {.memory = chrome->memory};
  const uint8_t *name = chrome_string(&chrome->names, event->name, &length);
  if (!int_arg(event, ARG_BYTES, &bytes) || bytes < 0) return;
  if (event->args_found >> ARG_DIRECTION & 1) name = chrome_text(chrome, event->view, &event->args[ARG_DIRECTION], &length);
  put_kind_of_copy(&text, name, length);
  snprintf(amounts, sizeof amounts, "size:%lld", (long long)bytes);
  fp_bytes_text(&text, amounts);
  if (int_arg(event, ARG_TO_DEVICE, &device) || int_arg(event, ARG_DEVICE, &device)) {
    snprintf(amounts, sizeof amounts, " dest:%lld", (long long)device);
    fp_bytes_text(&text, amounts);
  }
  chrome->failed |= text.failed;
  if (!text.failed) chrome_add_derived_text(chrome, WORD_MEMCPY_DETAILS, text.data, text.size);
  fp_bytes_free(&text);
}

/* "ProfilerStep#12" is step 12. */
static void put_step(fp_chrome *chrome, const chrome_event *event) {
  static const char before[] = "ProfilerStep#";
  const size_t from = sizeof before - 1;
  size_t length;
  int64_t number = 0;
  const uint8_t *name = chrome_string(&chrome->names, event->name, &length);
  if (length <= from || length > from + 18 || memcmp(name, before, from)) return;
  for (size_t i = from; i < length; i++) {
    if ((uint8_t)(name[i] - '0') > 9) return;
    number = number * 10 + (name[i] - '0');
  }
  chrome_add_derived_int(chrome, WORD_STEP_NUM, number);
  chrome_add_derived_int(chrome, WORD_ROOT, 1);
}

/* The first span of the profiler is its window. */
static void note_span(fp_chrome *chrome, const chrome_event *event) {
  size_t length;
  const uint8_t *cat = chrome_string(&chrome->cats, event->cat, &length);
  if (chrome->has_span || !chrome_is_same(cat, length, "trace")) return;
  chrome->has_span = true;
  chrome->span = event->time;
  chrome->span_ps = event->duration_ps;
}

static void derive_kineto(fp_chrome *chrome, const chrome_event *event) {
  side on = side_of(chrome, event->cat);
  int64_t correlation, device;
  if (on == UNKNOWN_SIDE && chrome_role_of_process(chrome, event, &device) == CHROME_STREAM) on = STREAM_SIDE;
  if (on != HOST_SIDE && on != NOTES_SIDE && on != STEP_SIDE && on != UNKNOWN_SIDE && int_arg(event, ARG_CORRELATION, &correlation))
    chrome_add_derived_int(chrome, WORD_CORRELATION_ID, correlation);
  if (on == KERNEL_SIDE) put_kernel_details(chrome, event);
  if (on == COPY_SIDE || (on == MTIA_SIDE && event->args_found >> ARG_DIRECTION & 1)) put_memcpy_details(chrome, event);
  if (on == RANGE_SIDE || (on == KERNEL_SIDE && role_of(chrome, event, on) == CHROME_NOTES)) chrome_add_derived_int(chrome, WORD_PROFILER_RANGE, 1);
  if (on == STEP_SIDE) put_step(chrome, event);
  if (on == HOST_SIDE) note_span(chrome, event);
}

static bool has_text(const uint8_t *text, size_t length, const char *word) {
  for (size_t i = 0; i < length; i++)
    if (chrome_begins_with(text + i, length - i, word)) return true;
  return false;
}

/* XProf leaves out what marks a step, `_r`: an event of a host with the number of a step is one, but for ops, whose names
 * have a type behind a colon. */
void chrome_derive_root(fp_chrome *chrome, int32_t process, int32_t event_name) {
  size_t length;
  int32_t name = ((const chrome_process *)chrome->processes.items)[process].name;
  if (name < 0) return;
  const uint8_t *text = chrome_string(&chrome->texts, name, &length);
  if (!has_text(text, length, "/host:")) return;
  text = chrome_string(&chrome->names, event_name, &length);
  if (!memchr(text, ':', length)) chrome_add_derived_int(chrome, WORD_ROOT, 1);
}

static void derive_xprof(fp_chrome *chrome, const chrome_event *event) {
  int64_t number;
  int32_t process = chrome_process_of(chrome, event->pid);
  if (process >= 0 && int_arg(event, ARG_STEP_NUM, &number)) chrome_derive_root(chrome, process, event->name);
}

bool chrome_waits_for_name(fp_chrome *chrome, const chrome_event *event) {
  int64_t number;
  if (chrome->dialect != CHROME_XPROF || !int_arg(event, ARG_STEP_NUM, &number)) return false;
  int32_t process = chrome_process_of(chrome, event->pid);
  return process >= 0 && ((const chrome_process *)chrome->processes.items)[process].name < 0;
}

/* TF1: the name and type of an op as one text. */
static void derive_tf1(fp_chrome *chrome, const chrome_event *event) {
  const uint32_t both = UINT32_C(1) << ARG_NAME | UINT32_C(1) << ARG_OP;
  fp_bytes text = {.memory = chrome->memory};
  size_t length;
  if ((event->args_found & both) != both) return;
  if (event->args[ARG_NAME].kind != FP_JSON_TEXT || event->args[ARG_OP].kind != FP_JSON_TEXT) return;
  const uint8_t *part = chrome_text(chrome, event->view, &event->args[ARG_NAME], &length);
  fp_bytes_put(&text, part, length);
  fp_bytes_byte(&text, ':');
  part = chrome_text(chrome, event->view, &event->args[ARG_OP], &length);
  fp_bytes_put(&text, part, length);
  chrome->failed |= text.failed;
  if (!text.failed && !chrome_is_same(part, length, "unknown")) chrome_add_derived_text(chrome, WORD_TF_OP, text.data, text.size);
  fp_bytes_free(&text);
}

void chrome_derive_stats(fp_chrome *chrome, const chrome_event *event) {
  if (chrome->dialect == CHROME_KINETO) derive_kineto(chrome, event);
  if (chrome->dialect == CHROME_XPROF) derive_xprof(chrome, event);
  if (chrome->dialect == CHROME_TF1) derive_tf1(chrome, event);
}
