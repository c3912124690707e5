"""How busy the hardware units of a host's devices were: altogether, while programs ran, and while ops ran.

Counters of TPU v6e and v7x have names by id. ``tpu_counters.json`` has the names by block of counters. Each ``#`` in a
block name is the number of a die, core or tile. ``places`` has for each ``#`` the first number, the count, and the id
difference between neighbours; ``ids`` are those of the first numbers. Work and peaks are weighted sums of counters.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from fastprof._native.records import DOUBLE
from fastprof.decode.plane_kinds import DEVICE_PLANES
from fastprof.derive.devices.device_events import OP_LINES, STATS, HeldValues, UnitUse, find_leaves, list_unit_samples
from fastprof.derive.devices.run_environment import HostDevices
from fastprof.schema.columns import (
    Float64s,
    Int32s,
    Int64s,
    find_group_bounds,
    find_last_started,
    find_most_by,
    number_distinct_rows,
    number_sorted_rows,
    number_values,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, Plane, Stat, find_line_starts, find_lines, join_stat
from fastprof.tables.host_reader import COUNTER, PROFILER_RANGE
from fastprof.tables.needs import Needs
from fastprof.wording.patterns import compile_late

Weights = Mapping[str, float]
"""Weights of counters by name."""


class UnitPeak(NamedTuple):
    """A unit of a core, and the counters of its work and peak. ``core``: number of the die, or of the SparseCore."""

    core: int
    metric: str
    achieved: Weights
    peak: Weights
    measured_in: str


class _Chip(NamedTuple):
    dies: int
    hertz: float
    hbm_bytes_per_s: float
    hbm: tuple[str, int]
    """Name of an HBM's controllers, and number of HBMs."""
    cycles: str
    """Counter of the cycles that scale TensorCore peaks."""
    xlu_cycles: int
    scalar_tile: str
    vector_tile: str
    matrix_types: Mapping[str, Weights]
    """Cycles of a matrix unit for each operation, by name of the number type."""
    links: tuple[str, ...]
    """Names of the queues of inter-chip links; ``#`` is the direction."""


