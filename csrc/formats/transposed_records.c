#include "formats/transposed_records.h"

#include <string.h>

/* Where a submessage ends: how much stood there, and its tag. */
typedef struct submessage {
  size_t length;
  uint64_t tag;
} submessage;

enum { VARINT = 0, I64 = 1, LEN = 2, GROUP = 3, END_GROUP = 4, I32 = 5, END_OF_SUBMESSAGE = 6 };
enum { NOTHING = 0, NO_MESSAGE = 1, START_OF_SUBMESSAGE = 2, START_OF_RECORD = 3, FIRST_FIELD = 8, INLINE = 10 };

/* What is left of a buffer. */
typedef struct rest {
  const uint8_t *at, *end;
} rest;

typedef struct machine {
  const fp_transposed *chunk;
  fp_memory *memory;
  fp_vector open; /* of submessage */
  rest *rests;    /* by buffer */
  size_t left;    /* bytes of `out` before what is written */
  size_t records;
  const char *fault;
} machine;

static bool failed(machine *at, const char *what) {
  at->fault = what;
  return false;
}

/* Makes room for bytes in front of what is written; NULL: there is none. */
static inline uint8_t *room(machine *at, size_t size) {
  if (size > at->left) {
    failed(at, "more bytes than the chunk declares");
    return NULL;
  }
  at->left -= size;
  return at->chunk->out + at->left;
}

static inline bool put(machine *at, const uint8_t *bytes, size_t size) {
  uint8_t *to = room(at, size);
  if (to && size) memcpy(to, bytes, size);
  return to;
}

static inline bool put_varint(machine *at, uint64_t value) {
  size_t size = 1;
  for (uint64_t more = value >> 7; more; more >>= 7) size++;
  uint8_t *to = room(at, size);
  if (!to) return false;
  for (; value > 0x7f; value >>= 7) *to++ = (uint8_t)(value | 0x80);
  *to = (uint8_t)value;
  return true;
}

/* The next `size` bytes of a buffer. */
static inline const uint8_t *take(machine *at, int64_t buffer, size_t size) {
  if (buffer < 0 || (size_t)buffer >= at->chunk->buffer_count) return NULL;
  rest *from = &at->rests[buffer];
  if (size > (size_t)(from->end - from->at)) return NULL;
  from->at += size;
  return from->at - size;
}

/* A varint of a buffer; `size` becomes the number of its bytes. */
static bool take_length(machine *at, int64_t buffer, uint64_t *value, size_t *size) {
  *value = 0;
  for (*size = 0; *size < 5;) {
    const uint8_t *byte = take(at, buffer, 1);
    if (!byte) return false;
    *value |= (uint64_t)(*byte & 0x7f) << 7 * (*size)++;
    if (*byte < 0x80) return true;
  }
  return false;
}

static bool put_value(machine *at, const fp_record_node *node, size_t size) {
  const uint8_t *bytes = take(at, node->buffer, size);
  return bytes ? put(at, bytes, size) : failed(at, "a buffer that is used up");
}

/* Buffers have varints without the bits that say whether more bytes follow. */
static bool put_number(machine *at, const fp_record_node *node) {
  if (node->subtype >= INLINE) {
    uint8_t byte = (uint8_t)(node->subtype - INLINE);
    return put(at, &byte, 1);
  }
  size_t size = (size_t)node->subtype + 1;
  const uint8_t *bytes = take(at, node->buffer, size);
  if (!bytes) return failed(at, "a buffer that is used up");
  uint8_t *to = room(at, size);
  if (!to) return false;
  for (size_t i = 0; i + 1 < size; i++) to[i] = bytes[i] | 0x80;
  to[size - 1] = bytes[size - 1] & 0x7f;
  return true;
}

static bool put_text(machine *at, const fp_record_node *node) {
  uint64_t length;
  size_t prefix;
  if (!take_length(at, node->buffer, &length, &prefix)) return failed(at, "the length of a string");
  const uint8_t *bytes = length <= SIZE_MAX ? take(at, node->buffer, (size_t)length) : NULL;
  if (!bytes) return failed(at, "a buffer that is used up");
  return put(at, bytes - prefix, (size_t)length + prefix);
}

static bool begin_record(machine *at) {
  if (at->open.count) return failed(at, "a record within a submessage");
  if (at->records == at->chunk->record_count) return failed(at, "more records than the chunk declares");
  at->chunk->begins[at->records++] = (int64_t)at->left;
  return true;
}

static bool put_no_message(machine *at, const fp_record_node *node) {
  uint64_t length;
  size_t prefix;
  int64_t last = (int64_t)at->chunk->buffer_count - 1;
  if (!take_length(at, last, &length, &prefix)) return failed(at, "the length of a record");
  return put_value(at, node, (size_t)length) && begin_record(at);
}

