/* A line that is derived from others: consecutive events with the same name become one event, at several levels. The
 * name scopes of an op become such a line. */
#ifndef FASTPROF_DERIVED_LINE_H
#define FASTPROF_DERIVED_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper levels are left out. No program nests its scopes so deep. */
enum { FP_DERIVED_LEVELS = 256 };

/* Lists end to end: list i is value[offset[i]..offset[i + 1]). */
typedef struct fp_int_lists {
  const int64_t *offset;
  const int64_t *value;
} fp_int_lists;

/* The events to derive from, in order of time. `names`: the number of an event's list of names, outermost first; -1:
 * it has none and changes nothing. `group`: negative: none. `scopes` (NULL: none has any): the number of its list of
 * range ids, one per level, used only if it is as long as the list of names; -1: none. `closed` (NULL: none): 1 if
 * everything open must end before this event, since what encloses it ended. */
typedef struct fp_derived_from {
  const int64_t *start, *duration;
  const int32_t *group, *names, *scopes;
  const uint8_t *closed;
  size_t count;
  fp_int_lists name_lists, scope_lists;
} fp_derived_from;

/* The results, owned by the caller. The columns may be NULL to only count events. */
typedef struct fp_derived_line {
  int64_t *start, *duration, *name;
  int32_t *group;
  uint8_t *closes;  /* by source event: whether everything open ended before it; may be NULL */
  int64_t *deepest; /* by source event: the derived event of its deepest level, -1: none; may be NULL */
} fp_derived_line;

/* Derives a line as XProf does, and returns how many events it has.
 *
 *    source    a/b   a/b   a/c   d        names: lists (a, b), (a, b), (a, c), (d)
 *    level 0   |-----a---------| |d|
 *    level 1   |---b-----| |-c-|
 *
 * A derived event continues if the next source event has the same name and group, is in no other range, and, unless
 * `over_gaps`, has a group or follows within twice the derived event's length so far. When an event ends, all deeper
 * ones end with it. Events of several levels with equal times are shortened when they end, by one nanosecond per
 * level, so that viewers nest them. Events that are open after the last source event are shortened only if `close` is
 * set. */
size_t fp_derive_line(const fp_derived_from *from, bool over_gaps, bool close, const fp_derived_line *line);

#endif