_TENSOR_CORE: Final = "TC_TCS_TC_MISC_TCS_STATS_TCS_STATS_COUNTERS_UNPRIVILEGED_COUNT_"
_THROTTLE: Final = "PWRMGR_PWRMGR_TC_THROTTLE_CORE_DEBUG_STATS_UNPRIVILEGED_"
_SPARSE: Final = "SC_STATS_COUNTERS_UNPRIVILEGED_COUNT_"
_FLOATS: Final = {"LMR_BF16": 4, "VREG_BF16": 8, "VREG_F32": 4}
_GIB: Final = 1 << 30
_CHIPS: Final = {
    "TPU v6 Lite": _Chip(
        1, 1.75e9, 1525.5 * _GIB, ("HBM_#_HBMC_#_CMN", 2), f"{_TENSOR_CORE}CYCLES", 4, "SCT", "SCT",
        {"BF16": {**_FLOATS, "VREG_F8": 8}, "I8": {"LMR_I8": 2, "VREG_I8": 8}, "I4": {"LMR_I4": 2, "VREG_I4": 8}},
        tuple(f"VF_CHIP_OCI_ICR_PERF_COUNTERS_FIFO_STATS_COUNTERS_UNPRIVILEGED_BN_#_REQ_{n}_" for n in (0, 1)),
    ),
    "TPU v7x": _Chip(
        2, 1.9e9, 3433.0 * _GIB, ("HBM_#_SS_HBMC_#_CMN", 4), f"{_THROTTLE}CYCLE_COUNT", 1, "SCTD", "SCTC",
        {"BF16": _FLOATS, "E4M3 + E5M2": {"VREG_F8": 8}},
        tuple(
            f"VF_CHIP_DIE1_OCI_ICR_{n}_PERF_COUNTERS_FIFO_STATS_COUNTERS_UNPRIVILEGED_BN_#_REQ_0_" for n in range(4)
        ),
    ),
}  # fmt: skip
_CONTROLLERS, _SPARSE_CORES, _TILES = 16, 2, 16
_HBM_BEAT, _FLIT = 32, 128
_LINK_BYTES_PER_CYCLE: Final = 294_947_368_421.0526 / 1e9
_ON_CORE: Final[tuple[tuple[str, tuple[str, ...], float, str], ...]] = (
    ("Scalar Unit", ("SCALAR_ALU_INSTRUCTION_0", "SCALAR_ALU_INSTRUCTION_1"), 2, "instructions"),
    ("Vector ALUs", tuple(f"VECTOR_ALU_INSTRUCTION_{n}" for n in range(4)), 4, "instructions"),
    ("VPU Utilization", tuple(
        f"VPU_VALU_{kind}_OPS_{n}" for kind in ("FADD", "FMUL", "MISC", "INT", "FMAC") for n in range(4)
    ), 4, "instructions"),
    ("Vmem Stores", ("VST_INSTRUCTION",), 1, "instructions"),
    ("Vmem Loads", ("VLD_INSTRUCTION_0", "VLD_INSTRUCTION_1"), 2, "instructions"),
    ("MXU matpush", ("MATPUSH_CYCLES_MXU_0", "MATPUSH_CYCLES_MXU_1"), 2, "cycles"),
)  # fmt: skip
_THROTTLED: Final = {
    "Clocks Skipped": "CLOCKS_SKIPPED",
    "Ext Throttle Clocks Skipped": "EXT_THROTTLE_CLOCKS_SKIPPED",
    "LDIDT Droop Clocks Skipped": "LDIDT_DROOP_CLOCKS_SKIPPED",
}
_VECTOR_SLOTS: Final = ("V0", "V1", "V2", "VLD", "VST", "VEX", "VRES")
_SCALAR_SLOTS: Final = ("S0", "S1", "SMISC")


@cache
def read_counter_names(device: str) -> Mapping[int, str]:
    """Return the counter names of a device by id, or {} if unknown. ``device``: device type, as captures name it."""
    blocks = json.loads(Path(__file__).with_name("tpu_counters.json").read_text("ascii")).get(device, ())
    names: dict[int, str] = {}
    for block in blocks:
        parts = block["name"].split("#")
        for place in itertools.product(*(range(count) for _, count, _ in block["places"])):
            numbers = [str(first + at) for at, (first, _, _) in zip(place, block["places"], strict=True)]
            offset = sum(at * step for at, (_, _, step) in zip(place, block["places"], strict=True))
            named = parts[0] + "".join(number + part for number, part in zip(numbers, parts[1:], strict=True))
            names |= {number + offset: named + counter for counter, number in block["ids"].items()}
    return names


@cache
def list_unit_peaks(device: str) -> tuple[UnitPeak, ...]:
    """Return the units of a device, or () if its counters are unknown. ``device``: as in read_counter_names."""
    chip = _CHIPS.get(device)
    if chip is None:
        return ()
    dies = [f"VF_CHIP_DIE{die}_" if chip.dies > 1 else "VF_CHIP_" for die in range(chip.dies)]
    units: list[UnitPeak] = []
    for number, die in enumerate(dies):
        units += [*_list_tensor_core_units(chip, number, die), *_list_memory_units(chip, number, die)]
        for core in range(_SPARSE_CORES):
            units += _list_sparse_core_units(chip, _SPARSE_CORES * number + core, f"{die}SC_{core}_")
    for direction, metric in (("RD", "ICI (Read)"), ("WR", "ICI (Write)")):
        flits = {f"{link.replace('#', direction)}INSERTION_COUNT": float(_FLIT) for link in chip.links}
        units.append(UnitPeak(0, metric, flits, {dies[0] + chip.cycles: _LINK_BYTES_PER_CYCLE}, "bytes"))
    return tuple(units)


