/* Compact text is written by one walk over the marks, with a stack of brackets as bits: an array is 0, an object 1.
 *
 *    {"a" : [1, "\u0041"] }     ->     {"a":[1,"A"]} */
#include "formats/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "columns/utf8.h"
#include "formats/json_number.h"
#include "formats/json_values.h"

/* Four digits of base 16; -1 if there are none. */
static int32_t hex4(const uint8_t *p, const uint8_t *end) {
  int32_t value = 0;
  if (end - p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    uint8_t byte = p[i], letter = byte | 0x20;
    int digit = byte >= '0' && byte <= '9' ? byte - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

static void put_character(fp_bytes *out, uint32_t code) {
  uint8_t *to = fp_bytes_room(out, 4);
  if (!to) return;
  if (code < 0x80) {
    *to = (uint8_t)code;
    out->size += 1;
    return;
  }
  size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = size - 1; i; i--, code >>= 6) to[i] = (uint8_t)(0x80 | (code & 0x3F));
  to[0] = (uint8_t)((size == 2 ? 0xC0 : size == 3 ? 0xE0 : 0xF0) | code);
  out->size += size;
}

static void note_bad(fp_json_bad_text *bad, uint64_t offset) {
  if (!bad->count++) bad->offset = offset;
}

/* A \u escape, whose digits begin at p; pairs of surrogates are one character. Returns what follows. */
static const uint8_t *put_unicode(fp_bytes *out, const uint8_t *p, const uint8_t *end, const uint8_t *text,
                                  fp_json_bad_text *bad) {
  int32_t code = hex4(p, end);
  if (code < 0) {
    fp_bytes_put(out, "\\u", 2);
    return p;
  }
  p += 4;
  if (code >= 0xD800 && code < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
    int32_t low = hex4(p + 2, end);
    if (low >= 0xDC00 && low < 0xE000) {
      put_character(out, (uint32_t)(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)));
      return p + 6;
    }
  }
  bool is_lone = code >= 0xD800 && code < 0xE000;
  if (is_lone) note_bad(bad, (uint64_t)(p - 6 - text));
  put_character(out, is_lone ? 0xFFFD : (uint32_t)code);
  return p;
}

/* An escape, which begins at the backslash p. Returns what follows. */
static const uint8_t *put_escape(fp_bytes *out, const uint8_t *p, const uint8_t *end, const uint8_t *text,
                                 fp_json_bad_text *bad) {
  static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  if (++p == end) {
    fp_bytes_byte(out, '\\');
    return p;
  }
  if (*p == 'u') return put_unicode(out, p + 1, end, text, bad);
  for (const char *letter = letters; *letter; letter += 2)
    if ((uint8_t)*letter == *p) {
      fp_bytes_byte(out, (uint8_t)letter[1]);
      return p + 1;
    }
  fp_bytes_byte(out, '\\');
  return p; /* the character behind it may be of several bytes, and is looked at by itself */
}

/* A stretch without escapes, in which bytes that are no characters are replaced. */
static void put_stretch(fp_bytes *out, const uint8_t *p, size_t length, const uint8_t *text, fp_json_bad_text *bad) {
  if (fp_utf8_valid(p, length)) {
    fp_bytes_put(out, p, length);
    return;
  }
  for (size_t i = 0; i < length;) {
    size_t size = fp_utf8_character(p + i, length - i);
    if (size) fp_bytes_put(out, p + i, size);
    else put_character(out, 0xFFFD), note_bad(bad, (uint64_t)(p + i - text));
    i += size ? size : 1;
  }
}

/* Whether JSON does not have the escape that a backslash begins. */
static bool is_wrong_escape(const uint8_t *p, const uint8_t *end) {
  if (end - p < 2) return true;
  return p[1] == 'u' ? hex4(p + 2, end) < 0 : !memchr("\"\\/bfnrt", p[1], 8);
}

static bool is_letter(uint8_t byte) {
  return (uint8_t)((byte | 0x20) - 'a') < 26;
}

/* Whether a path of Windows begins here that has no wrong escape:  C:\temp\new.py  has folders and a suffix. */
static bool is_path(const uint8_t *p, const uint8_t *end) {
  size_t folders = 0, suffix = 0; /* 1: the dot, 2: and a letter */
  if (end - p < 4 || !is_letter(p[0]) || p[1] != ':' || p[2] != '\\') return false;
  for (p += 2; p < end && *p >= ' ' && !memchr("<>:\"|?*(/", *p, 9); p++) {
    folders += *p == '\\';
    suffix = *p == '\\' ? 0 : *p == '.' ? 1 : suffix == 1 ? 2 * is_letter(*p) : suffix;
  }
  return folders > 1 && suffix == 2;
}

