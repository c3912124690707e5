/* What the two ways of filling share: segments in the order of the file, and events by their keys. */
#ifndef FASTPROF_XSPACE_FILL_H
#define FASTPROF_XSPACE_FILL_H

#include "formats/xspace_event.h"

typedef struct filling {
  const fp_xspace *x;
  fp_sink *sink;
  const uint8_t *data_end;
  const fp_piece *piece;
  const fp_id_map *stats; /* of the piece's part */
  int64_t stat_row, stat_row_end;
  const uint8_t *at; /* what is being read, for faults */
  fp_fault *fault;
} filling;

/* The scalar fields of an event; *slack: its stats may be read the fast way. */
fp_code fp_read_event(filling *f, const uint8_t *p, const uint8_t *end, bool regular, event_fields *event, bool *slack);
bool fp_kept(const fp_filter *filter, const fp_piece *piece, const event_fields *event, int32_t meta);
fp_code fp_emit_event(filling *f, const event_fields *event, const uint8_t *end, bool slack, int32_t meta, int64_t row,
                      int64_t event_id);
fp_code fp_emit_stat(filling *f, int64_t event_id, int32_t meta, const stat_fields *stat);
/* The columns that are the same for all events of a line, for rows from..to. */
void fp_fill_line_columns(const fp_piece *piece, const fp_sink *sink, int64_t from, int64_t to);
fp_code fp_add_text(const fp_xspace *x, fp_strings *pool, fp_vector *faults, const uint8_t *text, uint64_t length,
                    const char *what, int32_t *number, fp_fault *fault);

#endif
