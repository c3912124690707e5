/* Values of events as texts, ids and times. */
#include "columns/utf8.h"
#include "formats/chrome_parts.h"
#include "formats/json_values.h"

const uint8_t *chrome_text(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value, size_t *length) {
  const uint8_t *text = view->text + value->from;
  fp_json_bad_text bad = {0};
  *length = value->to - value->from;
  if (fp_json_is_simple(view, value->from, value->to)) return text;
  if (!memchr(text, '\\', *length) && fp_utf8_valid(text, *length)) return text;
  chrome->decoded.size = 0;
  fp_json_decode(&chrome->decoded, text, *length, &bad);
  chrome_remark_text(chrome, &bad, chrome->offset);
  *length = chrome->decoded.size;
  chrome->failed |= chrome->decoded.failed;
  return chrome->decoded.data ? chrome->decoded.data : (const uint8_t *)"";
}

int32_t chrome_intern(fp_chrome *chrome, fp_strings *pool, const fp_json_view *view, const fp_json_value *value) {
  size_t length = 0;
  const uint8_t *text = (const uint8_t *)"";
  uint32_t at;
  if (value->kind == FP_JSON_TEXT) {
    text = chrome_text(chrome, view, value, &length);
  } else if (value->kind != FP_JSON_NOTHING) {
    fp_json_bad_text bad = {0};
    chrome->decoded.size = 0;
    if (fp_json_compact(&chrome->decoded, view, value, SIZE_MAX, &bad, &at) && chrome->decoded.data) {
      text = chrome->decoded.data;
      length = chrome->decoded.size;
    }
  }
  int32_t number = fp_strings_add(pool, text, length);
  if (number < 0) chrome->failed = true;
  return number;
}

/* Where a name is looked for first. */
static size_t usual_place(const uint8_t *text, size_t length) {
  uint64_t first = 0, last = 0;
  if (length < 8) {
    for (size_t i = 0; i < length; i++) first = first << 8 | text[i];
  } else {
    memcpy(&first, text, 8);
    memcpy(&last, text + length - 8, 8);
  }
  return (size_t)((first * 31 + last + length) * UINT64_C(0x9E3779B97F4A7C15) >> 32) % CHROME_NAMES;
}

int32_t chrome_event_name(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value) {
  size_t length = value->to - value->from, known;
  const uint8_t *text = view->text + value->from;
  if (value->kind != FP_JSON_TEXT || !length) return chrome_intern(chrome, &chrome->names, view, value);
  int32_t *usual = &chrome->usual_names[usual_place(text, length)];
  if (*usual) {
    const uint8_t *name = chrome_string(&chrome->names, *usual - 1, &known);
    if (known == length && chrome_is_equal(name, text, length)) return *usual - 1;
  }
  int32_t number = chrome_intern(chrome, &chrome->names, view, value);
  if (number >= 0 && !memchr(text, '\\', length)) {
    const uint8_t *name = chrome_string(&chrome->names, number, &known);
    if (known == length && !memcmp(name, text, length)) *usual = number + 1; /* else it was repaired */
  }
  return number;
}

int32_t chrome_category(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value) {
  size_t length = value->to - value->from, known;
  const uint8_t *text = view->text + value->from;
  if (value->kind != FP_JSON_TEXT || !length) return chrome_intern(chrome, &chrome->cats, view, value);
  int32_t *usual = &chrome->usual_cats[(length * 7 + *text) % 64];
  if (*usual) {
    const uint8_t *name = chrome_string(&chrome->cats, *usual - 1, &known);
    if (known == length && chrome_is_equal(name, text, length)) return *usual - 1;
  }
  int32_t number = chrome_intern(chrome, &chrome->cats, view, value);
  bool is_plain = fp_json_is_simple(view, value->from, value->to);
  if (number >= 0 && is_plain) *usual = number + 1;
  return number;
}

/* Whether a text is a decimal integer as a number is written: such a text is that integer. */
static bool is_canonical(const uint8_t *text, size_t length) {
  size_t sign = length && *text == '-';
  if (length == sign || (text[sign] == '0' && length > 1)) return false;
  for (size_t i = sign; i < length; i++)
    if ((uint8_t)(text[i] - '0') > 9) return false;
  return true;
}

static chrome_id text_id(fp_chrome *chrome, const uint8_t *text, size_t length) {
  int32_t number = fp_strings_add(&chrome->texts, text, length);
  if (number < 0) chrome->failed = true;
  return (chrome_id){CHROME_TEXT_ID, (uint64_t)number};
}

