/* Events as Chrome's trace event JSON: one object a line, each followed by a comma. */
#ifndef FASTPROF_TRACE_JSON_H
#define FASTPROF_TRACE_JSON_H

#include "formats/json_values.h"
#include "formats/trace_batch.h"

/* Made by setting all above `line`, and zeroing the rest but the `memory` of parts. */
typedef struct fp_trace_json {
  fp_bytes out;
  fp_trace_walk walk;
  fp_open_slices open;
  fp_texts titles; /* names of processes and tracks */
  fp_trace_track *processes, *tracks;
  size_t process_count, track_count;
  int64_t shift_ps;   /* added to all times */
  int64_t spare_tid;  /* ids from here on, up to spare_end, no track has; nor any from 2^32 on */
  int64_t spare_end;
  int32_t line;       /* the track that `open` is about, plus 1 */
  fp_vector row_tids; /* int64_t: ids of its rows */
} fp_trace_json;

/* Is told of every change of what `titles` and the lines behind it say. */
void fp_trace_json_host(fp_trace_json *writer);

/* Appends the events of a batch to `out`. A track's rows past its first get a tid of their own and are called
 * "name (2)". False for want of memory. */
bool fp_trace_json_events(fp_trace_json *writer, const fp_trace_batch *batch);

/* Appends values of a counter: `track` tells process and name. Integers where `doubles` is NULL. */
bool fp_trace_json_counter(fp_trace_json *writer, size_t track, const int64_t *times, const int64_t *integers,
                           const double *doubles, size_t count);
void fp_trace_json_free(fp_trace_json *writer);

#endif