def _list_tensor_core_units(chip: _Chip, number: int, die: str) -> Iterator[UnitPeak]:
    def unit(metric: str, counters: Mapping[str, float], times: float, measured_in: str) -> UnitPeak:
        return UnitPeak(number, metric, counters, {die + chip.cycles: times}, measured_in)

    core = f"{die}{_TENSOR_CORE}"
    if chip.dies > 1:
        yield from (unit(name, {f"{die}{_THROTTLE}{of}": 1.0}, 1, "cycles") for name, of in _THROTTLED.items())
    for metric, counters, times, measured_in in _ON_CORE:
        yield unit(metric, dict.fromkeys((core + name for name in counters), 1.0), times, measured_in)
    for kind in ("MXU", "XLU"):
        yield unit(f"Avg {kind} Busy", {f"{core}{kind}_BUSY_1": 0.5, f"{core}{kind}_BUSY_2": 1.0}, 1, "cycles")
    for name, weights in chip.matrix_types.items():
        both = {f"{core}MATMUL_{of}_MXU_{n}": weight for of, weight in weights.items() for n in (0, 1)}
        yield unit(f"MXU {name}", both, 2, "cycles")
    for n in (0, 1):
        every = {of: weight for weights in chip.matrix_types.values() for of, weight in weights.items()}
        yield unit(f"MXU{n}", {f"{core}MATMUL_{of}_MXU_{n}": weight for of, weight in every.items()}, 1, "cycles")
        moves = ("PACKED", "ROTATE_PERMUTE_INSTRUCTION", "ROTATE_PERMUTE_SET_INSTRUCTION", "TRANSPOSE")
        moved = {f"{core}{move}_XLU_{n}": 1.0 for move in moves}
        yield unit(f"XLU{n}", moved, 1 / chip.xlu_cycles, "instructions")


def _list_memory_units(chip: _Chip, number: int, die: str) -> Iterator[UnitPeak]:
    pattern, count = chip.hbm
    before, between, after = pattern.split("#")
    controllers = [
        f"{die}{before}{hbm}{between}{at}{after}_HI_FREQ_STATS_COUNTERS_UNPRIVILEGED_"
        for hbm in range(count)
        for at in range(_CONTROLLERS)
    ]
    moved = {
        request: {f"{controller}{request}_PS{port}": float(_HBM_BEAT) for controller in controllers for port in (0, 1)}
        for request in ("RD_RESP", "WR_REQ", "PARTIAL_WRITE_REQ")
    }
    peak = {f"{die}{_TENSOR_CORE}CYCLES": chip.hbm_bytes_per_s / chip.hertz}
    writes = moved["WR_REQ"] | moved["PARTIAL_WRITE_REQ"]
    yield UnitPeak(number, "HBM", moved["RD_RESP"] | writes, peak, "bytes")
    yield UnitPeak(number, "HBM (Read)", moved["RD_RESP"], peak, "bytes")
    yield UnitPeak(number, "HBM (Write)", writes, peak, "bytes")


def _list_sparse_core_units(chip: _Chip, number: int, core: str) -> Iterator[UnitPeak]:
    def unit(metric: str, tile: str, counter: str) -> UnitPeak:
        tiles = {f"{core}{tile}_{at}_{_SPARSE}{counter}": 1.0 for at in range(_TILES)}
        return UnitPeak(number, metric, tiles, {f"{core}{chip.scalar_tile}_0_{_SPARSE}CYCLES": _TILES}, "instructions")

    yield unit("SparseCore tiles: scalar issue", chip.scalar_tile, "TEC_SCALAR_ISSUE")
    for slot in _SCALAR_SLOTS:
        yield unit(f"SparseCore tiles: {slot} slot", chip.scalar_tile, f"TEC_{slot}_INSTRUCTION")
    yield unit("SparseCore tiles: vector issue", chip.vector_tile, "VECTOR_ISSUE")
    for slot in _VECTOR_SLOTS:
        yield unit(f"SparseCore tiles: {slot} slot", chip.vector_tile, f"{slot}_INSTRUCTION")
    sequencer = f"{core}SCS_{_SPARSE}"
    for metric, counter in (
        ("scalar issue", "SCALAR_ISSUE"),
        *((f"{s} slot", f"{s}_INSTRUCTION") for s in _SCALAR_SLOTS),
    ):
        yield UnitPeak(
            number, f"SparseCore sequencer: {metric}", {sequencer + counter: 1.0}, {f"{sequencer}CYCLES": 1.0},
            "instructions",
        )  # fmt: skip