typedef enum backslashes { ESCAPED, SOME_WRONG, UNESCAPED } backslashes;

/* What the backslashes of a text are. A writer that escapes them writes two in a row, but a path of a network begins so, or
 * four digits behind \u. */
static backslashes judge_backslashes(const uint8_t *text, const uint8_t *end) {
  const uint8_t *p = end - text > 1 && text[0] == '\\' && text[1] == '\\' ? text + 2 : text;
  bool is_wrong = false, is_escaped = false;
  while ((p = memchr(p, '\\', (size_t)(end - p)))) {
    is_wrong |= is_wrong_escape(p, end);
    is_escaped |= end - p > 1 && (p[1] == '\\' || (p[1] == 'u' && hex4(p + 2, end) >= 0));
    p += end - p > 1 ? 2 : 1;
  }
  if (is_escaped) return is_wrong ? SOME_WRONG : ESCAPED;
  return is_wrong || is_path(text, end) ? UNESCAPED : ESCAPED;
}

/* A text as it is written; quotes end it if nobody escapes them. */
static void put_as_written(fp_bytes *out, const uint8_t *text, const uint8_t *end, fp_json_bad_text *bad) {
  const uint8_t *from = text;
  for (const uint8_t *p = text; p + 1 < end; p++)
    if (p[0] == '\\' && p[1] == '"') {
      put_stretch(out, from, (size_t)(p - from), text, bad);
      from = p + 1;
    }
  put_stretch(out, from, (size_t)(end - from), text, bad);
}

void fp_json_decode(fp_bytes *out, const uint8_t *text, size_t length, fp_json_bad_text *bad) {
  const uint8_t *p = text, *end = text + length;
  const uint8_t *escape = length ? memchr(p, '\\', length) : NULL;
  backslashes found = escape ? judge_backslashes(text, end) : ESCAPED;
  bad->unescaped += found != ESCAPED;
  if (found == UNESCAPED) {
    put_as_written(out, text, end, bad);
    return;
  }
  while (p < end) {
    escape = memchr(p, '\\', (size_t)(end - p));
    const uint8_t *stop = escape ? escape : end;
    put_stretch(out, p, (size_t)(stop - p), text, bad);
    p = escape ? put_escape(out, escape, end, text, bad) : end;
  }
}

/* ---- compact values ---- */

/* Escapes a text as little as JSON needs: other writers escape DEL, too. */
static void put_escaped(fp_bytes *out, const uint8_t *text, size_t length) {
  while (length) {
    const uint8_t *del = memchr(text, 0x7F, length);
    size_t before = del ? (size_t)(del - text) : length;
    fp_json_escaped(out, text, before);
    if (!del) return;
    fp_bytes_byte(out, 0x7F);
    text += before + 1;
    length -= before + 1;
  }
}

/* Whether a text has bytes that are escaped even if they are not in the document. */
static bool has_controls(const uint8_t *text, size_t length) {
  uint8_t found = 0;
  for (size_t i = 0; i < length; i++) found |= text[i] < 0x20;
  return found;
}

/* A string between quotes, with only the escapes that JSON needs. */
static void put_string(fp_bytes *out, const fp_json_view *view, const fp_json_value *value, fp_json_bad_text *bad) {
  const uint8_t *text = view->text;
  fp_bytes plain = {.memory = out->memory};
  if (fp_json_is_simple(view, value->from, value->to) && !has_controls(text + value->from, value->to - value->from)) {
    fp_bytes_put(out, text + value->from - 1, value->to - value->from + 2);
    return;
  }
  fp_json_bad_text here = {0};
  fp_json_decode(&plain, text + value->from, value->to - value->from, &here);
  if (plain.failed) out->failed = true;
  if (here.count && !bad->count) bad->offset = value->from + here.offset;
  bad->count += here.count;
  bad->unescaped += here.unescaped;
  fp_bytes_byte(out, '"');
  put_escaped(out, plain.data, plain.size);
  fp_bytes_byte(out, '"');
  fp_bytes_free(&plain);
}

/* Whether a number is one; words have been looked at by the walk. */
static bool is_scalar(const fp_json_view *view, const fp_json_value *value) {
  if (value->kind != FP_JSON_FINITE) return true;
  return fp_json_read_number(view->text + value->from, value->to - value->from).kind != FP_JSON_NO_NUMBER;
}

