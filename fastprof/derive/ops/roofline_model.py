"""Roofline model: rates of ops, the peaks of a device, the efficiency of ops and what they are bound by.

An op of F flops that moves B(m) bytes of each memory m takes at least the longest of F / peak and B(m) / peak(m). Its
efficiency is that time by the time it took; what it is bound by is the resource that takes this longest time.

Work that events do not record comes from programs of the capture. XLA's general cost model counts one operation for
each element that is computed, two for each product that is added up. Containers have no work of their own, and neither
have custom calls, whose work is unknown. An asynchronous transfer runs from its start (``copy-start``) to its end
(``copy-done``): the time of neither depends on how much it moves. Feeds, sends and copies to or from the host's memory
go over a link, not at the speed of the device's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices import device_peaks
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES, find_communication
from fastprof.derive.devices.op_names import drop_serial
from fastprof.derive.ops.gpu_kernels import MEMSET
from fastprof.derive.ops.launches import DONE, PARTS, find_part_before
from fastprof.derive.ops.op_table import (
    CMEM,
    FROM_HLO,
    HBM,
    HOST,
    OTHER_SPACES,
    READ,
    VMEM,
    WRITE,
    MemoryAccess,
    OpTable,
    is_container,
)
from fastprof.hlo.programs import Modules
from fastprof.hlo.work import GENERAL, Cost
from fastprof.schema.columns import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.derive.devices.device_peaks import Peaks


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


GIBI: Final = 2**30 / 1e9
"""Gigabytes in a gibibyte."""

COMPUTE, HBM_BOUND, SHARED, UNKNOWN = "Compute", "HBM", "Shm/L1", "Unknown"


@dataclass(frozen=True, slots=True)
class RooflineMemory:
    """A memory, or one direction of it. ``place``: of its peak among the bandwidths of a device."""

    name: str
    column: str
    place: int
    space: int = 0
    operation: int = 0
    """0: both directions."""


HBM_MEMORY: Final = RooflineMemory(HBM_BOUND, "hbm", 0)
ON_CHIP: Final = (
    RooflineMemory("CMEM Read", "cmem_read", 3, CMEM, READ),
    RooflineMemory("CMEM Write", "cmem_write", 4, CMEM, WRITE),
    RooflineMemory("VMEM Read", "vmem_read", 5, VMEM, READ),
    RooflineMemory("VMEM Write", "vmem_write", 6, VMEM, WRITE),
)
MEMORIES: Final = (HBM_MEMORY, *ON_CHIP)


@dataclass(frozen=True, slots=True)
class OpRates:
    """Rates of each op, over total time, not self time; 0 if the divisor is 0."""

    gflops: Float64s
    model_gflops: Float64s
    gigabytes: Float64s
    """Bytes per nanosecond: 10**9 bytes a second."""
    intensity: Float64s
    """Flops per byte."""
    bound_by: list[str]
    bound_intensity: Float64s
    """Flops per byte of the memory that it is bound by; if that is arithmetic, of all bytes."""
    memory: Mapping[str, Float64s]
    """Bytes per nanosecond by ``RooflineMemory.column``."""
    memory_intensity: Mapping[str, Float64s]
    """Flops per byte by ``RooflineMemory.column``."""


def ratio_or_zero(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> Float64s:
    """a / b, 0 if b is 0."""
    result: Float64s = np.divide(a, b, out=np.zeros(len(a)), where=np.asarray(b) != 0)
    return result


def list_moved_bytes(table: OpTable) -> dict[str, Float64s]:
    """Return bytes of each op by ``Memory.column``; those of an op whose memories are unknown are HBM's."""
    on_chip = {memory.column: table.moved_bytes(memory.space, memory.operation) for memory in ON_CHIP}
    return {HBM_MEMORY.column: table.hbm_bytes(), **on_chip}


def compute_rates(table: OpTable, peaks: Peaks | None) -> OpRates:
    """``peaks``: of the device that the ops ran on; None if nothing is known of it, so neither what ops are bound
    by."""
    ns = table.time_ps / 1e3
    gflops = ratio_or_zero(table.flops, ns)
    intensity = ratio_or_zero(table.flops, table.bytes_accessed)
    moved = list_moved_bytes(table)
    memory = {column: ratio_or_zero(size, ns) for column, size in moved.items()}
    of_memory = {column: ratio_or_zero(table.flops, size) for column, size in moved.items()}
    bound_by, bound_intensity = _find_bounds(gflops, intensity, memory, of_memory, peaks)
    return OpRates(
        gflops,
        ratio_or_zero(table.model_flops, ns),
        ratio_or_zero(table.bytes_accessed, ns),
        intensity,
        bound_by,
        bound_intensity,
        memory,
        of_memory,
    )


