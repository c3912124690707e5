/* Columns of exactly their size, checked against each other and against the tables that they refer to. */
#include "tests/check.h"
#include "tests/decoding.h"

/* A column in which every byte shows that nothing has been written there. */
static void *column(int64_t rows, size_t item_size) {
  void *block = exact((size_t)rows, item_size);
  if (rows) memset(block, 0xA5, (size_t)rows * item_size);
  return block;
}

static fp_index_column index_column(int64_t rows, size_t dictionary) {
  int width = dictionary <= 1 << 7 ? 1 : dictionary <= 1 << 15 ? 2 : 4;
  return (fp_index_column){column(rows, (size_t)width), width};
}

/* A column of a sink: the width of its items, and whether its rows are stats. */
typedef struct column_of {
  void *block;
  size_t item_size;
  bool of_stats;
} column_of;

enum { COLUMNS = 18 + 2 * WIDE_COLUMNS };

static void list_columns(const columns *c, column_of *list) {
  const fp_sink *s = &c->sink;
  const column_of fixed[] = {
      {s->event_id, 8, false}, {s->metadata_id, 8, false}, {s->start_ps, 8, false}, {s->duration_ps, 8, false},
      {s->num_occurrences, 8, false}, {s->plane_id, 4, false}, {s->line_id, 4, false}, {s->present, 1, false},
      {s->host.to, (size_t)s->host.width, false}, {s->plane.to, (size_t)s->plane.width, false},
      {s->line.to, (size_t)s->line.width, false}, {s->name.to, (size_t)s->name.width, false},
      {s->stat_event_id, 8, true}, {s->int_value, 8, true}, {s->double_value, 8, true}, {s->kind, 1, true},
      {s->stat.to, (size_t)s->stat.width, true}, {s->text.to, (size_t)s->text.width, true}};
  memcpy(list, fixed, sizeof fixed);
  for (int i = 0; i < WIDE_COLUMNS; i++) {
    list[18 + 2 * i] = (column_of){c->wide[i].kind, 1, false};
    list[19 + 2 * i] = (column_of){c->wide[i].value, 8, false};
  }
}

void columns_make(columns *c, decoding *d, int64_t rows, int64_t stat_rows) {
  bool stats = d->depth == FP_STATS;
  if (!stats) stat_rows = 0;
  memset(c, 0, sizeof *c);
  c->rows = rows;
  c->stat_rows = stat_rows;
  size_t texts = fp_strings_count(&d->texts);
  c->sink = (fp_sink){
      .meta_names = d->meta_names, .stat_names = d->stat_names, .stat_texts = d->stat_texts,
      .event_id = column(rows, 8), .metadata_id = column(rows, 8), .start_ps = column(rows, 8),
      .duration_ps = column(rows, 8), .num_occurrences = column(rows, 8), .plane_id = column(rows, 4),
      .line_id = column(rows, 4), .present = column(rows, 1), .host = index_column(rows, 1),
      .plane = index_column(rows, 1 << 15), .line = index_column(rows, 1 << 16),
      .name = index_column(rows, fp_strings_count(&d->names)),
      .want_stats = stats, .stat_event_id = column(stat_rows, 8), .int_value = column(stat_rows, 8),
      .double_value = column(stat_rows, 8), .kind = column(stat_rows, 1), .stat = index_column(stat_rows, texts),
      .text = index_column(stat_rows, d->text_count ? SIZE_MAX : texts), .text_base = (int64_t)texts,
      .texts = {.memory = &d->memory}};
  for (int i = 0; i < WIDE_COLUMNS; i++) c->wide[i] = (fp_wide_column){.kind = column(rows, 1), .value = column(rows, 8)};
  c->wide[1].default_kind = d->default_kind;
  c->wide[1].default_value = d->default_value;
  if (!stats) return;
  c->sink.wide_of_stat = d->wide_of_stat;
  c->sink.wide = c->wide;
  c->sink.wide_count = WIDE_COLUMNS;
  c->sink.pick_of_stat = d->pick_of_stat;
  c->sink.pick_parts = d->pick_parts;
  c->pick_count = texts;
  c->sink.picks = exact(texts, sizeof *c->sink.picks);
}

void columns_free(columns *c, decoding *d) {
  column_of list[COLUMNS];
  list_columns(c, list);
  for (int i = 0; i < COLUMNS; i++) free(list[i].block);
  for (int twice = 0; twice < 2; twice++) {
    fp_strings_free(&c->sink.texts);
    fp_vector_free(&d->memory, &c->sink.bytes);
    for (size_t i = 0; i < c->pick_count; i++) fp_picked_free(&d->memory, &c->sink.picks[i]);
    fp_vector_free(&d->memory, &c->sink.faults);
  }
  free(c->sink.picks);
}

int64_t index_at(const fp_index_column *c, int64_t row) {
  if (c->width == 1) return ((const int8_t *)c->to)[row];
  return c->width == 2 ? ((const int16_t *)c->to)[row] : ((const int32_t *)c->to)[row];
}

static void check_stat(const columns *c, const decoding *d, int64_t row) {
  const fp_sink *s = &c->sink;
  int64_t texts = s->text_base + (int64_t)fp_strings_count(&s->texts), text = index_at(&s->text, row);
  CHECK(s->kind[row] <= FP_NONE);
  CHECK(index_at(&s->stat, row) >= 0 && index_at(&s->stat, row) < s->text_base);
  CHECK(s->stat_event_id[row] >= 0 && s->stat_event_id[row] < d->event_count);
  CHECK(!row || s->stat_event_id[row - 1] <= s->stat_event_id[row]);
  if (s->kind[row] == FP_STR) CHECK(text >= s->text_base && text < texts);
  if (s->kind[row] == FP_REF) CHECK(text >= -1 && text < s->text_base);
}

