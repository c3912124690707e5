/* Maps of ids: dense and sparse ones, repeated ids, and random ids that must all be found again. */
#include "columns/id_map.h"

#include "tests/check.h"
#include "tests/message.h"

static void build(fp_memory *memory, fp_id_map *map, const int64_t *ids, size_t count, int32_t first) {
  fp_memory_init(memory);
  CHECK(fp_id_map_build(memory, map, ids, count, first));
}

/* Frees the map, twice, and checks that no block is left. */
static void end(fp_memory *memory, fp_id_map *map) {
  fp_id_map_free(memory, map);
  fp_id_map_free(memory, map);
  CHECK_INT(memory->live, 0);
}

static void an_empty_map_finds_nothing(void) {
  fp_memory memory;
  fp_id_map map = {0};
  CHECK_INT(fp_id_map_find(&map, 0), -1);
  build(&memory, &map, NULL, 0, 5);
  for (int64_t id = -2; id < 3; id++) CHECK_INT(fp_id_map_find(&map, id), -1);
  CHECK_INT(fp_id_map_find(&map, INT64_MIN), -1);
  end(&memory, &map);
}

static void ids_near_each_other_are_an_array(void) {
  fp_memory memory;
  fp_id_map map;
  const int64_t ids[] = {3, 0, 7};
  build(&memory, &map, ids, 3, 100);
  CHECK_INT(map.dense_count, 8);
  CHECK_INT(fp_id_map_find(&map, 3), 100);
  CHECK_INT(fp_id_map_find(&map, 0), 101);
  CHECK_INT(fp_id_map_find(&map, 7), 102);
  for (int64_t id = -1; id < 20; id++)
    if (id != 3 && id != 0 && id != 7) CHECK_INT(fp_id_map_find(&map, id), -1);
  end(&memory, &map);
}

static void ids_far_apart_are_hashed(void) {
  fp_memory memory;
  fp_id_map map;
  const int64_t ids[] = {INT64_MIN, -1, 0, 1, INT64_MAX, INT64_C(1) << 40};
  build(&memory, &map, ids, 6, 0);
  CHECK(map.slot_count > 0 && map.dense_count == 0);
  for (int i = 0; i < 6; i++) CHECK_INT(fp_id_map_find(&map, ids[i]), i);
  for (int64_t id = 2; id < 1000; id++) CHECK_INT(fp_id_map_find(&map, id * 1000003), -1);
  CHECK_INT(fp_id_map_find(&map, INT64_MIN + 1), -1);
  end(&memory, &map);
}

static void of_equal_ids_the_last_counts(void) {
  const int64_t near[] = {1, 2, 1}, far[] = {-1, 2, -1};
  for (int i = 0; i < 2; i++) {
    fp_memory memory;
    fp_id_map map;
    build(&memory, &map, i ? far : near, 3, 10);
    CHECK_INT(fp_id_map_find(&map, i ? -1 : 1), 12);
    CHECK_INT(fp_id_map_find(&map, 2), 11);
    end(&memory, &map);
  }
}

static void any_ids_are_found_again(void) {
  dice chance = {9};
  for (int round = 0; round < 200; round++) {
    enum { MOST = 700 };
    int64_t ids[MOST];
    size_t count = 1 + (size_t)roll_below(&chance, MOST);
    uint64_t bits = roll_below(&chance, 64);
    for (size_t i = 0; i < count; i++) ids[i] = (int64_t)(roll(&chance) >> bits);
    fp_memory memory;
    fp_id_map map;
    build(&memory, &map, ids, count, 0);
    for (size_t i = 0; i < count; i++) {
      int32_t row = fp_id_map_find(&map, ids[i]);
      CHECK(row >= (int32_t)i && row < (int32_t)count && ids[row] == ids[i]);
    }
    end(&memory, &map);
  }
}

static void a_map_without_memory_is_empty(void) {
  const int64_t near[] = {1}, far[] = {-1};
  for (int64_t allowed = 0; allowed < 2; allowed++) {
    fp_memory memory;
    fp_id_map map;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    CHECK(!fp_id_map_build(&memory, &map, far, 1, 0));
    CHECK_INT(fp_id_map_find(&map, -1), -1);
    CHECK_INT(memory.live, 0);
    memory.countdown = 0;
    CHECK(!fp_id_map_build(&memory, &map, near, 1, 0));
    CHECK_INT(fp_id_map_find(&map, 1), -1);
    end(&memory, &map);
  }
}

int main(void) {
  RUN(an_empty_map_finds_nothing);
  RUN(ids_near_each_other_are_an_array);
  RUN(ids_far_apart_are_hashed);
  RUN(of_equal_ids_the_last_counts);
  RUN(any_ids_are_found_again);
  RUN(a_map_without_memory_is_empty);
  return 0;
}
