/* However a document is cut into chunks, and whether or not they are scanned ahead, its transcription is the same, or the
 * same error at the same offset; what is transcribed is an XSpace. */
#include "formats/chrome_parts.h"
#include "formats/wire.h"
#include "fuzz/target.h"

typedef struct transcript {
  fp_memory memory;
  fp_chrome *chrome;
  fp_chrome_tape *tapes[2]; /* NULL: chunks are pushed; else the first of them is scanned ahead */
  fp_code code;
  fp_fault fault;
  uint8_t *kept; /* what was spilled */
  size_t kept_size;
} transcript;

static void keep(transcript *t) {
  fp_bytes *spill = fp_chrome_spill(t->chrome);
  if (!spill->size) return;
  uint8_t *more = realloc(t->kept, t->kept_size + spill->size);
  CHECK(more);
  memcpy(more + t->kept_size, spill->data, spill->size);
  t->kept = more;
  t->kept_size += spill->size;
  spill->size = 0;
}

/* Each chunk is a block of its own, so that reading past its end is seen. */
static void push(transcript *t, const uint8_t *data, size_t size) {
  uint8_t *chunk = malloc(size);
  CHECK(chunk || !size);
  if (size) memcpy(chunk, data, size);
  if (t->tapes[0]) {
    fp_chrome_tape *last = t->tapes[1];
    fp_chrome_scan(t->chrome, last, chunk, size);
    if (!t->code) t->code = fp_chrome_take(t->chrome, t->tapes[0], &t->fault);
    t->tapes[1] = t->tapes[0];
    t->tapes[0] = last;
  } else if (!t->code) {
    t->code = fp_chrome_push(t->chrome, chunk, size, &t->fault);
  }
  keep(t);
  free(chunk);
}

/* `look`: bytes by which the dialect is decided, if that is possible; until then, none are read. */
static void transcribe(transcript *t, const uint8_t *data, size_t size, size_t step, size_t look, bool salvage, bool ahead) {
  memset(t, 0, sizeof *t);
  fp_memory_init(&t->memory);
  t->chrome = fp_chrome_new(&t->memory, salvage);
  CHECK(t->chrome);
  t->chrome->look_at = look;
  for (int i = 0; ahead && i < 2; i++) {
    t->tapes[i] = fp_chrome_tape_new(&t->memory);
    CHECK(t->tapes[i]);
  }
  for (size_t at = 0; at < size; at += step) push(t, data + at, step < size - at ? step : size - at);
  if (ahead && !t->code) t->code = fp_chrome_take(t->chrome, t->tapes[0], &t->fault);
  keep(t);
  if (!t->code) t->code = fp_chrome_finish(t->chrome, &t->fault);
  keep(t);
}

/* The XSpace as bytes. */
static uint8_t *space_of(const transcript *t, size_t *size) {
  size_t count;
  const fp_chrome_part *parts = fp_chrome_parts(t->chrome, &count);
  *size = 0;
  for (size_t i = 0; i < count; i++) *size += parts[i].length;
  uint8_t *space = malloc(*size), *to = space;
  CHECK(space || !*size);
  for (size_t i = 0; i < count; i++) {
    CHECK(parts[i].length <= t->kept_size && parts[i].place <= t->kept_size - parts[i].length);
    memcpy(to, t->kept + parts[i].place, parts[i].length);
    to += parts[i].length;
  }
  return space;
}

/* Messages down to XEvents are whole fields. */
static void check_fields(const uint8_t *p, size_t size, int depth) {
  static const uint32_t nested[] = {1, 3, 4};
  const uint8_t *end = p + size;
  while (p < end) {
    uint64_t tag, value;
    CHECK(wire_varint(&p, end, &tag));
    CHECK(tag >> 3);
    CHECK((tag & 7) == WIRE_VARINT || (tag & 7) == WIRE_LEN || (tag & 7) == WIRE_I64);
    if ((tag & 7) == WIRE_I64) {
      CHECK(end - p >= 8);
      p += 8;
      continue;
    }
    CHECK(wire_varint(&p, end, &value));
    if ((tag & 7) == WIRE_VARINT) continue;
    CHECK(value <= (uint64_t)(end - p));
    if (depth < 3 && tag >> 3 == nested[depth]) check_fields(p, (size_t)value, depth + 1);
    p += value;
  }
}

static void compare(const transcript *a, const transcript *b) {
  size_t count, others, size, other_size;
  CHECK_INT(a->code, b->code);
  if (a->code) CHECK_INT(a->fault.offset, b->fault.offset);
  if (a->code) return;
  const fp_chrome_remark *remarks = fp_chrome_remarks(a->chrome, &count), *other = fp_chrome_remarks(b->chrome, &others);
  CHECK_INT(count, others);
  for (size_t i = 0; i < count; i++) {
    CHECK(!strcmp(remarks[i].code, other[i].code));
    CHECK_INT(remarks[i].count, other[i].count);
    CHECK_INT(remarks[i].first_offset, other[i].first_offset);
  }
  uint8_t *space = space_of(a, &size), *other_space = space_of(b, &other_size);
  CHECK_INT(size, other_size);
  CHECK(!size || !memcmp(space, other_space, size));
  check_fields(space, size, 0);
  free(space);
  free(other_space);
}

static void end(transcript *t) {
  for (int i = 0; i < 2; i++) fp_chrome_tape_free(t->tapes[i]);
  fp_chrome_free(t->chrome);
  free(t->kept);
  CHECK_INT(t->memory.live, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  for (int salvage = 0; salvage < 2; salvage++) {
    static const size_t steps[] = {1, 7, 64, 4096};
    size_t step = steps[roll_below(&chance, 4)], look = (size_t)16 << 4 * roll_below(&chance, 5);
    transcript whole, split, ahead;
    transcribe(&whole, data, size, size ? size : 1, look, salvage, false);
    transcribe(&split, data, size, step, look, salvage, false);
    compare(&whole, &split);
    end(&split);
    if (!salvage) {
      transcribe(&ahead, data, size, step, look, false, true);
      compare(&whole, &ahead);
      end(&ahead);
    }
    end(&whole);
  }
  return 0;
}
