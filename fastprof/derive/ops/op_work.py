"""Work of ops beyond what their events record: from programs of the capture, and of transfers.

XLA's general cost model counts: one operation for each element that is computed, two for each product that is added
up. Containers have no work of their own, and neither have custom calls, whose work is unknown. An asynchronous
transfer runs from its start (``copy-start``) to its end (``copy-done``): the time of neither depends on how much it
moves. Feeds, sends and copies to or from the host's memory go over a link, not at the speed of the device's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import drop_serial
from fastprof.derive.ops.launches import DONE, PARTS, find_part_before
from fastprof.derive.ops.op_table import FROM_HLO, HBM, HOST, OTHER_SPACES, READ, VMEM, WRITE, MemoryAccess, OpTable
from fastprof.hlo.programs import Modules
from fastprof.hlo.work import GENERAL, Cost
from fastprof.schema.columns import Bools, Float64s, Int64s
from fastprof.wording.patterns import compile_late

_CONTAINERS: Final = frozenset({"call", "while", "conditional"})
"""Opcodes of instructions that run others."""
_IN_PARTS: Final = ("-start", "-update", "-done")
"""Suffixes of opcodes of asynchronous instructions: their bytes move between start and end, not in the time of
either."""
_NO_WORK: Final = _CONTAINERS | {"custom-call", "send", "recv"}


def fill_missing_work(table: OpTable, modules: Modules, *, on_tpu: bool = False) -> OpTable:
    """Fill in unknown work from the ops' programs. No program is read if nothing is missing."""
    idle = np.array([_has_no_work(category) for category in table.category], bool)
    missing = np.flatnonzero(~idle & ((table.flops_source == 0) | (table.bytes_source == 0))).astype(np.int64)
    if not len(missing) or not len(modules):
        return table
    costs = dict(_find_costs(table, missing, modules))
    if not costs:
        return table
    rows = np.array(list(costs), np.int64)
    times = table.occurrences[rows].astype(np.float64)
    flops, flops_source = _fill_unknown(
        table.flops, table.flops_source, rows, times, [cost.flops for cost in costs.values()]
    )
    model = np.where((table.flops_source == 0) & (flops_source == FROM_HLO), flops, table.model_flops)
    moved, bytes_source = _fill_unknown(
        table.bytes_accessed, table.bytes_source, rows, times, [cost.bytes_accessed for cost in costs.values()]
    )
    unrecorded = ((row, cost) for row, cost in costs.items() if table.bytes_source[row] == 0)
    accesses = list_cost_accesses(unrecorded, table.occurrences, {0: HBM, 1: VMEM} if on_tpu else {0: HBM})
    return replace(
        table,
        flops=flops,
        model_flops=model,
        flops_source=flops_source,
        bytes_accessed=moved,
        bytes_source=bytes_source,
        memory=table.memory.and_also(accesses),
    )


def _fill_unknown(
    figures: Float64s, source: npt.NDArray[np.uint8], rows: Int64s, times: Float64s, of_one: Sequence[int]
) -> tuple[Float64s, npt.NDArray[np.uint8]]:
    """Figures and their sources, with unknown ones of ``rows`` filled in."""
    figures, source = figures.copy(), source.copy()
    unknown = source[rows] == 0
    figures[rows[unknown]] = (np.array(of_one, np.float64) * times)[unknown]
    source[rows[unknown]] = FROM_HLO
    return figures, source


def _find_costs(table: OpTable, rows: Int64s, modules: Modules) -> Iterator[tuple[int, Cost]]:
    """Yield the cost of one execution of each op whose program is known."""
    of_program: dict[int, list[int]] = {}
    for row, program_id in zip(rows.tolist(), table.program_id[rows].tolist(), strict=True):
        of_program.setdefault(program_id, []).append(row)
    for program_id, places in of_program.items():
        names = [parse_instruction_name(table.name[row]) for row in places]
        for row, known in zip(places, modules.costs(program_id, names, GENERAL), strict=True):
            if known is not None and known[1].is_known and not _has_no_work(known[0]):
                yield row, known[1]


def _has_no_work(opcode: str) -> bool:
    return opcode in _NO_WORK or opcode.endswith(_IN_PARTS)


def parse_instruction_name(op: str) -> str:
    """Return the name of an instruction; an op may be named with all its text."""
    return op.partition(" = ")[0].removeprefix("%")


