/* One pass, with two tables of numbers: of the sums by step, kind and cause, and of the time of each explanation in each
 * of these.
 *
 *    sums           0: step 7, idle, input     1: step 7, idle, python
 *    explanations   0: (sum 0, read) 30 us     1: (sum 1, main) 4 us      2: (sum 0, decode) 10 us
 */
#include "kernels/gap_sums.h"

/* Distinct keys, numbered as they are met. Slots of the hash table hold numbers + 1; 0: the slot is free. */
typedef struct numbering {
  uint32_t *slots;
  size_t slot_count; /* a power of two, more than twice the keys */
  fp_vector keys;    /* key */
} numbering;

typedef struct key {
  int64_t a, b;
} key;

typedef struct walk {
  fp_memory *memory;
  numbering of_sums, of_explanations;
  fp_vector *sums;
  fp_vector times; /* int64_t: of explanations */
} walk;

static size_t slot_of(const numbering *of, uint64_t seed, key one) {
  uint64_t mixed = ((uint64_t)one.a * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)one.b) * (seed | 1);
  mixed ^= mixed >> 32;
  size_t slot = mixed & (of->slot_count - 1);
  for (; of->slots[slot]; slot = (slot + 1) & (of->slot_count - 1)) {
    const key *other = (const key *)of->keys.items + of->slots[slot] - 1;
    if (other->a == one.a && other->b == one.b) break;
  }
  return slot;
}

/* Makes the table four times as large. */
static bool grow(fp_memory *memory, numbering *of) {
  size_t count = of->slot_count ? 4 * of->slot_count : 64;
  uint32_t *slots = fp_alloc_zeroed(memory, count, sizeof *slots);
  if (!slots) return false;
  fp_release(memory, of->slots);
  of->slots = slots;
  of->slot_count = count;
  for (size_t i = 0; i < of->keys.count; i++) slots[slot_of(of, memory->seed, ((key *)of->keys.items)[i])] = (uint32_t)i + 1;
  return true;
}

/* The number of a key; -1: memory runs out. */
static int64_t number_of(fp_memory *memory, numbering *of, key one) {
  if (2 * (of->keys.count + 1) > of->slot_count && !grow(memory, of)) return -1;
  size_t slot = slot_of(of, memory->seed, one);
  if (of->slots[slot]) return of->slots[slot] - 1;
  key *fresh = fp_vector_add(memory, &of->keys, sizeof *fresh);
  if (!fresh) return -1;
  *fresh = one;
  of->slots[slot] = (uint32_t)of->keys.count;
  return (int64_t)of->keys.count - 1;
}

static fp_code add_explained(walk *w, int64_t sum, int32_t what, int64_t length) {
  int64_t number = number_of(w->memory, &w->of_explanations, (key){sum, what});
  if (number < 0) return FP_NO_MEMORY;
  if ((size_t)number == w->times.count && !fp_vector_add(w->memory, &w->times, sizeof(int64_t))) return FP_NO_MEMORY;
  int64_t *time = (int64_t *)w->times.items + number;
  return __builtin_add_overflow(*time, length, time) ? FP_OVERFLOW : FP_OK;
}

static fp_code add(walk *w, const fp_gap *gap, int32_t what) {
  key one = {gap->group, (int64_t)gap->kind << 32 | (uint32_t)gap->cause};
  int64_t number = number_of(w->memory, &w->of_sums, one), length;
  if (number < 0) return FP_NO_MEMORY;
  if (__builtin_sub_overflow(gap->end, gap->begin, &length)) return FP_OVERFLOW;
  if ((size_t)number == w->sums->count) {
    fp_gap_sum *fresh = fp_vector_add(w->memory, w->sums, sizeof *fresh);
    if (!fresh) return FP_NO_MEMORY;
    *fresh = (fp_gap_sum){gap->group, gap->kind, gap->cause, -1, 0, 0, 0, INT64_MIN, 0};
  }
  fp_gap_sum *sum = (fp_gap_sum *)w->sums->items + number;
  sum->count++;
  if (length > sum->longest) {
    sum->longest = length;
    sum->longest_begin = gap->begin;
  }
  if (__builtin_add_overflow(sum->time, length, &sum->time)) return FP_OVERFLOW;
  if (gap->row >= 0) sum->explained += length; /* at most `time` */
  return what < 0 ? FP_OK : add_explained(w, number, what, length);
}

/* Of the explanations of each sum, the one with the most time. */
static bool choose(walk *w) {
  int64_t *most = fp_alloc_zeroed(w->memory, w->sums->count, sizeof *most);
  if (!most) return false;
  const key *keys = w->of_explanations.keys.items;
  for (size_t i = 0; i < w->times.count; i++) {
    fp_gap_sum *sum = (fp_gap_sum *)w->sums->items + keys[i].a;
    int64_t time = ((int64_t *)w->times.items)[i], best = most[keys[i].a];
    if (sum->what >= 0 && (time < best || (time == best && keys[i].b < sum->what))) continue;
    sum->what = (int32_t)keys[i].b;
    most[keys[i].a] = time;
  }
  fp_release(w->memory, most);
  return true;
}

fp_code fp_gap_sums(fp_memory *memory, const fp_gap *gaps, size_t count, const int32_t *name_of_row, int32_t names,
                    fp_vector *sums) {
  walk w = {.memory = memory, .sums = sums};
  fp_code code = FP_OK;
  for (size_t i = 0; i < count && !code; i++) {
    int32_t name = gaps[i].row < 0 ? -1 : name_of_row[gaps[i].row];
    int32_t what = gaps[i].row < 0 ? (gaps[i].transfer < 0 ? -1 : names + gaps[i].transfer) : name < 0 ? names - 1 : name;
    code = add(&w, &gaps[i], what);
  }
  if (!code && !choose(&w)) code = FP_NO_MEMORY;
  fp_release(memory, w.of_sums.slots);
  fp_release(memory, w.of_explanations.slots);
  fp_vector_free(memory, &w.of_sums.keys);
  fp_vector_free(memory, &w.of_explanations.keys);
  fp_vector_free(memory, &w.times);
  return code;
}
