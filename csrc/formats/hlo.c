/* The messages that are read, with the numbers of their fields:
 *
 *    HloProto               1 hlo_module
 *    HloModuleProto         1 name  3 computations  5 id  6 entry_computation_id  7 schedule  17 stack_frame_index
 *    HloComputationProto    1 name  2 instructions  4 program_shape  5 id  6 root_id  7 is_fusion  8 execution_thread
 *    HloInstructionProto    1 name  2 opcode  3 shape  7 metadata  35 id  36 operand_ids  38 called_computation_ids
 *    HloScheduleProto       1 sequences: a map from computation ids to lists of instruction ids
 *
 * Each message has a function that handles one of its fields; hlo_read_inner calls it for all of them. */
#include "formats/hlo.h"

#include "columns/id_map.h"
#include "formats/hlo_frames.h"
#include "formats/hlo_reading.h"
#include "formats/hlo_shape.h"

/* Pointers into vectors are only valid until the next append, so readers pass row numbers and look rows up. */
static fp_hlo_instruction *instruction_at(const hlo_reading *r, int32_t row) {
  return (fp_hlo_instruction *)r->hlo->instructions.items + row;
}

static fp_hlo_computation *computation_at(const hlo_reading *r, int32_t row) {
  return (fp_hlo_computation *)r->hlo->computations.items + row;
}

/* ---- instructions --------------------------------------------------------------------------------- */

