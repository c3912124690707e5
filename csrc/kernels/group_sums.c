/* One pass. Overflow is checked for each addition, since sums must be exact or refused. */
#include "kernels/group_sums.h"

fp_code fp_group_sums(const int32_t *groups, const int64_t *value, size_t count, fp_group_sum *sums, size_t group_count) {
  for (size_t i = 0; i < count; i++) {
    if (groups[i] < 0 || (size_t)groups[i] >= group_count) continue;
    fp_group_sum *sum = &sums[groups[i]];
    if (!sum->count || value[i] < sum->minimum) sum->minimum = value[i];
    if (!sum->count || value[i] > sum->maximum) sum->maximum = value[i];
    sum->count++;
    if (__builtin_add_overflow(sum->total, value[i], &sum->total)) return FP_OVERFLOW;
  }
  return FP_OK;
}