static void check_pick(const columns *c, int64_t stat_row, const fp_picked *picked, size_t at) {
  const fp_sink *s = &c->sink;
  int kind = s->kind[stat_row];
  int64_t text = index_at(&s->text, stat_row), value = picked->value[at];
  bool is_text = kind == FP_STR || kind == FP_REF, lost = kind == FP_REF && text < 0;
  CHECK(picked->row[at] >= 0 && picked->row[at] < c->rows);
  CHECK_INT(s->event_id[picked->row[at]], s->stat_event_id[stat_row]);
  CHECK_INT(picked->kind[at], lost ? FP_LOST_REF : kind);
  if (lost || kind == FP_INT64 || kind == FP_UINT64) CHECK_INT(value, s->int_value[stat_row]);
  if (is_text && !lost) CHECK_INT(value, text);
  if (kind == FP_DOUBLE) CHECK(!memcmp(&value, &s->double_value[stat_row], 8));
}

/* All stats are picked, by their names: of each event the first of a name that has a value. */
static void check_picks(const columns *c) {
  const fp_sink *s = &c->sink;
  size_t *next = exact(c->pick_count, sizeof *next);
  for (int64_t row = 0; row < c->stat_rows; row++) {
    int64_t name = index_at(&s->stat, row);
    if (name >= INT16_MAX || s->kind[row] == FP_NONE) continue;
    const fp_picked *picked = &s->picks[name];
    if (next[name] && s->event_id[picked->row[next[name] - 1]] == s->stat_event_id[row]) continue;
    CHECK(next[name] < picked->count);
    check_pick(c, row, picked, next[name]++);
  }
  for (size_t i = 0; i < c->pick_count; i++) CHECK_INT(s->picks[i].count, next[i]);
  free(next);
}

static void check_wide(const columns *c, int64_t row) {
  int64_t texts = c->sink.text_base + (int64_t)fp_strings_count(&c->sink.texts);
  for (int i = 0; i < WIDE_COLUMNS; i++) {
    CHECK(c->wide[i].kind[row] <= FP_LOST_REF);
    if (c->wide[i].kind[row] == FP_STR || c->wide[i].kind[row] == FP_REF)
      CHECK(c->wide[i].value[row] >= 0 && c->wide[i].value[row] < texts);
  }
}

void columns_check(const columns *c, const decoding *d) {
  const fp_sink *s = &c->sink;
  int64_t unnamed = 0;
  for (int64_t row = 0; row < c->rows; row++) {
    int64_t name = index_at(&s->name, row);
    CHECK(name >= -1 && name < (int64_t)fp_strings_count(&d->names));
    unnamed += name < 0;
    CHECK(s->event_id[row] >= 0 && s->event_id[row] < d->event_count);
    CHECK(!row || s->event_id[row - 1] < s->event_id[row]);
    CHECK((s->present[row] & ~(FP_HAS_START | FP_HAS_OCCURRENCES)) == 0);
    if (s->wide_count) check_wide(c, row);
  }
  CHECK_INT(s->unnamed, unnamed);
  for (int64_t row = 0; row < c->stat_rows; row++) check_stat(c, d, row);
  if (s->pick_of_stat) check_picks(c);
  for (size_t i = 0; i < s->bytes.count; i++) {
    const fp_bytes_at *at = (const fp_bytes_at *)s->bytes.items + i;
    CHECK(at->offset <= d->size && at->length <= d->size - at->offset);
    CHECK(at->row >= 0 && at->row < (at->column < 0 ? c->stat_rows : c->rows) && at->column < WIDE_COLUMNS);
  }
}

static void compare_vectors(const fp_vector *a, const fp_vector *b, size_t item_size) {
  CHECK_INT(a->count, b->count);
  CHECK(!a->count || !memcmp(a->items, b->items, a->count * item_size));
}

static void compare_picked(const fp_picked *a, const fp_picked *b) {
  CHECK_INT(a->count, b->count);
  if (!a->count) return;
  CHECK(!memcmp(a->row, b->row, a->count * sizeof *a->row));
  CHECK(!memcmp(a->kind, b->kind, a->count));
  CHECK(!memcmp(a->value, b->value, a->count * sizeof *a->value));
}

void columns_compare(const columns *a, const columns *b) {
  CHECK_INT(a->rows, b->rows);
  CHECK_INT(a->stat_rows, b->stat_rows);
  column_of ours[COLUMNS], theirs[COLUMNS];
  list_columns(a, ours);
  list_columns(b, theirs);
  for (int i = 0; i < COLUMNS; i++) {
    int64_t rows = ours[i].of_stats ? a->stat_rows : a->rows;
    CHECK(!rows || !memcmp(ours[i].block, theirs[i].block, (size_t)rows * ours[i].item_size));
  }
  compare_vectors(&a->sink.texts.offsets, &b->sink.texts.offsets, sizeof(int64_t));
  compare_vectors(&a->sink.texts.bytes, &b->sink.texts.bytes, 1);
  compare_vectors(&a->sink.bytes, &b->sink.bytes, sizeof(fp_bytes_at));
  CHECK_INT(a->pick_count, b->pick_count);
  for (size_t i = 0; i < a->pick_count; i++) compare_picked(&a->sink.picks[i], &b->sink.picks[i]);
  compare_vectors(&a->sink.faults, &b->sink.faults, sizeof(fp_fault_row));
}
