/* Name tables: event metadata and stat metadata of every part, read at the places that the scanner found. They are
 * protobuf maps, whose last entry of a key counts: rows of earlier entries are removed once a table is complete. */
#include "formats/placed_fields.h"
#include "formats/xspace.h"

/* The state of reading name tables. */
typedef struct opening {
  fp_xspace *x;
  fp_window *window;
  fp_fault *fault;
} opening;

/* Logs a fault with salvage; fails with it without. */
static fp_code tolerate(const opening *o, fp_code code, uint64_t offset, const char *what) {
  if (!o->x->salvage || fp_ends_reading(code)) return fp_fail(o->fault, code, offset, what);
  if (!fp_fault_log_add(o->x->memory, &o->x->faults, code, offset, what)) return fp_fail(o->fault, FP_NO_MEMORY, offset, what);
  return FP_OK;
}

/* Counts `more` bytes for a field. Sets *may to false with salvage if they are too many, and fails without. */
static fp_code hold(const opening *o, uint64_t more, uint64_t offset, const char *what, bool *may) {
  *may = fp_hold(&o->x->held, more, o->window->size);
  return *may ? FP_OK : tolerate(o, FP_TOO_MANY, offset, what);
}

static fp_code no_memory(const opening *o, const char *what) { return fp_fail(o->fault, FP_NO_MEMORY, 0, what); }

static fp_code add_child(const opening *o, int64_t owner, uint64_t id, uint64_t offset) {
  bool may;
  fp_code code = hold(o, sizeof(fp_child) + 2, offset, "XEventMetadata.child_id", &may);
  if (code || !may) return code;
  fp_child *child = fp_vector_add(o->x->memory, &o->x->children, sizeof *child);
  if (!child) return no_memory(o, "XEventMetadata.child_id");
  *child = (fp_child){owner, (int64_t)id};
  return FP_OK;
}

/* child_id may be packed or not. */
static fp_code packed_children(const opening *o, int64_t owner, const fp_placed_field *field) {
  uint64_t at = field->at, end = at + field->value;
  while (at < end) {
    uint64_t id, start = at;
    fp_code code = fp_next_varint(o->window, &at, end, &id);
    if (code) return tolerate(o, code, at, "XEventMetadata.child_id");
    if ((code = add_child(o, owner, id, start))) return code;
  }
  return FP_OK;
}

/* A field of an XEventMetadata. Only places are noted; names are read when they are needed. */
static fp_code event_meta_field(const opening *o, int64_t row, const fp_placed_field *field) {
  fp_event_meta *meta = (fp_event_meta *)o->x->event_metas.items + row;
  uint64_t offset = field->at;
  switch (field->tag) {
    case WIRE_TAG(2, WIRE_LEN): meta->name_offset = offset, meta->name_length = field->value; return FP_OK;
    case WIRE_TAG(3, WIRE_LEN):
      meta->metadata_offset = offset, meta->metadata_length = field->value, meta->has_metadata = 1;
      return FP_OK;
    case WIRE_TAG(4, WIRE_LEN): meta->display_offset = offset, meta->display_length = field->value; return FP_OK;
    case WIRE_TAG(5, WIRE_LEN): {
      bool may;
      fp_code code = hold(o, sizeof(fp_owned_span), offset, "XEventMetadata.stats", &may);
      if (code || !may) return code;
      fp_owned_span *span = fp_vector_add(o->x->memory, &o->x->meta_stats, sizeof *span);
      if (!span) return no_memory(o, "XEventMetadata.stats");
      *span = (fp_owned_span){offset, field->value, row};
      return FP_OK;
    }
    case WIRE_TAG(6, WIRE_VARINT): return add_child(o, row, field->value, offset);
    case WIRE_TAG(6, WIRE_LEN): return packed_children(o, row, field);
    default: return FP_OK;
  }
}

/* A field of an XStatMetadata. */
static fp_code stat_meta_field(const opening *o, int64_t row, const fp_placed_field *field) {
  fp_stat_meta *meta = (fp_stat_meta *)o->x->stat_metas.items + row;
  if (field->tag == WIRE_TAG(2, WIRE_LEN))
    meta->name_offset = field->at, meta->name_length = field->value;
  else if (field->tag == WIRE_TAG(3, WIRE_LEN))
    meta->description_offset = field->at, meta->description_length = field->value;
  return FP_OK;
}

