/* Events as XEvents, by line:
 *
 *    window    [line 3, epoch 0, 41 bytes][XEvent] [line 5 ...][XEvent] [line 3 ...][XEvent]   in the order they came
 *    spill     [XEvent][XEvent] [XEvent]                                                        by epoch and line, once it is full
 *    fragments  line 3, epoch 0  line 5
 *
 * Offsets of events count from the base of their epoch: times that lie further apart than an epoch are in another one, so
 * that one wrong time does not make all others too large. */
#include "formats/chrome_stats.h"
#include "formats/proto_write.h"

enum { LEAST_WINDOW = 1 << 20, MOST_WINDOW = 1 << 24, BYTES_A_LINE = 1 << 12, LINE_EVENTS = 4, EVENT_METADATA = 1, EVENT_OFFSET = 2, EVENT_DURATION = 3 };
enum { HOUR_BITS = 42, EPOCH_BITS = 50, FLOW_LINE = -1, NS_IN_US = 1000 };
static const int64_t EPOCH_NS = INT64_C(1) << EPOCH_BITS, LEAD_NS = INT64_C(1) << 36;

typedef struct window_head {
  int32_t line, epoch;
  uint32_t size;
} window_head;

/* ---- times ---- */

static void count_hour(fp_chrome *chrome, int64_t ns) {
  int64_t hour = ns >> HOUR_BITS;
  const fp_key key = {{(uint64_t)hour, 0, 0, 0}};
  chrome_hour *hours = chrome->hours.items;
  int32_t number = chrome->hours.count && hours[0].hour == hour ? 0 : fp_key_map_add(&chrome->hour_keys, &key);
  if (number >= 0 && (size_t)number == chrome->hours.count) {
    chrome_hour *fresh = fp_vector_add(chrome->memory, &chrome->hours, sizeof *fresh);
    if (fresh) *fresh = (chrome_hour){hour, ns, 0};
  }
  if (number < 0 || (size_t)number >= chrome->hours.count) {
    chrome->failed = true;
    return;
  }
  hours = chrome->hours.items;
  if (ns < hours[number].least_ns) hours[number].least_ns = ns;
  hours[number].count++;
}

void chrome_count_time(fp_chrome *chrome, fp_json_time time) {
  chrome->has_fractions |= time.ps || time.ns % NS_IN_US;
  if (!time.ns && !time.ps) {
    chrome->zero_count++;
    return;
  }
  if (time.ns >= 0 && time.ns < chrome->least_after_zero) chrome->least_after_zero = time.ns;
  count_hour(chrome, time.ns);
}

static bool is_of_epoch(const fp_chrome *chrome, int32_t number, int64_t ns) {
  int64_t base = ((const chrome_epoch *)chrome->epochs.items)[number].base_ns;
  return (ns > base ? (uint64_t)ns - (uint64_t)base : (uint64_t)base - (uint64_t)ns) < (uint64_t)EPOCH_NS;
}

/* The key of an epoch: the interval that its base is in, and its slot there. An interval has two epochs at most. */
static fp_key epoch_key(int64_t interval, uint64_t slot) {
  return (fp_key){{(uint64_t)interval, slot, 0, 0}};
}

/* The epoch of a time; -1: there is none. A file may have thousands, so all but the last are looked up. */
static int32_t find_epoch(const fp_chrome *chrome, int64_t ns) {
  if (chrome->last_epoch >= 0 && is_of_epoch(chrome, chrome->last_epoch, ns)) return chrome->last_epoch;
  int32_t found = -1;
  for (int i = 0; i < 6; i++) {
    const fp_key key = epoch_key((ns >> EPOCH_BITS) + i / 2 - 1, (uint64_t)i % 2);
    int32_t number = fp_key_map_find(&chrome->epoch_keys, &key);
    if (number >= 0 && (found < 0 || number < found) && is_of_epoch(chrome, number, ns)) found = number;
  }
  return found;
}

/* The epoch of a time. Its base lies before the first time, as few events come far out of order. */
static int32_t epoch_of(fp_chrome *chrome, int64_t ns) {
  int32_t number = find_epoch(chrome, ns);
  if (number >= 0) return chrome->last_epoch = number;
  int64_t base = ns >= 0 && ns < LEAD_NS ? 0 : ns > INT64_MIN + LEAD_NS ? ns - LEAD_NS : ns;
  for (uint64_t slot = 0; number != (int32_t)chrome->epochs.count; slot++) { /* the first that is free */
    const fp_key key = epoch_key(base >> EPOCH_BITS, slot);
    if ((number = fp_key_map_add(&chrome->epoch_keys, &key)) < 0) break;
  }
  chrome_epoch *fresh = number < 0 ? NULL : fp_vector_add(chrome->memory, &chrome->epochs, sizeof *fresh);
  if (!fresh) {
    chrome->failed = true;
    return -1;
  }
  *fresh = (chrome_epoch){base, ns, ns, 0, chrome->offset};
  return chrome->last_epoch = number;
}