/* Digits of an integer, or of a double that is one. */
static chrome_id number_id(fp_chrome *chrome, const uint8_t *text, size_t length) {
  const double edge = 9223372036854775808.0;
  fp_json_number number = fp_json_read_number(text, length);
  if (number.kind == FP_JSON_INT) return (chrome_id){CHROME_INT_ID, number.bits};
  if (number.kind == FP_JSON_UINT) return (chrome_id){CHROME_UINT_ID, number.bits};
  if (number.kind == FP_JSON_DOUBLE && number.value >= -edge && number.value < edge &&
      number.value == (double)(int64_t)number.value)
    return (chrome_id){CHROME_INT_ID, (uint64_t)(int64_t)number.value};
  return text_id(chrome, text, length);
}

chrome_id chrome_read_id(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value) {
  const uint8_t *text = view->text + value->from;
  size_t length = value->to - value->from;
  if (value->kind == FP_JSON_NOTHING) return (chrome_id){CHROME_NO_ID, 0};
  if (value->kind == FP_JSON_FINITE) {
    uint64_t number = 0;
    size_t i = 0;
    for (; i < length && i < 18 && (uint8_t)(text[i] - '0') < 10; i++) number = number * 10 + (uint64_t)(text[i] - '0');
    if (i == length) return (chrome_id){CHROME_INT_ID, number};
    return number_id(chrome, text, length);
  }
  if (value->kind == FP_JSON_TEXT) {
    text = chrome_text(chrome, view, value, &length);
    return is_canonical(text, length) ? number_id(chrome, text, length) : text_id(chrome, text, length);
  }
  int32_t number = chrome_intern(chrome, &chrome->texts, view, value);
  return (chrome_id){CHROME_TEXT_ID, (uint64_t)number};
}

const uint8_t *chrome_string(const fp_strings *pool, int32_t number, size_t *length) {
  const int64_t *offsets = pool->offsets.items;
  *length = 0;
  if (number < 0 || !offsets) return (const uint8_t *)"";
  *length = (size_t)(offsets[number + 1] - offsets[number]);
  return (const uint8_t *)pool->bytes.items + offsets[number];
}

void chrome_put_id(const fp_chrome *chrome, fp_bytes *out, chrome_id id) {
  size_t length;
  const uint8_t *text = (const uint8_t *)"";
  if (id.kind == CHROME_INT_ID) fp_json_int(out, (int64_t)id.bits);
  if (id.kind == CHROME_UINT_ID) fp_json_digits(out, id.bits);
  if (id.kind != CHROME_TEXT_ID) return;
  text = chrome_string(&chrome->texts, (int32_t)id.bits, &length);
  fp_bytes_put(out, text, length);
}

bool chrome_read_time(const fp_json_view *view, const fp_json_value *value, fp_json_time *time) {
  if (value->kind != FP_JSON_FINITE && value->kind != FP_JSON_TEXT) return false;
  return fp_json_read_time(view->text + value->from, value->to - value->from, time);
}

bool chrome_read_ps(const fp_json_view *view, const fp_json_value *value, int64_t *ps) {
  fp_json_time time;
  if (!chrome_read_time(view, value, &time)) return false;
  return !__builtin_mul_overflow(time.ns, 1000, ps) && !__builtin_add_overflow(*ps, time.ps, ps);
}

fp_json_number chrome_read_number(const fp_json_view *view, const fp_json_value *value) {
  fp_json_number none = {FP_JSON_NO_NUMBER, 0, 0};
  if (value->kind != FP_JSON_FINITE && value->kind != FP_JSON_TEXT) return none;
  return fp_json_read_number(view->text + value->from, value->to - value->from);
}

bool chrome_member(const fp_json_view *view, const fp_json_value *object, const char *key, fp_json_value *found) {
  fp_json_value name, value;
  size_t length = strlen(key);
  found->kind = FP_JSON_NOTHING;
  if (object->kind != FP_JSON_OBJECT) return false;
  fp_json_walk walk = fp_json_into(object);
  for (fp_json_step step; (step = fp_json_member(view, &walk, &name, &value)) == FP_WALK_ITEM || step == FP_WALK_DEEP;)
    if (name.to - name.from == length && !memcmp(view->text + name.from, key, length)) *found = value;
  if (found->kind == FP_JSON_NULL) found->kind = FP_JSON_NOTHING;
  return found->kind != FP_JSON_NOTHING;
}
