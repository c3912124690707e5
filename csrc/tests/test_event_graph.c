/* Groups of events against the rules that define them, applied slowly: lists of parents in order, and searches that
 * compare all with all. Every array has exactly its size, so AddressSanitizer sees a step beyond. */
#include "kernels/event_groups.h"
#include "kernels/event_reach.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST_ROWS = 400, MOST_LINKS = 200, MOST_MEMBERS = 600, MOST_ABOVE = 2 * MOST_MEMBERS };

/* A random graph, with marks for nearest-mark searches and roots with levels for grouping. */
typedef struct scene {
  size_t rows, link_count, producer_count, consumer_count, root_count;
  uint8_t marks[MOST_ROWS];
  int32_t parent[MOST_ROWS], level[MOST_ROWS], roots[MOST_ROWS];
  fp_member producers[MOST_MEMBERS], consumers[MOST_MEMBERS];
} scene;

/* ---- random scenes ----------------------------------------------------------------------------------- */

static int compare_members(const void *a, const void *b) {
  const fp_member *x = a, *y = b;
  if (x->row != y->row) return x->row < y->row ? -1 : 1;
  return (x->link > y->link) - (x->link < y->link);
}

static size_t roll_members(dice *chance, const scene *s, fp_member *members, size_t most) {
  size_t count = roll_below(chance, most + 1);
  for (size_t i = 0; i < count; i++)
    members[i] = (fp_member){(int32_t)roll_below(chance, s->rows), (int32_t)roll_below(chance, s->link_count)};
  qsort(members, count, sizeof *members, compare_members);
  return count;
}

/* Every event lies in one shortly before it, or in none. */
static void roll_parents(dice *chance, scene *s) {
  for (size_t row = 0; row < s->rows; row++) {
    size_t back = 1 + roll_below(chance, roll_below(chance, 2) ? 2 : 10);
    s->parent[row] = back > row || roll_below(chance, 5) == 0 ? -1 : (int32_t)(row - back);
  }
}

/* Roots, the highest level first, in random order within a level; some events with a level are left out. */
static void roll_roots(dice *chance, scene *s, int32_t levels, uint64_t one_in) {
  s->root_count = 0;
  for (size_t row = 0; row < s->rows; row++) {
    s->level[row] = roll_below(chance, one_in) ? 0 : 1 + (int32_t)roll_below(chance, (uint64_t)levels);
    s->marks[row] = (uint8_t)(roll_below(chance, 4) ? 0 : roll_below(chance, 8));
  }
  for (int32_t level = levels; level > 0; level--) {
    size_t before = s->root_count;
    for (size_t row = 0; row < s->rows; row++) {
      if (s->level[row] != level || roll_below(chance, 10) == 0) continue;
      size_t place = before + roll_below(chance, s->root_count - before + 1);
      s->roots[s->root_count++] = s->roots[place];
      s->roots[place] = (int32_t)row;
    }
  }
}

static void roll_scene(dice *chance, scene *s, size_t rows, size_t links, size_t members) {
  s->rows = rows;
  s->link_count = links;
  roll_parents(chance, s);
  s->producer_count = links ? roll_members(chance, s, s->producers, members) : 0;
  s->consumer_count = links ? roll_members(chance, s, s->consumers, members) : 0;
  roll_roots(chance, s, 1 + (int32_t)roll_below(chance, 3), 1 + roll_below(chance, 6));
}

/* ---- the rules, applied slowly ----------------------------------------------------------------------- */

/* Lists the parents of a row, in the order in which searches visit them, and returns how many there are. */
static size_t all_above(const scene *s, int32_t row, int32_t *above) {
  size_t count = 0;
  if (s->parent[row] >= 0) above[count++] = s->parent[row];
  for (size_t i = 0; i < s->consumer_count; i++) {
    if (s->consumers[i].row != row) continue;
    for (size_t j = 0; j < s->producer_count; j++) {
      if (s->producers[j].link != s->consumers[i].link) continue;
      bool known = false;
      for (size_t k = 0; k < count; k++) known |= above[k] == s->producers[j].row;
      if (!known) above[count++] = s->producers[j].row;
    }
  }
  return count;
}

