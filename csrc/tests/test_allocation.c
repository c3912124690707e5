/* Memory may run out anywhere: whichever allocation of a load fails, the load either reports it or does without that
 * block, and releases everything (decoding_free counts live blocks). Each load is repeated with one more allocation
 * allowed, until it succeeds. */
#include "tests/check.h"
#include "tests/decoding.h"
#include "tests/message.h"

typedef struct capture {
  uint8_t *data;
  size_t size;
} capture;

static capture read_capture(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    abort();
  }
  CHECK(!fseek(file, 0, SEEK_END));
  capture c = {.size = (size_t)ftell(file)};
  rewind(file);
  c.data = malloc(c.size);
  CHECK(c.data != NULL);
  CHECK_INT(fread(c.data, 1, c.size, file), c.size);
  fclose(file);
  return c;
}

/* An event with one stat. */
static void put_event(message *line, int64_t metadata_id, int64_t offset_ps, int stat_id) {
  message event = {0}, stat = {0};
  put_int(&event, 1, metadata_id);
  put_int(&event, 2, offset_ps);
  put_int(&event, 3, 10);
  put_int(&stat, 1, stat_id);
  put_text(&stat, 5, stat_id % 2 ? "text" : "another text");
  put_message(&event, 4, &stat);
  put_message(line, 4, &event);
}

/* A capture with what real ones seldom have and what needs memory: stats and events that are not declared, unsorted
 * lines, events that do not decode (salvaged), hostnames. */
static capture odd_capture(void) {
  message space = {0}, plane = {0}, line = {0};
  put_text(&plane, 2, "plane");
  for (int i = 0; i < 300; i++) put_event(&line, i % 7, i % 2 ? 1000 - i : i, i);
  put_raw(&line, "\x22\x02\x0A\x7F", 4);
  put_message(&plane, 3, &line);
  put_message(&space, 1, &plane);
  put_text(&space, 4, "host");
  return (capture){space.bytes, space.size};
}

/* A complete load with that many allocations allowed; negative: no limit. */
static fp_code load(const capture *c, int64_t allocations, bool salvage) {
  decoding d = {.data = c->data, .size = c->size, .salvage = salvage, .depth = FP_STATS, .segment_size = 1 << 12,
                .budget = 1 << 15};
  decoding_begin(&d);
  d.memory.countdown = allocations;
  fp_code code = decoding_open(&d);
  if (!code) code = decoding_index(&d);
  if (!code) {
    columns straight, keyed;
    code = decoding_fill(&d, NULL, &straight);
    if (!code) code = decoding_fill_keys(&d, NULL, &keyed), columns_free(&keyed, &d);
    columns_free(&straight, &d);
  }
  for (int of_planes = 0; !code && of_planes < 2; of_planes++) code = decoding_fill_spans(&d, of_planes);
  decoding_free(&d);
  return code;
}

/* Returns how many allocations a load makes. */
static int64_t sweep(const capture *c, bool salvage, fp_code wanted) {
  int64_t failed = 0;
  for (int64_t n = 0;; n++) {
    CHECK(n < 100000);
    fp_code code = load(c, n, salvage);
    if (code != FP_NO_MEMORY) {
      CHECK_INT(code, wanted);
      CHECK(failed > 10);
      CHECK_INT(load(c, -1, salvage), wanted);
      return n;
    }
    failed++;
  }
}

static void any_allocation_of_a_real_capture_may_fail(void) {
  capture c = read_capture("../demo/logdir/plugins/profile/2026_11_21_09_58_38/vm.xplane.pb");
  printf("      %lld allocations\n", (long long)sweep(&c, false, FP_OK));
  free(c.data);
}

static void any_allocation_of_an_odd_capture_may_fail(void) {
  capture c = odd_capture();
  int64_t salvaged = sweep(&c, true, FP_OK);
  CHECK_INT(load(&c, -1, false), FP_BAD_LENGTH);
  printf("      %lld allocations\n", (long long)salvaged);
  free(c.data);
}

int main(void) {
  RUN(any_allocation_of_a_real_capture_may_fail);
  RUN(any_allocation_of_an_odd_capture_may_fail);
  return 0;
}
