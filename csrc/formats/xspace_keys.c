/* Filling other than from front to back: counting what a filter keeps, filling events in an order of the caller's,
 * and stats at given places. The caller sorts keys rather than rows, so that events of a line that is not sorted are
 * decoded only once, directly to their place. */
#include "formats/xspace_fill.h"

/* Called for each event of a segment. */
typedef fp_code (*event_visitor)(filling *f, const event_fields *event, const uint8_t *payload, const uint8_t *end,
                                 void *context);

/* Calls `visit` for each event of a segment, and stops at the first fault. */
static fp_code each_event(filling *f, const fp_segment *s, event_visitor visit, void *context) {
  const uint8_t *p = f->x->data + s->offset, *end = f->x->data + s->end;
  while (p < end) {
    wire_field field;
    f->at = p;
    fp_code code = wire_next(&p, end, &field);
    if (code) return code;
    if (field.tag != TAG_EVENT) continue;
    event_fields event;
    bool slack;
    if ((code = fp_read_event(f, field.payload, p, s->flags & FP_REGULAR, &event, &slack))) return code;
    if ((code = visit(f, &event, field.payload, p, context))) return code;
  }
  return FP_OK;
}

/* Adds the number of an event's stats to *count. */
static fp_code count_stats(const event_fields *event, const uint8_t *end, int64_t *count) {
  const uint8_t *p = event->stats;
  while (p < end) {
    wire_field field;
    fp_code code = wire_next(&p, end, &field);
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
static fp_code count_kept(filling *f, const event_fields *event, const uint8_t *payload, const uint8_t *end, void *context) {
  (void)payload;
  keeping *k = context;
  int32_t meta = fp_id_map_find(&f->x->event_maps[f->piece->part], event->metadata_id);
  if (!fp_kept(k->filter, f->piece, event, meta)) return FP_OK;
  k->segment->kept_events++;
  return k->stats ? count_stats(event, end, &k->segment->kept_stats) : FP_OK;
}

/* More events than the index saw would not fit their columns. */
fp_code fp_count_kept(const fp_xspace *x, const fp_piece *pieces, fp_segment *segments, size_t count,
                      const fp_filter *filter, bool stats, fp_fault *fault) {
  filling f = {.x = x, .data_end = x->data + x->size, .fault = fault};
  for (size_t i = 0; i < count; i++) {
    f.piece = &pieces[segments[i].piece];
    keeping k = {filter, &segments[i], stats};
    segments[i].kept_events = segments[i].kept_stats = 0;
    fp_code code = each_event(&f, &segments[i], count_kept, &k);
    bool more = segments[i].kept_events > segments[i].event_count || (stats && segments[i].kept_stats > segments[i].stat_count);
    if (!code && more) code = FP_CHANGED;
    if (code) return fp_fail(fault, code, (uint64_t)(f.at - x->data), "XEvent");
  }
  return FP_OK;
}

/* What add_key needs: the filter, and the place of the next key. */
typedef struct keying {
  const fp_filter *filter;
  fp_event_key *next, *end;
  int32_t piece;
} keying;

/* Writes the key of an event. Without a start it sorts behind all others. */
static fp_code add_key(filling *f, const event_fields *event, const uint8_t *payload, const uint8_t *end, void *context) {
  keying *k = context;
  int64_t start, stats = 0;
  bool timed = !event->aggregated && !f->piece->timeless &&
               !__builtin_add_overflow(f->piece->base_ps, event->offset_ps, &start);
  fp_code code = count_stats(event, end, &stats);
  if (code) return code;
  if (k->next == k->end) return FP_CHANGED;
  if (end - payload > UINT32_MAX) return FP_BAD_LENGTH; /* protobuf's own limit is half of this */
  int32_t meta = fp_id_map_find(&f->x->event_maps[f->piece->part], event->metadata_id);
  *k->next++ = (fp_event_key){timed ? start : INT64_MAX, timed ? ~event->duration_ps : INT64_MAX,
                              (uint64_t)(payload - f->x->data), (uint32_t)(end - payload), (uint32_t)stats, k->piece,
                              fp_kept(k->filter, f->piece, event, meta)};
  return FP_OK;
}

fp_code fp_event_keys(const fp_xspace *x, const fp_piece *pieces, const fp_segment *segment, const fp_filter *filter,
                      fp_event_key *keys, fp_fault *fault) {
  filling f = {.x = x, .data_end = x->data + x->size, .piece = &pieces[segment->piece], .fault = fault};
  keying k = {filter, keys, keys + segment->event_count, (int32_t)segment->piece};
  fp_code code = each_event(&f, segment, add_key, &k);
  if (!code && k.next != k.end) code = FP_CHANGED;
  return code ? fp_fail(fault, code, (uint64_t)(f.at - x->data), "XEvent") : FP_OK;
}

/* Events come from all over the file, so line, part and names are looked up for each. */
fp_code fp_fill_keys(const fp_xspace *x, const fp_piece *pieces, const fp_event_key *keys, const int64_t *event_ids,
                     size_t count, int64_t row, int64_t stat_row, int64_t stat_row_end, fp_sink *sink, fp_fault *fault) {
  filling f = {.x = x, .sink = sink, .data_end = x->data + x->size, .stat_row = stat_row, .stat_row_end = stat_row_end,
               .fault = fault};
  fault->code = FP_OK;
  for (size_t i = 0; i < count; i++, row++) {
    const uint8_t *p = x->data + keys[i].offset, *end = p + keys[i].length;
    f.piece = &pieces[keys[i].piece];
    f.stats = &x->stat_maps[f.piece->part];
    event_fields event;
    bool slack;
    fp_code code = fp_read_event(&f, p, end, false, &event, &slack);
    int32_t meta = fp_id_map_find(&x->event_maps[f.piece->part], event.metadata_id);
    if (!code) code = fp_emit_event(&f, &event, end, slack, meta, row, event_ids[i]);
    if (code) return fault->code ? code : fp_fail(fault, code, (uint64_t)(f.at - x->data), "XEvent");
    fp_fill_line_columns(f.piece, sink, row, row + 1);
  }
  if (sink->want_stats && f.stat_row != stat_row_end)
    return fp_fail(fault, FP_CHANGED, count ? keys[count - 1].offset : 0, "XEvent");
  return FP_OK;
}

/* A row for each span, also if it does not decode: the caller drops those of kind FP_LOST_REF. */
fp_code fp_fill_spans(const fp_xspace *x, const fp_owned_span *spans, const int64_t *parts, size_t count,
                      int64_t *stat_ids, fp_sink *sink, fp_fault *fault) {
  filling f = {.x = x, .sink = sink, .data_end = x->data + x->size, .stat_row_end = (int64_t)count, .fault = fault};
  for (size_t i = 0; i < count; i++) {
    const uint8_t *p = x->data + spans[i].offset;
    stat_fields stat;
    fault->code = FP_OK;
    fp_code code = read_stat_any(p, p + spans[i].length, &stat);
    if (code && x->salvage) {
      if (!fp_fault_log_add(x->memory, &sink->faults, code, spans[i].offset, "XStat"))
        return fp_fail(fault, FP_NO_MEMORY, spans[i].offset, "XStat");
      memset(&stat, 0, sizeof stat);
      stat.kind = FP_LOST_REF; /* the caller drops the row */
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

fp_code fp_intern(const fp_xspace *x, const uint64_t *offsets, const uint64_t *lengths, size_t count, const char *what,
                  fp_strings *pool, int32_t *numbers, fp_vector *faults, fp_fault *fault) {
  for (size_t i = 0; i < count; i++) {
    numbers[i] = -1;
    if (lengths[i] == UINT64_MAX) continue;
    fp_code code = fp_add_text(x, pool, faults, x->data + offsets[i], lengths[i], what, &numbers[i], fault);
    if (code) return code;
  }
  return FP_OK;
}
