/* Levels of random lanes against the definition of slices; which levels are kept; limits of 64 bits. */
#include "kernels/mipmap.h"

#include "tests/check.h"
#include "tests/message.h"

enum { EVENTS = 6000, NAMES = 7 };

typedef struct line {
  int64_t start[EVENTS], duration[EVENTS];
  uint32_t name[EVENTS];
  size_t count;
} line;

/* Events of one lane: mostly bursts of short ones, sometimes a long one or a long gap. */
static void roll_line(line *events, size_t count, int64_t time, dice *chance) {
  events->count = count;
  for (size_t i = 0; i < count; i++) {
    int64_t length = (int64_t)(roll(chance) >> (roll_below(chance, 9) ? 58 : 40));
    events->start[i] = time;
    events->duration[i] = roll_below(chance, 8) ? length : -(int64_t)roll_below(chance, 3);
    events->name[i] = (uint32_t)roll_below(chance, NAMES);
    time = fp_counted_end(time, events->duration[i]) + (int64_t)(roll(chance) >> (roll_below(chance, 20) ? 57 : 36));
  }
}

/* Whether event i is shorter than a bucket of the level, and so may be joined. */
static bool is_short(const line *events, size_t i, int level) {
  int64_t end = fp_lane_end(events->start, events->duration, i, events->count);
  return (uint64_t)end - (uint64_t)events->start[i] < (uint64_t)1 << level;
}

/* The slice that begins with event `first`, by definition. */
static size_t slice_slowly(const line *events, size_t first, int level, fp_slice *slice) {
  int64_t time[NAMES] = {0}, busy = 0;
  bool met[NAMES] = {0};
  size_t i = first;
  for (;; i++) {
    int64_t end = fp_lane_end(events->start, events->duration, i, events->count);
    int64_t length = events->duration[i] > 0 ? events->duration[i] : 0;
    if (length > end - events->start[i]) length = end - events->start[i];
    time[events->name[i]] += length;
    met[events->name[i]] = true;
    busy += length;
    *slice = (fp_slice){events->start[first], end, busy, (uint32_t)first, 0};
    if (i + 1 == events->count || !is_short(events, i, level) || !is_short(events, i + 1, level)) break;
    if (events->start[i] >> level != events->start[i + 1] >> level) break;
  }
  uint32_t name = NAMES;
  for (uint32_t n = 0; n < NAMES; n++)
    if (met[n] && (name == NAMES || time[n] > time[name])) name = n;
  slice->name = name;
  return i + 1;
}

static void begin(fp_mipmap *mipmap, fp_memory *memory) {
  *mipmap = (fp_mipmap){.memory = memory};
  mipmap->times.memory = memory;
}

static void levels_hold_what_the_definition_says(void) {
  static line events;
  dice chance = {3};
  for (int round = 0; round < 25; round++) {
    fp_memory memory;
    fp_mipmap mipmap;
    fp_memory_init(&memory);
    begin(&mipmap, &memory);
    int64_t from = round % 3 == 0 ? -(int64_t)(roll(&chance) >> 24) : (int64_t)(roll(&chance) >> 20);
    roll_line(&events, (size_t)(EVENTS - roll_below(&chance, 3000)), from, &chance);
    fp_lane lane = {.count = (uint32_t)events.count};
    CHECK(fp_mipmap_add(&mipmap, events.start, events.duration, events.name, NAMES, &lane));
    CHECK(lane.levels > 3 && lane.levels == mipmap.levels.count);
    const fp_level *levels = mipmap.levels.items;
    for (uint32_t k = 0; k < lane.levels; k++) {
      const fp_slice *found = (fp_slice *)mipmap.slices.items + levels[k].first;
      size_t next = 0;
      for (uint32_t i = 0; i < levels[k].count; i++) {
        fp_slice wanted;
        CHECK_INT(found[i].first, next);
        next = slice_slowly(&events, next, (int)levels[k].level, &wanted);
        CHECK_INT(found[i].start, wanted.start);
        CHECK_INT(found[i].end, wanted.end);
        CHECK_INT(found[i].busy, wanted.busy);
        CHECK_INT(found[i].name, wanted.name);
      }
      CHECK_INT(next, events.count);
    }
    fp_mipmap_free(&mipmap);
    CHECK_INT(memory.live, 0);
  }
}

