"""How busy the chips of a host are: TPU chips and GPUs.

A TPU chip is active while the innermost op on the line XLA Ops or Sparse Core Ops of any of its cores is one that
works, not one that only waits for the host or for another core. Its span goes from the first to the last event of
these lines and of the lines of modules. A GPU is active while a kernel or a copy runs on any of its streams, and its
span goes from the first to the last of them. busy is the active time of all chips, idle the rest of their spans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.op_kernels import innermost_time
from fastprof.decode.workers import Workers
from fastprof.derive.ops.line_times import covered, spanned_ps, spans_of
from fastprof.derive.steps.core_details import core_details
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.step_time import OFF_DUTY
from fastprof.schema.array_types import Bools
from fastprof.schema.value_classes import dataclass
from fastprof.tables.event_stats import Stat
from fastprof.tables.host_events import HostEvents, Line, Plane

Marks = npt.NDArray[np.uint8]

TENSOR_CORE_OPS: Final = "XLA Ops"
OP_LINES: Final = (TENSOR_CORE_OPS, "Sparse Core Ops")
MODULE_LINES: Final = ("XLA Modules", "Sparse Core Modules")
EVENT_STATS: Final = ("flops", "model_flops", "uses_ici")
METADATA_STATS: Final = ("hlo_category", "flops", "model_flops", "uses_ici")
"""What is read for this, beside the plane stat core_details."""

_WORKS, _UNKNOWN = 1, 2
_WORK: Final = ("flops", "model_flops", "uses_ici")


@dataclass(frozen=True, slots=True)
class DutyCycle:
    """Picoseconds of all chips. The sure figures count custom calls of TensorCores that record no work as idle."""

    chips: int = 0
    busy_ps: int = 0
    idle_ps: int = 0
    sure_busy_ps: int = 0
    sure_idle_ps: int = 0

    def __add__(self, other: DutyCycle) -> DutyCycle:
        return DutyCycle(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def records_work(stat: Stat, name: str) -> Bools:
    """By value of a stat: whether it says that work was done, which is flops other than 0, or use of the links between
    chips."""
    numbers = np.nan_to_num(stat.numbers)
    return numbers > 0 if name == "uses_ici" else numbers != 0


def duty_cycle(events: HostEvents, workers: Workers, is_work: Callable[[Stat, str], Bools] = records_work) -> DutyCycle:
    """The duty cycle of the chips of a host: of its TPUs, else of its GPUs; no chips if it has neither."""
    if not events.planes_of("TPU"):
        return sum((_of_gpu(events, plane) for plane in events.planes_of("GPU")), DutyCycle())
    chips: dict[tuple[str, int], list[Line]] = {}
    for plane in events.planes_of("TPU") + events.planes_of("SPARSECORE"):
        lines = [line for line in plane.lines if line.name in OP_LINES + MODULE_LINES and line.last > line.first]
        if lines:
            chips.setdefault(_chip_of(plane), []).extend(lines)
    if not chips:
        return DutyCycle()
    marks = _marks(events, is_work)
    for line in (line for lines in chips.values() for line in lines if line.name in OP_LINES[1:]):
        marks[line.first : line.last] = marks[line.first : line.last] > 0  # all ops of SparseCores work
    return sum((_of_chip(events, lines, marks, workers) for lines in chips.values()), DutyCycle())


def _chip_of(plane: Plane) -> tuple[str, int]:
    """What identifies the chip of a core on its host; a core that is not described is a chip of its own."""
    details = core_details(plane.stats)
    return ("plane", plane.number) if details is None else ("chip", details.local_chip_id)


def _of_chip(events: HostEvents, lines: list[Line], marks: Marks, workers: Workers) -> DutyCycle:
    """The duty cycle of one chip, whose lines of ops and modules these are. ``marks``: by row of events."""
    span = spanned_ps(events, lines[0].plane, spans_of(events, lines))
    ops = [line for line in lines if line.name in OP_LINES]
    vague = any(bool((marks[line.first : line.last] == _UNKNOWN).any()) for line in ops)
    kinds = [_WORKS, _WORKS | _UNKNOWN] if vague else [_WORKS]
    active = workers.run(None, [partial(_active, events, ops, marks, kind) for kind in kinds])
    sure, busy = active[0], active[-1]
    return DutyCycle(1, busy, span - busy, sure, span - sure)


def _active(events: HostEvents, lines: list[Line], marks: Marks, kinds: int) -> int:
    """How long an event of these kinds is the innermost op of any of the lines."""
    rows = np.zeros(len(lines), records.LINE_ROWS)
    rows["first"], rows["last"] = [line.first for line in lines], [line.last for line in lines]
    return innermost_time(events.start_ps, events.duration_ps, marks, kinds, rows)


def _of_gpu(events: HostEvents, plane: Plane) -> DutyCycle:
    """The duty cycle of one GPU; lines that profilers compute from the others do not count."""
    lines = [line for line in plane.lines if line.last > line.first and not is_derived(line)]
    if not lines:
        return DutyCycle()
    spans = spans_of(events, lines)
    span = spanned_ps(events, plane, spans)
    begin, duration = (np.concatenate(column) for column in zip(*spans, strict=True))
    begin = begin - begin.min()  # all of this fits now, wherever it began
    busy = covered(begin, begin + np.maximum(duration, 0))
    return DutyCycle(1, busy, span - busy, busy, span - busy)


def _of_categories(events: HostEvents, wanted: frozenset[str]) -> Bools:
    found = np.zeros(len(events.names), bool)
    category = events.meta_stat("hlo_category").of_kinds((records.STR, records.REF))
    numbers, inverse = np.unique(category.value, return_inverse=True)
    matches = np.array([events.text(number) in wanted for number in numbers.tolist()], bool)
    if len(matches):
        found[category.rows] = matches[inverse]
    return found


def _marks(events: HostEvents, is_work: Callable[[Stat, str], Bools]) -> Marks:
    """By row of events: 0 if it only waits, _UNKNOWN of a custom call that records neither flops nor traffic between
    chips, else _WORKS. What an event records counts, else what its metadata does."""
    waits, calls = _of_categories(events, frozenset(OFF_DUTY)), _of_categories(events, frozenset({"custom-call"}))
    of_meta = {name: np.zeros(len(events.names), bool) for name in _WORK}
    for name, works in of_meta.items():
        stat = events.meta_stat(name)
        works[stat.rows] = is_work(stat, name)
    marks = _marked(waits, calls, np.logical_or.reduce(list(of_meta.values())))[events.meta]
    own = {name: events.stat(name) for name in _WORK}
    rows = np.unique(np.concatenate([stat.rows for stat in own.values()]))
    if len(rows):
        meta = events.meta[rows]
        worked = np.zeros(len(rows), bool)
        for name, stat in own.items():
            works = of_meta[name][meta]
            works[np.searchsorted(rows, stat.rows)] = is_work(stat, name)
            worked |= works
        marks[rows] = _marked(waits[meta], calls[meta], worked)
    return marks


def _marked(waits: Bools, calls: Bools, worked: Bools) -> Marks:
    marks = np.where(calls & ~worked, _UNKNOWN, _WORKS).astype(np.uint8)
    marks[waits] = 0
    return marks
