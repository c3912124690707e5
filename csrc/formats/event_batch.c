/* The column of occurrences stays untouched where no event has any, so that it takes no memory. */
#include "formats/event_batch.h"

/* The indices of names, in the width of the column. */
static void write_names(const fp_event_batch *b, const fp_sink *sink, int64_t row) {
  const int32_t *names = sink->meta_names;
  void *to = sink->name.to;
  for (size_t i = 0; i < b->count; i++) {
    int32_t name = b->meta[i] < 0 ? -1 : names[b->meta[i]];
    if (sink->name.width == 1)
      ((int8_t *)to + row)[i] = (int8_t)name;
    else if (sink->name.width == 2)
      ((int16_t *)to + row)[i] = (int16_t)name;
    else
      ((int32_t *)to + row)[i] = name;
  }
}

static void write_metadata_ids(const fp_event_batch *b, const fp_sink *sink, int64_t row) {
  const int64_t *ids = sink->meta_ids;
  int64_t *to = sink->metadata_id + row;
  for (size_t i = 0; i < b->count; i++) to[i] = b->meta[i] >= 0 && ids ? ids[b->meta[i]] : b->metadata_id[i];
}

static void write_numbers(int64_t *to, int64_t row, const int64_t *values, size_t count) {
  if (to) memcpy(to + row, values, count * sizeof *values);
}

void fp_write_batch(const fp_event_batch *b, fp_sink *sink, int64_t row) {
  write_numbers(sink->event_id, row, b->event_id, b->count);
  write_numbers(sink->start_ps, row, b->start, b->count);
  write_numbers(sink->duration_ps, row, b->duration, b->count);
  if (sink->metadata_id) write_metadata_ids(b, sink, row);
  if (sink->name.to) write_names(b, sink, row);
  if (sink->present) memcpy(sink->present + row, b->present, b->count);
  for (size_t i = 0; i < b->count; i++) sink->unnamed += b->meta[i] < 0;
  if (!sink->num_occurrences) return;
  for (size_t i = 0; i < b->count; i++)
    if (b->present[i] & FP_HAS_OCCURRENCES) sink->num_occurrences[row + (int64_t)i] = b->occurrences[i];
}
