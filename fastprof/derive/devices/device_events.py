"""Op events of TPU cores on the device's clock, how they nest, and samples of hardware units on counter lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.memory_kernels import range_peaks
from fastprof._native.op_kernels import SELF_CROSSED, self_times
from fastprof.decode.nesting import number_lines
from fastprof.schema.columns import (
    Bools,
    Float64s,
    Int32s,
    Int64s,
    Records,
    UInt64s,
    find_group_bounds,
    find_last_started,
    find_rows_within,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, INTEGER_KINDS, TEXT_KINDS, HostEvents, Plane, compute_once

OP_LINES: Final = ("XLA Ops", "Framework Ops", "Sparse Core Ops")


@dataclass(frozen=True, slots=True)
class OpEvents:
    """The events of a core's op lines, in the order of their rows."""

    rows: Int32s
    """Row in the host's events."""
    start_ps: Int64s
    duration_ps: Int64s
    """Durations on the device clock if it has one; never negative."""
    self_ps: Int64s
    """Duration less the union of the events nested in it."""
    meta: Int32s
    """Row of event metadata, -1 if it has none."""
    lines: Records
    """Which events are of one line, as decode.nesting.line_rows has them."""
    overlaps: bool
    """True if any events that are nested in the same one overlap."""

    def __len__(self) -> int:
        return len(self.rows)

    def self_less_sums(self) -> Int64s:
        """Return duration less the sum of the events directly nested in it: less than ``self_ps`` if these overlap."""
        if not self.overlaps:
            return self.self_ps
        own, less_sums = np.empty_like(self.self_ps), np.empty_like(self.self_ps)
        self_times(self.start_ps, self.duration_ps, self.lines, own, less_sums)
        return less_sums


def get_device_spans(events: HostEvents, first: int, last: int) -> tuple[Int64s, Int64s]:
    """Return start and duration of rows ``first`` to ``last``, by the device clock if they have both its stats."""
    at, offsets = _get_within(*events.ints("device_offset_ps"), first, last)
    also, durations = _get_within(*events.ints("device_duration_ps"), first, last)
    if len(at) == len(also) == last - first:  # all of them have both
        return offsets, clip_negative(durations)
    start, duration = events.start_ps[first:last], events.duration_ps[first:last]
    if not len(at) or not len(also):
        return start, clip_negative(duration)
    start, duration = start.copy(), duration.copy()
    if not np.array_equal(at, also):
        at, i, j = np.intersect1d(at, also, assume_unique=True, return_indices=True)
        offsets, durations = offsets[i], durations[j]
    start[at - first] = offsets
    duration[at - first] = durations
    return start, clip_negative(duration)


def clip_negative(duration: Int64s) -> Int64s:
    return duration if not len(duration) or duration.min() >= 0 else np.maximum(duration, 0)


def _get_within(rows: Int32s, values: Int64s, first: int, last: int) -> tuple[Int32s, Int64s]:
    own = find_rows_within(rows, first, last)
    return rows[own], values[own]


@compute_once
def list_op_events(events: HostEvents, plane: Plane) -> OpEvents:
    """Return the events of the plane's op lines, nested line by line."""
    lines = [line for line in plane.lines if line.name in OP_LINES and line.last > line.first]
    if not lines:
        none = np.empty(0, np.int64)
        no_lines = number_lines(none, none)
        return OpEvents(np.empty(0, np.int32), none, none, none, np.empty(0, np.int32), no_lines, overlaps=False)
    spans = [get_device_spans(events, line.first, line.last) for line in lines]
    start, duration = (join_arrays([span[i] for span in spans]) for i in range(2))
    rows = join_arrays([np.arange(line.first, line.last, dtype=np.int32) for line in lines])
    counts = np.array([line.last - line.first for line in lines], np.int64)
    of_lines = number_lines(counts, np.cumsum(counts) - counts)
    self_ps = np.empty_like(start)
    overlaps = self_times(start, duration, of_lines, self_ps, None) == SELF_CROSSED
    metas = join_arrays([events.meta[line.first : line.last] for line in lines])
    return OpEvents(rows, start, duration, self_ps, metas, of_lines, overlaps)


@compute_once
def find_op_ids(events: HostEvents) -> Int32s:
    """Return the rows of event metadata with a program id and a symbol id, by which XProf identifies ops."""
    program, symbol = (events.meta_stat(name).of_kinds(INTEGER_KINDS) for name in ("program_id", "symbol_id"))
    return np.intersect1d(program.rows, symbol.rows[symbol.value != 0]).astype(np.int32)