/* The fields of OpMetadata. */
static fp_code metadata_field(hlo_reading *r, int32_t row, const wire_field *field) {
  fp_hlo_instruction *instruction = instruction_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return hlo_add_text(r, field, &instruction->op_type);
    case WIRE_TAG(2, WIRE_LEN): return hlo_add_text(r, field, &instruction->op_name);
    case WIRE_TAG(3, WIRE_LEN): return hlo_add_text(r, field, &instruction->source_file);
    case WIRE_TAG(4, WIRE_VARINT): instruction->source_line = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(12, WIRE_LEN): return hlo_add_text(r, field, &instruction->deduplicated_name);
    case WIRE_TAG(15, WIRE_VARINT): instruction->stack_frame_id = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(16, WIRE_LEN): return hlo_add_text(r, field, &instruction->scheduling_name);
    case WIRE_TAG(17, WIRE_VARINT): instruction->source_end_line = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(18, WIRE_VARINT): instruction->source_column = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(19, WIRE_VARINT): instruction->source_end_column = (int32_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

/* Fields that few instructions have: only where they lie, or that they exist. */
static fp_code rare_field(hlo_reading *r, fp_hlo_instruction *instruction, const wire_field *field) {
  switch (field->tag) {
    case WIRE_TAG(8, WIRE_LEN): instruction->flags |= FP_HLO_LITERAL; return FP_OK;
    case WIRE_TAG(26, WIRE_VARINT): instruction->channel_id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(37, WIRE_VARINT):
    case WIRE_TAG(37, WIRE_LEN): instruction->flags |= FP_HLO_CONTROL_PREDECESSORS; return FP_OK;
    case WIRE_TAG(40, WIRE_LEN):
      instruction->flags |= FP_HLO_SHARDING;
      instruction->sharding_offset = hlo_offset(r, field);
      instruction->sharding_length = field->value;
      return FP_OK;
    case WIRE_TAG(43, WIRE_LEN):
      instruction->flags |= field->value ? FP_HLO_BACKEND_CONFIG : 0;
      instruction->backend_config_offset = hlo_offset(r, field);
      instruction->backend_config_length = field->value;
      return FP_OK;
    case WIRE_TAG(49, WIRE_LEN):
    case WIRE_TAG(87, WIRE_LEN): instruction->flags |= FP_HLO_REPLICA_GROUPS; return FP_OK;
    case WIRE_TAG(52, WIRE_LEN): instruction->flags |= FP_HLO_SOURCE_TARGET_PAIRS; return FP_OK;
    case WIRE_TAG(68, WIRE_LEN): instruction->flags |= FP_HLO_FRONTEND_ATTRIBUTES; return FP_OK;
    default: return FP_OK;
  }
}

/* The fields of HloInstructionProto. */
static fp_code instruction_field(hlo_reading *r, int32_t row, const wire_field *field) {
  fp_hlo_instruction *instruction = instruction_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return hlo_add_text(r, field, &instruction->name);
    case WIRE_TAG(2, WIRE_LEN): return hlo_add_text(r, field, &instruction->opcode);
    case WIRE_TAG(3, WIRE_LEN): return hlo_read_shape(r, field, &instruction->shape);
    case WIRE_TAG(7, WIRE_LEN): return hlo_read_inner(r, field, row, metadata_field, "OpMetadata");
    case WIRE_TAG(9, WIRE_VARINT): instruction->parameter_number = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(11, WIRE_LEN): return hlo_add_text(r, field, &instruction->fusion_kind);
    case WIRE_TAG(13, WIRE_VARINT): instruction->tuple_index = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(28, WIRE_LEN): return hlo_add_text(r, field, &instruction->custom_call_target);
    case WIRE_TAG(35, WIRE_VARINT): instruction->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(36, WIRE_VARINT):
    case WIRE_TAG(36, WIRE_LEN): return hlo_add_ints(r, field, &r->operand_ids, "HloInstructionProto.operand_ids");
    case WIRE_TAG(38, WIRE_VARINT):
    case WIRE_TAG(38, WIRE_LEN): return hlo_add_ints(r, field, &r->call_ids, "HloInstructionProto.called_computation_ids");
    default: return rare_field(r, instruction, field);
  }
}

/* Adds an instruction. Its operands and calls are the ids that reading it appends, so they lie together. */
static fp_code read_instruction(hlo_reading *r, const wire_field *field, int32_t computation) {
  int32_t row = hlo_add_row(r, &r->hlo->instructions, sizeof(fp_hlo_instruction));
  if (row < 0) return hlo_no_memory(r, "HloInstructionProto");
  fp_hlo_instruction *instruction = instruction_at(r, row); /* stays valid: instructions do not nest */
  instruction->offset = hlo_offset(r, field);
  instruction->length = field->value;
  instruction->computation = computation;
  instruction->shape = -1;
  instruction->first_operand = (int32_t)r->operand_ids.count;
  instruction->first_call = (int32_t)r->call_ids.count;
  fp_code code = hlo_read_inner(r, field, row, instruction_field, "HloInstructionProto");
  instruction->operand_count = (int32_t)r->operand_ids.count - instruction->first_operand;
  instruction->call_count = (int32_t)r->call_ids.count - instruction->first_call;
  return code;
}

/* ---- computations and the module ------------------------------------------------------------------ */

/* The fields of HloComputationProto. */
static fp_code computation_field(hlo_reading *r, int32_t row, const wire_field *field) {
  fp_hlo_computation *computation = computation_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return hlo_add_text(r, field, &computation->name);
    case WIRE_TAG(2, WIRE_LEN): return read_instruction(r, field, row);
    case WIRE_TAG(4, WIRE_LEN):
      computation->program_shape_offset = hlo_offset(r, field);
      computation->program_shape_length = field->value;
      return FP_OK;
    case WIRE_TAG(5, WIRE_VARINT): computation->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(6, WIRE_VARINT): computation->root_id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(7, WIRE_VARINT): computation->is_fusion = field->value != 0; return FP_OK;
    case WIRE_TAG(8, WIRE_LEN): return hlo_add_text(r, field, &computation->execution_thread);
    default: return FP_OK;
  }
}

/* Adds a computation. Its instructions are those that reading it appends. */
static fp_code read_computation(hlo_reading *r, const wire_field *field) {
  int32_t row = hlo_add_row(r, &r->hlo->computations, sizeof(fp_hlo_computation));
  if (row < 0) return hlo_no_memory(r, "HloComputationProto");
  fp_hlo_computation *computation = computation_at(r, row); /* stays valid: computations do not nest */
  computation->offset = hlo_offset(r, field);
  computation->length = field->value;
  computation->scheduled_count = -1;
  computation->first_instruction = (int32_t)r->hlo->instructions.count;
  fp_code code = hlo_read_inner(r, field, row, computation_field, "HloComputationProto");
  computation->last_instruction = (int32_t)r->hlo->instructions.count;
  return code;
}

