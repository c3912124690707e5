/* The index: one walk over the events of a line, to count and time them and to cut them into segments. What it counts
 * is what the fill writes, so both read events through xspace_event.h. It also notes what lets the fill be quick:
 * whether every event of a segment has the regular form, and whether events are sorted. */
#include <stdlib.h>

#include "columns/utf8.h"
#include "formats/xspace_event.h"
#include "time_sums.h"

/* The state of a walk over one piece. */
typedef struct walk {
  const fp_xspace *x;
  fp_window *window;
  fp_piece *piece;
  int64_t piece_number;
  fp_depth depth;
  fp_index *index;
  const fp_id_map *events, *stats; /* the part's name tables */
  fp_segment segment; /* the one under construction; event_count 0: it is empty */
} walk;

static int by_part_and_id(const void *a, const void *b) {
  const fp_unknown_stat *x = a, *y = b;
  if (x->part != y->part) return x->part < y->part ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Appends an undeclared stat id. Repeats are removed whenever the list would have to grow, so its length stays below
 * twice the number of distinct ids. */
static bool note_unknown(fp_memory *memory, fp_vector *unknown, int64_t part, const stat_fields *stat) {
  fp_unknown_stat *items = unknown->items;
  fp_unknown_stat noted = {part, stat->id, 1 << stat->kind};
  if (unknown->count && !by_part_and_id(&items[unknown->count - 1], &noted)) {
    items[unknown->count - 1].kinds |= noted.kinds;
    return true;
  }
  if (unknown->count == unknown->capacity && unknown->count >= 64) {
    qsort(items, unknown->count, sizeof *items, by_part_and_id);
    size_t kept = 1;
    for (size_t i = 1; i < unknown->count; i++) {
      if (by_part_and_id(&items[i], &items[kept - 1]))
        items[kept++] = items[i];
      else
        items[kept - 1].kinds |= items[i].kinds;
    }
    unknown->count = kept;
    if (kept > unknown->capacity / 2 && !fp_vector_reserve(memory, unknown, sizeof *items, kept)) return false;
  }
  fp_unknown_stat *item = fp_vector_add(memory, unknown, sizeof *item);
  if (!item) return false;
  *item = noted;
  return true;
}

/* Logs a remark or a fault that reading survives. */
static bool remark(walk *w, fp_code code, uint64_t at, const char *what) {
  return fp_fault_log_add(w->x->memory, &w->index->faults, code, at, what);
}

/* Whether the part itself declares a text for this id; fp_xspace_declare_stats adds rows without one. */
static bool has_text(const walk *w, int64_t id) {
  int32_t row = fp_id_map_find(w->stats, id);
  return row >= 0 && ((const fp_stat_meta *)w->x->stat_metas.items)[row].name_length != UINT64_MAX;
}

/* Counts one stat, checks its text, and notes its kind. After a fault *at is where it lies. */
static fp_code count_stat(walk *w, const stat_fields *stat, uint64_t *at) {
  fp_segment *s = &w->segment;
  s->stat_count++;
  s->text_count += stat->kind == FP_STR;
  s->bytes_count += stat->kind == FP_BYTES;
  if (stat->kind == FP_REF && !has_text(w, (int64_t)stat->value) && !remark(w, FP_NO_TEXT, *at, "XStat.ref_value"))
    return FP_NO_MEMORY;
  if (stat->kind == FP_STR && !fp_utf8_valid(stat->payload, stat->value)) {
    *at = fp_window_place(w->window, stat->payload);
    if (!w->x->salvage) return FP_BAD_UTF8;
    if (!remark(w, FP_BAD_UTF8, *at, "XStat.str_value")) return FP_NO_MEMORY;
  }
  int32_t row = fp_id_map_find(w->stats, stat->id);
  if (row >= 0) {
    if (w->index->kinds) w->index->kinds[row] |= (uint8_t)(1u << stat->kind);
    return FP_OK;
  }
  return note_unknown(w->x->memory, &w->index->unknown, w->piece->part, stat) ? FP_OK : FP_NO_MEMORY;
}

/* A fault at a byte of the window. */
static fp_code fault_at(const walk *w, const uint8_t *p, fp_code code, uint64_t *at) {
  *at = fp_window_place(w->window, p);
  return code;
}

/* Walks the stats of an event. After a fault *at is where it lies. Sets *regular to false if anything else stands
 * among or behind them. */
static fp_code walk_stats(walk *w, const uint8_t *p, const uint8_t *end, bool slack, bool *regular, uint64_t *at) {
  while (p < end) {
    const uint8_t *start = p;
    wire_field field;
    bool short_tag = *p == TAG_EVENT_STAT;
    if (short_tag) {
      p++;
      if (!read_length(&p, end, &field.value)) return fault_at(w, start, FP_BAD_LENGTH, at);
      field.payload = p;
      p += field.value;
    } else {
      fp_code code = wire_next(&p, end, &field);
      if (code) return fault_at(w, start, code, at);
      *regular = false;
      if (field.tag != TAG_EVENT_STAT) continue; /* else it is a stat whose tag is written with too many bytes */
    }
    if (w->depth < FP_STATS) continue;
    stat_fields stat;
    fp_code code = read_stat(field.payload, p, slack && short_tag, &stat);
    if (code) return fault_at(w, start, code, at);
    *at = fp_window_place(w->window, start);
    if ((code = count_stat(w, &stat, at))) return code;
  }
  return FP_OK;
}

/* The same of an event that need not be in memory. */
static fp_code walk_placed_stats(walk *w, uint64_t next, uint64_t end, bool *regular, uint64_t *at) {
  while (next < end) {
    *at = next;
    fp_placed_field field;
    fp_code code = fp_next_field(w->window, &next, end, &field);
    if (code) return code;
    if (field.tag != TAG_EVENT_STAT || !field.short_tag) *regular = false;
    if (field.tag != TAG_EVENT_STAT || w->depth < FP_STATS) continue;
    stat_fields stat;
    if ((code = read_stat_at(w->window, field.at, next, &stat)) || (code = count_stat(w, &stat, at))) return code;
  }
  return FP_OK;
}

/* Adds an event to the segment's times and order. */
static void note_time(fp_segment *s, const event_fields *e) {
  int64_t start = e->aggregated ? INT64_MAX : e->offset_ps;
  int64_t duration = e->aggregated ? 0 : e->duration_ps;
  if (e->aggregated)
    s->aggregated_count++;
  else {
    if (start < s->min_start) s->min_start = start;
    if (start > s->max_start) s->max_start = start;
    int64_t end = fp_time_sum(start, duration);
    if (end > s->max_end) s->max_end = end;
  }
  if (!s->event_count) {
    s->first_start = start;
    s->first_duration = duration;
  } else if (start < s->last_start || (start == s->last_start && duration > s->last_duration)) {
    s->flags &= ~FP_SORTED;
  }
  s->last_start = start;
  s->last_duration = duration;
}

/* Reads an event of the window and its stats. After a fault *at is where it lies. */
static inline fp_code read_event(walk *w, const uint8_t *p, const uint8_t *end, bool slack, event_fields *event,
                                 bool *regular, uint64_t *at) {
  const uint8_t *place = p;
  bool ordered = *regular = slack && read_event_regular(p, end, event);
  fp_code code = FP_OK;
  if (!ordered && (code = read_event_any(&place, end, event))) return fault_at(w, place, code, at);
  code = walk_stats(w, ordered ? event->stats : p, end, ordered, regular, at);
  if (code || !ordered || *regular) return code;
  code = read_event_any(&place, end, event); /* its other fields may stand among or after its stats */
  return code ? fault_at(w, place, code, at) : FP_OK;
}

/* The same of an event that need not be in memory. Its beginning is looked at for the regular form. */
static fp_code read_placed_event(walk *w, uint64_t from, uint64_t end, bool slack, event_fields *event, bool *regular,
                                 uint64_t *at) {
  uint64_t head = end - from < WIRE_SLACK ? end - from : WIRE_SLACK, stats = from;
  *at = from;
  fp_code code = fp_window_need(w->window, from, from + head);
  if (code) return code;
  const uint8_t *p = fp_window_at(w->window, from); /* there is slack behind the head, too */
  bool ordered = *regular = slack && read_event_regular(p, p + head, event);
  if (ordered)
    stats = fp_window_place(w->window, event->stats);
  else if ((code = read_event_at(w->window, at, end, event)))
    return code;
  code = walk_placed_stats(w, stats, end, regular, at);
  if (code || !ordered || *regular) return code;
  *at = from;
  return read_event_at(w->window, at, end, event);
}

/* Where the stats of a segment stood before an event that turned out to be damaged. */
typedef struct stat_counts {
  int64_t stats, texts, bytes;
} stat_counts;

/* Adds an event that was read, which lies at `from`, to the segment; if that failed the segment is as it was. */
static inline fp_code add_event(walk *w, fp_code code, const event_fields *event, uint64_t from,
                                const stat_counts *was) {
  fp_segment *s = &w->segment;
  if (code) {
    s->stat_count = was->stats, s->text_count = was->texts, s->bytes_count = was->bytes;
    return code;
  }
  note_time(s, event);
  s->event_count++;
  w->piece->event_count++;
  bool named = w->depth < FP_STATS || fp_id_map_find(w->events, event->metadata_id) >= 0;
  return named || remark(w, FP_NO_METADATA, from, "XEvent.metadata_id") ? FP_OK : FP_NO_MEMORY;
}

/* Starts an empty segment. */
static void begin_segment(walk *w, uint64_t offset) {
  memset(&w->segment, 0, sizeof w->segment);
  w->segment.offset = offset;
  w->segment.piece = w->piece_number;
  w->segment.flags = FP_REGULAR | FP_SORTED;
  w->segment.min_start = INT64_MAX;
  w->segment.max_start = w->segment.max_end = INT64_MIN;
}

/* Appends the segment, unless it is empty, and starts the next. Fails only when memory runs out. */
static bool end_segment(walk *w, uint64_t offset) {
  bool ok = true;
  if (w->segment.event_count) {
    fp_segment *s = fp_vector_add(w->x->memory, &w->index->segments, sizeof *s);
    if ((ok = s != NULL)) {
      w->segment.end = offset;
      *s = w->segment;
    }
  }
  begin_segment(w, offset);
  return ok;
}

/* A field of the line itself. */
static void header_field(walk *w, const fp_placed_field *field) {
  fp_piece *piece = w->piece;
  switch (field->tag) {
    case WIRE_TAG(1, WIRE_VARINT): piece->id = (int64_t)field->value; break;
    case WIRE_TAG(3, WIRE_VARINT): piece->timestamp_ns = (int64_t)field->value; break;
    case WIRE_TAG(9, WIRE_VARINT): piece->duration_ps = (int64_t)field->value; break;
    case WIRE_TAG(10, WIRE_VARINT): piece->display_id = (int64_t)field->value; break;
    case WIRE_TAG(2, WIRE_LEN):
      piece->name_offset = field->at;
      piece->name_length = field->value;
      break;
    case WIRE_TAG(11, WIRE_LEN):
      piece->display_offset = field->at;
      piece->display_length = field->value;
      break;
    default: break;
  }
}

/* Where reading failed, and in what; `start`: in which field of the line. `framed`: inside a message whose end is
 * known, so that reading can go on behind it. */
typedef struct failure {
  uint64_t start, at;
  const char *what;
  bool framed;
} failure;

/* Walks the events that lie in the window, up to `pause`. After a fault *at is behind the event. */
static fp_code walk_window(walk *w, uint64_t *at, uint64_t end, uint64_t pause, failure *trouble) {
  const fp_window *window = w->window;
  const uint8_t *readable = window->readable, *p;
  near_events events;
  if (!events_in_window(&events, window, *at, pause, end)) return FP_OK;
  while (next_near_event(&events, &p)) {
    if (w->depth == FP_HOP) {
      w->piece->event_count++;
      continue;
    }
    const stat_counts was = {w->segment.stat_count, w->segment.text_count, w->segment.bytes_count};
    bool slack = readable - events.p >= WIRE_SLACK, regular; /* only events at the very end of a capture have none */
    event_fields event;
    uint64_t from = trouble->at = fp_window_place(window, p);
    fp_code code = read_event(w, p, events.p, slack, &event, &regular, &trouble->at);
    if ((code = add_event(w, code, &event, from, &was))) {
      *trouble = (failure){fp_window_place(window, events.start), trouble->at, "XEvent", true};
      *at = fp_window_place(window, events.p);
      return code;
    }
    if (!regular) w->segment.flags &= ~FP_REGULAR; /* also one without slack: a fill may read it where there is some */
  }
  *at = fp_window_place(window, events.p);
  return FP_OK;
}

/* Walks an event that is large or has an unusual tag. */
static fp_code walk_placed_event(walk *w, const fp_placed_field *field, uint64_t *at) {
  const stat_counts was = {w->segment.stat_count, w->segment.text_count, w->segment.bytes_count};
  uint64_t end = field->at + field->value;
  bool slack = w->window->size - end >= WIRE_SLACK, regular;
  event_fields event;
  fp_code code = read_placed_event(w, field->at, end, slack, &event, &regular, at);
  if ((code = add_event(w, code, &event, field->at, &was))) return code;
  if (!field->short_tag || !regular) w->segment.flags &= ~FP_REGULAR;
  return FP_OK;
}

/* Handles a field of the line that walk_window left. */
static fp_code walk_field(walk *w, uint64_t *at, uint64_t end, failure *trouble) {
  *trouble = (failure){*at, *at, "XLine", false};
  fp_placed_field field;
  enum field_kind kind = NO_EVENT;
  fp_code code = w->depth == FP_HOP ? fp_next_field(w->window, at, end, &field)
                                    : next_far_field(w->window, at, end, &field, &kind);
  if (code) return code;
  if (kind == PLACED_EVENT) {
    *trouble = (failure){trouble->start, field.at, "XEvent", true};
    return walk_placed_event(w, &field, &trouble->at);
  }
  if (field.tag != TAG_EVENT)
    header_field(w, &field);
  else if (w->depth == FP_HOP)
    w->piece->event_count++;
  return FP_OK;
}

/* Skips what does not decode. The segment ends before it, as segments are consecutive bytes. */
static fp_code salvage(walk *w, fp_code code, uint64_t *at, uint64_t end, const failure *trouble) {
  if (fp_ends_reading(code)) return code;
  if (!fp_fault_log_add(w->x->memory, &w->index->faults, code, trouble->at, trouble->what)) return FP_NO_MEMORY;
  if (!end_segment(w, trouble->start)) return FP_NO_MEMORY;
  if (!trouble->framed) {
    *at = trouble->start + 1;
    if ((code = fp_resync(w->window, at, end, FP_XLINE))) return code;
  }
  begin_segment(w, *at);
  return FP_OK;
}

/* A segment ends behind the first event that reaches segment_size. */
fp_code fp_index_piece(const fp_xspace *x, fp_window *window, fp_piece *piece, int64_t piece_number, fp_depth depth,
                       uint64_t from, uint64_t budget, uint64_t segment_size, fp_index *index, uint64_t *stopped,
                       fp_fault *fault) {
  walk w = {.x = x, .window = window, .piece = piece, .piece_number = piece_number, .depth = depth, .index = index,
            .events = &x->event_maps[piece->part], .stats = &x->stat_maps[piece->part]};
  uint64_t at = from, end = piece->offset + piece->length, pause = budget < end - from ? from + budget : end;
  if (from == piece->offset) piece->event_count = 0;
  if (!segment_size) segment_size = 1;
  begin_segment(&w, from);
  fp_code code = FP_OK;
  while (!code && at < pause) {
    uint64_t full = segment_size < pause - w.segment.offset ? w.segment.offset + segment_size : pause;
    failure trouble;
    code = walk_window(&w, &at, end, full, &trouble);
    if (!code && at < full) code = walk_field(&w, &at, end, &trouble);
    if (code && !x->salvage) return fp_fail(fault, code, trouble.at, trouble.what);
    if (code) code = salvage(&w, code, &at, end, &trouble);
    if (!code && at - w.segment.offset >= segment_size && !end_segment(&w, at)) code = FP_NO_MEMORY;
  }
  *stopped = at;
  if (!code && !end_segment(&w, *stopped)) code = FP_NO_MEMORY;
  return code ? fp_fail(fault, code, from, "XLine") : FP_OK;
}

void fp_index_free(fp_memory *memory, fp_index *index) {
  fp_vector_free(memory, &index->segments);
  fp_vector_free(memory, &index->unknown);
  fp_vector_free(memory, &index->faults);
  fp_release(memory, index->kinds);
  index->kinds = NULL;
}

/* For stats outside of events: those of planes and of event metadata. */
fp_code fp_unknown_in_spans(const fp_xspace *x, fp_window *window, const fp_owned_span *spans, const int64_t *parts,
                            size_t count, fp_vector *unknown, fp_fault *fault) {
  for (size_t i = 0; i < count; i++) {
    stat_fields stat;
    fp_code code = read_stat_at(window, spans[i].offset, spans[i].offset + spans[i].length, &stat);
    if (code && x->salvage && !fp_ends_reading(code)) continue; /* the fill logs it */
    if (code) return fp_fail(fault, code, spans[i].offset, "XStat");
    if (fp_id_map_find(&x->stat_maps[parts[i]], stat.id) >= 0) continue;
    if (!note_unknown(x->memory, unknown, parts[i], &stat)) return fp_fail(fault, FP_NO_MEMORY, spans[i].offset, "XStat");
  }
  return FP_OK;
}