/* ---- the window ---- */

/* The pairs of line and epoch of a window. `last`: by line, 1 + the pair that it had last. */
typedef struct window_pairs {
  fp_key_map keys;
  fp_vector sizes; /* uint64_t by pair: how many bytes it has, then where the next ones go */
  uint32_t *last;
} window_pairs;

/* The pair of a record; NULL: memory ran out. */
static uint64_t *pair_of(fp_memory *memory, window_pairs *pairs, const window_head *head) {
  const fp_key key = {{(uint64_t)(uint32_t)head->line, (uint64_t)(uint32_t)head->epoch, 0, 0}};
  uint32_t *last = &pairs->last[head->line + 1];
  const fp_key *keys = pairs->keys.keys.items;
  if (*last && keys[*last - 1].words[1] == key.words[1]) return (uint64_t *)pairs->sizes.items + *last - 1;
  int32_t number = fp_key_map_add(&pairs->keys, &key);
  if (number >= 0 && (size_t)number == pairs->sizes.count) fp_vector_add(memory, &pairs->sizes, sizeof(uint64_t));
  if (number < 0 || (size_t)number >= pairs->sizes.count) return NULL;
  *last = (uint32_t)number + 1;
  return (uint64_t *)pairs->sizes.items + number;
}

/* Adds up the bytes of each pair. */
static bool add_sizes(const fp_chrome *chrome, window_pairs *pairs) {
  for (const uint8_t *p = chrome->window.data, *end = p + chrome->window.size; p < end;) {
    window_head head;
    memcpy(&head, p, sizeof head);
    uint64_t *size = pair_of(chrome->memory, pairs, &head);
    if (!size) return false;
    *size += head.size;
    p += sizeof head + head.size;
  }
  return true;
}

/* Makes sizes the places behind those of the pairs before, and the pairs fragments. */
static bool place_pairs(fp_chrome *chrome, window_pairs *pairs, uint64_t *total) {
  uint64_t *sizes = pairs->sizes.items;
  const fp_key *keys = pairs->keys.keys.items;
  for (size_t i = 0; i < pairs->sizes.count; i++) {
    chrome_fragment *fragment = fp_vector_add(chrome->memory, &chrome->fragments, sizeof *fragment);
    if (!fragment) return false;
    const int32_t line = (int32_t)keys[i].words[0], epoch = (int32_t)keys[i].words[1];
    *fragment = (chrome_fragment){line, epoch, chrome->spilled + *total, sizes[i]};
    *total += sizes[i];
    sizes[i] = *total - sizes[i];
  }
  return true;
}

/* Writes the records to the spill, those of a pair side by side, in the order in which they came. */
static bool spill_window(fp_chrome *chrome, window_pairs *pairs, uint64_t total) {
  uint8_t *room = fp_bytes_room(&chrome->spill, total);
  if (!room) return false;
  for (const uint8_t *p = chrome->window.data, *end = p + chrome->window.size; p < end;) {
    window_head head;
    memcpy(&head, p, sizeof head);
    uint64_t *to = pair_of(chrome->memory, pairs, &head);
    if (!to) return false;
    memcpy(room + *to, p + sizeof head, head.size);
    *to += head.size;
    p += sizeof head + head.size;
  }
  chrome->spill.size += total;
  return true;
}

/* Whether it is time to spill: a small window stays in the processor's cache, but each line of it is a fragment. */
static bool is_full(const fp_chrome *chrome) {
  size_t most = LEAST_WINDOW + chrome->lines.count * BYTES_A_LINE;
  return chrome->window.size > (most < MOST_WINDOW ? most : MOST_WINDOW);
}

void chrome_flush(fp_chrome *chrome) {
  window_pairs pairs = {.keys.memory = chrome->memory};
  uint64_t total = 0;
  if (!chrome->window.size || chrome->failed) return;
  pairs.last = fp_alloc_zeroed(chrome->memory, chrome->lines.count + 1, sizeof *pairs.last);
  bool done = pairs.last && add_sizes(chrome, &pairs) && place_pairs(chrome, &pairs, &total) && spill_window(chrome, &pairs, total);
  chrome->failed |= !done;
  fp_key_map_free(&pairs.keys);
  fp_vector_free(chrome->memory, &pairs.sizes);
  fp_release(chrome->memory, pairs.last);
  chrome->spilled += total;
  chrome->window.size = 0;
}

