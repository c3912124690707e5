/* The state of reading one HloProto, and the functions that all its readers use.
 *
 *   hlo.c -> hlo_shape.c, hlo_frames.c -> hlo_reading.c
 *
 * A program refers to instructions and computations by id, often before it defines them. Readers therefore collect ids,
 * and hlo.c replaces them by rows once the entire program has been read. */
#ifndef FASTPROF_HLO_READING_H
#define FASTPROF_HLO_READING_H

#include "formats/hlo.h"
#include "formats/wire.h"

/* The schedule of one computation. */
typedef struct hlo_sequence {
  int64_t computation_id;
  int64_t first, count; /* in `scheduled_ids` */
} hlo_sequence;

/* A FileLocation, with ids instead of texts. Ids of a StackFrameIndexProto count from 1; 0: none. */
typedef struct hlo_location {
  int32_t file_id, function_id, line, column, end_line, end_column;
} hlo_location;

typedef struct hlo_frame_ids {
  int32_t location_id, parent_id;
} hlo_frame_ids;

/* The state of a reading. The vectors are its own and are freed at its end; `hlo` and `fault` belong to the caller. */
typedef struct hlo_reading {
  fp_hlo *hlo;
  fp_fault *fault;
  fp_vector operand_ids, call_ids; /* int64_t, beside `operands` and `calls` */
  fp_vector scheduled_ids;         /* int64_t, beside `scheduled` */
  fp_vector sequences;             /* hlo_sequence */
  fp_vector files, functions;      /* int32_t: texts */
  fp_vector locations, frame_ids;  /* hlo_location, hlo_frame_ids */
  fp_strings shape_protos;         /* the bytes of each distinct ShapeProto */
  fp_vector shape_rows;            /* int32_t: its row in `shapes`, by its number in `shape_protos` */
} hlo_reading;

/* Reads one field of a message into row `row` of a table. */
typedef fp_code (*hlo_field_reader)(hlo_reading *, int32_t row, const wire_field *);

/* Fills the fault with the offset of `at`; without an offset where memory ran out. */
static inline fp_code hlo_fail(const hlo_reading *r, fp_code code, const uint8_t *at, const char *what) {
  return fp_fail(r->fault, code, (uint64_t)(at - r->hlo->data), what);
}

static inline fp_code hlo_no_memory(const hlo_reading *r, const char *what) {
  return fp_fail(r->fault, FP_NO_MEMORY, 0, what);
}

/* The offset of a field's payload. */
static inline uint64_t hlo_offset(const hlo_reading *r, const wire_field *field) {
  return (uint64_t)(field->payload - r->hlo->data);
}

/* Passes each field of the message at p to a reader, in the order of the file. `row` is the row of a table that the
 * reader fills; `what` names the message in a fault. */
fp_code hlo_read_message(hlo_reading *r, const uint8_t *p, uint64_t length, int32_t row, hlo_field_reader reader,
                         const char *what);
/* The same for the message that a field holds. */
fp_code hlo_read_inner(hlo_reading *r, const wire_field *field, int32_t row, hlo_field_reader reader, const char *what);
/* Appends a zeroed row and returns its number; -1 when memory or row numbers run out. */
int32_t hlo_add_row(hlo_reading *r, fp_vector *table, size_t item_size);
/* Writes the number of a text in hlo->texts; invalid UTF-8 in it is replaced. */
fp_code hlo_add_text(hlo_reading *r, const wire_field *field, int32_t *number);
/* Appends the values of a repeated int64 field, whether packed or not. */
fp_code hlo_add_ints(hlo_reading *r, const wire_field *field, fp_vector *values, const char *what);

#endif
