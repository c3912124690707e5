/* The fill: segments of events, decoded into columns whose sizes the index has counted. Several threads may fill
 * segments at once: each writes only to the rows of its own. The bytes may have changed since the index saw them (a
 * file that is still being written), so every row number is checked before it is written to, and counts that do not
 * match in the end are FP_CHANGED. */
#include "columns/utf8.h"
#include "formats/event_batch.h"
#include "formats/xspace_event.h"
#include "formats/xspace_fill.h"
#include "time_sums.h"

/* Writes one value to the rows from..to of a column of indices, in the width of the column. */
static void repeat_index(const fp_index_column *column, int64_t from, int64_t to, int32_t value) {
  if (!column->to || from >= to) return;
  if (column->width == 1) {
    memset((int8_t *)column->to + from, value, (size_t)(to - from));
  } else if (column->width == 2) {
    for (int64_t i = from; i < to; i++) ((int16_t *)column->to)[i] = (int16_t)value;
  } else {
    for (int64_t i = from; i < to; i++) ((int32_t *)column->to)[i] = value;
  }
}

static void repeat_int32(int32_t *to, int64_t from, int64_t end, int32_t value) {
  if (to)
    for (int64_t i = from; i < end; i++) to[i] = value;
}

void fp_fill_line_columns(const fp_piece *piece, const fp_sink *sink, int64_t from, int64_t to) {
  repeat_int32(sink->plane_id, from, to, piece->plane_id);
  repeat_int32(sink->line_id, from, to, piece->line_id);
  repeat_index(&sink->host, from, to, piece->host);
  repeat_index(&sink->plane, from, to, piece->plane);
  repeat_index(&sink->line, from, to, piece->line);
}

/* Notes where the bytes of a stat lie; the caller copies them. */
static fp_code add_bytes(filling *f, int64_t row, int64_t column, const stat_fields *stat) {
  fp_bytes_at *item = fp_vector_add(f->x->memory, &f->sink->bytes, sizeof *item);
  if (!item) return FP_NO_MEMORY;
  uint64_t place = stat->payload ? fp_window_place(f->window, stat->payload) : stat->place;
  *item = (fp_bytes_at){row, column, place, stat->value};
  return FP_OK;
}

/* Valid text goes to the pool as it is. Repairs need a copy, since the bytes are only read. */
fp_code fp_add_text(const fp_xspace *x, fp_strings *pool, fp_vector *faults, const uint8_t *text, uint64_t length,
                    uint64_t offset, const char *what, int32_t *number, fp_fault *fault) {
  if (fp_utf8_valid(text, length)) {
    *number = fp_strings_add(pool, text, length);
    return *number < 0 ? fp_fail(fault, FP_NO_MEMORY, offset, what) : FP_OK;
  }
  if (!x->salvage) return fp_fail(fault, FP_BAD_UTF8, offset, what);
  if (!fp_fault_log_add(x->memory, faults, FP_BAD_UTF8, offset, what)) return fp_fail(fault, FP_NO_MEMORY, offset, what);
  size_t size = fp_utf8_repair(text, length, NULL);
  uint8_t *repaired = fp_alloc(x->memory, size);
  if (!repaired) return fp_fail(fault, FP_NO_MEMORY, offset, what);
  fp_utf8_repair(text, length, repaired);
  *number = fp_strings_add(pool, repaired, size);
  fp_release(x->memory, repaired);
  return *number < 0 ? fp_fail(fault, FP_NO_MEMORY, offset, what) : FP_OK;
}

/* The index of a stat's text: its own, numbered from text_base on, or the one that its ref stands for; -1: none. */
static fp_code text_of(filling *f, const stat_fields *stat, int64_t *index) {
  if (stat->kind == FP_REF) {
    int32_t row = fp_id_map_find(f->stats, (int64_t)stat->value);
    *index = row < 0 || !f->sink->stat_texts ? -1 : f->sink->stat_texts[row];
    return FP_OK;
  }
  int32_t number = 0;
  fp_code code = fp_add_text(f->x, &f->sink->texts, &f->sink->faults, stat->payload, stat->value,
                             fp_window_place(f->window, stat->payload), "XStat.str_value", &number, f->fault);
  *index = f->sink->text_base + number;
  return code;
}

/* Writes a stat to the column of its name, unless the event has one already: the first counts. */
static fp_code emit_wide(filling *f, int64_t row, int32_t column, const stat_fields *stat) {
  fp_wide_column *wide = &f->sink->wide[column];
  if (wide->kind[row] != FP_NONE || stat->kind == FP_NONE) return FP_OK;
  int64_t value = (int64_t)stat->value;
  fp_code code = FP_OK;
  if (stat->kind == FP_STR || stat->kind == FP_REF) code = text_of(f, stat, &value);
  if (stat->kind == FP_REF && value < 0) {
    wide->kind[row] = FP_LOST_REF;
    wide->value[row] = (int64_t)stat->value;
    return code;
  }
  if (stat->kind == FP_BYTES) code = add_bytes(f, row, column, stat);
  wide->kind[row] = (uint8_t)stat->kind;
  wide->value[row] = value;
  return code;
}

