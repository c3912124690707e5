"""What a compiled program takes of each memory space, in one row each; and what programs without a plan still tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fastprof.errors import CaptureError
from fastprof.hlo.buffers import CATEGORIES, CONSTANT, OUTPUT, PARAMETER, TEMPORARY, THREAD_LOCAL
from fastprof.hlo.columns import HAS_BACKEND_CONFIG
from fastprof.hlo.layout import array_of
from fastprof.hlo.memory_spaces import VMEM
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_memory import MemorySpace, ProgramMemory
from fastprof.hlo.program_memory_schemas import TABLES
from fastprof.hlo.program_memory_tables import aliased_bytes
from fastprof.hlo.proto_fields import integer, integers, message, messages
from fastprof.hlo.shapes import Shape

ModuleRow = dict[str, Any]
"""Columns of the table modules that follow from the program alone."""

_ALIASES = 8
"""The field of an HloModuleProto that tells which outputs are written to parameters."""
_OF_SPACE = (
    "memory_space", "allocated_bytes", "peak_bytes", "unpadded_peak_bytes", "fragmentation_bytes", "parameter_bytes",
    "output_bytes", "aliased_bytes", "constant_bytes", "temporary_bytes", "thread_local_bytes", "allocation_count",
    "buffer_count", "program_points", "scoped_vmem_bytes",
)  # fmt: skip


def module_rows(memory: ProgramMemory, only: int | None = None) -> list[ModuleRow]:
    """One for each memory space, or for the only one that is asked for; one of nulls where nothing is told. A program
    without allocations has one of the device's memory."""
    count = {"instruction_count": len(memory.module)}
    if memory.untold:
        return [dict.fromkeys(_OF_SPACE) | count | {"reason": memory.untold}]
    numbers = [only] if only is not None else memory.spaces or [0]
    return [_row(memory.space(number)) | count for number in numbers]


def _row(space: MemorySpace) -> ModuleRow:
    peak = space.peak
    allocated = space.allocated_bytes
    every = space.program.buffers.allocations[space.allocations]
    return {
        "memory_space": space.number,
        "allocated_bytes": allocated,
        "peak_bytes": peak.bytes,
        "unpadded_peak_bytes": peak.unpadded,
        "fragmentation_bytes": None if peak.bytes is None or peak.bytes > allocated else allocated - peak.bytes,
        "parameter_bytes": space.sized(PARAMETER),
        "output_bytes": space.sized(OUTPUT),
        "aliased_bytes": aliased_bytes(space),
        "constant_bytes": space.sized(CONSTANT),
        "temporary_bytes": space.sized(TEMPORARY),
        "thread_local_bytes": space.sized(THREAD_LOCAL),
        "allocation_count": len(every),
        "buffer_count": int(every["assigned_count"].sum()),
        "program_points": sum(len(heap.events) for _, heap in space.traced),
        "scoped_vmem_bytes": most_scoped(space.program.module)[0] if space.number == VMEM else None,
        "reason": peak.reason,
    }


# ---- scoped VMEM


def scoped_vmem(memory: ProgramMemory, number: int) -> dict[str, Any]:
    """The most VMEM that one instruction takes for itself while it runs, the first of equal ones: its backend_config,
    JSON, tells it. Figures of the analysis, with a reason where there is none."""
    if number != VMEM:
        why = (None, "told of VMEM alone: --memory-space vmem")
        return {"scoped_vmem_bytes": why, "scoped_vmem_instruction": why}
    most, taken_by = most_scoped(memory.module)
    none = (None, "no instruction tells of any")
    return {"scoped_vmem_bytes": most or none, "scoped_vmem_instruction": taken_by or none}


def most_scoped(module: HloModule) -> tuple[int, str]:
    """Bytes and instruction of the most scoped VMEM; (0, ""): there is none."""
    most, taken_by = 0, -1
    for row, size in _scoped(module):
        if size > most:
            most, taken_by = size, row
    return most, module.text(module.instructions["name"][taken_by]) if most else ""


