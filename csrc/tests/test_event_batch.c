/* Events one behind the other: which of them a window holds, and the columns that a batch of them fills. */
#define _POSIX_C_SOURCE 200809L
#include "formats/event_batch.h"

#include <stdio.h>

#include "tests/check.h"
#include "tests/message.h"

enum { EVENT = 4, NAME = 2, EVENTS = 9, MARGIN = 3, ROWS = FP_BATCH + 2 * MARGIN };

/* A line: events of growing sizes, one of them with a tag of two bytes, and a text between them. */
static message line_of(uint64_t places[EVENTS], bool placed[EVENTS], uint64_t most) {
  message m = {0};
  uint8_t bytes[1 << EVENTS] = {0};
  for (size_t i = 0; i < EVENTS; i++) {
    uint64_t size = (uint64_t)1 << i;
    if (i == 4) put_text(&m, NAME, "a line");
    if (i == 6)
      put_long_varint(&m, WIRE_TAG(EVENT, WIRE_LEN), 2), put_varint(&m, size), put_raw(&m, bytes, size);
    else
      put_bytes(&m, EVENT, bytes, size);
    places[i] = m.size - size;
    placed[i] = i == 6 || size > most;
  }
  return m;
}

/* Every event comes once, at its place, in the window if it fits there and is written as usual. */
static void check_events(fp_window *window, const uint64_t places[EVENTS], const bool placed[EVENTS]) {
  size_t count = 0;
  for (uint64_t at = 0; at < window->size;) {
    near_events events;
    const uint8_t *p;
    fp_placed_field field;
    enum field_kind kind;
    if (events_in_window(&events, window, at, window->size, window->size)) {
      for (; next_near_event(&events, &p); count++) {
        CHECK_INT(fp_window_place(window, p), places[count]);
        CHECK_INT(events.p - p, 1 << count);
        CHECK(*events.start == TAG_EVENT && events.p <= fp_window_at(window, window->end));
      }
      at = fp_window_place(window, events.p);
    }
    if (at == window->size) break;
    CHECK_INT(next_far_field(window, &at, window->size, &field, &kind), FP_OK);
    if (kind != PLACED_EVENT) continue;
    CHECK(placed[count]);
    CHECK_INT(field.at, places[count]);
    CHECK_INT(field.value, 1 << count++);
  }
  CHECK_INT(count, EVENTS);
}

static void windows_of_any_size_give_every_event_once(void) {
  for (uint64_t most = 1; most < 1200; most = most * 3 / 2 + 1) {
    uint64_t places[EVENTS];
    bool placed[EVENTS];
    fp_memory memory;
    fp_memory_init(&memory);
    fp_window window;
    fp_window_begin(&window, &memory);
    message m = line_of(places, placed, most);
    FILE *file = tmpfile();
    CHECK(file && fwrite(m.bytes, 1, m.size, file) == m.size && !fflush(file));
    window.most = most;
    fp_window_of_file(&window, fileno(file), m.size, false);
    check_events(&window, places, placed);
    fp_window_of_memory(&window, m.bytes, m.size);
    check_events(&window, places, placed);
    fp_window_free(&window);
    fclose(file);
    message_free(&m);
    CHECK_INT(memory.live, 0);
  }
}

static void events_behind_the_pause_are_left(void) {
  uint64_t places[EVENTS];
  bool placed[EVENTS];
  fp_window window;
  fp_window_begin(&window, NULL);
  message m = line_of(places, placed, UINT64_MAX);
  fp_window_of_memory(&window, m.bytes, m.size);
  near_events events;
  const uint8_t *p;
  CHECK(events_in_window(&events, &window, 0, places[1] - 1, m.size)); /* in the middle of the second one's header */
  CHECK(next_near_event(&events, &p) && next_near_event(&events, &p) && !next_near_event(&events, &p));
  CHECK_INT(fp_window_place(&window, events.p), places[1] + 2);
  CHECK(events_in_window(&events, &window, 0, m.size, places[1] + 1)); /* the line ends within the second one */
  CHECK(next_near_event(&events, &p) && p == m.bytes + places[0] && !next_near_event(&events, &p));
  CHECK(!events_in_window(&events, &window, m.size, m.size, m.size));
  message_free(&m);
}

