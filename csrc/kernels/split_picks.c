#include <stdbool.h>

#include "kernels/split_picks.h"

void fp_count_picks(const fp_pick_share *share, size_t stat_count, int64_t *counts) {
  for (size_t i = 0; i < share->count; i++) {
    int16_t stat = share->picks[i].stat;
    if (stat >= 0 && (size_t)stat < stat_count) counts[stat]++;
  }
}

void fp_split_picks(const fp_pick_share *share, size_t stat_count, const int64_t *first, int64_t *next, int32_t *row,
                    uint8_t *kind, int64_t *value) {
  for (size_t i = 0; i < share->count; i++) {
    const fp_pick *pick = &share->picks[i];
    if (pick->stat < 0 || (size_t)pick->stat >= stat_count) continue;
    int64_t last = next[pick->stat] - 1;
    if (last >= first[pick->stat] && row[last] == pick->row) continue;
    int64_t to = next[pick->stat]++;
    bool own = share->own_numbers && pick->kind == share->own_kind && pick->value >= share->text_base;
    row[to] = pick->row;
    kind[to] = pick->kind;
    value[to] = own ? share->own_numbers[pick->value - share->text_base] : pick->value;
  }
}
