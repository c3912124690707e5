/* A stat that some events have, as a column beside chosen events. */
#ifndef FASTPROF_STAT_COLUMNS_H
#define FASTPROF_STAT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stat: the rows that have it, ascending, each once; its kind (below 32) and its value there. */
typedef struct fp_stat {
  const int32_t *row;
  const uint8_t *kind;
  const int64_t *value;
  size_t count;
} fp_stat;

/* A column and the bits beside it; the caller owns the arrays. */
typedef struct fp_stat_column {
  int64_t *value;
  uint16_t *recorded; /* gets `bit` where a value is written */
  uint16_t *odd;      /* gets `bit` where the kind is not `plain`, unless 0 is written */
  uint16_t bit;
  uint32_t accepted;  /* a bit for each kind that is written */
  uint8_t plain;
  uint8_t integer, natural; /* in a column of doubles: the integer kinds to convert; else FP_NO_KIND */
} fp_stat_column;

enum { FP_NO_KIND = 0xFF };

/* Writes the value of row rows[i] to place[i] of the column, for chosen rows, ascending, each once. The value stays
 * as it is where a row has no such stat, or has it in a kind that is not accepted. Returns whether any bit of `odd`
 * was set. */
bool fp_stat_beside(const fp_stat *stat, const int32_t *rows, const int32_t *place, size_t count,
                    const fp_stat_column *column);

#endif
