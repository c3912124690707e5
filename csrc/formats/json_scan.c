/* A document is read by its state; each state looks at the next byte that is not blank:
 *
 *    AT_DOCUMENT --[-->  AT_EVENT <--------------------- traceEvents: [ ----------.
 *         |                  '--- ] ---> AT_DOCUMENT or AT_MEMBER                  |
 *         '------{-->  AT_MEMBER --"key":--> AT_VALUE --other--> IN_VALUE --> AT_MEMBER
 *
 *    a fault, salvaged: LOOKING for a brace behind , [ or }, then TRYING whether an event begins there
 *
 * A value other than an event is read mark by mark, so that it may be of any length; what is kept of it is cut.
 *
 * The text that is kept begins at a multiple of 64 bytes of what has been pushed, as blocks of the index do. */
#include "formats/json_scan.h"

/* Nothing more can be done until the item at the walk has twice its bytes. */
static fp_json_step wait(fp_json_scan *scan) {
  scan->retry_at = scan->text.size + (scan->text.size - scan->walk.at) + 1;
  return FP_WALK_MORE;
}

/* The next byte that is not blank; -1: there is none yet. Blanks up to the end are indexed, so that none is held. */
static int peek(fp_json_scan *scan) {
  const uint8_t *text = scan->text.data;
  while (scan->walk.at < scan->text.size && fp_json_is_blank(text[scan->walk.at])) scan->walk.at++;
  if (scan->walk.at < scan->text.size) return text[scan->walk.at];
  while (!scan->ended && fp_json_index_more(scan)) continue;
  return -1;
}

/* Whether `count` marks from the walk on are known. */
static bool have_marks(fp_json_scan *scan, size_t count) {
  while (scan->mark_count - scan->walk.mark < count)
    if (!fp_json_index_more(scan)) return false;
  return true;
}

/* Steps over the mark at the walk. */
static fp_json_step over_mark(fp_json_scan *scan, fp_json_state next) {
  if (!have_marks(scan, 1)) return wait(scan);
  scan->walk.at++;
  scan->walk.mark++;
  scan->state = next;
  return FP_WALK_ITEM;
}

/* Steps over a comma. */
static fp_json_step over_comma(fp_json_scan *scan) {
  uint64_t offset = scan->base + scan->walk.at;
  if (!scan->is_owed && !scan->is_fresh) return FP_WALK_FAULT;
  bool is_leading = !scan->is_owed;
  fp_json_step step = over_mark(scan, scan->state);
  if (step != FP_WALK_ITEM) return step;
  if (is_leading) scan->handlers->remark(scan->context, FP_JSON_EXTRA_COMMA, offset, 1);
  scan->is_owed = scan->is_fresh = false;
  return step;
}

/* ---- states ---- */

static void begin_items(fp_json_scan *scan) {
  scan->is_fresh = true;
  scan->is_owed = false;
}

static fp_json_step at_document(fp_json_scan *scan) {
  static const uint8_t mark[] = {0xEF, 0xBB, 0xBF};
  uint64_t offset = scan->base + scan->walk.at;
  if (!offset && scan->text.size < sizeof mark && !scan->ended) return FP_WALK_MORE;
  if (!offset && scan->text.size >= sizeof mark && !memcmp(scan->text.data, mark, sizeof mark)) scan->walk.at = sizeof mark;
  int byte = peek(scan);
  if (byte < 0) return FP_WALK_MORE;
  if (!byte && scan->documents) {
    scan->walk.at++;
    return FP_WALK_ITEM;
  }
  if (byte != '{' && byte != '[') return FP_WALK_FAULT;
  offset = scan->base + scan->walk.at;
  fp_json_step step = over_mark(scan, byte == '[' ? FP_JSON_AT_EVENT : FP_JSON_AT_MEMBER);
  if (step != FP_WALK_ITEM) return step;
  if (scan->documents++) scan->handlers->remark(scan->context, FP_JSON_SEVERAL_DOCUMENTS, offset, 1);
  scan->is_array = scan->had_events = byte == '[';
  begin_items(scan);
  return step;
}

