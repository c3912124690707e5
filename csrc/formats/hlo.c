#include "formats/hlo.h"

#include "columns/id_map.h"
#include "columns/utf8.h"
#include "formats/wire.h"

enum { ELEMENT_TUPLE = 13 };

/* One reading: what it fills, and ids that wait to become rows. */
typedef struct reading {
  fp_hlo *hlo;
  fp_fault *fault;
  fp_vector operand_ids, call_ids; /* int64_t, beside `operands` and `calls` */
} reading;

typedef fp_code (*field_reader)(reading *, int32_t row, const wire_field *);

static fp_code fail(const reading *r, fp_code code, const uint8_t *at, const char *what) {
  return fp_fail(r->fault, code, (uint64_t)(at - r->hlo->data), what);
}

static fp_code no_memory(const reading *r, const char *what) { return fp_fail(r->fault, FP_NO_MEMORY, 0, what); }

static fp_hlo_instruction *instruction_at(const reading *r, int32_t row) {
  return (fp_hlo_instruction *)r->hlo->instructions.items + row;
}

static fp_hlo_computation *computation_at(const reading *r, int32_t row) {
  return (fp_hlo_computation *)r->hlo->computations.items + row;
}

static fp_hlo_shape *shape_at(const reading *r, int32_t row) { return (fp_hlo_shape *)r->hlo->shapes.items + row; }

/* Hands each field of a message to a reader. */
static fp_code read_message(reading *r, const uint8_t *p, uint64_t length, int32_t row, field_reader reader, const char *what) {
  const uint8_t *end = p + length;
  while (p < end) {
    const uint8_t *start = p;
    wire_field field;
    fp_code code = wire_next(&p, end, &field);
    if (code) return fail(r, code, start, what);
    if ((code = reader(r, row, &field))) return code;
  }
  return FP_OK;
}

static fp_code read_inner(reading *r, const wire_field *field, int32_t row, field_reader reader, const char *what) {
  return read_message(r, field->payload, field->value, row, reader, what);
}

/* A new row, zeroed; -1 for want of memory, or of numbers for rows. */
static int32_t add_row(reading *r, fp_vector *table, size_t item_size) {
  if (table->count >= INT32_MAX || !fp_vector_add(r->hlo->memory, table, item_size)) return -1;
  return (int32_t)(table->count - 1);
}

/* The number of a text; what is not UTF-8 in it is replaced. */
static fp_code add_text(reading *r, const wire_field *field, int32_t *number) {
  const uint8_t *text = field->payload;
  uint8_t *repaired = NULL;
  size_t length = field->value;
  if (!fp_utf8_valid(text, length)) {
    size_t room = fp_utf8_repair(text, length, NULL);
    if (!(repaired = fp_alloc(r->hlo->memory, room))) return no_memory(r, "HLO text");
    length = fp_utf8_repair(text, field->value, repaired);
    text = repaired;
  }
  *number = fp_strings_add(&r->hlo->texts, text, length);
  fp_release(r->hlo->memory, repaired);
  return *number < 0 ? no_memory(r, "HLO text") : FP_OK;
}

/* A repeated int64, packed or one by one. */
static fp_code add_ints(reading *r, const wire_field *field, fp_vector *values, const char *what) {
  const uint8_t *p = field->payload, *end = p + field->value;
  bool packed = (field->tag & 7) == WIRE_LEN;
  uint64_t value = field->value;
  if (packed && p == end) return FP_OK;
  do {
    if (packed && !wire_varint(&p, end, &value)) return fail(r, FP_BAD_VARINT, p, what);
    if (values->count >= INT32_MAX) return no_memory(r, what);
    int64_t *item = fp_vector_add(r->hlo->memory, values, sizeof *item);
    if (!item) return no_memory(r, what);
    *item = (int64_t)value;
  } while (packed && p < end);
  return FP_OK;
}

/* ---- shapes --------------------------------------------------------------------------------------- */

static fp_code layout_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_shape *shape = shape_at(r, row);
  if (field->tag == WIRE_TAG(7, WIRE_VARINT)) shape->element_bits = (int64_t)field->value;
  if (field->tag == WIRE_TAG(8, WIRE_VARINT)) shape->memory_space = (int64_t)field->value;
  return FP_OK;
}

/* All of a shape but its elements, which come after its own dimensions. */
static fp_code shape_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_shape *shape = shape_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(2, WIRE_VARINT): shape->element_type = field->value > INT16_MAX ? 0 : (int16_t)field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_VARINT):
    case WIRE_TAG(3, WIRE_LEN): return add_ints(r, field, &r->hlo->dimensions, "ShapeProto.dimensions");
    case WIRE_TAG(5, WIRE_LEN):
      shape->has_layout = 1;
      shape->layout_offset = (uint64_t)(field->payload - r->hlo->data);
      shape->layout_length = field->value;
      return read_inner(r, field, row, layout_field, "LayoutProto");
    default: return FP_OK;
  }
}

