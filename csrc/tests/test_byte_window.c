/* Windows on a file: what is read, what is kept, and what a file that has changed gives. */
#define _POSIX_C_SOURCE 200809L
#include "formats/byte_window.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

enum { SIZE = 1 << 20 };

/* A file of SIZE bytes, and a window on it. */
typedef struct opened {
  fp_memory memory;
  fp_window window;
  FILE *file;
} opened;

static uint8_t byte_at(uint64_t offset) { return (uint8_t)(offset * 31 + (offset >> 8)); }

static void write_bytes(opened *o, uint64_t from, size_t size, uint8_t change) {
  for (size_t i = 0; i < size; i++) {
    uint8_t byte = byte_at(from + i) ^ change;
    CHECK(pwrite(fileno(o->file), &byte, 1, (off_t)(from + i)) == 1);
  }
}

static void begin(opened *o, uint64_t size) {
  fp_memory_init(&o->memory);
  o->file = tmpfile();
  CHECK(o->file != NULL);
  for (uint64_t i = 0; i < size; i++) fputc(byte_at(i), o->file);
  CHECK(!fflush(o->file));
  fp_window_begin(&o->window, &o->memory);
  fp_window_of_file(&o->window, fileno(o->file), size, false);
}

static void end(opened *o) {
  fp_window_free(&o->window);
  fp_window_free(&o->window);
  fclose(o->file);
  CHECK_INT(o->memory.live, 0);
}

static void check_bytes(const opened *o, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i < to; i++) CHECK_INT(*fp_window_at(&o->window, i), byte_at(i));
}

static void any_place_is_read(void) {
  opened o;
  begin(&o, SIZE);
  const uint64_t places[][2] = {{0, 1}, {5, 9}, {SIZE - 1, SIZE}, {9000, 9100}, {SIZE, SIZE}, {100, 700000}, {0, SIZE}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    CHECK_INT(fp_window_need(&o.window, places[i][0], places[i][1]), FP_OK);
    check_bytes(&o, places[i][0], places[i][1]);
    CHECK_INT(fp_window_place(&o.window, fp_window_at(&o.window, places[i][0])), places[i][0]);
  }
  CHECK_INT(fp_window_load(&o.window, 5, SIZE + 1), FP_CHANGED);
  CHECK_INT(fp_window_load(&o.window, 5, 4), FP_CHANGED);
  end(&o);
}

static void little_is_read_after_a_jump_and_more_by_who_goes_on(void) {
  opened o;
  begin(&o, SIZE);
  uint64_t last = 0;
  for (uint64_t at = 300000; at < 700000; at = o.window.end) {
    CHECK_INT(fp_window_need(&o.window, at, at + 1), FP_OK);
    uint64_t size = o.window.end - o.window.first;
    CHECK(at != 300000 || size == FP_WINDOW_LEAST);
    CHECK(size >= last && size <= FP_WINDOW_MOST);
    last = size;
  }
  CHECK_INT(last, FP_WINDOW_MOST);
  CHECK_INT(fp_window_need(&o.window, 10, 11), FP_OK);
  CHECK_INT(o.window.end - o.window.first, FP_WINDOW_LEAST);
  end(&o);
}

static void bytes_that_were_read_stay_what_they_are(void) {
  opened o;
  begin(&o, SIZE);
  CHECK_INT(fp_window_need(&o.window, 1000, 3000), FP_OK);
  write_bytes(&o, 2000, 1000, 0xFF);
  CHECK_INT(fp_window_need(&o.window, 1500, 60000), FP_OK); /* grows: the first part is not read again */
  check_bytes(&o, 1500, 60000);
  end(&o);
}

static void a_small_file_is_read_once(void) {
  opened o;
  begin(&o, 5000);
  CHECK_INT(fp_window_need(&o.window, 4000, 4001), FP_OK);
  CHECK_INT(ftruncate(fileno(o.file), 0), 0);
  CHECK_INT(fp_window_need(&o.window, 0, 5000), FP_OK);
  check_bytes(&o, 0, 5000);
  end(&o);
}

static void a_file_that_became_shorter_has_changed(void) {
  opened o;
  begin(&o, SIZE);
  CHECK_INT(ftruncate(fileno(o.file), 500000), 0);
  CHECK_INT(fp_window_need(&o.window, 400000, 400100), FP_OK);
  CHECK_INT(fp_window_need(&o.window, 499990, 500001), FP_CHANGED);
  CHECK_INT(fp_window_need(&o.window, 600000, 600001), FP_CHANGED);
  uint8_t copy[16];
  CHECK_INT(fp_window_copy(&o.window, 499992, 16, copy), FP_CHANGED);
  CHECK_INT(fp_window_need(&o.window, 400000, 400100), FP_OK);
  check_bytes(&o, 400000, 400100);
  end(&o);
}

static void a_file_that_cannot_be_read_is_said_to_be_so(void) {
  opened o;
  begin(&o, SIZE);
  fp_window_of_file(&o.window, -1, SIZE, false);
  CHECK_INT(fp_window_need(&o.window, 0, 1), FP_UNREADABLE);
  CHECK(fp_ends_reading(FP_UNREADABLE) && fp_ends_reading(FP_CHANGED) && !fp_ends_reading(FP_BAD_TAG));
  end(&o);
}

