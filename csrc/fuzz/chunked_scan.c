/* However bytes are cut into chunks, the scanner finds the same parts and spans as in one push, or the same error at
 * the same offset. */
#include "formats/xspace.h"
#include "fuzz/target.h"

typedef struct scan {
  fp_memory memory;
  fp_scanner scanner;
  fp_code code;
  fp_fault fault;
} scan;

static void begin(scan *s) {
  memset(s, 0, sizeof *s);
  fp_memory_init(&s->memory);
  s->scanner.memory = &s->memory;
}

/* Each chunk is a block of its own, so that reading past its end is seen. */
static void push(scan *s, const uint8_t *data, size_t size) {
  uint8_t *chunk = malloc(size);
  CHECK(chunk || !size);
  if (size) memcpy(chunk, data, size);
  if (!s->code) s->code = fp_scanner_push(&s->scanner, chunk, size, &s->fault);
  free(chunk);
}

static void finish(scan *s) {
  if (!s->code) s->code = fp_scanner_finish(&s->scanner, &s->fault);
}

static void free_scan(scan *s) {
  fp_scanner_free(&s->scanner);
  CHECK_INT(s->memory.live, 0);
}

static void compare_vectors(const fp_vector *a, const fp_vector *b, size_t item_size) {
  CHECK_INT(a->count, b->count);
  CHECK(!a->count || !memcmp(a->items, b->items, a->count * item_size));
}

static void compare(const scan *a, const scan *b) {
  CHECK_INT(a->code, b->code);
  if (a->code) CHECK_INT(a->fault.offset, b->fault.offset);
  if (a->code) CHECK(!strcmp(a->fault.what, b->fault.what));
  compare_vectors(&a->scanner.parts, &b->scanner.parts, sizeof(fp_part));
  for (int kind = 0; kind < FP_SPAN_KINDS; kind++)
    compare_vectors(&a->scanner.spans[kind], &b->scanner.spans[kind], sizeof(fp_span));
}

static void in_chunks(const scan *whole, const uint8_t *data, size_t size, dice *chance, size_t largest) {
  scan split;
  begin(&split);
  for (size_t at = 0; at < size && !split.code;) {
    size_t step = (size_t)roll_below(chance, largest + 1);
    if (step > size - at) step = size - at;
    push(&split, data + at, step);
    at += step;
  }
  finish(&split);
  compare(whole, &split);
  free_scan(&split);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  scan whole;
  begin(&whole);
  push(&whole, data, size);
  finish(&whole);
  CHECK(!whole.code || whole.fault.offset <= size);
  in_chunks(&whole, data, size, &chance, 1);
  in_chunks(&whole, data, size, &chance, 2 + (size_t)roll_below(&chance, 40));
  in_chunks(&whole, data, size, &chance, 41 + (size_t)roll_below(&chance, 1 << 16));
  free_scan(&whole);
  return 0;
}
