/* What the readers of HLO share: one reading, and the ids in it that wait to become rows. */
#ifndef FASTPROF_HLO_READING_H
#define FASTPROF_HLO_READING_H

#include "formats/hlo.h"
#include "formats/wire.h"

typedef struct hlo_sequence {
  int64_t computation_id;
  int64_t first, count; /* in `scheduled_ids` */
} hlo_sequence;

/* Ids of a StackFrameIndexProto count from 1; 0 is none. */
typedef struct hlo_location {
  int32_t file_id, function_id, line, column, end_line, end_column;
} hlo_location;

typedef struct hlo_frame_ids {
  int32_t location_id, parent_id;
} hlo_frame_ids;

typedef struct hlo_reading {
  fp_hlo *hlo;
  fp_fault *fault;
  fp_vector operand_ids, call_ids; /* int64_t, beside `operands` and `calls` */
  fp_vector scheduled_ids;         /* int64_t, beside `scheduled` */
  fp_vector sequences;             /* hlo_sequence */
  fp_vector files, functions;      /* int32_t: texts */
  fp_vector locations, frame_ids;  /* hlo_location, hlo_frame_ids */
  fp_strings shape_protos;         /* distinct ones, */
  fp_vector shape_rows;            /* int32_t: and the row of each */
} hlo_reading;

typedef fp_code (*hlo_field_reader)(hlo_reading *, int32_t row, const wire_field *);

static inline fp_code hlo_fail(const hlo_reading *r, fp_code code, const uint8_t *at, const char *what) {
  return fp_fail(r->fault, code, (uint64_t)(at - r->hlo->data), what);
}

static inline fp_code hlo_no_memory(const hlo_reading *r, const char *what) {
  return fp_fail(r->fault, FP_NO_MEMORY, 0, what);
}

static inline uint64_t hlo_offset(const hlo_reading *r, const wire_field *field) {
  return (uint64_t)(field->payload - r->hlo->data);
}

/* Hands each field of the message that a field holds to a reader. */
fp_code hlo_read_inner(hlo_reading *r, const wire_field *field, int32_t row, hlo_field_reader reader, const char *what);
/* A new row, zeroed; -1 for want of memory, or of numbers for rows. */
int32_t hlo_add_row(hlo_reading *r, fp_vector *table, size_t item_size);
/* The number of a text; what is not UTF-8 in it is replaced. */
fp_code hlo_add_text(hlo_reading *r, const wire_field *field, int32_t *number);
/* A repeated int64, packed or one by one. */
fp_code hlo_add_ints(hlo_reading *r, const wire_field *field, fp_vector *values, const char *what);

/* The rows of a shape; those of an equal one if it has been met. */
fp_code hlo_read_shape(hlo_reading *r, const wire_field *field, int32_t *row);
/* A StackFrameIndexProto, and its frames once all of it has been read. */
fp_code hlo_read_frames(hlo_reading *r, const wire_field *field);
fp_code hlo_resolve_frames(hlo_reading *r);

#endif
