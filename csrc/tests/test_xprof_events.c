/* Events in XProf's forms of JSON, compared as text. */
#include "formats/xprof_events.h"

#include "formats/xspace.h"
#include "tests/check.h"

enum { SLICES = 3 };
static const uint64_t STARTS[] = {1500000, 0, 2}, DURATIONS[] = {47186, 0, 3};
static const int32_t NAMES[] = {0, 1, 1}, GROUPS[] = {4, -1, -1};
static const int64_t NAME_AT[] = {0, 1, 4}, TRACKS[] = {0, 1, 3};
static const uint32_t PIDS[] = {1003, 1701}, TIDS[] = {2, 7}, SERIALS[] = {0, 0, 2};

/* The events that the tests write, on two tracks. */
static fp_drawn slices(void) {
  fp_texts names = {NAME_AT, (const uint8_t *)"fa\"b", NULL};
  return (fp_drawn){STARTS, DURATIONS, NAMES, names, TRACKS, PIDS, TIDS, 2};
}

/* Compares what was written, and shows it where it differs. */
static void check_text(const fp_bytes *out, const char *wanted) {
  if (out->size != strlen(wanted) || memcmp(out->data, wanted, out->size) != 0) {
    fprintf(stderr, "%.*s\nis not\n%s\n", (int)out->size, (const char *)out->data, wanted);
    abort();
  }
}

static void a_picture_takes_times_names_flows_and_groups(void) {
  const uint8_t visible[] = {1, 0, 1};
  const uint64_t flows[] = {UINT64_C(12) << 58 | 99 << 2 | 1, 0, 5 << 2 | 3};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_bytes out = {.memory = &memory};
  fp_drawn drawn = slices();
  fp_drawn_marks marks = {visible, GROUPS, SERIALS, flows};
  fp_drawn_place place = {0, 0};
  fp_write_drawn(&out, &drawn, &marks, 1 << 20, &place);
  check_text(&out,
             "{\"pid\":1003,\"tid\":2,\"name\":\"f\",\"ts\":1.5,\"dur\":0.047186,\"bind_id\":99,\"cat\":\"tpu_launch\","
             "\"flow_in\":true,\"ph\":\"X\",\"args\":{\"group_id\":4,\"uid\":0}},\n"
             "{\"pid\":1701,\"tid\":7,\"name\":\"a\\\"b\",\"ts\":0.000002,\"dur\":0.000003,\"bind_id\":5,\"flow_in\":true,"
             "\"flow_out\":true,\"ph\":\"X\",\"args\":{\"uid\":2},\"z\":2},\n");
  CHECK_INT(place.track, 2);
  fp_bytes_free(&out);
}

static void writing_goes_on_where_it_stopped(void) {
  const uint8_t visible[] = {1, 1, 1};
  const uint64_t flows[] = {0, 0, 0};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_bytes whole = {.memory = &memory}, pieces = {.memory = &memory};
  fp_drawn drawn = slices();
  fp_drawn_marks marks = {visible, GROUPS, SERIALS, flows};
  fp_drawn_place place = {0, 0}, again = {0, 0};
  fp_write_drawn(&whole, &drawn, &marks, 1 << 20, &place);
  for (int i = 0; i < SLICES; i++) fp_write_drawn(&pieces, &drawn, &marks, pieces.size + 1, &again);
  CHECK_INT(pieces.size, whole.size);
  CHECK(memcmp(pieces.data, whole.data, whole.size) == 0);
  fp_bytes_free(&whole);
  fp_bytes_free(&pieces);
}

static void a_flight_has_a_beginning_and_an_end(void) {
  const uint8_t visible[] = {1, 0, 0};
  const uint64_t flows[] = {8 << 2 | 3, 0, 0};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_bytes out = {.memory = &memory};
  fp_drawn drawn = slices();
  fp_drawn_marks marks = {visible, GROUPS, SERIALS, flows};
  fp_write_flights(&out, &drawn, &marks, 0);
  check_text(&out,
             "{\"pid\":1003,\"name\":\"f\",\"ts\":1.5,\"id\":8,\"cat\":\"\",\"ph\":\"b\",\"args\":{\"group_id\":4,\"uid\":0}},\n"
             "{\"pid\":1003,\"name\":\"f\",\"ts\":1.547186,\"id\":8,\"cat\":\"\",\"ph\":\"e\",\"args\":{\"group_id\":4}},\n");
  fp_bytes_free(&out);
}

/* Three events: without values, with one that overrides its metadata, and with more than FEW. */
enum { MANY = 40 };
static int32_t key[MANY + 2];
static uint8_t kind[MANY + 2];
static int64_t value[MANY + 2];
static int32_t text[MANY + 2];
static const int64_t KEY_AT[] = {0, 1, 2};

