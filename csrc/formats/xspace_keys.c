/* Filling other than from front to back: counting what a filter keeps, filling events in an order of the caller's,
 * and stats at given places. The caller sorts keys rather than rows, so that events of a line that is not sorted are
 * decoded only once, directly to their place. */
#include <stdlib.h>

#include "formats/xspace_fill.h"

/* Called for each event of a segment. */
typedef fp_code (*event_visitor)(filling *f, const event_fields *event, uint64_t from, uint64_t size, void *context);

/* Calls `visit` for each event of a segment that is in the window from *at on. */
static fp_code near_events_of(filling *f, const fp_segment *s, uint64_t *at, event_visitor visit, void *context) {
  near_events events;
  const uint8_t *p;
  if (!events_in_window(&events, f->window, *at, s->end, s->end)) return FP_OK;
  while (next_near_event(&events, &p)) {
    event_fields event;
    bool slack;
    fp_code code = fp_read_event(f, p, events.p, s->flags & FP_REGULAR, &event, &slack);
    if (code) return fp_fail_here(f, code);
    uint64_t from = fp_window_place(f->window, p);
    code = visit(f, &event, from, (uint64_t)(events.p - p), context);
    if (code) return fp_fail(f->fault, code, from, "XEvent");
  }
  *at = fp_window_place(f->window, events.p);
  return FP_OK;
}

/* Calls `visit` for each event of a segment, and stops at the first fault. */
static fp_code each_event(filling *f, const fp_segment *s, event_visitor visit, void *context) {
  f->fault->code = FP_OK;
  for (uint64_t at = s->offset; at < s->end;) {
    fp_code code = near_events_of(f, s, &at, visit, context);
    if (code || at == s->end) return code;
    uint64_t start = at;
    fp_placed_field field;
    enum field_kind kind;
    if ((code = next_far_field(f->window, &at, s->end, &field, &kind))) return fp_fail(f->fault, code, start, "XEvent");
    if (kind != PLACED_EVENT) continue;
    event_fields event;
    if ((code = fp_read_placed_event(f, field.at, field.value, &event))) return code;
    if ((code = visit(f, &event, field.at, field.value, context))) return fp_fail(f->fault, code, start, "XEvent");
  }
  return FP_OK;
}

/* Adds the number of an event's stats to *count. */
static fp_code count_stats(filling *f, const event_fields *event, uint64_t from, uint64_t size, int64_t *count) {
  uint64_t at = event->stats ? fp_window_place(f->window, event->stats) : from, end = from + size;
  while (at < end) {
    fp_placed_field field;
    fp_code code = fp_next_field(f->window, &at, end, &field);
    if (code) return code;
    *count += field.tag == TAG_EVENT_STAT;
  }
  return FP_OK;
}

/* What count_kept needs: the filter, and the segment whose counts it raises. */
typedef struct keeping {
  const fp_filter *filter;
  fp_segment *segment;
  bool stats;
} keeping;

/* Counts an event, and its stats, if the filter keeps it. */
static fp_code count_kept(filling *f, const event_fields *event, uint64_t from, uint64_t size, void *context) {
  keeping *k = context;
  int32_t meta = fp_id_map_find(&f->x->event_maps[f->piece->part], event->metadata_id);
  if (!fp_kept(k->filter, f->piece, event, meta)) return FP_OK;
  k->segment->kept_events++;
  return k->stats ? count_stats(f, event, from, size, &k->segment->kept_stats) : FP_OK;
}

/* More events than the index saw would not fit their columns. */
fp_code fp_count_kept(const fp_xspace *x, fp_window *window, const fp_piece *pieces, fp_segment *segments, size_t count,
                      const fp_filter *filter, bool stats, fp_fault *fault) {
  filling f = {.x = x, .window = window, .fault = fault};
  for (size_t i = 0; i < count; i++) {
    fp_segment *s = &segments[i];
    f.piece = &pieces[s->piece];
    keeping k = {filter, s, stats};
    s->kept_events = s->kept_stats = 0;
    fp_code code = each_event(&f, s, count_kept, &k);
    if (code) return code;
    bool more = s->kept_events > s->event_count || (stats && s->kept_stats > s->stat_count);
    if (more) return fp_fail(fault, FP_CHANGED, s->offset, "XEvent");
  }
  return FP_OK;
}

/* What add_key needs: the filter, and the place of the next key. */
typedef struct keying {
  const fp_filter *filter;
  fp_event_key *next, *end;
  int32_t piece, flags;
} keying;

