/* Reading one XEvent and one XStat, for the index and the fill, which must see the same. Profilers write the fields
 * of these messages in order, each once. The inline readers take that form without a general loop over fields;
 * whatever differs goes to the _any functions, which give the same results for every message. */
#ifndef FASTPROF_XSPACE_EVENT_H
#define FASTPROF_XSPACE_EVENT_H

#include "formats/placed_fields.h"
#include "formats/wire.h"
#include "formats/xspace.h"

/* An event's bytes in the regular form; numbers are varints, and each part may be missing:
 *
 *    08 metadata_id   10 offset_ps   18 duration_ps   22 length stat   22 length stat ...
 *
 * and a stat's bytes, with one value:
 *
 *    08 metadata_id   20 int64 | 18 uint64 | 11 eight bytes of a double | 2a length text | 32 length bytes | 38 ref */
typedef struct event_fields {
  int64_t metadata_id, offset_ps, duration_ps, occurrences;
  bool aggregated;      /* it has a number of occurrences instead of a start: the last of the two in the file counts */
  const uint8_t *stats; /* in regular events: where its stats begin, which reach to its end; NULL: see `at` */
  uint64_t at, end;     /* of an event that need not be in memory: where it lies */
} event_fields;

/* A stat. A ref is the id of stat metadata whose name is the value. */
typedef struct stat_fields {
  int64_t id;
  uint64_t value; /* integer, bits of a double, or length of `payload` */
  const uint8_t *payload; /* NULL for bytes that were not read: they lie at `place` */
  uint64_t place;
  int kind; /* enum fp_kind */
} stat_fields;

enum {
  TAG_EVENT = WIRE_TAG(4, WIRE_LEN),
  TAG_EVENT_METADATA_ID = WIRE_TAG(1, WIRE_VARINT),
  TAG_EVENT_OFFSET = WIRE_TAG(2, WIRE_VARINT),
  TAG_EVENT_DURATION = WIRE_TAG(3, WIRE_VARINT),
  TAG_EVENT_STAT = WIRE_TAG(4, WIRE_LEN),
  TAG_EVENT_OCCURRENCES = WIRE_TAG(5, WIRE_VARINT),
  TAG_STAT_ID = WIRE_TAG(1, WIRE_VARINT),
  TAG_STAT_DOUBLE = WIRE_TAG(2, WIRE_I64),
  TAG_STAT_UINT64 = WIRE_TAG(3, WIRE_VARINT),
  TAG_STAT_INT64 = WIRE_TAG(4, WIRE_VARINT),
  TAG_STAT_STR = WIRE_TAG(5, WIRE_LEN),
  TAG_STAT_BYTES = WIRE_TAG(6, WIRE_LEN),
  TAG_STAT_REF = WIRE_TAG(7, WIRE_VARINT)
};

/* The scalar fields of an event that has them in order, with stats last; WIRE_SLACK bytes behind `end` may be read.
 * False: it does not have that form and needs read_event_any. What lies behind `stats` is not examined. */
static inline bool read_event_regular(const uint8_t *p, const uint8_t *end, event_fields *event) {
  uint64_t metadata_id = 0, offset = 0, duration = 0;
  if (p < end && *p == TAG_EVENT_METADATA_ID) {
    p++;
    if (!wire_varint_fast(&p, &metadata_id)) return false;
  }
  if (p < end && *p == TAG_EVENT_OFFSET) {
    p++;
    if (!wire_varint_fast(&p, &offset)) return false;
  }
  if (p < end && *p == TAG_EVENT_DURATION) {
    p++;
    if (!wire_varint_fast(&p, &duration)) return false;
  }
  if (p > end || (p < end && *p != TAG_EVENT_STAT)) return false;
  event->metadata_id = (int64_t)metadata_id;
  event->offset_ps = (int64_t)offset;
  event->duration_ps = (int64_t)duration;
  event->occurrences = 0;
  event->aggregated = false;
  event->stats = p;
  return true;
}

/* The scalar fields of any event. After a fault *at is the field that is wrong. */
fp_code read_event_any(const uint8_t **at, const uint8_t *end, event_fields *event);
/* The same of an event of any size at a place of the capture. */
fp_code read_event_at(fp_window *window, uint64_t *at, uint64_t end, event_fields *event);

/* Any stat, with fields in any order and number; the last value counts. */
fp_code read_stat_any(const uint8_t *p, const uint8_t *end, stat_fields *stat);
/* The same of a stat of any size at a place of the capture: a text is then in the window, bytes need not be. */
fp_code read_stat_at(fp_window *window, uint64_t at, uint64_t end, stat_fields *stat);

