/* Reading of memory plans: built by hand, cut off at every byte, and with every allocation failing. */
#include "formats/hlo_buffers.h"

#include "tests/check.h"
#include "tests/message.h"

typedef struct reading {
  fp_memory memory;
  fp_hlo_buffers found;
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
  r->found.memory = &r->memory;
  r->found.data = block;
  r->found.size = size;
  r->code = fp_hlo_read_buffers(&r->found, &r->fault);
}

/* Frees everything, twice, and checks that no block is left. */
static void end(reading *r) {
  uint8_t *block = (uint8_t *)(uintptr_t)r->found.data;
  fp_hlo_free_buffers(&r->found);
  fp_hlo_free_buffers(&r->found); /* may be called twice */
  CHECK_INT(r->memory.live, 0);
  free(block);
}

/* Compares a text of the pool. */
static void check_text(const reading *r, int32_t number, const char *wanted) {
  const int64_t *offsets = r->found.texts.offsets.items;
  CHECK(number >= 0 && (size_t)number < fp_strings_count(&r->found.texts));
  CHECK_INT(offsets[number + 1] - offsets[number], strlen(wanted));
  if (*wanted) CHECK(!memcmp((const char *)r->found.texts.bytes.items + offsets[number], wanted, strlen(wanted)));
}

static const void *row_at(const fp_vector *table, size_t item_size, size_t row) {
  CHECK(row < table->count);
  return (const char *)table->items + row * item_size;
}

#define ROW(r, table, type, row) ((const type *)row_at(&(r)->found.table, sizeof(type), row))

/* ---- messages ------------------------------------------------------------------------------------- */

static void put_buffer(message *plan, int64_t id, int64_t size, int64_t instruction, const char *name) {
  message buffer = {0}, place = {0};
  put_int(&buffer, 1, id);
  put_int(&buffer, 2, size);
  put_int(&place, 4, instruction);
  put_text(&place, 2, name);
  put_raw(&place, "\x1A\x02\x01\x02", 4); /* shape_index {1,2}, packed, */
  put_int(&place, 3, 5);                  /* and a third, not packed */
  put_message(&buffer, 3, &place);
  put_int(&buffer, 4, 6);
  put_message(plan, 1, &buffer);
}

static void put_assigned(message *allocation, int64_t buffer, int64_t offset, int64_t size) {
  message assigned = {0};
  put_int(&assigned, 1, buffer);
  put_int(&assigned, 2, offset);
  put_int(&assigned, 3, size);
  put_message(allocation, 9, &assigned);
}

static void put_event(message *trace, int64_t kind, int64_t buffer, const char *instruction, int64_t shared) {
  message event = {0};
  put_int(&event, 1, kind);
  put_int(&event, 2, buffer);
  put_text(&event, 3, "main");
  put_text(&event, 4, instruction);
  put_int(&event, 5, shared);
  put_message(trace, 1, &event);
}

/* A plan with one item of every kind. */
static message one_of_each(void) {
  message proto = {0}, plan = {0}, allocation = {0}, trace = {0};
  put_buffer(&plan, 7, 64, (INT64_C(3) << 32) | 1, "add");
  put_buffer(&plan, -9, 32, 4, "");
  put_int(&allocation, 1, 2);
  put_int(&allocation, 2, 96);
  for (unsigned field = 3; field <= 13; field++)
    if (field != 4 && field != 6 && field != 8 && field != 9 && field != 10) put_int(&allocation, field, 1);
  put_int(&allocation, 6, 11);
  put_int(&allocation, 8, 1);
  put_assigned(&allocation, -9, 64, 32);
  put_assigned(&allocation, 8, 0, 1); /* there is no such buffer */
  put_raw(&allocation, "\x52\x01\x03", 3);
  put_message(&plan, 3, &allocation);
  put_event(&trace, FP_HLO_ALLOC, 7, "add", 0);
  put_event(&trace, FP_HLO_SHARE_WITH, -9, "add", 7);
  put_event(&trace, FP_HLO_FREE, 99, "", 7);
  put_int(&trace, 2, 1);
  put_int(&trace, 3, 2);
  put_message(&plan, 4, &trace);
  put_message(&plan, 4, &trace); /* empty now */
  put_message(&proto, 3, &plan);
  return proto;
}

