/* Events as the writers of trace files take them: some rows of a host at a time, with names, stats and flows; and
 * what the writers share. */
#ifndef FASTPROF_TRACE_BATCH_H
#define FASTPROF_TRACE_BATCH_H

#include "formats/growing_bytes.h"
#include "formats/open_slices.h"

/* Kinds of stat values, in the order of fp_kind in xspace.h. */
enum fp_stat_kind { FP_AN_INT, FP_A_UINT, FP_A_DOUBLE, FP_A_STR, FP_BYTES, FP_A_REF, FP_NOTHING };

/* Texts as Arrow stores them: text i is bytes[offsets[i]] .. bytes[offsets[i + 1]]. Numbers from `count` on are empty
 * texts. */
typedef struct fp_texts {
  const int64_t *offsets;
  const uint8_t *bytes;
  size_t count;
} fp_texts;

/* Columns of stats; `name` and `text` are numbers of texts of the batch. */
typedef struct fp_trace_stats {
  size_t count;
  const int32_t *name;
  const uint8_t *kind;
  const int64_t *int_value; /* a uint64 as two's complement; for a ref without text its id */
  const double *double_value;
  const int32_t *text;
} fp_trace_stats;

/* A process or a track of the file. */
typedef struct fp_trace_track {
  int64_t pid;
  int64_t tid;
  int64_t sort;    /* rank among its siblings */
  int64_t process; /* for a track: the number of its process */
  int32_t name;    /* a number of the writer's titles */
  int32_t described; /* whether the file describes it already; zero at first */
} fp_trace_track;

/* Some events of a host, by track, then start, then duration, longest first. Everything is the caller's. */
typedef struct fp_trace_batch {
  size_t count;
  const int64_t *event_id; /* ascending */
  const int64_t *start_ps, *duration_ps;
  const int32_t *track; /* -1: the event is left out */
  const int32_t *meta;  /* the event metadata that the event shares with others; -1: none */
  size_t metas;
  const int32_t *meta_name, *meta_long_name; /* by meta: numbers of `names`; -1: none */
  fp_texts names;
  fp_trace_stats stats;
  const int64_t *stat_event; /* the event of each stat */
  fp_trace_stats added;      /* stats that the caller adds to events */
  const int64_t *added_event;
  fp_trace_stats shared; /* stats of metas */
  const int64_t *shared_first; /* meta m has shared[shared_first[m]] .. shared[shared_first[m + 1]] */
  fp_texts texts;
  size_t lasting_texts; /* the first this many texts are the same in all batches of the file */
  int64_t name_base; /* added to numbers of names, which makes them unique in the file */
  size_t renamed_count; /* events with a name other than their meta's, which becomes their long name */
  const int64_t *renamed_event;
  const int32_t *renamed_name;
  size_t flow_count;
  const int64_t *flow_event, *flow_id;
  const uint8_t *flow_out; /* 1: the arrow leaves the event; 0: it arrives */
  const int32_t *flow_kind; /* a number of `names` */
} fp_trace_batch;

/* Borrowed bytes, not terminated. */
typedef struct fp_text {
  const uint8_t *bytes;
  size_t length;
} fp_text;

/* The text with a number; empty if there is none. */
static inline fp_text fp_text_of(const fp_texts *texts, int64_t number) {
  if (number < 0 || (uint64_t)number >= texts->count) return (fp_text){(const uint8_t *)"", 0};
  int64_t from = texts->offsets[number];
  return (fp_text){texts->bytes + from, (size_t)(texts->offsets[number + 1] - from)};
}

/* The beginning of a text, `most` bytes at most, cut between characters. */
fp_text fp_text_cut(fp_text text, size_t most);

/* A stat as an argument of an event. `times`: how many arguments with the same name come before it. */
typedef struct fp_trace_arg {
  const fp_trace_stats *of;
  size_t row;
  int32_t times;
} fp_trace_arg;

/* Walks stats and flows along with the events, which are all sorted by event id. The caller sets `memory` and zeroes
 * the rest. */
typedef struct fp_trace_walk {
  fp_memory *memory;
  fp_vector args;   /* fp_trace_arg: the arguments of the present event */
  int64_t left_out; /* shared stats that are not arguments, since a file should not repeat that many per event */
  fp_vector met;    /* by name: the last event that has an argument of this name, and how many */
  int64_t serial;   /* counts events: an entry of `met` with another number is of an earlier event */
  int32_t name, long_name; /* of the present event, numbers of `names`; -1: none */
  size_t stat, added, renamed, flow; /* places in the batch */
} fp_trace_walk;

void fp_trace_walk_begin(fp_trace_walk *walk); /* begins another batch */
/* Finds the names and arguments of an event: its own stats and added ones, then those of its metadata whose names the
 * event does not have itself. Stats without a value are left out. Events must come in order. Fails only when memory
 * runs out. */
bool fp_trace_walk_to(fp_trace_walk *walk, const fp_trace_batch *batch, size_t event);
/* Writes the next flow of the present event; false if there are no more. */
bool fp_trace_walk_flow(fp_trace_walk *walk, const fp_trace_batch *batch, size_t event, size_t *flow);
void fp_trace_walk_free(fp_trace_walk *walk);

#endif
