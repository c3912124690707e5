/* The steps of a decoding, with checks between them that hold for any bytes: faults lie within the data, segments
 * within their pieces, counts add up, texts and ids are found again. */
#define _POSIX_C_SOURCE 200809L
#include "tests/decoding.h"

#include <unistd.h>

#include "tests/check.h"

void *exact(size_t count, size_t item_size) {
  void *block = calloc(count, item_size);
  CHECK(block || !count);
  return block;
}

/* Checks that a failure is reported completely: a code, a text for it, and a place within the data. */
static fp_code failed(decoding *d, fp_code code) {
  CHECK(code > FP_OK && (code <= FP_CHANGED || code == FP_UNREADABLE || code == FP_TOO_MANY));
  CHECK_INT(d->fault.code, code);
  CHECK(d->fault.what != NULL && *fp_code_text(code));
  CHECK(d->fault.offset <= d->size);
  return code;
}

void decoding_begin(decoding *d) {
  decoding begun = {.data = d->data, .size = d->size, .salvage = d->salvage, .depth = d->depth,
                    .segment_size = d->segment_size, .budget = d->budget, .most = d->most};
  *d = begun;
  fp_memory_init(&d->memory);
  d->scanner.memory = d->names.memory = d->texts.memory = d->xspace.memory = &d->memory;
  d->scanner.salvage = d->xspace.salvage = d->salvage;
  fp_window_begin(&d->window, &d->memory);
  if (d->most) {
    d->file = tmpfile();
    CHECK(d->file != NULL);
    decoding_rewrite(d, d->size);
    d->window.most = d->most;
    fp_window_of_file(&d->window, fileno(d->file), d->size, false);
  } else {
    fp_window_of_memory(&d->window, d->data, d->size);
  }
}

void decoding_rewrite(decoding *d, size_t size) {
  if (!d->file) return;
  CHECK(size <= d->size && pwrite(fileno(d->file), d->data, size, 0) == (ssize_t)size);
  CHECK(!ftruncate(fileno(d->file), (off_t)size));
  fp_window_of_file(&d->window, fileno(d->file), d->size, false);
}

fp_code decoding_open(decoding *d) {
  fp_code code = fp_scanner_read(&d->scanner, &d->window, &d->fault);
  if (!code) code = fp_scanner_finish(&d->scanner, &d->fault);
  if (!code) code = fp_xspace_open(&d->xspace, &d->scanner, &d->window, &d->fault);
  if (code) return failed(d, code);
  const fp_vector *lines = &d->scanner.spans[FP_LINES];
  d->piece_count = lines->count;
  d->pieces = exact(d->piece_count, sizeof *d->pieces);
  for (size_t i = 0; i < d->piece_count; i++) {
    const fp_span *span = (const fp_span *)lines->items + i;
    CHECK(span->offset <= d->size && span->length <= d->size - span->offset);
    CHECK(span->part >= 0 && (size_t)span->part < d->scanner.parts.count);
    d->pieces[i] = (fp_piece){.offset = span->offset, .length = span->length, .part = span->part};
  }
  return FP_OK;
}

/* ---- index ------------------------------------------------------------------------------------------ */

/* Indexes each piece in several calls of `budget` bytes. Each call must make progress. */
static fp_code index_pieces(decoding *d) {
  if (d->depth == FP_STATS && !d->index.kinds) {
    d->index.kinds = fp_alloc_zeroed(&d->memory, d->xspace.stat_metas.count, 1);
    if (!d->index.kinds) return fp_fail(&d->fault, FP_NO_MEMORY, 0, "kinds");
  }
  for (size_t i = 0; i < d->piece_count; i++) {
    fp_piece *piece = &d->pieces[i];
    uint64_t from = piece->offset, end = piece->offset + piece->length, stopped;
    do {
      fp_code code = fp_index_piece(&d->xspace, &d->window, piece, (int64_t)i, d->depth, from, d->budget, d->segment_size, &d->index,
                                    &stopped, &d->fault);
      if (code) return failed(d, code);
      CHECK(stopped <= end && (stopped > from || stopped == end));
      from = stopped;
    } while (from < end);
    bool fits = !__builtin_mul_overflow(piece->timestamp_ns, 1000, &piece->base_ps);
    if (!fits) piece->base_ps = 0;
    piece->timeless = !fits;
    piece->line_id = piece->plane_id = (int32_t)i;
    piece->line = (int32_t)i;
  }
  return FP_OK;
}

