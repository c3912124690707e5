/* The buffer assignment of an HloProto as columns: the buffers of a compiled program, the allocations that they lie
 * in, and when each is allocated and freed while the program runs.
 *
 * Rows refer to each other by number; -1: there is no such row. Texts are numbers in `texts`, where number 0 is the
 * empty text. Of several buffers with the same id the last counts, as in XProf. */
#ifndef FASTPROF_HLO_BUFFERS_H
#define FASTPROF_HLO_BUFFERS_H

#include "columns/strings.h"
#include "memory.h"
#include "status.h"

/* A value of the program: the output of an instruction, or the element of it that the shape index names. */
typedef struct fp_hlo_buffer {
  int64_t id, size, color, instruction_id;
  int32_t first_index, index_count; /* in `indices` */
  int32_t instruction_name;         /* in older programs, which record no id */
  int32_t unused;
} fp_hlo_buffer;

/* A range of memory that buffers share, at different offsets or at different times. */
typedef struct fp_hlo_allocation {
  int64_t index, size, color, parameter_number;
  int32_t first_index, index_count;       /* in `indices`: which element of the parameter */
  int32_t first_assigned, assigned_count; /* in `assigned` */
  uint8_t thread_local, entry_parameter, live_out, tuple, constant, aliased_output;
  uint8_t unused[2];
} fp_hlo_allocation;

/* The place of a buffer in an allocation. */
typedef struct fp_hlo_assigned {
  int64_t buffer_id, offset, size;
  int32_t buffer, allocation; /* rows */
} fp_hlo_assigned;

/* The events of one heap, in the order of the program. */
typedef struct fp_hlo_trace {
  int64_t allocation_index;
  int32_t first_event, event_count;
  int32_t whole_module;
  int32_t unused;
} fp_hlo_trace;

enum fp_hlo_event_kind { FP_HLO_ALLOC, FP_HLO_FREE, FP_HLO_SHARE_WITH };

typedef struct fp_hlo_event {
  int64_t buffer_id, canonical_id;
  int32_t buffer, canonical; /* rows; canonical: the buffer whose memory is shared */
  int32_t instruction_name, computation_name;
  int32_t trace;
  int32_t kind; /* enum fp_hlo_event_kind; unknown ones as in the file */
} fp_hlo_event;

/* The caller sets data, size and memory, and everything else to zero. The bytes are only read. The caller frees the
 * struct with fp_hlo_free_buffers. */
typedef struct fp_hlo_buffers {
  fp_memory *memory;
  const uint8_t *data;
  uint64_t size;
  int32_t is_there; /* whether the program has a buffer assignment */
  fp_vector buffers, allocations, assigned, traces, events;
  fp_vector indices; /* int64_t */
  fp_strings texts;
} fp_hlo_buffers;

/* Reads the buffer assignment; the struct must be freed whatever the result. */
fp_code fp_hlo_read_buffers(fp_hlo_buffers *found, fp_fault *fault);
void fp_hlo_free_buffers(fp_hlo_buffers *found);

#endif
