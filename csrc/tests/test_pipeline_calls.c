/* Calls of input pipelines: the division of time by example, sums that must hold for random events, and operations on
 * forests. */
#include "kernels/pipeline_calls.h"

#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 64 };

typedef struct event {
  int64_t start, duration;
  int32_t parent, iterator;
} event;

typedef struct result {
  fp_call_record records[MOST];
  fp_call_segment segments[4 * MOST];
  fp_call_parts parts[MOST];
  size_t record_count, segment_count, part_count;
} result;

/* Each root is a call of pipeline 0; the first is traced. Every iterator's own part is FP_OTHER. */
static bool walk(fp_memory *memory, const event *events, size_t count, const int32_t *roots, size_t root_count,
                 const fp_activity *activities, size_t activity_count, result *out) {
  int64_t start[MOST], duration[MOST];
  int32_t parent[MOST], iterator[MOST], pipeline[MOST] = {0};
  uint8_t own[MOST], traced[MOST] = {1};
  for (size_t i = 0; i < count; i++) {
    start[i] = events[i].start;
    duration[i] = events[i].duration;
    parent[i] = events[i].parent;
    iterator[i] = events[i].iterator;
    own[i] = FP_OTHER;
  }
  fp_pipeline_work work = {
    .events = {start, duration, parent, iterator, count, MOST},
    .activities = activities,
    .activity_count = activity_count,
    .own_part = own,
    .calls = {roots, pipeline, traced, root_count},
  };
  fp_vector records = {0}, segments = {0}, parts = {0};
  memset(own, FP_OTHER, sizeof own);
  bool done = fp_pipeline_calls(memory, &work, &records, &segments, &parts) == FP_OK;
  if (done) {
    CHECK(records.count <= MOST && segments.count <= (size_t)4 * MOST && parts.count <= MOST);
    if (records.count) memcpy(out->records, records.items, records.count * sizeof *out->records);
    if (segments.count) memcpy(out->segments, segments.items, segments.count * sizeof *out->segments);
    if (parts.count) memcpy(out->parts, parts.items, parts.count * sizeof *out->parts);
    out->record_count = records.count;
    out->segment_count = segments.count;
    out->part_count = parts.count;
  }
  fp_vector_free(memory, &records);
  fp_vector_free(memory, &segments);
  fp_vector_free(memory, &parts);
  CHECK_INT(memory->live, 0);
  return done;
}

/* One call, whose root is row 0. */
static result walked(const event *events, size_t count, const fp_activity *activities, size_t activity_count) {
  const int32_t root = 0;
  fp_memory memory;
  result out = {0};
  fp_memory_init(&memory);
  CHECK(walk(&memory, events, count, &root, 1, activities, activity_count, &out));
  return out;
}

/* Critical time is what the children leave. Iterator 1 has two events:
 *
 *   iterator 0  |-------------------------------------------------|   critical 10 + 10 + 20
 *   iterator 1       |-------------------|                            critical 40 - 10
 *   iterator 1                                |---------|             critical 20
 *   iterator 2          |---|                                         critical 10
 */
static void a_call_is_shared_out_from_its_root_down(void) {
  const event events[] = {{0, 100, -1, 0}, {10, 40, 0, 1}, {60, 20, 0, 1}, {15, 10, 1, 2}};
  result out = walked(events, 4, NULL, 0);
  CHECK_INT(out.record_count, 3);
  const fp_call_record *root = out.records, *first = root + 1, *second = root + 2;
  CHECK(root->total == 100 && root->self == 40 && root->critical == 40 && root->count == 1 && root->is_blocking);
  CHECK(first->iterator == 1 && first->start == 10 && first->total == 60 && first->self == 50 && first->critical == 50);
  CHECK(first->count == 2 && second->iterator == 2 && second->critical == 10);
}

/* The child that starts first takes its entire interval; the other gets what is left behind it:
 *
 *   iterator 0  |-------------------------------------------------|   critical 10 + 10
 *   iterator 1       |-----------------------------|                  critical 60
 *   iterator 2                           |-------------------|        critical 20, behind iterator 1
 *   iterator 3            |-|                                         a child of the root, but iterator 1 has its time
 */
static void children_that_overlap_take_their_time_in_order_of_start(void) {
  const event events[] = {{0, 100, -1, 0}, {50, 40, 0, 2}, {10, 60, 0, 1}, {20, 5, 0, 3}};
  result out = walked(events, 4, NULL, 0);
  CHECK_INT(out.records[0].critical, 20);
  CHECK(out.records[0].self == 20);
  CHECK(out.records[1].iterator == 1 && out.records[1].critical == 60);
  CHECK(out.records[2].iterator == 3 && out.records[2].critical == 0 && out.records[2].is_blocking);
  CHECK(out.records[3].iterator == 2 && out.records[3].critical == 20);
}

/* Children that ran ahead of the call: only what lies within it costs the call anything.
 *
 *   iterator 0                           |------------------------|   the call
 *   iterator 1  |-----------------------------|                       blocks from 50 to 60
 *   iterator 2  |-------------------|                                 over before the call
 *   iterator 3  |--------------|                                      in iterator 1
 */
