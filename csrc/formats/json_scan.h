/* JSON traces, pushed a chunk at a time: finds events, and the other members of the document, wherever chunks end.
 *
 *    {"displayTimeUnit": "ms", "traceEvents": [{"ph": "X"}, {"ph": "M"}], "distributedInfo": {"rank": 3}}
 *     ^ member                                 ^ event      ^ event       ^ member
 *
 *    [{"ph": "X"}, {"ph": "M"}
 *     ^ event      ^ event            an array without its end is fine
 *
 * What is kept is the event in which a chunk ends, up to FP_JSON_LARGEST_EVENT. It is looked at again when twice its bytes
 * are there, so that any size of chunks takes linear time.
 *
 * A handler may read an event later, even in another thread, if it says so (`is_shared`) and the text is handed over
 * before the next chunk is taken. */
#ifndef FASTPROF_JSON_SCAN_H
#define FASTPROF_JSON_SCAN_H

#include "formats/growing_bytes.h"
#include "formats/json_index.h"
#include "formats/json_walk.h"
#include "status.h"

/* What is remarked on the way. */
typedef enum fp_json_remark {
  FP_JSON_EXTRA_COMMA,       /* a comma where no event is before it */
  FP_JSON_SEVERAL_DOCUMENTS, /* another document begins */
  FP_JSON_SEVERAL_ARRAYS,    /* another traceEvents of the document */
  FP_JSON_STRAY_ITEM,        /* an item of the events other than an object */
  FP_JSON_LOST,              /* salvaged: bytes passed over; `count` of them */
  FP_JSON_ENDS_EARLY         /* at the end of the last event; `count`: open brackets */
} fp_json_remark;

typedef struct fp_json_handlers {
  /* Takes the event whose brace the walk is behind. END: it has been stepped over; MORE: the text ends before, and
   * nothing may have been kept of it; FAULT: it is not JSON. `offset`: of its brace in the document. */
  fp_json_step (*event)(void *context, const fp_json_view *view, fp_json_walk *walk, uint64_t offset);
  /* Takes another member of the document: its key between quotes, and the text of its value. `is_whole`: the value is
   * not cut off. False: its value is not JSON. */
  bool (*member)(void *context, const uint8_t *key, size_t key_length, const uint8_t *text, size_t length, bool is_whole);
  void (*remark)(void *context, fp_json_remark what, uint64_t offset, uint64_t count);
} fp_json_handlers;

/* Text that was handed over, with its marks; `base`: of the text in the document. Zeroed: none. */
typedef struct fp_json_stretch {
  fp_bytes bytes;
  uint32_t *marks;
  uint8_t *has;
  size_t mark_count, mark_capacity, has_capacity;
  uint64_t base;
} fp_json_stretch;

enum { FP_JSON_KEPT_VALUE = 1 << 20, FP_JSON_KEPT_STACKS = 1 << 26, FP_JSON_LARGEST_EVENT = 1 << 26 };

typedef enum fp_json_state {
  FP_JSON_AT_DOCUMENT, FP_JSON_AT_MEMBER, FP_JSON_AT_VALUE, FP_JSON_IN_VALUE, FP_JSON_AT_EVENT,
  FP_JSON_LOOKING, FP_JSON_TRYING
} fp_json_state;

/* The caller sets memory, handlers, context, salvage and index.ways, and zeroes the rest. */
typedef struct fp_json_scan {
  fp_memory *memory;
  const fp_json_handlers *handlers;
  void *context;
  bool salvage; /* faults are passed over */
  fp_json_index index;
  fp_bytes text;          /* what has not been taken, and less than a block before it */
  uint32_t *marks;        /* of `text`, from the walk on */
  uint8_t *has;           /* of its blocks */
  size_t mark_count, mark_capacity, has_capacity;
  size_t indexed;         /* bytes of the text whose marks are known */
  size_t retry_at;        /* bytes of the text with which the item is looked at again */
  uint64_t base;          /* of the text in the document */
  fp_json_walk walk;
  fp_json_state state;
  bool ended;             /* no more bytes come */
  bool is_shared;         /* a handler refers to the text */
  bool is_array;          /* the document is the array of events */
  bool is_fresh;          /* no item of the object or array has been read, and no comma */
  bool is_owed;           /* a comma is owed before the next item */
  bool had_events;        /* of this document */
  bool restarted;         /* what is before the walk in its block is not part of it */
  uint32_t documents;
  fp_bytes key, value;    /* of the member whose value is being read */
  uint32_t value_depth;
  bool value_quoted, value_cut;
  uint32_t fault_at;      /* of an item, whose beginning the walk is at */
  uint64_t lost_from;     /* where salvaging began */
  uint8_t before;         /* while looking: the last byte that is not blank */
  uint64_t last_event_end;
} fp_json_scan;

/* Takes the next bytes. FP_BAD_JSON: neither JSON nor one of its dialects, unless it is salvaged. */
fp_code fp_json_scan_push(fp_json_scan *scan, const uint8_t *data, size_t size, fp_fault *fault);
/* All bytes have been pushed. */
fp_code fp_json_scan_finish(fp_json_scan *scan, fp_fault *fault);
void fp_json_scan_free(fp_json_scan *scan);

/* ---- json_held.c ---- */

/* Forgets what has been taken, once that is most of the text. */
void fp_json_forget_taken(fp_json_scan *scan);
/* Learns the marks of more bytes: as many as the item at the walk has had, but a slice at least. False: there are no
 * more bytes, or no memory (text.failed). */
bool fp_json_index_more(fp_json_scan *scan);
/* Hands over the text that a handler refers to, in exchange for what was handed over before. False: memory ran out. */
bool fp_json_scan_hand_over(fp_json_scan *scan, fp_json_stretch *text);
void fp_json_stretch_free(fp_memory *memory, fp_json_stretch *text);

#endif
