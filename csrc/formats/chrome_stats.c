/* Stats of events: a member of args is an XStat of the kind that its value has.
 *
 *    "args": {"a": 1, "b": "x", "a": 2.5}     ->     a: double 2.5, b: str x, and a remark
 *
 * Events of one category have the same args in the same order, so the name that came behind a name the last time is
 * tried before the table of names. */
#include "formats/chrome_stats.h"
#include "formats/json_values.h"
#include "formats/proto_write.h"

enum { EVENT_STATS = 4, STAT_NAME = 1, STAT_DOUBLE = 2, STAT_UINT = 3, STAT_INT = 4, STAT_TEXT = 5, STAT_REF = 7, MOST_OF_HEAD = 40 };

/* The columns that are kept by name grow with the pool of names. */
static int32_t added_name(fp_chrome *chrome, const uint8_t *text, size_t length) {
  int32_t number = fp_strings_add(&chrome->stats, text, length);
  while (number >= 0 && (size_t)number >= chrome->next_stat.count) {
    chrome_next_stat *next = fp_vector_add(chrome->memory, &chrome->next_stat, sizeof *next);
    bool has_room = next && fp_vector_add(chrome->memory, &chrome->stat_uses, sizeof(chrome_stat_use));
    if (!has_room) {
      chrome->failed = true;
      return -1;
    }
    memset(next, 0xFF, sizeof *next);
    fp_bytes_byte(&chrome->arg_of, (uint8_t)chrome_arg_of(chrome->dialect, text, length));
  }
  if (number < 0 || chrome->arg_of.failed) chrome->failed = true;
  return chrome->failed ? -1 : number;
}

int32_t chrome_stat_number(fp_chrome *chrome, const char *name) {
  return added_name(chrome, (const uint8_t *)name, strlen(name));
}

int32_t chrome_word_number(fp_chrome *chrome, chrome_word word) {
  static const char *const names[WORDS] = {
      [WORD_ID] = "id", [WORD_ID2] = "id2", [WORD_SCOPE] = "scope", [WORD_S] = "s", [WORD_BP] = "bp", [WORD_CNAME] = "cname",
      [WORD_THREAD_START] = "thread_start_ps", [WORD_THREAD_DURATION] = "thread_duration_ps", [WORD_STACK] = "stack",
      [WORD_END_STACK] = "end_stack", [WORD_UNFINISHED] = "unfinished", [WORD_OBJECT] = "object",
      [WORD_CONTEXT] = "context", [WORD_ARGS] = "args", [WORD_ASYNC] = "_a", [WORD_CAT] = "cat", [WORD_STEP] = "step",
      [WORD_STEP_NUM] = "step_num", [WORD_ROOT] = "_r", [WORD_CORRELATION_ID] = "correlation_id",
      [WORD_KERNEL_DETAILS] = "kernel_details", [WORD_MEMCPY_DETAILS] = "memcpy_details",
      [WORD_PROFILER_RANGE] = "profiler_range", [WORD_TF_OP] = "tf_op"};
  if (chrome->words[word] < 0) chrome->words[word] = chrome_stat_number(chrome, names[word]);
  return chrome->words[word];
}

/* Where the name that is expected now is kept. */
static int32_t *expected_stat(fp_chrome *chrome) {
  chrome_next_stat *next = chrome->next_stat.items;
  return &(chrome->before_stat < 0 ? &chrome->first_stat : &next[chrome->before_stat])->numbers[chrome->stat_kind];
}

/* A name that is guessed is written as it is, without escapes. */
int32_t chrome_stat_name(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *key) {
  const uint8_t *raw = view->text + key->from;
  size_t length = key->to - key->from, known;
  int32_t guess = *expected_stat(chrome);
  if (guess >= 0) {
    const uint8_t *name = chrome_string(&chrome->stats, guess, &known);
    if (known == length && chrome_is_equal(name, raw, length)) return chrome->before_stat = guess;
  }
  const uint8_t *text = chrome_text(chrome, view, key, &length);
  int32_t number = added_name(chrome, text, length);
  if (number < 0) return -1;
  if (text == raw) *expected_stat(chrome) = number;
  return chrome->before_stat = number;
}

void chrome_begin_stats(fp_chrome *chrome) {
  chrome->event_stats.size = chrome->stat_list.count = 0;
  chrome->are_scattered = false;
  chrome->event_number++;
  chrome->before_stat = -1;
}