typedef struct family {
  size_t count[MOST_ROWS];
  int32_t *above[MOST_ROWS];
  uint8_t (*reaches)[MOST_ROWS]; /* reaches[a][b]: from a one gets down to b, in one step or more */
} family;

static void family_make(const scene *s, family *f) {
  static int32_t above[MOST_ABOVE];
  f->reaches = calloc(s->rows, sizeof *f->reaches);
  for (size_t row = 0; row < s->rows; row++) {
    f->count[row] = all_above(s, (int32_t)row, above);
    f->above[row] = malloc((f->count[row] + 1) * sizeof(int32_t));
    CHECK(f->reaches && f->above[row]);
    memcpy(f->above[row], above, f->count[row] * sizeof(int32_t));
    for (size_t i = 0; i < f->count[row]; i++) f->reaches[above[i]][row] = 1;
  }
  for (size_t via = 0; via < s->rows; via++)
    for (size_t a = 0; a < s->rows; a++)
      for (size_t b = 0; f->reaches[a][via] && b < s->rows; b++) f->reaches[a][b] |= f->reaches[via][b];
}

static void family_free(const scene *s, family *f) {
  for (size_t row = 0; row < s->rows; row++) free(f->above[row]);
  free(f->reaches);
}

/* A breadth-first search upwards with a list and a flag for each row. */
static int32_t nearest_slowly(const scene *s, const family *f, uint8_t bits, int32_t row) {
  int32_t queue[MOST_ROWS];
  uint8_t seen[MOST_ROWS] = {0};
  size_t count = 0;
  queue[count++] = row;
  seen[row] = 1;
  for (size_t i = 0; i < count; i++) {
    int32_t at = queue[i];
    if (s->marks[at] & bits) return at;
    for (size_t j = 0; j < f->count[at]; j++)
      if (!seen[f->above[at][j]]) seen[f->above[at][j]] = 1, queue[count++] = f->above[at][j];
  }
  return -1;
}

static bool covered_slowly(const scene *s, const family *f, int32_t row) {
  bool covered = false;
  for (int32_t other = 0; other < (int32_t)s->rows; other++)
    covered |= other != row && s->level[other] == s->level[row] && f->reaches[other][row];
  return covered;
}

typedef struct grouping {
  int32_t group[MOST_ROWS], count;
  int32_t root[MOST_ROWS];
  uint8_t related[MOST_ROWS][MOST_ROWS];
} grouping;

/* Repeats until nothing changes: an event without a group joins if one of its parents has joined. */
static void spread_slowly(const scene *s, const family *f, int32_t number, grouping *g) {
  bool more = true;
  while (more) {
    more = false;
    for (size_t row = 0; row < s->rows; row++) {
      for (size_t i = 0; i < f->count[row]; i++) {
        if (g->group[f->above[row][i]] != number || g->group[row] == number) continue;
        if (g->group[row] >= 0)
          g->related[number][g->group[row]] = 1;
        else
          g->group[row] = number, more = true;
      }
    }
  }
}

/* Groups one root after the other: everything below it that has no group joins. */
static void group_slowly(const scene *s, const family *f, bool levels, grouping *g) {
  memset(g, 0, sizeof *g);
  memset(g->group, 0xff, sizeof g->group);
  for (size_t i = 0; i < s->root_count; i++) {
    int32_t root = s->roots[i];
    if (levels && (g->group[root] >= 0 || covered_slowly(s, f, root))) continue;
    if (g->group[root] >= 0) {
      g->related[g->count][g->group[root]] = 1;
    } else {
      g->group[root] = g->count;
      spread_slowly(s, f, g->count, g);
    }
    g->root[g->count++] = root;
  }
}

