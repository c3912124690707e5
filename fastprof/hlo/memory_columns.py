"""What a program holds in memory as columns of tables: allocations, buffers, and what happens on heaps."""

from __future__ import annotations

import numpy as np

from fastprof.hlo.buffers import CATEGORIES, KINDS, SHARE_WITH, BufferAssignment
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_memory import UNKNOWN, ProgramMemory
from fastprof.hlo.table_columns import ABSENT, Lists, Numbers, TableTexts, Values, ranges
from fastprof.schema.array_types import Int32s

_FLAGS = {
    "is_thread_local": "thread_local",
    "is_entry_parameter": "entry_parameter",
    "may_be_output": "live_out",
    "is_tuple": "tuple",
    "is_constant": "constant",
}


def allocation_columns(module: HloModule, texts: TableTexts) -> dict[str, Values]:
    """The columns of hlo_allocations, but those that tell the program. CaptureError: the assignment does not decode."""
    buffers = BufferAssignment(module.data)
    rows = buffers.allocations
    is_parameter = rows["entry_parameter"] != 0
    columns: dict[str, Values] = {
        "allocation": Numbers(rows["index"]),
        "size_bytes": Numbers(rows["size"], ~buffers.odd_allocations),
        "memory_space": Numbers(rows["color"]),
        "category": texts.all_numbers(CATEGORIES)[buffers.category],
        "buffer_count": Numbers(rows["assigned_count"].astype(np.int64)),
        "parameter_number": Numbers(rows["parameter_number"], is_parameter),
        "parameter_index": _lists(buffers, rows["first_index"], rows["index_count"], is_parameter),
    }
    flags: dict[str, Values] = {name: Numbers(rows[flag] != 0) for name, flag in _FLAGS.items()}
    return columns | flags | {"is_aliased": Numbers(buffers.aliased)}


def buffer_columns(module: HloModule, texts: TableTexts) -> dict[str, Values]:
    """The columns of hlo_buffers, likewise."""
    memory = ProgramMemory(module)
    buffers = memory.buffers
    rows = buffers.buffers
    lies = buffers.allocation_of >= 0
    allocations = np.append(buffers.allocations["index"], np.int64(0))[buffers.allocation_of]
    words = texts.of_pool(*module.text_pool)
    names = np.append(words[module.instructions["name"]], np.int32(ABSENT))
    return {
        "buffer": Numbers(rows["id"]),
        "instruction": names[memory.instruction],
        "element": _lists(buffers, rows["first_index"], rows["index_count"], None),
        "size_bytes": Numbers(rows["size"], ~buffers.odd_buffers),
        "unpadded_bytes": Numbers(memory.unpadded, memory.unpadded != UNKNOWN),
        "memory_space": Numbers(rows["color"]),
        "allocation": Numbers(allocations, lies),
        "offset_bytes": Numbers(buffers.offset_of, lies),
    }


def heap_event_columns(module: HloModule, texts: TableTexts) -> dict[str, Values]:
    """The columns of hlo_heap_events, likewise."""
    buffers = BufferAssignment(module.data)
    rows = buffers.events
    words = texts.all_numbers(buffers.texts.to_pylist())
    kinds = texts.all_numbers([*KINDS, None])
    first = buffers.traces["first_event"][rows["trace"]] if len(rows) else np.zeros(0, np.int64)
    return {
        "heap": Numbers(rows["trace"].astype(np.int64)),
        "position": Numbers(np.arange(len(rows), dtype=np.int64) - first),
        "kind": kinds[np.where((rows["kind"] >= 0) & (rows["kind"] < len(KINDS)), rows["kind"], len(KINDS))],
        "buffer": Numbers(rows["buffer_id"]),
        "shared_buffer": Numbers(rows["canonical_id"], rows["kind"] == SHARE_WITH),
        "computation": words[rows["computation_name"]],
        "instruction": words[rows["instruction_name"]],
    }


def _lists(buffers: BufferAssignment, first: Int32s, count: Int32s, valid: np.ndarray | None) -> Lists:
    counts = count.astype(np.int64) if valid is None else np.where(valid, count, 0)
    return Lists(counts, buffers.indices[ranges(first, counts)], valid)