static void copies_are_of_any_size(void) {
  opened o;
  begin(&o, SIZE);
  uint8_t *copy = malloc(SIZE);
  CHECK(copy != NULL);
  const uint64_t sizes[] = {0, 1, 5000, FP_WINDOW_MOST, FP_WINDOW_MOST + 1, SIZE - 7};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK_INT(fp_window_copy(&o.window, 7, sizes[i], copy), FP_OK);
    for (uint64_t j = 0; j < sizes[i]; j++) CHECK_INT(copy[j], byte_at(7 + j));
  }
  CHECK(o.window.capacity <= FP_WINDOW_MOST);
  free(copy);
  end(&o);
}

/* Bytes of a file in another order: of the capture, 0 to 300000 stand last, and a part is left out. */
static void parts_of_a_file_are_read_as_one(void) {
  static const fp_window_part parts[] = {{0, 700000}, {300000, 5}, {300001, 1000}, {600000, 400000}};
  const uint64_t size = 700000, spans[][2] = {{0, 1}, {299990, 300010}, {599000, 700000}, {250000, 700000}, {300000, 300001}};
  opened o;
  begin(&o, SIZE);
  o.window.parts = parts;
  o.window.part_count = sizeof parts / sizeof *parts;
  o.window.size = size;
  uint8_t *copy = malloc(size);
  CHECK(copy != NULL);
  for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
    CHECK_INT(fp_window_need(&o.window, spans[i][0], spans[i][1]), FP_OK);
    CHECK_INT(fp_window_copy(&o.window, spans[i][0], spans[i][1] - spans[i][0], copy), FP_OK);
    for (uint64_t at = spans[i][0]; at < spans[i][1]; at++) {
      const fp_window_part *part = at < 300000 ? &parts[0] : at < 300001 ? &parts[1] : at < 600000 ? &parts[2] : &parts[3];
      uint8_t wanted = byte_at(part->place + (at - part->begin));
      CHECK_INT(*fp_window_at(&o.window, at), wanted);
      CHECK_INT(copy[at - spans[i][0]], wanted);
    }
  }
  CHECK_INT(fp_window_need(&o.window, 0, size + 1), FP_CHANGED);
  CHECK_INT(ftruncate(fileno(o.file), 690000), 0);
  fp_window_of_file(&o.window, fileno(o.file), size, false);
  o.window.parts = parts;
  o.window.part_count = sizeof parts / sizeof *parts;
  CHECK_INT(fp_window_need(&o.window, 0, 10), FP_CHANGED);
  CHECK_INT(fp_window_need(&o.window, 300000, 310000), FP_OK);
  free(copy);
  end(&o);
}

/* What a fetch was called for; it fails beyond `end`. */
typedef struct fetched {
  uint64_t calls, first, last, end;
} fetched;

static fp_code note_fetch(void *context, uint64_t begin, uint64_t end) {
  fetched *f = context;
  f->calls++, f->first = begin, f->last = end;
  return end <= f->end ? FP_OK : FP_UNREADABLE;
}

static void bytes_are_fetched_before_they_are_read(void) {
  static const fp_window_part parts[] = {{0, 500000}};
  fetched f = {.end = 600000};
  uint8_t byte;
  opened o;
  begin(&o, SIZE);
  o.window.fetch = note_fetch, o.window.fetched_for = &f;
  CHECK_INT(fp_window_need(&o.window, 300000, 300010), FP_OK);
  CHECK_INT(f.calls, 1);
  CHECK_INT(f.first, 300000);
  CHECK_INT(f.last, 300000 + FP_WINDOW_LEAST);
  CHECK_INT(fp_window_need(&o.window, 300010, 300020), FP_OK);
  CHECK_INT(f.calls, 1);
  CHECK_INT(fp_window_copy(&o.window, 700000, 1, &byte), FP_UNREADABLE);
  o.window.parts = parts, o.window.part_count = 1;
  CHECK_INT(fp_window_need(&o.window, 10, 20), FP_OK);
  CHECK_INT(f.first, 500010);
  fp_window_of_file(&o.window, fileno(o.file), SIZE, false);
  CHECK_INT(fp_window_need(&o.window, 900000, 900001), FP_OK);
  end(&o);
}

static void memory_that_runs_out_is_reported(void) {
  opened o;
  begin(&o, SIZE);
  atomic_store(&o.memory.countdown, 0);
  CHECK_INT(fp_window_need(&o.window, 0, 1), FP_NO_MEMORY);
  atomic_store(&o.memory.countdown, -1);
  CHECK_INT(fp_window_need(&o.window, 0, 1), FP_OK);
  atomic_store(&o.memory.countdown, 0);
  CHECK_INT(fp_window_need(&o.window, 0, 1 << 19), FP_NO_MEMORY);
  check_bytes(&o, 0, 1);
  end(&o);
}

int main(void) {
  RUN(any_place_is_read);
  RUN(little_is_read_after_a_jump_and_more_by_who_goes_on);
  RUN(bytes_that_were_read_stay_what_they_are);
  RUN(a_small_file_is_read_once);
  RUN(a_file_that_became_shorter_has_changed);
  RUN(a_file_that_cannot_be_read_is_said_to_be_so);
  RUN(copies_are_of_any_size);
  RUN(parts_of_a_file_are_read_as_one);
  RUN(bytes_are_fetched_before_they_are_read);
  RUN(memory_that_runs_out_is_reported);
  return 0;
}
