/* The general readers: any order, any number of fields, unknown fields between them. */
#include "formats/xspace_event.h"

/* The number of occurrences and the start share a oneof: the last one in the file counts, and the other is as if it
 * were not there. */
fp_code read_event_any(const uint8_t **at, const uint8_t *end, event_fields *event) {
  const uint8_t *p = *at;
  memset(event, 0, sizeof *event);
  while (p < end) {
    wire_field field;
    *at = p;
    fp_code code = wire_next(&p, end, &field);
    if (code) return code;
    switch (field.tag) {
      case TAG_EVENT_METADATA_ID: event->metadata_id = (int64_t)field.value; break;
      case TAG_EVENT_DURATION: event->duration_ps = (int64_t)field.value; break;
      case TAG_EVENT_OFFSET:
        event->offset_ps = (int64_t)field.value;
        event->aggregated = false;
        break;
      case TAG_EVENT_OCCURRENCES:
        event->occurrences = (int64_t)field.value;
        event->aggregated = true;
        break;
      default: break;
    }
  }
  if (event->aggregated) event->offset_ps = 0;
  return FP_OK;
}

/* The values share a oneof too. */
fp_code read_stat_any(const uint8_t *p, const uint8_t *end, stat_fields *stat) {
  memset(stat, 0, sizeof *stat);
  stat->kind = FP_NONE;
  while (p < end) {
    wire_field field;
    fp_code code = wire_next(&p, end, &field);
    if (code) return code;
    int kind;
    switch (field.tag) {
      case TAG_STAT_ID: stat->id = (int64_t)field.value; continue;
      case TAG_STAT_DOUBLE: kind = FP_DOUBLE; break;
      case TAG_STAT_UINT64: kind = FP_UINT64; break;
      case TAG_STAT_INT64: kind = FP_INT64; break;
      case TAG_STAT_STR: kind = FP_STR; break;
      case TAG_STAT_BYTES: kind = FP_BYTES; break;
      case TAG_STAT_REF: kind = FP_REF; break;
      default: continue;
    }
    stat->kind = kind;
    stat->value = field.value;
    stat->payload = kind == FP_STR || kind == FP_BYTES ? field.payload : NULL;
  }
  return FP_OK;
}