def list_cost_accesses(costs: Iterable[tuple[int, Cost]], times: Int64s, codes: Mapping[int, int]) -> MemoryAccess:
    """Return bytes by memory space of ops. ``costs``: row of an op, and cost of an execution; ``codes``: codes of
    spaces of layouts."""
    accesses = [
        (row, kind, codes.get(space, OTHER_SPACES + space), float(size) * int(times[row]))
        for row, cost in costs
        for space, *sizes in ((0, cost.hbm_read_bytes, cost.hbm_write_bytes), *cost.elsewhere)
        for kind, size in zip((READ, WRITE), sizes, strict=True)
        if size > 0
    ]
    return MemoryAccess.of(accesses)


_LINKED: Final = frozenset({"send", "recv", "host send", "host recv"})
_FEEDS: Final = ("infeed", "outfeed")
_HOST_LAYOUT: Final = compile_late(r"\{(?:(?!S\(5\))[^{}])*+S\(5\)[^{}]*+\}")


def mark_transfers(table: OpTable) -> Bools:
    """Mark ops whose time depends neither on arithmetic nor on device memory: starts and ends of asynchronous
    transfers, sends, feeds, copies to or from host memory."""
    waiting = np.array([_is_transfer(_name_kind(*op)) for op in zip(table.category, table.name, strict=True)], bool)
    linked = np.unique(table.memory.row[table.memory.space == HOST]).tolist()
    waiting[[row for row in linked if table.category[row]]] = True  # sums of ops have no category
    return waiting


def _name_kind(category: str, name: str) -> str:
    return category or drop_serial(name)


@lru_cache(1 << 12)
def _is_transfer(kind: str) -> bool:
    return kind.endswith(PARTS) or kind in _LINKED or any(feed in kind for feed in _FEEDS)


def place_unknown_bytes(table: OpTable) -> OpTable:
    """Place bytes of a core's ops whose memory is not recorded: in the host's memory if the layouts say so, else in an
    unknown memory, but not in HBM."""
    recorded = table.has_breakdown() | (table.bytes_accessed <= 0)
    linked = [
        not known and bool(_HOST_LAYOUT.search(text)) for known, text in zip(recorded, table.long_name, strict=True)
    ]
    silent = np.flatnonzero(~recorded & (table.tells_memories | np.array(linked, bool)))
    if not len(silent):
        return table
    spaces = [HOST if _HOST_LAYOUT.search(table.long_name[row]) else 0 for row in silent.tolist()]
    accesses = zip(silent.tolist(), spaces, table.bytes_accessed[silent].tolist(), strict=True)
    added = MemoryAccess.of([(row, 0, space, size) for row, space, size in accesses])
    return replace(table, memory=table.memory.and_also(added))


def count_transfers_once(table: OpTable) -> OpTable:
    """Adapt ops for sums over them: bytes recorded for both start and end of a transfer count at the end, also those of
    each memory and direction."""
    end_of = dict(_pair_transfers(table))
    if not end_of:
        return table
    start, done = list(end_of), list(end_of.values())
    moved = table.bytes_accessed.copy()
    moved[start] = np.maximum(moved[start] - moved[done], 0.0)
    memory = table.memory
    keys = list(zip(memory.row.tolist(), memory.operation.tolist(), memory.space.tolist(), strict=True))
    sizes = dict(zip(keys, memory.bytes.tolist(), strict=True))
    left = memory.bytes.copy()
    for place, (row, way, space) in enumerate(keys):
        if row in end_of:
            left[place] = max(left[place] - sizes.get((end_of[row], way, space), 0.0), 0.0)
    return replace(table, bytes_accessed=moved, memory=replace(memory, bytes=left))


def _pair_transfers(table: OpTable) -> Iterator[tuple[int, int]]:
    """Yield rows of starts and of their ends, if bytes are recorded for both."""
    ends = [
        row
        for row in np.flatnonzero(table.bytes_accessed > 0).tolist()
        if _name_kind(table.category[row], table.name[row]).endswith(DONE)
    ]
    if not ends:
        return
    keys = zip(table.program_id.tolist(), table.name, strict=True)
    rows = {key: row for row, key in enumerate(keys)}
    met = set[int]()
    for row in ends:
        start = rows.get((int(table.program_id[row]), find_part_before(table.name[row], table.long_name[row])), -1)
        if start >= 0 and start != row and start not in met and table.bytes_accessed[start] > 0:
            met.add(start)
            yield start, row
