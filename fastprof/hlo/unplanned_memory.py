"""Memory of a program that no plan lists: scoped VMEM, and parameters and outputs of programs without a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from fastprof.errors import CaptureError
from fastprof.hlo.buffers import CATEGORIES, OUTPUT, PARAMETER
from fastprof.hlo.message import Message
from fastprof.hlo.module import HAS_BACKEND_CONFIG, HloModule
from fastprof.hlo.program_memory import VMEM, ProgramMemory
from fastprof.hlo.shapes import MOST

_ALIASES = 8
"""The field of an HloModuleProto that lists the outputs written to parameters."""


# ---- scoped VMEM


def scoped_vmem(memory: ProgramMemory, number: int) -> dict[str, Any]:
    """The most VMEM that one instruction takes for itself while it runs, the first of equal ones, from its
    backend_config (JSON). Figures of the analysis, with a reason where there is none."""
    if number != VMEM:
        why = (None, "reported for VMEM alone: --memory-space vmem")
        return {"scoped_vmem_bytes": why, "scoped_vmem_instruction": why}
    most, taken_by = most_scoped(memory.module)
    none = (None, "no instruction takes any")
    return {"scoped_vmem_bytes": most or none, "scoped_vmem_instruction": taken_by or none}


def most_scoped(module: HloModule) -> tuple[int, str]:
    """Bytes and instruction of the most scoped VMEM; (0, ""): none."""
    most, taken_by = 0, -1
    for row, size in _scoped(module):
        if size > most:
            most, taken_by = size, row
    return most, module.text(module.instructions["name"][taken_by]) if most else ""


def _scoped(module: HloModule) -> Iterator[tuple[int, int]]:
    """(row, bytes) of instructions that take scoped VMEM."""
    every = module.instructions
    for row in np.flatnonzero(every["flags"] & HAS_BACKEND_CONFIG).tolist():
        at, length = every[["backend_config_offset", "backend_config_length"]][row].item()
        config = bytes(module.data[at : at + length])
        if b"used_scoped_memory_configs" not in config:
            continue
        try:
            parsed = json.loads(config)
        except (ValueError, RecursionError):  # not JSON: the backend's own business
            continue
        used = parsed.get("used_scoped_memory_configs") if isinstance(parsed, dict) else None
        for one in used if isinstance(used, list) else ():
            if isinstance(one, dict) and _integer(one.get("memory_space")) == VMEM:
                yield row, _integer(one.get("size"))


def _integer(value: Any) -> int:
    """A number, or one in quotes, as protobuf's JSON has 64-bit integers; 0 for anything else."""
    if isinstance(value, str) and len(value) < 20:
        value = int(value) if value.isascii() and value.isdigit() else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else 0


# ---- programs without a plan


def signature_rows(memory: ProgramMemory, number: int) -> list[dict[str, Any]]:
    """Parameters and outputs of a program without a plan, as large as their layouts say, in one memory space: rows of
    the table allocations. What the program writes to a parameter's memory counts there alone."""
    module = memory.module
    donated = _donated(module)
    rows = []
    for category, row, parameter in _signature(module) if module.entry >= 0 else ():
        own = {} if category == PARAMETER else donated
        mine = [
            leaf
            for index, leaf in module.shape(module.shape_rows[row]).leaves()
            if leaf.memory_space == number and not any(index[:length] in own for length in range(len(index) + 1))
        ]
        size = sum(leaf.array.padded_bytes or 0 for leaf in mine)
        is_cut = size >= MOST or any(leaf.is_cut for leaf in mine)
        is_aliased = category == PARAMETER and parameter in donated.values()
        rows.append({
            **_instruction(memory, row),
            "category": CATEGORIES[category],
            "bytes": None if is_cut else size,
            "parameter_number": parameter,
            "is_output": category == OUTPUT or is_aliased,
            "is_aliased": is_aliased,
            "is_tuple": False,
            "is_reusable": True,
        })  # fmt: skip
    return rows


def _donated(module: HloModule) -> dict[tuple[int, ...], int]:
    """By element of the result, the parameter that it is written to. Empty where that does not decode."""
    try:
        aliases = Message(module.proto).message(_ALIASES).messages(1)
        return {tuple(one.integers(1)): one.integer(2) for one in aliases}
    except CaptureError:
        return {}


def _signature(module: HloModule) -> Iterator[tuple[int, int, int | None]]:
    """(category, row of an instruction, number of the parameter) of what the entry computation takes and returns."""
    for row in module.rows_of(module.entry):
        if module.opcodes[row] == "parameter":
            yield PARAMETER, row, module.parameter_numbers[row]
    root = module.roots[module.entry]
    if root >= 0:
        yield OUTPUT, root, None


def _instruction(memory: ProgramMemory, row: int) -> dict[str, str | None]:
    module = memory.module
    source = module.source_of(row)
    return {
        "buffer": module.names[row] or None,
        "shape": memory.shape_text(module.shape(module.shape_rows[row])) or None,
        "opcode": module.opcodes[row] or None,
        "op_name": module.op_name(row) or None,
        "source": f"{source.file}:{source.line}" if source.file else None,
    }
