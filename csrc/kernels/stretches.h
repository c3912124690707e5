/* When events are the innermost of their line. */
#ifndef FASTPROF_STRETCHES_H
#define FASTPROF_STRETCHES_H

#include "kernels/nesting.h"

typedef struct fp_stretch {
  int64_t begin, end;
  int64_t row; /* of the event; -1 of work */
} fp_stretch;

enum { FP_UNMARKED = 0, FP_WORK = 1 };

/* The stretches, never empty, in which a marked event is the innermost of its line, line by line. Of a line whose events
 * nest they ascend and are disjoint. Those of events marked FP_WORK go to `work`, joined where they meet; of other
 * marks, each with its row, to `others`. Rows of a line are sorted by start, longer first; a negative duration counts as
 * none. False for want of memory. */
bool fp_innermost_stretches(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                            const fp_line_rows *lines, size_t line_count, fp_vector *work, fp_vector *others);

#endif