/* ---- XStats ---- */

/* The beginning of an XStat whose value takes `value_size` bytes: its tag, its length, the id of its name. */
static inline uint8_t *put_stat_head(uint8_t *to, int32_t name, size_t value_size) {
  uint64_t id = (uint64_t)(uint32_t)name + 1;
  *to++ = WIRE_TAG(EVENT_STATS, WIRE_LEN);
  to = proto_varint_at(to, 1 + proto_varint_size(id) + value_size);
  *to++ = WIRE_TAG(STAT_NAME, WIRE_VARINT);
  return proto_varint_at(to, id);
}

/* A stat without a value. */
static void put_empty_stat(fp_bytes *out, int32_t name) {
  uint8_t *room = fp_bytes_room(out, MOST_OF_HEAD);
  if (room) out->size += (size_t)(put_stat_head(room, name, 0) - room);
}

void chrome_put_stat_text(fp_bytes *out, int32_t name, const uint8_t *text, size_t length) {
  uint8_t *room = fp_bytes_room(out, MOST_OF_HEAD + length);
  if (!room) return;
  uint8_t *to = put_stat_head(room, name, 1 + proto_varint_size(length) + length);
  *to++ = WIRE_TAG(STAT_TEXT, WIRE_LEN);
  to = proto_varint_at(to, length);
  if (length) memcpy(to, text, length);
  out->size += (size_t)(to + length - room);
}

static void put_stat_number(fp_bytes *out, int32_t name, uint32_t field, uint64_t value) {
  uint8_t *room = fp_bytes_room(out, MOST_OF_HEAD);
  if (!room) return;
  uint8_t *to = put_stat_head(room, name, 1 + proto_varint_size(value));
  *to++ = (uint8_t)WIRE_TAG(field, WIRE_VARINT);
  out->size += (size_t)(proto_varint_at(to, value) - room);
}

void chrome_put_stat_int(fp_bytes *out, int32_t name, int64_t value) {
  put_stat_number(out, name, STAT_INT, (uint64_t)value);
}

static void put_stat_double(fp_bytes *out, int32_t name, double value) {
  uint8_t *room = fp_bytes_room(out, MOST_OF_HEAD);
  if (!room) return;
  out->size += (size_t)(put_stat_head(room, name, 9) - room);
  proto_put_double(out, STAT_DOUBLE, value);
}

/* The usual number: up to 18 digits. */
static bool put_small(fp_bytes *out, int32_t name, const uint8_t *text, size_t length) {
  uint64_t value = 0;
  if (length > 18 || (length > 1 && *text == '0')) return false;
  for (size_t i = 0; i < length; i++) {
    uint8_t digit = (uint8_t)(text[i] - '0');
    if (digit > 9) return false;
    value = value * 10 + digit;
  }
  put_stat_number(out, name, STAT_INT, value);
  return true;
}

/* A number by its kind. False: it is none. */
static bool put_number(fp_chrome *chrome, fp_bytes *out, int32_t name, const uint8_t *text, size_t length) {
  if (length && put_small(out, name, text, length)) return true;
  fp_json_number number = fp_json_read_number(text, length);
  switch (number.kind) {
    case FP_JSON_NO_NUMBER: return false;
    case FP_JSON_INT: chrome_put_stat_int(out, name, (int64_t)number.bits); break;
    case FP_JSON_UINT: put_stat_number(out, name, STAT_UINT, number.bits); break;
    case FP_JSON_DOUBLE: put_stat_double(out, name, number.value); break;
    case FP_JSON_DIGITS:
      chrome_put_stat_text(out, name, text, length);
      chrome_remark(chrome, CHROME_BIG_NUMBER, chrome->offset, 1);
      break;
  }
  return true;
}

static void put_text(fp_chrome *chrome, fp_bytes *out, int32_t name, const fp_json_view *view, const fp_json_value *value) {
  size_t length;
  const uint8_t *text = chrome_text(chrome, view, value, &length);
  bool is_number = chrome->arg_of.data[name] == ARG_NUMERIC || chrome->arg_of.data[name] == ARG_STEP_NUM;
  if (is_number && put_number(chrome, out, name, text, length)) return;
  chrome_put_stat_text(out, name, text, length);
}