/* Writes the row of a shape, of type tuple if it has elements, and those of its elements behind it. */
static fp_code read_shape(reading *r, const wire_field *field, int depth, int32_t *row) {
  if (depth == WIRE_MAX_DEPTH) return fail(r, FP_TOO_DEEP, field->payload, "ShapeProto");
  int32_t mine = *row = add_row(r, &r->hlo->shapes, sizeof(fp_hlo_shape));
  if (mine < 0) return no_memory(r, "ShapeProto");
  size_t first = r->hlo->dimensions.count;
  fp_code code = read_inner(r, field, mine, shape_field, "ShapeProto");
  if (code) return code;
  shape_at(r, mine)->first_dimension = (int32_t)first;
  shape_at(r, mine)->dimension_count = (int32_t)(r->hlo->dimensions.count - first);
  const uint8_t *p = field->payload, *end = p + field->value;
  while (shape_at(r, mine)->element_type == ELEMENT_TUPLE && p < end) {
    wire_field inner;
    int32_t element;
    if ((code = wire_next(&p, end, &inner))) return fail(r, code, p, "ShapeProto");
    if (inner.tag == WIRE_TAG(4, WIRE_LEN) && (code = read_shape(r, &inner, depth + 1, &element))) return code;
  }
  shape_at(r, mine)->last = (int32_t)r->hlo->shapes.count;
  return FP_OK;
}

/* ---- instructions --------------------------------------------------------------------------------- */

static fp_code metadata_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_instruction *instruction = instruction_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return add_text(r, field, &instruction->op_type);
    case WIRE_TAG(2, WIRE_LEN): return add_text(r, field, &instruction->op_name);
    case WIRE_TAG(3, WIRE_LEN): return add_text(r, field, &instruction->source_file);
    case WIRE_TAG(4, WIRE_VARINT): instruction->source_line = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(15, WIRE_VARINT): instruction->stack_frame_id = (int32_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code instruction_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_instruction *instruction = instruction_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return add_text(r, field, &instruction->name);
    case WIRE_TAG(2, WIRE_LEN): return add_text(r, field, &instruction->opcode);
    case WIRE_TAG(3, WIRE_LEN): return read_shape(r, field, 0, &instruction->shape);
    case WIRE_TAG(7, WIRE_LEN): return read_inner(r, field, row, metadata_field, "OpMetadata");
    case WIRE_TAG(9, WIRE_VARINT): instruction->parameter_number = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(11, WIRE_LEN): return add_text(r, field, &instruction->fusion_kind);
    case WIRE_TAG(13, WIRE_VARINT): instruction->tuple_index = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(28, WIRE_LEN): return add_text(r, field, &instruction->custom_call_target);
    case WIRE_TAG(35, WIRE_VARINT): instruction->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(36, WIRE_VARINT):
    case WIRE_TAG(36, WIRE_LEN): return add_ints(r, field, &r->operand_ids, "HloInstructionProto.operand_ids");
    case WIRE_TAG(38, WIRE_VARINT):
    case WIRE_TAG(38, WIRE_LEN): return add_ints(r, field, &r->call_ids, "HloInstructionProto.called_computation_ids");
    default: return FP_OK;
  }
}

static fp_code read_instruction(reading *r, const wire_field *field, int32_t computation) {
  int32_t row = add_row(r, &r->hlo->instructions, sizeof(fp_hlo_instruction));
  if (row < 0) return no_memory(r, "HloInstructionProto");
  fp_hlo_instruction *instruction = instruction_at(r, row); /* no instruction is added while one is read */
  instruction->offset = (uint64_t)(field->payload - r->hlo->data);
  instruction->length = field->value;
  instruction->computation = computation;
  instruction->shape = -1;
  instruction->first_operand = (int32_t)r->operand_ids.count;
  instruction->first_call = (int32_t)r->call_ids.count;
  fp_code code = read_inner(r, field, row, instruction_field, "HloInstructionProto");
  instruction->operand_count = (int32_t)r->operand_ids.count - instruction->first_operand;
  instruction->call_count = (int32_t)r->call_ids.count - instruction->first_call;
  return code;
}

/* ---- computations and the module ------------------------------------------------------------------ */