/* Columns of a sink that take a batch, with rows around it. */
typedef struct written {
  int64_t event_id[ROWS], metadata_id[ROWS], start[ROWS], duration[ROWS], occurrences[ROWS];
  uint8_t present[ROWS];
  int32_t name[ROWS]; /* or narrower numbers */
} written;

static fp_sink sink_of(written *to, int width) {
  static const int32_t names[] = {50, 51};
  memset(to, 0x77, sizeof *to);
  return (fp_sink){.meta_names = names, .event_id = to->event_id, .metadata_id = to->metadata_id, .start_ps = to->start,
                   .duration_ps = to->duration, .num_occurrences = to->occurrences, .present = to->present,
                   .name = {to->name, width}};
}

/* Event i of a batch: every third is aggregated, every fourth has a start beyond 64 bits, every fifth no metadata. */
static size_t add(fp_event_batch *batch, int64_t i) {
  const fp_piece piece = {.base_ps = 1000};
  const event_fields event = {.metadata_id = 7 + i % 2, .offset_ps = i % 4 ? i : INT64_MAX, .duration_ps = 2 * i,
                              .occurrences = i % 3 ? 0 : i + 1, .aggregated = i % 3 == 0};
  return fp_batch_event(batch, &piece, &event, i % 5 ? (int32_t)(i % 2) : -1, 100 + i);
}

static int32_t name_at(const written *to, int width, int64_t row) {
  return width == 1 ? ((const int8_t *)to->name)[row] : width == 2 ? ((const int16_t *)to->name)[row] : to->name[row];
}

static void batches_of_any_size_write_their_rows_and_no_others(void) {
  static written to, untouched;
  for (int64_t count = 0; count <= FP_BATCH; count++) {
    int width = 1 << count % 3;
    fp_sink sink = sink_of(&to, width), other = sink_of(&untouched, width);
    fp_event_batch batch;
    batch.count = 0;
    for (int64_t i = 0; i < count; i++) CHECK_INT(add(&batch, i), i);
    fp_write_batch(&batch, &sink, MARGIN);
    CHECK_INT(sink.unnamed, (count + 4) / 5);
    for (int64_t row = 0; row < ROWS; row++) {
      int64_t i = row - MARGIN;
      bool within = i >= 0 && i < count, timed = within && i % 3 && i % 4;
      CHECK_INT(to.event_id[row], within ? 100 + i : other.event_id[row]);
      CHECK_INT(to.metadata_id[row], within ? 7 + i % 2 : other.metadata_id[row]);
      CHECK_INT(to.start[row], timed ? 1000 + i : within ? 0 : other.start_ps[row]);
      CHECK_INT(to.duration[row], within ? 2 * i : other.duration_ps[row]);
      CHECK_INT(to.occurrences[row], within && i % 3 == 0 ? i + 1 : other.num_occurrences[row]);
      CHECK_INT(to.present[row],
                within ? (timed ? FP_HAS_START : 0) | (i % 3 ? 0 : FP_HAS_OCCURRENCES) : other.present[row]);
      CHECK_INT(name_at(&to, width, row), within ? (i % 5 ? 50 + i % 2 : -1) : name_at(&untouched, width, row));
    }
  }
}

static void columns_that_are_not_wanted_are_left_out(void) {
  static written to;
  const int64_t ids[] = {-3, -4};
  fp_sink sink = sink_of(&to, 4), none = {0};
  sink.meta_ids = ids;
  fp_event_batch batch;
  batch.count = 0;
  for (int64_t i = 0; i < 3; i++) add(&batch, i);
  fp_write_batch(&batch, &none, 0);
  fp_write_batch(&batch, &sink, 0);
  CHECK(to.metadata_id[0] == 7 && to.metadata_id[1] == -4 && to.metadata_id[2] == -3);
  CHECK_INT(none.unnamed, 1);
}

int main(void) {
  RUN(windows_of_any_size_give_every_event_once);
  RUN(events_behind_the_pause_are_left);
  RUN(batches_of_any_size_write_their_rows_and_no_others);
  RUN(columns_that_are_not_wanted_are_left_out);
  return 0;
}
