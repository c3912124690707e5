/* Grouping takes time in proportion to events and links, however these are arranged. The limit leaves room for
 * sanitizers and slow machines: an algorithm that is quadratic in the events would take hours. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "kernels/event_groups.h"
#include "kernels/event_reach.h"

#include "tests/check.h"
#include "tests/message.h"

enum { ROWS = 1 << 17, MOST_SECONDS = 20, CROWD = 63 };

/* At first, events that neither enclose each other nor have links; each attack adds what it needs. */
typedef struct attack {
  int32_t *parent, *level, *roots, *group, *found;
  uint8_t *marks;
  fp_member *producers, *consumers;
  size_t links, producer_count, consumer_count, root_count;
} attack;

static void *zeroed(size_t count, size_t size) {
  void *block = calloc(count, size);
  CHECK(block != NULL);
  return block;
}

/* Allocates everything; no event has a parent, a level or a group. */
static attack begin(void) {
  attack a = {.parent = zeroed(ROWS, 4), .level = zeroed(ROWS, 4), .roots = zeroed(ROWS, 4), .group = zeroed(ROWS, 4),
              .found = zeroed(ROWS, 4), .marks = zeroed(ROWS, 1), .producers = zeroed(2 * ROWS, sizeof(fp_member)),
              .consumers = zeroed(2 * ROWS, sizeof(fp_member))};
  memset(a.parent, 0xff, ROWS * 4);
  memset(a.group, 0xff, ROWS * 4);
  return a;
}

static void produce(attack *a, int32_t row, int32_t link) { a->producers[a->producer_count++] = (fp_member){row, link}; }

static void consume(attack *a, int32_t row, int32_t link) { a->consumers[a->consumer_count++] = (fp_member){row, link}; }

/* Adds a root. Roots must be added level by level, as grouping expects them. */
static void add_root(attack *a, int32_t row, int32_t level) {
  a->level[row] = level;
  a->roots[a->root_count++] = row;
}

/* The outermost root of each level comes last, so that each is far from the next one. */
static void roots_of_levels(attack *a, int32_t levels) {
  for (int32_t level = levels; level > 0; level--)
    for (int32_t row = (ROWS - level) / levels * levels + level - 1; row >= 0; row -= levels) add_root(a, row, level);
}

/* Each event lies in the one before. */
static void deep_nest(attack *a) {
  for (int32_t row = 1; row < ROWS; row++) a->parent[row] = row - 1;
}

/* Link i leads from event i to event i + 1. */
static void chain_of_links(attack *a) {
  a->links = ROWS - 1;
  for (int32_t row = 0; row + 1 < ROWS; row++) produce(a, row, row), consume(a, row + 1, row);
}

/* One more link, from the last event to the first. */
static void close_ring(attack *a) {
  produce(a, ROWS - 1, ROWS - 1);
  memmove(a->consumers + 1, a->consumers, a->consumer_count++ * sizeof(fp_member));
  a->consumers[0] = (fp_member){0, ROWS - 1};
  a->links = ROWS;
}

/* Runs everything that grouping runs, and returns the number of groups. */
static size_t end(attack *a) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_graph graph = {.memory = &memory, .count = ROWS, .parent = a->parent, .link_count = a->links,
                    .producers = a->producers, .consumers = a->consumers, .producer_count = a->producer_count,
                    .consumer_count = a->consumer_count};
  fp_vector roots = {0}, relations = {0};
  int32_t *rows = zeroed(ROWS, 4);
  for (int32_t row = 0; row < ROWS; row++) rows[row] = row;
  alarm(120);
  clock_t begun = clock();
  CHECK(fp_graph_open(&graph) == FP_OK);
  CHECK(fp_group_events(&graph, a->roots, a->root_count, a->level, 0, a->group, &roots, &relations) == FP_OK);
  CHECK(fp_nearest_above(&graph, a->marks, 1, rows, ROWS, a->found) == FP_OK);
  CHECK(fp_nearest_above_all(&graph, a->marks, 1, a->found) == FP_OK);
  double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
  printf("      %.2f s, %zu groups, %zu relations\n", seconds, roots.count, relations.count);
  CHECK(seconds < MOST_SECONDS);
  alarm(0);
  size_t count = roots.count;
  fp_vector_free(&memory, &roots);
  fp_vector_free(&memory, &relations);
  fp_graph_close(&graph);
  CHECK_INT(memory.live, 0);
  free(rows), free(a->parent), free(a->level), free(a->roots), free(a->group), free(a->found), free(a->marks);
  free(a->producers), free(a->consumers);
  return count;
}

/* ---- attacks ----------------------------------------------------------------------------------------- */

/* 131,072 events, each in the one before, all of them roots of one level. A search upwards from each would visit all
 * above it. */
static void a_deep_nest_of_roots(void) {
  attack a = begin();
  deep_nest(&a);
  roots_of_levels(&a, 1);
  CHECK_INT(end(&a), 1);
}