/* Where the writer is: one bit for each open bracket, set for an object. */
typedef struct brackets {
  uint64_t objects[FP_JSON_DEEPEST / 64];
  uint32_t depth;
} brackets;

static void open_bracket(brackets *open, bool is_object) {
  uint64_t bit = UINT64_C(1) << open->depth % 64;
  uint64_t *word = &open->objects[open->depth / 64];
  *word = is_object ? *word | bit : *word & ~bit;
  open->depth++;
}

static bool in_object(const brackets *open) {
  uint32_t last = open->depth - 1;
  return open->objects[last / 64] >> last % 64 & 1;
}

/* Steps over an opening bracket or a scalar of the open object or array. */
static fp_json_step next_value(const fp_json_view *view, fp_json_walk *walk, bool is_object, fp_json_value *key,
                               fp_json_value *value) {
  return is_object ? fp_json_member(view, walk, key, value) : fp_json_element(view, walk, value);
}

/* ---- keys that repeat ---- */

/* A member of an object that is open, or has just ended: where its key begins and ends in what is written. */
typedef struct member {
  size_t key, key_end;
  uint32_t depth;
} member;

/* A key, and the place of its member in the object. */
typedef struct key_at {
  const uint8_t *text;
  size_t length, place;
} key_at;

static int compare_keys(const void *a, const void *b) {
  const key_at *first = a, *second = b;
  if (first->length != second->length) return first->length < second->length ? -1 : 1;
  int order = memcmp(first->text, second->text, first->length);
  return order ? order : (first->place > second->place) - (first->place < second->place);
}

/* Whose value each member gets: its own, that of the last of its key, or (`count`) it goes. Returns how many go. */
static size_t choose_values(key_at *keys, size_t count, size_t *value_of) {
  size_t gone = 0;
  qsort(keys, count, sizeof *keys, compare_keys);
  for (size_t i = 0, next; i < count; i = next) {
    for (next = i + 1; next < count && keys[next].length == keys[i].length &&
                       !memcmp(keys[next].text, keys[i].text, keys[i].length); next++)
      value_of[keys[next].place] = count;
    value_of[keys[i].place] = keys[next - 1].place;
    gone += next - i - 1;
  }
  return gone;
}

/* Members of an object as they are written:  "a":1,"b":2,"a":3  ->  "a":3,"b":2 */
static void put_chosen(fp_bytes *out, const member *members, size_t count, const size_t *value_of) {
  fp_bytes chosen = {.memory = out->memory};
  for (size_t i = 0; i < count; i++) {
    if (value_of[i] == count) continue;
    const member *from = &members[value_of[i]];
    size_t end = value_of[i] + 1 < count ? from[1].key - 1 : out->size;
    if (chosen.size) fp_bytes_byte(&chosen, ',');
    fp_bytes_put(&chosen, out->data + members[i].key, members[i].key_end - members[i].key);
    fp_bytes_put(&chosen, out->data + from->key_end, end - from->key_end);
  }
  out->size = members->key;
  out->failed |= chosen.failed;
  if (!out->failed) fp_bytes_put(out, chosen.data, chosen.size);
  fp_bytes_free(&chosen);
}

/* Ends the object at `depth`, whose members are the last ones. */
static void drop_repeated(fp_bytes *out, fp_vector *members, uint32_t depth, fp_json_bad_text *bad) {
  member *every = members->items;
  size_t first = members->count, count;
  while (first && every[first - 1].depth == depth) first--;
  count = members->count - first;
  members->count = first;
  if (count < 2 || out->failed) return;
  key_at *keys = fp_alloc(out->memory, count * sizeof *keys);
  size_t *value_of = fp_alloc(out->memory, count * sizeof *value_of);
  if (!keys || !value_of) {
    out->failed = true;
  } else {
    for (size_t i = 0; i < count; i++)
      keys[i] = (key_at){out->data + every[first + i].key, every[first + i].key_end - every[first + i].key, i};
    size_t gone = choose_values(keys, count, value_of);
    bad->repeated += gone;
    if (gone) put_chosen(out, every + first, count, value_of);
  }
  fp_release(out->memory, keys);
  fp_release(out->memory, value_of);
}

static void put_key(fp_bytes *out, fp_vector *members, uint32_t depth, const fp_json_view *view, const fp_json_value *key,
                    fp_json_bad_text *bad) {
  size_t begin = out->size;
  put_string(out, view, key, bad);
  member *fresh = fp_vector_add(out->memory, members, sizeof *fresh);
  if (fresh) *fresh = (member){begin, out->size, depth};
  else out->failed = true;
  fp_bytes_byte(out, ':');
}