@compute_once
def is_op_metadata(events: HostEvents) -> Bools:
    """Return which rows of event metadata are ops of TPU cores: those with ids or, if no row has any, those with an HLO
    category."""
    rows = find_op_ids(events)
    marks = np.zeros(len(events.names), np.bool_)
    marks[rows if len(rows) else events.meta_stat("hlo_category").of_kinds(TEXT_KINDS).rows] = True
    return marks


@compute_once
def sort_op_events(events: HostEvents, plane: Plane) -> Int64s:
    """Sort the plane's op events by their start; equal ones stay in order."""
    return np.argsort(list_op_events(events, plane).start_ps, kind="stable")


def join_arrays(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the parts as one array; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


PERCENT: Final = "% util"
COUNTS: Final = ("fills", "spills")
STATS: Final = (PERCENT, *COUNTS)
HIGH_PERCENT: Final = 80.0
"""Share of its time above which a unit is close to its limit."""

_NUMBERS: Final = (records.INT64, records.UINT64, records.DOUBLE)
_MOST_UNITS: Final = 64
"""Units of a device beyond these many are damage; each is compared with every op."""
_MOST_COUNT: Final = 2.0**53
_MICRO: Final = 1_000_000
_MILLI: Final = 1_000
_LONG_PS: Final = 1 << 46
"""Up to here thousandths of a percent times picoseconds fit in 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitSamples:
    """``start_ps`` ascends, without repetition. ``end_ps``: of the last value. ``value``: NaN: unknown."""

    unit: str
    stat: str
    start_ps: Int64s
    end_ps: int
    value: Float64s


def list_unit_samples(events: HostEvents, plane: Plane) -> list[UnitSamples]:
    """Return samples by unit, in the order in which units first occur. The events were read with ``STATS``."""
    lines = [line for line in plane.lines if line.name == COUNTER_LINE and line.last > line.first]
    units = [
        sample
        for stat in STATS
        for sample in _read_stat_samples(events, plane, stat, [(x.first, x.last) for x in lines])
    ]
    if len(units) > _MOST_UNITS:
        text = f"{plane.name} has {len(units):,} hardware units: those after the first {_MOST_UNITS} are left out"
        events.note("notice", "many_hardware_units", text, len(units) - _MOST_UNITS)
    return units[:_MOST_UNITS]


def _read_stat_samples(
    events: HostEvents, plane: Plane, stat: str, spans: list[tuple[int, int]]
) -> Iterator[UnitSamples]:
    values = events.stat(stat).of_kinds(_NUMBERS)
    here = np.zeros(len(values), np.bool_)
    for first, last in spans:
        here[find_rows_within(values.rows, first, last)] = True
    rows, value = values.rows[here], values.numbers[here]
    if not len(rows):
        return
    usable = (value >= 0) & (value <= 100 if stat == PERCENT else value < _MOST_COUNT)
    if not usable.all():
        what = "from 0 to 100" if stat == PERCENT else "counts"
        text = f"values of hardware units of {plane.name} ({stat}) are not {what}: they count as unknown"
        events.note("notice", "unusable_unit_value", text, int(np.count_nonzero(~usable)))
    value = np.where(usable, value, np.nan)
    ends = (events.start_ps[low:high] + np.maximum(events.duration_ps[low:high], 0) for low, high in spans)
    end = max(int(line_ends.max()) for line_ends in ends)
    yield from _group_by_unit(events, stat, rows, value, end)


def _group_by_unit(
    events: HostEvents, stat: str, rows: npt.NDArray[Any], value: Float64s, end_ps: int
) -> Iterator[UnitSamples]:
    metas, first, which = np.unique(events.meta[rows], return_index=True, return_inverse=True)
    title: dict[str, int] = {}
    number = np.zeros(len(metas), np.int64)
    for place in np.argsort(first).tolist():
        number[place] = title.setdefault(events.names[metas[place]], len(title))
    unit = number[which]
    order = sort_rows(unit, events.start_ps[rows], np.arange(len(rows)))
    start, unit = events.start_ps[rows[order]], unit[order]
    new = np.append(True, (unit[1:] != unit[:-1]) | (start[1:] != start[:-1]))
    if not new.all():
        text = "samples of hardware units start together with another of the same unit: the first counts"
        events.note("notice", "repeated_unit_samples", text, int(np.count_nonzero(~new)))
    start, unit, value = start[new], unit[new], value[order][new]
    bounds = find_group_bounds(unit, len(title)).tolist()
    for name, low, high in zip(title, bounds[:-1], bounds[1:], strict=True):
        yield UnitSamples(name, stat, start[low:high], max(end_ps, int(start[high - 1])), value[low:high])


@dataclass(frozen=True, slots=True, eq=False)
class UnitUse:
    """Use of a unit in each of several spans: for how long the value is known, and is above ``HIGH_PERCENT``; the
    integral of the value over that time, in millionths times picoseconds; its peak in millionths, or -1 if there is
    none; how many samples start, and their sum."""

    known_ps: Int64s
    high_ps: Int64s
    integral: Float64s
    peak: Int64s
    samples: Int64s
    total: Float64s


class HeldValues:
    """What one unit did over spans of time. Times are exact. So are integrals, of values rounded to millionths, over
    spans of up to 70 s: sums wrap around, and differences come out right."""

    def __init__(self, samples: UnitSamples) -> None:
        self._start = samples.start_ps
        self._edges = np.append(samples.start_ps, samples.end_ps)
        known = ~np.isnan(samples.value)
        value = np.where(known, samples.value, 0.0)
        micro = np.rint(value * _MICRO).astype(np.int64) if samples.stat == PERCENT else np.zeros(len(value), np.int64)
        self._peaks = np.where(known, micro, -1) if samples.stat == PERCENT else np.full(len(value), -1)
        parts = (micro // _MILLI, micro % _MILLI, known, known & (micro > int(HIGH_PERCENT * _MICRO)))
        self._width = np.diff(self._edges).astype(np.uint64)
        self._parts = [(values, self._sums(values)) for values in (part.astype(np.uint64) for part in parts)]
        self._rough = np.append(0.0, np.cumsum(micro.astype(np.float64) * self._width.astype(np.float64)))
        self._micro = micro
        self._known = np.append(0, np.cumsum(known))
        self._total = np.append(0.0, np.cumsum(np.where(known, samples.value, 0.0)))

    def _sums(self, part: UInt64s) -> UInt64s:
        return np.append(np.zeros(1, np.uint64), np.cumsum(part * self._width, dtype=np.uint64))

    def all_of_it(self) -> UnitUse:
        return self.over(self._edges[:1], self._edges[-1:] + 1)

    def over(self, begin: Int64s, end: Int64s) -> UnitUse:
        """Measure use in these spans, which may overlap."""
        low, high = (np.clip(time, self._edges[0], self._edges[-1]) for time in (begin, end))
        first, last = self._place(low), self._place(high)
        coarse, fine, known, above = (
            self._until(part, last, high) - self._until(part, first, low) for part in self._parts
        )
        exact = coarse.astype(np.float64) * _MILLI + fine.astype(np.float64)
        rough = self._roughly(last, high) - self._roughly(first, low)
        ran = high > low
        peak = np.full(len(begin), -1, np.int64)
        range_peaks(self._peaks, first, np.where(ran, self._place(high - ran) + 1, first), peak)
        since, until = np.searchsorted(self._start, begin), np.searchsorted(self._start, end)
        until = np.maximum(since, until)
        return UnitUse(
            known.astype(np.int64), above.astype(np.int64), np.where(high - low <= _LONG_PS, exact, rough),
            np.where(peak >= 0, self._peaks[peak], -1), self._known[until] - self._known[since],
            self._total[until] - self._total[since],
        )  # fmt: skip

    def _place(self, time: Int64s) -> Int64s:
        """Return the sample that holds at each time."""
        return np.clip(find_last_started(self._edges, time), 0, len(self._start) - 1)

    def _until(self, part: tuple[UInt64s, UInt64s], place: Int64s, time: Int64s) -> UInt64s:
        value, sums = part
        until: UInt64s = sums[place] + value[place] * (time - self._edges[place]).astype(np.uint64)
        return until

    def _roughly(self, place: Int64s, time: Int64s) -> Float64s:
        until: Float64s = self._rough[place] + self._micro[place] * (time - self._edges[place]).astype(np.float64)
        return until


def find_leaves(start: Int64s, duration: Int64s) -> Bools:
    """Return which events of a line, in order of time, longer first, last and enclose none that does. Those that
    overlap without nesting enclose nothing."""
    lasting = np.flatnonzero(duration > 0)
    begin, end = start[lasting], start[lasting] + duration[lasting]
    leaf = np.zeros(len(start), np.bool_)
    leaf[lasting] = np.append((begin[1:] >= end[:-1]) | (end[1:] > end[:-1]), [True] * bool(len(lasting)))
    return leaf


class NothingRan(str):
    """A reason for an unknown figure or an empty table: no device activity is recorded. Reports replace it if records
    are known to be missing."""

    __slots__ = ()
