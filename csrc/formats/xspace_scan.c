/* The scanner: a push parser that knows the fields of XSpace and XPlane and skips all payloads. It keeps one place in
 * the stream (`position`), the bytes of a payload still to skip, and, if a chunk ends within a header, that beginning
 * of a header (`carry`). So memory does not depend on the size of the chunks, or of the payloads.
 *
 *    chunk n      ... | tag, length | payload ........|
 *    chunk n + 1      ........ payload | tag, len       <- cut off: carried over
 *    chunk n + 2      gth | payload ...
 */
#include "formats/placed_fields.h"
#include "formats/xspace.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "fixed-size fields are read as they lie in memory: little-endian machines only"
#endif

/* The log is short, one row for each kind of fault, so a search is cheap. */
bool fp_fault_log_add(fp_memory *memory, fp_vector *log, fp_code code, uint64_t offset, const char *what) {
  fp_fault_row *rows = log->items;
  for (size_t i = 0; i < log->count; i++) {
    if (rows[i].code != (int64_t)code || rows[i].what != what) continue;
    rows[i].count++;
    if (offset < rows[i].first_offset) rows[i].first_offset = offset;
    return true;
  }
  fp_fault_row *row = fp_vector_add(memory, log, sizeof *row);
  if (!row) return false;
  *row = (fp_fault_row){code, 1, offset, what};
  return true;
}

static const char *name_of_place(const fp_scanner *s) { return s->in_part ? "XPlane" : "XSpace"; }

/* How reading a header ended. CUT_OFF: it may be complete when more bytes come. */
enum header_result { HEADER_OK, HEADER_CUT_OFF, HEADER_BAD_TAG, HEADER_BAD_VARINT };

/* Reads the header of a field: its tag, and the value of a varint or the length of a payload. */
static enum header_result read_header(const uint8_t **p, const uint8_t *end, wire_field *field) {
  const uint8_t *start = *p;
  field->value = 0;
  if (!wire_tag(p, end, &field->tag)) {
    const uint8_t *q = start;
    uint64_t ignored;
    if (!wire_varint(&q, end, &ignored) && end - start < 10) return HEADER_CUT_OFF;
    return HEADER_BAD_TAG;
  }
  int type = field->tag & 7;
  if (type != WIRE_VARINT && type != WIRE_LEN) return HEADER_OK;
  if (wire_varint(p, end, &field->value)) return HEADER_OK;
  return end - *p < 10 ? HEADER_CUT_OFF : HEADER_BAD_VARINT;
}

/* What a field takes in memory: `bytes`, and `per_byte` for each of its bytes. For metadata that is a span, a row, its
 * copy and its place in a map of ids; for the others also what Python makes of them. */
typedef struct field_cost {
  const char *what;
  uint32_t bytes, per_byte;
} field_cost;

static const field_cost costs[FP_SPAN_KINDS] = {[FP_LINES] = {"XPlane.lines", 600, 0},
                                                [FP_EVENT_METADATA] = {"XPlane.event_metadata", 155, 0},
                                                [FP_STAT_METADATA] = {"XPlane.stat_metadata", 170, 0},
                                                [FP_PLANE_STATS] = {"XPlane.stats", 56, 0},
                                                [FP_ERRORS] = {"XSpace.errors", 320, 8},
                                                [FP_WARNINGS] = {"XSpace.warnings", 320, 8},
                                                [FP_HOSTNAMES] = {"XSpace.hostnames", 320, 8}};
static const field_cost cost_of_plane = {"XSpace.planes", 600, 0}, cost_of_name = {"XPlane.name", 0, 8};

/* Counts what a field takes. FP_TOO_MANY: it is more than may be held, and reading ends. With salvage, such fields are
 * counted instead, and left out. */
static fp_code hold(fp_scanner *s, const field_cost *cost, uint64_t length, bool *may) {
  uint64_t room = UINT64_MAX - cost->bytes, more = cost->per_byte && length > room / cost->per_byte ? room : length * cost->per_byte;
  *may = fp_hold(&s->held, cost->bytes + more, s->position);
  if (*may) return FP_OK;
  s->excess = cost->what;
  if (!s->salvage) return FP_TOO_MANY;
  return fp_fault_log_add(s->memory, &s->faults, FP_TOO_MANY, s->item, cost->what) ? FP_OK : FP_NO_MEMORY;
}

/* Notes where a payload lies: it begins at the present position. */
static fp_code add_span(fp_scanner *s, enum fp_span_kind kind, uint64_t length) {
  bool may;
  fp_code code = hold(s, &costs[kind], length, &may);
  if (code || !may) return code;
  fp_span *span = fp_vector_add(s->memory, &s->spans[kind], sizeof *span);
  if (!span) return FP_NO_MEMORY;
  *span = (fp_span){s->position, length, s->in_part ? (int64_t)s->parts.count - 1 : -1};
  return FP_OK;
}

