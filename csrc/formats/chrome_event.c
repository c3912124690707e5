/* An event: its fields, then what its phase makes of it. Nothing is kept of an event before its last brace has been seen,
 * as the text may end before. Fields are read without the trace, so that another thread may do it (chrome_tape.c). */
#include "formats/chrome_processes.h"
#include "formats/chrome_stats.h"
#include "formats/json_values.h"

enum { PS_IN_US = 1000000 };

/* ---- fields ---- */

/* Up to four bytes as a number, and their count, by which a switch finds them. */
#define WORD(length, a, b, c, d) ((uint64_t)(length) << 32 | (uint32_t)(d) << 24 | (c) << 16 | (b) << 8 | (a))

/* A field by its name. Most names are short, so that a number says what they are. Behind a name there are always three
 * more bytes: a quote, a colon and a value. */
static chrome_field field_of(const uint8_t *text, size_t length) {
  static const struct {
    const char *name;
    chrome_field field;
  } names[] = {{"scope", FIELD_SCOPE}, {"cname", FIELD_CNAME}, {"stack", FIELD_STACK}, {"estack", FIELD_ESTACK},
               {"bind_id", FIELD_BIND_ID}, {"flow_in", FIELD_FLOW_IN}, {"flow_out", FIELD_FLOW_OUT}};
  static const uint32_t masks[] = {0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF};
  if (length <= 4) {
    uint32_t bytes = (uint32_t)text[3] << 24 | (uint32_t)text[2] << 16 | (uint32_t)text[1] << 8 | text[0];
    switch ((uint64_t)length << 32 | (bytes & masks[length])) {
      case WORD(2, 'p', 'h', 0, 0): return FIELD_PH;
      case WORD(2, 't', 's', 0, 0): return FIELD_TS;
      case WORD(2, 'i', 'd', 0, 0): return FIELD_ID;
      case WORD(2, 'b', 'p', 0, 0): return FIELD_BP;
      case WORD(2, 's', 'f', 0, 0): return FIELD_SF;
      case WORD(1, 's', 0, 0, 0): return FIELD_S;
      case WORD(3, 'c', 'a', 't', 0): return FIELD_CAT;
      case WORD(3, 'p', 'i', 'd', 0): return FIELD_PID;
      case WORD(3, 't', 'i', 'd', 0): return FIELD_TID;
      case WORD(3, 'd', 'u', 'r', 0): return FIELD_DUR;
      case WORD(3, 't', 't', 's', 0): return FIELD_TTS;
      case WORD(3, 'i', 'd', '2', 0): return FIELD_ID2;
      case WORD(3, 'e', 's', 'f', 0): return FIELD_ESF;
      case WORD(4, 'n', 'a', 'm', 'e'): return FIELD_NAME;
      case WORD(4, 'a', 'r', 'g', 's'): return FIELD_ARGS;
      case WORD(4, 't', 'd', 'u', 'r'): return FIELD_TDUR;
      default: return FIELD_COUNT;
    }
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i].name) == length && !memcmp(names[i].name, text, length)) return names[i].field;
  return FIELD_COUNT;
}

/* The field of a name with escapes. */
static chrome_field escaped_field(const uint8_t *text, size_t length, fp_bytes *name) {
  fp_json_bad_text bad = {0};
  name->size = 0;
  fp_json_decode(name, text, length, &bad);
  size_t size = name->size;
  fp_bytes_put(name, "   ", 3);
  return name->failed || !size ? FIELD_COUNT : field_of(name->data, size);
}

/* Keeps a field's value; null is as if the field were absent. `name`: room for a name. */
static void keep_field(chrome_event *event, const fp_json_value *key, const fp_json_value *value, fp_bytes *name) {
  const uint8_t *text = event->view->text + key->from;
  size_t length = key->to - key->from;
  chrome_field field = field_of(text, length);
  if (field == FIELD_COUNT && memchr(text, '\\', length)) field = escaped_field(text, length, name);
  event->has_fields = true;
  if (field == FIELD_COUNT) return;
  if (event->present >> field & 1) event->is_twice = true;
  event->present |= UINT32_C(1) << field;
  event->fields[field] = *value;
  if (field == FIELD_ARGS) event->is_listed = false;
  if (value->kind == FP_JSON_NULL) event->fields[field].kind = FP_JSON_NOTHING;
}

static const fp_json_value *field(const chrome_event *event, chrome_field which) {
  return &event->fields[which];
}

