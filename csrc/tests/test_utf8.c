/* UTF-8 against its definition, for every sequence of three bytes and many of four. */
#include "columns/utf8.h"

#include "tests/check.h"
#include "tests/message.h"

/* Checks a text in a block of exactly its size. */
static bool valid(const void *text, size_t size) {
  uint8_t *block = malloc(size);
  CHECK(block || !size);
  if (size) memcpy(block, text, size);
  bool answer = fp_utf8_valid(block, size);
  free(block);
  return answer;
}

/* The definition: text that decodes, and encodes again to the same bytes. */
static size_t character(const uint8_t *p, size_t left) {
  size_t size = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
  if (!size || size > left) return 0;
  uint32_t code = size == 1 ? p[0] : p[0] & (0x7Fu >> size);
  for (size_t i = 1; i < size; i++) {
    if (p[i] >> 6 != 2) return 0;
    code = code << 6 | (p[i] & 0x3F);
  }
  size_t needed = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  bool surrogate = code >= 0xD800 && code < 0xE000;
  return needed == size && !surrogate && code <= 0x10FFFF ? size : 0;
}

static void every_sequence_of_three_bytes_is_judged_rightly(void) {
  for (uint32_t all = 0; all < 1 << 24; all++) {
    uint8_t bytes[3] = {(uint8_t)(all >> 16), (uint8_t)(all >> 8), (uint8_t)all};
    size_t at = 0, size = 0;
    while (at < 3 && (size = character(bytes + at, 3 - at))) at += size;
    CHECK_INT(fp_utf8_valid(bytes, 3), at == 3);
  }
}

static void characters_of_four_bytes_are_judged_rightly(void) {
  for (unsigned lead = 0xF0; lead < 0x100; lead++)
    for (unsigned second = 0; second < 0x100; second++)
      for (unsigned third = 0x7E; third < 0xC2; third++) {
        uint8_t bytes[4] = {(uint8_t)lead, (uint8_t)second, (uint8_t)third, 0xBF};
        CHECK_INT(fp_utf8_valid(bytes, 4), character(bytes, 4) == 4);
      }
}

static void a_character_cut_off_by_the_end_is_invalid(void) {
  const char text[] = "ABCDEFG\xF0\x9F\x98\x80";
  CHECK(valid(text, 11));
  for (size_t size = 8; size < 11; size++) CHECK(!valid(text, size));
}

static void a_bad_byte_is_found_wherever_it_stands(void) {
  for (size_t size = 1; size < 40; size++)
    for (size_t at = 0; at < size; at++) {
      uint8_t text[40];
      memset(text, 'a', size);
      CHECK(valid(text, size));
      text[at] = 0x80;
      CHECK(!valid(text, size));
    }
}

static void nothing_and_zero_bytes_are_text(void) {
  CHECK(fp_utf8_valid(NULL, 0));
  CHECK(valid("\0\0", 2));
}

static void repairing_makes_any_bytes_valid(void) {
  dice chance = {1};
  for (int i = 0; i < 20000; i++) {
    uint8_t text[20];
    size_t size = (size_t)roll_below(&chance, sizeof text);
    for (size_t j = 0; j < size; j++) text[j] = (uint8_t)roll(&chance);
    size_t room = fp_utf8_repair(text, size, NULL);
    CHECK(room <= 3 * size);
    uint8_t *repaired = malloc(room);
    CHECK(repaired || !room);
    CHECK_INT(fp_utf8_repair(text, size, repaired), room);
    CHECK(fp_utf8_valid(repaired, room));
    CHECK(!fp_utf8_valid(text, size) || (room == size && (!size || !memcmp(text, repaired, size))));
    free(repaired);
  }
}

static void each_bad_byte_becomes_one_replacement(void) {
  uint8_t out[16];
  CHECK_INT(fp_utf8_repair((const uint8_t *)"a\xFF\xC3z", 4, out), 8);
  CHECK(!memcmp(out, "a\xEF\xBF\xBD\xEF\xBF\xBDz", 8));
}

int main(void) {
  RUN(every_sequence_of_three_bytes_is_judged_rightly);
  RUN(characters_of_four_bytes_are_judged_rightly);
  RUN(a_character_cut_off_by_the_end_is_invalid);
  RUN(a_bad_byte_is_found_wherever_it_stands);
  RUN(nothing_and_zero_bytes_are_text);
  RUN(repairing_makes_any_bytes_valid);
  RUN(each_bad_byte_becomes_one_replacement);
  return 0;
}
