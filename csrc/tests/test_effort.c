/* Time and memory stay in proportion to the bytes, however these are chosen: each file here is about a megabyte, made
 * to drive one loop to its worst. Built without sanitizers, which change what things cost. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/decoding.h"
#include "tests/message.h"

enum { MEGABYTE = 1 << 20, MOST_SECONDS = 1, MOST_BYTES_PER_BYTE = 100 };

/* ---- files made to take long ------------------------------------------------------------------------- */

/* Fills a message with copies of a unit, up to a megabyte. */
static void repeat(message *m, const void *unit, size_t size) {
  while (m->size < MEGABYTE) put_raw(m, unit, size);
}

/* Wraps a message as the only line of the only plane of a space, or as its only plane. */
static void as_line(message *line) {
  message plane = {0}, space = {0};
  put_message(&plane, 3, line);
  put_message(&space, 1, &plane);
  *line = space;
}

static void as_plane(message *plane) {
  message space = {0};
  put_message(&space, 1, plane);
  *plane = space;
}

/* Half a million planes of two bytes. Whatever is allocated for each plane must be small. */
static void empty_planes(message *m) { repeat(m, "\x0A\x00", 2); }

/* A name table with one entry for each plane: maps must be small when tables are. */
static void planes_with_small_tables(message *m) { repeat(m, "\x0A\x08\x22\x02\x08\x3F\x2A\x02\x08\x3F", 10); }

/* Every plane declares nothing and uses one stat, so metadata is added plane by plane. */
static void planes_with_undeclared_stats(message *m) {
  repeat(m, "\x0A\x0A\x1A\x08\x22\x06\x22\x04\x08\x07\x20\x01", 12);
}

/* Half a million lines of two bytes in one plane. */
static void empty_lines(message *m) {
  repeat(m, "\x1A\x00", 2);
  as_plane(m);
}

/* Half a million events of two bytes: the rows take far more memory than the bytes. */
static void empty_events(message *m) {
  repeat(m, "\x22\x00", 2);
  as_line(m);
}

/* All entries of both name tables have the id 0, so all but the last must be removed again. */
static void equal_keys(message *m) {
  repeat(m, "\x22\x00\x2A\x00", 4);
  as_plane(m);
}

/* A million children of one event metadata, a byte each. */
static void packed_children(message *m) {
  message value = {0}, entry = {0}, ids = {0};
  repeat(&ids, "\x01", 1);
  put_message(&value, 6, &ids);
  put_message(&entry, 2, &value);
  put_message(m, 4, &entry);
  as_plane(m);
}

/* Half a million stats of one event metadata. */
static void empty_metadata_stats(message *m) {
  message value = {0}, entry = {0};
  repeat(&value, "\x2A\x00", 2);
  put_message(&entry, 2, &value);
  put_message(m, 4, &entry);
  as_plane(m);
}

/* The inverse of an odd number, modulo 2^64. */
static uint64_t inverse(uint64_t odd) {
  uint64_t found = odd;
  for (int i = 0; i < 6; i++) found *= 2 - odd * found;
  return found;
}

/* Ids whose products with the golden ratio, the usual multiplier, agree in the bits that choose a slot. A map without
 * a seed would search all of them for each. */
static void ids_of_one_slot(message *m) {
  uint64_t back = inverse(UINT64_C(0x9E3779B97F4A7C15));
  for (uint64_t i = 1; m->size < MEGABYTE; i++) {
    message entry = {0};
    uint64_t high = i << 32;
    put_int(&entry, 1, (int64_t)((high | (i & 0xFFFFFFFF)) * back));
    put_message(m, 4, &entry);
  }
  as_plane(m);
}

/* The next text of eight ASCII letters that a hash by multiplying and shifting, without a seed, maps to 0. Such a
 * hash can be computed backwards. */
static bool next_colliding_text(uint64_t *seed, uint64_t *text) {
  const uint64_t factor = UINT64_C(0xFF51AFD7ED558CCD), back = inverse(factor);
  for (; *seed < UINT64_C(1) << 32; ++*seed) {
    uint64_t hash = *seed << 32 | *seed; /* its halves cancel: the number is 0 */
    hash *= back;
    hash ^= hash >> 32;
    *text = (hash * back) ^ UINT64_C(0x9E3779B97F4A7C15) ^ 8;
    if (*text & UINT64_C(0x8080808080808080)) continue;
    ++*seed;
    return true;
  }
  return false;
}

