/* Kinds of damage, chosen so that they get past the first check of a length or tag more often than random bytes
 * would. */
#include "fuzz/mutate.h"

#include "tests/check.h"

/* Single bits, as disks and memory lose them. */
static void flip_bits(input *one, dice *chance) {
  for (uint64_t times = 1 + roll_below(chance, 4); times--;)
    one->data[roll_below(chance, one->size)] ^= (uint8_t)(1u << roll_below(chance, 8));
}

/* A run of one value; half of the time one that means something in protobuf, such as a tag, a continuation bit or an
 * incomplete character. */
static void set_bytes(input *one, dice *chance) {
  static const uint8_t meaningful[] = {0,    1,    0x0A, 0x0B, 0x0C, 0x12, 0x1A, 0x22,
                                       0x2A, 0x3F, 0x7F, 0x80, 0xC3, 0xFE, 0xFF};
  uint8_t value = roll_below(chance, 2) ? (uint8_t)roll(chance) : meaningful[roll_below(chance, sizeof meaningful)];
  size_t at = (size_t)roll_below(chance, one->size), length = 1 + (size_t)roll_below(chance, 1 << roll_below(chance, 5));
  for (size_t i = at; i < one->size && i - at < length; i++) one->data[i] = value;
}

/* A gap of up to 4 KiB. */
static void remove_bytes(input *one, dice *chance) {
  size_t at = (size_t)roll_below(chance, one->size), length = 1 + (size_t)roll_below(chance, 1 << roll_below(chance, 12));
  if (length > one->size - at) length = one->size - at;
  memmove(one->data + at, one->data + at + length, one->size - at - length);
  one->size -= length;
}

/* Inserts bytes of the same or another file, or overwrites with them. */
static void splice(input *one, const input *other, dice *chance) {
  if (!other->size) return;
  size_t at = (size_t)roll_below(chance, one->size + 1), from = (size_t)roll_below(chance, other->size);
  size_t length = 1 + (size_t)roll_below(chance, 1 << roll_below(chance, 12));
  if (length > other->size - from) length = other->size - from;
  if (roll_below(chance, 2)) { /* overwrite */
    if (length > one->size - at) length = one->size - at;
    memcpy(one->data + at, other->data + from, length);
    return;
  }
  one->data = realloc(one->data, one->size + length);
  CHECK(one->data != NULL);
  memmove(one->data + at + length, one->data + at, one->size - at);
  memcpy(one->data + at, other->data + from, length);
  one->size += length;
}

/* Makes a number slightly larger or smaller: lengths and tags that nearly fit. */
static void nudge(input *one, dice *chance) {
  one->data[roll_below(chance, one->size)] += (uint8_t)(roll_below(chance, 9) - 4);
}

/* One to three kinds of damage; two in ten times the file is cut off. */
input mutated(const input *from, size_t count, dice *chance) {
  const input *original = &from[roll_below(chance, count)];
  input one = *original;
  one.data = malloc(one.size + 1);
  CHECK(one.data != NULL);
  if (one.size) memcpy(one.data, original->data, one.size);
  for (uint64_t times = 1 + roll_below(chance, 3); times-- && one.size;) {
    uint64_t kind = roll_below(chance, 10);
    if (kind < 2)
      one.size = (size_t)roll_below(chance, one.size);
    else if (kind < 5)
      flip_bits(&one, chance);
    else if (kind < 6)
      set_bytes(&one, chance);
    else if (kind < 7)
      remove_bytes(&one, chance);
    else if (kind < 8)
      nudge(&one, chance);
    else
      splice(&one, &from[roll_below(chance, count)], chance);
  }
  return one;
}
