/* Any bytes are read as the memory plan of a program or refused with an offset. Rows stay within their tables, and
 * each heap is what its definition says. */
#include "formats/hlo_buffers.h"
#include "fuzz/target.h"
#include "tests/heaps.h"

static void check_text(const fp_hlo_buffers *found, int32_t number) {
  CHECK(number >= 0 && (size_t)number < fp_strings_count(&found->texts));
}

static void check_run(int32_t first, int32_t count, const fp_vector *table) {
  CHECK(first >= 0 && count >= 0 && (size_t)first + (size_t)count <= table->count);
}

static void check_row(int32_t row, const fp_vector *table) { CHECK(row >= -1 && row < (int32_t)table->count); }

static void check_columns(const fp_hlo_buffers *found) {
  const fp_hlo_buffer *buffers = found->buffers.items;
  for (size_t i = 0; i < found->buffers.count; i++) {
    check_run(buffers[i].first_index, buffers[i].index_count, &found->indices);
    check_text(found, buffers[i].instruction_name);
  }
  const fp_hlo_allocation *allocations = found->allocations.items;
  for (size_t i = 0; i < found->allocations.count; i++) {
    check_run(allocations[i].first_index, allocations[i].index_count, &found->indices);
    check_run(allocations[i].first_assigned, allocations[i].assigned_count, &found->assigned);
  }
  const fp_hlo_assigned *assigned = found->assigned.items;
  for (size_t i = 0; i < found->assigned.count; i++) {
    check_row(assigned[i].buffer, &found->buffers);
    check_row(assigned[i].allocation, &found->allocations);
  }
  const fp_hlo_event *events = found->events.items;
  for (size_t i = 0; i < found->events.count; i++) {
    check_row(events[i].buffer, &found->buffers);
    check_row(events[i].canonical, &found->buffers);
    check_text(found, events[i].instruction_name);
    check_text(found, events[i].computation_name);
    CHECK(events[i].trace >= 0 && events[i].trace < (int32_t)found->traces.count);
  }
}

static void check_heap(const fp_hlo_buffers *found, const fp_hlo_trace *trace) {
  const fp_hlo_event *events = (const fp_hlo_event *)found->events.items + trace->first_event;
  const fp_hlo_buffer *buffers = found->buffers.items;
  heap_case one = {.count = (size_t)trace->event_count, .buffers = found->buffers.count};
  if (one.count > MOST_EVENTS || one.buffers > MOST_BUFFERS) return;
  for (size_t i = 0; i < one.buffers; i++) one.size[i] = buffers[i].size, one.unpadded[i] = buffers[i].size >> 1;
  for (size_t i = 0; i < one.count; i++) {
    one.kind[i] = events[i].kind;
    one.buffer[i] = events[i].buffer;
    one.canonical[i] = events[i].canonical;
  }
  fp_memory memory;
  heap_result result;
  fp_memory_init(&memory);
  CHECK(heap_follow(&memory, &one, &result));
  heap_check(&one, &result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fp_memory memory;
  fp_fault fault = {FP_OK, 0, NULL};
  fp_memory_init(&memory);
  fp_hlo_buffers found = {.memory = &memory, .data = data, .size = size};
  fp_code code = fp_hlo_read_buffers(&found, &fault);
  if (code) {
    CHECK(code != FP_NO_MEMORY && fault.offset <= size && fault.what != NULL);
  } else {
    check_columns(&found);
    const fp_hlo_trace *traces = found.traces.items;
    for (size_t i = 0; i < found.traces.count; i++) {
      check_run(traces[i].first_event, traces[i].event_count, &found.events);
      check_heap(&found, &traces[i]);
    }
  }
  fp_hlo_free_buffers(&found);
  CHECK_INT(memory.live, 0);
  return 0;
}
