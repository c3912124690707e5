/* Records of a transposed chunk of Riegeli: a machine walks over nodes, and each puts bytes in front of what is there.
 *
 *    nodes       3 "start of record"   tag 10 "XSpace.planes"   2 "start of submessage"   ...
 *    transitions one byte a step: how far to go on from the node's next, and how many nodes follow without a byte
 *    buffers     the values of each field, in order, one buffer a node
 */
#ifndef FASTPROF_TRANSPOSED_RECORDS_H
#define FASTPROF_TRANSPOSED_RECORDS_H

#include "memory.h"
#include "status.h"

/* `tag`: 0 nothing, 1 a record that is not a message, 2 start of a submessage, 3 start of a record, else a field and its
 * wire type, 6 for the end of a submessage. `next`: the node after it; `is_implicit`: it is reached without a transition. `subtype`:
 * of varints. `buffer`: of values, -1 for none. */
typedef struct fp_record_node {
  int64_t tag, next, buffer, subtype, is_implicit;
} fp_record_node;

/* `values`: all buffers, buffer b from `bounds[b]` to `bounds[b + 1]`. `out`: filled from its end to its beginning;
 * `begins`: [records] where each record begins in it, the last first. */
typedef struct fp_transposed {
  const fp_record_node *nodes;
  size_t node_count;
  int64_t first;
  bool is_first_implicit;
  const uint8_t *values;
  const int64_t *bounds;
  size_t buffer_count;
  const uint8_t *transitions;
  size_t transition_count;
  uint8_t *out;
  size_t size;
  int64_t *begins;
  size_t record_count;
} fp_transposed;

/* Fills `out` and `begins`. FP_OUT_OF_RANGE: the machine leaves its nodes, buffers or the size; `fault` says what it was
 * doing, and the number of the transition. The caller has made sure that implicit nodes make no circle. */
fp_code fp_transposed_write(fp_memory *memory, const fp_transposed *chunk, fp_fault *fault);

#endif
