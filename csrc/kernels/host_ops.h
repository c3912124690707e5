/* Ops of host threads: how often each ran, how long, and how much of that time was its own. */
#ifndef FASTPROF_HOST_OPS_H
#define FASTPROF_HOST_OPS_H

#include "memory.h"
#include "status.h"

/* How ops of one thread relate to each other.
 *
 * FP_OPS_NEST: an op lies in the innermost earlier one that includes it, equal ends included. Self time is the
 * duration less the union of the children. Every op counts.
 *
 * FP_OPS_STACK: begins and ends are taken in order of time. At equal times those of the earlier row come first, and
 * of one row the begin comes before the end. A begin is pushed. An end pops until it meets its own begin; what it
 * pops on the way is lost, and so is the entire stack if the begin is no longer on it. So of ops that cross, or that
 * end together, some are not counted. These are the numbers that XProf shows.
 *
 *    A |----------|            NEST:  A, B, C count; C is not inside A
 *    B   |---|                 STACK: the end of A pops C (lost) and A; the end of C finds no begin
 *    C          |-----|
 */
typedef enum fp_ops_order { FP_OPS_NEST = 0, FP_OPS_STACK = 1 } fp_ops_order;

/* The sums of one op over all lines. */
typedef struct fp_op_sum {
  int64_t occurrences, time, self_time;
  int64_t shortest; /* 0 where there are no occurrences */
  int64_t eager;    /* 1: some occurrence is */
  int64_t met;      /* its place in the order in which ops were first counted; 0: never counted */
} fp_op_sum;

/* A line. The caller sets first and last, its rows; the rest is written. */
typedef struct fp_op_line {
  int64_t first, last;
  int64_t span;          /* from the first begin to the last end of its ops */
  int64_t self_time;     /* of its ops */
  int64_t enqueue;       /* durations of its infeed enqueues, but for the last */
  int64_t enqueue_start; /* from the start of its first infeed enqueue to that of the last */
  int64_t lost;          /* ops that are not counted */
} fp_op_line;

/* A row, and an op for it. */
typedef struct fp_row_op {
  int64_t row, op;
} fp_row_op;

/* The events and their ops; all arrays are the caller's and only read. */
typedef struct fp_host_ops {
  const int64_t *start, *duration; /* by row; a negative duration counts as none */
  const int32_t *meta;             /* by row: the number of its name; outside 0..meta_count: no op */
  const int32_t *op_of_meta;       /* by name: its op; outside 0..op_count: none */
  size_t meta_count;
  const uint8_t *eager;     /* by row, or NULL */
  const fp_row_op *instead; /* by row, ascending: an op that replaces the one of the name; -1: no op */
  size_t instead_count;
  const fp_row_op *beside; /* by row, ascending: a second op, which follows the first and is not eager */
  size_t beside_count;
  const uint8_t *enqueues; /* by op: 1 if it is an infeed enqueue */
  size_t op_count;
} fp_host_ops;

/* Adds the ops of complete lines to `sums`, which has one item per op, and fills the lines. Rows of a line are sorted
 * by start. FP_OVERFLOW: a sum does not fit 64 bits. */
fp_code fp_host_ops_sum(fp_memory *memory, const fp_host_ops *input, fp_ops_order order, fp_op_line *lines,
                              size_t line_count, fp_op_sum *sums);

#endif