static bool begin_submessage(machine *at) {
  if (!at->open.count) return failed(at, "a submessage without an end");
  submessage last = ((submessage *)at->open.items)[--at->open.count];
  return put_varint(at, at->chunk->size - at->left - last.length) && put_varint(at, last.tag);
}

static bool put_field(machine *at, const fp_record_node *node) {
  uint64_t tag = (uint64_t)node->tag;
  switch (tag & 7) {
    case VARINT: return put_number(at, node) && put_varint(at, tag);
    case I64: return put_value(at, node, 8) && put_varint(at, tag);
    case I32: return put_value(at, node, 4) && put_varint(at, tag);
    case LEN: return put_text(at, node) && put_varint(at, tag);
    case GROUP:
    case END_GROUP: return put_varint(at, tag);
    case END_OF_SUBMESSAGE: {
      bool has_room = at->open.count < at->open.capacity;
      if (!has_room && !fp_vector_reserve(at->memory, &at->open, sizeof(submessage), 1)) return failed(at, NULL);
      ((submessage *)at->open.items)[at->open.count++] = (submessage){at->chunk->size - at->left, tag - END_OF_SUBMESSAGE + LEN};
      return true;
    }
    default: return failed(at, "a wire type that does not exist");
  }
}

static bool perform(machine *at, const fp_record_node *node) {
  switch (node->tag) {
    case NOTHING: return true;
    case NO_MESSAGE: return put_no_message(at, node);
    case START_OF_SUBMESSAGE: return begin_submessage(at);
    case START_OF_RECORD: return begin_record(at);
    default: return node->tag < FIRST_FIELD ? failed(at, "a tag that does not exist") : put_field(at, node);
  }
}

static bool walk(machine *at, size_t *step) {
  const fp_transposed *chunk = at->chunk;
  const fp_record_node *here = &chunk->nodes[chunk->first];
  unsigned left = chunk->is_first_implicit;
  for (*step = 0;;) {
    if (!perform(at, here)) return false;
    int64_t node = here->next;
    here = &chunk->nodes[node];
    if (left) {
      left -= here->is_implicit == 0;
      continue;
    }
    if (*step == chunk->transition_count) return true;
    uint8_t byte = chunk->transitions[(*step)++];
    node += byte >> 2;
    if ((size_t)node >= chunk->node_count) return failed(at, "a node that does not exist");
    here = &chunk->nodes[node];
    left = (byte & 3u) + (here->is_implicit != 0);
  }
}

static bool is_node(const fp_transposed *chunk, int64_t node) {
  return node >= 0 && (size_t)node < chunk->node_count;
}

/* Whether the first node, and all that follow others, exist. */
static bool are_nodes(const fp_transposed *chunk) {
  bool all = is_node(chunk, chunk->first);
  for (size_t i = 0; all && i < chunk->node_count; i++) all = is_node(chunk, chunk->nodes[i].next);
  return all;
}

fp_code fp_transposed_write(fp_memory *memory, const fp_transposed *chunk, fp_fault *fault) {
  machine at = {.chunk = chunk, .memory = memory, .left = chunk->size};
  if (!are_nodes(chunk)) return fp_fail(fault, FP_OUT_OF_RANGE, 0, "a node that does not exist");
  at.rests = fp_alloc(memory, (chunk->buffer_count + 1) * sizeof *at.rests);
  if (!at.rests) return fp_fail(fault, FP_NO_MEMORY, 0, "a transposed chunk");
  const uint8_t *values = chunk->values ? chunk->values : (const uint8_t *)"";
  for (size_t i = 0; i < chunk->buffer_count; i++)
    at.rests[i] = (rest){values + chunk->bounds[i], values + chunk->bounds[i + 1]};
  size_t step;
  fp_code code = FP_OK;
  if (!walk(&at, &step)) {
    code = at.fault ? fp_fail(fault, FP_OUT_OF_RANGE, step, at.fault) : fp_fail(fault, FP_NO_MEMORY, 0, "submessages");
  } else if (at.left || at.records != chunk->record_count || at.open.count) {
    code = fp_fail(fault, FP_OUT_OF_RANGE, step, "fewer bytes or records than the chunk declares");
  } else if (at.records ? chunk->begins[at.records - 1] : (int64_t)chunk->size) {
    code = fp_fail(fault, FP_OUT_OF_RANGE, step, "bytes before the first record");
  }
  fp_vector_free(memory, &at.open);
  fp_release(memory, at.rests);
  return code;
}
