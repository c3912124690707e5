/* Reading of compiled programs: built by hand, cut off at every byte, damaged at random, and with every allocation
 * failing. */
#include "formats/hlo.h"

#include "tests/check.h"
#include "tests/message.h"

enum { F32 = 11, TUPLE = 13 };

typedef struct reading {
  fp_memory memory;
  fp_hlo hlo;
  fp_fault fault;
  fp_code code;
} reading;

/* Reads a copy in a block of exactly its size. */
static void read_bytes(reading *r, const uint8_t *bytes, size_t size, int64_t allocations) {
  memset(r, 0, sizeof *r);
  fp_memory_init(&r->memory);
  r->memory.countdown = allocations;
  uint8_t *block = malloc(size ? size : 1);
  CHECK(block != NULL);
  if (size) memcpy(block, bytes, size);
  r->hlo.memory = &r->memory;
  r->hlo.data = block;
  r->hlo.size = size;
  r->code = fp_hlo_read(&r->hlo, &r->fault);
}

/* Frees everything, twice, and checks that no block is left. */
static void end(reading *r) {
  uint8_t *block = (uint8_t *)(uintptr_t)r->hlo.data;
  fp_hlo_free(&r->hlo);
  fp_hlo_free(&r->hlo); /* may be called twice */
  CHECK_INT(r->memory.live, 0);
  free(block);
}

static const fp_hlo_instruction *instruction_at(const reading *r, size_t row) {
  CHECK(row < r->hlo.instructions.count);
  return (const fp_hlo_instruction *)r->hlo.instructions.items + row;
}

static const fp_hlo_shape *shape_at(const reading *r, size_t row) {
  CHECK(row < r->hlo.shapes.count);
  return (const fp_hlo_shape *)r->hlo.shapes.items + row;
}

/* Compares a text of the pool. */
static void check_text(const reading *r, int32_t number, const char *wanted) {
  const int64_t *offsets = r->hlo.texts.offsets.items;
  CHECK(number >= 0 && (size_t)number < fp_strings_count(&r->hlo.texts));
  CHECK_INT(offsets[number + 1] - offsets[number], strlen(wanted));
  if (*wanted) CHECK(!memcmp((const char *)r->hlo.texts.bytes.items + offsets[number], wanted, strlen(wanted)));
}

/* ---- messages ------------------------------------------------------------------------------------- */

static void put_tile(message *layout, const char *bytes, size_t size) { put_bytes(layout, 6, bytes, size); }

/* ShapeProto of a two-dimensional array with a layout. */
static message array_shape(int64_t rows, int64_t columns) {
  message shape = {0}, layout = {0};
  put_int(&shape, 2, F32);
  put_raw(&shape, "\x1A\x02", 2); /* dimensions, packed */
  put_varint(&shape, (uint64_t)rows);
  put_varint(&shape, (uint64_t)columns);
  put_raw(&layout, "\x0A\x02\x01\x00", 4); /* minor_to_major, packed */
  put_tile(&layout, "\x0A\x03\x08\x80\x01", 5); /* (8,128) */
  put_tile(&layout, "\x08\x02\x08\x01", 4);     /* (2,1), one by one */
  put_int(&layout, 7, 4);
  put_int(&layout, 8, 5);
  put_message(&shape, 5, &layout);
  return shape;
}

/* ShapeProto of a tuple of two shapes. */
static message tuple_of(message first, message second) {
  message shape = {0};
  put_int(&shape, 2, TUPLE);
  put_message(&shape, 4, &first);
  put_message(&shape, 4, &second);
  return shape;
}

/* An instruction with a shape and metadata, and with an operand and a call unless these are 0. */
static void put_instruction(message *computation, int64_t id, const char *name, const char *opcode, int64_t operand,
                            int64_t call) {
  message instruction = {0}, metadata = {0}, shape = array_shape(3, 7);
  put_text(&metadata, 1, "MatMul");
  put_text(&metadata, 2, "jit(f)/dot");
  put_text(&metadata, 3, "model.py");
  put_int(&metadata, 4, 12);
  put_text(&metadata, 12, "dot.1");
  put_int(&metadata, 15, 2);
  put_text(&metadata, 16, "dot.before");
  put_int(&metadata, 17, 14);
  put_int(&metadata, 18, 3);
  put_int(&metadata, 19, 30);
  put_text(&instruction, 1, name);
  put_text(&instruction, 2, opcode);
  put_message(&instruction, 3, &shape);
  put_message(&instruction, 7, &metadata);
  put_int(&instruction, 35, id);
  if (operand) put_int(&instruction, 36, operand);
  if (call) put_int(&instruction, 38, call);
  put_message(computation, 2, &instruction);
}

