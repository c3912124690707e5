/* Events of one line, and what their nesting is by its definition: the latest event before that ends no earlier is
 * the parent, at the cost of comparing each with each. */
#ifndef FASTPROF_SPANS_H
#define FASTPROF_SPANS_H

#include "kernels/nesting.h"
#include "tests/message.h"

typedef struct spans {
  int64_t *start, *duration;
  uint8_t *placement;
  size_t count;
} spans;

typedef struct nested {
  int32_t *depth;
  int64_t *parent, *self_time;
} nested;

/* Room for so many; `count` stays 0. */
void spans_make(spans *line, size_t room);
void spans_free(spans *line);
/* Any spans, many of which touch, coincide or cross. */
void spans_roll(spans *line, size_t count, int64_t range, dice *chance);
/* By start, longer first; equal ones keep their order. */
void spans_sort(spans *line);

void nested_make(nested *out, size_t count);
void nested_free(nested *out);
void nested_compare(const nested *wanted, const nested *found, size_t count);

void nest_slowly(const spans *line, nested *out);
/* By fp_nesting_push, in stretches of at most `largest` events, each in arrays of its own. */
void nest_in_stretches(const spans *line, nested *out, size_t largest, dice *chance);

#endif