/* Notes which stats the plane of a line uses. */
static void note_used(fp_chrome *chrome, int32_t plane) {
  const chrome_stat *list = chrome->stat_list.items;
  for (size_t i = 0; i < chrome->stat_list.count; i++) {
    chrome_stat_use *use = (chrome_stat_use *)chrome->stat_uses.items + list[i].name;
    if (use->plane == (uint32_t)plane + 1) continue;
    use->plane = (uint32_t)plane + 1;
    const fp_key key = {{(uint64_t)(uint32_t)plane, (uint64_t)(uint32_t)list[i].name, 0, 0}};
    int32_t number = fp_key_map_add(&chrome->plane_stat_keys, &key);
    if (number >= 0 && (size_t)number < chrome->plane_stats.count) continue;
    chrome_plane_stat *fresh = number < 0 ? NULL : fp_vector_add(chrome->memory, &chrome->plane_stats, sizeof *fresh);
    if (fresh) *fresh = (chrome_plane_stat){plane, list[i].name};
    else chrome->failed = true;
  }
}

void chrome_note_end(fp_chrome *chrome, int32_t number, fp_json_time time, int64_t duration_ps) {
  if (number < 0) return;
  chrome_line *line = (chrome_line *)chrome->lines.items + number;
  int64_t ps = duration_ps > 0 ? duration_ps % 1000 + time.ps : time.ps, ns;
  if (__builtin_add_overflow(time.ns, duration_ps > 0 ? duration_ps / 1000 : 0, &ns)) return;
  if (ps >= 1000) ns += ns < INT64_MAX, ps -= 1000;
  if (ns < line->latest_ns || (ns == line->latest_ns && ps <= line->latest_ps)) return;
  line->latest_ns = ns;
  line->latest_ps = (int32_t)ps;
}

void chrome_put_event(fp_chrome *chrome, int32_t line, int32_t name, int32_t cat, fp_json_time time, int64_t duration_ps) {
  enum { MOST_HEAD = 48 };
  uint8_t fields[MOST_HEAD], *end = fields;
  if (line < 0 || chrome->failed) return;
  chrome_line *owner = (chrome_line *)chrome->lines.items + line;
  int32_t metadata = chrome_metadata_of(chrome, owner->plane, name, cat), epoch = epoch_of(chrome, time.ns);
  if (metadata < 0 || epoch < 0) return;
  note_used(chrome, owner->plane);
  owner->event_count++;
  chrome_epoch *times = (chrome_epoch *)chrome->epochs.items + epoch;
  if (time.ns < times->first_ns) times->first_ns = time.ns;
  if (time.ns > times->last_ns) times->last_ns = time.ns;
  if (!times->count++ || chrome->offset < times->first_offset) times->first_offset = chrome->offset;
  *end++ = WIRE_TAG(EVENT_METADATA, WIRE_VARINT);
  end = proto_varint_at(end, (uint64_t)metadata);
  *end++ = WIRE_TAG(EVENT_OFFSET, WIRE_VARINT);
  end = proto_varint_at(end, (uint64_t)((time.ns - times->base_ns) * 1000 + time.ps));
  *end++ = WIRE_TAG(EVENT_DURATION, WIRE_VARINT);
  end = proto_varint_at(end, (uint64_t)duration_ps);
  size_t fields_size = (size_t)(end - fields), stats_size = chrome->event_stats.size;
  uint8_t *room = fp_bytes_room(&chrome->window, sizeof(window_head) + 12 + fields_size + stats_size);
  if (!room || chrome->event_stats.failed) {
    chrome->failed = true;
    return;
  }
  uint8_t *event = room + sizeof(window_head), *to = event;
  *to++ = WIRE_TAG(LINE_EVENTS, WIRE_LEN);
  to = proto_varint_at(to, fields_size + stats_size);
  memcpy(to, fields, fields_size);
  to += fields_size;
  if (stats_size) memcpy(to, chrome->event_stats.data, stats_size);
  to += stats_size;
  const window_head head = {line, epoch, (uint32_t)(to - event)};
  memcpy(room, &head, sizeof head);
  chrome->window.size += (size_t)(to - room);
  if (is_full(chrome)) chrome_flush(chrome);
}

void chrome_put_flow_record(fp_chrome *chrome, const chrome_flow_end *end) {
  const window_head head = {FLOW_LINE, 0, sizeof *end};
  uint8_t *room = fp_bytes_room(&chrome->window, sizeof head + sizeof *end);
  if (!room) {
    chrome->failed = true;
    return;
  }
  memcpy(room, &head, sizeof head);
  memcpy(room + sizeof head, end, sizeof *end);
  chrome->window.size += sizeof head + sizeof *end;
  chrome->flow_count++;
  if (is_full(chrome)) chrome_flush(chrome);
}
