/* Where values are largest: within ranges of places, and behind each place. */
#ifndef FASTPROF_RANGE_PEAKS_H
#define FASTPROF_RANGE_PEAKS_H

#include "memory.h"
#include "status.h"

/* Writes to peak[i] the first place of the largest value in first[i]..last[i] (last excluded), or -1 where the range
 * is empty. Ranges may overlap; each takes time in the order of log count. `count` is below 2^31. Fails only when
 * memory runs out. */
fp_code fp_range_peaks(fp_memory *memory, const int64_t *values, size_t count, const int64_t *first, const int64_t *last,
                    size_t range_count, int64_t *peak);

/* Writes to peak[i] the first place of the largest positive value behind place i within its stretch, or -1 where
 * there is none. Stretch s is bounds[s]..bounds[s + 1]. */
void fp_following_peaks(const int64_t *values, const int64_t *bounds, size_t stretch_count, int32_t *peak);

#endif
