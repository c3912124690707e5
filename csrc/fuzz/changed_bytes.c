/* Bytes that change after they were indexed, in memory or in a file, which may become shorter too, give an error, or a
 * result whose every index is valid. Nothing outside the buffers is read or written. */
#include "fuzz/target.h"
#include "tests/decoding.h"

/* Flips bits, sets bytes, moves and fills short ranges. The size stays the same. */
static void change(uint8_t *data, size_t size, dice *chance) {
  size_t times = 1 + (size_t)roll_below(chance, 1 << roll_below(chance, 7));
  for (size_t i = 0; size && i < times; i++) {
    size_t at = (size_t)roll_below(chance, size), length = 1 + (size_t)roll_below(chance, 12);
    if (length > size - at) length = size - at;
    switch (roll_below(chance, 4)) {
      case 0: data[at] ^= (uint8_t)(1u << roll_below(chance, 8)); break;
      case 1: data[at] = (uint8_t)roll(chance); break;
      case 2: memmove(data + at, data + roll_below(chance, size - length + 1), length); break;
      default: memset(data + at, (int)roll_below(chance, 2) * 0xFF, length); break;
    }
  }
}

/* Changes what the passes read. */
static void change_bytes(decoding *d, uint8_t *data, dice *chance) {
  change(data, d->size, chance);
  decoding_rewrite(d, roll_below(chance, 8) ? d->size : (size_t)roll_below(chance, d->size + 1));
}

/* After a success, texts and stats must lie in their dictionaries, whatever the bytes say now. */
static void check_result(decoding *d, fp_code code, columns *c) {
  if (!code) columns_check(c, d);
  columns_free(c, d);
}

/* Changes the bytes between the passes: after opening, after the index, and between fills. */
static void decode(const uint8_t *data, size_t size, bool salvage, uint64_t most, dice *chance) {
  uint8_t *copy = malloc(size);
  CHECK(copy || !size);
  if (size) memcpy(copy, data, size);
  decoding d = {.data = copy, .size = size, .salvage = salvage, .depth = roll_below(chance, 4) ? FP_STATS : FP_EVENTS,
                .segment_size = 1 + roll_below(chance, 1 << 14), .budget = UINT64_MAX, .most = most};
  decoding_begin(&d);
  fp_code code = decoding_open(&d);
  if (!code && !roll_below(chance, 4)) change_bytes(&d, copy, chance);
  if (!code) code = decoding_index(&d);
  if (!code) {
    const fp_filter filter = {.from_ps = -1000, .to_ps = INT64_MAX / 2, .timed = 1};
    columns c;
    change_bytes(&d, copy, chance);
    code = decoding_fill(&d, NULL, &c);
    check_result(&d, code, &c);
    code = decoding_fill_keys(&d, &filter, &c);
    check_result(&d, code, &c);
    change_bytes(&d, copy, chance);
    code = decoding_fill(&d, &filter, &c);
    check_result(&d, code, &c);
    decoding_fill_spans(&d, false);
    decoding_fill_spans(&d, true);
  }
  decoding_free(&d);
  free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  for (int times = 0; times < 2; times++) {
    uint64_t most = times ? 1 + roll_below(&chance, 1 << roll_below(&chance, 12)) : 0;
    decode(data, size, false, most, &chance);
    decode(data, size, true, most, &chance);
  }
  return 0;
}