/* ---- valid plans ---------------------------------------------------------------------------------- */

static void a_plan_becomes_columns(void) {
  message m = one_of_each();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  CHECK_INT(r.code, FP_OK);
  CHECK(r.found.is_there);
  const fp_hlo_buffer *buffer = ROW(&r, buffers, fp_hlo_buffer, 0);
  CHECK_INT(buffer->id, 7);
  CHECK_INT(buffer->size, 64);
  CHECK_INT(buffer->color, 6);
  CHECK_INT(buffer->instruction_id, (INT64_C(3) << 32) | 1);
  check_text(&r, buffer->instruction_name, "add");
  CHECK_INT(buffer->index_count, 3);
  const int64_t *index = (const int64_t *)r.found.indices.items + buffer->first_index;
  CHECK(index[0] == 1 && index[1] == 2 && index[2] == 5);
  CHECK_INT(ROW(&r, buffers, fp_hlo_buffer, 1)->first_index, 3);
  CHECK_INT(ROW(&r, buffers, fp_hlo_buffer, 1)->instruction_name, 0);
  CHECK_INT(r.found.buffers.count, 2);
  end(&r);
  message_free(&m);
}

static void allocations_know_their_buffers(void) {
  message m = one_of_each();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  const fp_hlo_allocation *allocation = ROW(&r, allocations, fp_hlo_allocation, 0);
  CHECK(allocation->index == 2 && allocation->size == 96 && allocation->color == 1);
  CHECK_INT(allocation->parameter_number, 11);
  CHECK(allocation->thread_local && allocation->entry_parameter && allocation->live_out);
  CHECK(allocation->tuple && allocation->constant && allocation->aliased_output);
  CHECK(allocation->index_count == 1 && ((const int64_t *)r.found.indices.items)[allocation->first_index] == 3);
  CHECK(allocation->first_assigned == 0 && allocation->assigned_count == 2);
  const fp_hlo_assigned *assigned = ROW(&r, assigned, fp_hlo_assigned, 0);
  CHECK(assigned->buffer == 1 && assigned->allocation == 0 && assigned->offset == 64 && assigned->size == 32);
  CHECK_INT(ROW(&r, assigned, fp_hlo_assigned, 1)->buffer, -1);
  CHECK_INT(ROW(&r, assigned, fp_hlo_assigned, 1)->buffer_id, 8);
  end(&r);
  message_free(&m);
}

static void events_know_their_buffers_and_whose_memory_they_share(void) {
  message m = one_of_each();
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  const fp_hlo_trace *trace = ROW(&r, traces, fp_hlo_trace, 0);
  CHECK(trace->first_event == 0 && trace->event_count == 3 && trace->whole_module && trace->allocation_index == 2);
  CHECK(ROW(&r, traces, fp_hlo_trace, 1)->first_event == 3 && ROW(&r, traces, fp_hlo_trace, 1)->event_count == 0);
  const fp_hlo_event *event = ROW(&r, events, fp_hlo_event, 1);
  CHECK(event->kind == FP_HLO_SHARE_WITH && event->buffer == 1 && event->canonical == 0 && event->trace == 0);
  check_text(&r, event->instruction_name, "add");
  check_text(&r, event->computation_name, "main");
  CHECK(ROW(&r, events, fp_hlo_event, 2)->buffer == -1 && ROW(&r, events, fp_hlo_event, 2)->canonical == -1);
  end(&r);
  message_free(&m);
}

