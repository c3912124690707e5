/* Perfetto traces, read back by a small parser that counts packets of each kind. */
#include "formats/perfetto_write.h"

#include "formats/wire.h"
#include "tests/check.h"
#include "tests/trace_sample.h"

typedef struct counts {
  int begins, ends, instants, counters, tracks, clocks, names, texts, annotations, flows;
} counts;

/* A writer with one process and one track. */
static fp_perfetto writer_of(fp_memory *memory, fp_trace_track *process, fp_trace_track *track) {
  *process = (fp_trace_track){701, 0, 9, 0, 0, 0};
  *track = (fp_trace_track){701, 5, 1, 0, 1, 0};
  return (fp_perfetto){
      .out.memory = memory, .walk.memory = memory, .open.memory = memory,
      .titles = sample_titles(),
      .processes = process, .tracks = track, .process_count = 1, .track_count = 1, .shift_ps = 0,
  };
}

/* Calls `each` for every field of a message, with its bytes if it has a length, else with its value. */
typedef void (*field_of)(counts *found, uint32_t field, const uint8_t *bytes, uint64_t value);

/* Reads the fields of a message, as protobuf defines them. */
static void walk(const uint8_t *at, uint64_t size, counts *found, field_of each) {
  const uint8_t *end = at + size, *bytes;
  uint32_t tag;
  uint64_t value = 0;
  while (at < end) {
    CHECK(wire_tag(&at, end, &tag));
    bytes = at;
    if ((tag & 7) == WIRE_LEN) CHECK(wire_bytes(&at, end, &bytes, &value));
    else if ((tag & 7) == WIRE_VARINT) CHECK(wire_varint(&at, end, &value));
    else {
      CHECK_INT(tag & 7, WIRE_I64);
      at += 8;
    }
    each(found, tag >> 3, bytes, value);
  }
  CHECK(at == end);
}

static void event_field(counts *found, uint32_t field, const uint8_t *bytes, uint64_t value) {
  (void)bytes;
  found->begins += field == 9 && value == 1;
  found->ends += field == 9 && value == 2;
  found->instants += field == 9 && value == 3;
  found->counters += field == 9 && value == 4;
  found->annotations += field == 4;
  found->flows += field == 47 || field == 48;
}

static void interned_field(counts *found, uint32_t field, const uint8_t *bytes, uint64_t value) {
  (void)bytes;
  (void)value;
  found->names += field == 2;
  found->texts += field == 29;
}

static void packet_field(counts *found, uint32_t field, const uint8_t *bytes, uint64_t value) {
  if (field == 11) walk(bytes, value, found, event_field);
  if (field == 12) walk(bytes, value, found, interned_field);
  found->tracks += field == 60;
  found->clocks += field == 6;
}

static void trace_field(counts *found, uint32_t field, const uint8_t *bytes, uint64_t value) {
  CHECK_INT(field, 1);
  walk(bytes, value, found, packet_field);
}

/* Counts packets by kind, and what they hold. */
static counts count(const fp_bytes *out) {
  counts found = {0};
  walk(out->data, out->size, &found, trace_field);
  return found;
}

static void events_are_packets(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_track process, track;
  fp_perfetto writer = writer_of(&memory, &process, &track);
  fp_trace_batch batch = sample_batch();
  CHECK(fp_perfetto_begin(&writer, 12345) == FP_OK);
  CHECK(fp_perfetto_events(&writer, &batch) == FP_OK);
  CHECK(fp_perfetto_end(&writer) == FP_OK);
  counts found = count(&writer.out);
  CHECK_INT(found.begins, 3);
  CHECK_INT(found.ends, 3);
  CHECK_INT(found.instants, 2);
  CHECK_INT(found.tracks, 4); /* the root, the process, two rows */
  CHECK_INT(found.clocks, 1);
  CHECK_INT(found.names, 2);
  CHECK_INT(found.texts, 1);
  CHECK_INT(found.flows, 2);
  /* stats; two long names; ts_ps and dur_ps of the third, which ends between nanoseconds, and of the negative one */
  CHECK_INT(found.annotations, 3 + 2 + 2 + 2 + 2);
  fp_perfetto_free(&writer);
  fp_perfetto_free(&writer);
  CHECK_INT(memory.live, 0);
}

static void names_are_interned_once(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_track process, track;
  fp_perfetto writer = writer_of(&memory, &process, &track);
  fp_trace_batch batch = sample_batch();
  CHECK(fp_perfetto_events(&writer, &batch) == FP_OK);
  writer.out.size = 0;
  CHECK(fp_perfetto_events(&writer, &batch) == FP_OK);
  counts found = count(&writer.out);
  CHECK_INT(found.begins, 3);
  CHECK_INT(found.names + found.texts + found.tracks, 0);
  fp_perfetto_free(&writer);
}

static void counters_have_values(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_track process, track;
  fp_perfetto writer = writer_of(&memory, &process, &track);
  const int64_t times[] = {0, 1000000}, values[] = {1, -1};
  const double doubles[] = {0.5, 1.5};
  CHECK(fp_perfetto_counter(&writer, 0, times, values, NULL, 2, true) == FP_OK);
  CHECK(fp_perfetto_counter(&writer, 0, times, NULL, doubles, 2, false) == FP_OK);
  CHECK(fp_perfetto_counter(&writer, 1, times, NULL, doubles, 2, false) == FP_OK); /* of no track: nothing */
  CHECK_INT(count(&writer.out).counters, 4);
  fp_perfetto_free(&writer);
}

static void running_out_of_memory_is_reported(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_batch batch = sample_batch();
  int64_t allowed = 0;
  for (bool done = false; !done; allowed++) {
    fp_trace_track process, track;
    fp_perfetto writer = writer_of(&memory, &process, &track);
    memory.countdown = allowed;
    done = fp_perfetto_begin(&writer, 1) == FP_OK && fp_perfetto_events(&writer, &batch) == FP_OK && fp_perfetto_end(&writer) == FP_OK;
    fp_perfetto_free(&writer);
    CHECK_INT(memory.live, 0);
  }
  CHECK(allowed > 8);
}

int main(void) {
  RUN(events_are_packets);
  RUN(names_are_interned_once);
  RUN(counters_have_values);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