def _find_bounds(
    gflops: Float64s,
    intensity: Float64s,
    memory: Mapping[str, Float64s],
    of_memory: Mapping[str, Float64s],
    peaks: Peaks | None,
) -> tuple[list[str], Float64s]:
    """Return the resource that each op came nearest to exhaust, of equal ones the first, and its flops per byte
    there."""
    best = np.zeros(len(gflops), np.int64)
    most, per_byte_of = np.zeros(len(gflops)), np.zeros(len(gflops))
    if peaks is None:
        return [UNKNOWN] * len(gflops), per_byte_of
    bandwidth = [*peaks.bandwidths_gb_per_s, *[0.0] * 7]
    hbm, hbm_intensity = memory[HBM_MEMORY.column], of_memory[HBM_MEMORY.column]
    shares = [
        (COMPUTE, _divide_by_peak(gflops, peaks.teraflops_per_s * 1e3), intensity),
        (HBM_BOUND, _divide_by_peak(hbm, bandwidth[0]), hbm_intensity),
    ]
    if peaks.hardware == "TPU":
        shares += [
            (place.name, _divide_by_peak(memory[place.column], bandwidth[place.place]), of_memory[place.column])
            for place in ON_CHIP
        ]
    elif peaks.hardware == "GPU":
        shares.append((SHARED, _divide_by_peak(hbm, bandwidth[2]), hbm_intensity))
    for number, (_, share, per_byte) in enumerate(shares, 1):
        higher = share > most
        best[higher], most[higher], per_byte_of[higher] = number, share[higher], per_byte[higher]
    names = [UNKNOWN, *(name for name, _, _ in shares)]
    return [names[number] for number in best.tolist()], per_byte_of


def _divide_by_peak(rate: Float64s, peak: float) -> Float64s:
    return rate / peak if peak > 0 else np.zeros(len(rate))


_COMPUTE_COLUMN: Final = "compute"

_MOVES: Final = frozenset((
    "copy", "copy-start", "copy-done", "data formatting", "transpose", "reshape", "bitcast", "broadcast", "concatenate",
    "slice", "dynamic-slice", "dynamic-update-slice", "gather", "pad", "reverse", "all-gather", "all-to-all",
    "collective-permute", "infeed", "outfeed", "send", "recv",
))  # fmt: skip
"""Categories of ops that only move data."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A resource and its peak. ``name``: Compute, HBM, CMEM Read, …; ``per_ns``: flops or bytes per nanosecond, that is
    10**9 a second, of one core or GPU; 0.0 if it is unknown; ``source``: capture, published table, or None."""

    name: str
    column: str
    per_ns: float
    source: str | None

    @property
    def is_compute(self) -> bool:
        return self.column == _COMPUTE_COLUMN


def list_ceilings(peaks: Peaks | None) -> list[Ceiling]:
    """Arithmetic, HBM and, of TPUs, memories on the chip whose peak is known."""
    if peaks is None:
        return [Ceiling(COMPUTE, _COMPUTE_COLUMN, 0.0, None), Ceiling(HBM_MEMORY.name, HBM_MEMORY.column, 0.0, None)]
    on_chip = [memory for memory in ON_CHIP if peaks.hardware == device_peaks.TPU and peaks.peak(memory.place)]
    places = [(COMPUTE, _COMPUTE_COLUMN, device_peaks.COMPUTE)]
    places += [(memory.name, memory.column, memory.place) for memory in (HBM_MEMORY, *on_chip)]
    return [Ceiling(name, column, peaks.peak(place), peaks.source(place)) for name, column, place in places]


@dataclass(frozen=True, slots=True, eq=False)
class Efficiency:
    """n ops below k ceilings."""

    beneath: Sequence[Ceiling]
    utilisation: Float64s
    """[n, k] of each peak; NaN if the peak, the op's work or time is unknown, or it waits (op_work.mark_transfers)."""
    bound_by: list[str | None]
    """Name of the ceiling that the op comes nearest to; None if it is unknown, it has no work, or is a collective."""
    efficiency: Float64s
    """The utilisation of that one; NaN if the peak or work of arithmetic or of HBM is unknown. Above 1: the op cannot
    have done the recorded work in its time, such as the start of a copy that goes on after it."""
    least_ps: Float64s
    """Time that the op would take at its ceiling; NaN as ``efficiency``."""
    lost_ps: Float64s
    """Self time beyond that, at least 0; NaN as ``efficiency``, and of ops whose work is that of ops within."""

    def of(self, column: str) -> Float64s:
        """Return the utilisation of one ceiling; NaN if the device does not have it."""
        places = [place for place, ceiling in enumerate(self.beneath) if ceiling.column == column]
        return self.utilisation[:, places[0]] if places else np.full(len(self.utilisation), np.nan)

    def take(self, rows: Int64s) -> Efficiency:
        """These ops, in this order."""
        bound_by = [self.bound_by[row] for row in rows.tolist()]
        times = (values[rows] for values in (self.efficiency, self.least_ps, self.lost_ps))
        return Efficiency(self.beneath, self.utilisation[rows], bound_by, *times)