/* ---- the kernels ------------------------------------------------------------------------------------- */

/* The graph of a scene, in blocks of its own. */
typedef struct opened {
  fp_memory memory;
  fp_graph graph;
  void *owned[3];
} opened;

static void *block_of(const void *bytes, size_t size) {
  void *block = malloc(size ? size : 1);
  CHECK(block != NULL);
  memcpy(block, bytes, size);
  return block;
}

/* Opens the graph of a scene, with a limited number of allocations. */
static bool open_scene(const scene *s, opened *o, int64_t allocations) {
  memset(&o->graph, 0, sizeof o->graph);
  fp_memory_init(&o->memory);
  o->memory.countdown = allocations;
  o->owned[0] = block_of(s->parent, s->rows * sizeof(int32_t));
  o->owned[1] = block_of(s->producers, s->producer_count * sizeof(fp_member));
  o->owned[2] = block_of(s->consumers, s->consumer_count * sizeof(fp_member));
  o->graph.memory = &o->memory;
  o->graph.count = s->rows;
  o->graph.parent = o->owned[0];
  o->graph.link_count = s->link_count;
  o->graph.producers = o->owned[1];
  o->graph.consumers = o->owned[2];
  o->graph.producer_count = s->producer_count;
  o->graph.consumer_count = s->consumer_count;
  return fp_graph_open(&o->graph) == FP_OK;
}

static void close_scene(opened *o) {
  fp_graph_close(&o->graph);
  fp_graph_close(&o->graph); /* may be closed twice */
  CHECK_INT(o->memory.live, 0);
  for (int i = 0; i < 3; i++) free(o->owned[i]);
}

/* Both searches, from single events and of the entire graph, must give what the slow one gives. */
static void check_nearest(const scene *s, const family *f, opened *o) {
  int32_t *rows = malloc(s->rows * sizeof *rows), *each = malloc(s->rows * sizeof *each);
  int32_t *all = malloc(s->rows * sizeof *all);
  uint8_t *marks = block_of(s->marks, s->rows);
  CHECK(rows && each && all);
  for (uint8_t bits = 1; bits < 8; bits++) {
    for (size_t i = 0; i < s->rows; i++) rows[i] = (int32_t)(s->rows - 1 - i);
    CHECK(fp_nearest_above(&o->graph, marks, bits, rows, s->rows, each) == FP_OK);
    CHECK(fp_nearest_above_all(&o->graph, marks, bits, all) == FP_OK);
    for (size_t i = 0; i < s->rows; i++) {
      CHECK_INT(each[i], nearest_slowly(s, f, bits, rows[i]));
      CHECK_INT(all[rows[i]], each[i]);
    }
  }
  free(rows), free(each), free(all), free(marks);
}

/* Whether each root of a level is covered, while no event has a group. */
static bool find_covered(const scene *s, fp_graph *graph, uint8_t *covered) {
  int32_t *none = malloc(s->rows * sizeof *none + 1), *level = block_of(s->level, s->rows * sizeof *level);
  CHECK(none != NULL);
  memset(none, 0xff, s->rows * sizeof *none);
  fp_cover cover = {.graph = graph, .level = level, .group = none};
  int32_t last = 0;
  for (size_t row = 0; row < s->rows; row++) last = s->level[row] > last ? s->level[row] : last;
  bool ok = fp_cover_open(&cover);
  for (int32_t wanted = last; ok && wanted > 0; wanted--) {
    ok = fp_cover_level(&cover, wanted);
    for (size_t row = 0; ok && row < s->rows; row++)
      if (s->level[row] == wanted) covered[row] = fp_is_covered(&cover, (int32_t)row);
  }
  fp_cover_close(&cover);
  free(none), free(level);
  return ok;
}

