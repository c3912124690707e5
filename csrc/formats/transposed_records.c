/* Most fields are a tag and a number of a few bytes. Such a node is prepared as words of eight bytes, which are stored so
 * that they end where what is written begins; bytes before them are written next, so that more may be stored than counts:
 *
 *    out     . . . . . . . . | what is written
 *    store     x x x x x T N |                     tag T, number N; x is overwritten by the node after it
 *
 * Whatever is rare, or near to the bounds of the output or of the values, takes a step at a time (`perform`). */
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
  struct ready *ready; /* by node */
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

/* ---- nodes that are prepared ---- */

enum { WORD = 8, SHORT_LENGTH = 0x80 };
typedef enum ready_kind { PERFORM, PUT_WORD, PUT_NUMBER, BEGIN_MESSAGE, END_MESSAGE } ready_kind;

/* A node: its tag, and behind it a number that it has itself, as the first `head` bytes of `word`. A number of a buffer
 * has `size` bytes. */
typedef struct ready {
  uint64_t word;
  uint32_t next, buffer;
  uint8_t kind, head, size, is_implicit;
} ready;

/* The tag as bytes of a word, the first one lowest. */
static void prepare_tag(ready *to, uint64_t tag) {
  for (; tag > 0x7f; tag >>= 7) to->word |= ((tag & 0x7f) | 0x80) << 8 * to->head++;
  to->word |= tag << 8 * to->head++;
}

static void prepare_number(ready *to, const fp_record_node *node) {
  size_t size = (size_t)node->subtype + 1;
  if (node->subtype >= INLINE) {
    to->kind = PUT_WORD;
    to->word |= (uint64_t)(uint8_t)(node->subtype - INLINE) << 8 * to->head++;
  } else if (to->head + size <= WORD) {
    to->kind = PUT_NUMBER;
    to->size = (uint8_t)size;
  }
}

static void prepare(ready *to, const fp_record_node *node, const fp_transposed *chunk) {
  *to = (ready){.next = (uint32_t)node->next, .buffer = (uint32_t)node->buffer, .is_implicit = node->is_implicit != 0};
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  bool has_buffer = node->buffer >= 0 && (size_t)node->buffer < chunk->buffer_count;
  if (node->tag == START_OF_SUBMESSAGE) to->kind = BEGIN_MESSAGE;
  if (node->tag < FIRST_FIELD) return;
  if ((node->tag & 7) == END_OF_SUBMESSAGE) {
    to->kind = END_MESSAGE;
    to->word = (uint64_t)node->tag - END_OF_SUBMESSAGE + LEN;
  }
  if ((node->tag & 7) != VARINT || !(has_buffer || node->subtype >= INLINE)) return;
  prepare_tag(to, (uint64_t)node->tag);
  prepare_number(to, node);
#else
  (void)chunk;
#endif
}

/* Stores the first `size` bytes of a word so that they end at `end`. */
static inline uint8_t *store_before(uint8_t *end, uint64_t word, size_t size) {
  word <<= 8 * (WORD - size);
  memcpy(end - WORD, &word, WORD);
  return end - size;
}

/* A prepared node, where bytes of the output begin; NULL: it cannot be done so. */
static inline uint8_t *put_ready(machine *at, const ready *node, uint8_t *to, const uint8_t *values_end) {
  if (to - at->chunk->out < WORD) return NULL;
  switch (node->kind) {
    case PUT_WORD: return store_before(to, node->word, node->head);
    case PUT_NUMBER: {
      rest *from = &at->rests[node->buffer];
      uint64_t value;
      if (node->size > (size_t)(from->end - from->at) || values_end - from->at < WORD) return NULL;
      memcpy(&value, from->at, WORD);
      from->at += node->size;
      value = (value | UINT64_C(0x8080808080808080)) & UINT64_MAX >> (8 * (WORD - node->size) + 1);
      return store_before(to, value << 8 * node->head | node->word, (size_t)node->head + node->size);
    }
    case BEGIN_MESSAGE: {
      submessage last;
      if (!at->open.count) return NULL;
      last = ((submessage *)at->open.items)[at->open.count - 1];
      size_t length = (size_t)(at->chunk->out + at->chunk->size - to) - last.length;
      if (length >= SHORT_LENGTH || last.tag >= SHORT_LENGTH) return NULL;
      at->open.count--;
      *--to = (uint8_t)length;
      *--to = (uint8_t)last.tag;
      return to;
    }
    case END_MESSAGE:
      if (at->open.count == at->open.capacity) return NULL;
      ((submessage *)at->open.items)[at->open.count++] = (submessage){(size_t)(at->chunk->out + at->chunk->size - to), node->word};
      return to;
    default: return NULL;
  }
}

/* The same, or a step at a time; NULL: it failed. */
static uint8_t *put_slowly(machine *at, const ready *node, uint8_t *to) {
  at->left = (size_t)(to - at->chunk->out);
  return perform(at, &at->chunk->nodes[node - at->ready]) ? at->chunk->out + at->left : NULL;
}

static bool walk(machine *at, size_t *step) {
  const fp_transposed *chunk = at->chunk;
  const uint8_t *values_end = chunk->buffer_count ? at->rests[chunk->buffer_count - 1].end : NULL;
  const ready *node = at->ready + chunk->first, *end = at->ready + chunk->node_count;
  const uint8_t *from = chunk->transitions, *last = from + chunk->transition_count;
  uint8_t *to = chunk->out + chunk->size;
  unsigned left = chunk->is_first_implicit;
  for (;;) {
    uint8_t *begin = put_ready(at, node, to, values_end);
    to = begin ? begin : put_slowly(at, node, to);
    *step = (size_t)(from - chunk->transitions);
    if (!to) return false;
    node = at->ready + node->next;
    if (left) {
      left -= node->is_implicit == 0;
      continue;
    }
    if (from == last) break;
    uint8_t byte = *from++;
    if (byte >> 2 >= end - node) return failed(at, "a node that does not exist");
    node += byte >> 2;
    left = (byte & 3u) + node->is_implicit;
  }
  at->left = (size_t)(to - chunk->out);
  return true;
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
  at.ready = fp_alloc(memory, chunk->node_count * sizeof *at.ready);
  if (!at.rests || !at.ready) {
    fp_release(memory, at.rests);
    fp_release(memory, at.ready);
    return fp_fail(fault, FP_NO_MEMORY, 0, "a transposed chunk");
  }
  for (size_t i = 0; i < chunk->node_count; i++) prepare(&at.ready[i], &chunk->nodes[i], chunk);
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
  fp_release(memory, at.ready);
  return code;
}
