/* The sizes of messages are computed first, so that lengths are written before contents and take no more bytes than
 * they need:
 *
 *    22 nn        event      08 id  10 offset  18 duration
 *       22 nn       stat       08 id  20 integer
 *       22 nn       stat       08 id  2a nn text
 */
#include "formats/line_events.h"

#include "formats/proto_write.h"

enum { LINE_EVENT = 4, EVENT_STAT = 4 };

static uint64_t text_size(const fp_line_events *events, size_t k) {
  return (uint64_t)(events->text_at[events->value[k] + 1] - events->text_at[events->value[k]]);
}

/* Bytes of a stat's contents. */
static size_t stat_size(const fp_line_events *events, size_t k) {
  size_t size = 2 + proto_varint_size((uint64_t)events->stat_id[k]);
  if (!events->is_text[k]) return size + proto_varint_size((uint64_t)events->value[k]);
  uint64_t length = text_size(events, k);
  return size + proto_varint_size(length) + length;
}

static size_t event_size(const fp_line_events *events, size_t i) {
  size_t size = 3 + proto_varint_size((uint64_t)events->metadata_id[i]) +
                proto_varint_size((uint64_t)events->offset_ps[i]) + proto_varint_size((uint64_t)events->duration_ps[i]);
  for (int64_t k = events->first_stat[i]; k < events->first_stat[i + 1]; k++) {
    size_t length = stat_size(events, (size_t)k);
    size += 1 + proto_varint_size(length) + length;
  }
  return size;
}

static uint8_t *put_number(uint8_t *to, uint8_t field, uint64_t value) {
  *to++ = (uint8_t)(field << 3 | WIRE_VARINT);
  return proto_varint_at(to, value);
}

static uint8_t *put_length(uint8_t *to, uint8_t field, uint64_t length) {
  *to++ = (uint8_t)(field << 3 | WIRE_LEN);
  return proto_varint_at(to, length);
}

static uint8_t *put_stat(uint8_t *to, const fp_line_events *events, size_t k) {
  to = put_length(to, EVENT_STAT, stat_size(events, k));
  to = put_number(to, 1, (uint64_t)events->stat_id[k]);
  if (!events->is_text[k]) return put_number(to, 4, (uint64_t)events->value[k]);
  uint64_t length = text_size(events, k);
  to = put_length(to, 5, length);
  if (length) memcpy(to, events->texts + events->text_at[events->value[k]], length);
  return to + length;
}

fp_code fp_put_line_events(fp_bytes *out, const fp_line_events *events) {
  int64_t stats = events->count ? events->first_stat[events->count] : 0;
  for (int64_t k = 0; k < stats; k++)
    if (events->is_text[k] && (uint64_t)events->value[k] >= events->text_count) return FP_OUT_OF_RANGE;
  for (size_t i = 0; i < events->count; i++) {
    size_t size = event_size(events, i), all = 1 + proto_varint_size(size) + size;
    uint8_t *to = fp_bytes_room(out, all);
    if (!to) return FP_NO_MEMORY;
    out->size += all;
    to = put_length(to, LINE_EVENT, size);
    to = put_number(to, 1, (uint64_t)events->metadata_id[i]);
    to = put_number(to, 2, (uint64_t)events->offset_ps[i]);
    to = put_number(to, 3, (uint64_t)events->duration_ps[i]);
    for (int64_t k = events->first_stat[i]; k < events->first_stat[i + 1]; k++) to = put_stat(to, events, (size_t)k);
  }
  return FP_OK;
}
