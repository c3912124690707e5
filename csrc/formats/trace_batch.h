/* Events as the writers of trace files take them: some rows of a host at a time, with names, stats and flows; and what
 * the writers share. */
#ifndef FASTPROF_TRACE_BATCH_H
#define FASTPROF_TRACE_BATCH_H

#include "formats/growing_bytes.h"
#include "formats/open_slices.h"
#include "time_sums.h"

/* How a stat was written; see xspace.h. */
enum fp_stat_kind { FP_AN_INT, FP_A_UINT, FP_A_DOUBLE, FP_A_STR, FP_BYTES, FP_A_REF, FP_NOTHING };

/* Text i is bytes offsets[i] to offsets[i + 1]. Those past `count` are empty. */
typedef struct fp_texts {
  const int64_t *offsets;
  const uint8_t *bytes;
  size_t count;
} fp_texts;

/* Columns of stats; `name` and `text` are texts of the batch. */
typedef struct fp_trace_stats {
  size_t count;
  const int32_t *name;
  const uint8_t *kind;
  const int64_t *int_value; /* a uint64 as two's complement; of a ref without text what it holds */
  const double *double_value;
  const int32_t *text;
} fp_trace_stats;

/* A process or a track of the file. */
typedef struct fp_trace_track {
  int64_t pid;
  int64_t tid;
  int64_t sort;    /* rank among its siblings */
  int64_t process; /* of a track: the number of its process */
  int32_t name;    /* one of the writer's titles */
  int32_t told;    /* whether it has been described; zero */
} fp_trace_track;

/* Everything is the caller's. Events come by track, start, and duration, longest first. */
typedef struct fp_trace_batch {
  size_t count;
  const int64_t *event_id; /* ascending */
  const int64_t *start_ps, *duration_ps;
  const int32_t *track; /* -1: left out */
  const int32_t *meta;  /* row of what events of a kind share; -1: none */
  size_t metas;
  const int32_t *meta_name, *meta_long_name; /* of each, one of `names`; -1: none */
  fp_texts names;
  fp_trace_stats stats;
  const int64_t *stat_event; /* the event of each stat */
  fp_trace_stats added;      /* what events are told to have besides */
  const int64_t *added_event;
  fp_trace_stats shared;
  const int64_t *shared_first; /* the stats that each meta has, metas + 1 */
  fp_texts texts;
  size_t lasting_texts; /* of these, how many are the same in all batches of the file */
  int64_t name_base; /* makes numbers of names unique in the file */
  size_t renamed_count; /* events that are called otherwise than their kind, which is their long name then */
  const int64_t *renamed_event;
  const int32_t *renamed_name;
  size_t flow_count;
  const int64_t *flow_event, *flow_id;
  const uint8_t *flow_out; /* 1: the arrow leaves the event; 0: it arrives */
  const int32_t *flow_kind; /* one of `names` */
} fp_trace_batch;

typedef struct fp_text {
  const uint8_t *bytes;
  size_t length;
} fp_text;

static inline fp_text fp_text_of(const fp_texts *texts, int64_t number) {
  if (number < 0 || (uint64_t)number >= texts->count) return (fp_text){(const uint8_t *)"", 0};
  int64_t from = texts->offsets[number];
  return (fp_text){texts->bytes + from, (size_t)(texts->offsets[number + 1] - from)};
}

/* As much of the text as `most` bytes hold without cutting a character. */
fp_text fp_text_cut(fp_text text, size_t most);

/* A stat as an argument of an event. `times`: how many of the event before it are called the same. */
typedef struct fp_trace_arg {
  const fp_trace_stats *of;
  size_t row;
  int32_t times;
} fp_trace_arg;

/* Walks the stats and flows along with the events. Made by setting `memory` and zeroing the rest. */
typedef struct fp_trace_walk {
  fp_memory *memory;
  fp_vector args;   /* fp_trace_arg: those of the event that was looked at last */
  int64_t left_out; /* stats of that event that are no arguments: more than a file should repeat */
  fp_vector met;    /* by number of name: when it was met last, and how often in that event */
  int64_t serial;
  int32_t name, long_name; /* of that event, numbers of names; -1: none */
  size_t stat, added, renamed, flow; /* places in the batch */
} fp_trace_walk;

void fp_trace_walk_begin(fp_trace_walk *walk); /* with another batch */
/* The names and arguments of an event: its own stats and those added, then those of its kind that it does not have itself. Stats without a value
 * are left out. False for want of memory. */
bool fp_trace_walk_to(fp_trace_walk *walk, const fp_trace_batch *batch, size_t event);
/* The flows of that event, one by one: false: there are no more. */
bool fp_trace_walk_flow(fp_trace_walk *walk, const fp_trace_batch *batch, size_t event, size_t *flow);
void fp_trace_walk_free(fp_trace_walk *walk);

#endif