PROGRAM, RANGE = "program", "range"
COUNTER_STATS: Final = (
    "counter_value", "performance_counter_id", "performance_counter_description", "performance_counter_sets",
)  # fmt: skip
NEEDS: Final = Needs(
    planes=(DEVICE_PLANES,),
    stats=(*STATS, *COUNTER_STATS, PROFILER_RANGE),
    stats_with_gpus=("_a", "_c"),
    planes_with_gpus=(r"^/host:",),
)
_RANGES: Final = {"XLA Modules": PROGRAM, "Tensor Core": RANGE}
_WHAT: Final = "the times of hardware units"
_MOST_EXACT: Final = 2.0**53
_LAUNCHES: Final = compile_late(r"cu(da)?LaunchKernel", re.ASCII)
Key = tuple[str, ...]


@dataclass(slots=True)
class UnitSums:
    """Sums of one unit over the spans of one row."""

    known_ps: int = 0
    high_ps: int = 0
    integral: float = 0.0
    peak: int = -1
    samples: int = 0
    total: float = 0.0

    def add(self, other: UnitSums) -> None:
        self.known_ps += other.known_ps
        self.high_ps += other.high_ps
        self.integral += other.integral
        self.peak = max(self.peak, other.peak)
        self.samples += other.samples
        self.total += other.total


@dataclass(frozen=True, slots=True, eq=False)
class CounterValues:
    """Hardware counters that were read once a kernel. ``device``, ``line``, ``name``, ``description``, ``group``,
    ``op``, ``top_op``: numbers of ``texts``, or -1 if it is not recorded. ``op``, ``top_op``: the innermost and the
    outermost op around the launch of the kernel. ``sample``: the id of the line, or the place of the range on it.
    ``number``: the id of the counter, or -1 if it is not recorded. ``value``: -1: more than 63 bits, or no integer:
    ``real`` has it, else NaN."""

    texts: list[str]
    device: Int64s
    line: Int64s
    sample: Int64s
    name: Int64s
    number: Int64s
    value: Int64s
    real: Float64s
    description: Int64s
    group: Int64s
    op: Int64s
    top_op: Int64s

    def __len__(self) -> int:
        return len(self.value)


class SampledPeak(NamedTuple):
    """A unit in a sample of counters: its work and its peak in the cycles of the sample. ``core``: see UnitPeak."""

    host: str
    device: str
    kernel: str
    sample: int
    core: int
    metric: str
    achieved: float
    peak: float
    measured_in: str

    @property
    def percent(self) -> float:
        return 100 * self.achieved / self.peak


@dataclass(slots=True)
class HostUnits:
    """``present``: devices of the capture. ``devices``: by device, stat and unit. ``programs``: by kind, name, stat and
    unit; ``ops``: by program, op, stat and unit; both of all devices of the host. ``peaks``: of TPUs with known
    counters."""

    host: str
    present: HostDevices
    devices: dict[Key, UnitSums] = field(default_factory=dict)
    programs: dict[Key, UnitSums] = field(default_factory=dict)
    ops: dict[Key, UnitSums] = field(default_factory=dict)
    counters: CounterValues | None = None
    peaks: list[SampledPeak] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _KeyedSpans:
    """Spans of time, and the number of each one's key."""

    begin: Int64s
    end: Int64s
    key: Int64s
    keys: Sequence[Key]


