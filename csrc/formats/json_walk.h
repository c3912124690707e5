/* Walking over JSON text whose marks are known: members of objects and elements of arrays, without recursion.
 *
 * Values are places in the text. What lies inside an array or object that is stepped over is not looked at but for its
 * brackets. */
#ifndef FASTPROF_JSON_WALK_H
#define FASTPROF_JSON_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FP_JSON_DEEPEST = 512 };

/* Text and its marks (json_index). `has`: what each block of 64 bytes from the beginning of the text has in it. */
typedef struct fp_json_view {
  const uint8_t *text;
  const uint32_t *marks;
  const uint8_t *has;
  size_t count; /* marks */
} fp_json_view;

/* FP_JSON_FINITE: a number by its first character; FP_JSON_NONFINITE: NaN or an infinity. */
typedef enum fp_json_kind {
  FP_JSON_NOTHING, FP_JSON_TEXT, FP_JSON_FINITE, FP_JSON_NONFINITE, FP_JSON_TRUE, FP_JSON_FALSE, FP_JSON_NULL,
  FP_JSON_OBJECT, FP_JSON_ARRAY
} fp_json_kind;

/* A value: the bytes `from` to `to` of the text, without quotes, with brackets. `mark`: of an object or array, the
 * mark behind the opening bracket. */
typedef struct fp_json_value {
  uint32_t from, to;
  uint32_t mark;
  fp_json_kind kind;
} fp_json_value;

/* FP_WALK_MORE: the text ends before. FP_WALK_FAULT: no JSON, at `at` of the walk. */
typedef enum fp_json_step { FP_WALK_ITEM, FP_WALK_END, FP_WALK_MORE, FP_WALK_FAULT, FP_WALK_DEEP } fp_json_step;

/* A place in a text. */
typedef struct fp_json_walk {
  uint32_t at;   /* byte */
  uint32_t mark; /* the first mark not before it */
  bool is_first; /* nothing of the object or array has been read */
} fp_json_walk;

/* The walk of an object or array's contents. */
static inline fp_json_walk fp_json_into(const fp_json_value *value) {
  return (fp_json_walk){value->from + 1, value->mark, true};
}

/* Steps over the next member of an object; END: over its closing brace. A comma before the brace is fine. */
fp_json_step fp_json_member(const fp_json_view *view, fp_json_walk *walk, fp_json_value *key, fp_json_value *value);
/* Steps over the next element of an array; END: over its closing bracket. */
fp_json_step fp_json_element(const fp_json_view *view, fp_json_walk *walk, fp_json_value *value);
/* Steps over a value that begins at the walk, after blanks. DEEP: it is nested deeper than 512; it is stepped over. */
fp_json_step fp_json_step_over(const fp_json_view *view, fp_json_walk *walk, fp_json_value *value);

/* The bytes that fp_json_is_blank knows, as one number of 64 bits. */
#define FP_JSON_BLANKS (UINT64_C(1) << ' ' | UINT64_C(1) << '\n' | UINT64_C(1) << '\r' | UINT64_C(1) << '\t' | UINT64_C(1) << '\f')

/* Space, tab, line feed, carriage return, form feed. */
static inline bool fp_json_is_blank(uint8_t byte) {
  return byte <= ' ' && FP_JSON_BLANKS >> byte & 1;
}

/* The first byte behind blanks. `end`: a mark. */
static inline uint32_t fp_json_after_blanks(const uint8_t *text, uint32_t at, uint32_t end) {
  while (at < end && fp_json_is_blank(text[at])) at++;
  return at;
}

/* A member that is laid out as usual, such as `, "key": "text"` or `, "key": 12,`: without a call. False: it is not. */
static inline bool fp_json_usual_member(const fp_json_view *view, fp_json_walk *walk, fp_json_value *key, fp_json_value *value) {
  const uint32_t *mark = view->marks + walk->mark;
  const uint8_t *text = view->text;
  uint32_t at = walk->at;
  if (walk->mark + 7 > view->count) return false;
  if (!walk->is_first) {
    if (*mark != at || text[at] != ',') return false;
    at++;
    mark++;
  }
  if (text[mark[0]] != '"' || mark[2] != mark[1] + 1 || text[mark[2]] != ':') return false;
  if (fp_json_after_blanks(text, at, mark[0]) != mark[0]) return false;
  uint32_t from = fp_json_after_blanks(text, mark[2] + 1, mark[3]), to = mark[3];
  if (from == to && text[from] == '"') {
    *value = (fp_json_value){from + 1, mark[4], 0, FP_JSON_TEXT};
    walk->at = mark[4] + 1;
    walk->mark = (uint32_t)(mark + 5 - view->marks);
  } else if (from < to && (uint8_t)(text[from] - '0') < 10) {
    while (fp_json_is_blank(text[to - 1])) to--;
    *value = (fp_json_value){from, to, 0, FP_JSON_FINITE};
    walk->at = mark[3];
    walk->mark = (uint32_t)(mark + 3 - view->marks);
  } else {
    return false;
  }
  *key = (fp_json_value){mark[0] + 1, mark[1], 0, FP_JSON_TEXT};
  walk->is_first = false;
  return true;
}

/* fp_json_member, faster. The caller's key and value may stay in registers: no call gets their address. */
static inline fp_json_step fp_json_next_member(const fp_json_view *view, fp_json_walk *walk, fp_json_value *key,
                                               fp_json_value *value) {
  fp_json_value other_key = {0, 0, 0, FP_JSON_NOTHING}, other = other_key;
  if (fp_json_usual_member(view, walk, key, value)) return FP_WALK_ITEM;
  fp_json_step step = fp_json_member(view, walk, &other_key, &other);
  *key = other_key;
  *value = other;
  return step;
}

/* Whether a text has neither escapes nor bytes of 0x80 and more, as far as its blocks say. */
static inline bool fp_json_is_simple(const fp_json_view *view, uint32_t from, uint32_t to) {
  uint8_t has = 0;
  if (from == to) return true;
  for (uint32_t block = from / 64; block <= (to - 1) / 64; block++) has |= view->has[block];
  return !has;
}

#endif
