/* Of spans that overlap, the one that counts at each time. */
#ifndef FASTPROF_FOREMOST_H
#define FASTPROF_FOREMOST_H

#include "memory.h"
#include "status.h"

/* A piece of time, never empty. `span`: the place of the span that counts in it; -1: there is none. */
typedef struct fp_piece {
  int64_t begin, end, span;
} fp_piece;

enum { FP_MOST_RANKS = 64 };

/* Appends the pieces of time from `first` to `last`, without holes and in order: in each counts the span of the lowest
 * rank, of equal ranks the one that comes first. Spans ascend by begin; those that are empty or lie outside never count.
 * Two pieces in a row have different spans.
 *
 *    rank 2          |-----------------|
 *    rank 1    |---------|      |---|
 *    pieces  .|1111111111|222222|111|22|.....    from `first`, to `last`
 *
 * FP_OUT_OF_RANGE: a rank is negative, or FP_MOST_RANKS or more. Fails else only when memory runs out. */
fp_code fp_foremost(fp_memory *memory, const int64_t *begin, const int64_t *end, const int32_t *rank, size_t count,
                    int64_t first, int64_t last, fp_vector *pieces);

#endif