/* Appends a value to the picked stats of its name. */
static inline fp_code add_pick(filling *f, int64_t row, int16_t number, int kind, int64_t value) {
  bool added = fp_picked_add(f->x->memory, f->sink->picks, (size_t)number, (int32_t)row, kind, value);
  return added ? FP_OK : FP_NO_MEMORY;
}

/* A picked text, or a ref that leads to none. */
static fp_code pick_text(filling *f, int64_t row, int16_t number, const stat_fields *stat) {
  int64_t index;
  fp_code code = text_of(f, stat, &index);
  if (code) return code;
  if (index < 0) return add_pick(f, row, number, FP_LOST_REF, (int64_t)stat->value);
  return add_pick(f, row, number, stat->kind, index);
}

/* A picked stat. One without a value does not count as the first of its name. */
static inline fp_code emit_pick(filling *f, int64_t row, int16_t number, const stat_fields *stat) {
  if (stat->kind == FP_STR || stat->kind == FP_REF) return pick_text(f, row, number, stat);
  if (stat->kind == FP_NONE) return FP_OK;
  return add_pick(f, row, number, stat->kind, (int64_t)stat->value);
}

/* Writes an index in the width of its column. */
static inline void store(const fp_index_column *column, int64_t row, int32_t value) {
  if (column->width == 1)
    ((int8_t *)column->to)[row] = (int8_t)value;
  else if (column->width == 2)
    ((int16_t *)column->to)[row] = (int16_t)value;
  else
    ((int32_t *)column->to)[row] = value;
}

/* A stat's value goes to the column of its kind; the others keep what they had. A ref without text keeps its id as an
 * integer. */
fp_code fp_emit_stat(filling *f, int64_t event_id, int32_t meta, const stat_fields *stat) {
  fp_sink *sink = f->sink;
  int64_t row = f->stat_row++;
  if (row >= f->stat_row_end) return FP_CHANGED;
  if (sink->stat_event_id) sink->stat_event_id[row] = event_id;
  if (sink->kind) sink->kind[row] = (uint8_t)stat->kind;
  if (sink->stat.to) store(&sink->stat, row, meta < 0 ? -1 : sink->stat_names[meta]);
  switch (stat->kind) {
    case FP_INT64:
    case FP_UINT64:
      if (sink->int_value) sink->int_value[row] = (int64_t)stat->value;
      return FP_OK;
    case FP_DOUBLE:
      if (sink->double_value) memcpy(&sink->double_value[row], &stat->value, 8);
      return FP_OK;
    case FP_BYTES: return add_bytes(f, row, -1, stat);
    case FP_REF:
    case FP_STR: {
      int64_t index;
      if (stat->kind == FP_STR && sink->text.to && sink->text.width < 4) return FP_CHANGED; /* the index saw no text */
      fp_code code = text_of(f, stat, &index);
      if (sink->text.to) store(&sink->text, row, (int32_t)index);
      if (index < 0 && sink->int_value) sink->int_value[row] = (int64_t)stat->value; /* a ref without text */
      return code;
    }
    default: return FP_OK;
  }
}

/* Writes one stat wherever it is wanted. */
static inline fp_code put_stat(filling *f, const stat_fields *stat, int64_t event_id, int64_t row) {
  fp_code code;
  int32_t meta = fp_id_map_find(f->stats, stat->id);
  if (f->sink->wide_of_stat && meta >= 0 && f->sink->wide_of_stat[meta] >= 0)
    if ((code = emit_wide(f, row, f->sink->wide_of_stat[meta], stat))) return code;
  if (f->sink->pick_of_stat && meta >= 0 && f->sink->pick_of_stat[meta] >= 0)
    if ((code = emit_pick(f, row, f->sink->pick_of_stat[meta], stat))) return code;
  if (!f->sink->want_stats) return FP_OK;
  if (meta < 0 || (f->sink->stat.to && f->sink->stat_names[meta] < 0)) return FP_CHANGED; /* the index knew every stat */
  return fp_emit_stat(f, event_id, meta, stat);
}

