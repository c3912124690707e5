/* Events that have been read and not yet been written: each column is then written for all of them in a loop of its
 * own, which asks only once whether the column is wanted, and in which width.
 *
 *    read     event, event, event ...  -> a batch
 *    write    a batch -> start_ps[row ...], then duration_ps[row ...], then ...
 */
#ifndef FASTPROF_EVENT_BATCH_H
#define FASTPROF_EVENT_BATCH_H

#include "formats/xspace_event.h"

enum { FP_BATCH = 64 };

typedef struct fp_event_batch {
  size_t count;
  int64_t event_id[FP_BATCH], metadata_id[FP_BATCH], start[FP_BATCH], duration[FP_BATCH], occurrences[FP_BATCH];
  int32_t meta[FP_BATCH];         /* row of event_metas, or -1 */
  uint8_t present[FP_BATCH];      /* FP_HAS_START, FP_HAS_OCCURRENCES */
  /* the caller's: where the stats begin and end in the window, and whether they may be read the fast way */
  const uint8_t *stats[FP_BATCH], *ends[FP_BATCH];
  bool slack[FP_BATCH];
} fp_event_batch;

/* Adds an event of a piece to a batch that has room. Returns its number there. */
static inline size_t fp_batch_event(fp_event_batch *batch, const fp_piece *piece, const event_fields *event,
                                    int32_t meta, int64_t event_id) {
  size_t i = batch->count++;
  int64_t start;
  bool has_start = !event->aggregated && !piece->timeless &&
                   !__builtin_add_overflow(piece->base_ps, event->offset_ps, &start);
  batch->event_id[i] = event_id;
  batch->metadata_id[i] = event->metadata_id;
  batch->start[i] = has_start ? start : 0;
  batch->duration[i] = event->duration_ps;
  batch->occurrences[i] = event->occurrences;
  batch->meta[i] = meta;
  batch->present[i] = (uint8_t)((has_start ? FP_HAS_START : 0) | (event->aggregated ? FP_HAS_OCCURRENCES : 0));
  return i;
}

/* Writes the columns of a batch, but for those of stats, to the rows from `row` on, and counts events without a name.
 */
void fp_write_batch(const fp_event_batch *batch, fp_sink *sink, int64_t row);

#endif