static bool has(const chrome_event *event, chrome_field which) {
  return event->fields[which].kind != FP_JSON_NOTHING;
}

/* ---- stacks ---- */

/* A frame of an array: a text, or an object with a name. */
static void put_frame(fp_chrome *chrome, fp_bytes *out, const fp_json_view *view, const fp_json_value *frame) {
  fp_json_value name = *frame;
  size_t length;
  if (frame->kind == FP_JSON_OBJECT && !chrome_member(view, frame, "name", &name)) return;
  if (name.kind != FP_JSON_TEXT) {
    fp_bytes_put(out, view->text + name.from, name.to - name.from);
    return;
  }
  const uint8_t *text = chrome_text(chrome, view, &name, &length);
  fp_bytes_put(out, text, length);
}

/* An array of frames as one text, a line a frame. */
static void add_stack(fp_chrome *chrome, const chrome_event *event, chrome_field which, chrome_word word) {
  const fp_json_value *stack = field(event, which);
  fp_json_value frame;
  fp_bytes text = {.memory = chrome->memory};
  if (stack->kind != FP_JSON_ARRAY) return;
  fp_json_walk walk = fp_json_into(stack);
  while (fp_json_element(event->view, &walk, &frame) == FP_WALK_ITEM) {
    if (text.size) fp_bytes_byte(&text, '\n');
    put_frame(chrome, &text, event->view, &frame);
  }
  chrome->failed |= text.failed;
  if (!text.failed) chrome_add_field_text(chrome, word, text.data, text.size);
  fp_bytes_free(&text);
}

/* ---- stats of fields ---- */

/* A field as text: strings as they are, ids canonical. */
static void add_id(fp_chrome *chrome, chrome_word word, chrome_id id) {
  fp_bytes text = {.memory = chrome->memory};
  chrome_put_id(chrome, &text, id);
  chrome->failed |= text.failed;
  if (!text.failed) chrome_add_field_text(chrome, word, text.data ? text.data : (const uint8_t *)"", text.size);
  fp_bytes_free(&text);
}

static void add_field(fp_chrome *chrome, const chrome_event *event, chrome_field which, chrome_word word) {
  if (!has(event, which)) return;
  if (field(event, which)->kind == FP_JSON_TEXT) {
    size_t length;
    const uint8_t *text = chrome_text(chrome, event->view, field(event, which), &length);
    chrome_add_field_text(chrome, word, text, length);
    return;
  }
  add_id(chrome, word, chrome_read_id(chrome, event->view, field(event, which)));
}

/* The id of an event: that of id2, where it has one. */
static chrome_id id_of(fp_chrome *chrome, const chrome_event *event, bool *is_local) {
  fp_json_value value = *field(event, FIELD_ID);
  *is_local = false;
  if (field(event, FIELD_ID2)->kind == FP_JSON_OBJECT) {
    if (chrome_member(event->view, field(event, FIELD_ID2), "local", &value)) *is_local = true;
    else chrome_member(event->view, field(event, FIELD_ID2), "global", &value);
    if (has(event, FIELD_ID)) chrome_remark(chrome, CHROME_BOTH_IDS, event->offset, 1);
  }
  return chrome_read_id(chrome, event->view, &value);
}

/* A frame of stackFrames, which may come behind the events: a reference to a text that is known at the end. */
static void add_frame(fp_chrome *chrome, const chrome_event *event, chrome_field which, chrome_word word) {
  if (!has(event, which)) return;
  chrome_id id = chrome_read_id(chrome, event->view, field(event, which));
  chrome_add_frame(chrome, word, id);
}

/* Stats of fields beside args, in the order of the docs. */
static void add_fields(fp_chrome *chrome, chrome_event *event) {
  const uint32_t others = ~((UINT32_C(1) << FIELD_ID) - 1);
  int64_t ps;
  if (!(event->present & others)) return;
  if (event->id.kind != CHROME_NO_ID) add_id(chrome, WORD_ID, event->id);
  if (field(event, FIELD_ID2)->kind == FP_JSON_OBJECT) {
    const char *kind = event->is_local ? "local" : "global";
    chrome_add_field_text(chrome, WORD_ID2, (const uint8_t *)kind, strlen(kind));
  }
  add_field(chrome, event, FIELD_SCOPE, WORD_SCOPE);
  add_field(chrome, event, FIELD_S, WORD_S);
  add_field(chrome, event, FIELD_BP, WORD_BP);
  add_field(chrome, event, FIELD_CNAME, WORD_CNAME);
  if (chrome_read_ps(event->view, field(event, FIELD_TTS), &ps)) chrome_add_field_int(chrome, WORD_THREAD_START, ps);
  if (chrome_read_ps(event->view, field(event, FIELD_TDUR), &ps)) chrome_add_field_int(chrome, WORD_THREAD_DURATION, ps);
  add_stack(chrome, event, FIELD_STACK, WORD_STACK);
  add_stack(chrome, event, FIELD_ESTACK, WORD_END_STACK);
  add_frame(chrome, event, FIELD_SF, WORD_STACK);
  add_frame(chrome, event, FIELD_ESF, WORD_END_STACK);
}