static fp_json_step at_member(fp_json_scan *scan) {
  int byte = peek(scan);
  if (byte < 0) return FP_WALK_MORE;
  if (byte == '}') return over_mark(scan, FP_JSON_AT_DOCUMENT);
  if (byte == ',') return over_comma(scan);
  if (byte != '"' || scan->is_owed) return FP_WALK_FAULT;
  if (!have_marks(scan, 3)) return wait(scan);
  const fp_json_view view = {scan->text.data, scan->marks, scan->has, scan->mark_count};
  fp_json_value key;
  fp_json_step step = fp_json_step_over(&view, &scan->walk, &key);
  if (step != FP_WALK_ITEM) return step;
  if (peek(scan) != ':') return FP_WALK_FAULT;
  scan->key.size = 0;
  fp_bytes_put(&scan->key, scan->text.data + key.from, key.to - key.from);
  return over_mark(scan, FP_JSON_AT_VALUE);
}

static bool is_events(const fp_json_scan *scan) {
  static const char name[] = "traceEvents";
  return scan->key.size == sizeof name - 1 && !memcmp(scan->key.data, name, sizeof name - 1);
}

static fp_json_step at_value(fp_json_scan *scan) {
  int byte = peek(scan);
  if (byte < 0) return FP_WALK_MORE;
  if (byte == '[' && is_events(scan)) {
    uint64_t offset = scan->base + scan->walk.at;
    fp_json_step step = over_mark(scan, FP_JSON_AT_EVENT);
    if (step != FP_WALK_ITEM) return step;
    if (scan->had_events) scan->handlers->remark(scan->context, FP_JSON_SEVERAL_ARRAYS, offset, 1);
    scan->had_events = true;
    begin_items(scan);
    return step;
  }
  scan->value.size = scan->value_depth = 0;
  scan->value_quoted = scan->value_cut = false;
  scan->state = FP_JSON_IN_VALUE;
  return FP_WALK_ITEM;
}

/* Stacks are looked up by id, so they are kept as a whole. */
static size_t most_kept(const fp_json_scan *scan) {
  static const char name[] = "stackFrames";
  bool is_stacks = scan->key.size == sizeof name - 1 && !memcmp(scan->key.data, name, sizeof name - 1);
  return is_stacks ? FP_JSON_KEPT_STACKS : FP_JSON_KEPT_VALUE;
}

/* Keeps the text up to a place, and steps over it. */
static void keep_value(fp_json_scan *scan, size_t to) {
  size_t length = to - scan->walk.at, left = most_kept(scan) - scan->value.size;
  if (length > left) length = left, scan->value_cut = true;
  fp_bytes_put(&scan->value, scan->text.data + scan->walk.at, length);
  scan->walk.at = (uint32_t)to;
}

/* Follows the value over the known marks. END: it ends before or with the mark before the walk's. */
static fp_json_step follow_value(fp_json_scan *scan) {
  for (; scan->walk.mark < scan->mark_count; scan->walk.mark++) {
    uint32_t mark = scan->marks[scan->walk.mark];
    uint8_t byte = scan->text.data[mark];
    bool ends = false;
    if (scan->value_quoted) {
      scan->value_quoted = false;
      ends = !scan->value_depth;
    } else if (byte == '"') {
      scan->value_quoted = true;
    } else if (byte == '{' || byte == '[') {
      scan->value_depth++;
    } else if (!scan->value_depth) { /* the end of a number or word */
      keep_value(scan, mark);
      return FP_WALK_END;
    } else if (byte == '}' || byte == ']') {
      ends = !--scan->value_depth;
    }
    if (!ends) continue;
    keep_value(scan, mark + 1);
    scan->walk.mark++;
    return FP_WALK_END;
  }
  return FP_WALK_MORE;
}