/* The cover of each level must agree with the slow search. */
static void check_covered(const scene *s, const family *f, opened *o) {
  uint8_t covered[MOST_ROWS];
  CHECK(find_covered(s, &o->graph, covered));
  for (int32_t row = 0; row < (int32_t)s->rows; row++)
    if (s->level[row]) CHECK_INT(covered[row], covered_slowly(s, f, row));
}

/* Groups, their roots and their relations must agree with the slow ones; relations may repeat. */
static void check_groups(const scene *s, const family *f, opened *o, bool levels) {
  enum { FIRST = 5 };
  static grouping wanted;
  group_slowly(s, f, levels, &wanted);
  int32_t *group = malloc(s->rows * sizeof *group), *roots = block_of(s->roots, s->root_count * sizeof *roots);
  CHECK(group != NULL);
  memset(group, 0xff, s->rows * sizeof *group);
  fp_vector found = {0}, relations = {0};
  CHECK(fp_group_events(&o->graph, roots, s->root_count, levels ? s->level : NULL, FIRST, group, &found, &relations) == FP_OK);
  CHECK_INT(found.count, wanted.count);
  for (size_t i = 0; i < found.count; i++) CHECK_INT(((int32_t *)found.items)[i], wanted.root[i]);
  for (size_t row = 0; row < s->rows; row++)
    CHECK_INT(group[row], wanted.group[row] < 0 ? -1 : wanted.group[row] + FIRST);
  for (size_t i = 0; i < relations.count; i++) {
    fp_relation pair = ((fp_relation *)relations.items)[i];
    uint8_t *known = &wanted.related[pair.parent - FIRST][pair.child - FIRST];
    CHECK(*known);
    *known = 2;
  }
  for (int32_t a = 0; a < wanted.count; a++)
    for (int32_t b = 0; b < wanted.count; b++) CHECK(wanted.related[a][b] != 1);
  fp_vector_free(&o->memory, &found);
  fp_vector_free(&o->memory, &relations);
  free(group), free(roots);
}

static void check_scene(const scene *s) {
  family f;
  opened o;
  family_make(s, &f);
  CHECK(open_scene(s, &o, -1));
  check_nearest(s, &f, &o);
  check_covered(s, &f, &o);
  check_groups(s, &f, &o, true);
  check_groups(s, &f, &o, false);
  close_scene(&o);
  family_free(s, &f);
}

/* ---- the graph --------------------------------------------------------------------------------------- */

static void members_of_a_row_are_found(void) {
  const fp_member members[] = {{2, 0}, {2, 5}, {4, 1}};
  const size_t wanted[] = {0, 0, 0, 2, 2, 3, 3};
  for (int32_t row = 0; row < 7; row++) CHECK_INT(fp_first_member(members, 3, row), wanted[row]);
  CHECK_INT(fp_first_member(NULL, 0, 3), 0);
}

/* Rows 0 to 4; 1 lies in 0; link 0 leads from 2 and 3 to 1, link 1 from 4 to 1. */
static scene five_rows(void) {
  scene s = {.rows = 5, .link_count = 2, .producer_count = 3, .consumer_count = 2};
  const int32_t parent[] = {-1, 0, -1, -1, -1};
  const fp_member producers[] = {{2, 0}, {3, 0}, {4, 1}}, consumers[] = {{1, 0}, {1, 1}};
  memcpy(s.parent, parent, sizeof parent);
  memcpy(s.producers, producers, sizeof producers);
  memcpy(s.consumers, consumers, sizeof consumers);
  return s;
}

static void of_equally_near_events_the_enclosing_is_first_then_links_in_order(void) {
  scene s = five_rows();
  opened o;
  CHECK(open_scene(&s, &o, -1));
  const int32_t row = 1;
  const uint8_t marks[] = {1, 8, 2 | 1, 2 | 4, 4 | 2 | 1};
  const int32_t wanted[] = {0, 2, 3, 1};
  for (int bit = 0; bit < 4; bit++) {
    int32_t found, all[5];
    CHECK(fp_nearest_above(&o.graph, marks, (uint8_t)(1 << bit), &row, 1, &found) == FP_OK);
    CHECK(fp_nearest_above_all(&o.graph, marks, (uint8_t)(1 << bit), all) == FP_OK);
    CHECK(found == wanted[bit] && all[1] == wanted[bit]);
  }
  close_scene(&o);
}