static bool compact(fp_bytes *out, const fp_json_view *view, const fp_json_value *value, size_t most, fp_vector *members,
                    fp_json_bad_text *bad, uint32_t *at) {
  brackets open = {.depth = 0};
  fp_json_walk walk = {0, 0, false};
  fp_json_value key = {0, 0, 0, FP_JSON_NOTHING}, item = *value;
  size_t begun = out->size;
  bool is_first = true;
  for (;;) {
    if (item.kind == FP_JSON_OBJECT || item.kind == FP_JSON_ARRAY) {
      if (open.depth == FP_JSON_DEEPEST) return *at = item.from, false;
      open_bracket(&open, item.kind == FP_JSON_OBJECT);
      fp_bytes_byte(out, view->text[item.from]);
      walk = fp_json_into(&item);
      is_first = true;
    } else if (item.kind == FP_JSON_TEXT) {
      put_string(out, view, &item, bad);
    } else {
      if (!is_scalar(view, &item)) return *at = item.from, false;
      fp_bytes_put(out, view->text + item.from, item.to - item.from);
    }
    if (out->failed || out->size - begun > most) return true;
    for (;;) { /* what follows: an item of the open bracket, or its end */
      if (!open.depth) return true;
      bool is_object = in_object(&open);
      fp_json_step step = next_value(view, &walk, is_object, &key, &item);
      if (step == FP_WALK_ITEM || step == FP_WALK_DEEP) {
        if (!is_first) fp_bytes_byte(out, ',');
        is_first = false;
        if (!is_object) break;
        put_key(out, members, open.depth, view, &key, bad);
        break;
      }
      if (step != FP_WALK_END) return *at = walk.at, false;
      if (is_object) drop_repeated(out, members, open.depth, bad);
      fp_bytes_byte(out, is_object ? '}' : ']');
      open.depth--;
      is_first = false;
      walk.is_first = false;
    }
  }
}

/* ---- arrays of numbers and plain texts ---- */

/* The end of an integer; NULL: it is none, such as 012. */
static const uint8_t *after_integer(const uint8_t *at, const uint8_t *end) {
  at += *at == '-';
  const uint8_t *digits = at;
  while (at < end && (uint8_t)(*at - '0') < 10) at++;
  return at == digits || (*digits == '0' && at > digits + 1) ? NULL : at;
}

/* Behind the closing quote of a text without escapes; NULL: it has characters that are written in another way. */
static const uint8_t *after_text(const uint8_t *at, const uint8_t *end) {
  for (at++; at < end && *at != '"'; at++)
    if (*at < 0x20 || *at == '\\' || *at == 0x7F) return NULL;
  return at < end ? at + 1 : NULL;
}

/* Most arrays are of integers and texts that stay as they are: one look at each byte, blanks left out. False: this one has
 * something else, or is not JSON; nothing is written. */
static bool put_plain_array(fp_bytes *out, const uint8_t *at, const uint8_t *end) {
  enum { VALUE, VALUE_OR_END, COMMA_OR_END } expected = VALUE;
  uint8_t *to = fp_bytes_room(out, (size_t)(end - at)), *begin = to;
  uint32_t depth = 0;
  if (!to) return false;
  while (at < end) {
    const uint8_t *from = at++;
    if (fp_json_is_blank(*from)) continue;
    if (*from == '[') {
      if (expected == COMMA_OR_END || ++depth > FP_JSON_DEEPEST) return false;
      expected = VALUE_OR_END;
    } else if (*from == ']') {
      if (expected == VALUE || !depth--) return false;
      expected = COMMA_OR_END;
    } else if (*from == ',') {
      if (expected != COMMA_OR_END) return false;
      expected = VALUE;
    } else {
      if (expected == COMMA_OR_END) return false;
      at = *from == '"' ? after_text(from, end) : after_integer(from, end);
      if (!at) return false;
      expected = COMMA_OR_END;
    }
    while (from < at) *to++ = *from++;
  }
  out->size += (size_t)(to - begin);
  return true;
}

bool fp_json_compact(fp_bytes *out, const fp_json_view *view, const fp_json_value *value, size_t most,
                     fp_json_bad_text *bad, uint32_t *at) {
  fp_vector members = {0};
  bool is_plain = value->kind == FP_JSON_ARRAY && value->to - value->from <= most && fp_json_is_simple(view, value->from, value->to);
  if (is_plain && put_plain_array(out, view->text + value->from, view->text + value->to)) return true;
  bool is_json = compact(out, view, value, most, &members, bad, at);
  fp_vector_free(out->memory, &members);
  return is_json;
}
