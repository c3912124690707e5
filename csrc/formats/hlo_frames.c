/* Stack frames are stored as an index: lists of file names, function names, locations that refer to both, and frames
 * that refer to a location and to their parent. References may point forward, so frames are resolved at the end. */
#include "formats/hlo_frames.h"

static fp_code location_field(hlo_reading *r, int32_t row, const wire_field *field) {
  hlo_location *location = (hlo_location *)r->locations.items + row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT): location->file_id = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(2, WIRE_VARINT): location->function_id = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_VARINT): location->line = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(4, WIRE_VARINT): location->column = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(5, WIRE_VARINT): location->end_line = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(6, WIRE_VARINT): location->end_column = (int32_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code frame_field(hlo_reading *r, int32_t row, const wire_field *field) {
  hlo_frame_ids *frame = (hlo_frame_ids *)r->frame_ids.items + row;
  if (field->tag == WIRE_TAG(1, WIRE_VARINT)) frame->location_id = (int32_t)field->value;
  if (field->tag == WIRE_TAG(2, WIRE_VARINT)) frame->parent_id = (int32_t)field->value;
  return FP_OK;
}

/* Appends a file or function name. */
static fp_code add_name(hlo_reading *r, const wire_field *field, fp_vector *names) {
  int32_t row = hlo_add_row(r, names, sizeof(int32_t));
  if (row < 0) return hlo_no_memory(r, "StackFrameIndexProto");
  return hlo_add_text(r, field, (int32_t *)names->items + row);
}

/* Appends a row and reads its message into it. */
static fp_code add_item(hlo_reading *r, const wire_field *field, fp_vector *items, size_t size, hlo_field_reader reader,
                        const char *what) {
  int32_t row = hlo_add_row(r, items, size);
  return row < 0 ? hlo_no_memory(r, what) : hlo_read_inner(r, field, row, reader, what);
}

/* The four lists of StackFrameIndexProto. */
static fp_code index_field(hlo_reading *r, int32_t row, const wire_field *field) {
  (void)row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return add_name(r, field, &r->files);
    case WIRE_TAG(2, WIRE_LEN): return add_name(r, field, &r->functions);
    case WIRE_TAG(3, WIRE_LEN):
      return add_item(r, field, &r->locations, sizeof(hlo_location), location_field, "FileLocation");
    case WIRE_TAG(4, WIRE_LEN):
      return add_item(r, field, &r->frame_ids, sizeof(hlo_frame_ids), frame_field, "StackFrame");
    default: return FP_OK;
  }
}

fp_code hlo_read_frames(hlo_reading *r, const wire_field *field) {
  return hlo_read_inner(r, field, 0, index_field, "StackFrameIndexProto");
}

/* The text with an id; the empty one if there is none. */
static int32_t name_of(const fp_vector *names, int32_t id) {
  return id > 0 && (size_t)id <= names->count ? ((const int32_t *)names->items)[id - 1] : 0;
}

/* Fills a frame from its ids. Without a location its numbers are -1. */
static void resolve_frame(const hlo_reading *r, const hlo_frame_ids *ids, fp_hlo_frame *frame) {
  frame->parent = ids->parent_id > 0 && (size_t)ids->parent_id <= r->frame_ids.count ? ids->parent_id - 1 : -1;
  frame->line = frame->column = frame->end_line = frame->end_column = -1;
  if (ids->location_id <= 0 || (size_t)ids->location_id > r->locations.count) return;
  const hlo_location *at = (const hlo_location *)r->locations.items + (ids->location_id - 1);
  frame->file = name_of(&r->files, at->file_id);
  frame->function = name_of(&r->functions, at->function_id);
  frame->line = at->line;
  frame->column = at->column;
  frame->end_line = at->end_line;
  frame->end_column = at->end_column;
  frame->has_location = 1;
}

fp_code hlo_resolve_frames(hlo_reading *r) {
  const hlo_frame_ids *ids = r->frame_ids.items;
  for (size_t i = 0; i < r->frame_ids.count; i++) {
    int32_t row = hlo_add_row(r, &r->hlo->frames, sizeof(fp_hlo_frame));
    if (row < 0) return hlo_no_memory(r, "StackFrame");
    resolve_frame(r, ids + i, (fp_hlo_frame *)r->hlo->frames.items + row);
  }
  return FP_OK;
}
