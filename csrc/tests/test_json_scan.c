/* Documents in chunks of any size give the same events, members and remarks, or the same fault. */
#include "formats/json_scan.h"

#include "formats/json_text.h"
#include "formats/json_values.h"
#include "tests/check.h"

/* What a scan has found, as lines of text. */
typedef struct scan_log {
  fp_memory memory;
  fp_bytes found;
} scan_log;

static void put_number(fp_bytes *out, const char *before, uint64_t number) {
  fp_bytes_text(out, before);
  fp_json_digits(out, number);
}

/* Writes the compact text of each member. */
static fp_json_step on_event(void *context, const fp_json_view *view, fp_json_walk *walk, uint64_t offset) {
  scan_log *log = context;
  fp_bytes line = {.memory = &log->memory};
  fp_json_value key, value;
  fp_json_bad_text bad = {0};
  fp_json_step step;
  uint32_t at = 0;
  put_number(&line, "event@", offset);
  while ((step = fp_json_member(view, walk, &key, &value)) == FP_WALK_ITEM || step == FP_WALK_DEEP) {
    fp_bytes_byte(&line, ' ');
    fp_json_decode(&line, view->text + key.from, key.to - key.from, &bad);
    fp_bytes_byte(&line, '=');
    if (step == FP_WALK_DEEP) fp_bytes_text(&line, "deep");
    else if (!fp_json_compact(&line, view, &value, SIZE_MAX, &bad, &at)) {
      walk->at = at;
      step = FP_WALK_FAULT;
      break;
    }
  }
  if (bad.count) put_number(&line, " bad ", bad.count);
  fp_bytes_byte(&line, '\n');
  if (step == FP_WALK_END) fp_bytes_put(&log->found, line.data, line.size);
  fp_bytes_free(&line);
  return step;
}

static bool on_member(void *context, const uint8_t *key, size_t key_length, const uint8_t *text, size_t length, bool is_whole) {
  scan_log *log = context;
  fp_bytes_text(&log->found, "member ");
  fp_bytes_put(&log->found, key, key_length);
  fp_bytes_byte(&log->found, '=');
  fp_bytes_put(&log->found, text, length < 40 ? length : 40);
  fp_bytes_text(&log->found, is_whole ? "\n" : "...\n");
  return true;
}

static void on_remark(void *context, fp_json_remark what, uint64_t offset, uint64_t count) {
  static const char *const names[] = {"extra comma", "several documents", "several arrays", "stray item", "lost", "ends early"};
  scan_log *log = context;
  fp_bytes_text(&log->found, names[what]);
  put_number(&log->found, "@", offset);
  put_number(&log->found, " ", count);
  fp_bytes_byte(&log->found, '\n');
}

static void scan_chunks(const char *text, size_t size, size_t chunk, bool salvage, fp_bytes *result, scan_log *log) {
  static const fp_json_handlers handlers = {on_event, on_member, on_remark};
  fp_json_scan scan = {.memory = &log->memory, .handlers = &handlers, .context = log, .salvage = salvage,
                       .index.ways = fp_json_best_ways()};
  fp_fault fault;
  fp_code code = FP_OK;
  log->found = (fp_bytes){.memory = &log->memory};
  for (size_t at = 0; at < size && !code; at += chunk) {
    size_t length = chunk < size - at ? chunk : size - at;
    uint8_t *copy = malloc(length);
    CHECK(copy);
    memcpy(copy, text + at, length);
    code = fp_json_scan_push(&scan, copy, length, &fault);
    free(copy);
  }
  if (!code) code = fp_json_scan_finish(&scan, &fault);
  if (code) {
    put_number(&log->found, fp_code_name(code), fault.offset);
    fp_bytes_byte(&log->found, '\n');
  }
  fp_json_scan_free(&scan);
  *result = log->found;
}

static void check_found(const char *text, size_t size, bool salvage, const char *wanted) {
  static const size_t chunks[] = {1, 2, 3, 7, 63, 64, 65, 4096, 1 << 20};
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
    scan_log log;
    fp_bytes found;
    fp_memory_init(&log.memory);
    scan_chunks(text, size, chunks[i], salvage, &found, &log);
    fp_bytes_byte(&found, 0);
    if (strcmp((const char *)found.data, wanted))
      fprintf(stderr, "chunks of %zu\n%s---- wanted\n%s", chunks[i], (const char *)found.data, wanted);
    CHECK(!strcmp((const char *)found.data, wanted));
    fp_bytes_free(&found);
    CHECK_INT(log.memory.live, 0);
  }
}

