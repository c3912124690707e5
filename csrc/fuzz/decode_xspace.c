/* Any bytes give tables or an error, in exactly the memory that the index requests. What the index accepts the fill
 * decodes, and all ways of filling (in order, by keys, filtered) give the same rows. */
#include "fuzz/target.h"
#include "tests/decoding.h"

static int64_t middle_start(const columns *c) {
  for (int64_t row = c->rows / 2; row < c->rows; row++)
    if (c->sink.present[row] & FP_HAS_START) return c->sink.start_ps[row];
  return 0;
}

/* The rows that a filter keeps are rows of the unfiltered table. */
static void check_filtered(decoding *d, const columns *all) {
  size_t metas = d->xspace.event_metas.count;
  uint8_t *keep = malloc(metas);
  CHECK(keep || !metas);
  for (size_t i = 0; i < metas; i++) keep[i] = i % 2 == 0;
  int64_t middle = middle_start(all);
  const fp_filter filters[] = {
      {.keep_meta = keep, .keep_unnamed = 1},
      {.from_ps = middle - (middle > INT64_MIN + 1000 ? 1000 : 0), .to_ps = middle + (middle < INT64_MAX), .timed = 1}};
  for (int i = 0; i < 2; i++) {
    columns straight, keyed;
    CHECK_INT(decoding_fill(d, &filters[i], &straight), FP_OK);
    columns_check(&straight, d);
    CHECK_INT(decoding_fill_keys(d, &filters[i], &keyed), FP_OK);
    columns_compare(&straight, &keyed);
    for (int64_t row = 0; row < straight.rows; row++) {
      int64_t id = straight.sink.event_id[row];
      CHECK_INT(straight.sink.start_ps[row], all->sink.start_ps[id]);
      CHECK_INT(straight.sink.duration_ps[row], all->sink.duration_ps[id]);
      CHECK_INT(straight.sink.metadata_id[row], all->sink.metadata_id[id]);
    }
    columns_free(&straight, d);
    columns_free(&keyed, d);
  }
  free(keep);
}

static void check_fills(decoding *d) {
  columns straight, keyed;
  CHECK_INT(decoding_fill(d, NULL, &straight), FP_OK);
  CHECK_INT(straight.rows, d->event_count);
  columns_check(&straight, d);
  CHECK_INT(decoding_fill_keys(d, NULL, &keyed), FP_OK);
  columns_compare(&straight, &keyed);
  columns_free(&keyed, d);
  check_filtered(d, &straight);
  columns_free(&straight, d);
}

/* Returns how many events there are, or -1 for an error. */
static int64_t decode(const uint8_t *data, size_t size, bool salvage, fp_depth depth, uint64_t segment_size, uint64_t budget) {
  decoding d = {.data = data, .size = size, .salvage = salvage, .depth = depth, .segment_size = segment_size, .budget = budget};
  decoding_begin(&d);
  fp_code opened = decoding_open(&d), code = opened ? opened : decoding_index(&d);
  if (!code && depth > FP_HOP) check_fills(&d);
  if (!code && depth == FP_STATS)
    for (int of_planes = 0; of_planes < 2; of_planes++) code = decoding_fill_spans(&d, of_planes);
  if (salvage) CHECK_INT(code, FP_OK);
  CHECK(code != FP_NO_MEMORY && code != FP_CHANGED);
  int64_t events = code ? -1 : 0;
  for (size_t i = 0; !code && i < d.piece_count; i++) events += d.pieces[i].event_count;
  decoding_free(&d);
  return events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  uint64_t segment_size = 1 + roll_below(&chance, 1 << roll_below(&chance, 16));
  uint64_t budget = 1 + roll_below(&chance, 1 << roll_below(&chance, 20));
  int64_t events = decode(data, size, false, FP_STATS, segment_size, UINT64_MAX);
  decode(data, size, true, FP_STATS, segment_size, budget);
  if (events < 0) return 0;
  CHECK_INT(decode(data, size, true, FP_STATS, UINT64_MAX, UINT64_MAX), events);
  CHECK_INT(decode(data, size, false, FP_EVENTS, segment_size, budget), events);
  CHECK_INT(decode(data, size, false, FP_HOP, segment_size, budget), events);
  return 0;
}
