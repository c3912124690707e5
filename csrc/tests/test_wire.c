/* The wire format: varints, tags, lengths and groups at their limits, and the fast readers against the general ones. */
#include "formats/wire.h"

#include "formats/xspace_event.h"
#include "tests/check.h"
#include "tests/message.h"

/* A copy in a block of exactly its size. */
static uint8_t *block_of(const message *m) {
  uint8_t *block = malloc(m->size);
  CHECK(block || !m->size);
  if (m->size) memcpy(block, m->bytes, m->size);
  return block;
}

static void varints_of_every_length_are_read(void) {
  for (int bits = 0; bits <= 64; bits++) {
    uint64_t wanted = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1, value;
    message m = {0};
    put_varint(&m, wanted);
    uint8_t *block = block_of(&m);
    const uint8_t *p = block;
    CHECK(wire_varint(&p, block + m.size, &value));
    CHECK(value == wanted && p == block + m.size);
    p = block;
    CHECK(!wire_varint(&p, block + m.size - 1, &value)); /* cut off */
    CHECK(p == block);
    free(block);
    message_free(&m);
  }
}

static void varints_may_be_longer_than_need_be(void) {
  for (int size = 1; size <= 10; size++) {
    message m = {0};
    uint64_t value;
    put_long_varint(&m, 5, size);
    const uint8_t *p = m.bytes;
    CHECK(wire_varint(&p, m.bytes + m.size, &value) && value == 5 && p == m.bytes + size);
    message_free(&m);
  }
}

static void a_varint_of_eleven_bytes_is_none(void) {
  message m = {0};
  uint64_t value;
  put_long_varint(&m, 5, 11);
  const uint8_t *p = m.bytes;
  CHECK(!wire_varint(&p, m.bytes + m.size, &value));
  message_free(&m);
}

static void bits_past_the_64th_are_dropped(void) {
  const uint8_t bytes[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F};
  const uint8_t *p = bytes;
  uint64_t value;
  CHECK(wire_varint(&p, bytes + 10, &value) && value == UINT64_MAX);
}

static void the_fast_way_reads_the_same_varints(void) {
  dice chance = {3};
  for (int i = 0; i < 100000; i++) {
    uint8_t bytes[16];
    for (int j = 0; j < 16; j++) bytes[j] = (uint8_t)(roll(&chance) | (roll_below(&chance, 4) ? 0x80 : 0));
    const uint8_t *slow = bytes, *fast = bytes;
    uint64_t wanted = 0, found = 0;
    bool one = wire_varint(&slow, bytes + 16, &wanted), other = wire_varint_fast(&fast, &found);
    CHECK(one == other && slow == fast && wanted == found);
  }
}

/* Whether all of the bytes are one tag. */
static bool is_tag(const uint8_t *bytes, size_t size) {
  uint32_t tag;
  const uint8_t *p = bytes;
  return wire_tag(&p, bytes + size, &tag);
}

static void tags_have_a_field_number_and_a_wire_type(void) {
  CHECK(is_tag((const uint8_t[]){0x08}, 1));
  CHECK(!is_tag((const uint8_t[]){0x00}, 1) && !is_tag((const uint8_t[]){0x07}, 1)); /* field 0 */
  CHECK(!is_tag((const uint8_t[]){0x0E}, 1) && !is_tag((const uint8_t[]){0x0F}, 1)); /* types 6 and 7 */
  CHECK(is_tag((const uint8_t[]){0xF8, 0xFF, 0xFF, 0xFF, 0x0F}, 5));                 /* the largest field number */
  CHECK(!is_tag((const uint8_t[]){0xF8, 0xFF, 0xFF, 0xFF, 0x1F}, 5));                /* one past it */
  CHECK(!is_tag((const uint8_t[]){0x88}, 1) && !is_tag(NULL, 0));                    /* cut off */
  CHECK(is_tag((const uint8_t[]){0x88, 0x80, 0x00}, 3));                             /* longer than need be */
}

static void lengths_may_reach_the_end_but_not_pass_it(void) {
  const uint8_t bytes[] = {3, 'a', 'b', 'c'};
  const uint8_t *p = bytes, *payload;
  uint64_t length;
  CHECK(wire_bytes(&p, bytes + 4, &payload, &length) && length == 3 && payload == bytes + 1 && p == bytes + 4);
  p = bytes;
  CHECK(!wire_bytes(&p, bytes + 3, &payload, &length));
}