#define FOUND(text, wanted) check_found(text, sizeof text - 1, false, wanted)
#define SALVAGED(text, wanted) check_found(text, sizeof text - 1, true, wanted)

static void both_forms_have_events(void) {
  FOUND("[{\"a\": 1}, {\"b\" :[ 1, {\"c\" : null}]}]", "event@1 a=1\nevent@11 b=[1,{\"c\":null}]\n");
  FOUND("{\"x\": 12 , \"traceEvents\": [{\"a\": \"b\"}], \"y\":{\"z\": [1,2]}}",
        "member x=12 \nevent@27 a=\"b\"\nmember y={\"z\": [1,2]}\n");
  FOUND("[]", "");
  FOUND("  {}  ", "");
  FOUND("\xEF\xBB\xBF [{\"a\":1},\n{},]\f \0", "event@5 a=1\nevent@14\n");
}

static void strings_are_decoded(void) {
  FOUND("[{\"a\":\"x\\\"y\\u00e9\\ud83d\\ude00\\/\\q\"}]", "event@1 a=\"x\\\"y\xC3\xA9\xF0\x9F\x98\x80/\\\\q\"\n");
  FOUND("[{\"a\":\"\\ud83dx\\u12\"}]", "event@1 a=\"\xEF\xBF\xBDx\\\\u12\" bad 1\n");
  FOUND("[{\"a\":\"\xC3\xA9\xC3(\xFF\"}]", "event@1 a=\"\xC3\xA9\xEF\xBF\xBD(\xEF\xBF\xBD\" bad 2\n");
  FOUND("[{\"a\":\"{[,:\\\\\"}]", "event@1 a=\"{[,:\\\\\"\n");
}

static void what_ends_early_keeps_its_events(void) {
  FOUND("[{\"a\":1},{\"b\":2}", "event@1 a=1\nevent@9 b=2\n");
  FOUND("[{\"a\":1},{\"b\":2},", "event@1 a=1\nevent@9 b=2\n");
  FOUND("[{\"a\":1},{\"b\":[2", "event@1 a=1\nends early@8 3\n");
  FOUND("{\"traceEvents\":[{\"a\":1},{\"b\":\"\\u00", "event@16 a=1\nends early@23 3\n");
  FOUND("{\"traceEvents\":[{\"a\":1}]", "event@16 a=1\nends early@23 1\n");
}

static void other_writers_are_read_with_a_remark(void) {
  FOUND("[,{\"a\":1}]", "extra comma@1 1\nevent@2 a=1\n");
  FOUND("[1, null, {\"a\":NaN}]", "stray item@1 1\nstray item@4 1\nevent@10 a=NaN\n");
  FOUND("[{\"a\":1}][{\"b\":1}]", "event@1 a=1\nseveral documents@9 1\nevent@10 b=1\n");
  FOUND("{\"traceEvents\":[{\"a\":1}],\"traceEvents\":[{\"b\":1}]}{\"c\":true}",
        "event@16 a=1\nseveral arrays@39 1\nevent@40 b=1\nseveral documents@49 1\nmember c=true\n");
}

static void damage_is_a_fault(void) {
  FOUND("[{\"a\":1} {\"b\":1}]", "event@1 a=1\nbad_json9\n");
  FOUND("[{\"a\":01}]", "bad_json6\n");
  FOUND("[{\"a\":x}]", "bad_json6\n");
  FOUND("[{\"a\" 1}]", "bad_json6\n");
  FOUND("[{\"a\":1]}]", "bad_json7\n");
  FOUND("x", "bad_json0\n");
  FOUND("[{\"a\":1}]x", "event@1 a=1\nbad_json9\n");
  FOUND("[{\"a\":1},,{\"b\":1}]", "event@1 a=1\nbad_json9\n");
}