/* A field of the XSpace. A plane is entered: its fields are read next. */
static fp_code field_of_space(fp_scanner *s, const wire_field *field) {
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_LEN): {
      bool may;
      fp_code code = hold(s, &cost_of_plane, 0, &may);
      if (code || !may) return code;
      fp_part *part = fp_vector_add(s->memory, &s->parts, sizeof *part);
      if (!part) return FP_NO_MEMORY;
      part->offset = s->position;
      part->end = s->part_end = s->position + field->value;
      s->in_part = true;
      s->skip = 0;
      return FP_OK;
    }
    case WIRE_TAG(2, WIRE_LEN): return add_span(s, FP_ERRORS, field->value);
    case WIRE_TAG(3, WIRE_LEN): return add_span(s, FP_WARNINGS, field->value);
    case WIRE_TAG(4, WIRE_LEN): return add_span(s, FP_HOSTNAMES, field->value);
    default: return FP_OK;
  }
}

/* A field of an XPlane. */
static fp_code field_of_plane(fp_scanner *s, const wire_field *field) {
  fp_part *part = (fp_part *)s->parts.items + s->parts.count - 1;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT): part->id = (int64_t)field->value; return FP_OK;
    case WIRE_TAG(2, WIRE_LEN): {
      bool may;
      fp_code code = hold(s, &cost_of_name, field->value, &may);
      if (code || !may) return code;
      part->name_offset = s->position;
      part->name_length = field->value;
      return FP_OK;
    }
    case WIRE_TAG(3, WIRE_LEN): return add_span(s, FP_LINES, field->value);
    case WIRE_TAG(4, WIRE_LEN): return add_span(s, FP_EVENT_METADATA, field->value);
    case WIRE_TAG(5, WIRE_LEN): return add_span(s, FP_STAT_METADATA, field->value);
    case WIRE_TAG(6, WIRE_LEN): return add_span(s, FP_PLANE_STATS, field->value);
    default: return FP_OK;
  }
}

/* Handles a field whose header has been read; s->position is behind the header. Fields inside of unknown groups are
 * skipped. */
static fp_code take_field(fp_scanner *s, wire_field *field) {
  int type = field->tag & 7;
  if (type == WIRE_SGROUP) {
    if (s->depth == WIRE_MAX_DEPTH) return FP_TOO_DEEP;
    s->groups[s->depth++] = field->tag >> 3;
    return FP_OK;
  }
  if (type == WIRE_EGROUP) {
    if (!s->depth || s->groups[s->depth - 1] != field->tag >> 3) return FP_BAD_GROUP;
    s->depth--;
    return FP_OK;
  }
  s->skip = type == WIRE_LEN ? field->value : type == WIRE_I64 ? 8 : type == WIRE_I32 ? 4 : 0;
  uint64_t limit = s->in_part ? s->part_end : UINT64_MAX;
  if (s->skip > limit - s->position) {
    /* the beginning of a line or a name table can still be salvaged */
    if (s->salvage && s->in_part && type == WIRE_LEN && !s->depth) {
      field->value = s->skip = limit - s->position;
      if (!fp_fault_log_add(s->memory, &s->faults, FP_BAD_LENGTH, s->item, "XPlane")) return FP_NO_MEMORY;
    } else {
      s->skip = 0;
      return FP_BAD_LENGTH;
    }
  }
  if (s->depth) return FP_OK;
  return s->in_part ? field_of_plane(s, field) : field_of_space(s, field);
}

/* Salvage: logs the fault and goes on where fields seem to begin again, which moves the window. */
static fp_code recover(fp_scanner *s, fp_code code) {
  if (fp_ends_reading(code)) return code;
  if (!fp_fault_log_add(s->memory, &s->faults, code, s->item, name_of_place(s))) return FP_NO_MEMORY;
  uint64_t end = s->window->size;
  if (s->in_part && s->part_end < end) end = s->part_end;
  s->depth = 0;
  s->skip = 0;
  s->position = s->item + 1;
  return fp_resync(s->window, &s->position, end, s->in_part ? FP_XPLANE : FP_XSPACE);
}

static fp_code failed(fp_scanner *s, fp_code code, fp_fault *fault) {
  return fp_fail(fault, code, s->item, code == FP_TOO_MANY ? s->excess : name_of_place(s));
}

static fp_code code_of(enum header_result result) {
  return result == HEADER_BAD_TAG ? FP_BAD_TAG : result == HEADER_BAD_VARINT ? FP_BAD_VARINT : FP_BAD_LENGTH;
}

/* One field per iteration: finish the payload being skipped, leave the plane if it ends here, read a header (which
 * may begin in `carry`), handle it. */
