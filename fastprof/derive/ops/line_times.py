"""Time on device lines: self time of nested events, time in which any line was busy, duty cycle of chips.

Lines are the streams of a GPU, the op lines of a TPU core or the threads of a host. A TPU chip is active while the
innermost op on the line XLA Ops or Sparse Core Ops of any of its cores is one that works, not one that only waits for
the host or for another core. Its span goes from the first to the last event of these lines and of the lines of
modules. A GPU is active while a kernel or a copy runs on any of its streams, and its span goes from the first to the
last of them. busy is the active time of all chips, idle the rest of their spans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.op_kernels import extent, innermost_time, self_times
from fastprof.decode.nesting import number_lines
from fastprof.decode.workers import Workers
from fastprof.derive.ops.op_table import Ops, OpTable, compute_span
from fastprof.derive.steps.device_steps import read_core_details
from fastprof.derive.steps.step_database import OFF_DUTY
from fastprof.schema.columns import Bools, Int32s, Int64s, find_rows_within, number_values, sum_exactly
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, Plane, Stat

_LATEST = np.iinfo(np.int64).max
Spans = tuple[Int64s, Int64s]
"""Starts and durations of events."""


@dataclass(frozen=True, slots=True)
class LineTimes:
    """Events of several lines of a device, one line after the other."""

    rows: Int32s
    start_ps: Int64s
    duration_ps: Int64s
    """Never negative."""
    self_ps: Int64s
    """Duration less the union of what is nested in the event."""
    busy_ps: int
    """Time in which an event of any line ran."""
    span_ps: int
    """Time from the first start to the last end."""

    def ops(self, table: OpTable, span: int) -> Ops:
        """Return the ops of the device, observed for ``span`` ps."""
        op_ps = sum_exactly(table.self_ps)
        return Ops(table, total_ps=max(self.busy_ps, span), op_ps=op_ps, overlapped_ps=op_ps - self.busy_ps)


def measure_line_times(events: HostEvents, lines: Sequence[Line], wanted: Int32s | None = None) -> LineTimes:
    """Measure the events of these lines, or only the ascending rows ``wanted``. CaptureError: the times of a device
    span more than 64 bits can count."""
    lines = sorted(lines, key=lambda line: line.first)
    if wanted is None:
        parts = [np.arange(line.first, line.last, dtype=np.int32) for line in lines]
    else:
        parts = [wanted[find_rows_within(wanted, line.first, line.last)] for line in lines]
    rows = np.concatenate([np.empty(0, np.int32), *parts])
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    counts = np.array([len(part) for part in parts], np.int64)
    own = np.empty_like(start)
    self_times(start, duration, number_lines(counts, np.cumsum(counts) - counts), own, None)
    end = np.where(start > _LATEST - duration, _LATEST, start + duration)
    span = measure_span(events, lines[0].plane, [(start, duration)]) if lines else 0
    return LineTimes(rows, start, duration, own, measure_union(start, end), span)


def list_line_spans(events: HostEvents, lines: Sequence[Line]) -> list[Spans]:
    """Return the recorded times of each line's events."""
    return [(events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]) for line in lines]


def measure_span(events: HostEvents, plane: Plane, spans: Sequence[Spans]) -> int:
    """Return the time from a plane's first begin to its last end; 0 if there are no events. CaptureError: 64 bits
    cannot count it."""
    extents = []
    for start, duration in spans:
        if len(start):
            bounds = extent(start, duration)
            if bounds is None:  # an end overflows: exactly, in Python integers
                ends = [a + max(b, 0) for a, b in zip(start.tolist(), duration.tolist(), strict=True)]
                bounds = int(start.min()), max(ends)
            extents.append(bounds)
    if not extents:
        return 0
    return compute_span(events.host, plane.name, min(begin for begin, _ in extents), max(end for _, end in extents))


def measure_union(begin: Int64s, end: Int64s) -> int:
    """Return the length of the union of intervals, in any order."""
    if not len(begin):
        return 0
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
    reached = np.maximum.accumulate(end)
    first = np.concatenate([begin[:1], np.maximum(begin[1:], reached[:-1])])
    return int(np.maximum(end - first, 0).sum())


def select_instruction_rows(events: HostEvents, plane: Plane) -> Int32s:
    """Return the plane's events that name an instruction of a program."""
    at, _ = events.texts("hlo_op")
    return at[find_rows_within(at, plane.first, plane.last)]


Marks = npt.NDArray[np.uint8]

TENSOR_CORE_OPS: Final = "XLA Ops"
CORE_OP_LINES: Final = (TENSOR_CORE_OPS, "Sparse Core Ops")
MODULE_LINES: Final = ("XLA Modules", "Sparse Core Modules")
EVENT_STATS: Final = ("flops", "model_flops", "uses_ici")
METADATA_STATS: Final = ("hlo_category", "flops", "model_flops", "uses_ici")
"""Stats that are read for the duty cycle, beside the plane stat core_details."""

_WORKS, _UNKNOWN = 1, 2
_WORK: Final = ("flops", "model_flops", "uses_ici")


