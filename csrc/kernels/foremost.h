/* Of spans that overlap, the one that counts at each time. */
#ifndef FASTPROF_FOREMOST_H
#define FASTPROF_FOREMOST_H

#include "memory.h"
#include "status.h"

/* A span of time. `label`: 0 or more; what a piece of it is called. */
typedef struct fp_span {
  int64_t begin, end;
  int32_t rank, label;
} fp_span;

/* A piece of time, never empty. `label`: of the span that counts in it; -1: there is none. */
typedef struct fp_piece {
  int64_t begin, end, label;
} fp_piece;

/* Spans one after the other, in order of their begin. `next` writes the next one; false: there is none, or memory ran out,
 * which the source itself remembers. */
typedef struct fp_span_source {
  bool (*next)(void *of, fp_span *span);
  void *of;
} fp_span_source;

enum { FP_MOST_RANKS = 64 };

/* Appends the pieces of time from `first` to `last`, without holes and in order: in each counts the span of the lowest
 * rank, of equal ranks the one that begins first, of these the one of the first source. Empty spans never count. Two
 * pieces in a row have different labels. Memory is needed for spans that overlap, however many there are in a row.
 *
 *    rank 2          |-----------------|
 *    rank 1    |---------|      |---|
 *    pieces  .|1111111111|222222|111|22|.....    from `first`, to `last`
 *
 * FP_OUT_OF_RANGE: a rank is negative, or FP_MOST_RANKS or more, or a label is negative. Fails else only when memory
 * runs out. There are no pieces then. */
fp_code fp_foremost_of(fp_memory *memory, const fp_span_source *sources, size_t count, int64_t first, int64_t last,
                       fp_vector *pieces);

/* The same of spans in any order; it is fast if they are some sorted lists, one behind the other. */
fp_code fp_foremost(fp_memory *memory, const fp_span *spans, size_t count, int64_t first, int64_t last,
                    fp_vector *pieces);

#endif