/* A schedule of one computation with two instructions. */
static void put_schedule(message *module, int64_t computation, int64_t first, int64_t second) {
  message schedule = {0}, entry = {0}, sequence = {0};
  put_int(&sequence, 1, first);
  put_int(&sequence, 1, second);
  put_message(&entry, 2, &sequence);
  put_int(&entry, 1, computation);
  put_message(&schedule, 1, &entry);
  put_message(module, 7, &schedule);
}

/* A message with two numbers, as locations and frames are. */
static void put_pair(message *index, unsigned field, int64_t first, int64_t second) {
  message pair = {0};
  put_int(&pair, 1, first);
  put_int(&pair, 2, second);
  if (field == 3) put_int(&pair, 3, 40), put_int(&pair, 4, 7), put_int(&pair, 5, 41), put_int(&pair, 6, 9);
  put_message(index, field, &pair);
}

/* Three frames: one that is its own parent, one with a location, one whose location and parent do not exist. */
static void put_stack_frames(message *module) {
  message index = {0};
  put_text(&index, 1, "train.py");
  put_text(&index, 2, "step");
  put_pair(&index, 3, 1, 1);
  put_pair(&index, 3, 9, -1);
  put_pair(&index, 4, 2, 1);
  put_pair(&index, 4, 1, 1);
  put_pair(&index, 4, 3, 4);
  put_message(module, 17, &index);
}

/* Two computations, the second is the entry. The high bits of an instruction's id are the id of its computation. */
static message two_computations(void) {
  message proto = {0}, module = {0}, fused = {0}, entry = {0};
  put_stack_frames(&module);
  put_text(&fused, 1, "fused");
  put_instruction(&fused, (INT64_C(1) << 32) | 1, "param", "parameter", 0, 0);
  put_instruction(&fused, (INT64_C(1) << 32) | 2, "sum", "add", (INT64_C(1) << 32) | 1, 0);
  put_int(&fused, 5, 1);
  put_int(&fused, 6, (INT64_C(1) << 32) | 2);
  put_int(&fused, 7, 1);
  put_text(&entry, 1, "main");
  put_instruction(&entry, (INT64_C(2) << 32) | 1, "x", "parameter", 0, 0);
  put_instruction(&entry, (INT64_C(2) << 32) | 2, "fusion.1", "fusion", (INT64_C(2) << 32) | 1, 1);
  put_int(&entry, 5, 2);
  put_int(&entry, 6, (INT64_C(2) << 32) | 2);
  put_text(&entry, 8, "host");
  put_schedule(&module, 2, (INT64_C(2) << 32) | 2, (INT64_C(2) << 32) | 1);
  put_text(&module, 1, "jit_f");
  put_message(&module, 3, &fused);
  put_message(&module, 3, &entry);
  put_int(&module, 5, 44);
  put_int(&module, 6, 2);
  put_message(&proto, 1, &module);
  return proto;
}

/* A program with nothing but this instruction. */
static void put_lonely_instruction(message *proto, message *instruction) {
  message module = {0}, computation = {0};
  put_message(&computation, 2, instruction);
  put_message(&module, 3, &computation);
  put_message(proto, 1, &module);
}

/* ---- valid programs ------------------------------------------------------------------------------- */

