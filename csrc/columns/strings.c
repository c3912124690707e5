/* A hash table of string numbers beside the strings themselves. Hashes are kept, so growing the table compares no
 * texts.
 *
 *    bytes     f u s i o n c o p y            offsets   0 6 10
 *    slots     0 2 0 0 1 0 ...                1 + number: "copy" is in slot 1, "fusion" in slot 4
 *    hashes    h("fusion") h("copy")
 */
#include "columns/strings.h"

#include <string.h>

size_t fp_strings_count(const fp_strings *pool) { return pool->offsets.count ? pool->offsets.count - 1 : 0; }

/* The high half of a product depends on all bits of both factors, the low half makes it harder to invert: combined,
 * they mix well in one multiplication. */
static uint64_t folded(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t eight_bytes(const uint8_t *text) {
  uint64_t word;
  memcpy(&word, text, sizeof word);
  return word;
}

static inline uint64_t four_bytes(const uint8_t *text) {
  uint32_t word;
  memcpy(&word, text, sizeof word);
  return word;
}

/* Up to eight bytes: of a length, no two texts give the same. */
static inline uint64_t few_bytes(const uint8_t *text, size_t length) {
  if (length >= 4) return four_bytes(text) << 32 | four_bytes(text + length - 4);
  return length ? (uint64_t)text[0] << 16 | (uint64_t)text[length / 2] << 8 | text[length - 1] : 0;
}

/* Takes sixteen bytes at a time; the last ones may have been taken before. The seed keeps a file from being made so
 * that its names collide. */
static uint32_t hash_of(uint64_t seed, const uint8_t *text, size_t length) {
  uint64_t hash = ~seed ^ length, factor = seed | 1;
  const uint8_t *end = text + length;
  for (; end - text > 16; text += 16) hash = folded(eight_bytes(text) ^ factor, eight_bytes(text + 8) ^ hash);
  if (length > 16) hash = folded(eight_bytes(end - 16) ^ factor, eight_bytes(end - 8) ^ hash);
  else if (length > 8) hash = folded(eight_bytes(text) ^ factor, eight_bytes(end - 8) ^ hash);
  else hash = folded(few_bytes(text, length) ^ hash, factor);
  hash = folded(hash, factor);
  return (uint32_t)(hash ^ (hash >> 32));
}

/* Doubles the slots. Fails only when memory runs out; the pool is unchanged then. */
static bool grow_slots(fp_strings *pool) {
  size_t slot_count = pool->slot_count ? pool->slot_count * 2 : 64;
  uint32_t *slots = fp_alloc_zeroed(pool->memory, slot_count, sizeof *slots);
  if (!slots) return false;
  uint32_t *hashes = fp_resize(pool->memory, pool->hashes, slot_count * sizeof *hashes);
  if (!hashes) {
    fp_release(pool->memory, slots);
    return false;
  }
  size_t count = fp_strings_count(pool);
  for (size_t i = 0; i < count; i++) {
    size_t slot = hashes[i] & (slot_count - 1);
    while (slots[slot]) slot = (slot + 1) & (slot_count - 1);
    slots[slot] = (uint32_t)i + 1;
  }
  fp_release(pool->memory, pool->slots);
  pool->slots = slots;
  pool->hashes = hashes;
  pool->slot_count = slot_count;
  return true;
}

/* Appends a string to `bytes` and `offsets`, both or neither. */
static bool append(fp_strings *pool, const uint8_t *text, size_t length) {
  if (!fp_vector_reserve(pool->memory, &pool->bytes, 1, length)) return false;
  if (!fp_vector_reserve(pool->memory, &pool->offsets, sizeof(int64_t), 2)) return false;
  int64_t *offsets = pool->offsets.items;
  if (!pool->offsets.count) offsets[pool->offsets.count++] = 0;
  if (length) memcpy((uint8_t *)pool->bytes.items + pool->bytes.count, text, length);
  pool->bytes.count += length;
  offsets[pool->offsets.count++] = (int64_t)pool->bytes.count;
  return true;
}

/* The slot of a text, or the free one where it belongs. The pool must have slots; half of them are always free. */
static size_t slot_of(const fp_strings *pool, uint32_t hash, const uint8_t *text, size_t length) {
  size_t slot = hash & (pool->slot_count - 1);
  const int64_t *offsets = pool->offsets.items;
  const uint8_t *bytes = pool->bytes.items;
  for (; pool->slots[slot]; slot = (slot + 1) & (pool->slot_count - 1)) {
    uint32_t i = pool->slots[slot] - 1;
    if (pool->hashes[i] != hash || (size_t)(offsets[i + 1] - offsets[i]) != length) continue;
    if (!length || !memcmp(bytes + offsets[i], text, length)) break;
  }
  return slot;
}

int32_t fp_strings_find(const fp_strings *pool, const uint8_t *text, size_t length) {
  if (!pool->slot_count) return -1;
  return (int32_t)pool->slots[slot_of(pool, hash_of(pool->memory->seed, text, length), text, length)] - 1;
}

int32_t fp_strings_add(fp_strings *pool, const uint8_t *text, size_t length) {
  size_t count = fp_strings_count(pool);
  if (count * 2 >= pool->slot_count && !grow_slots(pool)) return -1;
  uint32_t hash = hash_of(pool->memory->seed, text, length);
  size_t slot = slot_of(pool, hash, text, length);
  if (pool->slots[slot]) return (int32_t)pool->slots[slot] - 1;
  if (count >= INT32_MAX || !append(pool, text, length)) return -1;
  pool->hashes[count] = hash;
  pool->slots[slot] = (uint32_t)count + 1;
  return (int32_t)count;
}

void fp_strings_free(fp_strings *pool) {
  fp_vector_free(pool->memory, &pool->bytes);
  fp_vector_free(pool->memory, &pool->offsets);
  fp_release(pool->memory, pool->slots);
  fp_release(pool->memory, pool->hashes);
  pool->slots = pool->hashes = NULL;
  pool->slot_count = 0;
}