static void a_group_takes_everything_below_its_root_and_lists_groups_that_it_reaches(void) {
  scene s = five_rows();
  s.level[0] = 2, s.level[4] = 1;
  s.roots[0] = 0, s.roots[1] = 4, s.root_count = 2;
  opened o;
  CHECK(open_scene(&s, &o, -1));
  int32_t group[] = {-1, -1, -1, -1, -1};
  fp_vector roots = {0}, relations = {0};
  CHECK(fp_group_events(&o.graph, s.roots, 2, s.level, 0, group, &roots, &relations) == FP_OK);
  CHECK(group[0] == 0 && group[1] == 0 && group[2] == -1 && group[3] == -1 && group[4] == 1);
  CHECK_INT(relations.count, 1);
  fp_relation pair = *(fp_relation *)relations.items;
  CHECK(pair.parent == 1 && pair.child == 0);
  fp_vector_free(&o.memory, &roots);
  fp_vector_free(&o.memory, &relations);
  close_scene(&o);
}

/* Two roots of a level that lead to each other are each covered by the other; one that leads to itself is not. */
static void circles_cover_all_their_roots_but_a_single_one(void) {
  scene s = {.rows = 3, .link_count = 3, .producer_count = 3, .consumer_count = 3, .root_count = 3};
  for (int32_t row = 0; row < 3; row++) {
    s.parent[row] = -1, s.level[row] = 1, s.roots[row] = row;
    s.producers[row] = (fp_member){row, row};
    s.consumers[row] = (fp_member){row, row == 2 ? 2 : 1 - row};
  }
  opened o;
  CHECK(open_scene(&s, &o, -1));
  uint8_t covered[3];
  CHECK(find_covered(&s, &o.graph, covered));
  CHECK(covered[0] == 1 && covered[1] == 1 && covered[2] == 0);
  close_scene(&o);
  check_scene(&s);
}

static void an_empty_graph_is_one(void) {
  scene s = {0};
  check_scene(&s);
}

static void small_graphs_are_grouped_by_the_rules(void) {
  dice chance = {2};
  static scene s;
  for (int round = 0; round < 2500; round++) {
    size_t links = roll_below(&chance, 8);
    roll_scene(&chance, &s, 1 + roll_below(&chance, 24), links, 2 + 3 * links);
    check_scene(&s);
  }
}

/* Long enough that searches from single events give way to one search of the entire graph. */
static void nest_all(scene *s) {
  for (size_t row = 0; row < s->rows; row++) s->parent[row] = (int32_t)row - 1;
  memset(s->marks, 0, sizeof s->marks);
  s->marks[3] = 5;
}

/* Starting with the innermost root, each is far from the next root of its level. */
static void root_all(scene *s, int32_t levels) {
  s->root_count = 0;
  for (int32_t level = levels; level > 0; level--) {
    for (int32_t row = (int32_t)s->rows - 1; row >= 0; row--) {
      if (row % levels != level - 1) continue;
      s->level[row] = level;
      s->roots[s->root_count++] = row;
    }
  }
}

static void large_graphs_are_grouped_by_the_rules(void) {
  dice chance = {3};
  static scene s;
  for (int round = 0; round < 48; round++) {
    roll_scene(&chance, &s, MOST_ROWS, round % 3 ? 100 : 20, round % 3 ? 150 : 300);
    if (round % 2) nest_all(&s);
    if (round % 4 == 3) root_all(&s, 20 + round / 2);
    if (round % 12 == 11) s.link_count = s.producer_count = s.consumer_count = 0, root_all(&s, 20 + 3 * round);
    check_scene(&s);
  }
}

