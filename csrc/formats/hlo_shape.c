/* Reading of shapes. A tuple's own fields are read first (read_own), then its elements in a second pass over the same
 * bytes: so the dimensions of a row lie together, and its elements lie behind it. */
#include "formats/hlo_shape.h"

enum { ELEMENT_TUPLE = 13 };

static fp_hlo_shape *shape_at(const hlo_reading *r, int32_t row) { return (fp_hlo_shape *)r->hlo->shapes.items + row; }

/* A tile is a list of dimensions. */
static fp_code tile_field(hlo_reading *r, int32_t row, const wire_field *field) {
  (void)row;
  if (field->tag != WIRE_TAG(1, WIRE_VARINT) && field->tag != WIRE_TAG(1, WIRE_LEN)) return FP_OK;
  return hlo_add_ints(r, field, &r->hlo->tile_dimensions, "TileProto.dimensions");
}

/* Adds a tile, and its dimensions to tile_dimensions. */
static fp_code read_tile(hlo_reading *r, const wire_field *field) {
  int32_t row = hlo_add_row(r, &r->hlo->tiles, sizeof(fp_hlo_tile));
  if (row < 0) return hlo_no_memory(r, "TileProto");
  size_t first = r->hlo->tile_dimensions.count;
  fp_code code = hlo_read_inner(r, field, row, tile_field, "TileProto");
  fp_hlo_tile *tile = (fp_hlo_tile *)r->hlo->tiles.items + row;
  tile->first_dimension = (int32_t)first;
  tile->dimension_count = (int32_t)(r->hlo->tile_dimensions.count - first);
  return code;
}

/* The fields of LayoutProto. */
static fp_code layout_field(hlo_reading *r, int32_t row, const wire_field *field) {
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT):
    case WIRE_TAG(1, WIRE_LEN): return hlo_add_ints(r, field, &r->hlo->minor_to_major, "LayoutProto.minor_to_major");
    case WIRE_TAG(6, WIRE_LEN): return read_tile(r, field);
    case WIRE_TAG(7, WIRE_VARINT): shape_at(r, row)->element_bits = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(8, WIRE_VARINT): shape_at(r, row)->memory_space = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(16, WIRE_VARINT): shape_at(r, row)->alignment = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

/* is_dynamic_dimension: whether any of its flags is set. */
static bool any_set(const wire_field *field) {
  for (uint64_t i = 0; i < field->value; i++)
    if (field->payload[i]) return true;
  return false;
}

/* The fields of a shape, except its elements. */
static fp_code shape_field(hlo_reading *r, int32_t row, const wire_field *field) {
  fp_hlo_shape *shape = shape_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(2, WIRE_VARINT): shape->element_type = field->value > INT16_MAX ? 0 : (int16_t)field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_VARINT):
    case WIRE_TAG(3, WIRE_LEN): return hlo_add_ints(r, field, &r->hlo->dimensions, "ShapeProto.dimensions");
    case WIRE_TAG(5, WIRE_LEN):
      shape->has_layout = 1;
      return hlo_read_inner(r, field, row, layout_field, "LayoutProto");
    case WIRE_TAG(6, WIRE_VARINT): shape->is_dynamic |= field->value != 0; return FP_OK;
    case WIRE_TAG(6, WIRE_LEN): shape->is_dynamic |= any_set(field); return FP_OK;
    default: return FP_OK;
  }
}

/* Adds a row for a shape without its elements. */
static fp_code read_own(hlo_reading *r, const wire_field *field, int32_t *row) {
  fp_hlo *hlo = r->hlo;
  int32_t mine = *row = hlo_add_row(r, &hlo->shapes, sizeof(fp_hlo_shape));
  if (mine < 0) return hlo_no_memory(r, "ShapeProto");
  size_t dimensions = hlo->dimensions.count, minors = hlo->minor_to_major.count, tiles = hlo->tiles.count;
  fp_code code = hlo_read_inner(r, field, mine, shape_field, "ShapeProto");
  fp_hlo_shape *shape = shape_at(r, mine);
  shape->offset = hlo_offset(r, field);
  shape->length = field->value;
  shape->first_dimension = (int32_t)dimensions;
  shape->dimension_count = (int32_t)(hlo->dimensions.count - dimensions);
  shape->first_minor = (int32_t)minors;
  shape->minor_count = (int32_t)(hlo->minor_to_major.count - minors);
  shape->first_tile = (int32_t)tiles;
  shape->tile_count = (int32_t)(hlo->tiles.count - tiles);
  return code;
}

/* Adds the row of a shape, and behind it those of its elements if it is a tuple. Bytes may nest deeper than the stack
 * allows, hence the limit. */
static fp_code read_tree(hlo_reading *r, const wire_field *field, int depth, int32_t *row) {
  if (depth == WIRE_MAX_DEPTH) return hlo_fail(r, FP_TOO_DEEP, field->payload, "ShapeProto");
  fp_code code = read_own(r, field, row);
  if (code) return code;
  int32_t mine = *row;
  const uint8_t *p = field->payload, *end = p + field->value;
  while (shape_at(r, mine)->element_type == ELEMENT_TUPLE && p < end) {
    wire_field inner;
    int32_t element;
    if ((code = wire_next(&p, end, &inner))) return hlo_fail(r, code, p, "ShapeProto");
    if (inner.tag == WIRE_TAG(4, WIRE_LEN) && (code = read_tree(r, &inner, depth + 1, &element))) return code;
  }
  shape_at(r, mine)->last = (int32_t)r->hlo->shapes.count;
  return FP_OK;
}

/* A program has few distinct shapes. Equal ones are found by their bytes, which need not be parsed for that. */
fp_code hlo_read_shape(hlo_reading *r, const wire_field *field, int32_t *row) {
  int32_t number = fp_strings_add(&r->shape_protos, field->payload, field->value);
  if (number < 0) return hlo_no_memory(r, "ShapeProto");
  if ((size_t)number < r->shape_rows.count) {
    *row = ((const int32_t *)r->shape_rows.items)[number];
    return FP_OK;
  }
  fp_code code = read_tree(r, field, 0, row);
  if (code) return code;
  int32_t *known = fp_vector_add(r->hlo->memory, &r->shape_rows, sizeof *known);
  if (!known) return hlo_no_memory(r, "ShapeProto");
  *known = *row;
  return FP_OK;
}
