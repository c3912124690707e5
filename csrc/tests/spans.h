/* Events of one line, and their nesting by definition: the parent is the last earlier event that ends no earlier, or not by more than the slack,
 * found by comparing each with each. It is slow, and so simple that it can be trusted. */
#ifndef FASTPROF_SPANS_H
#define FASTPROF_SPANS_H

#include "kernels/nesting.h"
#include "tests/message.h"

typedef struct spans {
  int64_t *start, *duration;
  uint8_t *placement;
  size_t count;
  int64_t slack; /* what an event may end later than its parent; 0 at first */
} spans;

typedef struct nested {
  int32_t *depth;
  int64_t *parent, *self_time;
} nested;

/* Allocates room for events; `count` stays 0. */
void spans_make(spans *line, size_t room);
void spans_free(spans *line);
/* Random spans; many touch, coincide or cross. */
void spans_roll(spans *line, size_t count, int64_t range, dice *chance);
/* Sorts by start, longer first; equal ones keep their order. */
void spans_sort(spans *line);

void nested_make(nested *out, size_t count);
void nested_free(nested *out);
void nested_compare(const nested *wanted, const nested *found, size_t count);

/* Whether an event may be the parent of a later one. */
bool may_hold(const spans *line, size_t outer, size_t inner);
/* The definition. */
void nest_slowly(const spans *line, nested *out);
/* The kernel: fp_nesting_push in stretches of at most `largest` events, each in arrays of its own size. */
void nest_in_stretches(const spans *line, nested *out, size_t largest, dice *chance);

#endif