static void damage_is_passed_over_if_salvaged(void) {
  SALVAGED("[{\"ph\":1},{\"ph\":01},{\"ph\":3}]", "event@1 ph=1\nlost@10 10\nevent@20 ph=3\n");
  SALVAGED("[{\"ph\":1},{\"ph\":\"x,{\"q\":1},{\"ph\":3},4]", "event@1 ph=1\nlost@10 17\nevent@27 ph=3\nstray item@36 1\n");
  SALVAGED("[{\"ph\":1}xx{\"a\":1},{\"ph\":5}", "event@1 ph=1\nlost@9 10\nevent@19 ph=5\n");
  SALVAGED("[{\"ph\":1} {\"ph\":2}]", "event@1 ph=1\nlost@10 1\nevent@10 ph=2\n"); /* only a comma is missing */
  SALVAGED("[{\"ph\":1},]x", "event@1 ph=1\nlost@11 1\n");
}

/* An event is found however deep it lies. Were each open object read to the end of the text, this would take an hour. */
static void objects_that_never_end_are_passed_over(void) {
  enum { COUNT = 100000 };
  static const char open[] = "{\"a\":[";
  static char text[COUNT * (sizeof open - 1) + 40], wanted[99];
  size_t size = (size_t)sprintf(text, "[{\"ph\"},");
  for (size_t i = 0; i < COUNT; i++) memcpy(text + size, open, sizeof open - 1), size += sizeof open - 1;
  sprintf(wanted, "lost@1 %zu\nevent@%zu ph=1\nlost@%zu 1\n", size - 1, size, size + sizeof "{'ph':1}" - 1);
  size += (size_t)sprintf(text + size, "{\"ph\":1}}");
  check_found(text, size, true, wanted);
}

static void deep_values_are_stepped_over(void) {
  enum { DEPTH = 600 };
  static char text[2 * DEPTH + 40];
  size_t size = (size_t)sprintf(text, "[{\"a\":");
  memset(text + size, '[', DEPTH), size += DEPTH;
  memset(text + size, ']', DEPTH), size += DEPTH;
  size += (size_t)sprintf(text + size, ",\"b\":2}]");
  check_found(text, size, false, "event@1 a=deep b=2\n");
}

static void long_values_are_cut(void) {
  static char text[(3 << 20) + 40];
  size_t size = (size_t)sprintf(text, "{\"systemTraceEvents\":\"");
  memset(text + size, 'x', 3 << 20), size += 3 << 20;
  size += (size_t)sprintf(text + size, "\",\"b\":2}");
  check_found(text, size, false, "member systemTraceEvents=\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\nmember b=2\n");
}

static void memory_may_run_out_anywhere(void) {
  static const char text[] = "{\"x\":{\"y\":1},\"traceEvents\":[{\"a\":\"\\u00e9\",\"b\":[1,\"x\"]},{\"c\":1}],\"z\":2}";
  static const fp_json_handlers handlers = {on_event, on_member, on_remark};
  for (int64_t n = 0; n < 20; n++) {
    scan_log log;
    fp_memory_init(&log.memory);
    log.memory.countdown = n;
    log.found = (fp_bytes){.memory = &log.memory};
    fp_json_scan scan = {.memory = &log.memory, .handlers = &handlers, .context = &log};
    fp_fault fault;
    fp_code code = FP_OK;
    for (size_t i = 0; i < sizeof text - 1 && !code; i += 8)
      code = fp_json_scan_push(&scan, (const uint8_t *)text + i, sizeof text - 1 - i < 8 ? sizeof text - 1 - i : 8, &fault);
    if (!code) code = fp_json_scan_finish(&scan, &fault);
    CHECK(!code || code == FP_NO_MEMORY || code == FP_BAD_JSON);
    fp_json_scan_free(&scan);
    fp_json_scan_free(&scan);
    fp_bytes_free(&log.found);
    CHECK_INT(log.memory.live, 0);
  }
}

int main(void) {
  RUN(both_forms_have_events);
  RUN(strings_are_decoded);
  RUN(what_ends_early_keeps_its_events);
  RUN(other_writers_are_read_with_a_remark);
  RUN(damage_is_a_fault);
  RUN(damage_is_passed_over_if_salvaged);
  RUN(objects_that_never_end_are_passed_over);
  RUN(deep_values_are_stepped_over);
  RUN(long_values_are_cut);
  RUN(memory_may_run_out_anywhere);
  return 0;
}