typedef fp_code (*field_reader)(const opening *, int64_t row, const fp_placed_field *);

/* Reads the value of a map entry. With salvage, what follows a fault in it is ignored. */
static fp_code read_value(const opening *o, const fp_placed_field *value, int64_t row, field_reader reader,
                          const char *what) {
  uint64_t at = value->at, end = at + value->value;
  while (at < end) {
    uint64_t start = at;
    fp_placed_field field;
    fp_code code = fp_next_field(o->window, &at, end, &field);
    if (code) return tolerate(o, code, start, what); /* nothing after it can be trusted */
    if ((code = reader(o, row, &field))) return code;
  }
  return FP_OK;
}

/* Reads one entry of a map: a key, and a value that may come in several pieces, which are merged. */
static fp_code read_entry(const opening *o, const fp_span *span, int64_t row, int64_t *key, field_reader reader,
                          const char *what) {
  uint64_t at = span->offset, end = at + span->length;
  while (at < end) {
    uint64_t start = at;
    fp_placed_field field;
    fp_code code = fp_next_field(o->window, &at, end, &field);
    if (code) return tolerate(o, code, start, what);
    if (field.tag == WIRE_TAG(1, WIRE_VARINT)) *key = (int64_t)field.value;
    if (field.tag == WIRE_TAG(2, WIRE_LEN) && (code = read_value(o, &field, row, reader, what))) return code;
  }
  return FP_OK;
}

/* Builds the map from ids to rows, and marks in `dead` the rows whose id occurs again later. */
static fp_code build_map(const opening *o, fp_id_map *map, const int64_t *ids, size_t count, int32_t first, uint8_t *dead) {
  if (!fp_id_map_build(o->x->memory, map, ids, count, first)) return no_memory(o, "metadata");
  for (size_t i = 0; i < count; i++) dead[i] = fp_id_map_find(map, ids[i]) != first + (int32_t)i;
  return FP_OK;
}

/* Removes the rows from `first` on that are marked dead. `renumbered` receives the new number of each row; -1:
 * removed. Returns how many rows the table has now. */
static size_t drop_dead(void *rows, size_t item_size, size_t first, size_t count, const uint8_t *dead, int64_t *renumbered) {
  size_t kept = first;
  char *items = rows;
  for (size_t i = first; i < count; i++) {
    renumbered[i - first] = dead[i - first] ? -1 : (int64_t)kept;
    if (dead[i - first]) continue;
    if (kept != i) memmove(items + kept * item_size, items + i * item_size, item_size);
    kept++;
  }
  return kept;
}

/* Removes what dead rows own and renumbers the owners of the rest, from the given places on. */
static void renumber_owned(fp_xspace *x, size_t stats_from, size_t children_from, size_t first, const int64_t *renumbered) {
  size_t kept = stats_from;
  fp_owned_span *stats = x->meta_stats.items;
  for (size_t i = stats_from; i < x->meta_stats.count; i++) {
    int64_t owner = renumbered[stats[i].owner - (int64_t)first];
    if (owner < 0) continue;
    stats[kept] = stats[i];
    stats[kept++].owner = owner;
  }
  x->meta_stats.count = kept;
  kept = children_from;
  fp_child *children = x->children.items;
  for (size_t i = children_from; i < x->children.count; i++) {
    int64_t owner = renumbered[children[i].owner - (int64_t)first];
    if (owner < 0) continue;
    children[kept] = children[i];
    children[kept++].owner = owner;
  }
  x->children.count = kept;
}

/* Reads the entries of one part's map into rows of a table, and builds the map from ids to rows. Both tables are read
 * by this function, since their items begin with the same fields. */
