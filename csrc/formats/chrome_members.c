/* What a document says beside its events, and what wrote it. */
#include "formats/chrome_processes.h"
#include "formats/chrome_stats.h"

enum { MOST_SHOWN = 8, MOST_KEPT = 1 << 16, MOST_MEMBERS = 1 << 12, ENOUGH_EVENTS = 1000, VIEW_BLOCKS = 1 << 8 };

bool chrome_view_text(fp_memory *memory, const uint8_t *text, size_t length, chrome_text_view *found) {
  size_t blocks = length / FP_JSON_BLOCK + 1, count = 0;
  fp_json_index index = {0, 0, fp_json_best_ways()};
  fp_vector marks = {0}; /* uint32_t */
  memset(found, 0, sizeof *found);
  found->text = fp_alloc(memory, blocks * FP_JSON_BLOCK);
  found->has = fp_alloc(memory, blocks);
  bool has_room = found->text && found->has;
  if (has_room) {
    memset(found->text + (blocks - 1) * FP_JSON_BLOCK, ' ', FP_JSON_BLOCK);
    if (length) memcpy(found->text, text, length);
  }
  for (size_t at = 0; has_room && at < blocks; at += VIEW_BLOCKS) { /* most text has few marks */
    size_t more = blocks - at < VIEW_BLOCKS ? blocks - at : VIEW_BLOCKS, from = at * FP_JSON_BLOCK;
    has_room = fp_vector_reserve(memory, &marks, sizeof *found->marks, more * FP_JSON_BLOCK);
    if (!has_room) break;
    found->marks = marks.items;
    count = marks.count;
    count += fp_json_index_blocks(&index, found->text + from, more, (uint32_t)from, found->marks + count, found->has + at);
    marks.count = count;
  }
  uint32_t *fitting = has_room ? fp_resize(memory, found->marks, count * sizeof *found->marks) : NULL;
  if (fitting) found->marks = fitting;
  if (!has_room) chrome_free_view(memory, found);
  else found->view = (fp_json_view){found->text, found->marks, found->has, count};
  return has_room;
}

void chrome_free_view(fp_memory *memory, chrome_text_view *found) {
  fp_release(memory, found->text);
  fp_release(memory, found->has);
  fp_release(memory, found->marks);
  memset(found, 0, sizeof *found);
}

static bool is_key(const uint8_t *key, size_t length, const char *name) {
  return length == strlen(name) && !memcmp(key, name, length);
}

static bool is_any(const uint8_t *key, size_t length, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_key(key, length, names[i])) return true;
  return false;
}

bool chrome_whole_value(const chrome_text_view *found, size_t length, fp_json_value *value) {
  uint32_t marks[1] = {(uint32_t)length}; /* of a scalar, whose end no mark says */
  fp_json_view view = found->view;
  fp_json_walk walk = {0, 0, true};
  if (!view.count) view.marks = marks, view.count = 1;
  fp_json_step step = fp_json_step_over(&view, &walk, value);
  return step == FP_WALK_ITEM || step == FP_WALK_DEEP;
}

/* ---- members ---- */

/* Notes a key, for the error of a document that is not a trace. */
static void note_key(fp_chrome *chrome, const uint8_t *key, size_t length) {
  if (chrome->key_count++ >= MOST_SHOWN) return;
  if (chrome->keys.size) fp_bytes_text(&chrome->keys, ", ");
  fp_bytes_put(&chrome->keys, key, length < 64 ? length : 64);
  chrome->failed |= chrome->keys.failed;
}

/* Whether a member counts: in a document the last of a name, of several documents the first's. */
static bool is_kept(fp_chrome *chrome, int32_t name, bool *is_again) {
  chrome_stat_use *use = (chrome_stat_use *)chrome->stat_uses.items + name;
  *is_again = use->document == chrome->document + 1;
  if (use->document) return *is_again;
  use->document = chrome->document + 1;
  return true;
}

