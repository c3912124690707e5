/* The general readers: any order, any number of fields, unknown fields between them. */
#include "formats/xspace_event.h"

/* A scalar field of an event. The number of occurrences and the start share a oneof: the last one in the file counts,
 * and the other is as if it were not there. */
static void take_scalar(event_fields *event, uint32_t tag, uint64_t value) {
  switch (tag) {
    case TAG_EVENT_METADATA_ID: event->metadata_id = (int64_t)value; break;
    case TAG_EVENT_DURATION: event->duration_ps = (int64_t)value; break;
    case TAG_EVENT_OFFSET:
      event->offset_ps = (int64_t)value;
      event->aggregated = false;
      break;
    case TAG_EVENT_OCCURRENCES:
      event->occurrences = (int64_t)value;
      event->aggregated = true;
      break;
    default: break;
  }
}

fp_code read_event_any(const uint8_t **at, const uint8_t *end, event_fields *event) {
  const uint8_t *p = *at;
  *event = (event_fields){0};
  while (p < end) {
    wire_field field;
    *at = p;
    fp_code code = wire_next(&p, end, &field);
    if (code) return code;
    take_scalar(event, field.tag, field.value);
  }
  if (event->aggregated) event->offset_ps = 0;
  return FP_OK;
}

fp_code read_event_at(fp_window *window, uint64_t *at, uint64_t end, event_fields *event) {
  uint64_t next = *at;
  *event = (event_fields){.at = *at, .end = end};
  while (next < end) {
    fp_placed_field field;
    *at = next;
    fp_code code = fp_next_field(window, &next, end, &field);
    if (code) return code;
    take_scalar(event, field.tag, field.value);
  }
  if (event->aggregated) event->offset_ps = 0;
  return FP_OK;
}

/* A field of a stat: its id, or its value. Values share a oneof: the last counts. */
static void take_field(stat_fields *stat, uint32_t tag, uint64_t value, const uint8_t *payload, uint64_t place) {
  int kind;
  switch (tag) {
    case TAG_STAT_ID: stat->id = (int64_t)value; return;
    case TAG_STAT_DOUBLE: kind = FP_DOUBLE; break;
    case TAG_STAT_UINT64: kind = FP_UINT64; break;
    case TAG_STAT_INT64: kind = FP_INT64; break;
    case TAG_STAT_STR: kind = FP_STR; break;
    case TAG_STAT_BYTES: kind = FP_BYTES; break;
    case TAG_STAT_REF: kind = FP_REF; break;
    default: return;
  }
  bool has_payload = kind == FP_STR || kind == FP_BYTES;
  stat->kind = kind;
  stat->value = value;
  stat->payload = has_payload ? payload : NULL;
  stat->place = has_payload ? place : 0;
}

fp_code read_stat_any(const uint8_t *p, const uint8_t *end, stat_fields *stat) {
  *stat = (stat_fields){.kind = FP_NONE};
  while (p < end) {
    wire_field field;
    fp_code code = wire_next(&p, end, &field);
    if (code) return code;
    take_field(stat, field.tag, field.value, field.payload, 0);
  }
  return FP_OK;
}

fp_code read_stat_at(fp_window *window, uint64_t at, uint64_t end, stat_fields *stat) {
  *stat = (stat_fields){.kind = FP_NONE};
  while (at < end) {
    fp_placed_field field;
    fp_code code = fp_next_field(window, &at, end, &field);
    if (code) return code;
    take_field(stat, field.tag, field.value, NULL, field.at);
  }
  if (stat->kind != FP_STR) return FP_OK;
  fp_code code = fp_window_need(window, stat->place, stat->place + stat->value);
  if (!code) stat->payload = fp_window_at(window, stat->place);
  return code;
}
