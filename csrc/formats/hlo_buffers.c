/* The messages that are read, with the numbers of their fields:
 *
 *    HloProto                  3 buffer_assignment
 *    BufferAssignmentProto     1 logical_buffers  3 buffer_allocations  4 heap_simulator_traces
 *    LogicalBufferProto        1 id  2 size  3 defined_at (Location)  4 color
 *    BufferAllocationProto     1 index  2 size  ...  9 assigned (buffer id, offset, size)
 *    HeapSimulatorTrace        1 events (kind, buffer id, ...)  2 whole_module_simulation  3 buffer_allocation_index
 *
 * Items that belong to a row (assigned buffers, events) are appended while it is read, so they lie together. */
#include "formats/hlo_buffers.h"

#include "columns/id_map.h"
#include "formats/field_values.h"
#include "formats/wire.h"

/* The state of a reading, passed to every reader of a field. */
typedef struct reading {
  fp_hlo_buffers *found;
  fp_fault *fault;
} reading;

typedef fp_code (*field_reader)(reading *, int32_t row, const wire_field *);

static fp_code fail(const reading *r, fp_code code, const uint8_t *at, const char *what) {
  return fp_fail(r->fault, code, (uint64_t)(at - r->found->data), what);
}

static fp_code no_memory(const reading *r, const char *what) { return fp_fail(r->fault, FP_NO_MEMORY, 0, what); }

/* Passes each field of a message to a reader. */
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

/* Appends a zeroed row and passes each field of its message to a reader. */
static fp_code read_row(reading *r, const wire_field *field, fp_vector *table, size_t item_size, field_reader reader,
                        const char *what) {
  if (table->count >= INT32_MAX || !fp_vector_add(r->found->memory, table, item_size)) return no_memory(r, what);
  return read_inner(r, field, (int32_t)(table->count - 1), reader, what);
}

static fp_code add_text(reading *r, const wire_field *field, int32_t *number) {
  return fp_field_text(&r->found->texts, field, number) ? no_memory(r, "buffer assignment") : FP_OK;
}

/* Appends to the shape index of the row that is being read. Its parts lie together: no other row is read in between. */
static fp_code add_indices(reading *r, const wire_field *field, int32_t *first, int32_t *count, const char *what) {
  fp_vector *indices = &r->found->indices;
  const uint8_t *at = field->payload;
  if (!*count) *first = (int32_t)indices->count;
  fp_code code = fp_field_ints(r->found->memory, field, indices, &at);
  *count = (int32_t)indices->count - *first;
  return code == FP_NO_MEMORY ? no_memory(r, what) : code ? fail(r, code, at, what) : FP_OK;
}

/* ---- buffers -------------------------------------------------------------------------------------- */

static fp_hlo_buffer *buffer_at(const reading *r, int32_t row) { return (fp_hlo_buffer *)r->found->buffers.items + row; }

/* Where a buffer is defined: an instruction, and the element of its output. */
static fp_code location_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_buffer *buffer = buffer_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(2, WIRE_LEN): return add_text(r, field, &buffer->instruction_name);
    case WIRE_TAG(3, WIRE_VARINT):
    case WIRE_TAG(3, WIRE_LEN):
      return add_indices(r, field, &buffer->first_index, &buffer->index_count, "LogicalBufferProto.Location.shape_index");
    case WIRE_TAG(4, WIRE_VARINT): buffer->instruction_id = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code buffer_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_buffer *buffer = buffer_at(r, row);
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT): buffer->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(2, WIRE_VARINT): buffer->size = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_LEN): return read_inner(r, field, row, location_field, "LogicalBufferProto.Location");
    case WIRE_TAG(4, WIRE_VARINT): buffer->color = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

/* ---- allocations ---------------------------------------------------------------------------------- */

static fp_code assigned_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_assigned *assigned = (fp_hlo_assigned *)r->found->assigned.items + row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT): assigned->buffer_id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(2, WIRE_VARINT): assigned->offset = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_VARINT): assigned->size = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code read_assigned(reading *r, const wire_field *field, int32_t allocation) {
  fp_vector *table = &r->found->assigned;
  fp_code code = read_row(r, field, table, sizeof(fp_hlo_assigned), assigned_field, "BufferAllocationProto.Assigned");
  if (!code) ((fp_hlo_assigned *)table->items)[table->count - 1].allocation = allocation;
  return code;
}

/* The fields of BufferAllocationProto. */
static fp_code allocation_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_allocation *allocation = (fp_hlo_allocation *)r->found->allocations.items + row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT): allocation->index = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(2, WIRE_VARINT): allocation->size = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_VARINT): allocation->thread_local = field->value != 0; return FP_OK;
    case WIRE_TAG(5, WIRE_VARINT): allocation->entry_parameter = field->value != 0; return FP_OK;
    case WIRE_TAG(6, WIRE_VARINT): allocation->parameter_number = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(7, WIRE_VARINT): allocation->live_out = field->value != 0; return FP_OK;
    case WIRE_TAG(8, WIRE_VARINT): allocation->color = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(9, WIRE_LEN): return read_assigned(r, field, row);
    case WIRE_TAG(10, WIRE_VARINT):
    case WIRE_TAG(10, WIRE_LEN):
      return add_indices(r, field, &allocation->first_index, &allocation->index_count,
                         "BufferAllocationProto.parameter_shape_index");
    case WIRE_TAG(11, WIRE_VARINT): allocation->tuple = field->value != 0; return FP_OK;
    case WIRE_TAG(12, WIRE_VARINT): allocation->constant = field->value != 0; return FP_OK;
    case WIRE_TAG(13, WIRE_VARINT): allocation->aliased_output = field->value != 0; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code read_allocation(reading *r, const wire_field *field) {
  fp_vector *table = &r->found->allocations;
  size_t first = r->found->assigned.count;
  fp_code code = read_row(r, field, table, sizeof(fp_hlo_allocation), allocation_field, "BufferAllocationProto");
  if (code) return code;
  fp_hlo_allocation *allocation = (fp_hlo_allocation *)table->items + table->count - 1;
  allocation->first_assigned = (int32_t)first;
  allocation->assigned_count = (int32_t)(r->found->assigned.count - first);
  return FP_OK;
}

