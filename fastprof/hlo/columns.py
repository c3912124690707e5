"""The structs of csrc/formats/hlo.h as NumPy types; a test compares their sizes with C's."""

from __future__ import annotations

import numpy as np

COMPUTATION = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("id", "i8"), ("root_id", "i8"), ("name", "i4"), ("root", "i4")]
    + [("first_instruction", "i4"), ("last_instruction", "i4")]
)
INSTRUCTION = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("id", "i8"), ("parameter_number", "i8"), ("tuple_index", "i8")]
    + [("computation", "i4"), ("shape", "i4"), ("first_operand", "i4"), ("operand_count", "i4")]
    + [("first_call", "i4"), ("call_count", "i4"), ("name", "i4"), ("opcode", "i4"), ("fusion_kind", "i4")]
    + [("custom_call_target", "i4"), ("op_name", "i4"), ("op_type", "i4"), ("source_file", "i4")]
    + [("source_line", "i4"), ("stack_frame_id", "i4"), ("unused", "i4")]
)
SHAPE = np.dtype(
    [("layout_offset", "u8"), ("layout_length", "u8"), ("memory_space", "i8"), ("element_bits", "i8")]
    + [("first_dimension", "i4"), ("dimension_count", "i4"), ("last", "i4"), ("element_type", "i2")]
    + [("has_layout", "u1"), ("unused", "u1")]
)
