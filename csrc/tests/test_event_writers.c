/* Writers against asking each event's parents, on random forests. */
#include "kernels/event_writers.h"
#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 30, OPEN = 0, PASSES = 1, PYTHON = 2, NATIVE = 3, CALLBACK = 4, KINDS = 5, OURS = 5, THEIRS = 6, NAMES = 4 };
static const fp_writer_kind OF_KIND[FP_MOST_WRITER_KINDS] = {
    {1, 1, 0, 0, 0, 0}, {0, 1, 0, 1, 0, 1}, {0, 0, 1, 0, 0, 2}, {0, 0, 0, 1, 0, 3}, {0, 0, 0, 0, 1, 4}};

/* The kind of the nearest event around a row, itself included, that is none of the first `passed`; if there is none, of the
 * outermost. */
static uint8_t nearest(const uint8_t *kinds, const int32_t *parent, int32_t row, uint8_t passed) {
  while (kinds[row] < passed && parent[row] >= 0) row = parent[row];
  return kinds[row];
}

static uint8_t writer_of(const uint8_t *kinds, const int32_t *parent, int32_t row, bool on_python) {
  if (kinds[row] != OPEN) return OF_KIND[kinds[row]].writer;
  uint8_t around = nearest(kinds, parent, row, PASSES);
  if (nearest(kinds, parent, row, PYTHON) == CALLBACK || around == PYTHON) return OURS;
  return on_python && around != NATIVE && around != PASSES ? OURS : THEIRS;
}

static void what_encloses_an_event_says_who_wrote_it(void) {
  dice chance = {3};
  for (int round = 0; round < 500; round++) {
    uint8_t kinds[MOST], writer[MOST], met[7 * NAMES] = {0}, table[7 * NAMES], found[MOST];
    int32_t parent[MOST], name[MOST];
    const fp_writer_thread threads[] = {{0, MOST / 2, round % 2}, {MOST / 2, MOST, 1}};
    for (int32_t row = 0; row < MOST; row++) {
      int32_t first = row < MOST / 2 ? 0 : MOST / 2;
      kinds[row] = (uint8_t)(roll_below(&chance, 2) ? OPEN : roll_below(&chance, KINDS));
      parent[row] = first + (int32_t)roll_below(&chance, (uint64_t)(row - first + 1)) - 1;
      if (parent[row] < first) parent[row] = -1;
      name[row] = (int32_t)roll_below(&chance, NAMES + 1) - 1;
    }
    for (int i = 0; i < 7 * NAMES; i++) table[i] = (uint8_t)roll_below(&chance, 200);
    const fp_written of = {kinds, parent, name, MOST, NAMES, threads, 2, OF_KIND, OURS, THEIRS};
    fp_memory memory;
    fp_memory_init(&memory);
    CHECK(fp_event_writers(&memory, &of, writer, met) == FP_OK);
    CHECK_INT(memory.live, 0);
    fp_of_writer_and_name(&of, writer, table, found);
    for (int32_t row = 0; row < MOST; row++) {
      size_t number = name[row] < 0 ? NAMES - 1 : (size_t)name[row];
      CHECK_INT(writer[row], writer_of(kinds, parent, row, row < MOST / 2 ? round % 2 : true));
      CHECK_INT(met[writer[row] * NAMES + number], 1);
      CHECK_INT(found[row], table[writer[row] * NAMES + number]);
    }
    for (int i = 0; i < 7 * NAMES; i++) {
      bool is_met = false;
      for (int32_t row = 0; row < MOST; row++)
        is_met |= writer[row] == i / NAMES && (name[row] < 0 ? NAMES - 1 : name[row]) == i % NAMES;
      CHECK_INT(met[i], is_met);
    }
  }
}

static void memory_that_runs_out_is_said(void) {
  const fp_written of = {.names = 1};
  fp_memory memory;
  fp_memory_init(&memory);
  memory.countdown = 0;
  CHECK(fp_event_writers(&memory, &of, NULL, NULL) == FP_NO_MEMORY);
}

int main(void) {
  RUN(what_encloses_an_event_says_who_wrote_it);
  RUN(memory_that_runs_out_is_said);
  return 0;
}