static fp_code computation_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_computation *computation = computation_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return add_text(r, field, &computation->name);
    case WIRE_TAG(2, WIRE_LEN): return read_instruction(r, field, row);
    case WIRE_TAG(5, WIRE_VARINT): computation->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(6, WIRE_VARINT): computation->root_id = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code read_computation(reading *r, const wire_field *field) {
  int32_t row = add_row(r, &r->hlo->computations, sizeof(fp_hlo_computation));
  if (row < 0) return no_memory(r, "HloComputationProto");
  fp_hlo_computation *computation = computation_at(r, row); /* none is added while one is read */
  computation->offset = (uint64_t)(field->payload - r->hlo->data);
  computation->length = field->value;
  computation->first_instruction = (int32_t)r->hlo->instructions.count;
  fp_code code = read_inner(r, field, row, computation_field, "HloComputationProto");
  computation->last_instruction = (int32_t)r->hlo->instructions.count;
  return code;
}

static fp_code module_field(reading *r, int32_t row, const wire_field *field) {
  (void)row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return add_text(r, field, &r->hlo->name);
    case WIRE_TAG(3, WIRE_LEN): return read_computation(r, field);
    case WIRE_TAG(5, WIRE_VARINT): r->hlo->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(6, WIRE_VARINT): r->hlo->entry_id = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code proto_field(reading *r, int32_t row, const wire_field *field) {
  if (field->tag != WIRE_TAG(1, WIRE_LEN)) return FP_OK;
  return read_inner(r, field, row, module_field, "HloModuleProto");
}

/* ---- ids become rows ------------------------------------------------------------------------------ */

/* The map from ids, which stand `id_offset` into the items of a table, to rows. */
static bool build_map(reading *r, const fp_vector *table, size_t item_size, size_t id_offset, fp_id_map *map) {
  int64_t *ids = fp_alloc(r->hlo->memory, table->count * sizeof *ids);
  if (!ids) return false;
  for (size_t i = 0; i < table->count; i++)
    memcpy(&ids[i], (const char *)table->items + i * item_size + id_offset, sizeof *ids);
  bool built = fp_id_map_build(r->hlo->memory, map, ids, table->count, 0);
  fp_release(r->hlo->memory, ids);
  return built;
}

static bool resolve(reading *r, const fp_vector *ids, const fp_id_map *map, fp_vector *rows) {
  if (!fp_vector_reserve(r->hlo->memory, rows, sizeof(int32_t), ids->count)) return false;
  for (size_t i = 0; i < ids->count; i++) ((int32_t *)rows->items)[i] = fp_id_map_find(map, ((const int64_t *)ids->items)[i]);
  rows->count = ids->count;
  return true;
}

static fp_code resolve_all(reading *r) {
  fp_hlo *hlo = r->hlo;
  fp_id_map instructions = {0}, computations = {0};
  bool built = build_map(r, &hlo->instructions, sizeof(fp_hlo_instruction), offsetof(fp_hlo_instruction, id), &instructions);
  built = built &&
          build_map(r, &hlo->computations, sizeof(fp_hlo_computation), offsetof(fp_hlo_computation, id), &computations);
  built = built && resolve(r, &r->operand_ids, &instructions, &hlo->operands);
  built = built && resolve(r, &r->call_ids, &computations, &hlo->calls);
  if (built) {
    for (size_t i = 0; i < hlo->computations.count; i++) {
      fp_hlo_computation *computation = computation_at(r, (int32_t)i);
      computation->root = fp_id_map_find(&instructions, computation->root_id);
    }
    hlo->entry = fp_id_map_find(&computations, hlo->entry_id);
  }
  fp_id_map_free(hlo->memory, &instructions);
  fp_id_map_free(hlo->memory, &computations);
  return built ? FP_OK : no_memory(r, "HLO");
}

fp_code fp_hlo_read(fp_hlo *hlo, fp_fault *fault) {
  reading r = {.hlo = hlo, .fault = fault};
  hlo->texts.memory = hlo->memory;
  hlo->entry = -1;
  if (fp_strings_add(&hlo->texts, (const uint8_t *)"", 0) < 0) return no_memory(&r, "HLO");
  fp_code code = read_message(&r, hlo->data, hlo->size, 0, proto_field, "HloProto");
  if (!code) code = resolve_all(&r);
  fp_vector_free(hlo->memory, &r.operand_ids);
  fp_vector_free(hlo->memory, &r.call_ids);
  return code;
}

void fp_hlo_free(fp_hlo *hlo) {
  fp_vector *vectors[] = {&hlo->computations, &hlo->instructions, &hlo->shapes, &hlo->operands, &hlo->calls, &hlo->dimensions};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) fp_vector_free(hlo->memory, vectors[i]);
  fp_strings_free(&hlo->texts);
}
