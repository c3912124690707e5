/* Runs of a few keys are sorted by insertion and merged in pairs. What stands right before a merge is not touched:
 *
 *    first run       second run           keys by start
 *    1 2 3 4 | 7 9 | 5 6 8 | 10 11 12
 *    in place        in place
 *              7 9                        is copied, and merged with 5 6 8 into   5 6 7 8 9
 *
 * Profilers write events when they end, so enclosing events come somewhat late, and merges are short. */
#include "formats/key_order.h"

#include <string.h>

enum { RUN = 16 };

/* Keys that a merge has copied. */
typedef struct spare_keys {
  fp_memory *memory;
  fp_event_key *keys;
  size_t capacity;
} spare_keys;

static inline bool comes_before(const fp_event_key *a, const fp_event_key *b) {
  if (a->start != b->start) return a->start < b->start;
  if (a->reversed_duration != b->reversed_duration) return a->reversed_duration < b->reversed_duration;
  return a->offset < b->offset;
}

static void insert_all(fp_event_key *keys, size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (!comes_before(&keys[i], &keys[i - 1])) continue;
    fp_event_key key = keys[i];
    size_t at = i;
    for (; at && comes_before(&key, &keys[at - 1]); at--) keys[at] = keys[at - 1];
    keys[at] = key;
  }
}

/* How many of `count` sorted keys at the end come behind a key: looked for in steps that double. */
static size_t count_behind(const fp_event_key *end, size_t count, const fp_event_key *key) {
  size_t known = 0, step = 1;
  for (; known + step <= count && comes_before(key, end - known - step); step *= 2) known += step;
  for (; step; step /= 2)
    if (known + step <= count && comes_before(key, end - known - step)) known += step;
  return known;
}

/* How many of `count` sorted keys at the beginning come before a key. */
static size_t count_ahead(const fp_event_key *keys, size_t count, const fp_event_key *key) {
  size_t known = 0, step = 1;
  for (; known + step <= count && comes_before(&keys[known + step - 1], key); step *= 2) known += step;
  for (; step; step /= 2)
    if (known + step <= count && comes_before(&keys[known + step - 1], key)) known += step;
  return known;
}

static bool copied(spare_keys *spare, const fp_event_key *keys, size_t count) {
  if (count > spare->capacity) {
    fp_event_key *more = fp_resize(spare->memory, spare->keys, count * sizeof *more);
    if (!more) return false;
    spare->keys = more;
    spare->capacity = count;
  }
  memcpy(spare->keys, keys, count * sizeof *keys);
  return true;
}

/* Merges the sorted keys up to `middle` with those behind it. */
static bool merge(spare_keys *spare, fp_event_key *keys, size_t middle, size_t count) {
  if (!comes_before(&keys[middle], &keys[middle - 1])) return true;
  size_t left = count_behind(keys + middle, middle, &keys[middle]);
  size_t right = count_ahead(keys + middle, count - middle, &keys[middle - 1]);
  fp_event_key *to = keys + middle - left;
  const fp_event_key *second = keys + middle, *second_end = second + right;
  if (!copied(spare, to, left)) return false;
  const fp_event_key *first = spare->keys, *first_end = first + left;
  while (first < first_end) *to++ = second < second_end && comes_before(second, first) ? *second++ : *first++;
  return true;
}

bool fp_order_keys(fp_memory *memory, fp_event_key *keys, size_t count) {
  spare_keys spare = {.memory = memory};
  bool done = true;
  for (size_t at = 0; at < count; at += RUN) insert_all(keys + at, count - at < RUN ? count - at : RUN);
  for (size_t width = RUN; done && width < count; width *= 2)
    for (size_t at = 0, most; done && count - at > width; at += most) {
      most = count - at < 2 * width ? count - at : 2 * width;
      done = merge(&spare, keys + at, width, most);
    }
  fp_release(memory, spare.keys);
  return done;
}