/* Writes the key of an event. Without a start it sorts behind all others. */
static fp_code add_key(filling *f, const event_fields *event, uint64_t from, uint64_t size, void *context) {
  keying *k = context;
  int64_t start, stats = 0;
  bool timed = !event->aggregated && !f->piece->timeless &&
               !__builtin_add_overflow(f->piece->base_ps, event->offset_ps, &start);
  fp_code code = count_stats(f, event, from, size, &stats);
  if (code) return code;
  if (k->next == k->end) return FP_CHANGED;
  if (size > UINT32_MAX) return FP_BAD_LENGTH; /* protobuf's own limit is half of this */
  int32_t meta = fp_id_map_find(&f->x->event_maps[f->piece->part], event->metadata_id);
  *k->next++ = (fp_event_key){timed ? start : INT64_MAX, timed ? ~event->duration_ps : INT64_MAX,
                              from, (uint32_t)size, (uint32_t)stats, k->piece,
                              k->flags | (fp_kept(k->filter, f->piece, event, meta) ? FP_KEY_KEPT : 0)};
  return FP_OK;
}

fp_code fp_event_keys(const fp_xspace *x, fp_window *window, const fp_piece *pieces, const fp_segment *segment,
                      const fp_filter *filter, fp_event_key *keys, fp_fault *fault) {
  filling f = {.x = x, .window = window, .piece = &pieces[segment->piece], .fault = fault};
  int32_t flags = segment->flags & FP_REGULAR ? FP_KEY_REGULAR : 0;
  keying k = {filter, keys, keys + segment->event_count, (int32_t)segment->piece, flags};
  fp_code code = each_event(&f, segment, add_key, &k);
  if (!code && k.next != k.end) return fp_fail(fault, FP_CHANGED, segment->offset, "XEvent");
  return code;
}

/* Where the rows of keys go. */
typedef struct key_rows {
  const fp_piece *pieces;
  const int64_t *event_ids;
  int64_t row;
} key_rows;

/* Fills the row of one event, which is in the window unless it is large. Events come from all over the file, so line,
 * part and names are looked up for each. */
static fp_code fill_key(filling *f, const fp_event_key *key, const key_rows *to, size_t i) {
  int64_t row = to->row + (int64_t)i;
  f->piece = &to->pieces[key->piece];
  f->stats = &f->x->stat_maps[f->piece->part];
  event_fields event;
  const uint8_t *end = NULL;
  bool slack = false;
  fp_code code;
  if (is_large(f->window, key->length)) {
    if ((code = fp_read_placed_event(f, key->offset, key->length, &event))) return code;
  } else {
    const uint8_t *p = fp_window_at(f->window, key->offset);
    end = p + key->length;
    bool regular = key->flags & FP_KEY_REGULAR;
    if ((code = fp_read_event(f, p, end, regular, &event, &slack))) return fp_fail_here(f, code);
  }
  int32_t meta = fp_id_map_find(&f->x->event_maps[f->piece->part], event.metadata_id);
  if ((code = fp_emit_event(f, &event, end, slack, meta, row, to->event_ids[i]))) return fp_fail_here(f, code);
  fp_fill_line_columns(f->piece, f->sink, row, row + 1);
  return FP_OK;
}

/* Fills the events of keys that lie near each other: those of a batch of KEYS at most. */
enum { KEYS = 1 << 14 };
static fp_code fill_near(filling *f, const fp_event_key *keys, size_t count, const key_rows *to) {
  for (size_t i = 0; i < count; i++) {
    bool large = is_large(f->window, keys[i].length);
    fp_code code = large ? FP_OK : fp_window_need(f->window, keys[i].offset, keys[i].offset + keys[i].length);
    if (code) return fp_fail(f->fault, code, keys[i].offset, "XEvent");
    if ((code = fill_key(f, &keys[i], to, i))) return code;
  }
  return FP_OK;
}

/* Where an event of a batch lies in the file, and in the copy of the batch. */
typedef struct place_of_key {
  uint64_t offset, copied;
  size_t key;
} place_of_key;