/* The colliding texts as names of event metadata. */
static void names_of_one_hash(message *m) {
  uint64_t seed = 0, text, id = 0;
  while (m->size < MEGABYTE && next_colliding_text(&seed, &text)) {
    message value = {0}, entry = {0};
    put_bytes(&value, 2, &text, 8);
    put_int(&entry, 1, (int64_t)id++);
    put_message(&entry, 2, &value);
    put_message(m, 4, &entry);
  }
  as_plane(m);
}

/* The colliding texts as values of stats. */
static void stats_of_one_hash(message *m) {
  uint64_t seed = 0, text;
  message event = {0};
  while (event.size < MEGABYTE && next_colliding_text(&seed, &text)) {
    message stat = {0};
    put_int(&stat, 1, 1);
    put_bytes(&stat, 5, &text, 8);
    put_message(&event, 4, &stat);
  }
  put_message(m, 4, &event);
  as_line(m);
}

/* One event with stats of ever new ids, in no order: the list of unknown ids is sorted again and again. */
static void undeclared_stats(message *m) {
  message event = {0};
  for (int64_t i = 0; event.size < MEGABYTE; i++) {
    message stat = {0};
    put_int(&stat, 1, i * 77777 % 1000003);
    put_message(&event, 4, &stat);
  }
  put_message(m, 4, &event);
  as_line(m);
}

/* Two unknown ids in turn: none equals the last one, so each is appended and removed as a repeat later. */
static void two_undeclared_stats_in_turn(message *m) {
  message event = {0};
  repeat(&event, "\x22\x02\x08\x01\x22\x02\x08\x02", 8);
  put_message(m, 4, &event);
  as_line(m);
}

/* Events whose fields are in another order, which only the general readers take. */
static void events_in_odd_order(message *m) {
  repeat(m, "\x22\x0A\x22\x04\x08\x01\x38\x05\x08\x01\x10\x02", 12);
  as_line(m);
}

/* Every second event does not decode: with salvage each ends a segment. */
static void good_and_bad_events(message *m) {
  repeat(m, "\x22\x00\x22\x01\xFF", 5);
  as_line(m);
}

/* Texts of one invalid byte each: every one is repaired and logged. */
static void bad_texts(message *m) {
  message event = {0};
  repeat(&event, "\x22\x05\x08\x01\x2A\x01\xFF", 7);
  put_message(m, 4, &event);
  as_line(m);
}

/* One text of a million invalid bytes: its repair is three times as long. */
static void a_long_bad_text(message *m) {
  message stat = {0}, event = {0}, text = {0};
  repeat(&text, "\xFF", 1);
  put_message(&stat, 5, &text);
  put_message(&event, 4, &stat);
  put_message(m, 4, &event);
  as_line(m);
}

/* A group opens at every byte and none closes, so nesting must be limited. */
static void open_groups(message *m) { repeat(m, "\x0B", 1); }

/* A group begins in every value: a search that tries every offset would walk to the end each time. */
static void groups_in_values(message *m) { repeat(m, "\x78\x0B", 2); }

static void groups_in_values_of_a_plane(message *m) {
  put_byte(m, 0);
  groups_in_values(m);
  as_plane(m);
}

static void groups_in_values_of_a_line(message *m) {
  put_byte(m, 0);
  groups_in_values(m);
  as_line(m);
}

/* Events of 127 bytes that overlap, with a group at the beginning of each. */
static void groups_in_events(message *m) {
  put_byte(m, 0);
  repeat(m, "\x22\x7F\x0B\x78\x22\x78", 6);
  as_line(m);
}

/* Every second byte begins what looks like an event of 128 KiB, valid up to its last field. */
static void events_in_stats(message *m) {
  put_byte(m, 0);
  repeat(m, "\x22\x04\x22\xFF\xFF\x07", 6);
  as_line(m);
}

/* The same with tags of two bytes, which the fast readers leave to the general ones. */
static void events_in_stats_with_long_tags(message *m) {
  put_byte(m, 0);
  repeat(m, "\x22\x05\xA2\x00\xFF\xFF\x07\x78", 8);
  as_line(m);
}

/* Random bytes: hardly any begins a field. */
static void noise(message *m) {
  dice chance = {1};
  while (m->size < MEGABYTE) put_byte(m, (unsigned)roll(&chance));
}

/* Random bytes that all look like tags or short numbers: nearly every offset begins a field. */
static void noise_of_tags(message *m) {
  static const uint8_t tags[] = {0x08, 0x0A, 0x0B, 0x0C, 0x10, 0x12, 0x1A, 0x22, 0x2A, 0x32, 0x38, 0x01, 0x02, 0xFF};
  dice chance = {2};
  while (m->size < MEGABYTE) put_byte(m, tags[roll_below(&chance, sizeof tags)]);
}

