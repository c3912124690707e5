/* HLO: the bytes of an HloProto (a compiled program) as columns of computations, instructions and shapes.
 *
 * Offsets are from the start of these bytes, which are the caller's and only read. Rows refer to each other by number,
 * -1 where there is no such row. Texts are numbers in `texts`, of which number 0 is the empty text. What few
 * instructions need (dimension numbers, windows, literals, backend configurations) is left where it is: each instruction
 * says where it lies. */
#ifndef FASTPROF_HLO_H
#define FASTPROF_HLO_H

#include "columns/strings.h"
#include "memory.h"
#include "status.h"

/* Rows first_instruction to last_instruction of `instructions` are its own. */
typedef struct fp_hlo_computation {
  uint64_t offset, length;
  int64_t id, root_id;
  int32_t name;
  int32_t root; /* row of an instruction */
  int32_t first_instruction, last_instruction;
} fp_hlo_computation;

typedef struct fp_hlo_instruction {
  uint64_t offset, length;
  int64_t id;
  int64_t parameter_number, tuple_index;
  int32_t computation;
  int32_t shape;
  int32_t first_operand, operand_count; /* in `operands` */
  int32_t first_call, call_count;       /* in `calls` */
  int32_t name, opcode, fusion_kind, custom_call_target; /* texts */
  int32_t op_name, op_type, source_file;                 /* texts of its metadata */
  int32_t source_line, stack_frame_id;
  int32_t unused;
} fp_hlo_instruction;

/* Shapes are trees in preorder: the elements of tuple i lie in rows i + 1 to `last`. */
typedef struct fp_hlo_shape {
  uint64_t layout_offset, layout_length;
  int64_t memory_space, element_bits; /* of its layout; element_bits 0: those of its type */
  int32_t first_dimension, dimension_count; /* in `dimensions` */
  int32_t last;
  int16_t element_type; /* xla.PrimitiveType */
  uint8_t has_layout;
  uint8_t unused;
} fp_hlo_shape;

/* Made by setting data, size and memory, and everything else to zero. */
typedef struct fp_hlo {
  fp_memory *memory;
  const uint8_t *data;
  uint64_t size;
  int64_t id, entry_id;
  int32_t name, entry; /* a text; the row of a computation */
  fp_vector computations, instructions, shapes;
  fp_vector operands;   /* int32_t: rows of instructions */
  fp_vector calls;      /* int32_t: rows of computations */
  fp_vector dimensions; /* int64_t */
  fp_strings texts;
} fp_hlo;

fp_code fp_hlo_read(fp_hlo *hlo, fp_fault *fault);
void fp_hlo_free(fp_hlo *hlo);

#endif