def measure_efficiency(
    table: OpTable, beneath: Sequence[Ceiling], unknown: tuple[Bools, Bools] | None = None
) -> Efficiency:
    """Return the ops beneath these ceilings. ``unknown``: rows whose unknown share of arithmetic, and of memory
    traffic, is too large to compare with a peak."""
    amounts, memory = _list_work(table), table.memory
    unplaced = memory.row[(memory.space == 0) & (memory.operation == 0) & (memory.bytes > 0)].tolist()
    unplaced = [row for row in unplaced if table.category[row]]
    timeless = (table.time_ps <= 0) | mark_transfers(table)
    utilisation = np.full((len(table), len(beneath)), np.nan)
    for column, ceiling in enumerate(beneath):
        amount, used = amounts[ceiling.column], utilisation[:, column]
        if ceiling.per_ns > 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                used[:] = amount * 1e3 / (table.time_ps * ceiling.per_ns)
        used[amount == 0] = 0.0
        if unknown is not None:
            used[unknown[0 if ceiling.is_compute else 1]] = np.nan
        if not ceiling.is_compute:
            used[unplaced] = np.nan
        used[timeless] = np.nan
    return _name_nearest(table, beneath, utilisation)


def _name_nearest(table: OpTable, beneath: Sequence[Ceiling], utilisation: Float64s) -> Efficiency:
    filled = np.where(np.isnan(utilisation), -1.0, utilisation)
    nearest = filled.argmax(axis=1)
    most: Float64s = filled[np.arange(len(table)), nearest]
    parts = [find_communication(*op) for op in zip(table.category, [""] * len(table), table.name, strict=True)]
    # links and other devices limit collectives, not memory bandwidth or arithmetic
    is_collective = np.array([part is not None and part.kind.scope == BETWEEN_DEVICES for part in parts], np.bool_)
    known: Bools = np.asarray(~np.isnan(utilisation[:, :2]).any(axis=1)) & ~is_collective
    efficiency = np.where(known, most, np.nan)
    names = [ceiling.name for ceiling in beneath]
    bound_by = [
        names[place] if share > 0 and is_known else None
        for place, share, is_known in zip(nearest.tolist(), most.tolist(), known.tolist(), strict=True)
    ]
    least: Float64s = efficiency * table.time_ps
    lost: Float64s = np.where(is_container(table), np.nan, np.maximum(table.self_ps - least, 0.0))
    return Efficiency(beneath, utilisation, bound_by, efficiency, least, lost)


def _list_work(table: OpTable) -> dict[str, Float64s]:
    """Flops and bytes by column of ceiling; NaN if they are not known."""
    bytes_known = get_known_bytes(table)
    moved = {column: np.where(bytes_known, size, np.nan) for column, size in list_moved_bytes(table).items()}
    return {_COMPUTE_COLUMN: np.where(get_known_flops(table), table.flops, np.nan), **moved}


def get_known_flops(table: OpTable) -> Bools:
    """Mark ops whose flops the capture records or its programs show; ops that only move data and have known bytes do
    none."""
    recorded: Bools = (table.flops_source > 0) | (table.flops > 0)
    moves = np.array([category in _MOVES for category in table.category], bool)
    return recorded | (moves & get_known_bytes(table))


def get_known_bytes(table: OpTable) -> Bools:
    return (table.bytes_source > 0) | (table.bytes_accessed > 0) | table.has_breakdown()


MOST_UNKNOWN: Final = 0.1
"""If more than this share of op time has unknown work, sums of work are not shown as shares of peaks."""
TOO_MUCH: Final = "the work of more than 10 % of op time is unknown"


def find_unknown_work(table: OpTable) -> tuple[Bools, Bools]:
    """Mark ops that did work with unknown flops, and with unknown bytes. Ops that run others do none of their own,
    copies do no arithmetic, and bytes of transfers go over a link."""
    works: Bools = ~(is_container(table) | (table.time_ps > table.self_ps) | mark_transfers(table))
    copies = np.array([category == MEMSET or category.startswith("copy") for category in table.category], bool)
    return works & ~copies & ~get_known_flops(table), works & ~get_known_bytes(table)


def measure_unknown_shares(table: OpTable, row: Int64s, count: int) -> tuple[Float64s, Float64s]:
    """Share of the self time of each of ``count`` rows: of ops with unknown flops, and of ops with unknown bytes. 0: a
    row without time. ``row``: that of each op."""
    total = np.bincount(row, table.self_ps, count)
    flops, moved = (np.bincount(row, table.self_ps * chosen, count) for chosen in find_unknown_work(table))
    return ratio_or_zero(flops, np.maximum(total, 0)), ratio_or_zero(moved, np.maximum(total, 0))


def measure_self_share(table: OpTable, chosen: Bools) -> float:
    """Share of self time of the chosen ops."""
    total = float(table.self_ps.sum(dtype=np.float64))
    return float(table.self_ps[chosen].sum(dtype=np.float64)) / total if total > 0 else 0.0