fp_code fp_scanner_push(fp_scanner *s, const uint8_t *chunk, size_t size, fp_fault *fault) {
  uint64_t chunk_start = s->position + s->carried; /* absolute offset of chunk[0] */
  uint64_t chunk_end = chunk_start + size;
  for (;;) {
    uint64_t at = s->position + s->carried;
    if (s->skip) {
      uint64_t step = s->skip < chunk_end - at ? s->skip : chunk_end - at;
      s->skip -= step;
      s->position += step;
      if (s->skip) return FP_OK;
      at = s->position;
    }
    if (s->in_part && s->position == s->part_end) {
      if (s->depth) {
        if (!s->salvage) return failed(s, FP_BAD_GROUP, fault);
        if (!fp_fault_log_add(s->memory, &s->faults, FP_BAD_GROUP, s->item, "XPlane")) return failed(s, FP_NO_MEMORY, fault);
        s->depth = 0;
      }
      s->in_part = false;
    }
    if (at == chunk_end) return FP_OK;
    const uint8_t *p = chunk + (at - chunk_start);
    const uint8_t *end = chunk + size;
    if (s->carried) { /* complete the header in the carry */
      size_t more = sizeof s->carry - s->carried;
      if (more > (size_t)(end - p)) more = (size_t)(end - p);
      memcpy(s->carry + s->carried, p, more);
      p = s->carry;
      end = s->carry + s->carried + more;
    }
    uint64_t left = s->in_part ? s->part_end - s->position : UINT64_MAX;
    if (left < (uint64_t)(end - p)) end = p + left;
    bool whole = left == (uint64_t)(end - p); /* the message ends here: more bytes would not help */
    const uint8_t *start = p;
    wire_field field;
    s->item = s->position;
    enum header_result result = read_header(&p, end, &field);
    if (result == HEADER_CUT_OFF && !whole) { /* the next chunk has the rest */
      if (start != s->carry) memcpy(s->carry, start, (size_t)(end - start));
      s->carried = (size_t)(end - start);
      return FP_OK;
    }
    fp_code code;
    if (result == HEADER_OK) {
      s->position += (uint64_t)(p - start);
      s->carried = 0;
      code = take_field(s, &field);
    } else {
      s->carried = 0;
      code = code_of(result);
    }
    if (code && s->window && s->salvage && !(code = recover(s, code))) return FP_OK; /* the chunk is gone */
    if (code) return failed(s, code, fault);
  }
}

/* Pushes what the window holds, from where the next header is. The last push is empty, so that what ends with the bytes
 * is left. */
fp_code fp_scanner_read(fp_scanner *s, fp_window *w, fp_fault *fault) {
  s->window = w;
  fp_code code = FP_OK;
  for (bool last = false; !code && !last;) {
    uint64_t left = w->size - s->position - s->carried, step = s->skip < left ? s->skip : left;
    s->skip -= step;
    s->position += step;
    uint64_t at = s->position + s->carried;
    last = at == w->size;
    code = fp_window_need(w, at, last ? at : at + 1);
    if (code)
      failed(s, code, fault);
    else
      code = fp_scanner_push(s, fp_window_at(w, at), (size_t)(w->end - at), fault);
  }
  s->window = NULL;
  return code;
}

/* Limits parts and spans to the data, if the file was cut off. */
static void clamp(fp_scanner *s, uint64_t size) {
  fp_part *parts = s->parts.items;
  for (size_t i = 0; i < s->parts.count; i++) {
    if (parts[i].end > size) parts[i].end = size;
    if (parts[i].name_offset + parts[i].name_length > size) parts[i].name_length = 0;
  }
  for (int kind = 0; kind < FP_SPAN_KINDS; kind++) {
    fp_span *spans = s->spans[kind].items;
    for (size_t i = 0; i < s->spans[kind].count; i++) {
      if (spans[i].offset > size) spans[i].offset = size;
      if (spans[i].length > size - spans[i].offset) spans[i].length = size - spans[i].offset;
    }
  }
}

fp_code fp_scanner_finish(fp_scanner *s, fp_fault *fault) {
  uint64_t size = s->position + s->carried;
  bool open = s->in_part && s->position < s->part_end;
  if (!s->skip && !s->carried && !s->depth && !open) return FP_OK;
  if (!s->salvage) return fp_fail(fault, FP_TRUNCATED, s->item, name_of_place(s));
  if (!fp_fault_log_add(s->memory, &s->faults, FP_TRUNCATED, s->item, name_of_place(s)))
    return fp_fail(fault, FP_NO_MEMORY, s->item, "XSpace");
  clamp(s, size);
  return FP_OK;
}

void fp_scanner_free(fp_scanner *s) {
  fp_vector_free(s->memory, &s->parts);
  for (int kind = 0; kind < FP_SPAN_KINDS; kind++) fp_vector_free(s->memory, &s->spans[kind]);
  fp_vector_free(s->memory, &s->faults);
}