bool chrome_put_stat(fp_chrome *chrome, fp_bytes *out, int32_t name, const fp_json_view *view, const fp_json_value *value,
                     uint32_t *at) {
  const uint8_t *text = view->text + value->from;
  size_t length = value->to - value->from;
  fp_json_bad_text bad = {0};
  double infinite;
  *at = value->from;
  switch (value->kind) {
    case FP_JSON_TEXT: put_text(chrome, out, name, view, value); return true;
    case FP_JSON_FINITE: return put_number(chrome, out, name, text, length);
    case FP_JSON_NONFINITE:
      fp_json_read_nonfinite(text, length, &infinite);
      put_stat_double(out, name, infinite);
      chrome_remark(chrome, CHROME_NONFINITE, chrome->offset, 1);
      return true;
    case FP_JSON_TRUE:
    case FP_JSON_FALSE: chrome_put_stat_int(out, name, value->kind == FP_JSON_TRUE); return true;
    case FP_JSON_NULL:
    case FP_JSON_NOTHING: put_empty_stat(out, name); return true;
    default: break;
  }
  chrome->decoded.size = 0;
  if (!fp_json_compact(&chrome->decoded, view, value, SIZE_MAX, &bad, at)) return false;
  chrome_remark_text(chrome, &bad, chrome->offset);
  chrome->failed |= chrome->decoded.failed;
  chrome_put_stat_text(out, name, chrome->decoded.data, chrome->decoded.size);
  return true;
}

bool chrome_next_written(const uint8_t **p, const uint8_t *end, chrome_written *stat) {
  uint64_t length, name;
  if (*p >= end) return false;
  stat->begin = (*p)++;
  if (!wire_varint(p, end, &length)) return false;
  stat->fields = (*p)++;
  stat->end = stat->fields + length;
  if (!wire_varint(p, end, &name)) return false;
  stat->name = (int32_t)name - 1;
  stat->value = *p;
  *p = stat->end;
  return true;
}

/* ---- stats of the event ---- */

static chrome_stat_use *use_of(const fp_chrome *chrome, int32_t name) {
  return (chrome_stat_use *)chrome->stat_uses.items + name;
}

static bool has_stat(const fp_chrome *chrome, int32_t name) {
  return use_of(chrome, name)->event == chrome->event_number;
}

void chrome_keep_last(fp_chrome *chrome, fp_bytes *stats) {
  if (!stats->size || stats->failed) return;
  const uint8_t *p = stats->data, *end = p + stats->size;
  uint8_t *to = stats->data;
  chrome_written stat;
  for (uint32_t place = 0; chrome_next_written(&p, end, &stat); place++) use_of(chrome, stat.name)->place = place;
  p = stats->data;
  for (uint32_t place = 0; chrome_next_written(&p, end, &stat); place++) {
    if (use_of(chrome, stat.name)->place != place) continue;
    memmove(to, stat.begin, (size_t)(stat.end - stat.begin));
    to += stat.end - stat.begin;
  }
  stats->size = (size_t)(to - stats->data);
}

bool chrome_is_again(fp_chrome *chrome, int32_t name) {
  bool is_again = has_stat(chrome, name);
  use_of(chrome, name)->event = chrome->event_number;
  return is_again;
}

/* Notes the last stat, which begins at `from`. One of its name gives it its place. */
static void keep_stat(fp_chrome *chrome, int32_t name, size_t from) {
  chrome_stat *stat;
  chrome_stat_use *use = use_of(chrome, name);
  if (chrome->event_stats.failed) return;
  if (has_stat(chrome, name)) {
    stat = (chrome_stat *)chrome->stat_list.items + use->place;
    chrome->are_scattered = true;
  } else {
    use->event = chrome->event_number;
    use->place = (uint32_t)chrome->stat_list.count;
    if (chrome->stat_list.count < chrome->stat_list.capacity)
      stat = (chrome_stat *)chrome->stat_list.items + chrome->stat_list.count++;
    else
      stat = fp_vector_add(chrome->memory, &chrome->stat_list, sizeof *stat);
  }
  if (stat) *stat = (chrome_stat){name, (uint32_t)(chrome->event_stats.size - from), from};
  else chrome->failed = true;
}

