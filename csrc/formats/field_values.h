/* Values of protobuf fields as columns take them: texts, each once, and repeated numbers. */
#ifndef FASTPROF_FIELD_VALUES_H
#define FASTPROF_FIELD_VALUES_H

#include "columns/strings.h"
#include "formats/wire.h"
#include "memory.h"

/* The number of a string field in the pool; what is not UTF-8 in it is replaced. FP_NO_MEMORY, or FP_OK. */
fp_code fp_field_text(fp_strings *texts, const wire_field *field, int32_t *number);

/* Appends a repeated int64, packed or a single one, to a vector of int64_t. FP_NO_MEMORY also where there are more than
 * int32_t can number; FP_BAD_VARINT with `*at` where it is. */
fp_code fp_field_ints(fp_memory *memory, const wire_field *field, fp_vector *values, const uint8_t **at);

#endif
