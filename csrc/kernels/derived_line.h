/* A line that is derived from the events of others: consecutive events of one name become one, at several levels. */
#ifndef FASTPROF_DERIVED_LINE_H
#define FASTPROF_DERIVED_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Levels past this many are left out: no program nests its scopes so deep. */
enum { FP_DERIVED_LEVELS = 256 };

/* Lists one after the other: list i is value[offset[i]..offset[i + 1]). */
typedef struct fp_int_lists {
  const int64_t *offset;
  const int64_t *value;
} fp_int_lists;

/* Events in order of time. `names`: the list of the names that an event has, outermost first, -1: it has none and does
 * nothing. `group`: negative: none. `scopes`: the list of the ids of the ranges that it lies in, one a level, which count
 * where they are as many as its names; -1: none; NULL: nobody has any. `closed`: whether what is open ends before the
 * event, as what it lies in does; NULL: never. */
typedef struct fp_derived_from {
  const int64_t *start, *duration;
  const int32_t *group, *names, *scopes;
  const uint8_t *closed;
  size_t count;
  fp_int_lists name_lists, scope_lists;
} fp_derived_from;

/* What is derived; the columns of events may be NULL to only count them. */
typedef struct fp_derived_line {
  int64_t *start, *duration, *name;
  int32_t *group;
  uint8_t *closes; /* by event that it is derived from: whether all that was open ended there; may be NULL */
  int64_t *deepest; /* likewise: the derived event of its deepest level, -1: none; may be NULL */
} fp_derived_line;

/* Derives a line as XProf does and returns how many events it has. An event goes on where the next one has the same name
 * and group, no other range, and, unless `over_gaps`, a group or a gap of at most twice its time before it. Where one
 * ends, all deeper ones do. Events of several levels with the same times get shorter by a nanosecond a level when they end,
 * so that viewers nest them; those that are open after the last event do so only where `close`. */
size_t fp_derive_line(const fp_derived_from *from, bool over_gaps, bool close, const fp_derived_line *line);

#endif