def measure_host_units(entire: HostEvents, chosen: HostEvents) -> HostUnits:
    """``entire``: all events that were read with NEEDS; ``chosen``: those whose programs and ops are listed."""
    units = HostUnits(entire.host, HostDevices.of(entire))
    by_name = {(plane.name, plane.xplane_id): plane for plane in chosen.planes}
    for plane in entire.planes:
        samples = list_unit_samples(entire, plane)
        if not samples:
            continue
        mine = by_name[plane.name, plane.xplane_id]
        spans = [(units.programs, _list_program_spans(chosen, mine)), (units.ops, _list_op_spans(chosen, mine))]
        for sample in samples:
            held = HeldValues(sample)
            units.devices[plane.name, sample.stat, sample.unit] = _sum_units(
                held.all_of_it(), np.zeros(1, np.int64), 1
            )[0]
            for sums, of in spans:
                by_key = _sum_units(held.over(of.begin, of.end), of.key, len(of.keys))
                for key, used in zip(of.keys, by_key, strict=True):
                    if used.known_ps or used.samples:
                        sums.setdefault((*key, sample.stat, sample.unit), UnitSums()).add(used)
    units.counters = _read_range_counters(entire) if len(entire.stat(PROFILER_RANGE)) else _read_counters(entire)
    devices = {plane.name: _get_device_type(plane) for plane in entire.planes}
    units.peaks = list(_list_peaks(units.host, units.counters, devices))
    return units


