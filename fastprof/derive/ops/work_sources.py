"""Work of ops that the capture does not record, from the programs that it carries.

XLA's general cost model counts: one operation for each element that is computed, two for each product that is added
up. What runs other instructions is left out because these are ops themselves; so are the starts and ends of
asynchronous instructions, between which their work is done, and custom calls, whose work is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from fastprof.hlo.modules import Modules
from fastprof.hlo.work import GENERAL, Cost
from fastprof.schema.array_types import Float64s, Int64s

_CONTAINERS: Final = frozenset({"call", "while", "conditional"})
"""Opcodes of what runs other instructions."""
_IN_PARTS: Final = ("-start", "-update", "-done")
"""How opcodes of asynchronous instructions end: what they move is moved from the start to the end, not in the time of
either."""
_NO_WORK: Final = _CONTAINERS | {"custom-call", "send", "recv"}


def with_work_of_programs(table: OpTable, modules: Modules, *, on_tpu: bool = False) -> OpTable:
    """The same ops, with unknown work filled in from their programs. No program is read if nothing is missing."""
    idle = np.array([_has_no_work(category) for category in table.category], bool)
    missing = np.flatnonzero(~idle & ((table.flops_source == 0) | (table.bytes_source == 0))).astype(np.int64)
    if not len(missing) or not len(modules):
        return table
    costs = dict(_costs(table, missing, modules))
    if not costs:
        return table
    rows = np.array(list(costs), np.int64)
    times = table.occurrences[rows].astype(np.float64)
    flops, flops_source = _filled(table.flops, table.flops_source, rows, times, [one.flops for one in costs.values()])
    model = np.where((table.flops_source == 0) & (flops_source == FROM_HLO), flops, table.model_flops)
    moved, bytes_source = _filled(
        table.bytes_accessed, table.bytes_source, rows, times, [one.bytes_accessed for one in costs.values()]
    )
    unrecorded = ((row, cost) for row, cost in costs.items() if table.bytes_source[row] == 0)
    accesses = cost_accesses(unrecorded, table.occurrences, {0: HBM, 1: VMEM} if on_tpu else {0: HBM})
    return replace(
        table,
        flops=flops,
        model_flops=model,
        flops_source=flops_source,
        bytes_accessed=moved,
        bytes_source=bytes_source,
        memory=table.memory.and_also(accesses),
    )


def _filled(
    figures: Float64s, source: npt.NDArray[np.uint8], rows: Int64s, times: Float64s, of_one: Sequence[int]
) -> tuple[Float64s, npt.NDArray[np.uint8]]:
    """Figures and their sources, with unknown ones of ``rows`` filled in."""
    figures, source = figures.copy(), source.copy()
    unknown = source[rows] == 0
    figures[rows[unknown]] = (np.array(of_one, np.float64) * times)[unknown]
    source[rows[unknown]] = FROM_HLO
    return figures, source


def _costs(table: OpTable, rows: Int64s, modules: Modules) -> Iterator[tuple[int, Cost]]:
    """The cost of one execution of each op whose program is known."""
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
    """The name of an instruction; an op may be named with all its text."""
    return op.partition(" = ")[0].removeprefix("%")


def cost_accesses(costs: Iterable[tuple[int, Cost]], times: Int64s, codes: Mapping[int, int]) -> MemoryAccess:
    """Bytes by memory space of ops. ``costs``: row of an op, and cost of an execution; ``codes``: codes of spaces of
    layouts."""
    accesses = [
        (row, kind, codes.get(space, OTHER_SPACES + space), float(size) * int(times[row]))
        for row, cost in costs
        for space, *sizes in ((0, cost.hbm_read_bytes, cost.hbm_write_bytes), *cost.elsewhere)
        for kind, size in zip((READ, WRITE), sizes, strict=True)
        if size > 0
    ]
    return MemoryAccess.of(accesses)
