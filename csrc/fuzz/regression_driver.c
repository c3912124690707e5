/* Runs a fuzz target as a normal program, where there is no fuzzer:
 *
 *   target [--seconds S] FILE|FOLDER…                        each file as it is
 *   target [--seconds S] --mutate SEED COUNT FILE|FOLDER…    COUNT damaged copies of them, the same for the same seed
 *
 * An input that takes more than S seconds fails. When the target ends the program, the input is kept as
 * failed-input, beside a line that says where it came from. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include "fuzz/mutate.h"
#include "fuzz/target.h"

void __sanitizer_set_death_callback(void (*callback)(void));

typedef struct corpus {
  input *items;
  size_t count;
} corpus;

/* The input that is running, for the report after a crash. */
static struct {
  const uint8_t *data;
  size_t size;
  char from[1200];
} running;

static void report_input(void) {
  fprintf(stderr, "input: %s, %zu bytes\n", running.from, running.size);
  FILE *file = fopen("failed-input", "wb");
  if (!file) return;
  fwrite(running.data, 1, running.size, file);
  fclose(file);
}

static void add_file(corpus *c, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(2);
  }
  c->items = realloc(c->items, (c->count + 1) * sizeof *c->items);
  CHECK(c->items != NULL);
  input *one = &c->items[c->count++];
  snprintf(one->name, sizeof one->name, "%s", path);
  CHECK(!fseek(file, 0, SEEK_END));
  one->size = (size_t)ftell(file);
  rewind(file);
  one->data = malloc(one->size);
  CHECK(one->data || !one->size);
  CHECK_INT(fread(one->data, 1, one->size, file), one->size);
  fclose(file);
}

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void add(corpus *c, const char *path) {
  struct stat status;
  if (stat(path, &status) || !S_ISDIR(status.st_mode)) {
    add_file(c, path);
    return;
  }
  struct dirent **entries;
  int count = scandir(path, &entries, visible, alphasort);
  for (int i = 0; i < count; i++) {
    char inner[1000];
    CHECK(snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name) < (int)sizeof inner);
    add(c, inner);
    free(entries[i]);
  }
  free(entries);
}

/* Runs one input, in a block of exactly its size; returns the seconds it took. */
static double run(const uint8_t *data, size_t size, double limit) {
  uint8_t *copy = malloc(size);
  CHECK(copy || !size);
  if (size) memcpy(copy, data, size);
  running.data = copy;
  running.size = size;
  clock_t begun = clock();
  LLVMFuzzerTestOneInput(copy, size);
  double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
  if (seconds > limit) {
    fprintf(stderr, "%.1f seconds\n", seconds);
    abort();
  }
  free(copy);
  return seconds;
}

static double replay(const corpus *c, double limit) {
  double slowest = 0;
  for (size_t i = 0; i < c->count; i++) {
    snprintf(running.from, sizeof running.from, "%s", c->items[i].name);
    double seconds = run(c->items[i].data, c->items[i].size, limit);
    if (seconds > slowest) slowest = seconds;
  }
  return slowest;
}

static double mutate_all(const corpus *c, uint64_t seed, long count, double limit) {
  double slowest = 0;
  for (long i = 0; i < count; i++) {
    dice chance = {seed * 1000003 + (uint64_t)i};
    input damaged = mutated(c->items, c->count, &chance);
    snprintf(running.from, sizeof running.from, "seed %llu, number %ld, of %s", (unsigned long long)seed, i, damaged.name);
    double seconds = run(damaged.data, damaged.size, limit);
    free(damaged.data);
    if (seconds > slowest) slowest = seconds;
  }
  return slowest;
}

int main(int argc, char **argv) {
  int at = 1;
  double limit = 20;
  uint64_t seed = 0;
  long count = -1;
  if (at + 1 < argc && !strcmp(argv[at], "--seconds")) {
    limit = atof(argv[at + 1]);
    at += 2;
  }
  if (at + 2 < argc && !strcmp(argv[at], "--mutate")) {
    seed = strtoull(argv[at + 1], NULL, 10);
    count = strtol(argv[at + 2], NULL, 10);
    at += 3;
  }
  corpus c = {NULL, 0};
  for (; at < argc; at++) add(&c, argv[at]);
  if (!c.count) {
    fprintf(stderr, "no input: a check that looks at nothing proves nothing\n");
    return 2;
  }
  __sanitizer_set_death_callback(report_input);
  double slowest = count < 0 ? replay(&c, limit) : mutate_all(&c, seed, count, limit);
  printf("  ok  %s: %ld inputs of %zu files, the slowest %.2f s\n", strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0],
         count < 0 ? (long)c.count : count, c.count, slowest);
  for (size_t i = 0; i < c.count; i++) free(c.items[i].data);
  free(c.items);
  return 0;
}
