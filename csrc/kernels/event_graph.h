/* A graph of causes: an event's parents are the event that encloses it and the events that it waits for.
 *
 *   rows      0 run            producer of link 0 --+
 *             1   enqueue      (parent 0)           |
 *             2 executor       consumer of link 0 <-+    so event 0 is above event 2 as it is above event 1
 *             3   kernel       (parent 2)
 *
 * A link connects each of its producers with each of its consumers. It is kept as one node between them, so a link with
 * p producers and c consumers costs p + c steps, not p * c. Links may form circles. */
#ifndef FASTPROF_EVENT_GRAPH_H
#define FASTPROF_EVENT_GRAPH_H

#include "memory.h"
#include "status.h"

/* The event `row` takes part in the link `link`. */
typedef struct fp_member {
  int32_t row, link;
} fp_member;

/* The caller sets the fields above the line and zeroes the rest; the arrays stay the caller's and must outlive the
 * graph. */
typedef struct fp_graph {
  fp_memory *memory;
  size_t count;          /* of events */
  const int32_t *parent; /* by row: the row of the enclosing event; -1: none */
  size_t link_count;
  const fp_member *producers, *consumers; /* sorted by row, then by link */
  size_t producer_count, consumer_count;
  /* ---- fp_graph_open allocates these, fp_graph_close frees them ---- */
  int32_t *first_child, *next_sibling;  /* the inverse of `parent`, children in the order of rows; -1: no more */
  int64_t *producers_of, *consumers_of; /* link l: rows from_link[producers_of[l]] .. from_link[producers_of[l + 1]] */
  int32_t *from_link, *to_link;
  uint8_t *linked;           /* by row, bit 0: produces for some link, bit 1: consumes from some link */
  int32_t *seen, *link_seen; /* the number of the last walk that visited this row or link */
  int32_t stamp;             /* the number of the present walk */
  uint64_t effort;           /* events visited by all walks so far */
  fp_vector queue;           /* int32_t: rows of the present walk, in the order of visits */
} fp_graph;

/* Builds the lists that walks need. Fails only when memory runs out; the graph must be closed in either case. */
fp_code fp_graph_open(fp_graph *graph);
void fp_graph_close(fp_graph *graph);

/* The index of the first member whose row is not less than `row`; `count` if there is none. */
size_t fp_first_member(const fp_member *members, size_t count, int32_t row);

#endif