static void few_slices_are_kept(void) {
  static line events;
  dice chance = {4};
  fp_memory memory;
  fp_mipmap mipmap;
  fp_memory_init(&memory);
  begin(&mipmap, &memory);
  roll_line(&events, EVENTS, 0, &chance);
  fp_lane lane = {.count = EVENTS};
  CHECK(fp_mipmap_add(&mipmap, events.start, events.duration, events.name, NAMES, &lane));
  CHECK(mipmap.slices.count < EVENTS / 2);
  const fp_level *levels = mipmap.levels.items;
  CHECK(levels[0].count <= EVENTS / 8);
  for (uint32_t k = 1; k < lane.levels; k++) CHECK(levels[k].level > levels[k - 1].level && levels[k].count < levels[k - 1].count);
  fp_lane small = {.count = 100};
  CHECK(fp_mipmap_add(&mipmap, events.start, events.duration, events.name, NAMES, &small) && small.levels == 0);
  fp_mipmap_free(&mipmap);
}

static void neighbours_join_when_both_are_shorter_than_the_bucket(void) {
  CHECK_INT(fp_joined_from(0, 3, 3, 4), 2);      /* 3 ps fit in buckets of 4 */
  CHECK_INT(fp_joined_from(0, 4, 4, 5), 3);      /* 4 ps do not */
  CHECK_INT(fp_joined_from(7, 8, 8, 9), 4);      /* 7 and 8 are in one bucket of 16 */
  CHECK_INT(fp_joined_from(5, 5, 5, 6), 1);
  CHECK_INT(fp_joined_from(-1, 0, 0, 1), 64);    /* never: no bucket lies across zero */
  CHECK_INT(fp_joined_from(INT64_MIN, INT64_MAX, INT64_MAX, INT64_MAX), 64);
}

static void times_at_the_ends_of_64_bits_do_not_overflow(void) {
  enum { COUNT = 600 };
  int64_t start[COUNT], duration[COUNT];
  uint32_t name[COUNT];
  for (int i = 0; i < COUNT; i++) {
    start[i] = i < 200 ? INT64_MIN : i < 400 ? 0 : INT64_MAX;
    duration[i] = i % 3 ? INT64_MAX : INT64_MIN;
    name[i] = (uint32_t)i % 2;
  }
  fp_memory memory;
  fp_mipmap mipmap;
  fp_memory_init(&memory);
  begin(&mipmap, &memory);
  fp_lane lane = {.count = COUNT};
  CHECK(fp_mipmap_add(&mipmap, start, duration, name, 2, &lane));
  fp_mipmap_free(&mipmap);
  CHECK_INT(memory.live, 0);
}

static void without_memory_it_says_so(void) {
  static line events;
  dice chance = {9};
  roll_line(&events, 1500, 0, &chance);
  for (int64_t allowed = 0;; allowed++) {
    fp_memory memory;
    fp_mipmap mipmap;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    begin(&mipmap, &memory);
    fp_lane lane = {.count = 1500};
    bool done = fp_mipmap_add(&mipmap, events.start, events.duration, events.name, NAMES, &lane);
    fp_mipmap_free(&mipmap);
    fp_mipmap_free(&mipmap);
    CHECK_INT(memory.live, 0);
    if (!done) continue;
    CHECK(allowed > 6);
    return;
  }
}

int main(void) {
  RUN(levels_hold_what_the_definition_says);
  RUN(few_slices_are_kept);
  RUN(neighbours_join_when_both_are_shorter_than_the_bucket);
  RUN(times_at_the_ends_of_64_bits_do_not_overflow);
  RUN(without_memory_it_says_so);
  return 0;
}
