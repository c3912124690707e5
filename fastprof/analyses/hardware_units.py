"""Utilization of matrix units, vector units, loads and stores of devices, by program and op.

Samples come from lines of counters. How they are weighted: docs/analyses/hardware-units.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.analyses.contract import (
    AnalysisReport,
    Evidence,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.derive.devices import run_environment
from fastprof.derive.devices.device_events import PERCENT
from fastprof.derive.ops.unit_use import NEEDS, HostUnits, Key, UnitSums, measure_host_units
from fastprof.schema.tables import (
    Column,
    Count,
    Formula,
    Number,
    ObjectRows,
    Percent,
    Picoseconds,
    TableSchema,
    Text,
    encode_texts,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_reader import PROFILER_RANGE

if TYPE_CHECKING:
    from fastprof.derive.host import Host

NAME = "hardware_units"
READS = NEEDS
AFTER: tuple[str, ...] = ()
REMEDY = (
    "On TPUs, record with the XLA flags --xla_xprof_enable_custom_call_tracing and "
    "--xla_xprof_register_llo_debug_info; with PyTorch, set profiler_metrics in the experimental_config of "
    "its profiler."
)
OF_ALL_THREADS = True
CONTENT = Evidence(
    "No hardware units: the capture has no samples of them (% util, fills, spills) and no values of hardware counters.",
    stats=(PERCENT, "fills", "spills", "counter_value", PROFILER_RANGE),
)
_MICRO: Final = 1_000_000
_MATRIX: Final = "MXU"


@dataclass(frozen=True, slots=True)
class Params:
    """There are none."""


def _make_key_formula(place: int) -> Formula:
    return lambda rows: [key[place] for key, _ in rows.each]


def _make_percent_formula(of: Any) -> Formula:
    """Return the formula ``of`` for units in percent with a known value; null for others."""
    return lambda rows: [of(sums) if key[-2] == PERCENT and sums.known_ps else None for key, sums in rows.each]


def compute_mean_percent(sums: UnitSums) -> float:
    return sums.integral / _MICRO / sums.known_ps


def _make_columns(of: str) -> tuple[Column, ...]:
    """Return the columns of a unit. ``of`` is what the time is of, in words."""
    no_value = "null: fills and spills, or no value is known"
    return (
        Text("unit", "unit name, such as MXU, Vector ALU or Vector Spills", _make_key_formula(-1)),
        Picoseconds("known_ps", f"time of {of} with known values of the unit; a value holds until the next",
                    lambda rows: [sums.known_ps for _, sums in rows.each]),
        Percent("mean_percent", f"mean of the unit's percentage over known_ps, weighted by time; {no_value}",
                _make_percent_formula(compute_mean_percent)),
        Percent("peak_percent", f"largest percentage in known_ps; {no_value}",
                _make_percent_formula(lambda sums: sums.peak / _MICRO)),
        Picoseconds("busy_ps", f"known_ps × mean_percent / 100, rounded; {no_value}",
                    _make_percent_formula(lambda sums: round(sums.integral / _MICRO / 100))),
        Picoseconds("high_ps", f"time in which the percentage is above 80; {no_value}",
                    _make_percent_formula(lambda sums: sums.high_ps)),
        Count("samples", "samples with a known value that start in that time",
              lambda rows: [sums.samples for _, sums in rows.each]),
        Number("total", "sum of these samples: registers filled or spilled; null: the unit is measured in percent",
               lambda rows: [None if key[-2] == PERCENT else sums.total for key, sums in rows.each]),
    )  # fmt: skip


def _make_text_formula(name: str) -> Formula:
    return lambda rows: encode_texts([*rows.texts, None], getattr(rows, name))


TABLES = {
    "units": TableSchema("units", "a device unit", (
        Text("host", "host, named after its capture file", _make_key_formula(0)),
        Text("device", "device plane", _make_key_formula(1)),
        *_make_columns("the device, from its first to the end of its last sample"),
    ), derived=True),
    "programs": TableSchema("programs", "a program or kernel, paired with a unit, on all devices, largest busy_ps "
                            "first", (
        Text("kind", "program: compiled program executions; range: kernel instructions",
             _make_key_formula(0)),
        Text("program", "program or range name", _make_key_formula(1)),
        *_make_columns("the program"),
    ), derived=True),
    "ops": TableSchema("ops", "an op without nested ops, paired with a unit, on all devices, largest busy_ps first", (
        Text("program", "program in whose execution the op started; null: none ran",
             lambda rows: [key[0] or None for key, _ in rows.each]),
        Text("op", "op name", _make_key_formula(1)),
        *_make_columns("the op"),
    ), derived=True),
    "peaks": TableSchema("peaks", "a unit of a TPU core in a sample of hardware counters, and the share of its peak "
                         "that it reached; TPU v6e and v7x only", (
        Text("host", "host, named after its capture file"),
        Text("device", "device plane"),
        Text("kernel", "line of the sample: the kernel"),
        Count("sample", "id of the line of the sample"),
        Count("core", "TensorCore, or SparseCore for metrics of SparseCores, from 0"),
        Text("metric", "unit, or part of its work"),
        Number("achieved", "work of the unit, by its counters; counters that were not read count as 0"),
        Number("peak", "most work of the unit in the cycles of the sample"),
        Text("measured_in", "unit of achieved and peak: instructions, cycles or bytes"),
        Percent("percent", "100 × achieved / peak"),
    ), derived=True),
    "counters": TableSchema("counters", "a hardware counter that was read", (
        Text("host", "host, named after its capture file", lambda rows: [rows.host] * len(rows.value)),
        Text("device", "device plane", _make_text_formula("device")),
        Text("kernel", "line of the sample: the kernel; in PyTorch's traces the range", _make_text_formula("line")),
        Count("sample", "id of the line of the sample; in PyTorch's traces the place of the range on its line, from 0"),
        Text("op", "innermost PyTorch op around the launch of the kernel; null: not a PyTorch trace, or it does not "
             "have one launch per range", _make_text_formula("op")),
        Text("top_op", "outermost PyTorch op around the launch of the kernel; null: op is null",
             _make_text_formula("top_op")),
        Text("counter", "counter name; if the capture has none, the known name of its id on TPU v6e and v7x",
             _make_text_formula("name")),
        Count("counter_id", "counter id; null: not recorded", lambda rows: rows.number,
              lambda rows: rows.number < 0),
        Count("value", "value of the counter; null: above 63 bits, or not an integer",
              null=lambda rows: rows.value < 0),
        Number("real_value", "value of the counter if it is not an integer, such as a percentage; null: the value is "
               "an integer",
               lambda rows: rows.real, lambda rows: np.isnan(rows.real)),
        Text("description", "what it counts; null: not recorded", _make_text_formula("description")),
        Text("sets", "counter sets that it belongs to; null: not recorded", _make_text_formula("group")),
    ), derived=True),
}  # fmt: skip
SCALARS = {
    "device_count": ScalarSpec(None, run_environment.IN_WORDS),
    "sampled_device_count": ScalarSpec(None, "device planes with unit samples, including SparseCores"),
    "sample_count": ScalarSpec(None, "samples with a known value"),
    "busiest_unit": ScalarSpec(None, "unit with the largest mean percentage over all devices"),
    "busiest_percent": ScalarSpec("%", "mean percentage of that unit over all devices, weighted by time"),
    "matrix_percent": ScalarSpec("%", "mean percentage of the matrix units (MXU) over all devices, weighted by time"),
    "spills": ScalarSpec(None, "sum of the samples of Vector Spills: registers written to memory"),
    "counter_count": ScalarSpec(None, "rows of the counters table"),
}
OPENING = Opening(
    ("The busiest unit is {busiest_unit}, at {busiest_percent} of the time.",),
    ("busiest_unit", "busiest_percent", "matrix_percent", "spills", "device_count", "sample_count"),
)
_USE: Final = ("unit", "known_ps", "mean_percent", "peak_percent", "high_ps", "total")
SECTIONS = (
    Section("Hardware units", scalars=tuple(SCALARS)),
    Section("Units by device", "units", ("device", *_USE), rows=18, shown=has_rows("units")),
    Section("By program", "programs", ("program", *_USE), rows=20, shown=has_rows("programs")),
    Section("By op", "ops", ("op", *_USE), rows=20, shown=has_rows("ops")),
    Section(
        "Counters", "counters", ("kernel", "op", "sample", "counter", "value", "real_value"), shown=has_rows("counters")
    ),
)


def of_host(host: Host, params: Params) -> HostUnits:
    return measure_host_units(host.entire.raw, host.raw)


def run(kept: Sequence[HostUnits], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    devices = [((host.host, *key), sums) for host in kept for key, sums in host.devices.items()]
    programs, ops = _merge_parts(host.programs for host in kept), _merge_parts(host.ops for host in kept)
    given: dict[str, Sequence[Any]] = {
        "units": devices,
        "programs": _sort_by_size(programs),
        "ops": _sort_by_size(ops),
        "peaks": [peak for host in kept for peak in host.peaks],
    }
    tables = {name: TABLES[name].of(ObjectRows(rows)) for name, rows in given.items()}
    names = ("texts", "device", "line", "sample", "name", "number", "value", "real", "description", "group", "op",
             "top_op")  # fmt: skip
    read = []
    for host in kept:
        if host.counters is not None and len(host.counters):
            columns = {name: getattr(host.counters, name) for name in names}
            read.append(SimpleNamespace(host=host.host, **columns))
    tables["counters"] = TABLES["counters"].of_parts(read)
    figures = make_scalars(SCALARS, _compute_values(kept, devices, tables["counters"].num_rows))
    notices = [] if devices or read else [Notice("info", CONTENT.absent)]
    spilling = [(sums.total, key[1]) for key, sums in programs.items() if key[-2] == "spills" and sums.total > 0]
    if spilling:
        total, name = max(spilling)
        notices.append(Notice("info", f"{name} spills most vector registers: {total:,.0f} in its samples."))
    return AnalysisReport(NAME, tables, figures, tuple(notices), after)


def _merge_parts(parts: Iterable[Mapping[Key, UnitSums]]) -> dict[Key, UnitSums]:
    merged: dict[Key, UnitSums] = {}
    for part in parts:
        for key, sums in part.items():
            merged.setdefault(key, UnitSums()).add(sums)
    return merged


def _sort_by_size(rows: Mapping[Key, UnitSums]) -> list[tuple[Key, UnitSums]]:
    """Sort units in percent by busy time, then counters by their sum."""
    return sorted(rows.items(), key=lambda row: (row[0][-2] != PERCENT, -row[1].integral, -row[1].total, row[0]))


def _compute_values(
    kept: Sequence[HostUnits], devices: Sequence[tuple[Key, UnitSums]], counters: int
) -> dict[str, Known]:
    present = run_environment.count_devices([host.present for host in kept])
    if not devices and not counters:
        return {**dict.fromkeys(SCALARS, (None, CONTENT.absent)), "device_count": present}
    by_unit = _merge_parts({key[-2:]: sums} for key, sums in devices)
    means = {
        unit: compute_mean_percent(sums) for (stat, unit), sums in by_unit.items() if stat == PERCENT and sums.known_ps
    }
    busiest = max(means, key=lambda unit: means[unit], default=None)
    spills = [sums.total for (stat, _), sums in by_unit.items() if stat == "spills"]
    total = sum(spills)
    none = (None, "the capture has no samples of units in percent")
    return {
        "device_count": present,
        "sampled_device_count": len({key[:2] for key, _ in devices}),
        "sample_count": sum(sums.samples for _, sums in devices),
        "busiest_unit": none if busiest is None else busiest,
        "busiest_percent": none if busiest is None else means[busiest],
        "matrix_percent": means.get(_MATRIX, (None, "the capture has no samples of the matrix units (MXU)")),
        "spills": (int(total) if total == np.trunc(total) else total)
        if spills
        else (None, "the capture does not count spills"),
        "counter_count": counters,
    }