def _scoped(module: HloModule) -> Iterator[tuple[int, int]]:
    """(row, bytes) of scoped VMEM, of instructions that tell of any."""
    every = module.instructions
    for row in np.flatnonzero(every["flags"] & HAS_BACKEND_CONFIG).tolist():
        at, length = every[["backend_config_offset", "backend_config_length"]][row].item()
        config = bytes(module.data[at : at + length])
        if b"used_scoped_memory_configs" not in config:
            continue
        try:
            told = json.loads(config)
        except (ValueError, RecursionError):  # it is no JSON: the backend's own business
            continue
        used = told.get("used_scoped_memory_configs") if isinstance(told, dict) else None
        for one in used if isinstance(used, list) else ():
            if isinstance(one, dict) and _whole(one.get("memory_space")) == VMEM:
                yield row, _whole(one.get("size"))


def _whole(value: Any) -> int:
    """A number, or one in quotes, as protobuf's JSON has 64-bit integers; 0 for all else."""
    if isinstance(value, str) and len(value) < 20:
        value = int(value) if value.isascii() and value.isdigit() else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else 0


# ---- programs without a plan


def signature_table(memory: ProgramMemory, number: int) -> pa.Table:
    """Parameters and outputs of a program without buffer assignment, as large as their layouts say, in one memory
    space: rows of the table allocations. What the program writes to a parameter's memory counts there alone."""
    module = memory.module
    rows = list(_signature(module)) if module.entry >= 0 else []
    donated = _donated(module)
    found = []
    for category, row, parameter in rows:
        own = {} if category == PARAMETER else donated
        leaves = module.shape(int(module.instructions["shape"][row])).leaves()
        size = sum(
            _padded_bytes(module, leaf)
            for index, leaf in leaves
            if leaf.memory_space == number and not any(index[:length] in own for length in range(len(index) + 1))
        )
        is_aliased = category == PARAMETER and parameter in donated.values()
        found.append(_signature_row(memory, category, row, size, parameter, is_aliased))
    return pa.Table.from_pylist(found, TABLES["allocations"].arrow())


def _donated(module: HloModule) -> dict[tuple[int, ...], int]:
    """By element of what the program gives, the parameter that it is written to. None where that does not decode."""
    try:
        aliases = messages(message(module.proto, _ALIASES), 1)
        return {tuple(integers(one, 1)): integer(one, 2) for one in aliases}
    except CaptureError:
        return {}


def _signature(module: HloModule) -> Iterator[tuple[int, int, int | None]]:
    """(category, row of an instruction, number of the parameter) of what the entry computation takes and gives."""
    opcodes, numbers = module.instructions["opcode"], module.instructions["parameter_number"]
    for row in module.rows_of(module.entry):
        if module.text(opcodes[row]) == "parameter":
            yield PARAMETER, row, int(numbers[row])
    root = int(module.computations["root"][module.entry])
    if root >= 0:
        yield OUTPUT, root, None


def _signature_row(
    memory: ProgramMemory, category: int, row: int, size: int, parameter: int | None, is_aliased: bool
) -> dict[str, Any]:
    module = memory.module
    source = module.source_of(row)
    return {
        "category": CATEGORIES[category],
        "bytes": size if size < 1 << 63 else None,
        "buffer": module.text(module.instructions["name"][row]) or None,
        "shape": memory.shape_text(module.shape(int(module.instructions["shape"][row]))) or None,
        "opcode": module.text(module.instructions["opcode"][row]) or None,
        "op_name": module.op_name(row) or None,
        "source": f"{source.file}:{source.line}" if source.file else None,
        "parameter_number": parameter,
        "is_output": category == OUTPUT or is_aliased,
        "is_aliased": is_aliased,
        "is_tuple": False,
        "is_reusable": True,
    }


def _padded_bytes(module: HloModule, leaf: Shape) -> int:
    try:
        return array_of(leaf, module.data).padded_bytes or 0
    except CaptureError:  # a damaged layout
        return 0