/* The schedule: for each computation the ids of its instructions, in the order in which they run. */
static fp_code instruction_ids_field(hlo_reading *r, int32_t row, const wire_field *field) {
  (void)row;
  if (field->tag != WIRE_TAG(1, WIRE_VARINT) && field->tag != WIRE_TAG(1, WIRE_LEN)) return FP_OK;
  return hlo_add_ints(r, field, &r->scheduled_ids, "InstructionSequence.instruction_ids");
}

/* An entry of the schedule's map: the id of a computation, and the list for it. */
static fp_code sequence_field(hlo_reading *r, int32_t row, const wire_field *field) {
  if (field->tag == WIRE_TAG(1, WIRE_VARINT))
    ((hlo_sequence *)r->sequences.items)[row].computation_id = (int64_t)field->value;
  if (field->tag != WIRE_TAG(2, WIRE_LEN)) return FP_OK;
  return hlo_read_inner(r, field, row, instruction_ids_field, "InstructionSequence");
}

static fp_code schedule_field(hlo_reading *r, int32_t row, const wire_field *field) {
  if (field->tag != WIRE_TAG(1, WIRE_LEN)) return FP_OK;
  if ((row = hlo_add_row(r, &r->sequences, sizeof(hlo_sequence))) < 0) return hlo_no_memory(r, "HloScheduleProto");
  int64_t first = (int64_t)r->scheduled_ids.count;
  fp_code code = hlo_read_inner(r, field, row, sequence_field, "HloScheduleProto");
  hlo_sequence *sequence = (hlo_sequence *)r->sequences.items + row;
  sequence->first = first;
  sequence->count = (int64_t)r->scheduled_ids.count - first;
  return code;
}

/* The fields of HloModuleProto. */
static fp_code module_field(hlo_reading *r, int32_t row, const wire_field *field) {
  (void)row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): return hlo_add_text(r, field, &r->hlo->name);
    case WIRE_TAG(3, WIRE_LEN): return read_computation(r, field);
    case WIRE_TAG(5, WIRE_VARINT): r->hlo->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(6, WIRE_VARINT): r->hlo->entry_id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(7, WIRE_LEN):
      r->hlo->is_scheduled = 1;
      return hlo_read_inner(r, field, 0, schedule_field, "HloScheduleProto");
    case WIRE_TAG(17, WIRE_LEN): return hlo_read_frames(r, field);
    default: return FP_OK;
  }
}

/* Only the module; buffer assignments have a reader of their own (hlo_buffers.h). */
static fp_code proto_field(hlo_reading *r, int32_t row, const wire_field *field) {
  if (field->tag != WIRE_TAG(1, WIRE_LEN)) return FP_OK;
  r->hlo->module_offset = hlo_offset(r, field);
  r->hlo->module_length = field->value;
  return hlo_read_inner(r, field, row, module_field, "HloModuleProto");
}

/* ---- ids become rows ------------------------------------------------------------------------------ */

/* Builds the map from ids to rows of a table, whose items hold their id `id_offset` bytes from their start. */
static bool build_map(hlo_reading *r, const fp_vector *table, size_t item_size, size_t id_offset, fp_id_map *map) {
  int64_t *ids = fp_alloc(r->hlo->memory, table->count * sizeof *ids);
  if (!ids) return false;
  for (size_t i = 0; i < table->count; i++)
    memcpy(&ids[i], (const char *)table->items + i * item_size + id_offset, sizeof *ids);
  bool built = fp_id_map_build(r->hlo->memory, map, ids, table->count, 0);
  fp_release(r->hlo->memory, ids);
  return built;
}

