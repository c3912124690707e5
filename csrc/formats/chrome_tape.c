/* A stretch of a document, scanned: which events it has and where their fields are, apart from what becomes of them.
 * Nothing of the trace is needed for that, so that one thread scans a stretch while another one takes the last.
 *
 *    text    {"ph": "X", "ts": 5, "args": {...}}, {"ph": ...
 *    items   event at 0: ph ts args              event at 38: ...      other members and remarks, in their order
 *    values  "X"  5  {...}                       ...                   of the fields that are there, in the order of fields */
#include "formats/chrome_parts.h"

typedef enum item_kind { ITEM_EVENT, ITEM_MEMBER, ITEM_REMARK } item_kind;

typedef struct tape_item {
  uint64_t offset; /* in the document; of a member, where it ends */
  uint64_t count;  /* of a remark; of a member, the length of its key */
  size_t first;    /* of its values; of a member, of its key in `keys` */
  uint32_t present; /* fields of an event; of a member, its document */
  uint8_t kind, what;
  bool is_deep, has_fields, is_twice, is_whole, is_listed;
  size_t first_pair, pair_count; /* of args, if they are listed */
  chrome_times times;
} tape_item;

struct fp_chrome_tape {
  fp_memory *memory;
  fp_json_stretch text;
  fp_vector items, values, pairs; /* tape_item; fp_json_value; chrome_pair */
  fp_bytes keys;
  fp_vector members; /* fp_bytes: the values of members of the document */
  fp_code code;      /* what ended the scan behind these items */
  fp_fault fault;
};

fp_chrome_tape *fp_chrome_tape_new(fp_memory *memory) {
  fp_chrome_tape *tape = fp_alloc_zeroed(memory, 1, sizeof *tape);
  if (tape) tape->memory = tape->keys.memory = memory;
  return tape;
}

static void clear(fp_chrome_tape *tape) {
  fp_bytes *members = tape->members.items;
  for (size_t i = 0; i < tape->members.count; i++) fp_bytes_free(&members[i]);
  tape->items.count = tape->values.count = tape->pairs.count = tape->members.count = tape->keys.size = 0;
}

void fp_chrome_tape_free(fp_chrome_tape *tape) {
  if (!tape) return;
  clear(tape);
  fp_json_stretch_free(tape->memory, &tape->text);
  fp_bytes_free(&tape->keys);
  fp_vector *vectors[] = {&tape->items, &tape->values, &tape->pairs, &tape->members};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) fp_vector_free(tape->memory, vectors[i]);
  fp_release(tape->memory, tape);
}

/* ---- recording ---- */

static tape_item *new_item(fp_chrome *chrome, item_kind kind, uint64_t offset) {
  fp_chrome_tape *tape = chrome->tape;
  tape_item *item = fp_vector_add(tape->memory, &tape->items, sizeof *item);
  if (!item) {
    tape->code = FP_NO_MEMORY;
    return NULL;
  }
  item->kind = (uint8_t)kind;
  item->offset = offset;
  return item;
}

static fp_json_step record_event(void *context, const fp_json_view *view, fp_json_walk *walk, uint64_t offset) {
  fp_chrome *chrome = context;
  fp_chrome_tape *tape = chrome->tape;
  chrome_event event;
  size_t first_pair = tape->pairs.count;
  fp_json_step step = chrome_read_fields(view, walk, offset, &chrome->field_name, &tape->pairs, &event);
  if (step != FP_WALK_END) {
    tape->pairs.count = first_pair;
    return step;
  }
  tape_item *item = new_item(chrome, ITEM_EVENT, offset);
  if (!item) return FP_WALK_END;
  item->is_listed = event.is_listed;
  item->first_pair = first_pair;
  item->pair_count = tape->pairs.count - first_pair;
  item->times = event.times;
  item->present = event.present;
  item->is_deep = event.is_deep;
  item->has_fields = event.has_fields;
  item->is_twice = event.is_twice;
  item->first = tape->values.count;
  chrome->scan.is_shared = true;
  if (!fp_vector_reserve(tape->memory, &tape->values, sizeof(fp_json_value), FIELD_COUNT)) {
    tape->code = FP_NO_MEMORY;
    return FP_WALK_END;
  }
  fp_json_value *to = (fp_json_value *)tape->values.items + tape->values.count;
  for (uint32_t left = event.present; left; left &= left - 1) *to++ = event.fields[__builtin_ctz(left)];
  tape->values.count = (size_t)(to - (fp_json_value *)tape->values.items);
  return FP_WALK_END;
}