/* Four deep nests; of two roots of a level in one nest, the inner one comes first. */
static void every_level_is_searched_for_itself(void) {
  enum { DEEP = MOST_ROWS / 4 };
  static scene s;
  s.rows = MOST_ROWS;
  s.root_count = 0;
  for (int32_t row = MOST_ROWS - 1; row >= 0; row--) {
    s.parent[row] = row % DEEP ? row - 1 : -1;
    s.level[row] = 1 + row % DEEP / 2;
  }
  for (int32_t level = DEEP / 2; level > 0; level--)
    for (int32_t row = MOST_ROWS - 1; row >= 0; row--)
      if (s.level[row] == level) s.roots[s.root_count++] = row;
  check_scene(&s);
}

static void walks_are_distinguished_past_the_last_stamp(void) {
  dice chance = {4};
  static scene s;
  roll_scene(&chance, &s, 40, 12, 40);
  family f;
  opened o;
  family_make(&s, &f);
  CHECK(open_scene(&s, &o, -1));
  for (size_t row = 0; row < s.rows; row++) o.graph.seen[row] = 1 + (int32_t)row % 3;
  for (size_t link = 0; link < s.link_count; link++) o.graph.link_seen[link] = 1 + (int32_t)link % 3;
  o.graph.stamp = INT32_MAX - 20;
  check_nearest(&s, &f, &o);
  CHECK(o.graph.stamp < INT32_MAX - 20);
  close_scene(&o);
  family_free(&s, &f);
}

/* ---- without memory ---------------------------------------------------------------------------------- */

static bool run_all(const scene *s, int64_t allocations) {
  opened o;
  fp_vector roots = {0}, relations = {0};
  static int32_t rows[MOST_ROWS], found[MOST_ROWS], group[MOST_ROWS];
  static uint8_t covered[MOST_ROWS];
  for (size_t i = 0; i < s->rows; i++) rows[i] = (int32_t)i;
  memset(group, 0xff, sizeof group);
  bool ok = open_scene(s, &o, allocations);
  ok = ok && fp_nearest_above(&o.graph, s->marks, 1, rows, s->rows, found) == FP_OK;
  ok = ok && fp_nearest_above_all(&o.graph, s->marks, 1, found) == FP_OK;
  ok = ok && find_covered(s, &o.graph, covered);
  ok = ok && fp_group_events(&o.graph, s->roots, s->root_count, s->level, 0, group, &roots, &relations) == FP_OK;
  fp_vector_free(&o.memory, &roots);
  fp_vector_free(&o.memory, &relations);
  close_scene(&o);
  return ok;
}

static void any_allocation_may_fail(void) {
  dice chance = {5};
  static scene s;
  roll_scene(&chance, &s, MOST_ROWS, 40, 150);
  nest_all(&s); /* deep: all ways are gone */
  root_all(&s, 50);
  s.link_count = s.producer_count = s.consumer_count = 0;
  int64_t allowed = 0;
  while (!run_all(&s, allowed)) CHECK(++allowed < 10000);
  CHECK(allowed > 25 && run_all(&s, -1));
  printf("      %lld allocations\n", (long long)allowed);
}

int main(void) {
  RUN(members_of_a_row_are_found);
  RUN(of_equally_near_events_the_enclosing_is_first_then_links_in_order);
  RUN(a_group_takes_everything_below_its_root_and_lists_groups_that_it_reaches);
  RUN(circles_cover_all_their_roots_but_a_single_one);
  RUN(an_empty_graph_is_one);
  RUN(small_graphs_are_grouped_by_the_rules);
  RUN(large_graphs_are_grouped_by_the_rules);
  RUN(every_level_is_searched_for_itself);
  RUN(walks_are_distinguished_past_the_last_stamp);
  RUN(any_allocation_may_fail);
  return 0;
}
