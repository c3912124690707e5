/* Stacks of events, from the frames that stackFrames lists:
 *
 *    "stackFrames": {"1": {"name": "main"}, "2": {"name": "f", "parent": "1"}}        2  ->  "main\nf"
 *
 * Frames are learnt once. All stacks together have room in proportion to the document: beyond it, and of very deep ones,
 * only the innermost frames are kept. */
#include "formats/chrome_stats.h"

enum { MOST_FRAMES = 1 << 14, LEAST_ROOM = 1 << 24, ROOM_A_BYTE = 4, ROOM_OF_FRAME = 8 };

/* The number of a frame; -1: memory ran out. */
static int32_t frame_number(fp_chrome *chrome, const uint8_t *id, size_t length) {
  int32_t number = fp_strings_add(&chrome->frame_ids, id, length);
  if (number >= 0 && (size_t)number == chrome->stack_frames.count) {
    chrome_stack_frame *fresh = fp_vector_add(chrome->memory, &chrome->stack_frames, sizeof *fresh);
    if (!fresh) return -1;
    fresh->parent = -1;
  }
  return number;
}

bool chrome_read_frames(fp_chrome *chrome, chrome_text_view *text) {
  fp_json_value frames, key, object, parent;
  chrome->stack_room = LEAST_ROOM + ROOM_A_BYTE * (chrome->scan.base + chrome->scan.walk.at);
  size_t length = chrome->stacks.size;
  bool has_view = chrome_view_text(chrome->memory, chrome->stacks.data, length, text);
  fp_bytes_free(&chrome->stacks);
  if (!has_view) return false;
  if (!text->view.count || !chrome_whole_value(text, length, &frames) || frames.kind != FP_JSON_OBJECT) return true;
  fp_json_walk walk = fp_json_into(&frames);
  for (fp_json_step step; (step = fp_json_member(&text->view, &walk, &key, &object)) == FP_WALK_ITEM || step == FP_WALK_DEEP;) {
    int32_t number = frame_number(chrome, text->text + key.from, key.to - key.from), above = -1;
    bool has_parent = chrome_member(&text->view, &object, "parent", &parent);
    if (has_parent) above = frame_number(chrome, text->text + parent.from, parent.to - parent.from);
    if (number < 0 || (has_parent && above < 0)) return false;
    chrome_stack_frame *frame = (chrome_stack_frame *)chrome->stack_frames.items + number;
    frame->is_object = object.kind == FP_JSON_OBJECT;
    frame->parent = above;
    chrome_member(&text->view, &object, "name", &frame->name);
  }
  return true;
}

/* The frames from `number` outwards, whose names have room, as numbers of frames. */
static void list_frames(fp_chrome *chrome, fp_vector *list, int32_t number) {
  const chrome_stack_frame *frames = chrome->stack_frames.items;
  for (;; number = frames[number].parent) {
    const chrome_stack_frame *frame = number < 0 ? NULL : &frames[number];
    if (!frame || !frame->is_object || list->count == MOST_FRAMES) break;
    uint64_t size = ROOM_OF_FRAME + (frame->name.kind == FP_JSON_TEXT ? frame->name.to - frame->name.from : 0);
    if (size > chrome->stack_room) break;
    chrome->stack_room -= size;
    int32_t *added = fp_vector_add(chrome->memory, list, sizeof *added);
    if (!added) {
      chrome->failed = true;
      return;
    }
    *added = number;
    if (frame->parent < 0) return;
  }
  chrome_remark(chrome, CHROME_BAD_STACK, 0, 1);
}

void chrome_put_stack(fp_chrome *chrome, fp_bytes *out, const chrome_text_view *text, chrome_id frame) {
  fp_bytes id = {.memory = chrome->memory};
  fp_vector list = {0};
  size_t length, from = out->size;
  chrome_put_id(chrome, &id, frame);
  if (!id.failed) list_frames(chrome, &list, fp_strings_find(&chrome->frame_ids, id.data ? id.data : (const uint8_t *)"", id.size));
  const chrome_stack_frame *frames = chrome->stack_frames.items;
  for (size_t i = list.count; i-- > 0;) {
    const fp_json_value *name = &frames[((const int32_t *)list.items)[i]].name;
    if (name->kind != FP_JSON_TEXT) continue;
    const uint8_t *plain = chrome_text(chrome, &text->view, name, &length);
    if (out->size > from) fp_bytes_byte(out, '\n');
    fp_bytes_put(out, plain, length);
  }
  chrome->failed |= id.failed;
  fp_bytes_free(&id);
  fp_vector_free(chrome->memory, &list);
}
