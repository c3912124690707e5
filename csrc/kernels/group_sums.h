/* Sums by group, in exact integers. */
#ifndef FASTPROF_GROUP_SUMS_H
#define FASTPROF_GROUP_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct fp_group_sum {
  int64_t count;
  int64_t total, minimum, maximum; /* of the values; minimum and maximum are 0 where count is */
} fp_group_sum;

/* Adds the values of each group to sums[group]. A negative group, or one that is not below group_count, is left out.
 * Sums may be continued over several calls. FP_OVERFLOW: a sum does not fit 64 bits. */
fp_code fp_group_sums(const int32_t *groups, const int64_t *value, size_t count, fp_group_sum *sums, size_t group_count);

#endif
