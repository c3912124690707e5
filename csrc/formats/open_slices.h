/* Rows of slices that nest: where slices of a line overlap without one holding the other, the later goes to a further
 * row. Slices come in order of their starts, longer ones first. */
#ifndef FASTPROF_OPEN_SLICES_H
#define FASTPROF_OPEN_SLICES_H

#include "memory.h"

/* How readers count: one in picoseconds, the others as they please. */
enum { FP_READERS = 3 };

/* Where a slice ends. */
typedef struct fp_slice_end {
  int64_t over;             /* the first start at which no reader has it open */
  int64_t ends[FP_READERS]; /* as each of them counts */
} fp_slice_end;

/* Made by setting `memory` and zeroing the rest. A slice takes a time that grows with the logarithm of the rows. */
typedef struct fp_open_slices {
  fp_memory *memory;
  fp_vector slices; /* those that are open, and places to use again */
  int32_t unused;   /* the first such place, counted from 1; 0: none */
  fp_vector rows;   /* int32_t: innermost open slice of each, counted from 1; 0: none */
  int64_t *most;    /* a tree over the rows: the latest end that fits in */
  int64_t *least;   /* likewise: the first end of an innermost slice */
  size_t leaves;    /* of the trees, a power of two */
} fp_open_slices;

/* Ends one slice that ends by `until` and tells its row and end: those that end first come first, inner before outer.
 * False: there is none. INT64_MAX ends all. */
bool fp_open_slices_end(fp_open_slices *open, int64_t until, int32_t *row, int64_t *end);

/* Puts a slice into a row where it lies within all that is open, below the shortest where there are few; what ends by its
 * start has been ended. The row is a new one where it is the number of rows that there were. -1 for want of memory. */
int32_t fp_open_slices_add(fp_open_slices *open, int64_t end);

/* Likewise a slice that lies within all that is open as each reader counts; what is over by its start has been ended. */
int32_t fp_open_slices_add_for_all(fp_open_slices *open, const fp_slice_end *end);

static inline size_t fp_open_slices_rows(const fp_open_slices *open) {
  return open->rows.count;
}

/* Forgets all slices and rows; memory stays. */
void fp_open_slices_clear(fp_open_slices *open);
void fp_open_slices_free(fp_open_slices *open);

#endif
