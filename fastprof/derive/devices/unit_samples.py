"""Samples of hardware units on the counter lines of devices: percent busy, and registers filled and spilled.

A value holds until the next sample of its unit; the last one holds until the end of the device's last sample. If
samples of a unit start together, the first counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.memory_kernels import range_peaks
from fastprof.schema.array_types import Bools, Float64s, Int64s, UInt64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HostEvents, Plane

PERCENT: Final = "% util"
COUNTS: Final = ("fills", "spills")
STATS: Final = (PERCENT, *COUNTS)
HIGH_PERCENT: Final = 80.0
"""Above this share of its time a unit is close to its limit."""

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


def unit_samples(events: HostEvents, plane: Plane) -> list[UnitSamples]:
    """By unit, in the order in which they first occur. The events were read with ``STATS``."""
    lines = [line for line in plane.lines if line.name == COUNTER_LINE and line.last > line.first]
    found = [one for stat in STATS for one in _of_stat(events, plane, stat, [(x.first, x.last) for x in lines])]
    if len(found) > _MOST_UNITS:
        text = f"{plane.name} has {len(found):,} hardware units: those after the first {_MOST_UNITS} are left out"
        events.note("notice", "many_hardware_units", text, len(found) - _MOST_UNITS)
    return found[:_MOST_UNITS]


def _of_stat(events: HostEvents, plane: Plane, stat: str, spans: list[tuple[int, int]]) -> Iterator[UnitSamples]:
    values = events.stat(stat).of_kinds(_NUMBERS)
    here = np.zeros(len(values), np.bool_)
    for first, last in spans:
        here[slice(*np.searchsorted(values.rows, [first, last]).tolist())] = True
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
    end = max(int(one.max()) for one in ends)
    yield from _by_unit(events, stat, rows, value, end)


def _by_unit(
    events: HostEvents, stat: str, rows: npt.NDArray[Any], value: Float64s, end_ps: int
) -> Iterator[UnitSamples]:
    metas, first, which = np.unique(events.meta[rows], return_index=True, return_inverse=True)
    title: dict[str, int] = {}
    number = np.zeros(len(metas), np.int64)
    for place in np.argsort(first).tolist():
        number[place] = title.setdefault(events.names[metas[place]], len(title))
    unit = number[which]
    order = np.lexsort((np.arange(len(rows)), events.start_ps[rows], unit))
    start, unit = events.start_ps[rows[order]], unit[order]
    new = np.append(True, (unit[1:] != unit[:-1]) | (start[1:] != start[:-1]))
    if not new.all():
        text = "samples of hardware units start together with another of the same unit: the first counts"
        events.note("notice", "repeated_unit_samples", text, int(np.count_nonzero(~new)))
    start, unit, value = start[new], unit[new], value[order][new]
    bounds = np.searchsorted(unit, np.arange(len(title) + 1)).tolist()
    for name, low, high in zip(title, bounds[:-1], bounds[1:], strict=True):
        yield UnitSamples(name, stat, start[low:high], max(end_ps, int(start[high - 1])), value[low:high])


@dataclass(frozen=True, slots=True, eq=False)
class UnitUse:
    """Of each of several spans of time: for how long the value is known, and is above ``HIGH_PERCENT``; the integral of
    the value over that time, in millionths times picoseconds; its peak in millionths, -1: none; how many samples start,
    and the sum of these."""

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
        self._parts = [(one, self._sums(one)) for one in (part.astype(np.uint64) for part in parts)]
        self._rough = np.append(0.0, np.cumsum(micro.astype(np.float64) * self._width.astype(np.float64)))
        self._micro = micro
        self._known = np.append(0, np.cumsum(known))
        self._total = np.append(0.0, np.cumsum(np.where(known, samples.value, 0.0)))

    def _sums(self, part: UInt64s) -> UInt64s:
        return np.append(np.zeros(1, np.uint64), np.cumsum(part * self._width, dtype=np.uint64))

    def all_of_it(self) -> UnitUse:
        return self.over(self._edges[:1], self._edges[-1:] + 1)

    def over(self, begin: Int64s, end: Int64s) -> UnitUse:
        """Of these spans, which may overlap."""
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
        """The sample that holds at each time."""
        return np.clip(np.searchsorted(self._edges, time, side="right") - 1, 0, len(self._start) - 1)

    def _until(self, part: tuple[UInt64s, UInt64s], place: Int64s, time: Int64s) -> UInt64s:
        value, sums = part
        until: UInt64s = sums[place] + value[place] * (time - self._edges[place]).astype(np.uint64)
        return until

    def _roughly(self, place: Int64s, time: Int64s) -> Float64s:
        until: Float64s = self._rough[place] + self._micro[place] * (time - self._edges[place]).astype(np.float64)
        return until


def leaves(start: Int64s, duration: Int64s) -> Bools:
    """Which events of a line, in order of time, longer first, last and enclose none that does. Those that overlap
    without nesting enclose nothing."""
    lasting = np.flatnonzero(duration > 0)
    begin, end = start[lasting], start[lasting] + duration[lasting]
    leaf = np.zeros(len(start), np.bool_)
    leaf[lasting] = np.append((begin[1:] >= end[:-1]) | (end[1:] > end[:-1]), [True] * bool(len(lasting)))
    return leaf