/* The only mark is on the outermost event, so each search for it is as long as the nest is deep. */
static void a_deep_nest_with_its_mark_outside(void) {
  attack a = begin();
  deep_nest(&a);
  a.marks[0] = 1;
  CHECK_INT(end(&a), 0);
}

/* All roots of level 1 are in the inner half, except for one at the very top. */
static void roots_far_below_the_only_other_of_their_level(void) {
  attack a = begin();
  deep_nest(&a);
  for (int32_t level = 2; level > 0; level--)
    for (int32_t row = ROWS - level; row > ROWS / 2; row -= 2) add_root(&a, row, level);
  add_root(&a, 0, 1);
  CHECK_INT(end(&a), 2);
}

/* As many levels as events: whatever is done for each level must not depend on the number of events. */
static void a_level_for_every_root(void) {
  attack a = begin();
  deep_nest(&a);
  roots_of_levels(&a, ROWS);
  CHECK_INT(end(&a), ROWS);
}

/* Each level has one root that the other covers. */
static void two_roots_of_every_level(void) {
  attack a = begin();
  deep_nest(&a);
  roots_of_levels(&a, ROWS / 2);
  CHECK(end(&a) >= ROWS / 2);
}

/* The same with links in place of nesting. */
static void two_linked_roots_of_every_level(void) {
  attack a = begin();
  chain_of_links(&a);
  roots_of_levels(&a, ROWS / 2);
  CHECK(end(&a) >= ROWS / 2);
}

/* Each event causes the next through a link of its own. */
static void a_chain_of_links(void) {
  attack a = begin();
  chain_of_links(&a);
  roots_of_levels(&a, 2);
  a.marks[0] = 1;
  CHECK_INT(end(&a), 2);
}

/* The last event also causes the first: every event is above every other. */
static void a_ring_of_links(void) {
  attack a = begin();
  chain_of_links(&a);
  close_ring(&a);
  roots_of_levels(&a, 3);
  CHECK_INT(end(&a), 0);
}

/* One link from one event to all, itself included. */
static void one_producer_of_all_events(void) {
  attack a = begin();
  a.links = 1;
  produce(&a, 0, 0);
  for (int32_t row = 0; row < ROWS; row++) consume(&a, row, 0);
  roots_of_levels(&a, 2);
  end(&a);
}

/* One link from 63 producers to all other events: pairs would be 63 times as many as members. */
static void a_crowd_of_producers_of_all_events(void) {
  attack a = begin();
  a.links = 1;
  for (int32_t row = 0; row < ROWS; row++) {
    if (row < CROWD) produce(&a, row, 0);
    if (row >= CROWD) consume(&a, row, 0);
  }
  for (int32_t row = ROWS - 1; row >= 0; row--) add_root(&a, row, row < CROWD ? 1 : 2); /* below first */
  CHECK_INT(end(&a), ROWS);
}

/* The same link in the other direction. */
static void all_events_are_producers_of_a_crowd(void) {
  attack a = begin();
  a.links = 1;
  for (int32_t row = 0; row < ROWS; row++) {
    if (row < ROWS - CROWD) produce(&a, row, 0);
    if (row >= ROWS - CROWD) consume(&a, row, 0);
  }
  for (int32_t row = ROWS - 1; row >= 0; row--) add_root(&a, row, row < ROWS - CROWD ? 1 : 2);
  CHECK_INT(end(&a), ROWS);
}

/* Layers of 63 events; all events of a layer are linked with all of the next. */
static void layers_of_crowds(void) {
  attack a = begin();
  a.links = ROWS / CROWD;
  for (int32_t row = 0; row < ROWS; row++) {
    if (row / CROWD < (int32_t)a.links) produce(&a, row, row / CROWD);
    if (row >= CROWD) consume(&a, row, row / CROWD - 1);
  }
  a.marks[0] = 1;
  roots_of_levels(&a, 5);
  end(&a);
}

/* Every level has two roots on a ring. They cover each other, so none of them gets a group. */
static void a_ring_of_two_roots_of_every_level(void) {
  attack a = begin();
  chain_of_links(&a);
  close_ring(&a);
  roots_of_levels(&a, ROWS / 2);
  end(&a);
}

int main(void) {
  RUN(a_deep_nest_of_roots);
  RUN(a_deep_nest_with_its_mark_outside);
  RUN(roots_far_below_the_only_other_of_their_level);
  RUN(a_chain_of_links);
  RUN(a_ring_of_links);
  RUN(one_producer_of_all_events);
  RUN(a_crowd_of_producers_of_all_events);
  RUN(all_events_are_producers_of_a_crowd);
  RUN(layers_of_crowds);
  RUN(a_level_for_every_root);
  RUN(two_roots_of_every_level);
  RUN(two_linked_roots_of_every_level);
  RUN(a_ring_of_two_roots_of_every_level);
  return 0;
}
