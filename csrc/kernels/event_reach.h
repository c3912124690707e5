/* Searches of an event graph that serve many events at once, in time that grows with the size of the graph and not with
 * the number of events times the length of their chains. event_groups.h uses them when searches from single events get
 * long. */
#ifndef FASTPROF_EVENT_REACH_H
#define FASTPROF_EVENT_REACH_H

#include "kernels/event_graph.h"
#include "status.h"

/* For every row, writes the nearest event at or above it that has one of `bits` in its mark; -1 if there is none.
 * Fails only when memory runs out. */
fp_code fp_nearest_above_all(fp_graph *graph, const uint8_t *marks, uint8_t bits, int32_t *nearest);

/* Up to two different roots above an event or a link; -1: none. Two suffice to decide whether some root other than the
 * event itself is above it. */
typedef struct fp_two_roots {
  int32_t first, second;
} fp_two_roots;

/* Answers which roots have another root of the same level above them, one level at a time. The caller sets graph, level
 * and group, and zeroes the rest. level[row] is 0 for an event that is not a root, else the number of its level; levels
 * are numbered from 1 without large gaps. Rows with a group are not entered, since everything below them has a group
 * too. Each level is therefore searched only in what the levels before it left without a group, and all levels together
 * take little more time than one. */
typedef struct fp_cover {
  fp_graph *graph;
  const int32_t *level, *group;
  /* ---- fp_cover_open allocates these, fp_cover_close frees them ---- */
  int64_t *begins; /* roots of level l: rows[begins[l]] .. rows[begins[l + 1]] */
  int32_t *rows;
  fp_two_roots *above, *link_above;              /* by row, by link */
  fp_vector queue, noted_rows, noted_links;      /* (row, root) still to hand down; int32_t: what to clear afterwards */
  uint64_t effort;                               /* events visited so far */
} fp_cover;

/* Returns false when memory runs out; the cover must be closed in either case. */
bool fp_cover_open(fp_cover *cover);
void fp_cover_close(fp_cover *cover);
/* Searches below the roots of one level that have no group yet. Returns false when memory runs out. */
bool fp_cover_level(fp_cover *cover, int32_t level);
/* Whether a root of the level that was searched last has another root of that level above it. */
bool fp_is_covered(const fp_cover *cover, int32_t root);

#endif