static fp_json_step in_value(fp_json_scan *scan) {
  while (follow_value(scan) != FP_WALK_END) {
    size_t known = scan->indexed < scan->text.size ? scan->indexed : scan->text.size;
    if (known > scan->walk.at) keep_value(scan, known);
    if (!fp_json_index_more(scan)) return FP_WALK_MORE;
  }
  scan->is_owed = true;
  scan->is_fresh = false;
  bool is_json = scan->handlers->member(scan->context, scan->key.data, scan->key.size, scan->value.data, scan->value.size,
                                        !scan->value_cut);
  scan->state = FP_JSON_AT_MEMBER;
  return is_json ? FP_WALK_ITEM : FP_WALK_FAULT;
}

/* Takes the event at the walk. */
static fp_json_step take_event(fp_json_scan *scan) {
  for (;;) {
    if (have_marks(scan, 1)) {
      const fp_json_view view = {scan->text.data, scan->marks, scan->has, scan->mark_count};
      fp_json_walk walk = {scan->walk.at + 1, scan->walk.mark + 1, true};
      fp_json_step step = scan->handlers->event(scan->context, &view, &walk, scan->base + scan->walk.at);
      if (step == FP_WALK_END) {
        scan->walk = walk;
        scan->last_event_end = scan->base + walk.at;
        scan->is_owed = true;
        return FP_WALK_ITEM;
      }
      if (step == FP_WALK_FAULT) scan->fault_at = walk.at;
      if (step != FP_WALK_MORE) return step;
    }
    if (!fp_json_index_more(scan)) return wait(scan);
  }
}

/* Steps over an item of the events other than an object. */
static fp_json_step over_stray(fp_json_scan *scan) {
  uint64_t offset = scan->base + scan->walk.at;
  for (;;) {
    const fp_json_view view = {scan->text.data, scan->marks, scan->has, scan->mark_count};
    fp_json_walk walk = scan->walk;
    fp_json_value value;
    fp_json_step step = fp_json_step_over(&view, &walk, &value);
    if (step == FP_WALK_FAULT) scan->fault_at = walk.at;
    if (step == FP_WALK_FAULT) return step;
    if (step != FP_WALK_MORE) {
      scan->walk = walk;
      scan->is_owed = true;
      scan->handlers->remark(scan->context, FP_JSON_STRAY_ITEM, offset, 1);
      return FP_WALK_ITEM;
    }
    if (!fp_json_index_more(scan)) return wait(scan);
  }
}

static fp_json_step at_event(fp_json_scan *scan) {
  int byte = peek(scan);
  if (byte < 0) return FP_WALK_MORE;
  if (byte == ',') return over_comma(scan);
  if (byte == ']') {
    fp_json_step step = over_mark(scan, scan->is_array ? FP_JSON_AT_DOCUMENT : FP_JSON_AT_MEMBER);
    if (step == FP_WALK_ITEM) scan->is_owed = true, scan->is_fresh = false;
    return step;
  }
  if (!byte && scan->is_array) { /* what pads a file, behind an array without its end */
    scan->state = FP_JSON_AT_DOCUMENT;
    return FP_WALK_ITEM;
  }
  if (scan->is_owed || byte == '}' || byte == ':') return FP_WALK_FAULT;
  scan->is_fresh = false;
  return byte == '{' ? take_event(scan) : over_stray(scan);
}

/* ---- salvage ---- */

enum { DEEPEST_SALVAGED = 64 };

