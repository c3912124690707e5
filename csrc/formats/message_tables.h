/* Tables of messages and of messages in them, read in one pass: for readers that need few fields of very many. */
#ifndef FASTPROF_MESSAGE_TABLES_H
#define FASTPROF_MESSAGE_TABLES_H

#include "formats/message_fields.h"

enum { FP_TABLE_FIELDS = 32, FP_MOST_TABLES = 32 }; /* fields with larger numbers are passed over */

/* What becomes of a field: nothing, an int64_t column, the columns offset and length, a row of another table, or a row
 * of one whose only columns are a number, each of a packed field, or offset and length. */
typedef enum fp_field_use {
  FP_FIELD_PASSED, FP_FIELD_INT, FP_FIELD_SPAN, FP_FIELD_TABLE, FP_FIELD_NUMBERS, FP_FIELD_SPANS
} fp_field_use;

/* A row is `width` int64_t: the row of the message around it, or the number of the span, then `ints` columns, then
 * offset and length of each span, -1 where there is none. Of a repeated field the last value counts. */
typedef struct fp_message_table {
  uint8_t use[FP_TABLE_FIELDS], place[FP_TABLE_FIELDS]; /* by number: the column or the table, which comes later */
  uint32_t ints, width;
  fp_vector values;
} fp_message_table;

/* The caller checks that places are columns of the table, and later tables; that those of numbers have width 2, those of
 * spans 3. */
typedef struct fp_message_tables {
  fp_memory *memory;
  const uint8_t *data; /* the caller's; only read */
  uint64_t size;
  fp_message_table tables[FP_MOST_TABLES]; /* the first one is that of the spans */
} fp_message_tables;

fp_code fp_message_tables_read(fp_message_tables *found, const fp_message_span *spans, size_t count, fp_fault *fault);
void fp_message_tables_free(fp_message_tables *found);

#endif
