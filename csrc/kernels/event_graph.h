/* What caused what: events, the events that enclose them, and the events that they wait for. From its roots, events are
 * put into groups. */
#ifndef FASTPROF_EVENT_GRAPH_H
#define FASTPROF_EVENT_GRAPH_H

#include "memory.h"

/* What lies on a line like an event and is none: it comes before row `before`. Sorted by that, longer first. */
typedef struct fp_region {
  int64_t before, start, duration;
} fp_region;

/* The innermost event that includes each event of its line, by row; -1: none. Rows first..last of a line are
 * in order of start, longer first. Events with `apart` (NULL: none) neither enclose nor lie in another. A region keeps
 * what lies in it from lying in an event that does not include the region too. False for want of memory. */
bool fp_parents(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *apart,
                const fp_region *regions, size_t region_count, int64_t first, int64_t last, int32_t *parent);

/* An event takes part in a link. Sorted by row, then link. */
typedef struct fp_member {
  int32_t row, link;
} fp_member;

/* Events are rows. A link makes each of its producers a parent of each of its consumers. */
typedef struct fp_graph {
  fp_memory *memory;
  size_t count;
  const int32_t *parent; /* by nesting; -1: none */
  size_t link_count;
  const fp_member *producers, *consumers; /* by row */
  size_t producer_count, consumer_count;
  /* what fp_graph_open adds; fp_graph_close frees it */
  int32_t *first_child, *next_sibling;
  int64_t *producers_of, *consumers_of; /* link l: rows from_link[producers_of[l]] .. from_link[producers_of[l + 1]] */
  int32_t *from_link, *to_link;
  uint8_t *linked; /* bit 0: a producer of some link, bit 1: a consumer */
  int32_t *seen, *link_seen;
  int32_t stamp;
  uint64_t effort; /* events visited so far */
  fp_vector queue;
} fp_graph;

bool fp_graph_open(fp_graph *graph);
void fp_graph_close(fp_graph *graph);

/* For each of `rows`, the nearest event above it, itself included, that has one of the bits in `marks`; -1: none. False
 * for want of memory. */
bool fp_nearest_above(fp_graph *graph, const uint8_t *marks, uint8_t bits, const int32_t *rows, size_t count,
                      int32_t *nearest);
/* The same for all rows, in time that grows with the graph. */
bool fp_nearest_above_all(fp_graph *graph, const uint8_t *marks, uint8_t bits, int32_t *nearest);

/* Two of the roots above an event or a link, -1: none. Two are enough to tell whether one is not the event itself. */
typedef struct fp_two_roots {
  int32_t first, second;
} fp_two_roots;

/* Which roots have another root of their level above them, level by level. The caller sets graph, level and group, and
 * zeroes the rest. level[row] is 0 where the event is no root, else the number of its level: levels are numbered from
 * 1, about as many as there are. Rows that have a group are passed over; what is below such a row has one too. So each
 * level is only searched for what the ones before have left, and all of them together take little more time than one. */
typedef struct fp_cover {
  fp_graph *graph;
  const int32_t *level, *group;
  /* what fp_cover_open adds; fp_cover_close frees it */
  int64_t *begins; /* roots of level l: rows[begins[l]] .. rows[begins[l + 1]] */
  int32_t *rows;
  fp_two_roots *above, *link_above;
  fp_vector queue, noted_rows, noted_links;
  uint64_t effort; /* events asked so far */
} fp_cover;

bool fp_cover_open(fp_cover *cover);
void fp_cover_close(fp_cover *cover);
/* From here on fp_is_covered is about the roots of this level, which have no group. False for want of memory. */
bool fp_cover_level(fp_cover *cover, int32_t level);
bool fp_is_covered(const fp_cover *cover, int32_t root);

/* The first of the row's members; members are sorted by row. */
size_t fp_first_member(const fp_member *members, size_t count, int32_t row);

typedef struct fp_relation {
  int32_t parent, child; /* groups */
} fp_relation;

/* Gives groups from first_group on to the roots, in their order, and to all that is below each and has no group yet;
 * group[] is -1 where there is none. With `level`, which is as fp_cover has it, a root is passed over that has a group
 * already or another root of its level above it; roots come level by level then. Where circles of links keep roots of
 * very many levels from any group, those that are left at last are not passed over. *group_roots gets the root of each
 * new group (int32), *relations each pair of groups of which the first reaches into the second; pairs may repeat. False
 * for want of memory. */
bool fp_group_events(fp_graph *graph, const int32_t *roots, size_t root_count, const int32_t *level, int32_t first_group,
                     int32_t *group, fp_vector *group_roots, fp_vector *relations);

#endif