/* The value is taken over from the scan. */
static bool record_member(void *context, const uint8_t *key, size_t key_length, const uint8_t *text, size_t length, bool is_whole) {
  fp_chrome *chrome = context;
  fp_chrome_tape *tape = chrome->tape;
  tape_item *item = new_item(chrome, ITEM_MEMBER, chrome->scan.base + chrome->scan.walk.at);
  fp_bytes *value = item ? fp_vector_add(tape->memory, &tape->members, sizeof *value) : NULL;
  (void)text, (void)length;
  if (!value) {
    tape->code = FP_NO_MEMORY;
    return true;
  }
  *value = chrome->scan.value;
  chrome->scan.value = (fp_bytes){.memory = chrome->memory};
  item->is_whole = is_whole;
  item->first = tape->keys.size;
  item->count = key_length;
  item->present = chrome->scan.documents;
  fp_bytes_put(&tape->keys, key, key_length);
  if (tape->keys.failed) tape->code = FP_NO_MEMORY;
  return true;
}

static void record_remark(void *context, fp_json_remark what, uint64_t offset, uint64_t count) {
  tape_item *item = new_item(context, ITEM_REMARK, offset);
  if (!item) return;
  item->what = (uint8_t)what;
  item->count = count;
}

void chrome_record(fp_chrome *chrome, fp_chrome_tape *tape, const uint8_t *data, size_t size) {
  static const fp_json_handlers handlers = {record_event, record_member, record_remark};
  const fp_json_handlers *direct = chrome->scan.handlers;
  clear(tape);
  tape->code = FP_OK;
  chrome->tape = tape;
  chrome->scan.handlers = &handlers;
  fp_code code = fp_json_scan_push(&chrome->scan, data, size, &tape->fault);
  chrome->scan.handlers = direct;
  chrome->tape = NULL;
  if (chrome->scan.is_shared && !fp_json_scan_hand_over(&chrome->scan, &tape->text)) tape->code = FP_NO_MEMORY;
  if (tape->code) fp_fail(&tape->fault, tape->code, 0, "JSON");
  else tape->code = code;
}

/* ---- taking ---- */

static bool take_event(fp_chrome *chrome, const fp_chrome_tape *tape, const fp_json_view *view, const tape_item *item, uint32_t *at) {
  const fp_json_value *value = (const fp_json_value *)tape->values.items + item->first;
  chrome_event event;
  chrome_begin_event(&event, view, item->offset);
  event.present = item->present;
  event.is_deep = item->is_deep;
  event.has_fields = item->has_fields;
  event.is_twice = item->is_twice;
  event.is_listed = item->is_listed;
  event.pairs = (const chrome_pair *)tape->pairs.items + item->first_pair;
  event.pair_count = item->pair_count;
  event.times = item->times;
  for (uint32_t left = item->present; left; left &= left - 1) event.fields[__builtin_ctz(left)] = *value++;
  return chrome_take_fields(chrome, &event, at);
}

static bool take_member(fp_chrome *chrome, const fp_chrome_tape *tape, const tape_item *item, const fp_bytes *value) {
  const uint8_t *none = (const uint8_t *)"";
  const uint8_t *key = item->count ? tape->keys.data + item->first : none, *text = value->size ? value->data : none;
  chrome->member_end = item->offset;
  chrome->document = item->present;
  return chrome_take_member(chrome, key, item->count, text, value->size, item->is_whole);
}

fp_code fp_chrome_take(fp_chrome *chrome, fp_chrome_tape *tape, fp_fault *fault) {
  const tape_item *items = tape->items.items;
  fp_bytes *member = tape->members.items;
  const fp_json_view view = {tape->text.bytes.data, tape->text.marks, tape->text.has, tape->text.mark_count};
  uint32_t at = 0;
  chrome->failed |= tape->code == FP_NO_MEMORY; /* items may lack their values */
  for (size_t i = 0; i < tape->items.count && !chrome->failed; i++) {
    const tape_item *item = &items[i];
    if (item->kind == ITEM_EVENT) {
      if (!take_event(chrome, tape, &view, item, &at))
        return fp_fail(fault, FP_BAD_JSON, tape->text.base + at, "an event");
    } else if (item->kind == ITEM_REMARK) {
      chrome_take_remark(chrome, (fp_json_remark)item->what, item->offset, item->count);
    } else {
      bool is_json = take_member(chrome, tape, item, member);
      fp_bytes_free(member++);
      if (!is_json) return fp_fail(fault, FP_BAD_JSON, item->offset, "the document");
    }
  }
  if (chrome->failed) return fp_fail(fault, FP_NO_MEMORY, 0, "a trace");
  *fault = tape->fault;
  return tape->code;
}