static fp_code read_map(const opening *o, int64_t part, const fp_vector *found, size_t from, size_t count, bool events,
                        fp_id_map *map) {
  fp_xspace *x = o->x;
  if (!count) return FP_OK;
  const fp_span *spans = (const fp_span *)found->items + from;
  fp_vector *table = events ? &x->event_metas : &x->stat_metas;
  size_t item_size = events ? sizeof(fp_event_meta) : sizeof(fp_stat_meta);
  const char *what = events ? "XPlane.event_metadata" : "XPlane.stat_metadata";
  size_t first = table->count, stats_from = x->meta_stats.count, children_from = x->children.count;
  if (first + count > INT32_MAX) return fp_fail(o->fault, FP_NO_MEMORY, spans->offset, what);
  int64_t *ids = fp_alloc(x->memory, count * sizeof *ids);
  uint8_t *dead = fp_alloc(x->memory, count);
  fp_code code = ids && dead ? FP_OK : no_memory(o, what);
  for (size_t i = 0; !code && i < count; i++) {
    int64_t *head = fp_vector_add(x->memory, table, item_size); /* both kinds begin with id, part */
    if (!head) {
      code = no_memory(o, what);
      break;
    }
    head[1] = part;
    ids[i] = 0;
    code = read_entry(o, &spans[i], (int64_t)(first + i), &ids[i], events ? event_meta_field : stat_meta_field, what);
    *(int64_t *)((char *)table->items + (first + i) * item_size) = ids[i];
  }
  if (!code) code = build_map(o, map, ids, count, (int32_t)first, dead);
  if (!code && memchr(dead, 1, count)) {
    int64_t *renumbered = ids; /* the ids have done their work */
    size_t kept = drop_dead(table->items, item_size, first, table->count, dead, renumbered);
    if (events) renumber_owned(x, stats_from, children_from, first, renumbered);
    table->count = kept;
    fp_id_map_free(x->memory, map);
    for (size_t i = first; i < kept; i++) ids[i - first] = *(int64_t *)((char *)table->items + i * item_size);
    if (!fp_id_map_build(x->memory, map, ids, kept - first, (int32_t)first)) code = no_memory(o, what);
  }
  fp_release(x->memory, ids);
  fp_release(x->memory, dead);
  return code;
}

/* The end of the spans of a part: they are in the order of the file, so they are consecutive. */
static size_t spans_of_part(const fp_vector *spans, size_t from, int64_t part) {
  const fp_span *items = spans->items;
  size_t to = from;
  while (to < spans->count && items[to].part == part) to++;
  return to;
}

/* Part by part, as the spans of both kinds are in the order of the file. */
fp_code fp_xspace_open(fp_xspace *x, const fp_scanner *scanner, fp_window *window, fp_fault *fault) {
  opening o = {x, window, fault};
  x->held = scanner->held;
  x->part_count = scanner->parts.count;
  x->event_maps = fp_alloc_zeroed(x->memory, x->part_count, sizeof *x->event_maps);
  x->stat_maps = fp_alloc_zeroed(x->memory, x->part_count, sizeof *x->stat_maps);
  if (!x->event_maps || !x->stat_maps) return no_memory(&o, "XSpace");
  size_t event_from = 0, stat_from = 0;
  const fp_vector *events = &scanner->spans[FP_EVENT_METADATA], *stats = &scanner->spans[FP_STAT_METADATA];
  for (size_t part = 0; part < x->part_count; part++) {
    size_t event_to = spans_of_part(events, event_from, (int64_t)part);
    size_t stat_to = spans_of_part(stats, stat_from, (int64_t)part);
    fp_code code = read_map(&o, (int64_t)part, events, event_from, event_to - event_from, true, &x->event_maps[part]);
    if (!code) code = read_map(&o, (int64_t)part, stats, stat_from, stat_to - stat_from, false, &x->stat_maps[part]);
    if (code) return code;
    event_from = event_to;
    stat_from = stat_to;
  }
  return FP_OK;
}

/* Lists the ids and rows of a map, and returns how many there are. */
static size_t entries_of(const fp_id_map *map, int64_t *ids, int32_t *rows) {
  size_t n = 0;
  for (uint64_t id = 0; id < map->dense_count; id++)
    if (map->dense[id] >= 0) ids[n] = (int64_t)id, rows[n++] = map->dense[id];
  for (uint64_t slot = 0; slot < map->slot_count; slot++)
    if (map->rows[slot] >= 0) ids[n] = map->keys[slot], rows[n++] = map->rows[slot];
  return n;
}

/* Replaces every row number i of a map by rows[i]. After declarations a part's rows are not consecutive any more, as
 * fp_id_map_build assumes. */