/* Puts the stats in the order of the list, without those that were replaced. */
static void gather_stats(fp_chrome *chrome) {
  fp_bytes gathered = {.memory = chrome->memory};
  chrome_stat *list = chrome->stat_list.items;
  if (!chrome->are_scattered) return;
  chrome->are_scattered = false;
  for (size_t i = 0; i < chrome->stat_list.count; i++) {
    size_t from = gathered.size;
    fp_bytes_put(&gathered, chrome->event_stats.data + list[i].from, list[i].size);
    list[i].from = from;
  }
  chrome->failed |= gathered.failed;
  fp_bytes_free(&chrome->event_stats);
  chrome->event_stats = gathered;
}

/* The next member of args, from the list or the text. */
static inline fp_json_step next_arg(const chrome_event *event, fp_json_walk *walk, size_t *number, fp_json_value *key,
                                    fp_json_value *value) {
  if (!event->is_listed) return fp_json_next_member(event->view, walk, key, value);
  if (*number == event->pair_count) return FP_WALK_END;
  *key = event->pairs[*number].key;
  *value = event->pairs[(*number)++].value;
  return FP_WALK_ITEM;
}

bool chrome_add_args(fp_chrome *chrome, chrome_event *event, uint32_t *at) {
  const fp_json_value *args = &event->fields[FIELD_ARGS];
  fp_bytes *out = &chrome->event_stats;
  fp_json_value key, value;
  fp_json_step step;
  size_t from = out->size, number = 0;
  if (args->kind == FP_JSON_NOTHING) return true;
  if (args->kind != FP_JSON_OBJECT) {
    int32_t name = chrome_word_number(chrome, WORD_ARGS);
    if (name < 0 || !chrome_put_stat(chrome, out, name, event->view, args, at)) return chrome->failed;
    keep_stat(chrome, name, from);
    return true;
  }
  fp_json_walk walk = fp_json_into(args);
  while ((step = next_arg(event, &walk, &number, &key, &value)) == FP_WALK_ITEM) {
    int32_t name = chrome_stat_name(chrome, event->view, &key);
    from = out->size;
    if (name < 0) return true;
    if (!chrome_put_stat(chrome, out, name, event->view, &value, at)) return false;
    if (has_stat(chrome, name)) chrome_remark(chrome, CHROME_DUPLICATE_KEY, chrome->offset, 1);
    keep_stat(chrome, name, from);
    uint8_t arg = chrome->arg_of.data[name];
    if (arg <= ARG_NUMERIC) continue;
    event->args[arg] = value;
    event->args_found |= UINT32_C(1) << arg;
  }
  gather_stats(chrome);
  *at = walk.at;
  return step == FP_WALK_END;
}

/* The name of a field's stat: args may have taken its own. */
static int32_t free_name(fp_chrome *chrome, int32_t name) {
  size_t length;
  if (name < 0 || !has_stat(chrome, name)) return name;
  fp_bytes other = {.memory = chrome->memory};
  fp_bytes_text(&other, "event.");
  const uint8_t *text = chrome_string(&chrome->stats, name, &length);
  fp_bytes_put(&other, text, length);
  name = other.failed ? -1 : added_name(chrome, other.data, other.size);
  if (other.failed) chrome->failed = true;
  fp_bytes_free(&other);
  return name;
}

static int32_t field_name(fp_chrome *chrome, chrome_word word) {
  return free_name(chrome, chrome_word_number(chrome, word));
}

void chrome_add_field_text(fp_chrome *chrome, chrome_word word, const uint8_t *text, size_t length) {
  int32_t name = field_name(chrome, word);
  size_t from = chrome->event_stats.size;
  if (name < 0) return;
  chrome_put_stat_text(&chrome->event_stats, name, text, length);
  keep_stat(chrome, name, from);
  gather_stats(chrome);
}

void chrome_add_field_int(fp_chrome *chrome, chrome_word word, int64_t value) {
  int32_t name = field_name(chrome, word);
  size_t from = chrome->event_stats.size;
  if (name < 0) return;
  chrome_put_stat_int(&chrome->event_stats, name, value);
  keep_stat(chrome, name, from);
  gather_stats(chrome);
}

void chrome_add_derived_text(fp_chrome *chrome, chrome_word word, const uint8_t *text, size_t length) {
  int32_t name = chrome_word_number(chrome, word);
  if (name >= 0 && !has_stat(chrome, name)) chrome_add_field_text(chrome, word, text, length);
}

