/* Calls of input pipelines of tf.data as XProf's tool counts them: along every path from an event to those that it
 * leads to. pipeline_calls.h counts each event once; this one exists because XProf's page shows these numbers. */
#ifndef FASTPROF_PIPELINE_PATHS_H
#define FASTPROF_PIPELINE_PATHS_H

#include "kernels/pipeline_calls.h"
#include "status.h"

/* Events by row. `iterator` -1: the event has no iterator id, and the walk ends there. Row r leads to the rows whose
 * `parent` it is, and to those of the links link[asks[r]] .. link[asks[r + 1]]; link l has the rows given[gives[l]]
 * .. given[gives[l + 1]]. */
typedef struct fp_event_paths {
  const int64_t *start, *duration;
  const int32_t *parent, *iterator;
  size_t count, iterator_count;
  const uint32_t *asks, *gives;
  const int32_t *link, *given;
} fp_event_paths;

enum { FP_DEEPEST_LEVEL = 100 };

/* A part of a walk, which ends after the call with which it has at least `most_records`. `visits_left`: how many steps
 * it may still take, and then those that it left. `calls`: how many calls it walked. */
typedef struct fp_path_piece {
  uint64_t visits_left;
  size_t most_records, calls;
} fp_path_piece;

/* Appends to records (fp_call_record; `critical` is 0) what each call reaches, in the order of the walk. An event
 * counts once for each path to it of at most FP_DEEPEST_LEVEL steps. Self time is the duration less every overlap
 * with an event that it leads to, so it may be negative. Sums wrap. The number of paths may grow exponentially, hence
 * `visits_left`: beyond it the walk fails with FP_TOO_LONG. A call may have as many records as there are iterators,
 * hence pieces; `call` counts from the first root of the piece.
 *
 *    A -> B -> D
 *      `-> C --^            D is reached twice and counts twice
 */
fp_code fp_pipeline_paths(fp_memory *memory, const fp_event_paths *paths, const int32_t *roots,
                          size_t root_count, fp_path_piece *piece, fp_vector *records);

#endif
