/* Chrome's JSON of a small batch, compared as text. */
#include "formats/trace_json.h"

#include "tests/check.h"
#include "tests/trace_sample.h"

static const char WANTED[] =
    "{\"ph\":\"M\",\"pid\":701,\"name\":\"process_name\",\"args\":{\"name\":\"host\"}},\n"
    "{\"ph\":\"M\",\"pid\":701,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":9}},\n"
    "{\"ph\":\"M\",\"pid\":701,\"tid\":5,\"name\":\"thread_name\",\"args\":{\"name\":\"thread\"}},\n"
    "{\"ph\":\"M\",\"pid\":701,\"tid\":5,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":5}},\n"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":5,\"ts\":0.00025,\"dur\":0.005,\"name\":\"matmul\",\"args\":{"
    "\"flops\":\"9007199254740993\",\"note\":\"own text\",\"flops (2)\":0.1}},\n"
    "{\"ph\":\"s\",\"pid\":701,\"tid\":5,\"ts\":0.00025,\"name\":\"kind\",\"cat\":\"flow\",\"id\":0},\n"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":5,\"ts\":0.00125,\"dur\":0.002,\"name\":\"short\",\"args\":{"
    "\"long_name\":\"\\\"\\\\\\n\\u0001\"}},\n"
    "{\"ph\":\"M\",\"pid\":701,\"tid\":6,\"name\":\"thread_name\",\"args\":{\"name\":\"thread (2)\"}},\n"
    "{\"ph\":\"M\",\"pid\":701,\"tid\":6,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":5}},\n"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":6,\"ts\":0.00175,\"dur\":0.004,\"name\":\"matmul\",\"args\":{"
    "\"note\":\"<opaque bytes>\",\"flops\":\"18446744073709551615\"}},\n"
    "{\"ph\":\"f\",\"pid\":701,\"tid\":6,\"ts\":0.00175,\"name\":\"kind\",\"cat\":\"flow\",\"id\":0,\"bp\":\"e\"},\n"
    "{\"ph\":\"i\",\"pid\":701,\"tid\":5,\"ts\":0.00925,\"s\":\"t\",\"name\":\"short\",\"args\":{"
    "\"long_name\":\"\\\"\\\\\\n\\u0001\"}},\n"
    "{\"ph\":\"i\",\"pid\":701,\"tid\":5,\"ts\":0.00925,\"s\":\"t\",\"name\":\"\",\"args\":{\"duration_ps\":-3}},\n";

/* A writer with one process and one track. */
static fp_trace_json writer_of(fp_memory *memory, fp_trace_track *process, fp_trace_track *track) {
  *process = (fp_trace_track){701, 0, 9, 0, 0, 0};
  *track = (fp_trace_track){701, 5, 5, 0, 1, 0};
  return (fp_trace_json){
      .out.memory = memory, .walk.memory = memory, .open.memory = memory, .titles = sample_titles(),
      .processes = process, .tracks = track, .process_count = 1, .track_count = 1,
      .shift_ps = 250, .spare_tid = 6, .spare_end = 7,
  };
}

static void events_are_objects(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_track process, track;
  fp_trace_json writer = writer_of(&memory, &process, &track);
  fp_trace_batch batch = sample_batch();
  CHECK(fp_trace_json_events(&writer, &batch) == FP_OK);
  if (writer.out.size != strlen(WANTED) || memcmp(writer.out.data, WANTED, writer.out.size)) {
    fprintf(stderr, "%.*s", (int)writer.out.size, (const char *)writer.out.data);
    abort();
  }
  fp_trace_json_free(&writer);
  fp_trace_json_free(&writer);
  CHECK_INT(memory.live, 0);
}

static void counters_have_a_value(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_track process, track;
  fp_trace_json writer = writer_of(&memory, &process, &track);
  process.described = 1;
  const int64_t times[] = {0, 1000000}, values[] = {1, INT64_MAX};
  CHECK(fp_trace_json_counter(&writer, 0, times, values, NULL, 2) == FP_OK);
  fp_bytes_byte(&writer.out, 0);
  CHECK(strstr((const char *)writer.out.data, "\"ph\":\"C\",\"pid\":701,\"ts\":1.00025,\"name\":\"thread\",\"args\":{\"value\":9223372036854775807}"));
  CHECK(fp_trace_json_counter(&writer, 1, times, values, NULL, 2) == FP_OK); /* of no track: nothing */
  fp_trace_json_free(&writer);
}

static void running_out_of_memory_is_reported(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_trace_batch batch = sample_batch();
  int64_t allowed = 0;
  for (bool done = false; !done; allowed++) {
    fp_trace_track process, track;
    fp_trace_json writer = writer_of(&memory, &process, &track);
    memory.countdown = allowed;
    done = fp_trace_json_events(&writer, &batch) == FP_OK;
    fp_trace_json_free(&writer);
    CHECK_INT(memory.live, 0);
  }
  CHECK(allowed > 5);
}

int main(void) {
  RUN(events_are_objects);
  RUN(counters_have_a_value);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
