/* A stat that some events have, as a column beside chosen events. */
#ifndef FASTPROF_STAT_COLUMNS_H
#define FASTPROF_STAT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stat: the rows that have it, ascending, each once, with its kind, below 32, and its value there. */
typedef struct fp_stat {
  const int32_t *row;
  const uint8_t *kind;
  const int64_t *value;
  size_t count;
} fp_stat;

/* A column, and bits beside it. */
typedef struct fp_stat_column {
  int64_t *value;
  uint16_t *recorded; /* gets the bit where a value is written */
  uint16_t *odd;      /* gets the bit where the kind is not `plain`, unless what is written is 0 */
  uint16_t bit;
  uint32_t accepted;  /* bits of kinds that are written */
  uint8_t plain;
  uint8_t integer, natural; /* of a column of doubles: the kinds, signed and not, that become doubles; else FP_NO_KIND */
} fp_stat_column;

enum { FP_NO_KIND = 0xFF };

/* For chosen rows, ascending, each once: writes the value of row rows[i] to place[i] of the column. Where a row has no
 * such stat, or has it in another kind, the value stays as it is. Tells whether anything was odd. */
bool fp_stat_beside(const fp_stat *stat, const int32_t *rows, const int32_t *place, size_t count,
                    const fp_stat_column *column);

#endif