/* ---- phases ---- */

static void add_word(fp_chrome *chrome, chrome_word word, const char *text) {
  chrome_add_field_text(chrome, word, (const uint8_t *)text, strlen(text));
}

/* A line of the event's process that no thread has. */
static int32_t named_line(fp_chrome *chrome, const chrome_event *event, chrome_role role, const char *before,
                          const uint8_t *rest, size_t length) {
  return chrome_named_line(chrome, chrome_process_of(chrome, event->pid), role, before, rest, length);
}

/* Counters are called NAME, or NAME[ID]. */
static bool put_counter(fp_chrome *chrome, chrome_event *event, uint32_t *at) {
  int32_t name = event->name;
  if (!chrome_add_series(chrome, event, at)) return false;
  if (event->id.kind != CHROME_NO_ID) {
    fp_bytes text = {.memory = chrome->memory};
    size_t length;
    const uint8_t *plain = chrome_string(&chrome->names, name, &length);
    fp_bytes_put(&text, plain, length);
    fp_bytes_byte(&text, '[');
    chrome_put_id(chrome, &text, event->id);
    fp_bytes_byte(&text, ']');
    name = text.failed ? -1 : fp_strings_add(&chrome->names, text.data, text.size);
    fp_bytes_free(&text);
    if (name < 0) chrome->failed = true;
    if (name < 0) return true;
  }
  int32_t line = chrome_counter_line(chrome, event);
  if (line < 0) line = named_line(chrome, event, CHROME_COUNTERS, "_counters_", NULL, 0);
  chrome_put_event(chrome, line, name, event->cat, event->time, 0);
  return true;
}

static void put_object(fp_chrome *chrome, chrome_event *event) {
  size_t length;
  const uint8_t *cat = chrome_string(&chrome->cats, event->cat, &length);
  int32_t line = named_line(chrome, event, CHROME_OBJECTS, "objects: ", cat, length);
  add_word(chrome, WORD_OBJECT, event->phase == 'N' ? "created" : event->phase == 'O' ? "snapshot" : "deleted");
  chrome_put_event(chrome, line, event->name, event->cat, event->time, 0);
}

/* Duration of a complete event. False: it is not a time. */
static bool read_duration(fp_chrome *chrome, chrome_event *event) {
  if (!has(event, FIELD_DUR)) {
    chrome_remark(chrome, CHROME_NO_DURATION, event->offset, 1);
    chrome_add_field_int(chrome, WORD_UNFINISHED, 1);
    return true;
  }
  if (!event->times.has_ps) return false;
  event->duration_ps = event->times.ps;
  if (event->duration_ps < 0) chrome_remark(chrome, CHROME_NEGATIVE_DURATION, event->offset, 1);
  return true;
}

static void put_complete(fp_chrome *chrome, chrome_event *event) {
  if (!read_duration(chrome, event)) {
    chrome_remark(chrome, CHROME_BAD_TIME, event->offset, 1);
    return;
  }
  if (event->cat < 0 && chrome->dialect == CHROME_KINETO) chrome_infer_category(chrome, event);
  int32_t line = chrome_thread_line(chrome, event);
  chrome_count_time(chrome, event->time);
  chrome->has_fractions |= event->duration_ps % PS_IN_US != 0;
  chrome_note_end(chrome, line, event->time, event->duration_ps);
  if (chrome_waits_for_name(chrome, event)) {
    chrome_hold(chrome, event);
    return;
  }
  chrome_derive_stats(chrome, event);
  chrome_put_event(chrome, line, event->name, event->cat, event->time, event->duration_ps);
  chrome_put_flow_event(chrome, event->direction, event->bind_id,
                        &(chrome_flow_end){.ns = event->time.ns, .ps = event->time.ps, .line = line, .name = event->name,
                                           .cat = event->cat, .duration_ps = event->duration_ps});
}