static void what_ran_before_costs_nothing_and_does_not_block(void) {
  const event events[] = {{50, 50, -1, 0}, {0, 60, 0, 1}, {0, 40, 0, 2}, {0, 30, 1, 3}};
  result out = walked(events, 4, NULL, 0);
  for (size_t i = 0; i < out.record_count; i++) {
    const fp_call_record *one = out.records + i;
    CHECK_INT(one->critical, one->iterator == 0 ? 40 : one->iterator == 1 ? 10 : 0);
    CHECK_INT(one->is_blocking, one->iterator < 2 || one->iterator == 3);
  }
}

/* An event's own time is divided among activities in the order of fp_self_part: where a read and a user function
 * overlap, the read has the time.
 *
 *   event 0        |-------------------------------------------------|
 *   user function    |------------|
 *   file read           |--|
 *   taking                                       |----|
 *   user function                                  |-----------------|
 *   event 1                  |--------------|
 *   file read                  |---------|
 *   taking                             ||
 */
static void segments_and_parts_add_up(void) {
  const event events[] = {{0, 100, -1, 0}, {20, 30, 0, 1}};
  const fp_activity activities[] = {
    {5, 30, 0, FP_USER_FUNCTION}, {10, 15, 0, FP_FILE_READ}, {60, 70, 0, FP_TAKING}, {65, 200, 0, FP_USER_FUNCTION},
    {25, 45, 1, FP_FILE_READ},    {40, 41, 1, FP_TAKING},
  };
  result out = walked(events, 2, activities, 6);
  CHECK_INT(out.segment_count, 3);
  CHECK(out.segments[0].iterator == 0 && out.segments[0].start == 0 && out.segments[0].duration == 20);
  CHECK(out.segments[1].start == 50 && out.segments[1].duration == 50);
  CHECK(out.segments[2].iterator == 1 && out.segments[2].start == 20 && out.segments[2].duration == 30);
  const int64_t *of_root = out.parts[0].time, *of_child = out.parts[1].time;
  CHECK(of_root[FP_FILE_READ] == 5 && of_root[FP_USER_FUNCTION] == 45 && of_root[FP_TAKING] == 5);
  CHECK(of_root[FP_WAITING] == 0 && of_root[FP_OTHER] == 15);
  CHECK(of_child[FP_FILE_READ] == 20 && of_child[FP_TAKING] == 0 && of_child[FP_OTHER] == 10);
}

/* Events 1 and 2 are parents of each other, 3 hangs below them, and 4 is its own parent: none is in the call. Then the
 * root hangs below its own grandchild. */
static void circles_of_parents_end(void) {
  const event events[] = {{0, 100, -1, 0}, {10, 10, 2, 1}, {10, 10, 1, 2}, {12, 2, 2, 3}, {5, 1, 4, 4}};
  CHECK_INT(walked(events, 5, NULL, 0).record_count, 1);
  const event below_itself[] = {{0, 100, 2, 0}, {10, 50, 0, 1}, {20, 30, 1, 2}};
  CHECK_INT(walked(below_itself, 3, NULL, 0).record_count, 3);
}

static void any_times_are_taken(void) {
  const event events[] = {{INT64_MIN, INT64_MAX, -1, 0}, {INT64_MAX, INT64_MAX, 0, 1}, {5, -10, 0, 2},
                          {INT64_MIN, INT64_MIN, 0, 3},   {0, INT64_MAX, 0, 1},        {-9, INT64_MAX, 0, 1}};
  result out = walked(events, 6, NULL, 0);
  int64_t sum = 0;
  for (size_t i = 0; i < out.record_count; i++) {
    CHECK(out.records[i].critical >= 0 && out.records[i].self >= 0 && out.records[i].total >= 0);
    sum += out.records[i].critical;
  }
  CHECK_INT(sum, INT64_MAX);
}

/* For random events: critical times of a call add up to its duration, and so do parts and segments. */
static void sums_hold_whatever_the_events(void) {
  dice chance = {3};
  for (int round = 0; round < 4000; round++) {
    event events[MOST];
    fp_activity activities[MOST];
    size_t count = 1 + roll_below(&chance, 20), doings = roll_below(&chance, 20);
    for (size_t i = 0; i < count; i++)
      events[i] = (event){(int64_t)roll_below(&chance, 50), (int64_t)roll_below(&chance, 50) - 2,
                          i ? (int32_t)roll_below(&chance, count + 1) - 1 : -1, (int32_t)roll_below(&chance, 6)};
    int32_t of = 0;
    int64_t at = 0;
    for (size_t i = 0; i < doings; i++) {
      if (roll_below(&chance, 3) == 0 && of + 1 < (int32_t)count) of++, at = 0;
      at += (int64_t)roll_below(&chance, 9);
      activities[i] = (fp_activity){at, at + (int64_t)roll_below(&chance, 20), of, (int32_t)roll_below(&chance, 3)};
    }
    result out = walked(events, count, activities, doings);
    int64_t critical = 0, parts = 0, segments = 0, whole = events[0].duration > 0 ? events[0].duration : 0;
    for (size_t i = 0; i < out.record_count; i++) critical += out.records[i].critical;
    for (size_t i = 0; i < out.segment_count; i++) segments += out.segments[i].duration;
    for (size_t i = 0; i < out.part_count; i++)
      for (int part = 0; part < FP_SELF_PARTS; part++) {
        CHECK(out.parts[i].time[part] >= 0);
        parts += out.parts[i].time[part];
      }
    CHECK(critical == whole && parts == whole && segments == whole);
  }
}

