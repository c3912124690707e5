/* What a thread does at each time, where only some of its events say so. */
#ifndef FASTPROF_REASONS_H
#define FASTPROF_REASONS_H

#include "kernels/foremost.h"
#include "kernels/nesting.h"

/* How codes of events combine. An event whose `takes` is at least what the code around it `holds` says what its thread
 * does from then on; another one, and each of code 0 or of the same code, leaves that as it was. */
typedef struct fp_code_powers {
  uint8_t takes[256], holds[256];
} fp_code_powers;

/* Appends the pieces of time in which an event with a code says what its line does, line by line; `span` is the row of
 * that event. Time in which none does is left out. Pieces of a line whose events nest ascend and are disjoint; adjoining
 * ones have different rows. Rows of a line are sorted by start, longer first; a negative duration counts as 0. Fails
 * only when memory runs out.
 *
 *    row 0 (takes 1, holds 2)    |---------------------------|
 *    row 1 (takes 1)                |-----|
 *    row 2 (takes 2)                           |------|
 *    pieces                      |000000000000|2222222|000000|
 */
fp_code fp_reasons(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *codes,
                   const fp_code_powers *powers, const fp_line_rows *lines, size_t line_count, fp_vector *pieces);

#endif