/* What a phase makes of an event whose time and stats are known. */
static bool put_phase(fp_chrome *chrome, chrome_event *event, uint32_t *at) {
  if (event->phase != 'X') chrome_count_time(chrome, event->time);
  switch (event->phase) {
    case 'X': put_complete(chrome, event); break;
    case 'I':
    case 'i':
    case 'R':
      if (!has(event, FIELD_S)) add_word(chrome, WORD_S, "t");
      chrome_put_event(chrome, chrome_thread_line(chrome, event), event->name, event->cat, event->time, 0);
      break;
    case 'C': return put_counter(chrome, event, at);
    case 'N':
    case 'O':
    case 'D': put_object(chrome, event); break;
    case 'V':
    case 'v':
      chrome_put_event(chrome, named_line(chrome, event, CHROME_DUMPS, "memory dumps", NULL, 0), event->name, event->cat,
                       event->time, 0);
      break;
    case 's':
    case 't':
    case 'f': chrome_put_flow_end(chrome, event); break;
    case '(':
    case ')':
      add_word(chrome, WORD_CONTEXT, event->phase == '(' ? "enter" : "leave");
      chrome_put_event(chrome, chrome_thread_line(chrome, event), event->name, event->cat, event->time, 0);
      break;
    case 'P':
    case 'c': chrome_put_event(chrome, chrome_thread_line(chrome, event), event->name, event->cat, event->time, 0); break;
    default: chrome_hold(chrome, event); break;
  }
  return true;
}

/* The first character of the phase; 0: none that is known. */
static uint8_t phase_of(fp_chrome *chrome, const chrome_event *event) {
  static const char phases[] = "XBEIiRCbneSTpFstfPNODMVvc()";
  size_t length;
  if (field(event, FIELD_PH)->kind != FP_JSON_TEXT) return 0;
  const uint8_t *text = chrome_text(chrome, event->view, field(event, FIELD_PH), &length);
  if (length && (*text == 'X' || (*text && strchr(phases, *text)))) return *text;
  return 0;
}

/* Takes an event whose fields are known. False: a value is not JSON, at `*at`. */
static bool take(fp_chrome *chrome, chrome_event *event, uint32_t *at) {
  event->phase = phase_of(chrome, event);
  if (!event->phase) {
    chrome_remark(chrome, CHROME_UNKNOWN_PHASE, event->offset, 1);
    return true;
  }
  event->name = chrome_event_name(chrome, event->view, field(event, FIELD_NAME));
  event->cat = has(event, FIELD_CAT) ? chrome_category(chrome, event->view, field(event, FIELD_CAT)) : -1;
  event->pid = chrome_read_id(chrome, event->view, field(event, FIELD_PID));
  event->tid = chrome_read_id(chrome, event->view, field(event, FIELD_TID));
  if (chrome->failed) return true;
  if (event->phase == 'M') return chrome_name_event(chrome, event, at);
  chrome->stat_kind = (uint32_t)event->cat % CHROME_STAT_KINDS;
  chrome_begin_stats(chrome);
  bool is_flow = event->phase == 's' || event->phase == 't' || event->phase == 'f';
  if (event->phase != 'C' && !is_flow && !chrome_add_args(chrome, event, at)) return false;
  event->args_size = chrome->event_stats.size;
  if (!event->times.has_at) {
    chrome_remark(chrome, CHROME_BAD_TIME, event->offset, 1);
    return true;
  }
  event->time = event->times.at;
  event->id = id_of(chrome, event, &event->is_local);
  chrome_read_direction(chrome, event);
  if (event->phase != 'C' && !is_flow) add_fields(chrome, event);
  return chrome->failed || put_phase(chrome, event, at);
}

void chrome_begin_event(chrome_event *event, const fp_json_view *view, uint64_t offset) {
  event->view = view;
  event->present = 0;
  event->is_deep = event->has_fields = event->is_twice = event->is_local = event->is_listed = false;
  event->offset = offset;
  event->duration_ps = 0;
  event->args_found = 0;
  for (int i = 0; i < FIELD_COUNT; i++) event->fields[i].kind = FP_JSON_NOTHING;
}

