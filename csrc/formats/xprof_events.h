/* Events as JSON in the two forms of XProf's trace viewer: entire events with their stats as texts, and the streaming
 * form, which holds only what a picture needs. Both are pieces of an array: each event is followed by a comma and a
 * newline. */
#ifndef FASTPROF_XPROF_EVENTS_H
#define FASTPROF_XPROF_EVENTS_H

#include "formats/growing_bytes.h"

/* How long a text may be that many events repeat, 0: any length, and how often one was cut. */
typedef struct fp_text_limit {
  size_t most;
  uint64_t cut;
} fp_text_limit;

/* Texts as Arrow stores them: text i is bytes[offsets[i]] .. bytes[offsets[i + 1]]. */
typedef struct fp_texts {
  const int64_t *offsets;
  const uint8_t *bytes;
  fp_text_limit *limit; /* NULL: none */
} fp_texts;

/* Events by track; everything is the caller's and only read. */
typedef struct fp_drawn {
  const uint64_t *start, *duration;
  const int32_t *name; /* by row: a number of `names` */
  fp_texts names;
  const int64_t *tracks; /* track_count + 1 bounds */
  const uint32_t *pid;   /* by track */
  const uint32_t *tid;
  size_t track_count;
} fp_drawn;

/* What the streaming form needs beside the events, by row. `flow` is packed as in the stat of that name: 2 bits of
 * direction, 56 of a number, 6 of a category; 0: none. */
typedef struct fp_drawn_marks {
  const uint8_t *visible; /* rows that are written */
  const int32_t *group;   /* -1: none */
  const uint32_t *serial;
  const uint64_t *flow;
} fp_drawn_marks;

/* Where writing continues: a track and a row. Zeroed at first. */
typedef struct fp_drawn_place {
  size_t track;
  int64_t row;
} fp_drawn_place;

/* Writes visible rows from `place` on, until `out` holds `most` bytes or no row is left, and advances `place`. */
void fp_write_drawn(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t most, fp_drawn_place *place);

/* Writes a track of asynchronous events, which are shown by their flow: an object for its begin and one for its end. */
void fp_write_flights(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track);

/* Values with a key each: those of row i are first[i] .. first[i + 1]. `key` -1: not shown. `kind` is an fp_kind;
 * `value` is an integer or the bits of a double; `text` is a number of `texts`. */
typedef struct fp_named_values {
  const int64_t *first;
  const int32_t *key;
  const uint8_t *kind;
  const int64_t *value;
  const double *real; /* doubles, if they are not in `value` */
  const int32_t *text;
  fp_texts texts;
} fp_named_values;

/* The values of events: those of their metadata, their own, and derived ones. Strings that are an event's own (FP_STR
 * in `own`) are complete, because a capture has each of them once. Values of metadata beyond eight times the limit of
 * texts are left out, and count as cut. Of several values with the same key the
 * last is shown. Keys are numbered in the order in which they are shown. */
typedef struct fp_event_values {
  fp_texts keys;
  const int32_t *meta;          /* by row: its list in of_meta; negative: none */
  fp_named_values of_meta, own, derived;
} fp_event_values;

/* Writes the rows marked in `kept` from `place` on, as fp_write_drawn does. */
void fp_write_events(fp_bytes *out, const fp_drawn *drawn, const uint8_t *kept, const fp_event_values *given,
                     size_t most, fp_drawn_place *place);

/* Writes the points of a counter: [time, value …], separated by commas. Doubles with a key other than 0 have two
 * decimals. */
void fp_write_points(fp_bytes *out, const uint64_t *start, const fp_named_values *values, int64_t count);

/* The hash of a text in GNU's C++ library, by which XProf numbers stack frames. */
uint64_t fp_gnu_hash(const uint8_t *text, size_t length);

#endif