void chrome_add_derived_int(fp_chrome *chrome, chrome_word word, int64_t value) {
  int32_t name = chrome_word_number(chrome, word);
  if (name >= 0 && !has_stat(chrome, name)) chrome_add_field_int(chrome, word, value);
}

void chrome_add_frame(fp_chrome *chrome, chrome_word word, chrome_id frame) {
  fp_bytes text = {.memory = chrome->memory};
  int32_t name = field_name(chrome, word), stat = -1;
  fp_bytes_text(&text, "stack frame ");
  chrome_put_id(chrome, &text, frame);
  size_t known = fp_strings_count(&chrome->stats), from = chrome->event_stats.size;
  if (!text.failed) stat = added_name(chrome, text.data, text.size);
  if (stat >= 0 && (size_t)stat == known) {
    chrome_frame *fresh = fp_vector_add(chrome->memory, &chrome->frames, sizeof *fresh);
    if (fresh) *fresh = (chrome_frame){frame, stat};
    else chrome->failed = true;
  }
  chrome->failed |= text.failed;
  fp_bytes_free(&text);
  if (name < 0 || stat < 0) return;
  put_stat_number(&chrome->event_stats, name, STAT_REF, (uint64_t)stat + 1);
  keep_stat(chrome, name, from);
  gather_stats(chrome);
}

/* ---- counters ---- */

/* A value of a counter: numbers, and texts that are some. TF1 writes texts, too. */
static bool put_series(fp_chrome *chrome, int32_t name, const chrome_event *event, const fp_json_value *value, uint32_t *at) {
  fp_bytes *out = &chrome->event_stats;
  size_t length;
  if (value->kind == FP_JSON_TEXT) {
    const uint8_t *text = chrome_text(chrome, event->view, value, &length);
    if (put_number(chrome, out, name, text, length)) return true;
    if (chrome->dialect == CHROME_TF1) return chrome_put_stat(chrome, out, name, event->view, value, at);
  } else if (value->kind != FP_JSON_OBJECT && value->kind != FP_JSON_ARRAY && value->kind != FP_JSON_NULL) {
    return chrome_put_stat(chrome, out, name, event->view, value, at);
  }
  if (value->kind != FP_JSON_NULL) chrome_remark(chrome, CHROME_BAD_COUNTER, chrome->offset, 1);
  return true;
}

bool chrome_add_series(fp_chrome *chrome, const chrome_event *event, uint32_t *at) {
  const fp_json_value *args = &event->fields[FIELD_ARGS];
  fp_json_value key, value;
  fp_json_step step;
  size_t length;
  if (args->kind != FP_JSON_OBJECT) return true;
  fp_json_walk walk = fp_json_into(args);
  while ((step = fp_json_next_member(event->view, &walk, &key, &value)) == FP_WALK_ITEM) {
    int32_t name;
    if (key.from == key.to) { /* a counter of one series, which is called like it */
      const uint8_t *text = chrome_string(&chrome->names, event->name, &length);
      name = added_name(chrome, text, length);
    } else {
      name = chrome_stat_name(chrome, event->view, &key);
    }
    size_t from = chrome->event_stats.size;
    if (name < 0) return true;
    if (!put_series(chrome, name, event, &value, at)) return false;
    bool is_again = has_stat(chrome, name);
    if (is_again) chrome_remark(chrome, CHROME_DUPLICATE_KEY, chrome->offset, 1);
    if (is_again || chrome->event_stats.size > from) keep_stat(chrome, name, from);
  }
  gather_stats(chrome);
  *at = walk.at;
  return step == FP_WALK_END;
}

void chrome_add_written(fp_chrome *chrome, const uint8_t *p, size_t size, bool are_fields) {
  fp_bytes *out = &chrome->event_stats;
  const uint8_t *end = p + size;
  chrome_written stat;
  while (size && chrome_next_written(&p, end, &stat)) {
    size_t from = out->size, value_size = (size_t)(stat.end - stat.value);
    int32_t named = are_fields ? free_name(chrome, stat.name) : stat.name;
    uint8_t *room = fp_bytes_room(out, MOST_OF_HEAD + value_size);
    if (named < 0 || !room) return;
    uint8_t *to = put_stat_head(room, named, value_size);
    if (value_size) memcpy(to, stat.value, value_size);
    out->size += (size_t)(to + value_size - room);
    keep_stat(chrome, named, from);
  }
  gather_stats(chrome);
}