static void a_program_may_have_no_plan(void) {
  message m = {0}, module = {0};
  reading r;
  put_text(&module, 1, "jit_f");
  put_message(&m, 1, &module);
  read_bytes(&r, m.bytes, m.size, -1);
  CHECK_INT(r.code, FP_OK);
  CHECK(!r.found.is_there && !r.found.buffers.count && !r.found.events.count);
  end(&r);
  message_free(&m);
}

static void parts_of_a_plan_add_up(void) {
  message m = {0}, first = {0}, second = {0};
  reading r;
  put_buffer(&first, 1, 4, 1, "a");
  put_buffer(&second, 2, 8, 2, "b");
  put_message(&m, 3, &first);
  put_message(&m, 3, &second);
  read_bytes(&r, m.bytes, m.size, -1);
  CHECK_INT(r.found.buffers.count, 2);
  CHECK_INT(ROW(&r, buffers, fp_hlo_buffer, 1)->size, 8);
  end(&r);
  message_free(&m);
}

/* ---- invalid plans -------------------------------------------------------------------------------- */

static void a_fault_is_reported_with_its_offset(void) {
  message m = one_of_each();
  size_t faults = 0;
  for (size_t size = 1; size < m.size; size++) { /* a plan that is cut off is a fault at its beginning */
    reading r;
    read_bytes(&r, m.bytes, size, -1);
    faults += r.code != FP_OK;
    CHECK(!r.code || r.fault.offset <= size);
    end(&r);
  }
  CHECK(faults > 0);
  message bad = {0}, plan = {0}, buffer = {0};
  put_int(&buffer, 1, 3);
  put_raw(&buffer, "\x10\xFF", 2); /* a size without an end */
  put_message(&plan, 1, &buffer);
  put_message(&bad, 3, &plan);
  reading r;
  read_bytes(&r, bad.bytes, bad.size, -1);
  CHECK_INT(r.code, FP_BAD_VARINT);
  CHECK_INT(r.fault.offset, bad.size - 2);
  CHECK(!strcmp(r.fault.what, "LogicalBufferProto"));
  end(&r);
  message_free(&bad);
  message_free(&m);
}

static void a_packed_index_without_an_end_is_a_fault(void) {
  message m = {0}, plan = {0}, allocation = {0};
  put_raw(&allocation, "\x52\x01\x80", 3);
  put_message(&plan, 3, &allocation);
  put_message(&m, 3, &plan);
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  CHECK_INT(r.code, FP_BAD_VARINT);
  CHECK(!strcmp(r.fault.what, "BufferAllocationProto.parameter_shape_index"));
  end(&r);
  message_free(&m);
}

static void texts_that_are_no_utf8_are_repaired(void) {
  message m = {0}, plan = {0};
  put_buffer(&plan, 1, 4, 1, "a\xFFz");
  put_message(&m, 3, &plan);
  reading r;
  read_bytes(&r, m.bytes, m.size, -1);
  check_text(&r, ROW(&r, buffers, fp_hlo_buffer, 0)->instruction_name, "a\xEF\xBF\xBDz");
  end(&r);
  message_free(&m);
}

static void every_allocation_may_fail(void) {
  message m = one_of_each();
  int64_t allocations = 0;
  for (;; allocations++) {
    reading r;
    read_bytes(&r, m.bytes, m.size, allocations);
    fp_code code = r.code;
    CHECK(code == FP_OK || code == FP_NO_MEMORY);
    end(&r);
    if (!code) break;
  }
  CHECK(allocations > 8);
  message_free(&m);
}

int main(void) {
  RUN(a_plan_becomes_columns);
  RUN(allocations_know_their_buffers);
  RUN(events_know_their_buffers_and_whose_memory_they_share);
  RUN(a_program_may_have_no_plan);
  RUN(parts_of_a_plan_add_up);
  RUN(a_fault_is_reported_with_its_offset);
  RUN(a_packed_index_without_an_end_is_a_fault);
  RUN(texts_that_are_no_utf8_are_repaired);
  RUN(every_allocation_may_fail);
  return 0;
}