/* Looks for a brace where an event can begin, and has the index begin there. */
static fp_json_step look(fp_json_scan *scan) {
  const uint8_t *text = scan->text.data;
  size_t at = scan->walk.at, size = scan->text.size;
  for (; at < size; at++) {
    uint8_t byte = text[at];
    if (byte == '{' && (scan->before == ',' || scan->before == '[' || scan->before == '}')) break;
    if (!fp_json_is_blank(byte)) scan->before = byte;
  }
  bool found = at < size;
  scan->walk = (fp_json_walk){(uint32_t)at, 0, true};
  scan->mark_count = 0;
  scan->indexed = at & ~(size_t)(FP_JSON_BLOCK - 1);
  scan->restarted = true;
  scan->index.in_string = scan->index.escaped = 0;
  if (!found) return FP_WALK_MORE;
  scan->state = FP_JSON_TRYING;
  return FP_WALK_ITEM;
}

/* Whether brackets from the walk on are nested deeper than in any event. Without this check, each of many nested objects
 * would be read to its end, or to the end of the text. */
static bool is_deep(const fp_json_scan *scan) {
  uint32_t depth = 0;
  for (size_t i = scan->walk.mark; i < scan->mark_count; i++) {
    uint8_t byte = scan->text.data[scan->marks[i]];
    if (byte == '"') i++;
    else if ((byte == '{' || byte == '[') && ++depth > DEEPEST_SALVAGED) return true;
    else if ((byte == '}' || byte == ']') && !--depth) return false;
  }
  return false;
}

/* Whether the object at the walk is an event. END: it is; FAULT: it is not. */
static fp_json_step probe(const fp_json_scan *scan) {
  if (is_deep(scan)) return FP_WALK_FAULT;
  const fp_json_view view = {scan->text.data, scan->marks, scan->has, scan->mark_count};
  fp_json_walk walk = {scan->walk.at + 1, scan->walk.mark + 1, true};
  fp_json_value key, value;
  bool has_phase = false;
  for (;;) {
    fp_json_step step = fp_json_member(&view, &walk, &key, &value);
    if (step == FP_WALK_END) return has_phase ? step : FP_WALK_FAULT;
    if (step != FP_WALK_ITEM) return step;
    has_phase |= key.to - key.from == 2 && view.text[key.from] == 'p' && view.text[key.from + 1] == 'h';
  }
}

static fp_json_step try_event(fp_json_scan *scan) {
  for (;;) {
    fp_json_step step = have_marks(scan, 1) ? probe(scan) : FP_WALK_MORE;
    if (step == FP_WALK_END) {
      uint64_t at = scan->base + scan->walk.at;
      uint64_t lost = at - scan->lost_from; /* 0: a comma that is not there */
      scan->handlers->remark(scan->context, FP_JSON_LOST, scan->lost_from, lost ? lost : 1);
      scan->state = FP_JSON_AT_EVENT;
      scan->is_owed = scan->is_fresh = false;
      return FP_WALK_ITEM;
    }
    if (step == FP_WALK_MORE && fp_json_index_more(scan)) continue;
    if (step == FP_WALK_MORE && !scan->ended) return wait(scan);
    scan->before = '{';
    scan->walk.at++;
    scan->state = FP_JSON_LOOKING;
    return FP_WALK_ITEM;
  }
}

/* Passes over a fault, whose item begins at the walk. An event that only lacks the comma before it may begin here. */
static void pass_over(fp_json_scan *scan) {
  bool lacks_comma = scan->state == FP_JSON_AT_EVENT && scan->is_owed;
  scan->lost_from = scan->base + scan->walk.at;
  scan->before = lacks_comma ? '}' : 0;
  if (!lacks_comma && scan->walk.at < scan->text.size) scan->before = scan->text.data[scan->walk.at++];
  scan->state = FP_JSON_LOOKING;
}

/* ---- the whole ---- */

static fp_json_step next_step(fp_json_scan *scan) {
  switch (scan->state) {
    case FP_JSON_AT_DOCUMENT: return at_document(scan);
    case FP_JSON_AT_MEMBER: return at_member(scan);
    case FP_JSON_AT_VALUE: return at_value(scan);
    case FP_JSON_IN_VALUE: return in_value(scan);
    case FP_JSON_AT_EVENT: return at_event(scan);
    case FP_JSON_LOOKING: return look(scan);
    default: return try_event(scan);
  }
}