static void a_deep_nest_takes_no_deep_stack(void) {
  enum { DEEP = 200000 };
  int64_t *start = calloc(DEEP, sizeof *start), *duration = calloc(DEEP, sizeof *duration);
  int32_t *parent = calloc(DEEP, sizeof *parent), *iterator = calloc(DEEP, sizeof *iterator);
  CHECK(start && duration && parent && iterator);
  for (int i = 0; i < DEEP; i++) {
    start[i] = i;
    duration[i] = 2 * (DEEP - i);
    parent[i] = i - 1;
    iterator[i] = i % 7;
  }
  const int32_t root = 0, pipeline = 0;
  const uint8_t own[7] = {FP_OTHER}, traced = 0;
  fp_pipeline_work work = {.events = {start, duration, parent, iterator, DEEP, 7}, .own_part = own,
                           .calls = {&root, &pipeline, &traced, 1}};
  fp_vector records = {0}, segments = {0}, parts = {0};
  fp_memory memory;
  fp_memory_init(&memory);
  CHECK(fp_pipeline_calls(&memory, &work, &records, &segments, &parts) == FP_OK);
  CHECK(records.count == 7 && segments.count == 0);
  fp_vector_free(&memory, &records);
  fp_vector_free(&memory, &parts);
  free(start);
  free(duration);
  free(parent);
  free(iterator);
}

static void the_nearest_marked_row_is_found(void) {
  const int32_t parent[] = {-1, 0, 1, 1, -1, 4};
  const uint8_t marks[] = {1, 0, 2, 4, 0, 1};
  int32_t nearest[6];
  fp_nearest_marked(parent, marks, 1, 6, nearest);
  const int32_t wanted[] = {0, 0, 0, 0, -1, 5};
  CHECK(!memcmp(nearest, wanted, sizeof wanted));
  fp_nearest_marked(parent, marks, 6, 6, nearest);
  CHECK(nearest[2] == 2 && nearest[3] == 3 && nearest[1] == -1);
}

static void trees_are_listed_before_what_is_below(void) {
  /* Row 3 is a root below row 0; 5 and 6 form a circle; 9 has a parent that does not exist. */
  const int32_t parent[] = {-1, 0, 1, 1, 0, 6, 5, 3, 7, 77}, roots[] = {3, 0, 3};
  int32_t order[10], depth[10];
  fp_memory memory;
  for (int64_t allowed = 0;; allowed++) {
    fp_memory_init(&memory);
    memory.countdown = allowed;
    size_t found;
    fp_code code = fp_preorder(&memory, parent, 10, roots, 3, order, depth, &found);
    CHECK_INT(memory.live, 0);
    if (code != FP_OK) continue;
    CHECK(allowed > 3);
    CHECK_INT(found, 7);
    break;
  }
  const int32_t rows[] = {3, 7, 8, 0, 1, 2, 4}, depths[] = {0, 1, 2, 0, 1, 2, 1};
  CHECK(!memcmp(order, rows, sizeof rows) && !memcmp(depth, depths, sizeof depths));
}

static void running_out_of_memory_is_reported(void) {
  const event events[] = {{0, 100, -1, 0}, {50, 40, 0, 1}, {10, 60, 0, 1}, {20, 5, 2, 2}};
  const int32_t roots[] = {0, 0};
  fp_memory memory;
  result out = {0};
  for (int64_t allowed = 0;; allowed++) {
    fp_memory_init(&memory);
    memory.countdown = allowed;
    if (!walk(&memory, events, 4, roots, 2, NULL, 0, &out)) continue;
    CHECK(allowed > 8);
    break;
  }
  CHECK_INT(out.record_count, 6);
}

int main(void) {
  RUN(a_call_is_shared_out_from_its_root_down);
  RUN(children_that_overlap_take_their_time_in_order_of_start);
  RUN(what_ran_before_costs_nothing_and_does_not_block);
  RUN(segments_and_parts_add_up);
  RUN(circles_of_parents_end);
  RUN(any_times_are_taken);
  RUN(sums_hold_whatever_the_events);
  RUN(a_deep_nest_takes_no_deep_stack);
  RUN(the_nearest_marked_row_is_found);
  RUN(trees_are_listed_before_what_is_below);
  RUN(running_out_of_memory_is_reported);
  return 0;
}
