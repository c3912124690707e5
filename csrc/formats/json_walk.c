/* Between two marks lie blanks, or a number, or a word. So a step looks at the next mark, and at what lies before it:
 *
 *    {"a": 12, "b": [1, {}]}
 *     ^ ^^   ^ ^ ^^ ^       the marks that members end at: quote, quote, colon, comma
 *                   ^^^^^^^  stepped over by counting brackets */
#include "formats/json_walk.h"

#include "formats/json_number.h"

static fp_json_step fault_at(fp_json_walk *walk, uint32_t at) {
  walk->at = at;
  return FP_WALK_FAULT;
}

static bool is_text(const uint8_t *text, uint32_t length, const char *word, uint32_t word_length) {
  if (length != word_length) return false;
  for (uint32_t i = 0; i < length; i++)
    if (text[i] != (uint8_t)word[i]) return false;
  return true;
}

/* What a value is other than a string, object or array. */
static fp_json_kind kind_of(const uint8_t *text, uint32_t length) {
  uint8_t first = *text;
  double value;
  if ((uint8_t)(first - '0') < 10) return FP_JSON_FINITE;
  if (first == '-' && length > 1 && (uint8_t)(text[1] - '0') < 10) return FP_JSON_FINITE;
  if (is_text(text, length, "true", 4)) return FP_JSON_TRUE;
  if (is_text(text, length, "false", 5)) return FP_JSON_FALSE;
  if (is_text(text, length, "null", 4)) return FP_JSON_NULL;
  return fp_json_read_nonfinite(text, length, &value) ? FP_JSON_NONFINITE : FP_JSON_NOTHING;
}

/* Steps over an object or array, whose opening bracket is the next mark. */
static fp_json_step over_brackets(const fp_json_view *view, fp_json_walk *walk, fp_json_value *value) {
  uint32_t mark = walk->mark, depth = 0;
  bool is_deep = false;
  value->from = view->marks[mark];
  value->mark = mark + 1;
  for (; mark < view->count; mark++) {
    uint8_t byte = view->text[view->marks[mark]];
    if (byte == '"') {
      mark++;
      continue;
    }
    depth += (uint32_t)((byte | 0x20) == '{') - (uint32_t)((byte | 0x20) == '}');
    is_deep |= depth > FP_JSON_DEEPEST;
    if (depth) continue;
    value->to = walk->at = view->marks[mark] + 1;
    walk->mark = mark + 1;
    return is_deep ? FP_WALK_DEEP : FP_WALK_ITEM;
  }
  return FP_WALK_MORE;
}

fp_json_step fp_json_step_over(const fp_json_view *view, fp_json_walk *walk, fp_json_value *value) {
  if (walk->mark >= view->count) return FP_WALK_MORE;
  uint32_t mark = view->marks[walk->mark], from = fp_json_after_blanks(view->text, walk->at, mark);
  if (from < mark) { /* a number or a word, up to the mark */
    uint32_t to = mark;
    while (fp_json_is_blank(view->text[to - 1])) to--;
    *value = (fp_json_value){from, to, 0, kind_of(view->text + from, to - from)};
    if (value->kind == FP_JSON_NOTHING) return fault_at(walk, from);
    walk->at = mark;
    return FP_WALK_ITEM;
  }
  uint8_t byte = view->text[mark];
  if (byte == '"') {
    if (walk->mark + 1 >= view->count) return FP_WALK_MORE;
    *value = (fp_json_value){mark + 1, view->marks[walk->mark + 1], 0, FP_JSON_TEXT};
    walk->at = value->to + 1;
    walk->mark += 2;
    return FP_WALK_ITEM;
  }
  if (byte != '{' && byte != '[') return fault_at(walk, mark);
  value->kind = byte == '{' ? FP_JSON_OBJECT : FP_JSON_ARRAY;
  return over_brackets(view, walk, value);
}

/* Steps over the comma before all items but the first; ITEM: an item follows. */
static inline fp_json_step over_comma(const fp_json_view *view, fp_json_walk *walk, uint8_t closing) {
  if (walk->mark >= view->count) return FP_WALK_MORE;
  uint32_t mark = view->marks[walk->mark];
  uint8_t byte = view->text[mark];
  if (!walk->is_first || byte == closing) {
    if (fp_json_after_blanks(view->text, walk->at, mark) != mark) {
      if (walk->is_first) return FP_WALK_ITEM; /* the only element, such as [1] */
      return fault_at(walk, walk->at);
    }
    walk->at = mark + 1;
    walk->mark++;
    if (byte == closing) return FP_WALK_END;
    if (byte != ',') return fault_at(walk, mark);
    if (walk->mark >= view->count) return FP_WALK_MORE;
    mark = view->marks[walk->mark];
    if (view->text[mark] == closing && fp_json_after_blanks(view->text, walk->at, mark) == mark) {
      walk->at = mark + 1;
      walk->mark++;
      return FP_WALK_END;
    }
  }
  walk->is_first = false;
  return FP_WALK_ITEM;
}

fp_json_step fp_json_element(const fp_json_view *view, fp_json_walk *walk, fp_json_value *value) {
  fp_json_step step = over_comma(view, walk, ']');
  if (step != FP_WALK_ITEM) return step;
  walk->is_first = false;
  return fp_json_step_over(view, walk, value);
}

fp_json_step fp_json_member(const fp_json_view *view, fp_json_walk *walk, fp_json_value *key, fp_json_value *value) {
  fp_json_step step = over_comma(view, walk, '}');
  if (step != FP_WALK_ITEM) return step;
  step = fp_json_step_over(view, walk, key);
  if (step != FP_WALK_ITEM) return step;
  if (key->kind != FP_JSON_TEXT) return fault_at(walk, key->from);
  if (walk->mark >= view->count) return FP_WALK_MORE;
  uint32_t colon = view->marks[walk->mark];
  uint32_t found = fp_json_after_blanks(view->text, walk->at, colon);
  if (view->text[colon] != ':' || found != colon) return fault_at(walk, found);
  walk->at = colon + 1;
  walk->mark++;
  return fp_json_step_over(view, walk, value);
}