static fp_event_values listed_values(void) {
  static const int64_t of_meta_first[] = {0, 2}, own_first[] = {0, 0, 2, MANY + 2};
  static const int32_t meta_key[] = {0, 1}, meta[] = {-1, 0, -1};
  static const uint8_t meta_kind[] = {FP_BYTES, FP_DOUBLE};
  static const double real[] = {0, 1e6};
  fp_named_values none = {0};
  fp_texts keys = {KEY_AT, (const uint8_t *)"ab", NULL};
  for (int i = 0; i < MANY + 2; i++) key[i] = i % 2, kind[i] = FP_INT64, value[i] = -i;
  key[1] = -1;
  kind[MANY + 1] = FP_UINT64;
  fp_named_values of_meta = {of_meta_first, meta_key, meta_kind, value, real, text, keys};
  fp_named_values own = {own_first, key, kind, value, NULL, text, keys};
  return (fp_event_values){keys, meta, of_meta, own, none};
}

static void of_values_of_one_key_the_last_is_shown(void) {
  const uint8_t kept[] = {1, 1, 1};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_bytes out = {.memory = &memory};
  fp_drawn drawn = slices();
  fp_event_values given = listed_values();
  fp_drawn_place place = {0, 0};
  fp_write_events(&out, &drawn, kept, &given, 1 << 20, &place);
  check_text(&out,
             "{\"dur\":0.047186,\"name\":\"f\",\"ph\":\"X\",\"pid\":1003,\"tid\":2,\"ts\":1.5},\n"
             "{\"args\":{\"a\":\"0\",\"b\":\"1e+06\"},\"name\":\"a\\\"b\",\"ph\":\"i\",\"pid\":1701,\"s\":\"t\",\"tid\":7,\"ts\":0},\n"
             "{\"args\":{\"a\":\"-40\",\"b\":\"18446744073709551575\"},\"dur\":0.000003,\"name\":\"a\\\"b\",\"ph\":\"X\","
             "\"pid\":1701,\"tid\":7,\"ts\":0.000002},\n");
  fp_bytes_free(&out);
  CHECK_INT(memory.live, 0);
}

static void running_out_of_memory_is_reported(void) {
  const uint8_t kept[] = {1, 1, 1};
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    fp_bytes out = {.memory = &memory};
    fp_drawn drawn = slices();
    fp_event_values given = listed_values();
    fp_drawn_place place = {0, 0};
    fp_write_events(&out, &drawn, kept, &given, 1 << 20, &place);
    bool failed = out.failed;
    fp_bytes_free(&out);
    CHECK_INT(memory.live, 0);
    if (!failed) break;
    CHECK(allowed < 100);
  }
}

static void points_are_lists_of_time_and_values(void) {
  const int64_t first[] = {0, 1, 1, 3};
  const int32_t keys[] = {0, 1, 0}, texts[] = {-1, -1, -1};
  const uint8_t kinds[] = {FP_UINT64, FP_DOUBLE, FP_INT64};
  const int64_t values[] = {-1, 0, -5};
  const double real[] = {0, 12.345, 0};
  fp_named_values named = {first, keys, kinds, values, real, texts, {KEY_AT, (const uint8_t *)"ab", NULL}};
  fp_memory memory;
  fp_memory_init(&memory);
  fp_bytes out = {.memory = &memory};
  fp_write_points(&out, STARTS, &named, 3);
  check_text(&out, "[1.5,18446744073709551615],[0.000002,12.35,-5]");
  fp_bytes_free(&out);
}

static void the_hash_is_that_of_the_library(void) {
  const uint8_t *alphabet = (const uint8_t *)"abcdefghijklmnopqrstuvwxyz";
  CHECK(fp_gnu_hash(alphabet, 0) == UINT64_C(6142509188972423790));
  CHECK(fp_gnu_hash(alphabet, 1) == UINT64_C(4993892634952068459));
  CHECK(fp_gnu_hash(alphabet, 8) == UINT64_C(8664279048047335611));
  CHECK(fp_gnu_hash(alphabet, 26) == UINT64_C(9979622261905367491));
}

int main(void) {
  RUN(a_picture_takes_times_names_flows_and_groups);
  RUN(writing_goes_on_where_it_stopped);
  RUN(a_flight_has_a_beginning_and_an_end);
  RUN(of_values_of_one_key_the_last_is_shown);
  RUN(running_out_of_memory_is_reported);
  RUN(points_are_lists_of_time_and_values);
  RUN(the_hash_is_that_of_the_library);
  return 0;
}
