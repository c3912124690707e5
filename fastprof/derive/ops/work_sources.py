"""Work of ops that the capture does not tell, from the programs that it carries; and who says what.

XLA's general cost model counts: one operation for each element that is computed, two for each product that is added
up. What runs other instructions is left out, since these are ops themselves; so are the starts and ends of asynchronous
instructions, between which their work is done, and custom calls, of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.tables import (
    FROM_HLO,
    HBM,
    OTHER_SPACES,
    READ,
    VMEM,
    WRITE,
    MemoryAccess,
    OpTable,
)
from fastprof.hlo.counting import GENERAL
from fastprof.hlo.modules import Modules
from fastprof.hlo.work import Cost
from fastprof.schema.array_types import Float64s, Int64s

_CONTAINERS: Final = frozenset({"call", "while", "conditional"})
"""Opcodes of what runs other instructions."""
_IN_PARTS: Final = ("-start", "-update", "-done")
"""How opcodes of asynchronous instructions end: what they move is moved from the start to the end, not in the time of
either."""
_NO_WORK: Final = _CONTAINERS | {"custom-call", "send", "recv"}

_SPACES_OF_TPUS: Final = {0: HBM, 1: VMEM}


def with_work_of_programs(table: OpTable, modules: Modules, *, on_tpu: bool = False) -> OpTable:
    """The same ops, with the work of those of which it is not known and a program tells it. No program is read where
    nothing is missing."""
    told = np.array([_has_no_work(category) for category in table.category], bool)
    missing = np.flatnonzero(~told & ((table.flops_source == 0) | (table.bytes_source == 0))).astype(np.int64)
    if not len(missing) or not len(modules):
        return table
    found = dict(_costs(table, missing, modules))
    if not found:
        return table
    rows = np.array(list(found), np.int64)
    costs = list(found.values())
    times = table.occurrences[rows].astype(np.float64)
    flops, flops_source = _filled(table.flops, table.flops_source, rows, times, [one.flops for one in costs])
    model = np.where((table.flops_source == 0) & (flops_source == FROM_HLO), flops, table.model_flops)
    moved, bytes_source = _filled(
        table.bytes_accessed, table.bytes_source, rows, times, [one.bytes_accessed for one in costs]
    )
    silent = {row: cost for row, cost in found.items() if table.bytes_source[row] == 0}
    return replace(
        table,
        flops=flops,
        model_flops=model,
        flops_source=flops_source,
        bytes_accessed=moved,
        bytes_source=bytes_source,
        memory=_joined(table.memory, _accesses(silent, table.occurrences, on_tpu)),
    )


def _filled(
    figures: Float64s, source: npt.NDArray[np.uint8], rows: Int64s, times: Float64s, of_one: Sequence[int]
) -> tuple[Float64s, npt.NDArray[np.uint8]]:
    """Figures and their sources, with those of ``rows`` filled in where nothing was known."""
    figures, source = figures.copy(), source.copy()
    unknown = source[rows] == 0
    figures[rows[unknown]] = (np.array(of_one, np.float64) * times)[unknown]
    source[rows[unknown]] = FROM_HLO
    return figures, source


def _costs(table: OpTable, rows: Int64s, modules: Modules) -> Iterator[tuple[int, Cost]]:
    """The cost of one execution of each op that a program tells of."""
    of_program: dict[int, list[int]] = {}
    for row, program_id in zip(rows.tolist(), table.program_id[rows].tolist(), strict=True):
        of_program.setdefault(program_id, []).append(row)
    for program_id, places in of_program.items():
        names = [instruction_name(table.name[row]) for row in places]
        for row, known in zip(places, modules.costs(program_id, names, GENERAL), strict=True):
            if known is not None and known[1].is_known and not _has_no_work(known[0]):
                yield row, known[1]


def _has_no_work(opcode: str) -> bool:
    return opcode in _NO_WORK or opcode.endswith(_IN_PARTS)


def instruction_name(op: str) -> str:
    """The name of an instruction, of which an op may have all the text."""
    return op.partition(" = ")[0].removeprefix("%")


def _accesses(costs: dict[int, Cost], occurrences: Int64s, on_tpu: bool) -> MemoryAccess:
    """Bytes by memory space."""
    found: list[tuple[int, int, int, int]] = []
    for at, cost in costs.items():
        spaces = ((0, cost.hbm_read_bytes, cost.hbm_write_bytes), *cost.elsewhere)
        for space, read, written in spaces:
            code = _code_of(space, on_tpu)
            found += [(at, kind, code, size) for kind, size in ((READ, read), (WRITE, written)) if size > 0]
    row, way, spaces_met, sizes = np.array(found, np.int64).reshape(-1, 4).T
    total = sizes.astype(np.float64) * occurrences[row]
    return MemoryAccess(row.astype(np.int32), way.astype(np.uint8), spaces_met.copy(), total)


def _code_of(space: int, on_tpu: bool) -> int:
    known = _SPACES_OF_TPUS if on_tpu else {0: HBM}
    return known.get(space, OTHER_SPACES + space)


def _joined(one: MemoryAccess, other: MemoryAccess) -> MemoryAccess:
    columns = ("row", "operation", "space", "bytes")
    return MemoryAccess(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in columns))
