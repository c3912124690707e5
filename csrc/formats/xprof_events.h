/* Events as JSON, in the two forms of XProf's trace viewer: all of an event with its stats as texts, or of its streaming
 * form as much as a picture takes. Pieces of an array: each event is followed by a comma and a new line. */
#ifndef FASTPROF_XPROF_EVENTS_H
#define FASTPROF_XPROF_EVENTS_H

#include "formats/growing_bytes.h"

/* Texts as Arrow has them. */
typedef struct fp_texts {
  const int64_t *offsets;
  const uint8_t *bytes;
} fp_texts;

/* Rows of events, by track. `flow` is packed as the stat of that name: 2 bits of direction, 56 of a number, 6 of a
 * category; 0: none. */
typedef struct fp_drawn {
  const uint64_t *start, *duration;
  const int32_t *name; /* of `names` */
  fp_texts names;
  const int64_t *tracks; /* track_count + 1 bounds */
  const uint32_t *pid;   /* by track */
  const uint32_t *tid;
  size_t track_count;
} fp_drawn;

/* What comes with the rows of the streaming form. */
typedef struct fp_drawn_marks {
  const uint8_t *visible; /* rows that are written */
  const int32_t *group;   /* -1: none */
  const uint32_t *serial;
  const uint64_t *flow;
} fp_drawn_marks;

/* Where writing goes on: the next track and row. */
typedef struct fp_drawn_place {
  size_t track;
  int64_t row;
} fp_drawn_place;

/* Writes the visible rows from `place` on, till there are `most` bytes or none is left; moves `place`. */
void fp_write_drawn(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t most, fp_drawn_place *place);

/* The same of a track of asynchronous events, which are shown by their flow: a beginning and an end. */
void fp_write_flights(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track);

/* Values with a key each, a list by row: those of row i are from first[i] to first[i + 1]. `key` -1: not shown. `kind` is an
 * fp_kind, `value` an integer or the bits of a double, `text` of `texts`. */
typedef struct fp_named_values {
  const int64_t *first;
  const int32_t *key;
  const uint8_t *kind;
  const int64_t *value;
  const double *real; /* doubles, where they are not in `value` */
  const int32_t *text;
  fp_texts texts;
} fp_named_values;

/* What an event says: what its metadata says, what it says itself, and what was found out; of one key the last. Keys are
 * numbered in the order in which they are shown. */
typedef struct fp_told {
  fp_texts keys;
  const int32_t *meta;          /* by row: list of of_meta; below 0: none */
  fp_named_values of_meta, own, found;
} fp_told;

/* Writes the rows of `kept` from `place` on, as fp_write_drawn. Kinds of values are those of formats/xspace.h. */
void fp_write_told(fp_bytes *out, const fp_drawn *drawn, const uint8_t *kept, const fp_told *told, size_t most,
                   fp_drawn_place *place);

/* The points of a counter: [time, value …] with commas between. Doubles with a key other than 0 have two decimals. */
void fp_write_points(fp_bytes *out, const uint64_t *start, const fp_named_values *values, int64_t count);

/* The hash that GNU's C++ library gives a text, by which XProf numbers stack frames. */
uint64_t fp_gnu_hash(const uint8_t *text, size_t length);

#endif