/* A member as a text of the task environment. */
static bool keep_member(fp_chrome *chrome, const uint8_t *key, size_t key_length, const chrome_text_view *text,
                        const fp_json_value *value, bool is_whole) {
  fp_json_bad_text bad = {0};
  fp_bytes name = {.memory = chrome->memory}, plain = {.memory = chrome->memory};
  bool is_again, is_json = true;
  uint32_t at;
  fp_json_decode(&name, key, key_length, &bad);
  fp_bytes_byte(&name, 0);
  int32_t number = name.failed ? -1 : chrome_stat_number(chrome, (const char *)name.data);
  if (number >= 0 && is_kept(chrome, number, &is_again)) {
    if (is_again) chrome_remark(chrome, CHROME_DUPLICATE_KEY, chrome->member_end, 1);
    if (value->kind == FP_JSON_TEXT) fp_json_decode(&plain, text->text + value->from, value->to - value->from, &bad);
    else is_json = fp_json_compact(&plain, &text->view, value, MOST_KEPT, &bad, &at);
    size_t size = plain.size < MOST_KEPT ? plain.size : MOST_KEPT;
    while (size < plain.size && size && (plain.data[size] & 0xC0) == 0x80) size--;
    if (size < plain.size || !is_whole) chrome_remark(chrome, CHROME_CUT_VALUE, chrome->member_end, 1);
    if (is_json || !is_whole)
      chrome_put_stat_text(&chrome->environment, number, plain.data ? plain.data : (const uint8_t *)"", size);
  }
  chrome_remark_text(chrome, &bad, chrome->member_end);
  chrome->failed |= name.failed || plain.failed || chrome->environment.failed;
  fp_bytes_free(&name);
  fp_bytes_free(&plain);
  return is_json || !is_whole;
}

/* Members that dialects know. */
static bool take_known(fp_chrome *chrome, const uint8_t *key, size_t length, const chrome_text_view *text,
                       const fp_json_value *value) {
  uint32_t at;
  if (is_key(key, length, "baseTimeNanoseconds")) {
    fp_json_number number = chrome_read_number(&text->view, value);
    chrome->has_base = number.kind == FP_JSON_INT;
    chrome->base_ns = (int64_t)number.bits;
  }
  if (is_key(key, length, "deviceProperties") && value->kind == FP_JSON_ARRAY && chrome->dialect == CHROME_KINETO)
    return chrome_put_devices(chrome, &text->view, value, &at);
  return true;
}

bool chrome_take_member(void *context, const uint8_t *key, size_t key_length, const uint8_t *text, size_t length, bool is_whole) {
  static const char *const unread[] = {"systemTraceEvents", "androidProcessDump", "powerTraceAsString", "samples", "traceEvents"};
  fp_chrome *chrome = context;
  chrome_text_view found;
  fp_json_value value;
  note_key(chrome, key, key_length);
  if (is_any(key, key_length, unread, sizeof unread / sizeof *unread) || chrome->key_count > MOST_MEMBERS) {
    chrome_remark(chrome, CHROME_NOT_READ, chrome->member_end, 1);
    return true;
  }
  if (is_key(key, key_length, "stackFrames")) {
    if (!chrome->stacks.size && length) fp_bytes_put(&chrome->stacks, text, length);
    chrome->failed |= chrome->stacks.failed;
    return true;
  }
  if (!chrome_view_text(chrome->memory, text, length, &found)) {
    chrome->failed = true;
    return true;
  }
  bool has_value = chrome_whole_value(&found, length, &value);
  if (!has_value && !is_whole) value = (fp_json_value){*found.text == '"', (uint32_t)length, 0, FP_JSON_TEXT};
  bool is_json = has_value || !is_whole;
  if (is_json && is_whole) is_json = take_known(chrome, key, key_length, &found, &value);
  if (is_json && !is_key(key, key_length, "deviceProperties"))
    is_json = keep_member(chrome, key, key_length, &found, &value, is_whole);
  chrome_free_view(chrome->memory, &found);
  return is_json;
}

/* ---- what wrote it ---- */

/* What the head of a document has. */
typedef struct guess {
  uint64_t events, complete, kineto_events;
  bool kineto, xprof, tf1, is_ns, has_ticks;
} guess;

static bool ends_with(const uint8_t *text, size_t length, const char *end) {
  size_t size = strlen(end);
  return length >= size && !memcmp(text + length - size, end, size);
}

static bool begins_with(const uint8_t *text, size_t length, const char *begin) {
  return length >= strlen(begin) && !memcmp(text, begin, strlen(begin));
}