/* Reads the stats of an event. Mostly there is nothing else, and tags take one byte. */
static fp_code fill_stats(filling *f, const uint8_t *p, const uint8_t *end, bool slack, int64_t event_id, int64_t row) {
  while (p < end) {
    wire_field stat = {.tag = TAG_EVENT_STAT};
    fp_code code;
    f->at = p;
    bool short_tag = *p == TAG_EVENT_STAT;
    if (short_tag) {
      p++;
      if (!read_length(&p, end, &stat.value)) return FP_BAD_LENGTH;
      stat.payload = p;
      p += stat.value;
    } else if ((code = wire_next(&p, end, &stat))) {
      return code;
    }
    if (stat.tag != TAG_EVENT_STAT) continue;
    stat_fields fields;
    if ((code = read_stat(stat.payload, p, slack && short_tag, &fields))) return code;
    if ((code = put_stat(f, &fields, event_id, row))) return code;
  }
  return FP_OK;
}

/* The same of a large event, which need not be in memory. */
static fp_code fill_placed_stats(filling *f, const event_fields *event, int64_t event_id, int64_t row) {
  for (uint64_t at = event->at; at < event->end;) {
    uint64_t start = at;
    fp_placed_field field;
    fp_code code = fp_next_field(f->window, &at, event->end, &field);
    if (!code && field.tag != TAG_EVENT_STAT) continue;
    stat_fields stat;
    if (!code) code = read_stat_at(f->window, field.at, at, &stat);
    if (!code) code = put_stat(f, &stat, event_id, row);
    if (code) return f->fault->code ? code : fp_fail(f->fault, code, start, "XEvent");
  }
  return FP_OK;
}

/* Gives wide columns the default of the event's metadata where no stat was found. */
static void wide_defaults(const fp_sink *sink, int64_t row, int32_t meta) {
  for (int64_t i = 0; i < sink->wide_count; i++) {
    const fp_wide_column *wide = &sink->wide[i];
    if (wide->kind[row] != FP_NONE || meta < 0 || !wide->default_kind) continue;
    wide->kind[row] = wide->default_kind[meta];
    wide->value[row] = wide->default_value[meta];
  }
}

/* An event of no length is kept if it starts in the interval. An event without a start is in no interval. */
bool fp_kept(const fp_filter *filter, const fp_piece *piece, const event_fields *event, int32_t meta) {
  if (!filter) return true;
  if (filter->keep_meta && !(meta < 0 ? filter->keep_unnamed : filter->keep_meta[meta])) return false;
  if (!filter->timed) return true;
  if (filter->from_ps >= filter->to_ps) return false; /* the interval is empty */
  int64_t start;
  if (event->aggregated || piece->timeless || __builtin_add_overflow(piece->base_ps, event->offset_ps, &start)) return false;
  int64_t end = fp_time_sum(start, event->duration_ps);
  return start < filter->to_ps && (end > filter->from_ps || start >= filter->from_ps);
}

fp_code fp_fail_here(filling *f, fp_code code) {
  return f->fault->code ? code : fp_fail(f->fault, code, fp_window_place(f->window, f->at), "XEvent");
}

fp_code fp_read_placed_event(filling *f, uint64_t from, uint64_t size, event_fields *event) {
  uint64_t at = from;
  fp_code code = read_event_at(f->window, &at, from + size, event);
  return code ? fp_fail(f->fault, code, at, "XEvent") : FP_OK;
}

/* Whether anything is to be done with the stats of the piece's events. */
static bool wants_stats(const filling *f) {
  const fp_sink *sink = f->sink;
  return sink->want_stats || sink->wide_count || (sink->pick_of_stat && sink->pick_parts[f->piece->part]);
}

/* The columns that stats fill, of an event in the window or of a placed one. Wide columns are emptied first: the first
 * stat of a name counts, then the default. */
static inline fp_code emit_stats(filling *f, const event_fields *placed, const uint8_t *stats, const uint8_t *end,
                                 bool slack, int32_t meta, int64_t row, int64_t event_id) {
  fp_sink *sink = f->sink;
  for (int64_t i = 0; i < sink->wide_count; i++) sink->wide[i].kind[row] = FP_NONE;
  fp_code code = placed ? fill_placed_stats(f, placed, event_id, row) : fill_stats(f, stats, end, slack, event_id, row);
  wide_defaults(sink, row, meta);
  return code;
}

fp_code fp_emit_event(filling *f, const event_fields *event, const uint8_t *end, bool slack, int32_t meta, int64_t row,
                      int64_t event_id) {
  fp_event_batch one;
  one.count = 0;
  fp_batch_event(&one, f->piece, event, meta, event_id);
  fp_write_batch(&one, f->sink, row);
  if (!wants_stats(f)) return FP_OK;
  return emit_stats(f, event->stats ? NULL : event, event->stats, end, slack, meta, row, event_id);
}

