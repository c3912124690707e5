/* The scribe of Chrome's traces where memory runs out and where documents end early. What events become is tested from
 * Python, against a slow reader. */
#include "formats/chrome_parts.h"
#include "formats/wire.h"
#include "tests/check.h"

static const char EVERY_PHASE[] =
    "{\"displayTimeUnit\":\"ms\",\"stackFrames\":{\"1\":{\"name\":\"main\"},\"2\":{\"name\":\"f\",\"parent\":1}},\"traceEvents\":["
    "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"t\"}},"
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_labels\",\"args\":{\"labels\":\"a\"}},"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":1.5,\"dur\":2,\"name\":\"x\\u00e9\",\"cat\":\"c\",\"args\":{\"a\":1,\"c\":[1,{}],\"a\":2.5},\"sf\":2},"
    "{\"ph\":\"B\",\"pid\":1,\"tid\":2,\"ts\":9,\"name\":\"b\",\"args\":{\"k\":1}},{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":12,\"args\":{\"k\":2}},"
    "{\"ph\":\"C\",\"pid\":1,\"ts\":3,\"name\":\"n\",\"id\":7,\"args\":{\"v\":1,\"\":3}},"
    "{\"ph\":\"b\",\"cat\":\"a\",\"id\":\"0x1f\",\"pid\":1,\"ts\":1,\"name\":\"n1\"},{\"ph\":\"e\",\"cat\":\"a\",\"id\":\"0x1f\",\"pid\":1,\"ts\":3},"
    "{\"ph\":\"S\",\"cat\":\"l\",\"id\":1,\"pid\":1,\"ts\":1,\"name\":\"s\"},{\"ph\":\"T\",\"cat\":\"l\",\"id\":1,\"pid\":1,\"ts\":2,\"name\":\"s\",\"args\":{\"step\":\"u\"}},"
    "{\"ph\":\"F\",\"cat\":\"l\",\"id\":1,\"pid\":1,\"ts\":5,\"name\":\"s\"},{\"ph\":\"s\",\"id\":\"q\",\"cat\":\"f\",\"name\":\"f\",\"pid\":1,\"tid\":2,\"ts\":2},"
    "{\"ph\":\"N\",\"pid\":1,\"ts\":1,\"id\":\"q\",\"cat\":\"o\",\"name\":\"o\"},{\"ph\":\"P\",\"pid\":1,\"tid\":2,\"ts\":3,\"name\":\"p\",\"stack\":[\"a\"]},"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":\"main\",\"ts\":1695835542481129,\"dur\":1,\"name\":\"far\"}],\"otherData\":{\"v\":\"1\"}}";

static const char KINETO[] =
    "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA A100\",\"numSms\":108}],\"traceEvents\":["
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":5,\"dur\":3,\"args\":{\"device\":2,\"stream\":7,\"correlation\":5,"
    "\"grid\":[1, 2,3],\"block\":[4,5,6],\"registers per thread\":8,\"est. achieved occupancy %\":50}},"
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":9,\"tid\":9,\"ts\":1,\"dur\":30},"
    "{\"ph\":\"X\",\"cat\":\"Trace\",\"pid\":\"Spans\",\"tid\":\"PyTorch Profiler\",\"name\":\"PyTorch Profiler (0)\",\"ts\":1,\"dur\":99}],"
    "\"baseTimeNanoseconds\":1700000000000000000}";

/* How many XEvents lines of planes have. */
static uint64_t count_events(const uint8_t *p, size_t size, int depth) {
  static const uint32_t nested[] = {1, 3, 4};
  const uint8_t *end = p + size;
  uint64_t found = 0;
  while (p < end) {
    uint64_t tag = 0, value = 0;
    CHECK(wire_varint(&p, end, &tag));
    if ((tag & 7) == WIRE_I64) p += 8;
    else CHECK(wire_varint(&p, end, &value));
    if ((tag & 7) != WIRE_LEN) continue;
    bool is_next = tag >> 3 == nested[depth];
    if (is_next) found += depth == 2 ? 1 : count_events(p, (size_t)value, depth + 1);
    p += value;
  }
  return found;
}

/* Scans a text, a chunk ahead of what is taken. */
static fp_code push_ahead(fp_chrome *chrome, fp_chrome_tape *tapes[2], const char *text, size_t size, fp_fault *fault) {
  fp_code code = tapes[0] && tapes[1] ? FP_OK : FP_NO_MEMORY;
  for (size_t i = 0; i <= (size + 63) / 64 && !code; i++) {
    size_t at = 64 * i;
    if (at < size) fp_chrome_scan(chrome, tapes[i % 2], (const uint8_t *)text + at, size - at < 64 ? size - at : 64);
    if (i) code = fp_chrome_take(chrome, tapes[(i - 1) % 2], fault);
  }
  return code;
}

