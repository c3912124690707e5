/* Where values are largest: within ranges of places, and after each place. */
#ifndef FASTPROF_RANGE_PEAKS_H
#define FASTPROF_RANGE_PEAKS_H

#include "memory.h"

/* Writes to peak[i] the first place of the largest value from first[i] up to last[i], which is not part of it; -1 where
 * there is none. Ranges may overlap; each takes time in the order of log count. `count` is below 2^31. False for want
 * of memory. */
bool fp_range_peaks(fp_memory *memory, const int64_t *values, size_t count, const int64_t *first, const int64_t *last,
                    size_t range_count, int64_t *peak);

/* Writes to peak[i] the first place of the largest value above 0 after place i within its stretch; stretch s is from
 * bounds[s] to bounds[s + 1]; -1 where there is none. */
void fp_following_peaks(const int64_t *values, const int64_t *bounds, size_t stretch_count, int32_t *peak);

#endif