static void a_module_becomes_columns(void) {
  message m = two_computations();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  CHECK_INT(r.code, FP_OK);
  CHECK_INT(r.hlo.id, 44);
  check_text(&r, r.hlo.name, "jit_f");
  CHECK_INT(r.hlo.entry, 1);
  CHECK_INT(r.hlo.instructions.count, 4);
  const fp_hlo_computation *entry = (const fp_hlo_computation *)r.hlo.computations.items + 1;
  check_text(&r, entry->name, "main");
  CHECK(entry->first_instruction == 2 && entry->last_instruction == 4 && entry->root == 3);
  const fp_hlo_instruction *fusion = instruction_at(&r, 3);
  check_text(&r, fusion->name, "fusion.1");
  check_text(&r, fusion->opcode, "fusion");
  check_text(&r, fusion->op_name, "jit(f)/dot");
  check_text(&r, fusion->op_type, "MatMul");
  check_text(&r, fusion->source_file, "model.py");
  CHECK(fusion->source_line == 12 && fusion->computation == 1);
  CHECK(fusion->operand_count == 1 && ((int32_t *)r.hlo.operands.items)[fusion->first_operand] == 2);
  CHECK(fusion->call_count == 1 && ((int32_t *)r.hlo.calls.items)[fusion->first_call] == 0);
  CHECK(fusion->offset + fusion->length <= m.size);
  const fp_hlo_shape *shape = shape_at(&r, (size_t)fusion->shape);
  const int64_t *dimensions = (const int64_t *)r.hlo.dimensions.items + shape->first_dimension;
  CHECK(shape->element_type == F32 && shape->dimension_count == 2 && dimensions[0] == 3 && dimensions[1] == 7);
  CHECK(shape->has_layout && shape->element_bits == 4 && shape->memory_space == 5);
  end(&r);
  message_free(&m);
}

static void layouts_hold_order_and_tiles_and_equal_shapes_share_them(void) {
  message m = two_computations();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  CHECK_INT(r.code, FP_OK);
  CHECK(r.hlo.shapes.count == 1 && r.hlo.tiles.count == 2 && r.hlo.dimensions.count == 2);
  for (size_t i = 0; i < 4; i++) CHECK_INT(instruction_at(&r, i)->shape, 0);
  const fp_hlo_shape *shape = shape_at(&r, 0);
  const int64_t *minor = r.hlo.minor_to_major.items, *sizes = r.hlo.tile_dimensions.items;
  CHECK(shape->minor_count == 2 && minor[0] == 1 && minor[1] == 0);
  CHECK(shape->first_tile == 0 && shape->tile_count == 2 && !shape->is_dynamic);
  const fp_hlo_tile *tiles = r.hlo.tiles.items;
  CHECK(tiles[0].dimension_count == 2 && sizes[0] == 8 && sizes[1] == 128);
  CHECK(tiles[1].first_dimension == 2 && tiles[1].dimension_count == 2 && sizes[2] == 2 && sizes[3] == 1);
  CHECK(!memcmp(r.hlo.data + shape->offset, "\x10\x0B\x1A", 3));
  end(&r);
  message_free(&m);
}

static void metadata_holds_names_and_places(void) {
  message m = two_computations();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  const fp_hlo_instruction *fusion = instruction_at(&r, 3);
  check_text(&r, fusion->deduplicated_name, "dot.1");
  check_text(&r, fusion->scheduling_name, "dot.before");
  CHECK(fusion->stack_frame_id == 2 && fusion->source_end_line == 14);
  CHECK(fusion->source_column == 3 && fusion->source_end_column == 30 && fusion->flags == 0);
  end(&r);
  message_free(&m);
}

static void computations_hold_their_kind_and_the_order_in_which_they_run(void) {
  message m = two_computations();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  const fp_hlo_computation *fused = r.hlo.computations.items, *entry = fused + 1;
  CHECK(fused->is_fusion && !entry->is_fusion && r.hlo.is_scheduled);
  check_text(&r, fused->execution_thread, "");
  check_text(&r, entry->execution_thread, "host");
  CHECK(fused->scheduled_count == -1 && entry->scheduled_count == 2);
  const int32_t *scheduled = (const int32_t *)r.hlo.scheduled.items + entry->first_scheduled;
  CHECK(scheduled[0] == 3 && scheduled[1] == 2);
  CHECK(r.hlo.module_offset + r.hlo.module_length == m.size);
  end(&r);
  message_free(&m);
}