/* Whether the next member is laid out as `"args": {` or `, "args": {`. `brace`: the mark that the brace is. */
static bool is_at_args(const fp_json_view *view, const fp_json_walk *walk, const uint32_t **brace) {
  const uint32_t *mark = view->marks + walk->mark + !walk->is_first;
  const uint8_t *text = view->text;
  if (walk->mark + 6 > view->count || memcmp(text + mark[0] + 1, "args", 4) || mark[1] != mark[0] + 5) return false;
  if (!walk->is_first && (mark[-1] != walk->at || text[walk->at] != ',')) return false;
  if (text[mark[0]] != '"' || mark[2] != mark[1] + 1 || text[mark[2]] != ':' || text[mark[3]] != '{') return false;
  *brace = mark + 3;
  return fp_json_after_blanks(text, walk->at + !walk->is_first, mark[0]) == mark[0] &&
         fp_json_after_blanks(text, mark[2] + 1, mark[3]) == mark[3];
}

/* Steps over args, and lists their members. False: they do not end here, or anything is unusual; nothing has changed. */
static bool list_args(const fp_json_view *view, fp_json_walk *walk, fp_memory *memory, fp_vector *pairs, chrome_event *event) {
  const uint32_t *brace;
  size_t before = pairs->count;
  if (event->present >> FIELD_ARGS & 1 || !is_at_args(view, walk, &brace)) return false;
  uint32_t first = (uint32_t)(brace + 1 - view->marks);
  fp_json_walk inner = {*brace + 1, first, true};
  for (;;) {
    if (pairs->count == pairs->capacity && !fp_vector_reserve(memory, pairs, sizeof(chrome_pair), 1)) break;
    chrome_pair *pair = (chrome_pair *)pairs->items + pairs->count;
    fp_json_step step = fp_json_next_member(view, &inner, &pair->key, &pair->value);
    if (step == FP_WALK_END) {
      event->fields[FIELD_ARGS] = (fp_json_value){*brace, inner.at, first, FP_JSON_OBJECT};
      event->present |= UINT32_C(1) << FIELD_ARGS;
      event->has_fields = event->is_listed = true;
      *walk = (fp_json_walk){inner.at, inner.mark, false};
      return true;
    }
    bool is_nested = step == FP_WALK_ITEM && pair->value.kind >= FP_JSON_OBJECT;
    if (step != FP_WALK_ITEM || (is_nested && pair->value.to - pair->value.from >= 2 * FP_JSON_DEEPEST)) break;
    pairs->count++;
  }
  pairs->count = before;
  return false;
}

fp_json_step chrome_read_fields(const fp_json_view *view, fp_json_walk *walk, uint64_t offset, fp_bytes *name, fp_vector *pairs,
                                chrome_event *event) {
  fp_json_value key, value;
  fp_json_step step;
  chrome_begin_event(event, view, offset);
  for (;;) {
    if (pairs && list_args(view, walk, name->memory, pairs, event)) continue;
    step = fp_json_next_member(view, walk, &key, &value);
    if (step != FP_WALK_ITEM && step != FP_WALK_DEEP) break;
    event->is_deep |= step == FP_WALK_DEEP;
    keep_field(event, &key, &value, name);
  }
  event->times.has_at = chrome_read_time(view, &event->fields[FIELD_TS], &event->times.at);
  event->times.has_ps = chrome_read_ps(view, &event->fields[FIELD_DUR], &event->times.ps);
  return step;
}

bool chrome_take_fields(fp_chrome *chrome, chrome_event *event, uint32_t *at) {
  uint64_t offset = event->offset;
  if (chrome->is_empty_before) chrome_remark(chrome, CHROME_EMPTY_EVENT, chrome->empty_offset, 1);
  chrome->is_empty_before = !event->has_fields;
  chrome->empty_offset = chrome->offset = offset;
  chrome->has_events |= event->present & 1;
  chrome->object_count += event->has_fields;
  if (!event->has_fields) return true;
  if (event->is_deep) {
    chrome_remark(chrome, CHROME_TOO_DEEP, offset, 1);
    return true;
  }
  if (!take(chrome, event, at)) return false;
  if (event->is_twice) chrome_remark(chrome, CHROME_DUPLICATE_KEY, offset, 1);
  return true;
}

fp_json_step chrome_take_event(void *context, const fp_json_view *view, fp_json_walk *walk, uint64_t offset) {
  fp_chrome *chrome = context;
  chrome_event event;
  uint32_t at = 0;
  fp_json_step step = chrome_read_fields(view, walk, offset, &chrome->field_name, NULL, &event);
  chrome->failed |= chrome->field_name.failed;
  if (step != FP_WALK_END || chrome_take_fields(chrome, &event, &at)) return step;
  walk->at = at;
  return FP_WALK_FAULT;
}
