/* What the two ways of filling share: segments in the order of the file (xspace_fill.c), and events or stats at given
 * places (xspace_keys.c). */
#ifndef FASTPROF_XSPACE_FILL_H
#define FASTPROF_XSPACE_FILL_H

#include "formats/xspace_event.h"
#include "status.h"

/* The state of a fill: where it is in the file, and in the stat rows. */
typedef struct filling {
  const fp_xspace *x;
  fp_window *window;
  fp_sink *sink;
  const fp_piece *piece;
  const fp_id_map *stats; /* stat names of the piece's part */
  int64_t stat_row, stat_row_end;
  const uint8_t *at; /* in the window: where the field being read begins, for faults */
  fp_fault *fault;
} filling;

/* Reads the scalar fields of an event of the window. `regular`: the index saw the regular form, so any other means that
 * the bytes have changed. *slack: the stats may be read the fast way. */
static inline fp_code fp_read_event(filling *f, const uint8_t *p, const uint8_t *end, bool regular, event_fields *event,
                                    bool *slack) {
  *slack = regular && f->window->readable - end >= WIRE_SLACK;
  f->at = p;
  if (*slack) return read_event_regular(p, end, event) ? FP_OK : FP_CHANGED;
  fp_code code = read_event_any(&f->at, end, event);
  event->stats = p;
  return code;
}
/* The same of an event that need not be in memory. */
fp_code fp_read_placed_event(filling *f, uint64_t from, uint64_t size, event_fields *event);
/* Whether the filter keeps an event; `meta` is its row of event_metas, or -1. */
bool fp_kept(const fp_filter *filter, const fp_piece *piece, const event_fields *event, int32_t meta);
/* Writes an event to row `row`, and its stats to the next stat rows. FP_CHANGED if there are more stats than rows.
 * `end`, `slack`: of an event in the window. */
fp_code fp_emit_event(filling *f, const event_fields *event, const uint8_t *end, bool slack, int32_t meta, int64_t row,
                      int64_t event_id);
/* Writes a stat to the next stat row. FP_CHANGED if there is none. */
fp_code fp_emit_stat(filling *f, int64_t event_id, int32_t meta, const stat_fields *stat);
/* Writes the columns that are the same for all events of a line to rows from..to. */
void fp_fill_line_columns(const fp_piece *piece, const fp_sink *sink, int64_t from, int64_t to);
/* A fault at the field that is being read. */
fp_code fp_fail_here(filling *f, fp_code code);
/* Writes the number of a text, which lies at an offset of the capture, in a pool. Text that is not UTF-8 is a fault; with salvage it is repaired and logged. */
fp_code fp_add_text(const fp_xspace *x, fp_strings *pool, fp_vector *faults, const uint8_t *text, uint64_t length,
                    uint64_t offset, const char *what, int32_t *number, fp_fault *fault);

#endif
