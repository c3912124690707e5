"""Hardware counters of TPU v6e and v7x: names by id, and the counters that show the work and peak of each unit.

``tpu_counters.json`` has the names by block of counters. Each ``#`` in a block name is the number of a die, core or
tile. ``places`` has for each ``#`` the first number, the count, and the id difference between neighbours; ``ids`` are
those of the first numbers. Work and peaks are weighted sums of counters.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

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