static void noise_in_a_plane(message *m) {
  noise_of_tags(m);
  as_plane(m);
}

static void noise_in_a_line(message *m) {
  noise_of_tags(m);
  as_line(m);
}

/* Chains of known fields that are one too short to be accepted, everywhere. */
static void short_chains(message *m) { repeat(m, "\x12\x00\x1A\x00\x22\x00\x12\x00\xFF\xFF\xFF", 11); }

static void short_chains_in_a_plane(message *m) {
  repeat(m, "\x08\x01\x12\x00\x1A\x00\x22\x00\x07", 9);
  as_plane(m);
}

static void short_chains_in_a_line(message *m) {
  repeat(m, "\x08\x01\x12\x00\x18\x00\x22\x00\x07", 9);
  as_line(m);
}

/* ---- how long they take ------------------------------------------------------------------------------ */

typedef struct cost {
  double seconds;
  int64_t bytes; /* of the scan, the name tables and the index */
} cost;

/* The peak of this process's memory, in bytes. */
static int64_t resident(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return usage.ru_maxrss;
#else
  return usage.ru_maxrss * INT64_C(1024);
#endif
}

static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static cost decode(const message *m, bool salvage) {
  decoding d = {.data = m->bytes, .size = m->size, .salvage = salvage, .depth = FP_STATS, .segment_size = 1 << 18,
                .budget = UINT64_MAX};
  int64_t before = resident();
  double begun = now();
  decoding_begin(&d);
  fp_code code = decoding_open(&d);
  if (!code) code = decoding_index(&d);
  int64_t bytes = resident() - before;
  columns straight, keyed;
  if (!code) {
    CHECK_INT(decoding_fill(&d, NULL, &straight), FP_OK);
    columns_free(&straight, &d);
    CHECK_INT(decoding_fill_keys(&d, NULL, &keyed), FP_OK);
    columns_free(&keyed, &d);
    decoding_fill_spans(&d, false);
  }
  decoding_free(&d);
  return (cost){now() - begun, bytes};
}

typedef struct attack {
  const char *name;
  void (*make)(message *);
} attack;

#define ATTACK(make) {#make, make}
static const attack attacks[] = {
    ATTACK(empty_planes), ATTACK(planes_with_small_tables), ATTACK(planes_with_undeclared_stats), ATTACK(empty_lines),
    ATTACK(empty_events), ATTACK(equal_keys), ATTACK(packed_children), ATTACK(empty_metadata_stats),
    ATTACK(ids_of_one_slot), ATTACK(names_of_one_hash), ATTACK(stats_of_one_hash), ATTACK(undeclared_stats),
    ATTACK(two_undeclared_stats_in_turn), ATTACK(events_in_odd_order), ATTACK(good_and_bad_events), ATTACK(bad_texts),
    ATTACK(a_long_bad_text), ATTACK(open_groups), ATTACK(groups_in_values), ATTACK(groups_in_values_of_a_plane),
    ATTACK(groups_in_values_of_a_line), ATTACK(groups_in_events), ATTACK(events_in_stats),
    ATTACK(events_in_stats_with_long_tags), ATTACK(noise), ATTACK(noise_of_tags), ATTACK(noise_in_a_plane),
    ATTACK(noise_in_a_line), ATTACK(short_chains), ATTACK(short_chains_in_a_plane), ATTACK(short_chains_in_a_line)};

/* Each file is decoded in a process of its own, so that the peak of memory belongs to it. */
static cost measure(const attack *a, bool salvage) {
  int ends[2];
  cost found = {0};
  CHECK(!pipe(ends));
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    message m = {0};
    a->make(&m);
    alarm(60);
    found = decode(&m, salvage);
    CHECK_INT(write(ends[1], &found, sizeof found), sizeof found);
    _exit(0);
  }
  int status;
  CHECK_INT(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    found.seconds = 60;
  else
    CHECK_INT(read(ends[0], &found, sizeof found), sizeof found);
  close(ends[0]);
  close(ends[1]);
  return found;
}

int main(void) {
  int failures = 0;
  for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
    for (int salvage = 0; salvage < 2; salvage++) {
      cost found = measure(&attacks[i], salvage);
      bool bad = found.seconds > MOST_SECONDS || found.bytes > (int64_t)MOST_BYTES_PER_BYTE * MEGABYTE;
      printf("  %s  %s%s: %.2f s, %lld MiB\n", bad ? "BAD" : "ok", attacks[i].name, salvage ? ", salvaged" : "", found.seconds,
             (long long)(found.bytes / MEGABYTE));
      failures += bad;
    }
  }
  return failures ? 1 : 0;
}
