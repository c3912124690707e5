/* Rows of slices that nest. Viewers require that slices of one row nest, so where two slices of a line overlap and
 * neither includes the other, the later one goes to another row. Slices come by start, longer ones first.
 *
 *    row 0   |---------|   |-------|
 *              |----|                    included: same row
 *    row 1          |---------|          crosses the first slice: next row
 */
#ifndef FASTPROF_OPEN_SLICES_H
#define FASTPROF_OPEN_SLICES_H

#include "memory.h"

/* Readers of trace files round times in different ways: one keeps picoseconds, the others round to nanoseconds. Slices
 * must nest for each of them. */
enum { FP_READERS = 3 };

/* Where a slice ends. */
typedef struct fp_slice_end {
  int64_t over;             /* the first start at which it is closed for every reader */
  int64_t ends[FP_READERS]; /* its end for each reader */
} fp_slice_end;

/* The open slices of all rows. The caller sets `memory`, zeroes the rest, and frees it with fp_open_slices_free.
 * Adding or ending a slice takes time in the order of the logarithm of the rows. */
typedef struct fp_open_slices {
  fp_memory *memory;
  fp_vector slices; /* open slices, and places that can be reused */
  int32_t unused;   /* the first place that can be reused, counted from 1; 0: none */
  fp_vector rows;   /* int32_t: the innermost open slice of each row, counted from 1; 0: none */
  int64_t *most;    /* a tree over the rows: the latest end that fits into the innermost slice */
  int64_t *least;   /* a tree over the rows: the first end of an innermost slice */
  size_t leaves;    /* of the trees, a power of two */
} fp_open_slices;

/* Ends one slice that ends by `until` and writes its row and end. Those that end first come first, inner before
 * outer. False if there is none. INT64_MAX ends all. */
bool fp_open_slices_end(fp_open_slices *open, int64_t until, int32_t *row, int64_t *end);

/* Puts a slice into a row in which everything open includes it; of few rows the one whose innermost slice is
 * shortest. All slices that end by its start must have been ended. Returns the row, a new one if it equals the number
 * of rows so far; -1 when memory runs out. */
int32_t fp_open_slices_add(fp_open_slices *open, int64_t end);

/* The same for a slice that must nest for every reader. */
int32_t fp_open_slices_add_for_all(fp_open_slices *open, const fp_slice_end *end);

/* Removes all slices and rows; memory is kept. */
void fp_open_slices_clear(fp_open_slices *open);
void fp_open_slices_free(fp_open_slices *open);

#endif