static void lengths_near_the_largest_number_do_not_wrap(void) {
  for (uint64_t less = 0; less < 8; less++) {
    message m = {0};
    put_varint(&m, WIRE_TAG(3, WIRE_LEN));
    put_varint(&m, UINT64_MAX - less);
    put_raw(&m, "abcdefgh", 8);
    const uint8_t *p = m.bytes;
    wire_field field;
    CHECK_INT(wire_next(&p, m.bytes + m.size, &field), FP_BAD_LENGTH);
    p = m.bytes + 1;
    uint64_t length;
    CHECK(!read_length(&p, m.bytes + m.size, &length));
    message_free(&m);
  }
}

static fp_code next_of(const message *m, size_t *taken) {
  uint8_t *block = block_of(m);
  const uint8_t *p = block;
  wire_field field;
  fp_code code = wire_next(&p, block + m->size, &field);
  *taken = (size_t)(p - block);
  free(block);
  return code;
}

static void fields_of_every_type_are_read_or_skipped_entirely(void) {
  for (int kind = 0; kind < 5; kind++) {
    message m = {0};
    size_t taken;
    if (kind == 0) put_int(&m, 7, -1);
    if (kind == 1) put_double(&m, 7, 0.5);
    if (kind == 2) put_text(&m, 7, "text");
    if (kind == 3) put_fixed32(&m, 7, 9);
    if (kind == 4) {
      put_begin_group(&m, 7);
      put_text(&m, 1, "inside");
      put_begin_group(&m, 2);
      put_end_group(&m, 2);
      put_end_group(&m, 7);
    }
    CHECK_INT(next_of(&m, &taken), FP_OK);
    CHECK_INT(taken, m.size);
    while (--m.size) CHECK(next_of(&m, &taken) != FP_OK); /* cut off anywhere */
    message_free(&m);
  }
}

static void groups_must_match(void) {
  message m = {0};
  size_t taken;
  put_begin_group(&m, 1);
  put_begin_group(&m, 2);
  put_end_group(&m, 1);
  CHECK_INT(next_of(&m, &taken), FP_BAD_GROUP);
  m.size = 0;
  put_end_group(&m, 1);
  CHECK_INT(next_of(&m, &taken), FP_BAD_GROUP);
  message_free(&m);
}

static void groups_nest_a_hundred_deep_and_no_deeper(void) {
  for (int depth = WIRE_MAX_DEPTH; depth <= WIRE_MAX_DEPTH + 1; depth++) {
    message m = {0};
    size_t taken;
    for (int i = 0; i < depth; i++) put_begin_group(&m, 1);
    for (int i = 0; i < depth; i++) put_end_group(&m, 1);
    CHECK_INT(next_of(&m, &taken), depth > WIRE_MAX_DEPTH ? FP_TOO_DEEP : FP_OK);
    message_free(&m);
  }
}

/* ---- events and stats ------------------------------------------------------------------------------- */

/* A block of `size` bytes, and WIRE_SLACK that may be read behind it. */
static uint8_t *with_slack(const message *m, uint8_t slack) {
  uint8_t *block = malloc(m->size + WIRE_SLACK);
  CHECK(block != NULL);
  if (m->size) memcpy(block, m->bytes, m->size);
  memset(block + m->size, slack, WIRE_SLACK);
  return block;
}

/* Up to four tags of known fields, with a varint and random bytes behind each. */
static void random_fields(message *m, dice *chance) {
  static const uint8_t tags[] = {0x08, 0x10, 0x18, 0x20, 0x22, 0x28, 0x11, 0x2A, 0x32, 0x38, 0x3D, 0x0B};
  for (uint64_t fields = roll_below(chance, 5); fields--;) {
    put_byte(m, tags[roll_below(chance, sizeof tags)]);
    put_long_varint(m, roll_below(chance, 6), 1 + (int)roll_below(chance, 10));
    for (uint64_t more = roll_below(chance, 10); more--;) put_byte(m, (unsigned)roll(chance));
  }
}

/* Bytes behind a message, which must not matter. */
static const uint8_t behind[] = {0x00, 0x80, 0xFF, 0x08, 0x22, 0x20};

