/* Pools of texts: their numbers, growth, texts of every length, and pools that cannot grow. */
#include "columns/strings.h"

#include "tests/check.h"
#include "tests/message.h"

static fp_strings begin(fp_memory *memory) {
  fp_memory_init(memory);
  return (fp_strings){.memory = memory};
}

/* Frees the pool, twice, and checks that no block is left. */
static void end(fp_strings *pool) {
  fp_memory *memory = pool->memory;
  fp_strings_free(pool);
  fp_strings_free(pool);
  CHECK_INT(memory->live, 0);
}

static int32_t add(fp_strings *pool, const char *text) { return fp_strings_add(pool, (const uint8_t *)text, strlen(text)); }

static void check_text(const fp_strings *pool, int32_t i, const void *text, size_t size) {
  const int64_t *offsets = pool->offsets.items;
  CHECK_INT(offsets[i + 1] - offsets[i], size);
  CHECK(!size || !memcmp((const char *)pool->bytes.items + offsets[i], text, size));
}

static void texts_are_numbered_as_they_are_first_met(void) {
  fp_memory memory;
  fp_strings pool = begin(&memory);
  CHECK_INT(add(&pool, "a"), 0);
  CHECK_INT(add(&pool, "b"), 1);
  CHECK_INT(add(&pool, "a"), 0);
  CHECK_INT(add(&pool, "ab"), 2);
  CHECK_INT(fp_strings_count(&pool), 3);
  check_text(&pool, 2, "ab", 2);
  end(&pool);
}

static void the_empty_text_is_a_text(void) {
  fp_memory memory;
  fp_strings pool = begin(&memory);
  CHECK_INT(fp_strings_count(&pool), 0);
  CHECK_INT(fp_strings_add(&pool, NULL, 0), 0);
  CHECK_INT(fp_strings_add(&pool, NULL, 0), 0);
  CHECK_INT(add(&pool, "x"), 1);
  CHECK_INT(fp_strings_add(&pool, (const uint8_t *)"", 0), 0);
  check_text(&pool, 0, "", 0);
  end(&pool);
}

static void texts_that_differ_in_one_byte_differ(void) {
  fp_memory memory;
  fp_strings pool = begin(&memory);
  for (size_t size = 1; size < 40; size++)
    for (size_t at = 0; at < size; at++) {
      uint8_t text[40];
      memset(text, 'a', size);
      text[at] = 0;
      size_t before = fp_strings_count(&pool);
      CHECK_INT(fp_strings_add(&pool, text, size), before);
      CHECK_INT(fp_strings_add(&pool, text, size), before);
    }
  end(&pool);
}

static void a_pool_holds_what_it_was_given_while_it_grows(void) {
  fp_memory memory;
  fp_strings pool = begin(&memory);
  dice chance = {7};
  enum { TEXTS = 20000 };
  static uint8_t texts[TEXTS][16];
  int32_t numbers[64] = {0};
  for (int i = 0; i < TEXTS; i++) {
    for (int j = 0; j < 16; j++) texts[i][j] = (uint8_t)roll(&chance);
    CHECK_INT(fp_strings_add(&pool, texts[i], 16), i);
    if (i < 64) numbers[i] = i;
  }
  for (int i = 0; i < TEXTS; i++) CHECK_INT(fp_strings_add(&pool, texts[i], 16), i);
  for (int i = 0; i < 64; i++) check_text(&pool, numbers[i], texts[i], 16);
  CHECK_INT(fp_strings_count(&pool), TEXTS);
  end(&pool);
}

static void the_text_is_read_to_its_end_and_no_further(void) {
  fp_memory memory;
  fp_strings pool = begin(&memory);
  for (size_t size = 0; size < 30; size++) {
    uint8_t *block = malloc(size);
    CHECK(block || !size);
    if (size) memset(block, 'q', size);
    CHECK_INT(fp_strings_add(&pool, block, size), size);
    free(block);
  }
  end(&pool);
}

static void a_pool_that_could_not_grow_is_as_it_was(void) {
  for (int64_t allowed = 0; allowed < 12; allowed++) {
    fp_memory memory;
    fp_strings pool = begin(&memory);
    memory.countdown = allowed;
    char text[16];
    int32_t added = 0;
    for (int i = 0; i < 200 && added >= 0; i++) {
      snprintf(text, sizeof text, "%d", i);
      added = add(&pool, text);
    }
    size_t count = fp_strings_count(&pool);
    memory.countdown = -1;
    for (int i = 0; i < 300; i++) {
      snprintf(text, sizeof text, "%d", i);
      CHECK_INT(add(&pool, text), i);
    }
    CHECK(added < 0 ? count < 200 : count == 200);
    end(&pool);
  }
}

static void texts_are_found_where_they_are(void) {
  fp_memory memory;
  fp_strings pool = begin(&memory);
  CHECK_INT(fp_strings_find(&pool, (const uint8_t *)"a", 1), -1);
  for (int i = 0; i < 200; i++) {
    char text[8];
    int length = snprintf(text, sizeof text, "%d", i);
    CHECK_INT(fp_strings_find(&pool, (const uint8_t *)text, (size_t)length), -1);
    CHECK_INT(add(&pool, text), i);
    CHECK_INT(fp_strings_find(&pool, (const uint8_t *)text, (size_t)length), i);
  }
  CHECK_INT(fp_strings_find(&pool, (const uint8_t *)"77", 2), 77);
  CHECK_INT(fp_strings_find(&pool, (const uint8_t *)"", 0), -1);
  CHECK_INT(fp_strings_count(&pool), 200);
  end(&pool);
}

int main(void) {
  RUN(texts_are_numbered_as_they_are_first_met);
  RUN(the_empty_text_is_a_text);
  RUN(texts_are_found_where_they_are);
  RUN(texts_that_differ_in_one_byte_differ);
  RUN(a_pool_holds_what_it_was_given_while_it_grows);
  RUN(the_text_is_read_to_its_end_and_no_further);
  RUN(a_pool_that_could_not_grow_is_as_it_was);
  return 0;
}