/* Process names of XProf are those of planes, behind a host's name or not; those of TF1 and Ascend say what they show. */
static void look_at_process(guess *known, const uint8_t *text, size_t length) {
  size_t from = length;
  if (is_key(text, length, "Ascend Hardware")) known->kineto = true;
  if (ends_with(text, length, " Compute") || ends_with(text, length, " Tensors") || is_key(text, length, "Allocators"))
    known->tf1 = true;
  while (from && text[from - 1] != ' ') from--;
  text += from;
  length -= from;
  if (begins_with(text, length, "/host:") || begins_with(text, length, "/device:TPU:") || begins_with(text, length, "/device:GPU:"))
    known->xprof = true;
}

static fp_json_step look_at_event(void *context, const fp_json_view *view, fp_json_walk *walk, uint64_t offset) {
  guess *known = context;
  fp_json_value key, value, name = {0, 0, 0, FP_JSON_NOTHING}, args = name, cat = name, phase = name, pid = name;
  fp_json_step step;
  (void)offset;
  while ((step = fp_json_member(view, walk, &key, &value)) == FP_WALK_ITEM || step == FP_WALK_DEEP) {
    const uint8_t *text = view->text + key.from;
    size_t length = key.to - key.from;
    if (is_key(text, length, "name")) name = value;
    if (is_key(text, length, "args")) args = value;
    if (is_key(text, length, "cat")) cat = value;
    if (is_key(text, length, "ph")) phase = value;
    if (is_key(text, length, "pid")) pid = value;
  }
  if (step != FP_WALK_END || phase.kind != FP_JSON_TEXT || phase.from == phase.to) return step;
  known->events++;
  const uint8_t *category = view->text + cat.from;
  size_t category_length = cat.to - cat.from, pid_length = pid.to - pid.from;
  if (view->text[phase.from] == 'X') {
    const uint8_t *process = view->text + pid.from;
    known->complete++;
    if (cat.kind == FP_JSON_TEXT) known->kineto_events += chrome_is_kineto_category(category, category_length);
    if (is_key(category, category_length, "Trace") && (is_key(process, pid_length, "Spans") || is_key(process, pid_length, "Traces")))
      known->kineto = true;
    known->kineto |= cat.kind == FP_JSON_NOTHING && pid.kind == FP_JSON_TEXT && chrome_is_functions(process, pid_length);
  }
  if (is_key(view->text + name.from, name.to - name.from, "process_name") && chrome_member(view, &args, "name", &value))
    look_at_process(known, view->text + value.from, value.to - value.from);
  return step;
}

static bool look_at_member(void *context, const uint8_t *key, size_t key_length, const uint8_t *text, size_t length, bool is_whole) {
  static const char *const kineto[] = {"schemaVersion", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds"};
  static const char ticks[] = "\"highres-ticks\"";
  guess *known = context;
  (void)is_whole;
  if (is_any(key, key_length, kineto, sizeof kineto / sizeof *kineto)) known->kineto = true;
  if (is_key(key, key_length, "displayTimeUnit")) known->is_ns = length >= 4 && !memcmp(text, "\"ns\"", 4);
  for (size_t i = 0; is_key(key, key_length, "metadata") && i + sizeof ticks - 1 <= length; i++)
    if (!memcmp(text + i, ticks, sizeof ticks - 1)) known->has_ticks = true;
  return true;
}

static void pass_over(void *context, fp_json_remark what, uint64_t offset, uint64_t count) {
  (void)context, (void)what, (void)offset, (void)count;
}

chrome_dialect chrome_guess(fp_chrome *chrome, const uint8_t *head, size_t size, bool is_all, bool *is_sure) {
  static const fp_json_handlers handlers = {look_at_event, look_at_member, pass_over};
  guess known = {0};
  fp_fault fault;
  fp_json_scan scan = {.memory = chrome->memory, .handlers = &handlers, .context = &known, .salvage = true,
                       .index.ways = fp_json_best_ways()};
  fp_code code = fp_json_scan_push(&scan, head, size, &fault);
  if (!code && is_all) code = fp_json_scan_finish(&scan, &fault);
  chrome->failed |= code == FP_NO_MEMORY;
  fp_json_scan_free(&scan);
  *is_sure = is_all || known.kineto || known.events >= ENOUGH_EVENTS;
  if (known.kineto) return CHROME_KINETO;
  if ((known.is_ns && known.has_ticks) || known.xprof) return CHROME_XPROF;
  if (known.tf1) return CHROME_TF1;
  return known.complete && 2 * known.kineto_events > known.complete ? CHROME_KINETO : CHROME_BROWSER;
}
