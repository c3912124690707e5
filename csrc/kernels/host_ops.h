/* Ops of host threads: how often each ran, how long, and how much of that was its own. */
#ifndef FASTPROF_HOST_OPS_H
#define FASTPROF_HOST_OPS_H

#include "memory.h"

typedef enum fp_ops_result { FP_OPS_DONE = 0, FP_OPS_NO_MEMORY = 1, FP_OPS_OVERFLOW = 2 } fp_ops_result;

/* How ops on one thread relate to each other.
 *
 * FP_OPS_NEST: an op lies in the innermost one before it that includes it, ends included; its parent's own time is the
 * duration less the union of the children. Every op counts.
 *
 * FP_OPS_STACK: begins and ends in the order of time, of equal times those of the earlier row first, its begin before
 * its end. A begin is pushed; an end pops until it meets its own begin, and what it pops on the way is lost, as is the
 * whole stack where the begin is gone. So of ops that cross or end together some are not counted: XProf's numbers. */
typedef enum fp_ops_order { FP_OPS_NEST = 0, FP_OPS_STACK = 1 } fp_ops_order;

typedef struct fp_op_sum {
  int64_t occurrences, time, self_time;
  int64_t shortest; /* 0 where there are no occurrences */
  int64_t eager;    /* 1: some occurrence is */
  int64_t met;      /* 1 + when it was first counted, in the order of rows and ends; 0: never */
} fp_op_sum;

/* A line: rows first..last; the rest is written. */
typedef struct fp_op_line {
  int64_t first, last;
  int64_t span;          /* from the first begin to the last end of its ops */
  int64_t self_time;     /* of its ops */
  int64_t enqueue;       /* durations of its infeed enqueues, but for the last */
  int64_t enqueue_start; /* from the start of its first infeed enqueue to that of the last */
  int64_t lost;          /* ops that are not counted */
} fp_op_line;

typedef struct fp_row_op {
  int64_t row, op;
} fp_row_op;

typedef struct fp_host_ops {
  const int64_t *start, *duration; /* by row; a negative duration counts as none */
  const int32_t *meta;             /* by row: its name's number, below meta_count; others have no op */
  const int32_t *op_of_meta;       /* its op, below op_count; others: none */
  size_t meta_count;
  const uint8_t *eager;     /* by row, or NULL */
  const fp_row_op *instead; /* rows, ascending, with an op in place of their name's; op -1: none */
  size_t instead_count;
  const fp_row_op *beside; /* rows, ascending, with one more op: it follows the row's own, and is not eager */
  size_t beside_count;
  const uint8_t *enqueues; /* by op: 1, an infeed enqueue */
  size_t op_count;
} fp_host_ops;

/* Adds the ops of whole lines to `sums`, one for each op, and fills the lines. Rows of a line are sorted by start. */
fp_ops_result fp_host_ops_sum(fp_memory *memory, const fp_host_ops *input, fp_ops_order order, fp_op_line *lines,
                              size_t line_count, fp_op_sum *sums);

#endif