static void point_to(fp_id_map *map, const int32_t *rows) {
  for (uint64_t id = 0; id < map->dense_count; id++)
    if (map->dense[id] >= 0) map->dense[id] = rows[map->dense[id]];
  for (uint64_t slot = 0; slot < map->slot_count; slot++)
    if (map->rows[slot] >= 0) map->rows[slot] = rows[map->rows[slot]];
}

/* Builds the extended map first, so that nothing changes if memory runs out. */
fp_code fp_xspace_declare_stats(fp_xspace *x, int64_t part, const int64_t *ids, size_t count, fp_fault *fault) {
  opening o = {x, NULL, fault};
  fp_id_map *map = &x->stat_maps[part], extended = {0};
  size_t room = map->dense_count + map->slot_count + count;
  if (x->stat_metas.count + count > INT32_MAX) return no_memory(&o, "XPlane.stat_metadata");
  int64_t *all = fp_alloc(x->memory, room * sizeof *all);
  int32_t *rows = fp_alloc(x->memory, room * sizeof *rows);
  bool fits = all && rows && fp_vector_reserve(x->memory, &x->stat_metas, sizeof(fp_stat_meta), count);
  if (fits) {
    size_t n = entries_of(map, all, rows);
    for (size_t i = 0; i < count; i++) all[n + i] = ids[i], rows[n + i] = (int32_t)(x->stat_metas.count + i);
    fits = fp_id_map_build(x->memory, &extended, all, n + count, 0);
  }
  if (fits) {
    point_to(&extended, rows);
    fp_id_map_free(x->memory, map);
    *map = extended;
    for (size_t i = 0; i < count; i++) {
      fp_stat_meta *meta = fp_vector_add(x->memory, &x->stat_metas, sizeof *meta); /* reserved: cannot fail */
      meta->id = ids[i];
      meta->part = part;
      meta->name_length = UINT64_MAX;
    }
  }
  fp_release(x->memory, all);
  fp_release(x->memory, rows);
  return fits ? FP_OK : no_memory(&o, "XPlane.stat_metadata");
}

void fp_xspace_free(fp_xspace *x) {
  for (size_t i = 0; i < x->part_count; i++) {
    if (x->event_maps) fp_id_map_free(x->memory, &x->event_maps[i]);
    if (x->stat_maps) fp_id_map_free(x->memory, &x->stat_maps[i]);
  }
  fp_release(x->memory, x->event_maps);
  fp_release(x->memory, x->stat_maps);
  x->event_maps = x->stat_maps = NULL;
  x->part_count = 0;
  fp_vector_free(x->memory, &x->event_metas);
  fp_vector_free(x->memory, &x->stat_metas);
  fp_vector_free(x->memory, &x->meta_stats);
  fp_vector_free(x->memory, &x->children);
  fp_vector_free(x->memory, &x->faults);
}

fp_code fp_xspace_fork(const fp_xspace *x, fp_xspace *fork, fp_fault *fault) {
  opening o = {fork, NULL, fault};
  *fork = *x;
  memset(&fork->stat_metas, 0, sizeof fork->stat_metas);
  fork->stat_maps = fp_alloc_zeroed(x->memory, x->part_count, sizeof *fork->stat_maps);
  bool fits = fork->stat_maps && fp_vector_reserve(x->memory, &fork->stat_metas, sizeof(fp_stat_meta), x->stat_metas.count);
  for (size_t part = 0; fits && part < x->part_count; part++)
    fits = fp_id_map_copy(x->memory, &x->stat_maps[part], &fork->stat_maps[part]);
  if (!fits) {
    fp_xspace_free_fork(fork);
    return no_memory(&o, "XPlane.stat_metadata");
  }
  if (x->stat_metas.count) memcpy(fork->stat_metas.items, x->stat_metas.items, x->stat_metas.count * sizeof(fp_stat_meta));
  fork->stat_metas.count = x->stat_metas.count;
  return FP_OK;
}

void fp_xspace_free_fork(fp_xspace *fork) {
  for (size_t part = 0; fork->stat_maps && part < fork->part_count; part++)
    fp_id_map_free(fork->memory, &fork->stat_maps[part]);
  fp_release(fork->memory, fork->stat_maps);
  fp_vector_free(fork->memory, &fork->stat_metas);
  fork->stat_maps = NULL;
}