def _sum_units(use: UnitUse, key: Int64s, count: int) -> list[UnitSums]:
    """Return the sums of each key."""
    known, high, samples = (sum_by(key, amount, count, _WHAT) for amount in (use.known_ps, use.high_ps, use.samples))
    real = [np.bincount(key, weights=values, minlength=count) for values in (use.integral, use.total)]
    columns = (known, high, real[0], find_most_by(key, use.peak, count, -1), samples, real[1])
    return [UnitSums(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _get_device_type(plane: Plane) -> str:
    return str(plane.stats.get("device_type_string"))


def _get_title(events: HostEvents, meta: int) -> str:
    return events.display_names[meta] or events.names[meta]


def _read_line_times(events: HostEvents, line: Line) -> tuple[Int64s, Int64s]:
    start = events.start_ps[line.first : line.last]
    return start, np.maximum(events.duration_ps[line.first : line.last], 0)


def _list_program_spans(events: HostEvents, plane: Plane) -> _KeyedSpans:
    """Executions of programs, and ranges of instructions of kernels."""
    begin, end, number = [], [], []
    keys: dict[Key, int] = {}
    for line in plane.lines:
        if line.name in _RANGES:
            start, duration = _read_line_times(events, line)
            metas, which = number_values(events.meta[line.first : line.last])
            named = [
                keys.setdefault((_RANGES[line.name], _get_title(events, meta)), len(keys)) for meta in metas.tolist()
            ]
            begin.append(start)
            end.append(start + duration)
            number.append(np.array(named, np.int64)[which])
    return _join_spans(begin, end, number, list(keys))


def _list_op_spans(events: HostEvents, plane: Plane) -> _KeyedSpans:
    """Ops that enclose no others, with the programs in whose executions they start."""
    modules = [line for line in plane.lines if line.name == "XLA Modules"]
    begin, end, number = [], [], []
    keys: dict[Key, int] = {}
    for line in plane.lines:
        if line.name not in OP_LINES or line.first == line.last:
            continue
        start, duration = _read_line_times(events, line)
        keep = np.flatnonzero(find_leaves(start, duration))
        start, duration, meta = start[keep], duration[keep], events.meta[line.first : line.last][keep]
        program = _find_program_at(events, modules, start)
        first, which = number_sorted_rows([program, meta])
        named = [
            keys.setdefault((_get_title(events, module) if module >= 0 else "", _get_title(events, op)), len(keys))
            for module, op in zip(program[first].tolist(), meta[first].tolist(), strict=True)
        ]
        begin.append(start)
        end.append(start + duration)
        number.append(np.array(named, np.int64)[which])
    return _join_spans(begin, end, number, list(keys))


def _find_program_at(events: HostEvents, modules: Sequence[Line], time: Int64s) -> Int64s:
    """Return the metadata of the program that ran at each time, or -1 if there is none."""
    program = np.full(len(time), -1, np.int64)
    for line in modules:
        if line.last > line.first:
            start, duration = _read_line_times(events, line)
            place = find_last_started(start, time)
            inside = (place >= 0) & (time < start[place] + duration[place])
            program[inside] = events.meta[line.first : line.last][place[inside]]
    return program


def _join_spans(begin: list[Int64s], end: list[Int64s], number: list[Int64s], keys: list[Key]) -> _KeyedSpans:
    nothing = np.zeros(0, np.int64)
    starts, ends, numbers = (np.concatenate([nothing, *parts]) for parts in (begin, end, number))
    return _KeyedSpans(starts, ends, numbers, keys)


# ---- counters


def _read_counters(events: HostEvents) -> CounterValues:
    """Values of counters by id, as XProf's ``perf_counters`` lists them."""
    rows, value = events.ints("counter_value")
    pool: dict[str, int] = {}
    lines = events.used_lines
    place = find_lines(lines, rows)
    metas, which = number_values(events.meta[rows])
    titles = [_get_title(events, meta) for meta in metas.tolist()]

    def numbered(texts: Sequence[str]) -> Int64s:
        return np.array([pool.setdefault(text, len(pool)) for text in texts], np.int64)

    def beside_rows(stat: str) -> Int64s:
        having, numbers = events.texts(stat)
        used, number = number_values(numbers)
        has, texts_of = join_stat(rows, having, numbered(events.all_texts(used))[number])
        return np.where(has, texts_of, -1)

    has_number, number = join_stat(rows, *events.ints("performance_counter_id"))
    number = np.where(has_number, number, -1)
    name = numbered(titles)[which]
    for row in np.flatnonzero(np.array([not title or title.isdigit() for title in titles], bool)[which]).tolist():
        known = read_counter_names(_get_device_type(lines[place[row]].plane))
        name[row] = numbered([known.get(int(number[row]), titles[which[row]])])[0]
    return CounterValues(
        device=numbered([line.plane.name for line in lines])[place],
        line=numbered([line.display_name or line.name for line in lines])[place],
        sample=np.array([line.xline_id for line in lines], np.int64)[place],
        name=name,
        number=number,
        value=np.maximum(value, -1),
        real=np.full(len(rows), np.nan),
        description=beside_rows("performance_counter_description"),
        group=beside_rows("performance_counter_sets"),
        op=np.full(len(rows), -1, np.int64),
        top_op=np.full(len(rows), -1, np.int64),
        texts=list(pool),
    )


def _list_peaks(host: str, counters: CounterValues, devices: Mapping[str, str]) -> Iterator[SampledPeak]:
    """Yield the units of each sample whose counters were read. Units without work or cycles on record are left out.
    ``devices``: device type by plane name."""
    texts = counters.texts
    place, of = number_distinct_rows([counters.device, counters.line, counters.sample])
    known = np.flatnonzero(counters.value >= 0)
    known = known[np.argsort(of[known], kind="stable")]
    bounds = find_group_bounds(of[known], len(place)).tolist()
    for at, first, last in zip(place.tolist(), bounds, bounds[1:], strict=False):
        device = texts[counters.device[at]]
        kind = devices[device]
        units = list_unit_peaks(kind)
        if not units:
            continue
        names = read_counter_names(kind)
        values = {
            names.get(int(counters.number[row]), texts[counters.name[row]].upper()): int(counters.value[row])
            for row in known[first:last].tolist()
        }
        for unit in units:
            peak = sum(weight * values.get(name, 0) for name, weight in unit.peak.items())
            parts = [weight * values[name] for name, weight in unit.achieved.items() if name in values]
            if peak and parts:
                sample = (host, device, texts[counters.line[at]], int(counters.sample[at]))
                yield SampledPeak(*sample, unit.core, unit.metric, sum(parts), peak, unit.measured_in)


def _read_range_counters(events: HostEvents) -> CounterValues:
    """Values of the counters that PyTorch records of ranges, range after range."""
    names = [name for name in events.stats if name.startswith(COUNTER)]
    stats = [events.stats[name] for name in names]
    rows = np.concatenate([np.zeros(0, np.int64), *(stat.rows for stat in stats)]).astype(np.int64)
    order = np.argsort(rows, kind="stable")
    rows, counter = rows[order], np.repeat(np.arange(len(names)), [len(stat) for stat in stats])[order]
    value, real = (
        np.concatenate([np.zeros(0), *parts])[order] for parts in zip(*map(_split_numbers, stats), strict=True)
    )
    lines = events.used_lines
    place = find_lines(lines, rows)
    metas, which = number_values(events.meta[rows])
    texts = [line.plane.name for line in lines]
    kernels = [_get_title(events, meta) for meta in metas.tolist()]
    ranges = events.ints(PROFILER_RANGE)[0]
    none = np.full(len(rows), -1, np.int64)
    named = [*texts, *kernels, *(name.removeprefix(COUNTER) for name in names)]
    ops = _find_range_ops(events, ranges)
    metas_of_ops, number = number_values(np.where(ops >= 0, events.meta[ops], -1)[:, np.searchsorted(ranges, rows)])
    op, top_op = np.where(metas_of_ops >= 0, np.arange(len(metas_of_ops)) + len(named), -1)[number.reshape(2, -1)]
    return CounterValues(
        texts=[*named, *(_get_title(events, max(meta, 0)) for meta in metas_of_ops.tolist())],
        device=place,
        line=len(texts) + which.reshape(-1),
        sample=np.searchsorted(ranges, rows) - np.searchsorted(ranges, find_line_starts(lines, rows)),
        name=len(texts) + len(kernels) + counter,
        number=none,
        value=value.astype(np.int64),
        real=real,
        description=none,
        group=none,
        op=op,
        top_op=top_op,
    )


def _find_range_ops(events: HostEvents, ranges: Int32s) -> Int64s:
    """Return the innermost and the outermost op around the launch of each range's kernel, or -1. The profiler reads
    one range per launch, in order: ops are unknown if launches and ranges differ in number."""
    is_launch = np.array([_LAUNCHES.match(name) is not None for name in events.names], bool)[events.meta]
    calls = np.flatnonzero(is_launch)
    ops = np.full((2, len(ranges)), -1, np.int64)
    if len(calls) != len(ranges):
        return ops
    from fastprof.derive.ops.torch_calls import OpsAround  # slow to import

    around = OpsAround(events)
    in_turn = np.argsort(events.start_ps[ranges], kind="stable")
    above = around.op_of(calls[np.argsort(events.start_ps[calls], kind="stable")])
    ops[0, in_turn] = above
    while (above >= 0).any():
        ops[1, in_turn] = np.where(above >= 0, above, ops[1, in_turn])
        above = np.where(above >= 0, around.op_of(above), -1)
    return ops


def _split_numbers(stat: Stat) -> tuple[Int64s, Float64s]:
    """Return the values that are integers, else -1; and the others, else NaN."""
    numbers, is_double = stat.numbers, stat.kind == DOUBLE
    is_whole = ~is_double | (np.abs(numbers) < _MOST_EXACT) & (numbers == np.trunc(numbers))
    integers = np.where(is_double, np.where(is_whole, numbers, 0).astype(np.int64), stat.value)
    return np.where(is_whole, np.maximum(integers, -1), -1), np.where(is_whole, np.nan, numbers)