/* A stat. `slack`: WIRE_SLACK bytes behind `end` may be read. */
static inline fp_code read_stat(const uint8_t *p, const uint8_t *end, bool slack, stat_fields *stat) {
  const uint8_t *start = p;
  uint64_t id;
  if (!slack || p >= end || *p != TAG_STAT_ID) return read_stat_any(start, end, stat);
  p++;
  if (!wire_varint_fast(&p, &id)) return read_stat_any(start, end, stat);
  stat->id = (int64_t)id;
  uint8_t tag = *p++;
  switch (tag) {
    case TAG_STAT_INT64: stat->kind = FP_INT64; break;
    case TAG_STAT_UINT64: stat->kind = FP_UINT64; break;
    case TAG_STAT_REF: stat->kind = FP_REF; break;
    case TAG_STAT_DOUBLE:
      stat->kind = FP_DOUBLE;
      memcpy(&stat->value, p, 8);
      return p + 8 == end ? FP_OK : read_stat_any(start, end, stat);
    case TAG_STAT_STR:
    case TAG_STAT_BYTES:
      stat->kind = tag == TAG_STAT_STR ? FP_STR : FP_BYTES;
      if (!wire_varint_fast(&p, &stat->value) || p > end || stat->value != (uint64_t)(end - p))
        return read_stat_any(start, end, stat);
      stat->payload = p;
      return FP_OK;
    default: return read_stat_any(start, end, stat);
  }
  if (wire_varint_fast(&p, &stat->value) && p == end) return FP_OK;
  return read_stat_any(start, end, stat);
}

/* Whether an event is read field by field, because it may be larger than memory. */
static inline bool is_large(const fp_window *window, uint64_t size) { return size > window->most && !window->data; }

/* The length of a field whose tag has been read: *p .. *p + *length lies before `end`. */
static inline bool read_length(const uint8_t **p, const uint8_t *end, uint64_t *length) {
  if (*p < end && **p < 0x80)
    *length = *(*p)++;
  else if (!wire_varint(p, end, length))
    return false;
  return *length <= (uint64_t)(end - *p);
}

/* The events of a line that lie in the window one behind the other. They are read on pointers, and the window is asked
 * once for all of them instead of once for each field: an index and a fill spend most of their time here.
 *
 *    line      | 22 length event | 22 length event | 22 length ev.... | ...
 *    window  [  p -> ........................... p at last          ]
 */
typedef struct near_events {
  const uint8_t *start;        /* where the event that was returned last begins, its tag included */
  const uint8_t *p;            /* behind it: the next field of the line */
  const uint8_t *stop, *limit; /* events begin before `stop` and end at `limit` or before */
} near_events;

/* Begins with the field at `at` of a line that ends at `end`. `pause`: events from there on are not wanted. False: that
 * field is not in the window. */
static inline bool events_in_window(near_events *events, const fp_window *window, uint64_t at, uint64_t pause,
                                    uint64_t end) {
  if (at < window->first || at >= window->end) return false;
  events->start = events->p = fp_window_at(window, at);
  events->stop = fp_window_at(window, pause < window->end ? pause : window->end);
  events->limit = fp_window_at(window, end < window->end ? end : window->end);
  return true;
}

/* Moves p behind the next event, which is *payload .. p. False: there is another field, or an event that is not in the
 * window to its end, and p stays where it begins. */
static inline bool next_near_event(near_events *events, const uint8_t **payload) {
  uint64_t length;
  if (events->p >= events->stop || *events->p != TAG_EVENT) return false;
  *payload = events->p + 1;
  if (!read_length(payload, events->limit, &length)) return false;
  events->start = events->p;
  events->p = *payload + length;
  return true;
}

/* What to do with a field that next_near_event left. */
enum field_kind { NO_EVENT, NEAR_EVENT, PLACED_EVENT };

/* Reads the field at *at and leaves *at behind it. Of an event that is large, or has an unusual tag, the fields are to
 * be read at their places. Any other is brought into the window, and *at stays, so that next_near_event takes it. */
static inline fp_code next_far_field(fp_window *window, uint64_t *at, uint64_t end, fp_placed_field *field,
                                     enum field_kind *kind) {
  uint64_t start = *at;
  fp_code code = fp_next_field(window, at, end, field);
  *kind = code || field->tag != TAG_EVENT ? NO_EVENT
          : is_large(window, field->value) || !field->short_tag ? PLACED_EVENT : NEAR_EVENT;
  if (*kind != NEAR_EVENT) return code;
  uint64_t behind = *at;
  *at = start;
  return fp_window_need(window, start, behind);
}

#endif
