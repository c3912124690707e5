/* Writing the events of an XLine with stats of any kind, from columns. */
#ifndef FASTPROF_LINE_EVENTS_H
#define FASTPROF_LINE_EVENTS_H

#include "formats/growing_bytes.h"
#include "status.h"

/* All columns are the caller's. Event i has the stats first_stat[i] .. first_stat[i + 1]. Where is_text[k], value[k] is
 * the number n of a text, texts[text_at[n]] .. texts[text_at[n + 1]]; elsewhere it is the integer. */
typedef struct fp_line_events {
  size_t count;
  const int64_t *metadata_id, *offset_ps, *duration_ps, *first_stat;
  const int64_t *stat_id, *value;
  const uint8_t *is_text;
  size_t text_count;
  const int64_t *text_at;
  const uint8_t *texts;
} fp_line_events;

/* Appends the events as fields of an XLine. FP_OUT_OF_RANGE: a text is none of the texts; FP_NO_MEMORY. */
fp_code fp_put_line_events(fp_bytes *out, const fp_line_events *events);

#endif
