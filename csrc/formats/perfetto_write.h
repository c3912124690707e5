/* Events as a Perfetto trace: TracePackets with TrackDescriptors and TrackEvents, names and texts interned. */
#ifndef FASTPROF_PERFETTO_WRITE_H
#define FASTPROF_PERFETTO_WRITE_H

#include "formats/trace_batch.h"

/* Made by setting all above `line`, and zeroing the rest but the `memory` of parts. */
typedef struct fp_perfetto {
  fp_bytes out;
  fp_trace_walk walk;
  fp_open_slices open;
  fp_texts titles; /* names of processes and tracks */
  fp_trace_track *processes, *tracks;
  size_t process_count, track_count;
  int64_t process_base; /* how many processes other hosts had before */
  int64_t shift_ps; /* added to all times, which are 0 or more then */
  int32_t line;     /* the track that `open` is about, plus 1 */
  fp_vector rows;   /* uint64_t: uuids of its rows */
  uint64_t uuids;   /* of tracks, given so far */
  fp_bytes names, keys, texts; /* a bit each: which have been interned */
} fp_perfetto;

/* Appends what a trace begins with: that processes and tracks are in order, and which time of day it was at 0;
 * start_unix_ns 0: unknown. */
bool fp_perfetto_begin(fp_perfetto *writer, uint64_t start_unix_ns);

/* Appends the events of a batch. Times are cut to nanoseconds, and are told in full by annotations ts_ps and dur_ps where
 * something was cut off. A track's rows past its first are tracks of the same name that viewers show as one. False for want
 * of memory. */
bool fp_perfetto_events(fp_perfetto *writer, const fp_trace_batch *batch);

/* Ends the slices of the last track: before any change of what `titles` and the lines behind it say, and in the end. */
bool fp_perfetto_end(fp_perfetto *writer);

/* Appends a counter: `track` tells process and name. Integers where `doubles` is NULL; `is_bytes`: its unit. */
bool fp_perfetto_counter(fp_perfetto *writer, size_t track, const int64_t *times, const int64_t *integers,
                         const double *doubles, size_t count, bool is_bytes);
void fp_perfetto_free(fp_perfetto *writer);

#endif