static void frames_are_rows_that_may_lead_nowhere(void) {
  message m = two_computations();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  CHECK_INT(r.hlo.frames.count, 3);
  const fp_hlo_frame *frames = r.hlo.frames.items;
  check_text(&r, frames[1].file, "train.py");
  check_text(&r, frames[1].function, "step");
  CHECK(frames[1].line == 40 && frames[1].column == 7 && frames[1].end_line == 41 && frames[1].end_column == 9);
  CHECK(frames[1].parent == 0 && frames[0].parent == 0 && frames[0].has_location);
  check_text(&r, frames[0].file, ""); /* the ninth file */
  CHECK(frames[2].parent == -1 && !frames[2].has_location && frames[2].line == -1);
  end(&r);
  message_free(&m);
}

static void rare_fields_are_marked_and_found(void) {
  message proto = {0}, instruction = {0};
  put_text(&instruction, 8, "literal");
  put_int(&instruction, 26, 5);
  put_int(&instruction, 37, 1);
  put_text(&instruction, 40, "sharding");
  put_text(&instruction, 43, "{config}");
  put_text(&instruction, 52, "pairs");
  put_text(&instruction, 68, "attributes");
  put_text(&instruction, 87, "devices");
  put_lonely_instruction(&proto, &instruction);
  reading r;
  read_bytes(&r, proto.bytes, proto.size, -1);
  CHECK_INT(r.code, FP_OK);
  const fp_hlo_instruction *found = instruction_at(&r, 0);
  CHECK(found->flags == 127 && found->channel_id == 5);
  CHECK(found->sharding_length == 8 && !memcmp(r.hlo.data + found->sharding_offset, "sharding", 8));
  CHECK(found->backend_config_length == 8 && !memcmp(r.hlo.data + found->backend_config_offset, "{config}", 8));
  end(&r);
  message_free(&proto);
}

static void dimensions_may_be_dynamic(void) {
  const char *flags[] = {"\x32\x02\x00\x00", "\x32\x02\x00\x01", "\x30\x00\x30\x01"};
  const int dynamic[] = {0, 1, 1};
  for (size_t i = 0; i < 3; i++) {
    message proto = {0}, instruction = {0}, shape = array_shape(1, 2);
    put_raw(&shape, flags[i], 4);
    put_message(&instruction, 3, &shape);
    put_lonely_instruction(&proto, &instruction);
    reading r;
    read_bytes(&r, proto.bytes, proto.size, -1);
    CHECK_INT(shape_at(&r, 0)->is_dynamic, dynamic[i]);
    end(&r);
    message_free(&proto);
  }
}

static void tuples_are_followed_by_their_elements(void) {
  message proto = {0}, instruction = {0};
  message shape = tuple_of(array_shape(1, 2), tuple_of(array_shape(3, 4), array_shape(5, 6)));
  put_message(&instruction, 3, &shape);
  put_lonely_instruction(&proto, &instruction);
  reading r;
  read_bytes(&r, proto.bytes, proto.size, -1);
  CHECK_INT(r.code, FP_OK);
  CHECK_INT(r.hlo.shapes.count, 5);
  const int32_t last[] = {5, 2, 5, 4, 5};
  for (size_t i = 0; i < 5; i++) CHECK_INT(shape_at(&r, i)->last, last[i]);
  CHECK_INT(((int64_t *)r.hlo.dimensions.items)[shape_at(&r, 3)->first_dimension], 3);
  end(&r);
  message_free(&proto);
}

static void what_refers_to_nothing_is_minus_one(void) {
  message proto = {0}, instruction = {0};
  put_int(&instruction, 35, 7);
  put_raw(&instruction, "\xA2\x02\x02\x07\x08", 5); /* operand_ids 7 and 8, packed */
  put_int(&instruction, 38, 9);
  put_lonely_instruction(&proto, &instruction);
  reading r;
  read_bytes(&r, proto.bytes, proto.size, -1);
  CHECK_INT(r.code, FP_OK);
  const int32_t *operands = r.hlo.operands.items;
  CHECK(r.hlo.operands.count == 2 && operands[0] == 0 && operands[1] == -1);
  CHECK_INT(((int32_t *)r.hlo.calls.items)[0], -1);
  CHECK(instruction_at(&r, 0)->shape == -1 && r.hlo.entry == 0); /* ids that are left out are 0 */
  CHECK_INT(((fp_hlo_computation *)r.hlo.computations.items)->root, -1);
  check_text(&r, instruction_at(&r, 0)->name, "");
  end(&r);
  message_free(&proto);
}

