/* Any events with any names and stats make valid trace files: lines of JSON whose strings end and whose brackets
 * match, and packets whose slices, on every track, end in the order in which they nest. */
#include "columns/utf8.h"
#include "formats/perfetto_write.h"
#include "formats/trace_json.h"
#include "formats/wire.h"
#include "fuzz/target.h"
#include "tests/spans.h"

enum { MOST = 200, TRACKS = 3, NAMES = 4, MOST_TEXT = 64 };

typedef struct sample {
  spans line;
  int64_t id[MOST], stat_event[MOST], int_value[MOST], name_offset[NAMES + 1], title_offset[2];
  double double_value[MOST];
  int32_t track[MOST], meta[MOST], name[MOST], text[MOST], meta_name[NAMES], long_name[NAMES];
  uint8_t kind[MOST], text_bytes[3 * MOST_TEXT];
  int64_t shared_first[NAMES + 1];
  fp_trace_track process, tracks[TRACKS];
} sample;

/* Three bytes make a span; the first bytes also are names and texts. */
static void fill(sample *s, const uint8_t *data, size_t size, dice *chance) {
  size_t count = size / 3 < MOST ? size / 3 : MOST, cut = size < MOST_TEXT ? size : MOST_TEXT;
  size_t length = fp_utf8_repair(data, cut, s->text_bytes);
  int64_t at = size && data[0] & 1 ? INT64_MIN : -50;
  for (size_t i = 0; i < count && at < INT64_MAX - 300; i++, s->line.count++) {
    const uint8_t *p = data + 3 * i;
    at += p[0] == 255 && at < INT64_MAX / 2 ? INT64_C(1) << 61 : p[0] % 16;
    s->line.start[i] = at;
    s->line.duration[i] = p[1] == 255 ? INT64_MAX : p[1] == 254 ? INT64_MIN : p[1] % 32;
    s->id[i] = s->stat_event[i] = (int64_t)i;
    s->track[i] = (int32_t)(i * TRACKS / (count + 1)) - (p[2] == 255);
    s->meta[i] = (int32_t)(p[2] % (NAMES + 2)) - 1;
    s->name[i] = p[2] % (NAMES + 1) - (p[1] == 9);
    s->text[i] = p[0] % (NAMES + 1) - 1;
    s->kind[i] = p[2] % 8;
    s->int_value[i] = (int64_t)roll(chance);
    memcpy(s->double_value + i, s->int_value + i, 8);
  }
  for (size_t i = 0; i <= NAMES; i++) {
    size_t to = length * i / NAMES;
    while (to && to < length && (s->text_bytes[to] & 0xC0) == 0x80) to--;
    s->name_offset[i] = (int64_t)to;
    s->shared_first[i] = (int64_t)(s->line.count * i / NAMES);
  }
  for (int32_t i = 0; i < NAMES; i++) s->meta_name[i] = i, s->long_name[i] = i % 2 ? i - 1 : -1;
  s->title_offset[1] = (int64_t)length;
}

static fp_trace_batch batch_of(sample *s) {
  fp_texts texts = {s->name_offset, s->text_bytes, NAMES};
  fp_trace_stats stats = {s->line.count, s->name, s->kind, s->int_value, s->double_value, s->text};
  return (fp_trace_batch){
      .count = s->line.count, .event_id = s->id, .start_ps = s->line.start, .duration_ps = s->line.duration,
      .track = s->track, .meta = s->meta, .metas = NAMES, .meta_name = s->meta_name, .meta_long_name = s->long_name,
      .names = texts, .stats = stats, .stat_event = s->stat_event, .shared = stats, .shared_first = s->shared_first,
      .texts = texts, .lasting_texts = NAMES / 2,
  };
}

static void check_json(const fp_bytes *out) {
  int depth = 0;
  bool text = false;
  for (size_t i = 0; i < out->size; i++) {
    uint8_t c = out->data[i];
    if (text && c == '\\') i++;
    else if (c == '"') text = !text;
    else if (text) CHECK(c >= 0x20);
    else if (c == '{' || c == '}') CHECK((depth += c == '{' ? 1 : -1) >= 0);
    else if (c == '\n') CHECK_INT(depth, 0);
  }
  CHECK(!text && !depth && fp_utf8_valid(out->data, out->size));
}

/* The value of a field of a message if it is a number; `inner` receives its bytes if it has a length. */
static uint64_t field_of(wire_field of, uint32_t number, wire_field *inner) {
  const uint8_t *at = of.payload, *end = at + of.value;
  uint64_t found = 0;
  while (at < end) {
    wire_field field;
    CHECK_INT(wire_next(&at, end, &field), FP_OK);
    if (field.tag >> 3 != number) continue;
    found = field.value;
    if (inner) *inner = field;
  }
  return found;
}

static void check_packets(const fp_bytes *out) {
  int open[2 * MOST + TRACKS + 2] = {0};
  wire_field all = {0, out->size, out->data}, packet, event = {0};
  for (const uint8_t *at = all.payload, *end = at + all.value; at < end;) {
    CHECK_INT(wire_next(&at, end, &packet), FP_OK);
    if (!field_of(packet, 11, &event)) continue;
    uint64_t track = field_of(event, 11, NULL), type = field_of(event, 9, NULL);
    CHECK(track > 0 && track <= 2 * MOST + TRACKS);
    open[track] += type == 1 ? 1 : type == 2 ? -1 : 0;
    CHECK(open[track] >= 0);
  }
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) CHECK_INT(open[i], 0);
}

static void write_both(sample *s) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_batch batch = batch_of(s);
  fp_texts titles = {s->title_offset, s->text_bytes, 1};
  fp_trace_json json = {.out.memory = &memory, .walk.memory = &memory, .open.memory = &memory, .titles = titles,
                        .processes = &s->process, .tracks = s->tracks, .process_count = 1, .track_count = TRACKS,
                        .spare_tid = TRACKS, .spare_end = TRACKS + 1};
  CHECK(fp_trace_json_events(&json, &batch) == FP_OK);
  check_json(&json.out);
  fp_trace_json_free(&json);
  s->process.described = 0;
  fp_perfetto perfetto = {.out.memory = &memory, .walk.memory = &memory, .open.memory = &memory,
                          .titles = titles, .processes = &s->process,
                          .tracks = s->tracks, .process_count = 1, .track_count = TRACKS};
  CHECK(fp_perfetto_events(&perfetto, &batch) == FP_OK && fp_perfetto_end(&perfetto) == FP_OK);
  check_packets(&perfetto.out);
  fp_perfetto_free(&perfetto);
  CHECK_INT(memory.live, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  sample *s = calloc(1, sizeof *s);
  CHECK(s != NULL);
  spans_make(&s->line, MOST);
  s->line.count = 0;
  fill(s, data, size, &chance);
  spans_sort(&s->line);
  write_both(s);
  spans_free(&s->line);
  free(s);
  return 0;
}