@dataclass(frozen=True, slots=True)
class DutyCycle:
    """Picoseconds of all chips. The sure figures count TensorCore custom calls without recorded work as idle."""

    chips: int = 0
    busy_ps: int = 0
    idle_ps: int = 0
    sure_busy_ps: int = 0
    sure_idle_ps: int = 0

    def __add__(self, other: DutyCycle) -> DutyCycle:
        return DutyCycle(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def find_recorded_work(stat: Stat, name: str) -> Bools:
    """Return whether each value of a stat shows work: flops other than 0, or use of the links between chips."""
    numbers = np.nan_to_num(stat.numbers)
    return numbers > 0 if name == "uses_ici" else numbers != 0


def measure_duty_cycle(
    events: HostEvents, workers: Workers, is_work: Callable[[Stat, str], Bools] = find_recorded_work
) -> DutyCycle:
    """Measure the duty cycle of a host's TPU chips, else of its GPUs; without either there are no chips."""
    if not events.planes_of("TPU"):
        return sum((_measure_gpu(events, plane) for plane in events.planes_of("GPU")), DutyCycle())
    chips: dict[tuple[str, int], list[Line]] = {}
    for plane in events.planes_of("TPU") + events.planes_of("SPARSECORE"):
        lines = [line for line in plane.lines if line.name in CORE_OP_LINES + MODULE_LINES and line.last > line.first]
        if lines:
            # a core that is not described is a chip of its own
            details = read_core_details(plane.stats)
            chip = ("plane", plane.number) if details is None else ("chip", details.local_chip_id)
            chips.setdefault(chip, []).extend(lines)
    if not chips:
        return DutyCycle()
    marks = _mark_events(events, is_work)
    for line in (line for lines in chips.values() for line in lines if line.name in CORE_OP_LINES[1:]):
        marks[line.first : line.last] = marks[line.first : line.last] > 0  # all ops of SparseCores work
    return sum((_measure_chip(events, lines, marks, workers) for lines in chips.values()), DutyCycle())


def _measure_chip(events: HostEvents, lines: list[Line], marks: Marks, workers: Workers) -> DutyCycle:
    """Measure the duty cycle of the chip with these op and module lines. ``marks``: by row of events."""
    span = measure_span(events, lines[0].plane, list_line_spans(events, lines))
    ops = [line for line in lines if line.name in CORE_OP_LINES]
    vague = any(bool((marks[line.first : line.last] == _UNKNOWN).any()) for line in ops)
    kinds = [_WORKS, _WORKS | _UNKNOWN] if vague else [_WORKS]
    active = workers.run(None, [partial(_measure_active_time, events, ops, marks, kind) for kind in kinds])
    sure, busy = active[0], active[-1]
    return DutyCycle(1, busy, span - busy, sure, span - sure)


def _measure_active_time(events: HostEvents, lines: list[Line], marks: Marks, kinds: int) -> int:
    """Return how long an event of these kinds is the innermost op of any line."""
    rows = np.zeros(len(lines), records.LINE_ROWS)
    rows["first"], rows["last"] = [line.first for line in lines], [line.last for line in lines]
    return innermost_time(events.start_ps, events.duration_ps, marks, kinds, rows)


def _measure_gpu(events: HostEvents, plane: Plane) -> DutyCycle:
    """Measure the duty cycle of a GPU; lines that profilers derive from others do not count."""
    lines = [line for line in plane.lines if line.last > line.first and not line.is_derived]
    if not lines:
        return DutyCycle()
    spans = list_line_spans(events, lines)
    span = measure_span(events, plane, spans)
    begin, duration = (np.concatenate(column) for column in zip(*spans, strict=True))
    begin = begin - begin.min()  # all of this fits now, wherever it began
    busy = measure_union(begin, begin + np.maximum(duration, 0))
    return DutyCycle(1, busy, span - busy, busy, span - busy)


def _match_categories(events: HostEvents, wanted: frozenset[str]) -> Bools:
    is_wanted = np.zeros(len(events.names), bool)
    category = events.meta_stat("hlo_category").of_kinds((records.STR, records.REF))
    numbers, inverse = number_values(category.value)
    matches = np.array([events.text(number) in wanted for number in numbers.tolist()], bool)
    if len(matches):
        is_wanted[category.rows] = matches[inverse]
    return is_wanted


def _mark_events(events: HostEvents, is_work: Callable[[Stat, str], Bools]) -> Marks:
    """Return, per row, 0 for events that only wait, _UNKNOWN for custom calls that record neither flops nor traffic
    between chips, else _WORKS. Recorded stats of the event come before those of its metadata."""
    waits, calls = _match_categories(events, frozenset(OFF_DUTY)), _match_categories(events, frozenset({"custom-call"}))
    of_meta = {name: np.zeros(len(events.names), bool) for name in _WORK}
    for name, works in of_meta.items():
        stat = events.meta_stat(name)
        works[stat.rows] = is_work(stat, name)
    marks = _combine_marks(waits, calls, np.logical_or.reduce(list(of_meta.values())))[events.meta]
    own = {name: events.stat(name) for name in _WORK}
    rows = np.unique(np.concatenate([stat.rows for stat in own.values()]))
    if len(rows):
        meta = events.meta[rows]
        worked = np.zeros(len(rows), bool)
        for name, stat in own.items():
            works = of_meta[name][meta]
            works[np.searchsorted(rows, stat.rows)] = is_work(stat, name)
            worked |= works
        marks[rows] = _combine_marks(waits[meta], calls[meta], worked)
    return marks


def _combine_marks(waits: Bools, calls: Bools, worked: Bools) -> Marks:
    marks = np.where(calls & ~worked, _UNKNOWN, _WORKS).astype(np.uint8)
    marks[waits] = 0
    return marks
