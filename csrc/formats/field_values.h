/* Values of protobuf fields as columns take them: texts, each stored once, and repeated integers. */
#ifndef FASTPROF_FIELD_VALUES_H
#define FASTPROF_FIELD_VALUES_H

#include "columns/strings.h"
#include "formats/wire.h"
#include "memory.h"

/* Writes the number of a string field's text in the pool; invalid UTF-8 in it is replaced. Returns FP_OK or
 * FP_NO_MEMORY. */
fp_code fp_field_text(fp_strings *texts, const wire_field *field, int32_t *number);

/* Appends a repeated int64 field, packed or not, to a vector of int64_t. FP_NO_MEMORY also if there are more than
 * int32_t can number. FP_BAD_VARINT: *at is the place of the fault. */
fp_code fp_field_ints(fp_memory *memory, const wire_field *field, fp_vector *values, const uint8_t **at);

#endif
