"""The structs of csrc/formats/hlo.h as NumPy types; a test compares their sizes with C's."""

from __future__ import annotations

import numpy as np

COMPUTATION = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("program_shape_offset", "u8"), ("program_shape_length", "u8")]
    + [("id", "i8"), ("root_id", "i8"), ("name", "i4"), ("root", "i4")]
    + [("first_instruction", "i4"), ("last_instruction", "i4"), ("execution_thread", "i4")]
    + [("first_scheduled", "i4"), ("scheduled_count", "i4"), ("is_fusion", "u1"), ("unused", "u1", 3)]
)
INSTRUCTION = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("backend_config_offset", "u8"), ("backend_config_length", "u8")]
    + [("sharding_offset", "u8"), ("sharding_length", "u8")]
    + [("id", "i8"), ("parameter_number", "i8"), ("tuple_index", "i8"), ("channel_id", "i8")]
    + [("computation", "i4"), ("shape", "i4"), ("first_operand", "i4"), ("operand_count", "i4")]
    + [("first_call", "i4"), ("call_count", "i4"), ("name", "i4"), ("opcode", "i4"), ("fusion_kind", "i4")]
    + [("custom_call_target", "i4"), ("op_name", "i4"), ("op_type", "i4"), ("source_file", "i4")]
    + [("deduplicated_name", "i4"), ("scheduling_name", "i4"), ("source_line", "i4"), ("source_end_line", "i4")]
    + [("source_column", "i4"), ("source_end_column", "i4"), ("stack_frame_id", "i4"), ("flags", "u4")]
    + [("unused", "i4")]
)
SHAPE = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("layout_offset", "u8"), ("layout_length", "u8")]
    + [("memory_space", "i8"), ("element_bits", "i8"), ("first_dimension", "i4"), ("dimension_count", "i4")]
    + [("first_minor", "i4"), ("minor_count", "i4"), ("first_tile", "i4"), ("tile_count", "i4"), ("last", "i4")]
    + [("element_type", "i2"), ("has_layout", "u1"), ("is_dynamic", "u1")]
)
TILE = np.dtype([("first_dimension", "i4"), ("dimension_count", "i4")])
FRAME = np.dtype(
    [("file", "i4"), ("function", "i4"), ("line", "i4"), ("column", "i4"), ("end_line", "i4"), ("end_column", "i4")]
    + [("parent", "i4"), ("has_location", "u1"), ("unused", "u1", 3)]
)

HAS_SHARDING, HAS_REPLICA_GROUPS, HAS_LITERAL, HAS_BACKEND_CONFIG = 1, 2, 4, 8
HAS_FRONTEND_ATTRIBUTES, HAS_CONTROL_PREDECESSORS, HAS_SOURCE_TARGET_PAIRS = 16, 32, 64
"""Bits of an instruction's ``flags``: which of the fields that few have are in its HloInstructionProto."""
