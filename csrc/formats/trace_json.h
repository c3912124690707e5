/* Events as Chrome's trace event JSON: one object per line, each followed by a comma. */
#ifndef FASTPROF_TRACE_JSON_H
#define FASTPROF_TRACE_JSON_H

#include "formats/json_values.h"
#include "formats/trace_batch.h"
#include "status.h"

/* The caller sets everything above `line` and the `memory` of parts, and zeroes the rest. fp_trace_json_free releases
 * it. */
typedef struct fp_trace_json {
  fp_bytes out;
  fp_trace_walk walk;
  fp_open_slices open;
  fp_texts titles; /* the names of processes and tracks */
  fp_trace_track *processes, *tracks;
  size_t process_count, track_count;
  int64_t shift_ps;   /* added to all times */
  int64_t spare_tid;  /* ids from here up to spare_end, and from 2^32 on, are used by no track */
  int64_t spare_end;
  int32_t line;       /* 1 + the track that `open` and row_tids are about */
  fp_vector row_tids; /* int64_t: the ids of its rows */
} fp_trace_json;

/* Must be called before `titles`, processes or tracks change, that is, before another host. */
void fp_trace_json_host(fp_trace_json *writer);

/* Appends the events of a batch to `out`. Rows of a track behind its first get an id of their own and the name "name
 * (2)", and so on. Fails only when memory runs out. */
fp_code fp_trace_json_events(fp_trace_json *writer, const fp_trace_batch *batch);

/* Appends the values of a counter, which `track` names. They are integers if `doubles` is NULL. */
fp_code fp_trace_json_counter(fp_trace_json *writer, size_t track, const int64_t *times, const int64_t *integers,
                           const double *doubles, size_t count);
void fp_trace_json_free(fp_trace_json *writer);

#endif
