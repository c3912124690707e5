/* Any bytes are read as a compiled program or refused with an offset. Whatever the columns refer to exists, shapes
 * are trees, and offsets lie within the bytes. */
#include "formats/hlo.h"
#include "fuzz/target.h"

static void check_run(int64_t first, int64_t count, const fp_vector *table) {
  CHECK(first >= 0 && count >= 0 && (uint64_t)first + (uint64_t)count <= table->count);
}

static void check_row(int32_t row, size_t count) { CHECK(row >= -1 && row < (int64_t)count); }

static void check_rows(const fp_vector *rows, const fp_vector *table) {
  for (size_t i = 0; i < rows->count; i++) check_row(((const int32_t *)rows->items)[i], table->count);
}

static void check_bytes(const fp_hlo *hlo, uint64_t offset, uint64_t length) {
  CHECK(offset <= hlo->size && length <= hlo->size - offset);
}

static void check_texts(const fp_hlo *hlo, const int32_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) CHECK(numbers[i] >= 0 && (size_t)numbers[i] < fp_strings_count(&hlo->texts));
}

static void check_computations(const fp_hlo *hlo) {
  int32_t next = 0;
  for (size_t i = 0; i < hlo->computations.count; i++) {
    const fp_hlo_computation *c = (const fp_hlo_computation *)hlo->computations.items + i;
    CHECK(c->first_instruction == next && c->last_instruction >= next);
    next = c->last_instruction;
    check_row(c->root, hlo->instructions.count);
    check_bytes(hlo, c->offset, c->length);
    check_bytes(hlo, c->program_shape_offset, c->program_shape_length);
    check_texts(hlo, (int32_t[]){c->name, c->execution_thread}, 2);
    if (c->scheduled_count >= 0) check_run(c->first_scheduled, c->scheduled_count, &hlo->scheduled);
  }
  CHECK(next == (int32_t)hlo->instructions.count);
}

static void check_instructions(const fp_hlo *hlo) {
  int32_t operand = 0, call = 0;
  for (size_t i = 0; i < hlo->instructions.count; i++) {
    const fp_hlo_instruction *one = (const fp_hlo_instruction *)hlo->instructions.items + i;
    CHECK(one->first_operand == operand && one->first_call == call); /* no operand lies between two lists */
    check_run(one->first_operand, one->operand_count, &hlo->operands);
    check_run(one->first_call, one->call_count, &hlo->calls);
    operand += one->operand_count;
    call += one->call_count;
    check_row(one->shape, hlo->shapes.count);
    CHECK(one->computation >= 0 && (size_t)one->computation < hlo->computations.count);
    check_texts(hlo, &one->name, 9); /* name to scheduling_name */
    check_bytes(hlo, one->offset, one->length);
    check_bytes(hlo, one->sharding_offset, one->sharding_length);
    check_bytes(hlo, one->backend_config_offset, one->backend_config_length);
  }
}

static void check_shapes(const fp_hlo *hlo) {
  for (size_t i = 0; i < hlo->shapes.count; i++) {
    const fp_hlo_shape *shape = (const fp_hlo_shape *)hlo->shapes.items + i;
    CHECK(shape->last > (int32_t)i && (size_t)shape->last <= hlo->shapes.count);
    for (int32_t inner = (int32_t)i + 1; inner < shape->last;) {
      int32_t last = ((const fp_hlo_shape *)hlo->shapes.items + inner)->last;
      CHECK(last > inner && last <= shape->last);
      inner = last;
    }
    check_run(shape->first_dimension, shape->dimension_count, &hlo->dimensions);
    check_run(shape->first_minor, shape->minor_count, &hlo->minor_to_major);
    check_run(shape->first_tile, shape->tile_count, &hlo->tiles);
    check_bytes(hlo, shape->offset, shape->length);
  }
  for (size_t i = 0; i < hlo->tiles.count; i++) {
    const fp_hlo_tile *tile = (const fp_hlo_tile *)hlo->tiles.items + i;
    check_run(tile->first_dimension, tile->dimension_count, &hlo->tile_dimensions);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_fault fault = {0};
  fp_hlo hlo = {.memory = &memory, .data = data, .size = size};
  fp_code code = fp_hlo_read(&hlo, &fault);
  CHECK(code != FP_NO_MEMORY);
  if (code) {
    CHECK(fault.what && fault.offset <= size);
  } else {
    check_computations(&hlo);
    check_instructions(&hlo);
    check_shapes(&hlo);
    check_rows(&hlo.operands, &hlo.instructions);
    check_rows(&hlo.calls, &hlo.computations);
    check_rows(&hlo.scheduled, &hlo.instructions);
    check_row(hlo.entry, hlo.computations.count);
    for (size_t i = 0; i < hlo.frames.count; i++) {
      const fp_hlo_frame *frame = (const fp_hlo_frame *)hlo.frames.items + i;
      check_row(frame->parent, hlo.frames.count);
      check_texts(&hlo, &frame->file, 2);
    }
    check_bytes(&hlo, hlo.module_offset, hlo.module_length);
  }
  fp_hlo_free(&hlo);
  CHECK(memory.live == 0);
  return 0;
}