/* Transcribes a text in chunks of 64 bytes, with `most` allocations; gives its events. `ahead`: scanned a chunk ahead. */
static fp_code transcribe(const char *text, size_t size, int64_t most, bool salvage, bool ahead, uint64_t *events) {
  fp_memory memory;
  fp_memory_init(&memory);
  memory.countdown = most;
  fp_chrome *chrome = fp_chrome_new(&memory, salvage);
  fp_code code = chrome ? FP_OK : FP_NO_MEMORY;
  fp_fault fault;
  fp_chrome_tape *tapes[2] = {NULL, NULL};
  if (chrome) chrome->look_at = 64; /* else all is read at the end */
  for (int i = 0; i < 2 && ahead && !code; i++) tapes[i] = fp_chrome_tape_new(&memory);
  if (ahead && !code) code = push_ahead(chrome, tapes, text, size, &fault);
  for (size_t at = 0; at < size && !code && !ahead; at += 64)
    code = fp_chrome_push(chrome, (const uint8_t *)text + at, size - at < 64 ? size - at : 64, &fault);
  if (!code) code = fp_chrome_finish(chrome, &fault);
  *events = 0;
  if (!code) {
    size_t count, length = 0;
    const fp_chrome_part *parts = fp_chrome_parts(chrome, &count);
    const fp_bytes *spill = fp_chrome_spill(chrome);
    uint8_t *space = malloc(spill->size + 1);
    CHECK(space);
    for (size_t i = 0; i < count; i++) {
      CHECK(parts[i].length <= spill->size - length && parts[i].place <= spill->size - parts[i].length);
      memcpy(space + length, spill->data + parts[i].place, parts[i].length);
      length += parts[i].length;
    }
    *events = count_events(space, length, 0);
    free(space);
  }
  for (int i = 0; i < 2; i++) fp_chrome_tape_free(tapes[i]);
  fp_chrome_free(chrome);
  CHECK_INT(memory.live, 0);
  return code;
}

static void each_allocation_may_fail(const char *text, size_t size, bool ahead, uint64_t wanted) {
  uint64_t events;
  CHECK_INT(transcribe(text, size, -1, false, ahead, &events), FP_OK);
  CHECK_INT(events, wanted);
  for (int64_t most = 0;; most++) {
    fp_code code = transcribe(text, size, most, false, ahead, &events);
    CHECK(!code || code == FP_NO_MEMORY);
    if (code) continue;
    CHECK_INT(events, wanted);
    CHECK(most > 50);
    return;
  }
}

/* Of the time among the others' that is far, the event is left out. */
static void memory_may_run_out_anywhere(void) {
  for (int ahead = 0; ahead < 2; ahead++) {
    each_allocation_may_fail(EVERY_PHASE, sizeof EVERY_PHASE - 1, ahead, 8);
    each_allocation_may_fail(KINETO, sizeof KINETO - 1, ahead, 3);
  }
}

static void a_document_cut_anywhere_keeps_what_was_whole(void) {
  uint64_t before = 0, events;
  for (size_t size = sizeof "{\"displayTimeUnit\""; size < sizeof EVERY_PHASE - 1; size++) {
    fp_code code = transcribe(EVERY_PHASE, size, -1, false, false, &events);
    CHECK(!code || code == FP_BAD_JSON);
    CHECK(code || events <= 9);
    before = events > before ? events : before;
  }
  CHECK_INT(before, 8);
}

static void other_json_is_an_error(void) {
  static const char *const texts[] = {"{}", "{\"a\":1}", "[1,2]", "[{\"a\":1}]", "", "x", "{\"traceEvents\":3}"};
  uint64_t events;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    CHECK_INT(transcribe(texts[i], strlen(texts[i]), -1, false, false, &events), FP_BAD_JSON);
  CHECK_INT(transcribe("[]", 2, -1, false, false, &events), FP_OK);
  CHECK_INT(transcribe("{\"traceEvents\":[]}", 18, -1, false, false, &events), FP_OK);
}

int main(void) {
  RUN(memory_may_run_out_anywhere);
  RUN(a_document_cut_anywhere_keeps_what_was_whole);
  RUN(other_json_is_an_error);
  return 0;
}
