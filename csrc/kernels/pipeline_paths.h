/* Calls of input pipelines of tf.data as XProf's tool reads them: along every path from an event to those that it leads to. */
#ifndef FASTPROF_PIPELINE_PATHS_H
#define FASTPROF_PIPELINE_PATHS_H

#include "kernels/pipeline_calls.h"

/* Events by row. `iterator`: -1 where an event has no id: the walk ends there. Row r leads to the rows whose `parent` it is,
 * and to those of links link[asks[r]] .. link[asks[r + 1]]; link l has rows given[gives[l]] .. given[gives[l + 1]]. */
typedef struct fp_event_paths {
  const int64_t *start, *duration;
  const int32_t *parent, *iterator;
  size_t count, iterator_count;
  const uint32_t *asks, *gives;
  const int32_t *link, *given;
} fp_event_paths;

enum { FP_DEEPEST_LEVEL = 100 };
enum fp_path_result { FP_WALKED, FP_NO_ROOM, FP_TOO_LONG };

/* Appends to records (fp_call_record; `critical` is 0) what each call meets, in that order. An event counts as often as there
 * are paths to it of at most FP_DEEPEST_LEVEL steps; its self time is its duration less all overlaps with what it leads to,
 * and may be negative. Sums wrap around. FP_NO_ROOM: for want of memory; FP_TOO_LONG: more than `most_visits` events would
 * be visited. */
enum fp_path_result fp_pipeline_paths(fp_memory *memory, const fp_event_paths *paths, const int32_t *roots,
                                      size_t root_count, uint64_t most_visits, fp_vector *records);

#endif