static fp_code run(fp_json_scan *scan, fp_fault *fault) {
  while (scan->ended || scan->text.size >= scan->retry_at) {
    scan->fault_at = 0;
    fp_json_step step = next_step(scan);
    if (scan->text.failed || scan->key.failed || scan->value.failed) return fp_fail(fault, FP_NO_MEMORY, 0, "JSON");
    if (step == FP_WALK_MORE) break;
    if (step != FP_WALK_FAULT) continue;
    uint64_t at = scan->base + (scan->fault_at > scan->walk.at ? scan->fault_at : scan->walk.at);
    if (!scan->salvage || !scan->documents)
      return fp_fail(fault, FP_BAD_JSON, at, scan->state == FP_JSON_AT_EVENT ? "an event" : "the document");
    pass_over(scan);
  }
  if (scan->text.size - scan->walk.at > FP_JSON_LARGEST_EVENT)
    return fp_fail(fault, FP_TOO_LONG, scan->base + scan->walk.at, "an event");
  return FP_OK;
}

fp_code fp_json_scan_push(fp_json_scan *scan, const uint8_t *data, size_t size, fp_fault *fault) {
  while (size) { /* in parts, as places in the text have 32 bits */
    size_t part = size < FP_JSON_LARGEST_EVENT ? size : FP_JSON_LARGEST_EVENT;
    scan->text.memory = scan->key.memory = scan->value.memory = scan->memory;
    if (!scan->text.failed) fp_json_forget_taken(scan);
    fp_bytes_put(&scan->text, data, part);
    if (scan->text.failed) return fp_fail(fault, FP_NO_MEMORY, 0, "JSON");
    fp_code code = run(scan, fault);
    if (code) return code;
    data += part;
    size -= part;
  }
  return FP_OK;
}

/* How many brackets are open behind the walk. */
static uint64_t open_brackets(const fp_json_scan *scan) {
  int64_t depth = 0;
  for (size_t i = scan->walk.mark; i < scan->mark_count; i++) {
    uint8_t byte = scan->text.data[scan->marks[i]];
    if (byte == '"') i++;
    else depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
  }
  return depth > 0 ? (uint64_t)depth : 0;
}

fp_code fp_json_scan_finish(fp_json_scan *scan, fp_fault *fault) {
  scan->ended = true;
  scan->text.memory = scan->key.memory = scan->value.memory = scan->memory;
  fp_code code = run(scan, fault);
  if (code) return code;
  uint64_t at = scan->base + scan->walk.at;
  bool is_open_array = scan->state == FP_JSON_AT_EVENT && scan->is_array && peek(scan) < 0;
  if (scan->state == FP_JSON_AT_DOCUMENT || is_open_array) return FP_OK;
  if (scan->state == FP_JSON_LOOKING || scan->state == FP_JSON_TRYING) {
    scan->handlers->remark(scan->context, FP_JSON_LOST, scan->lost_from, scan->base + scan->text.size - scan->lost_from);
    return FP_OK;
  }
  uint64_t open = scan->state == FP_JSON_AT_EVENT && !scan->is_array ? 2 : 1;
  open += scan->state == FP_JSON_IN_VALUE ? scan->value_depth : open_brackets(scan);
  scan->handlers->remark(scan->context, FP_JSON_ENDS_EARLY, scan->last_event_end ? scan->last_event_end : at, open);
  return FP_OK;
}

void fp_json_scan_free(fp_json_scan *scan) {
  fp_bytes_free(&scan->text);
  fp_bytes_free(&scan->key);
  fp_bytes_free(&scan->value);
  fp_release(scan->memory, scan->marks);
  fp_release(scan->memory, scan->has);
  scan->marks = NULL;
  scan->has = NULL;
  scan->mark_count = scan->mark_capacity = scan->has_capacity = scan->indexed = 0;
}
