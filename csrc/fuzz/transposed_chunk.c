/* A transposed chunk of Riegeli that is not compressed gives the records that it declares, side by side, or says what is
 * wrong. A hash does not depend on where its bytes lie.
 *
 *    64 bytes "signature"   40 bytes "header of the chunk"   0   length   header   buckets   transitions
 */
#include "formats/crc32c.h"
#include "formats/highway_hash.h"
#include "formats/transposed_records.h"
#include "formats/wire.h"
#include "fuzz/target.h"

enum { SIGNATURE = 64, CHUNK_HEADER = 40, DATA_SIZE = 8, RECORDS = 25, DECODED_SIZE = 32, MOST = 1 << 12, MOST_SIZE = 1 << 16 };

/* A chunk whose arrays are blocks of their own, so that reading past their ends is seen. */
typedef struct chunk {
  fp_transposed given;
  fp_record_node nodes[MOST];
  int64_t bounds[MOST + 1];
  uint8_t *values, *transitions;
} chunk;

static uint64_t number_at(const uint8_t *p, int bytes) {
  uint64_t value = 0;
  for (int i = bytes; i--;) value = value << 8 | p[i];
  return value;
}

static uint8_t *copy_of(const uint8_t *p, size_t size) {
  uint8_t *copy = malloc(size);
  CHECK(copy || !size);
  if (size) memcpy(copy, p, size);
  return copy;
}

static bool has_buffer(const fp_record_node *node) {
  int64_t type = node->tag & 7;
  if (node->tag < 8) return node->tag == 1;
  return type ? type == 1 || type == 2 || type == 5 : node->subtype < 10;
}

static bool read_nodes(chunk *to, const uint8_t **p, const uint8_t *end) {
  uint64_t value, count = to->given.node_count;
  for (size_t i = 0; i < count; i++) {
    if (!wire_varint(p, end, &value)) return false;
    to->nodes[i] = (fp_record_node){.tag = (int64_t)(value & INT64_MAX), .buffer = -1};
  }
  for (size_t i = 0; i < count; i++) {
    if (!wire_varint(p, end, &value)) return false;
    to->nodes[i].is_implicit = value >= count;
    to->nodes[i].next = (int64_t)(value >= count ? value - count : value);
  }
  for (size_t i = 0; i < count; i++) {
    if (to->nodes[i].tag < 8 || to->nodes[i].tag & 7) continue;
    if (*p == end) return false;
    to->nodes[i].subtype = *(*p)++;
  }
  for (size_t i = 0; i < count; i++) {
    if (!has_buffer(&to->nodes[i])) continue;
    if (!wire_varint(p, end, &value)) return false;
    to->nodes[i].buffer = (int64_t)value;
  }
  return true;
}

/* Circles of implicit nodes are refused by the caller. */
static bool has_circle(const chunk *of) {
  for (size_t i = 0; i < of->given.node_count; i++) {
    uint64_t at = i, steps = 0;
    while (at < of->given.node_count && of->nodes[at].is_implicit && steps <= of->given.node_count)
      at = (uint64_t)of->nodes[at].next, steps++;
    if (steps > of->given.node_count) return true;
  }
  return false;
}

static bool read_header(chunk *to, const uint8_t *p, const uint8_t *end, size_t *stored) {
  uint64_t buckets, buffers, value;
  *stored = 0;
  if (!wire_varint(&p, end, &buckets) || !wire_varint(&p, end, &buffers) || buckets > MOST || buffers > MOST) return false;
  for (uint64_t i = 0; i < buckets; i++) {
    if (!wire_varint(&p, end, &value) || value > MOST_SIZE) return false;
    *stored += value;
  }
  to->given.buffer_count = buffers;
  for (uint64_t i = 0; i < buffers; i++) {
    if (!wire_varint(&p, end, &value) || value > *stored - (size_t)to->bounds[i]) return false;
    to->bounds[i + 1] = to->bounds[i] + (int64_t)value;
  }
  if (!wire_varint(&p, end, &value) || value > MOST) return false;
  to->given.node_count = value;
  if (!read_nodes(to, &p, end) || !wire_varint(&p, end, &value) || has_circle(to)) return false;
  to->given.first = (int64_t)value;
  to->given.is_first_implicit = value < to->given.node_count && to->nodes[value].is_implicit;
  return true;
}

static bool read_chunk(chunk *to, const uint8_t *data, size_t size) {
  const uint8_t *end = data + size, *header;
  uint64_t length;
  size_t stored;
  if (size < SIGNATURE + CHUNK_HEADER + 1) return false;
  const uint8_t *sizes = data + SIGNATURE, *p = sizes + CHUNK_HEADER + 1;
  to->given.record_count = number_at(sizes + RECORDS, 7) % MOST_SIZE;
  to->given.size = number_at(sizes + DECODED_SIZE, 8) % MOST_SIZE;
  if (!wire_bytes(&p, end, &header, &length) || !read_header(to, header, header + length, &stored)) return false;
  if (stored > (size_t)(end - p)) return false;
  to->values = copy_of(p, stored);
  to->given.transition_count = (size_t)(end - p) - stored;
  to->transitions = copy_of(p + stored, to->given.transition_count);
  return true;
}

static void check_records(const fp_transposed *given) {
  int64_t end = (int64_t)given->size;
  for (size_t i = 0; i < given->record_count; i++) {
    CHECK(given->begins[i] >= 0 && given->begins[i] <= end);
    end = given->begins[i];
  }
  CHECK_INT(end, 0);
}

static void run(chunk *given) {
  fp_memory memory;
  fp_fault fault;
  fp_transposed *to = &given->given;
  fp_record_node *nodes = malloc(to->node_count * sizeof *nodes);
  int64_t *bounds = malloc((to->buffer_count + 1) * sizeof *bounds);
  to->out = malloc(to->size);
  to->begins = malloc(to->record_count * sizeof *to->begins);
  CHECK((nodes || !to->node_count) && bounds && (to->out || !to->size) && (to->begins || !to->record_count));
  if (to->node_count) memcpy(nodes, given->nodes, to->node_count * sizeof *nodes);
  memcpy(bounds, given->bounds, (to->buffer_count + 1) * sizeof *bounds);
  to->nodes = nodes;
  to->bounds = bounds;
  to->values = given->values;
  to->transitions = given->transitions;
  fp_memory_init(&memory);
  fp_code code = fp_transposed_write(&memory, to, &fault);
  CHECK(code == FP_OK || code == FP_OUT_OF_RANGE);
  if (code == FP_OK) check_records(to);
  CHECK_INT(memory.live, 0);
  free(nodes);
  free(bounds);
  free(to->out);
  free(to->begins);
}

static void check_hashes(const uint8_t *data, size_t size) {
  uint8_t *moved = malloc(size + 1);
  CHECK(moved);
  if (size) memcpy(moved + 1, data, size);
  CHECK(fp_riegeli_hash(moved + 1, size) == fp_riegeli_hash(data, size));
  CHECK_INT(fp_crc32c(moved + 1, size), fp_crc32c(data, size));
  free(moved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  chunk *given = calloc(1, sizeof *given);
  CHECK(given);
  check_hashes(data, size);
  if (read_chunk(given, data, size)) run(given);
  free(given->values);
  free(given->transitions);
  free(given);
  return 0;
}