/* Where the next event of a segment lies, and where it goes. */
typedef struct filled_to {
  const fp_segment *segment;
  uint64_t at;
  int64_t row, event_id;
} filled_to;

/* Reads the kept ones of the events that lie in the window, as many as a batch holds. */
static fp_code read_batch(filling *f, filled_to *to, fp_event_batch *batch) {
  const fp_id_map *metas = &f->x->event_maps[f->piece->part];
  const fp_filter *filter = f->sink->filter;
  bool regular = to->segment->flags & FP_REGULAR;
  const uint8_t *p;
  near_events events;
  batch->count = 0;
  if (!events_in_window(&events, f->window, to->at, to->segment->end, to->segment->end)) return FP_OK;
  while (batch->count < FP_BATCH && next_near_event(&events, &p)) {
    event_fields event;
    bool slack;
    fp_code code = fp_read_event(f, p, events.p, regular, &event, &slack);
    if (code) return fp_fail_here(f, code);
    int32_t meta = fp_id_map_find(metas, event.metadata_id);
    int64_t event_id = to->event_id++;
    if (filter && !fp_kept(filter, f->piece, &event, meta)) continue;
    size_t i = fp_batch_event(batch, f->piece, &event, meta, event_id);
    batch->stats[i] = event.stats;
    batch->ends[i] = events.p;
    batch->slack[i] = slack;
  }
  to->at = fp_window_place(f->window, events.p);
  return FP_OK;
}

/* Writes a batch, whose bytes are still in the window. */
static fp_code write_batch(filling *f, filled_to *to, const fp_event_batch *batch) {
  if ((int64_t)batch->count > to->segment->row_end - to->row) return fp_fail(f->fault, FP_CHANGED, to->at, "XEvent");
  fp_write_batch(batch, f->sink, to->row);
  for (size_t i = 0; i < batch->count && wants_stats(f); i++) {
    fp_code code = emit_stats(f, NULL, batch->stats[i], batch->ends[i], batch->slack[i], batch->meta[i],
                              to->row + (int64_t)i, batch->event_id[i]);
    if (code) return fp_fail_here(f, code);
  }
  to->row += (int64_t)batch->count;
  return FP_OK;
}

/* Handles a field of the line that no batch takes. */
static fp_code fill_field(filling *f, filled_to *to) {
  uint64_t start = to->at;
  fp_placed_field field;
  enum field_kind kind;
  fp_code code = next_far_field(f->window, &to->at, to->segment->end, &field, &kind);
  if (code) return fp_fail(f->fault, code, start, "XEvent");
  if (kind != PLACED_EVENT) return FP_OK;
  event_fields event;
  if ((code = fp_read_placed_event(f, field.at, field.value, &event))) return code;
  int32_t meta = fp_id_map_find(&f->x->event_maps[f->piece->part], event.metadata_id);
  int64_t event_id = to->event_id++;
  if (!fp_kept(f->sink->filter, f->piece, &event, meta)) return FP_OK;
  if (to->row >= to->segment->row_end) return fp_fail(f->fault, FP_CHANGED, start, "XEvent");
  return fp_emit_event(f, &event, NULL, false, meta, to->row++, event_id);
}

/* Fills the rows of one segment, and checks at the end that the counts match those of the index. */
static fp_code fill_segment(filling *f, const fp_segment *s) {
  filled_to to = {s, s->offset, s->row, s->event_id};
  fp_event_batch batch;
  while (to.at < s->end) {
    uint64_t start = to.at;
    fp_code code = read_batch(f, &to, &batch);
    if (!code) code = to.at > start ? write_batch(f, &to, &batch) : fill_field(f, &to);
    if (code) return fp_fail_here(f, code);
  }
  fp_fill_line_columns(f->piece, f->sink, s->row, to.row);
  bool counted = to.row == s->row_end && to.event_id == s->event_id + s->event_count &&
                 (!f->sink->want_stats || f->stat_row == f->stat_row_end);
  return counted ? FP_OK : fp_fail(f->fault, FP_CHANGED, s->offset, "XEvent");
}

fp_code fp_fill(const fp_xspace *x, fp_window *window, const fp_piece *pieces, const fp_segment *segments, size_t count,
                fp_sink *sink, fp_fault *fault) {
  filling f = {.x = x, .window = window, .sink = sink, .fault = fault};
  for (size_t i = 0; i < count; i++) {
    const fp_segment *s = &segments[i];
    f.piece = &pieces[s->piece];
    f.stats = &x->stat_maps[f.piece->part];
    f.stat_row = s->stat_row;
    f.stat_row_end = s->stat_row_end;
    fault->code = FP_OK;
    fp_code code = fill_segment(&f, s);
    if (code) return code;
  }
  return FP_OK;
}
