/* Events as a Perfetto trace: TracePackets with TrackDescriptors and TrackEvents; names and texts are interned. */
#ifndef FASTPROF_PERFETTO_WRITE_H
#define FASTPROF_PERFETTO_WRITE_H

#include "formats/trace_batch.h"
#include "status.h"

/* The caller sets everything above `line` and the `memory` of parts, and zeroes the rest. fp_perfetto_free releases
 * it. */
typedef struct fp_perfetto {
  fp_bytes out;
  fp_trace_walk walk;
  fp_open_slices open;
  fp_texts titles; /* the names of processes and tracks */
  fp_trace_track *processes, *tracks;
  size_t process_count, track_count;
  int64_t process_base; /* how many processes the hosts before this one have */
  int64_t shift_ps; /* added to all times, so that none is negative */
  int32_t line;     /* 1 + the track that `open` and `rows` are about */
  fp_vector rows;   /* uint64_t: the uuids of its rows */
  uint64_t uuids;   /* how many tracks have got a uuid */
  fp_vector names, long_names, keys, texts; /* uint32_t by number: the id of what is interned; 0: none yet */
  uint32_t last_name, last_key, last_text;  /* texts and long names share their ids */
} fp_perfetto;

/* Appends the beginning of a trace: that processes and tracks are in order, and the time of day at time 0;
 * start_unix_ns 0: unknown. */
fp_code fp_perfetto_begin(fp_perfetto *writer, uint64_t start_unix_ns);

/* Appends the events of a batch. Times are cut to nanoseconds; where that loses something, the annotations ts_ps and
 * dur_ps hold the exact times. Rows of a track behind its first are tracks with the same name, which viewers merge.
 * Fails only when memory runs out. */
fp_code fp_perfetto_events(fp_perfetto *writer, const fp_trace_batch *batch);

/* Ends the slices of the last track. Must be called before `titles`, processes or tracks change, and at the end. */
fp_code fp_perfetto_end(fp_perfetto *writer);

/* Appends a counter, which `track` names. Its values are integers if `doubles` is NULL; `is_bytes`: their unit. */
fp_code fp_perfetto_counter(fp_perfetto *writer, size_t track, const int64_t *times, const int64_t *integers,
                         const double *doubles, size_t count, bool is_bytes);
void fp_perfetto_free(fp_perfetto *writer);

#endif
