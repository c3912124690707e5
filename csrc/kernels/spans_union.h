/* When any of some spans lasts. */
#ifndef FASTPROF_SPANS_UNION_H
#define FASTPROF_SPANS_UNION_H

#include "memory.h"
#include "status.h"

/* A time that is filled, never empty. */
typedef struct fp_filled {
  int64_t begin, end;
} fp_filled;

/* Appends to `filled`, which is empty, the times in which at least one span lasts: in order, with a hole between any
 * two. Spans that last no time fill nothing. They may come in any order; it takes linear time if they are one sorted
 * list, and n log k if they are k of them, one behind the other. Fails only when memory runs out.
 *
 *    spans     |----|     |--|
 *                 |----|        |---|
 *    filled    |-------|  |--|  |---|
 */
fp_code fp_spans_union(fp_memory *memory, const int64_t *start, const int64_t *duration, size_t count,
                       fp_vector *filled);

#endif