/* ---- traces --------------------------------------------------------------------------------------- */

/* The fields of HeapSimulatorTrace.Event. */
static fp_code event_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_event *event = (fp_hlo_event *)r->found->events.items + row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT): event->kind = (int32_t)field->value; return FP_OK;
    case WIRE_TAG(2, WIRE_VARINT): event->buffer_id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_LEN): return add_text(r, field, &event->computation_name);
    case WIRE_TAG(4, WIRE_LEN): return add_text(r, field, &event->instruction_name);
    case WIRE_TAG(5, WIRE_VARINT): event->canonical_id = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code trace_field(reading *r, int32_t row, const wire_field *field) {
  fp_hlo_trace *trace = (fp_hlo_trace *)r->found->traces.items + row;
  fp_vector *events = &r->found->events;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): {
      fp_code code = read_row(r, field, events, sizeof(fp_hlo_event), event_field, "HeapSimulatorTrace.Event");
      if (!code) ((fp_hlo_event *)events->items)[events->count - 1].trace = row;
      return code;
    }
    case WIRE_TAG(2, WIRE_VARINT): trace->whole_module = field->value != 0; return FP_OK;
    case WIRE_TAG(3, WIRE_VARINT): trace->allocation_index = (int64_t)field->value; return FP_OK;
    default: return FP_OK;
  }
}

static fp_code read_trace(reading *r, const wire_field *field) {
  fp_vector *table = &r->found->traces;
  size_t first = r->found->events.count;
  fp_code code = read_row(r, field, table, sizeof(fp_hlo_trace), trace_field, "HeapSimulatorTrace");
  if (code) return code;
  fp_hlo_trace *trace = (fp_hlo_trace *)table->items + table->count - 1;
  trace->first_event = (int32_t)first;
  trace->event_count = (int32_t)(r->found->events.count - first);
  return FP_OK;
}

static fp_code assignment_field(reading *r, int32_t row, const wire_field *field) {
  (void)row;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN):
      return read_row(r, field, &r->found->buffers, sizeof(fp_hlo_buffer), buffer_field, "LogicalBufferProto");
    case WIRE_TAG(3, WIRE_LEN): return read_allocation(r, field);
    case WIRE_TAG(4, WIRE_LEN): return read_trace(r, field);
    default: return FP_OK;
  }
}

static fp_code proto_field(reading *r, int32_t row, const wire_field *field) {
  if (field->tag != WIRE_TAG(3, WIRE_LEN)) return FP_OK;
  r->found->is_there = 1;
  return read_inner(r, field, row, assignment_field, "BufferAssignmentProto");
}

/* ---- ids become rows ------------------------------------------------------------------------------ */

/* Replaces ids of buffers by rows. */
static fp_code resolve(reading *r) {
  fp_hlo_buffers *found = r->found;
  fp_id_map rows = {0};
  int64_t *ids = fp_alloc(found->memory, found->buffers.count * sizeof *ids);
  if (!ids) return no_memory(r, "buffer assignment");
  for (size_t i = 0; i < found->buffers.count; i++) ids[i] = buffer_at(r, (int32_t)i)->id;
  bool built = fp_id_map_build(found->memory, &rows, ids, found->buffers.count, 0);
  fp_release(found->memory, ids);
  if (!built) return no_memory(r, "buffer assignment");
  fp_hlo_assigned *assigned = found->assigned.items;
  for (size_t i = 0; i < found->assigned.count; i++) assigned[i].buffer = fp_id_map_find(&rows, assigned[i].buffer_id);
  fp_hlo_event *events = found->events.items;
  for (size_t i = 0; i < found->events.count; i++) {
    events[i].buffer = fp_id_map_find(&rows, events[i].buffer_id);
    events[i].canonical = events[i].kind == FP_HLO_SHARE_WITH ? fp_id_map_find(&rows, events[i].canonical_id) : -1;
  }
  fp_id_map_free(found->memory, &rows);
  return FP_OK;
}

fp_code fp_hlo_read_buffers(fp_hlo_buffers *found, fp_fault *fault) {
  reading r = {found, fault};
  found->texts.memory = found->memory;
  if (fp_strings_add(&found->texts, (const uint8_t *)"", 0) < 0) return no_memory(&r, "buffer assignment");
  fp_code code = read_message(&r, found->data, found->size, 0, proto_field, "HloProto");
  return code ? code : resolve(&r);
}

void fp_hlo_free_buffers(fp_hlo_buffers *found) {
  fp_vector *vectors[] = {&found->buffers, &found->allocations, &found->assigned,
                          &found->traces,  &found->events,      &found->indices};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) fp_vector_free(found->memory, vectors[i]);
  fp_strings_free(&found->texts);
}
