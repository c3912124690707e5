/* Values that lie at known places of a file: texts, each stored once, and repeated integers. */
#ifndef FASTPROF_SPAN_VALUES_H
#define FASTPROF_SPAN_VALUES_H

#include <stdbool.h>

#include "columns/strings.h"
#include "formats/message_fields.h"

/* The length of a span where there is nothing. */
#define FP_NO_SPAN UINT64_MAX

/* Writes the number of each text in the pool; -1 where there is none. `is_text`: invalid UTF-8 is replaced; else
 * bytes stay as they are. FP_CHANGED: a span does not lie in the data. */
fp_code fp_span_texts(const uint8_t *data, uint64_t size, const fp_message_span *spans, size_t count, bool is_text,
                      fp_strings *pool, int32_t *numbers, fp_fault *fault);

/* Appends the int64_t of each packed field to `values`; those of span i end at ends[i]. */
fp_code fp_span_ints(fp_memory *memory, const uint8_t *data, uint64_t size, const fp_message_span *spans, size_t count,
                     fp_vector *values, int64_t *ends, fp_fault *fault);

#endif