static int by_part_and_id(const void *a, const void *b) {
  const fp_unknown_stat *x = a, *y = b;
  if (x->part != y->part) return x->part < y->part ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Declarations go to a fork, as in the package; the original must not change. */
static fp_code fork_once(decoding *d) {
  if (d->forked) return FP_OK;
  d->original = d->xspace;
  fp_code code = fp_xspace_fork(&d->original, &d->xspace, &d->fault);
  if (code) d->xspace = d->original;
  d->forked = !code;
  return code;
}

/* Declares the unknown ids of each part, and checks that only the fork has them. */
static fp_code declare(decoding *d, const fp_vector *unknown) {
  if (!unknown->count) return FP_OK;
  fp_unknown_stat *items = unknown->items;
  qsort(items, unknown->count, sizeof *items, by_part_and_id);
  int64_t *ids = exact(unknown->count, sizeof *ids);
  fp_code code = fork_once(d);
  size_t before = d->original.stat_metas.count;
  for (size_t i = 0; !code && i < unknown->count;) {
    size_t count = 0, first = i;
    for (; i < unknown->count && items[i].part == items[first].part; i++)
      if (!count || items[i].id != ids[count - 1]) ids[count++] = items[i].id;
    code = fp_xspace_declare_stats(&d->xspace, items[first].part, ids, count, &d->fault);
    if (code) break;
    CHECK(fp_id_map_find(&d->xspace.stat_maps[items[first].part], ids[0]) >= 0);
    CHECK_INT(fp_id_map_find(&d->original.stat_maps[items[first].part], ids[0]), -1);
    CHECK_INT(d->original.stat_metas.count, before);
  }
  free(ids);
  return code ? failed(d, code) : FP_OK;
}

/* Numbers in `pool` of the texts whose offset and length are the two words at `field` of each record. */
static fp_code look_up(decoding *d, const fp_vector *records, size_t item_size, size_t field, const char *what,
                       fp_strings *pool, int32_t **numbers) {
  size_t count = records->count;
  uint64_t *offsets = exact(count, sizeof *offsets), *lengths = exact(count, sizeof *lengths);
  int32_t *found = exact(count, sizeof *found);
  for (size_t i = 0; i < count; i++) {
    const uint64_t *place = (const uint64_t *)((const char *)records->items + i * item_size + field);
    offsets[i] = place[0];
    lengths[i] = place[1];
    CHECK(lengths[i] == UINT64_MAX || (offsets[i] <= d->size && lengths[i] <= d->size - offsets[i]));
  }
  fp_code code = fp_intern(&d->xspace, &d->window, offsets, lengths, count, what, pool, found, &d->faults, &d->fault);
  for (size_t i = 0; !code && i < count; i++)
    CHECK(found[i] >= (lengths[i] == UINT64_MAX ? -1 : 0) && (size_t)(found[i] + 1) <= fp_strings_count(pool));
  free(offsets);
  free(lengths);
  if (numbers && !code)
    *numbers = found;
  else
    free(found);
  return code ? failed(d, code) : FP_OK;
}

/* Interns everything that has a name. */
static fp_code look_up_names(decoding *d) {
  fp_xspace *x = &d->xspace;
  fp_vector pieces = {d->pieces, d->piece_count, d->piece_count};
  fp_code code = look_up(d, &d->scanner.parts, sizeof(fp_part), offsetof(fp_part, name_offset), "XPlane.name", &d->names, NULL);
  for (int kind = FP_ERRORS; !code && kind <= FP_HOSTNAMES; kind++)
    code = look_up(d, &d->scanner.spans[kind], sizeof(fp_span), 0, "XSpace", &d->names, NULL);
  if (!code) code = look_up(d, &pieces, sizeof(fp_piece), offsetof(fp_piece, name_offset), "XLine.name", &d->names, NULL);
  if (!code)
    code = look_up(d, &pieces, sizeof(fp_piece), offsetof(fp_piece, display_offset), "XLine.display_name", &d->names, NULL);
  if (!code)
    code = look_up(d, &x->event_metas, sizeof(fp_event_meta), offsetof(fp_event_meta, display_offset),
                   "XEventMetadata.display_name", &d->names, NULL);
  if (!code)
    code = look_up(d, &x->event_metas, sizeof(fp_event_meta), offsetof(fp_event_meta, name_offset), "XEventMetadata.name",
                   &d->names, &d->meta_names);
  if (!code)
    code = look_up(d, &x->stat_metas, sizeof(fp_stat_meta), offsetof(fp_stat_meta, description_offset),
                   "XStatMetadata.description", &d->texts, NULL);
  if (!code)
    code = look_up(d, &x->stat_metas, sizeof(fp_stat_meta), offsetof(fp_stat_meta, name_offset), "XStatMetadata.name",
                   &d->texts, &d->stat_texts);
  return code;
}

/* Fills the tables that a sink looks things up in. Stats without a declared name are called "#"; each stat goes to
 * one of the wide columns or to none; every second event metadata has a default. */
static fp_code prepare_lookups(decoding *d) {
  if (fp_strings_add(&d->texts, (const uint8_t *)"#", 1) < 0) return fp_fail(&d->fault, FP_NO_MEMORY, 0, "texts");
  size_t stats = d->xspace.stat_metas.count, metas = d->xspace.event_metas.count;
  d->stat_names = exact(stats, sizeof *d->stat_names);
  d->wide_of_stat = exact(stats, sizeof *d->wide_of_stat);
  d->pick_of_stat = exact(stats, sizeof *d->pick_of_stat);
  d->pick_parts = exact(d->xspace.part_count, 1);
  if (d->xspace.part_count) memset(d->pick_parts, 1, d->xspace.part_count);
  for (size_t i = 0; i < stats; i++) {
    d->stat_names[i] = d->stat_texts[i] < 0 ? 0 : d->stat_texts[i];
    d->pick_of_stat[i] = (int16_t)(d->stat_names[i] < INT16_MAX ? d->stat_names[i] : -1);
    d->wide_of_stat[i] = (int32_t)(i % (WIDE_COLUMNS + 1)) - 1;
  }
  d->default_kind = exact(metas, 1);
  d->default_value = exact(metas, sizeof *d->default_value);
  for (size_t i = 0; i < metas; i++) {
    d->default_kind[i] = i % 2 ? FP_INT64 : FP_NONE;
    d->default_value[i] = (int64_t)i;
  }
  return FP_OK;
}

/* Checks what the index says of segments, and gives their events ids, rows and stat rows. */
static void check_segments(decoding *d) {
  int64_t *counted = exact(d->piece_count, sizeof *counted);
  for (size_t i = 0; i < d->piece_count; i++) counted[i] = 0;
  for (size_t i = 0; i < d->index.segments.count; i++) {
    fp_segment *s = (fp_segment *)d->index.segments.items + i;
    const fp_piece *piece = &d->pieces[s->piece];
    CHECK(s->offset >= piece->offset && s->offset < s->end && s->end <= piece->offset + piece->length);
    CHECK(s->event_count > 0 && s->aggregated_count >= 0 && s->aggregated_count <= s->event_count);
    CHECK(s->text_count >= 0 && s->bytes_count >= 0 && s->text_count + s->bytes_count <= s->stat_count);
    CHECK(s->aggregated_count == s->event_count || (s->min_start <= s->max_start));
    counted[s->piece] += s->event_count;
    s->event_id = s->row = d->event_count;
    s->row_end = d->event_count += s->event_count;
    s->stat_row = d->stat_count;
    s->stat_row_end = d->stat_count += s->stat_count;
    d->text_count += s->text_count;
    d->bytes_count += s->bytes_count;
  }
  for (size_t i = 0; i < d->piece_count; i++)
    if (d->depth > FP_HOP) CHECK_INT(counted[i], d->pieces[i].event_count);
  free(counted);
}

fp_code decoding_index(decoding *d) {
  fp_code code = index_pieces(d);
  if (code) return code;
  check_segments(d);
  if ((code = declare(d, &d->index.unknown))) return code;
  if ((code = look_up_names(d))) return code;
  return prepare_lookups(d);
}

/* Everything is freed twice: a free function must leave its struct empty. */
void decoding_free(decoding *d) {
  for (int twice = 0; twice < 2; twice++) {
    fp_scanner_free(&d->scanner);
    if (d->forked) fp_xspace_free_fork(&d->xspace);
    fp_xspace_free(d->forked ? &d->original : &d->xspace);
    fp_window_free(&d->window);
    fp_index_free(&d->memory, &d->index);
    fp_strings_free(&d->names);
    fp_strings_free(&d->texts);
    fp_vector_free(&d->memory, &d->faults);
  }
  if (d->file) fclose(d->file);
  free(d->pieces);
  free(d->meta_names);
  free(d->stat_names);
  free(d->stat_texts);
  free(d->wide_of_stat);
  free(d->pick_of_stat), free(d->pick_parts);
  free(d->default_kind), free(d->default_value);
  CHECK_INT(d->memory.live, 0);
}

/* ---- fill ------------------------------------------------------------------------------------------- */

/* Rows are numbered from the counts of what the filter keeps, so a wrong count writes outside of its segment's rows. */
fp_code decoding_fill(decoding *d, const fp_filter *filter, columns *c) {
  size_t count = d->index.segments.count;
  fp_segment *segments = exact(count, sizeof *segments);
  if (count) memcpy(segments, d->index.segments.items, count * sizeof *segments);
  fp_code code = fp_count_kept(&d->xspace, &d->window, d->pieces, segments, count, filter, d->depth == FP_STATS, &d->fault);
  int64_t rows = 0, stats = 0;
  for (size_t i = 0; !code && i < count; i++) {
    CHECK(segments[i].kept_events <= segments[i].event_count);
    segments[i].row = rows;
    segments[i].row_end = rows += segments[i].kept_events;
    segments[i].stat_row = stats;
    segments[i].stat_row_end = stats += segments[i].kept_stats;
  }
  columns_make(c, d, rows, stats);
  c->sink.filter = filter;
  if (!code) code = fp_fill(&d->xspace, &d->window, d->pieces, segments, count, &c->sink, &d->fault);
  free(segments);
  return code ? failed(d, code) : FP_OK;
}

/* Collects the keys of all events that the filter keeps, with their ids, and counts their stats. */
static fp_code keys_of(decoding *d, const fp_filter *filter, fp_event_key *keys, int64_t *event_ids, int64_t *kept,
                       int64_t *stats) {
  const fp_segment *segments = d->index.segments.items;
  *kept = *stats = 0;
  for (size_t i = 0; i < d->index.segments.count; i++) {
    fp_event_key *own = exact((size_t)segments[i].event_count, sizeof *own);
    fp_code code = fp_event_keys(&d->xspace, &d->window, d->pieces, &segments[i], filter, own, &d->fault);
    for (int64_t j = 0; !code && j < segments[i].event_count; j++) {
      if (!(own[j].flags & FP_KEY_KEPT)) continue;
      keys[*kept] = own[j];
      event_ids[(*kept)++] = segments[i].event_id + j;
      *stats += own[j].stat_count;
    }
    free(own);
    if (code) return code;
  }
  return FP_OK;
}

fp_code decoding_fill_keys(decoding *d, const fp_filter *filter, columns *c) {
  fp_event_key *keys = exact((size_t)d->event_count, sizeof *keys);
  int64_t *event_ids = exact((size_t)d->event_count, sizeof *event_ids), kept, stats;
  fp_code code = keys_of(d, filter, keys, event_ids, &kept, &stats);
  columns_make(c, d, code ? 0 : kept, code ? 0 : stats);
  if (!code)
    code = fp_fill_keys(&d->xspace, &d->window, d->pieces, keys, event_ids, (size_t)kept, 0, 0, stats, &c->sink, &d->fault);
  free(keys);
  free(event_ids);
  return code ? failed(d, code) : FP_OK;
}

static fp_code fill_spans(decoding *d, const fp_owned_span *spans, const int64_t *parts, size_t count) {
  fp_vector unknown = {0};
  fp_code code = fp_unknown_in_spans(&d->xspace, &d->window, spans, parts, count, &unknown, &d->fault);
  if (!code) code = declare(d, &unknown);
  fp_vector_free(&d->memory, &unknown);
  if (code) return failed(d, code);
  free(d->stat_names);
  free(d->stat_texts);
  free(d->wide_of_stat);
  free(d->pick_of_stat), free(d->pick_parts);
  d->stat_names = d->stat_texts = d->wide_of_stat = NULL;
  d->pick_of_stat = NULL;
  d->pick_parts = NULL;
  fp_code named = look_up(d, &d->xspace.stat_metas, sizeof(fp_stat_meta), offsetof(fp_stat_meta, name_offset),
                          "XStatMetadata.name", &d->texts, &d->stat_texts);
  if (named) return named;
  free(d->default_kind);
  free(d->default_value);
  if ((code = prepare_lookups(d))) return code;
  int64_t *stat_ids = exact(count, sizeof *stat_ids);
  decoding with_texts = *d;
  with_texts.depth = FP_STATS;
  with_texts.text_count = 1;
  columns c;
  columns_make(&c, &with_texts, 0, (int64_t)count);
  c.sink.texts.memory = &d->memory;
  c.sink.wide_count = 0;
  c.sink.wide_of_stat = NULL;
  c.sink.pick_of_stat = NULL;
  code = fp_fill_spans(&d->xspace, &d->window, spans, parts, count, stat_ids, &c.sink, &d->fault);
  for (size_t i = 0; !code && i < count; i++) {
    CHECK(c.sink.kind[i] <= FP_NONE || (d->salvage && c.sink.kind[i] == FP_LOST_REF));
    CHECK(index_at(&c.sink.stat, (int64_t)i) >= -1 && index_at(&c.sink.stat, (int64_t)i) < c.sink.text_base);
    CHECK(fp_id_map_find(&d->xspace.stat_maps[parts[i]], stat_ids[i]) >= 0 || d->salvage);
    CHECK_INT(c.sink.stat_event_id[i], i);
  }
  columns_free(&c, d);
  free(stat_ids);
  return code ? failed(d, code) : FP_OK;
}

fp_code decoding_fill_spans(decoding *d, bool of_planes) {
  const fp_vector *from = of_planes ? &d->scanner.spans[FP_PLANE_STATS] : &d->xspace.meta_stats;
  size_t count = from->count;
  fp_owned_span *spans = exact(count, sizeof *spans);
  int64_t *parts = exact(count, sizeof *parts);
  for (size_t i = 0; i < count; i++) {
    if (of_planes) {
      const fp_span *span = (const fp_span *)from->items + i;
      spans[i] = (fp_owned_span){span->offset, span->length, span->part};
      parts[i] = span->part;
    } else {
      spans[i] = ((const fp_owned_span *)from->items)[i];
      CHECK(spans[i].owner >= 0 && (size_t)spans[i].owner < d->xspace.event_metas.count);
      parts[i] = ((const fp_event_meta *)d->xspace.event_metas.items)[spans[i].owner].part;
    }
  }
  fp_code code = fill_spans(d, spans, parts, count);
  free(spans);
  free(parts);
  return code;
}