static void stats_are_the_same_read_fast_or_not(void) {
  dice chance = {4};
  for (int i = 0; i < 200000; i++) {
    message m = {0};
    if (roll_below(&chance, 2)) put_int(&m, 1, (int64_t)roll(&chance) >> roll_below(&chance, 64));
    random_fields(&m, &chance);
    uint8_t *fast = with_slack(&m, behind[i % sizeof behind]), *exact = block_of(&m);
    stat_fields one, other;
    fp_code found = read_stat(fast, fast + m.size, true, &one), wanted = read_stat(exact, exact + m.size, false, &other);
    CHECK_INT(found, wanted);
    if (!found) {
      CHECK(one.kind == other.kind && one.id == other.id);
      CHECK(one.kind == FP_NONE || one.value == other.value);
      if (one.kind == FP_STR || one.kind == FP_BYTES) CHECK_INT(one.payload - fast, other.payload - exact);
    }
    free(fast);
    free(exact);
    message_free(&m);
  }
}

static void events_are_the_same_read_fast_or_not(void) {
  dice chance = {5};
  int regular = 0;
  for (int i = 0; i < 200000; i++) {
    message m = {0};
    for (unsigned field = 1; field <= 3; field++)
      if (roll_below(&chance, 4)) put_int(&m, field, (int64_t)roll(&chance) >> roll_below(&chance, 64));
    if (roll_below(&chance, 2)) put_text(&m, 4, "stat");
    if (!roll_below(&chance, 4)) random_fields(&m, &chance);
    uint8_t *fast = with_slack(&m, behind[i % sizeof behind]), *exact = block_of(&m);
    event_fields one, other;
    const uint8_t *at = exact;
    if (read_event_regular(fast, fast + m.size, &one)) {
      regular++;
      const uint8_t *rest = exact + (one.stats - fast);
      CHECK(rest <= exact + m.size);
      CHECK_INT(read_event_any(&at, rest, &other), FP_OK); /* up to the stats */
      CHECK(one.metadata_id == other.metadata_id && one.offset_ps == other.offset_ps);
      CHECK(one.duration_ps == other.duration_ps && !other.aggregated);
    }
    free(fast);
    free(exact);
    message_free(&m);
  }
  CHECK(regular > 100000);
}

static void the_last_of_start_and_occurrences_counts(void) {
  message m = {0};
  event_fields event;
  put_int(&m, 2, 50);
  put_int(&m, 5, 3);
  const uint8_t *at = m.bytes;
  CHECK_INT(read_event_any(&at, m.bytes + m.size, &event), FP_OK);
  CHECK(event.aggregated && event.occurrences == 3 && event.offset_ps == 0);
  put_int(&m, 2, 60);
  at = m.bytes;
  CHECK_INT(read_event_any(&at, m.bytes + m.size, &event), FP_OK);
  CHECK(!event.aggregated && event.offset_ps == 60);
  message_free(&m);
}

static void the_last_value_of_a_stat_counts(void) {
  message m = {0};
  stat_fields stat;
  put_int(&m, 4, 5);
  put_int(&m, 1, 8);
  put_text(&m, 5, "ab");
  put_int(&m, 1, 9);
  CHECK_INT(read_stat_any(m.bytes, m.bytes + m.size, &stat), FP_OK);
  CHECK(stat.kind == FP_STR && stat.value == 2 && stat.id == 9 && !memcmp(stat.payload, "ab", 2));
  message_free(&m);
}

int main(void) {
  RUN(varints_of_every_length_are_read);
  RUN(varints_may_be_longer_than_need_be);
  RUN(a_varint_of_eleven_bytes_is_none);
  RUN(bits_past_the_64th_are_dropped);
  RUN(the_fast_way_reads_the_same_varints);
  RUN(tags_have_a_field_number_and_a_wire_type);
  RUN(lengths_may_reach_the_end_but_not_pass_it);
  RUN(lengths_near_the_largest_number_do_not_wrap);
  RUN(fields_of_every_type_are_read_or_skipped_entirely);
  RUN(groups_must_match);
  RUN(groups_nest_a_hundred_deep_and_no_deeper);
  RUN(stats_are_the_same_read_fast_or_not);
  RUN(events_are_the_same_read_fast_or_not);
  RUN(the_last_of_start_and_occurrences_counts);
  RUN(the_last_value_of_a_stat_counts);
  return 0;
}
