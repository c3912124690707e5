/* Paths through calls of input pipelines: how often events count, and where walks end. */
#include "kernels/pipeline_paths.h"

#include "tests/check.h"

enum { MOST = 8 };

typedef struct graph {
  int64_t start[MOST], duration[MOST];
  int32_t parent[MOST], iterator[MOST];
  uint32_t asks[MOST + 1], gives[MOST + 1];
  int32_t link[MOST], given[MOST];
  size_t count;
} graph;

static fp_code walk(fp_memory *memory, const graph *g, int32_t root, uint64_t most, fp_vector *records) {
  const fp_event_paths paths = {g->start, g->duration, g->parent, g->iterator, g->count, MOST,
                                g->asks,  g->gives,    g->link,   g->given};
  fp_path_piece piece = {.visits_left = most, .most_records = SIZE_MAX};
  return fp_pipeline_paths(memory, &paths, &root, 1, &piece, records);
}

/* Sorts the records by iterator; `count` is 0 for an iterator without one. */
static void walked(const graph *g, fp_call_record *by_iterator) {
  fp_memory memory;
  fp_vector records = {0};
  fp_memory_init(&memory);
  CHECK_INT(walk(&memory, g, 0, 1000000, &records), FP_OK);
  memset(by_iterator, 0, MOST * sizeof *by_iterator);
  for (size_t i = 0; i < records.count; i++) {
    const fp_call_record *one = (fp_call_record *)records.items + i;
    by_iterator[one->iterator] = *one;
  }
  fp_vector_free(&memory, &records);
  CHECK_INT(memory.live, 0);
}

static void an_event_counts_as_often_as_paths_lead_to_it(void) {
  /* 0 encloses 1 and 2, and both lead to 3 through link 0. */
  const graph g = {.start = {0, 10, 20, 12}, .duration = {100, 20, 20, 5}, .parent = {-1, 0, 0, -1},
                   .iterator = {0, 1, 2, 3}, .asks = {0, 0, 1, 2, 2}, .gives = {0, 1}, .given = {3}, .count = 4};
  fp_call_record by[MOST];
  walked(&g, by);
  CHECK(by[0].self == 60 && by[0].total == 100 && by[0].count == 1);
  CHECK(by[1].self == 15 && by[2].self == 20);
  CHECK(by[3].count == 2 && by[3].total == 10 && by[3].is_blocking);
}

static void self_time_may_be_negative_and_nothing_that_does_not_overlap_blocks(void) {
  const graph g = {.start = {0, 0, 0, 200}, .duration = {10, 10, 10, 5}, .parent = {-1, 0, 0, 0}, .iterator = {0, 1, 1, 2},
                   .count = 4};
  fp_call_record by[MOST];
  walked(&g, by);
  CHECK(by[0].self == -10 && by[1].total == 20 && by[1].count == 2 && !by[2].is_blocking && by[2].count == 1);
}

static void what_has_no_id_takes_its_time_and_leads_nowhere(void) {
  const graph g = {.start = {0, 10, 15}, .duration = {100, 20, 5}, .parent = {-1, 0, 1}, .iterator = {0, -1, 1}, .count = 3};
  fp_call_record by[MOST];
  walked(&g, by);
  CHECK(by[0].self == 80 && by[1].count == 0);
}

static void a_circle_ends_at_the_deepest_level(void) {
  const graph g = {.start = {0, 0}, .duration = {10, 10}, .parent = {-1, 0}, .iterator = {0, 1}, .asks = {0, 0, 1},
                   .gives = {0, 1}, .given = {0}, .count = 2};
  fp_call_record by[MOST];
  walked(&g, by);
  CHECK(by[0].count + by[1].count == FP_DEEPEST_LEVEL + 1);
}

static void too_many_paths_are_said(void) {
  /* Two events that lead to each other and to themselves: 2^100 paths. */
  const graph g = {.start = {0, 0}, .duration = {10, 10}, .parent = {-1, -1}, .iterator = {0, 1}, .asks = {0, 1, 2},
                   .gives = {0, 2}, .given = {0, 1}, .count = 2};
  fp_memory memory;
  fp_vector records = {0};
  fp_memory_init(&memory);
  CHECK_INT(walk(&memory, &g, 0, 100000, &records), FP_TOO_LONG);
  fp_vector_free(&memory, &records);
  CHECK_INT(memory.live, 0);
}

static void a_piece_ends_after_the_call_that_fills_it(void) {
  const graph g = {.start = {0, 10}, .duration = {100, 20}, .parent = {-1, 0}, .iterator = {0, 1}, .count = 2};
  const fp_event_paths paths = {g.start, g.duration, g.parent, g.iterator, g.count, MOST,
                                g.asks,  g.gives,    g.link,   g.given};
  const int32_t roots[] = {1, 0, 0, 1};
  fp_memory memory;
  fp_vector records = {0};
  fp_path_piece piece = {.visits_left = 9, .most_records = 2};
  fp_memory_init(&memory);
  CHECK_INT(fp_pipeline_paths(&memory, &paths, roots, 4, &piece, &records), FP_OK);
  CHECK(records.count == 3 && piece.calls == 2 && piece.visits_left == 8);
  records.count = 0;
  CHECK_INT(fp_pipeline_paths(&memory, &paths, roots + 2, 2, &piece, &records), FP_OK);
  CHECK(records.count == 2 && piece.calls == 1 && ((fp_call_record *)records.items)->call == 0);
  fp_vector_free(&memory, &records);
  CHECK_INT(memory.live, 0);
}

static void running_out_of_memory_is_reported(void) {
  const graph g = {.start = {0, 10}, .duration = {100, 20}, .parent = {-1, 0}, .iterator = {0, 1}, .count = 2};
  fp_memory memory;
  for (int64_t allowed = 0;; allowed++) {
    fp_memory_init(&memory);
    memory.countdown = allowed;
    fp_vector records = {0};
    fp_code result = walk(&memory, &g, 0, 10, &records);
    fp_vector_free(&memory, &records);
    CHECK_INT(memory.live, 0);
    if (result == FP_NO_MEMORY) continue;
    CHECK(result == FP_OK && allowed > 3);
    break;
  }
}

int main(void) {
  RUN(an_event_counts_as_often_as_paths_lead_to_it);
  RUN(self_time_may_be_negative_and_nothing_that_does_not_overlap_blocks);
  RUN(what_has_no_id_takes_its_time_and_leads_nowhere);
  RUN(a_circle_ends_at_the_deepest_level);
  RUN(too_many_paths_are_said);
  RUN(a_piece_ends_after_the_call_that_fills_it);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
