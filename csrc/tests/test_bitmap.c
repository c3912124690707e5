/* Bitmaps against a bit at a time. */
#include "kernels/bitmap.h"

#include "tests/check.h"
#include "tests/message.h"

static void bits_say_which_codes_are_wanted(void) {
  dice chance = {1};
  for (size_t count = 0; count < 300; count++) {
    uint8_t *codes = malloc(count), *bitmap = malloc((count + 7) / 8);
    CHECK((codes && bitmap) || !count);
    for (size_t i = 0; i < count; i++) codes[i] = (uint8_t)roll_below(&chance, 32);
    uint32_t wanted = (uint32_t)roll(&chance);
    size_t set = fp_bitmap_of_codes(codes, count, wanted, bitmap), counted = 0;
    for (size_t i = 0; i < count; i++) {
      unsigned bit = bitmap[i / 8] >> (i % 8) & 1u;
      CHECK_INT(bit, wanted >> codes[i] & 1);
      counted += bit;
    }
    CHECK_INT(set, counted);
    if (count % 8) CHECK_INT(bitmap[count / 8] >> (count % 8), 0); /* bits past the end are clear */
    free(codes);
    free(bitmap);
  }
}

static void all_and_none_can_be_wanted(void) {
  const uint8_t codes[9] = {0, 1, 2, 3, 4, 5, 6, 30, 31};
  uint8_t bitmap[2];
  CHECK_INT(fp_bitmap_of_codes(codes, 9, UINT32_MAX, bitmap), 9);
  CHECK(bitmap[0] == 0xFF && bitmap[1] == 1);
  CHECK_INT(fp_bitmap_of_codes(codes, 9, 0, bitmap), 0);
  CHECK(bitmap[0] == 0 && bitmap[1] == 0);
}

int main(void) {
  RUN(bits_say_which_codes_are_wanted);
  RUN(all_and_none_can_be_wanted);
  return 0;
}
