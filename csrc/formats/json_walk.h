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

/* Space, tab, line feed, carriage return, form feed. */
static inline bool fp_json_is_blank(uint8_t byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t' || byte == '\f';
}

/* Whether a text has neither escapes nor bytes of 0x80 and more, as far as its blocks say. */
static inline bool fp_json_is_simple(const fp_json_view *view, uint32_t from, uint32_t to) {
  uint8_t has = 0;
  if (from == to) return true;
  for (uint32_t block = from / 64; block <= (to - 1) / 64; block++) has |= view->has[block];
  return !has;
}

#endif
