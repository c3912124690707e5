/* Picked stats, sorted by what they are. */
#ifndef FASTPROF_SPLIT_PICKS_H
#define FASTPROF_SPLIT_PICKS_H

#include <stddef.h>

#include "columns/pick.h"

/* Picks of one stretch of rows. Those of kind `own_kind` and of values from text_base on are texts of its own: they become
 * own_numbers[value - text_base] (NULL: there are none). */
typedef struct fp_pick_share {
  const fp_pick *picks;
  size_t count;
  const int32_t *own_numbers;
  int64_t text_base;
  uint8_t own_kind;
} fp_pick_share;

/* Adds to counts[s] how many picks of stat s there are; others than the stat_count first are left out. */
void fp_count_picks(const fp_pick_share *share, size_t stat_count, int64_t *counts);
/* Writes the picks of stat s to the three columns from next[s] on, and moves next[s]; those of stat s begin at first[s].
 * Of several of one event and stat the first is kept. */
void fp_split_picks(const fp_pick_share *share, size_t stat_count, const int64_t *first, int64_t *next, int32_t *row,
                    uint8_t *kind, int64_t *value);

#endif