/* Replaces ids by rows; -1 for an id that does not exist. */
static bool resolve(hlo_reading *r, const fp_vector *ids, const fp_id_map *map, fp_vector *rows) {
  if (!fp_vector_reserve(r->hlo->memory, rows, sizeof(int32_t), ids->count)) return false;
  for (size_t i = 0; i < ids->count; i++) ((int32_t *)rows->items)[i] = fp_id_map_find(map, ((const int64_t *)ids->items)[i]);
  rows->count = ids->count;
  return true;
}

/* Roots, the entry computation, and which part of the schedule belongs to which computation. */
static void resolve_computations(hlo_reading *r, const fp_id_map *instructions, const fp_id_map *computations) {
  for (size_t i = 0; i < r->hlo->computations.count; i++) {
    fp_hlo_computation *computation = computation_at(r, (int32_t)i);
    computation->root = fp_id_map_find(instructions, computation->root_id);
  }
  r->hlo->entry = fp_id_map_find(computations, r->hlo->entry_id);
  for (size_t i = 0; i < r->sequences.count; i++) {
    const hlo_sequence *sequence = (const hlo_sequence *)r->sequences.items + i;
    int32_t row = fp_id_map_find(computations, sequence->computation_id);
    if (row < 0) continue;
    computation_at(r, row)->first_scheduled = (int32_t)sequence->first;
    computation_at(r, row)->scheduled_count = (int32_t)sequence->count;
  }
}

/* Everything that refers to something by id. Instruction ids are unique in a module, so one map serves all
 * computations. */
static fp_code resolve_all(hlo_reading *r) {
  fp_hlo *hlo = r->hlo;
  fp_id_map instructions = {0}, computations = {0};
  bool built = build_map(r, &hlo->instructions, sizeof(fp_hlo_instruction), offsetof(fp_hlo_instruction, id), &instructions);
  built = built &&
          build_map(r, &hlo->computations, sizeof(fp_hlo_computation), offsetof(fp_hlo_computation, id), &computations);
  built = built && resolve(r, &r->operand_ids, &instructions, &hlo->operands);
  built = built && resolve(r, &r->scheduled_ids, &instructions, &hlo->scheduled);
  built = built && resolve(r, &r->call_ids, &computations, &hlo->calls);
  if (built) resolve_computations(r, &instructions, &computations);
  fp_id_map_free(hlo->memory, &instructions);
  fp_id_map_free(hlo->memory, &computations);
  return built ? hlo_resolve_frames(r) : hlo_no_memory(r, "HLO");
}

/* Frees what only the reading needs. */
static void end_reading(hlo_reading *r) {
  fp_vector *vectors[] = {&r->operand_ids, &r->call_ids,  &r->scheduled_ids, &r->sequences, &r->files,
                          &r->functions,   &r->locations, &r->frame_ids,     &r->shape_rows};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) fp_vector_free(r->hlo->memory, vectors[i]);
  fp_strings_free(&r->shape_protos);
}

/* Number 0 must be the empty text before anything else is added to the pool. */
fp_code fp_hlo_read(fp_hlo *hlo, fp_fault *fault) {
  hlo_reading r = {.hlo = hlo, .fault = fault};
  hlo->texts.memory = r.shape_protos.memory = hlo->memory;
  hlo->entry = -1;
  if (fp_strings_add(&hlo->texts, (const uint8_t *)"", 0) < 0) return hlo_no_memory(&r, "HLO");
  fp_code code = hlo_read_message(&r, hlo->data, hlo->size, 0, proto_field, "HloProto");
  if (!code) code = resolve_all(&r);
  end_reading(&r);
  return code;
}

void fp_hlo_free(fp_hlo *hlo) {
  fp_vector *vectors[] = {&hlo->computations, &hlo->instructions, &hlo->shapes,     &hlo->tiles,
                          &hlo->frames,       &hlo->operands,     &hlo->calls,      &hlo->scheduled,
                          &hlo->dimensions,   &hlo->minor_to_major, &hlo->tile_dimensions};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) fp_vector_free(hlo->memory, vectors[i]);
  fp_strings_free(&hlo->texts);
}