static void texts_that_are_no_utf8_are_repaired(void) {
  message proto = {0}, instruction = {0};
  put_text(&instruction, 1, "a\xFF"
                            "b");
  put_lonely_instruction(&proto, &instruction);
  reading r;
  read_bytes(&r, proto.bytes, proto.size, -1);
  CHECK_INT(r.code, FP_OK);
  check_text(&r, instruction_at(&r, 0)->name, "a\xEF\xBF\xBD"
                                              "b");
  end(&r);
  message_free(&proto);
}

static void shapes_nest_a_hundred_deep_and_no_deeper(void) {
  for (int depth = 99; depth <= 100; depth++) {
    message proto = {0}, instruction = {0}, shape = array_shape(1, 1);
    for (int i = 0; i < depth; i++) {
      message outer = {0};
      put_int(&outer, 2, TUPLE);
      put_message(&outer, 4, &shape);
      shape = outer;
    }
    put_message(&instruction, 3, &shape);
    put_lonely_instruction(&proto, &instruction);
    reading r;
    read_bytes(&r, proto.bytes, proto.size, -1);
    CHECK_INT(r.code, depth < 100 ? FP_OK : FP_TOO_DEEP);
    end(&r);
    message_free(&proto);
  }
}

/* ---- invalid programs ----------------------------------------------------------------------------- */

static void a_module_cut_off_anywhere_says_where(void) {
  message m = two_computations();
  for (size_t size = 1; size < m.size; size++) {
    reading r;
    read_bytes(&r, m.bytes, size, -1);
    CHECK(r.code != FP_OK && r.fault.what && r.fault.offset <= size);
    end(&r);
  }
  message_free(&m);
}

static void damaged_modules_are_read_or_refused(void) {
  message m = two_computations();
  dice chance = {7};
  int refused = 0;
  for (int round = 0; round < 20000; round++) {
    uint8_t *bytes = malloc(m.size);
    CHECK(bytes != NULL);
    memcpy(bytes, m.bytes, m.size);
    for (uint64_t n = 1 + roll_below(&chance, 3); n--;) bytes[roll_below(&chance, m.size)] = (uint8_t)roll(&chance);
    reading r;
    read_bytes(&r, bytes, m.size, -1);
    CHECK(r.code != FP_NO_MEMORY);
    refused += r.code != FP_OK;
    for (size_t i = 0; !r.code && i < r.hlo.operands.count; i++) {
      int32_t row = ((int32_t *)r.hlo.operands.items)[i];
      CHECK(row >= -1 && row < (int32_t)r.hlo.instructions.count);
    }
    const fp_hlo_frame *frames = r.hlo.frames.items;
    for (size_t i = 0; !r.code && i < r.hlo.frames.count; i++)
      CHECK(frames[i].parent >= -1 && frames[i].parent < (int32_t)r.hlo.frames.count);
    end(&r);
    free(bytes);
  }
  CHECK(refused > 1000 && refused < 19000);
  message_free(&m);
}

static void memory_may_run_out_anywhere(void) {
  message m = two_computations();
  int64_t allocations = 0;
  for (;; allocations++) {
    reading r;
    read_bytes(&r, m.bytes, m.size, allocations);
    CHECK(r.code == FP_OK || r.code == FP_NO_MEMORY);
    fp_code code = r.code;
    end(&r);
    if (!code) break;
  }
  CHECK(allocations > 10);
  message_free(&m);
}

int main(void) {
  RUN(a_module_becomes_columns);
  RUN(layouts_hold_order_and_tiles_and_equal_shapes_share_them);
  RUN(metadata_holds_names_and_places);
  RUN(computations_hold_their_kind_and_the_order_in_which_they_run);
  RUN(frames_are_rows_that_may_lead_nowhere);
  RUN(rare_fields_are_marked_and_found);
  RUN(dimensions_may_be_dynamic);
  RUN(tuples_are_followed_by_their_elements);
  RUN(what_refers_to_nothing_is_minus_one);
  RUN(texts_that_are_no_utf8_are_repaired);
  RUN(shapes_nest_a_hundred_deep_and_no_deeper);
  RUN(a_module_cut_off_anywhere_says_where);
  RUN(damaged_modules_are_read_or_refused);
  RUN(memory_may_run_out_anywhere);
  return 0;
}
