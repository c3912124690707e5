/* HLO: the bytes of an HloProto (a compiled program) as columns of computations, instructions and shapes.
 *
 * Offsets are from the start of these bytes, which belong to the caller and are only read. Rows refer to each other
 * by number; -1: there is no such row. Texts are numbers in `texts`, where number 0 is the empty text. Fields that
 * few instructions have (dimension numbers, windows, literals, backend configurations) are not decoded: an
 * instruction records where it lies, and `flags` which of them it has. */
#ifndef FASTPROF_HLO_H
#define FASTPROF_HLO_H

#include "columns/strings.h"
#include "memory.h"
#include "status.h"

/* A computation. Rows first_instruction .. last_instruction of `instructions` are its own. */
typedef struct fp_hlo_computation {
  uint64_t offset, length;
  uint64_t program_shape_offset, program_shape_length;
  int64_t id, root_id;
  int32_t name;
  int32_t root; /* row of an instruction */
  int32_t first_instruction, last_instruction;
  int32_t execution_thread;                 /* a text */
  int32_t first_scheduled, scheduled_count; /* in `scheduled`; count -1: it is not in the schedule */
  uint8_t is_fusion;
  uint8_t unused[3];
} fp_hlo_computation;

/* Fields that few instructions have: a bit for each. */
enum {
  FP_HLO_SHARDING = 1,
  FP_HLO_REPLICA_GROUPS = 2, /* or a collective_device_list */
  FP_HLO_LITERAL = 4,
  FP_HLO_BACKEND_CONFIG = 8,
  FP_HLO_FRONTEND_ATTRIBUTES = 16,
  FP_HLO_CONTROL_PREDECESSORS = 32,
  FP_HLO_SOURCE_TARGET_PAIRS = 64
};

/* An instruction. first_operand .. first_operand + operand_count of `operands` are the rows of its operands, and
 * likewise for `calls`, the computations that it calls.
 *
 *    %add.3 = f32[8] add(%p.1, %p.2)           rows  0 p.1   1 p.2   2 add.3
 *    operands   [0 1]                          add.3: first_operand 0, operand_count 2
 */
typedef struct fp_hlo_instruction {
  uint64_t offset, length;
  uint64_t backend_config_offset, backend_config_length;
  uint64_t sharding_offset, sharding_length;
  int64_t id;
  int64_t parameter_number, tuple_index, channel_id;
  int32_t computation;
  int32_t shape;
  int32_t first_operand, operand_count; /* in `operands` */
  int32_t first_call, call_count;       /* in `calls` */
  int32_t name, opcode, fusion_kind, custom_call_target;                        /* texts */
  int32_t op_name, op_type, source_file, deduplicated_name, scheduling_name;    /* texts of its metadata */
  int32_t source_line, source_end_line, source_column, source_end_column;
  int32_t stack_frame_id; /* row of `frames` + 1; 0: none */
  uint32_t flags;
  int32_t unused;
} fp_hlo_instruction;

/* Shapes are trees in preorder: the elements of the tuple in row i are in the rows from i + 1 up to, not including,
 * `last`. Instructions with equal shapes share rows.
 *
 *    (f32[8], (s32[], s32[4]))      rows  0 tuple (last 5)  1 f32[8]  2 tuple (last 5)  3 s32[]  4 s32[4]
 */
typedef struct fp_hlo_shape {
  uint64_t offset, length;
  int64_t memory_space, element_bits; /* from its layout; element_bits 0: as its type has */
  int64_t alignment; /* from its layout: its elements are padded to a multiple of this many; 0: not recorded */
  int32_t first_dimension, dimension_count; /* in `dimensions` */
  int32_t first_minor, minor_count;         /* in `minor_to_major` */
  int32_t first_tile, tile_count;           /* in `tiles` */
  int32_t last;
  int16_t element_type; /* xla.PrimitiveType */
  uint8_t has_layout;
  uint8_t is_dynamic; /* some dimension is */
} fp_hlo_shape;

/* A tile of a layout: how many elements of each dimension it has. */
typedef struct fp_hlo_tile {
  int32_t first_dimension, dimension_count; /* in `tile_dimensions` */
} fp_hlo_tile;

/* A place in the source, and the frame that called it. */
typedef struct fp_hlo_frame {
  int32_t file, function; /* texts */
  int32_t line, column, end_line, end_column;
  int32_t parent; /* row of `frames` */
  uint8_t has_location;
  uint8_t unused[3];
} fp_hlo_frame;

/* The caller sets data, size and memory, and everything else to zero. It owns the vectors and frees them with
 * fp_hlo_free. */
typedef struct fp_hlo {
  fp_memory *memory;
  const uint8_t *data;
  uint64_t size;
  uint64_t module_offset, module_length; /* the HloModuleProto */
  int64_t id, entry_id;
  int32_t name, entry; /* a text; the row of a computation */
  int32_t is_scheduled;
  fp_vector computations, instructions, shapes, tiles, frames;
  fp_vector operands;        /* int32_t: rows of instructions */
  fp_vector calls;           /* int32_t: rows of computations */
  fp_vector scheduled;       /* int32_t: rows of instructions */
  fp_vector dimensions;      /* int64_t, and the next two */
  fp_vector minor_to_major;
  fp_vector tile_dimensions;
  fp_strings texts;
} fp_hlo;

/* Reads the program; the struct must be freed whatever the result. May be called once for a struct. */
fp_code fp_hlo_read(fp_hlo *hlo, fp_fault *fault);
void fp_hlo_free(fp_hlo *hlo);

#endif
