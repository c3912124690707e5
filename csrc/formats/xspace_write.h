/* Writing metadata of events of an XSpace, from columns; lanes for events that overlap. */
#ifndef FASTPROF_XSPACE_WRITE_H
#define FASTPROF_XSPACE_WRITE_H

#include "formats/growing_bytes.h"
#include "status.h"

/* Appends entries of an XPlane's map of event metadata, ids from first_id on: metadata i has the name
 * bytes[offsets[i]] .. bytes[offsets[i + 1]], and if stat_id is not 0, a stat with the same text. */
void fp_put_event_metadata(fp_bytes *out, int64_t first_id, const int64_t *offsets, const uint8_t *bytes, size_t count,
                           int64_t stat_id);

/* Writes the first lane that is free for each event: its last event has ended at `begin` or before. Events are sorted
 * by begin. `found` gets the number of lanes. FP_NO_MEMORY.
 *
 *    lane 0   |--- A ---|     |- D -|
 *    lane 1      |----- B -----|           C and D begin when or after A has ended, D while C runs
 *    ...                 |- C ---|         C would be on lane 0, and D on lane 2 */
fp_code fp_first_free_lanes(fp_memory *memory, const int64_t *begin, const int64_t *end, size_t count, int32_t *lane,
                            int32_t *found);

#endif
