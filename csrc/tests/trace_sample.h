/* A small batch of events for tests of the trace writers: slices that nest and overlap, an instant, stats of all
 * kinds, names that need escaping, flows. */
#ifndef FASTPROF_TRACE_SAMPLE_H
#define FASTPROF_TRACE_SAMPLE_H

#include "formats/trace_batch.h"

#define NAMES "matmulshort\"\\\n\x01kind"
#define TEXTS "flopsnoteown text"
enum { SAMPLE_EVENTS = 5 };

static const int64_t name_offsets[] = {0, 6, 11, 15, 19};
static const int64_t text_offsets[] = {0, 5, 9, 17};
static const int64_t title_offsets[] = {0, 4, 10};
static const int64_t ids[SAMPLE_EVENTS] = {10, 11, 12, 13, 14};
static const int64_t starts[SAMPLE_EVENTS] = {0, 1000, 1500, 9000, 9000};
static const int64_t durations[SAMPLE_EVENTS] = {5000, 2000, 4000, 0, -3};
static const int32_t tracks_of[SAMPLE_EVENTS] = {0, 0, 0, 0, 0};
static const int32_t metas_of[SAMPLE_EVENTS] = {0, 1, 0, 1, -1};
static const int32_t meta_name[] = {0, 1}, meta_long_name[] = {-1, 2};
static const int64_t stat_event[] = {10, 10, 10, 12};
static const int32_t stat_name[] = {0, 1, 0, 1};
static const uint8_t stat_kind[] = {FP_AN_INT, FP_A_STR, FP_A_DOUBLE, FP_BYTES};
static const int64_t stat_int[] = {INT64_C(9007199254740993), 0, 0, 0};
static const double stat_double[] = {0, 0, 0.1, 0};
static const int32_t stat_text[] = {-1, 2, -1, -1};
static const int32_t shared_name[] = {0, 1};
static const uint8_t shared_kind[] = {FP_A_UINT, FP_A_REF};
static const int64_t shared_int[] = {-1, 77};
static const double shared_double[] = {0, 0};
static const int32_t shared_text[] = {-1, -1};
static const int64_t shared_first[] = {0, 2, 2};
static const int64_t flow_event[] = {10, 12}, flow_id[] = {0, 0};
static const uint8_t flow_out[] = {1, 0};
static const int32_t flow_kind[] = {3, 3};

static inline fp_texts sample_titles(void) {
  return (fp_texts){title_offsets, (const uint8_t *)"hostthread", 2};
}

static inline fp_trace_batch sample_batch(void) {
  fp_trace_batch b = {.count = SAMPLE_EVENTS, .event_id = ids, .start_ps = starts, .duration_ps = durations};
  b.track = tracks_of;
  b.meta = metas_of;
  b.metas = 2;
  b.meta_name = meta_name;
  b.meta_long_name = meta_long_name;
  b.names = (fp_texts){name_offsets, (const uint8_t *)NAMES, 4};
  b.stats = (fp_trace_stats){4, stat_name, stat_kind, stat_int, stat_double, stat_text};
  b.stat_event = stat_event;
  b.shared = (fp_trace_stats){2, shared_name, shared_kind, shared_int, shared_double, shared_text};
  b.shared_first = shared_first;
  b.texts = (fp_texts){text_offsets, (const uint8_t *)TEXTS, 3};
  b.lasting_texts = 2;
  b.flow_count = 2;
  b.flow_event = flow_event;
  b.flow_id = flow_id;
  b.flow_out = flow_out;
  b.flow_kind = flow_kind;
  return b;
}

#endif