static int by_offset(const void *a, const void *b) {
  const place_of_key *x = a, *y = b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int by_key(const void *a, const void *b) {
  const place_of_key *x = a, *y = b;
  return x->key < y->key ? -1 : x->key > y->key;
}

/* Copies the events in the order of the file, and puts their places back into the order of keys. */
static fp_code copy_events(filling *f, const fp_event_key *keys, size_t count, place_of_key *places, uint8_t *copy) {
  uint64_t copied = 0;
  for (size_t i = 0; i < count; i++) places[i] = (place_of_key){keys[i].offset, 0, i};
  qsort(places, count, sizeof *places, by_offset);
  for (size_t i = 0; i < count; i++) {
    uint64_t offset = places[i].offset, length = keys[places[i].key].length;
    fp_code code = fp_window_need(f->window, offset, offset + length);
    if (code) return fp_fail(f->fault, code, offset, "XEvent");
    memcpy(copy + copied, fp_window_at(f->window, offset), length);
    places[i].copied = copied;
    copied += length;
  }
  qsort(places, count, sizeof *places, by_key);
  return FP_OK;
}

/* Fills the events of keys that lie all over a file. Each is then in a window of its own, of the copy. */
static fp_code fill_scattered(filling *f, const fp_event_key *keys, size_t count, uint64_t size, const key_rows *to) {
  fp_window *window = f->window, one = *window;
  place_of_key *places = fp_alloc(f->x->memory, count * sizeof *places);
  uint8_t *copy = fp_alloc(f->x->memory, size + FP_WINDOW_SLACK);
  fp_code code = FP_OK;
  if (!places || !copy) code = fp_fail(f->fault, FP_NO_MEMORY, keys->offset, "XEvent");
  if (!code) code = copy_events(f, keys, count, places, copy);
  if (!code) memset(copy + size, 0, FP_WINDOW_SLACK);
  f->window = &one;
  for (size_t i = 0; !code && i < count; i++) {
    one.bytes = copy + places[i].copied;
    one.first = keys[i].offset;
    one.end = one.first + keys[i].length;
    one.readable = copy + size + FP_WINDOW_SLACK;
    code = fill_key(f, &keys[i], to, i);
  }
  f->window = window;
  fp_release(f->x->memory, places);
  fp_release(f->x->memory, copy);
  return code;
}

/* Events of lines that end late are mostly somewhat out of order: a stretch of the file holds a batch of them. */
static fp_code fill_batch(filling *f, const fp_event_key *keys, size_t count, const key_rows *to) {
  uint64_t first = keys->offset, end = first, size = 0;
  bool large = false;
  for (size_t i = 0; i < count; i++) {
    large |= is_large(f->window, keys[i].length);
    if (keys[i].offset < first) first = keys[i].offset;
    if (keys[i].offset + keys[i].length > end) end = keys[i].offset + keys[i].length;
    size += keys[i].length;
  }
  if (f->window->data || count == 1 || large) return fill_near(f, keys, count, to);
  if (end - first > 2 * size + f->window->most) return fill_scattered(f, keys, count, size, to);
  fp_code code = fp_window_need(f->window, first, end);
  return code ? fp_fail(f->fault, code, first, "XEvent") : fill_near(f, keys, count, to);
}

fp_code fp_fill_keys(const fp_xspace *x, fp_window *window, const fp_piece *pieces, const fp_event_key *keys,
                     const int64_t *event_ids, size_t count, int64_t row, int64_t stat_row, int64_t stat_row_end,
                     fp_sink *sink, fp_fault *fault) {
  filling f = {.x = x, .window = window, .sink = sink, .stat_row = stat_row, .stat_row_end = stat_row_end, .fault = fault};
  fault->code = FP_OK;
  for (size_t done = 0; done < count; done += KEYS) {
    const key_rows to = {pieces, event_ids + done, row + (int64_t)done};
    fp_code code = fill_batch(&f, keys + done, count - done < KEYS ? count - done : KEYS, &to);
    if (code) return code;
  }
  if (sink->want_stats && f.stat_row != stat_row_end)
    return fp_fail(fault, FP_CHANGED, count ? keys[count - 1].offset : 0, "XEvent");
  return FP_OK;
}

/* A row for each span, also if it does not decode: the caller drops those of kind FP_LOST_REF. */
fp_code fp_fill_spans(const fp_xspace *x, fp_window *window, const fp_owned_span *spans, const int64_t *parts,
                      size_t count, int64_t *stat_ids, fp_sink *sink, fp_fault *fault) {
  filling f = {.x = x, .window = window, .sink = sink, .stat_row_end = (int64_t)count, .fault = fault};
  for (size_t i = 0; i < count; i++) {
    stat_fields stat;
    fault->code = FP_OK;
    fp_code code = read_stat_at(window, spans[i].offset, spans[i].offset + spans[i].length, &stat);
    if (code && x->salvage && !fp_ends_reading(code)) {
      if (!fp_fault_log_add(x->memory, &sink->faults, code, spans[i].offset, "XStat"))
        return fp_fail(fault, FP_NO_MEMORY, spans[i].offset, "XStat");
      stat = (stat_fields){.kind = FP_LOST_REF}; /* the caller drops the row */
      code = FP_OK;
    }
    if (!code) {
      f.stats = &x->stat_maps[parts[i]];
      stat_ids[i] = stat.id;
      code = fp_emit_stat(&f, (int64_t)i, fp_id_map_find(f.stats, stat.id), &stat);
    }
    if (code) return fault->code ? code : fp_fail(fault, code, spans[i].offset, "XStat");
  }
  return FP_OK;
}

fp_code fp_intern(const fp_xspace *x, fp_window *window, const uint64_t *offsets, const uint64_t *lengths, size_t count,
                  const char *what, fp_strings *pool, int32_t *numbers, fp_vector *faults, fp_fault *fault) {
  for (size_t i = 0; i < count; i++) {
    numbers[i] = -1;
    if (lengths[i] == UINT64_MAX) continue;
    /* no text may have no place: the window must not jump there */
    fp_code code = lengths[i] ? fp_window_need(window, offsets[i], offsets[i] + lengths[i]) : FP_OK;
    if (code) return fp_fail(fault, code, offsets[i], what);
    const uint8_t *text = lengths[i] ? fp_window_at(window, offsets[i]) : (const uint8_t *)"";
    if ((code = fp_add_text(x, pool, faults, text, lengths[i], offsets[i], what, &numbers[i], fault))) return code;
  }
  return FP_OK;
}
