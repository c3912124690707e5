"""Where the time of devices went: their windows by step, kind and cause. What is kept of a host when its events are
gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from fastprof._native.cause_kernels import gap_sums
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.causes.gaps import GAP, DeviceGaps
from fastprof.derive.devices.device_count import HostDevices, counts
from fastprof.derive.ops.device_time import COMPUTE, KINDS, DeviceTime, Transfer
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Int32s, Int64s, Objects, Records, UInt8s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

BETWEEN_STEPS: Final = -1
_NO_TEXTS: Final[dict[str, Any]] = {"none": np.empty(0, np.object_)}
_NO_NUMBERS: Final[dict[str, Any]] = {"none": np.empty(0, np.int32)}
_NO_KINDS: Final[dict[str, Any]] = {"none": np.empty(0, np.uint8)}
CAUSE_NAMES: Final = (*GAP_CAUSES, None)
"""By number of a cause; the last, of compute, has none."""
GAP_SUM: Final = np.dtype([
    ("group", "i4"), ("kind", "i4"), ("cause", "i4"), ("what", "i4"),
    ("time", "i8"), ("explained", "i8"), ("count", "i8"), ("longest", "i8"), ("longest_begin", "i8"),
])  # fmt: skip
"""The struct of csrc/kernels/gap_sums.h; a test compares its size with C's."""


@dataclass(frozen=True, slots=True)
class Budget(ArrayRows):
    """A row per device, step, kind and cause; ``time_ps`` of a device adds up to its window. ``host``, ``device``:
    places in the names of BudgetOfHosts; ``step``: number in the session, BETWEEN_STEPS: between steps, or in one that
    not all hosts have; ``group``: of the step on its host, -1; ``kind``: see derive/ops/device_time.py; ``cause``: see
    CAUSE_NAMES. ``longest_ps``, ``longest_start_ps``: of the longest piece; ``event``: what of the host, or of the
    device if that moves data or waits for queued work, explains most of the time, None: nothing."""

    host: Int32s = field(metadata=_NO_NUMBERS)
    device: Int32s = field(metadata=_NO_NUMBERS)
    step: Int64s
    group: Int64s
    kind: UInt8s = field(metadata=_NO_KINDS)
    cause: Int32s = field(metadata=_NO_NUMBERS)
    time_ps: Int64s
    count: Int64s
    longest_ps: Int64s
    longest_start_ps: Int64s
    event: Objects = field(metadata=_NO_TEXTS)


@dataclass(frozen=True, slots=True)
class Explained(ArrayRows):
    """Time of a device that one explanation has, over all steps. ``device``, ``kind``, ``cause``, ``event``: as in
    Budget; None: nothing explains it."""

    device: Int32s = field(metadata=_NO_NUMBERS)
    kind: UInt8s = field(metadata=_NO_KINDS)
    cause: Int32s = field(metadata=_NO_NUMBERS)
    time_ps: Int64s
    event: Objects = field(metadata=_NO_TEXTS)


@dataclass(frozen=True, slots=True)
class Largest(ArrayRows):
    """Pieces in which a device does not compute, longest first. ``thread``: its name; ``before_op``, ``after_op``: what
    the device ran before and after; None: unknown."""

    host: Int32s = field(metadata=_NO_NUMBERS)
    device: Int32s = field(metadata=_NO_NUMBERS)
    step: Int64s
    group: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    kind: UInt8s = field(metadata=_NO_KINDS)
    cause: Int32s = field(metadata=_NO_NUMBERS)
    event: Objects = field(metadata=_NO_TEXTS)
    thread: Objects = field(metadata=_NO_TEXTS)
    before_op: Objects = field(metadata=_NO_TEXTS)
    after_op: Objects = field(metadata=_NO_TEXTS)


@dataclass(frozen=True, slots=True)
class HostBudget:
    """``devices``: names of those that ran anything; ``present``: those of the capture; ``waiting_ps``: of idle time
    that nothing explains, that in which the host waits for its devices; ``beside_ps``: [device, cause], of the time of
    these causes that in which something else goes on, see meanwhile."""

    host: str
    devices: tuple[str, ...]
    budget: Budget
    explained: Explained
    largest: Largest
    present: HostDevices
    waiting_ps: int
    beside_ps: Int64s


@dataclass(frozen=True, slots=True)
class BudgetOfHosts:
    """Of a session: ``hosts``, ``devices``: names; ``host_of``: the host of each device; ``count``, ``used``: devices
    that the session has, and those of them that ran anything. ``budget``: rows of all hosts,
    with numbers of steps in the session."""

    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    host_of: Int64s
    budget: Budget
    explained: Explained
    pieces: Largest
    count: int
    used: int
    waiting_ps: int
    beside_ps: Int64s

    @classmethod
    def of(cls, kept: Sequence[HostBudget], numbers: Sequence[Callable[[Int64s], Int64s]]) -> BudgetOfHosts:
        """``numbers``: of each host, from groups to numbers of steps in the session."""
        budgets, pieces, explained, devices = [Budget.none()], [Largest.none()], [Explained.none()], 0
        present = counts([one.present for one in kept])
        for place, (one, number) in enumerate(zip(kept, numbers, strict=True)):
            budgets.append(_placed(one.budget, place, devices, number))
            pieces.append(_placed(one.largest, place, devices, number))
            explained.append(replace(one.explained, device=one.explained.device + np.int32(devices)))
            devices += len(one.devices)
        return cls(
            tuple(one.host for one in kept),
            tuple(name for one in kept for name in one.devices),
            np.repeat(np.arange(len(kept)), [len(one.devices) for one in kept]),
            Budget.joined(budgets),
            Explained.joined(explained),
            Largest.joined(pieces),
            sum(present),
            sum(len(one.devices) for one, count in zip(kept, present, strict=True) if count),
            sum(one.waiting_ps for one in kept),
            np.concatenate([np.zeros((0, len(CAUSE_NAMES)), np.int64), *(one.beside_ps for one in kept)]),
        )

    def largest(self, most: int) -> Largest:
        """The longest pieces of all hosts."""
        rows = self.pieces
        return rows[np.lexsort((rows.start_ps, rows.device, -rows.duration_ps))[:most]]

    def explanations(self, rows: Budget) -> Objects:
        """Of rows that are all time of a device, cause and kind, the explanation with the most time; None: none."""
        known = self.explained[self.explained.event != None]  # noqa: E711  by element
        known = known[np.lexsort((known.time_ps, _place(known)))]
        places, wanted = _place(known), _place(rows)
        at = np.searchsorted(places, wanted, side="right") - 1
        found = _objects([None] * len(rows))
        has = (at >= 0) & (places[np.maximum(at, 0)] == wanted) if len(known) else np.zeros(len(rows), np.bool_)
        found[has] = known.event[at[has]]
        return found

    def together(self, rows: Budget, *names: str) -> Budget:
        """Rows that are equal in these columns as one: times are added, the rest is that of the longest piece, the
        event that of the row with the most time. Ordered by these columns."""
        keys = [getattr(rows, name) for name in names]
        order = np.lexsort(keys[::-1])
        fresh = np.ones(len(rows), np.bool_)
        fresh[1:] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
        place, count = np.empty(len(rows), np.int32), int(fresh.sum())
        place[order] = np.cumsum(fresh) - 1
        longest, most = (_longest(place, values, count) for values in (rows.longest_ps, rows.time_ps))
        return replace(
            rows[longest],
            time_ps=sums_by(place, rows.time_ps, count),
            count=sums_by(place, rows.count, count),
            event=rows.event[most],
        )


def _place(rows: Budget | Explained) -> Int64s:
    """A number for each device, cause and kind."""
    return (rows.device.astype(np.int64) * len(CAUSE_NAMES) + rows.cause) * len(KINDS) + rows.kind


Rows = TypeVar("Rows", Budget, Largest)


def _placed(rows: Rows, host: int, devices: int, number: Callable[[Int64s], Int64s]) -> Rows:
    """Rows of one host as those of a session, in which ``devices`` come before its own."""
    hosts, of = np.full(len(rows), host, np.int32), rows.device + np.int32(devices)
    return replace(rows, host=hosts, device=of, step=number(rows.group))


def host_budget(events: HostEvents, gaps: Iterable[DeviceGaps], most: int, chosen: Int32s | None) -> HostBudget:
    """The budget of a host, with its longest ``most`` pieces. ``chosen``: groups of the steps that count, None: all
    time does."""
    times, sums, longest, explained = [], [np.zeros(0, GAP_SUM)], [np.zeros(0, GAP)], [np.zeros(0, GAP_SUM)]
    beside = [np.zeros((0, len(CAUSE_NAMES)), np.int64)]
    for one in gaps:
        times.append(one.time)
        counts = slice(None) if chosen is None else np.isin(one.pieces["group"], chosen[chosen >= 0])
        pieces = one.pieces[counts]
        beside.append(sums_by(pieces["cause"].astype(np.int64), one.beside_ps[counts], len(CAUSE_NAMES))[np.newaxis])
        sums.append(np.frombuffer(gap_sums(pieces, events.meta, len(events.names)), GAP_SUM))
        explained.append(_sums_of_explanations(events, pieces))
        longest.append(_longest_pieces(pieces, most))
        del one, pieces, counts  # before those of the next device are made
    rows = np.concatenate(sums)
    device = np.repeat(np.arange(-1, len(times)), [len(one) for one in sums]).astype(np.int32)
    of_longest = np.repeat(np.arange(-1, len(times)), [len(one) for one in longest]).astype(np.int32)
    of_explained = np.repeat(np.arange(-1, len(times)), [len(one) for one in explained]).astype(np.int32)
    transfers = times[0].ran.transfers if times else ()
    return HostBudget(
        events.host,
        tuple(one.ran.name for one in times),
        _budget(events, transfers, rows, device),
        _explained(events, transfers, np.concatenate(explained), of_explained),
        _largest(events, times, np.concatenate(longest), of_longest, most),
        HostDevices.of(events),
        int(rows["explained"][rows["cause"] == GAP_CAUSES.index("idle")].sum()),
        np.concatenate(beside),
    )


def _budget(events: HostEvents, transfers: Sequence[Transfer], rows: Records, device: Int32s) -> Budget:
    group = rows["group"].astype(np.int64)
    return Budget(
        np.zeros(len(rows), np.int32),
        device,
        group,
        group,
        rows["kind"].astype(np.uint8),
        rows["cause"].copy(),
        rows["time"].copy(),
        rows["count"].copy(),
        rows["longest"].copy(),
        rows["longest_begin"].copy(),
        _texts(events, transfers, rows["what"]),
    )


_AT_ONCE: Final = 1 << 18


def _sums_of_explanations(events: HostEvents, pieces: Records) -> Records:
    """GAP_SUM: of pieces in which the device does not compute, by kind, cause and explanation, whose number is in the
    place of the group. Pieces are copied for that, some at once."""
    parts = [np.zeros(0, GAP_SUM)]
    for first in range(0, len(pieces), _AT_ONCE):
        some = pieces[first : first + _AT_ONCE]
        some = some[some["kind"] != COMPUTE]
        some["group"] = _explanation(events, some)
        parts.append(np.frombuffer(gap_sums(some, events.meta, len(events.names)), GAP_SUM))
    sums = np.concatenate(parts)
    keys = np.stack([sums[name] for name in ("kind", "cause", "group")])
    keys, place = np.unique(keys, axis=1, return_inverse=True)
    found = np.zeros(keys.shape[1], GAP_SUM)
    found["kind"], found["cause"], found["group"] = keys
    found["time"] = sums_by(place.reshape(-1), sums["time"], len(found))
    return found


def _explanation(events: HostEvents, pieces: Records) -> Int32s:
    """The number of what explains each piece: of a name, or above these what a device moves; -1: nothing."""
    names = len(events.names)
    moved = np.where(pieces["transfer"] >= 0, pieces["transfer"] + names, -1)
    return np.where(pieces["row"] >= 0, events.meta[pieces["row"]] % names, moved).astype(np.int32)


def _explained(events: HostEvents, transfers: Sequence[Transfer], rows: Records, device: Int32s) -> Explained:
    return Explained(
        device,
        rows["kind"].astype(np.uint8),
        rows["cause"].copy(),
        rows["time"].copy(),
        _texts(events, transfers, rows["group"].copy()),
    )


def _longest(place: Int32s, duration: Int64s, count: int) -> Int64s:
    """The longest row of each place, of equal ones the first. Every place has some."""
    most = np.full(count, -1, np.int64)
    np.maximum.at(most, place, duration)
    rows = np.flatnonzero(duration == most[place])[::-1]  # the last that is written stays
    longest = np.empty(count, np.int64)
    longest[place[rows]] = rows
    return longest


def _longest_pieces(pieces: Records, most: int) -> Records:
    """The longest in which the device does not compute, those of equal length as the last of them too, in order of
    time."""
    rows = np.flatnonzero(pieces["kind"] != COMPUTE)
    duration = pieces["end"][rows] - pieces["begin"][rows]
    if most < len(rows):
        rows = rows[duration >= np.partition(duration, -most)[-most]] if most else rows[:0]
    return pieces[rows]


def _texts(events: HostEvents, transfers: Sequence[Transfer], what: Int32s) -> Objects:
    """Names of events of the host, or, with the numbers above these, of what a device moves; -1: nothing."""
    names, count = events.names, len(events.names)
    return _objects(
        [None if one < 0 else names[one] if one < count else transfers[one - count].name for one in what.tolist()]
    )


def _objects(values: Sequence[str | None]) -> Objects:
    found = np.full(len(values), None, np.object_)
    found[:] = values
    return found


def _largest(events: HostEvents, devices: Sequence[DeviceTime], pieces: Records, device: Int32s, most: int) -> Largest:
    duration = pieces["end"] - pieces["begin"]
    order = np.lexsort((pieces["begin"], device, -duration))[:most]
    pieces, device, duration = pieces[order], device[order], duration[order]
    lines = [line for line in events.lines if line.last > line.first]
    of = np.searchsorted([line.first for line in lines], pieces["row"], side="right") - 1
    thread = [None if place < 0 else lines[place].name for place in of.tolist()]
    before, after = _objects([None] * len(pieces)), _objects([None] * len(pieces))
    for number in np.unique(device).tolist():
        here = np.flatnonzero(device == number)
        before[here], after[here] = _beside(events, devices[number], pieces["begin"][here], pieces["end"][here])
    group, what = pieces["group"].astype(np.int64), _explanation(events, pieces)
    return Largest(
        np.zeros(len(pieces), np.int32),
        device,
        group,
        group,
        pieces["begin"].copy(),
        duration,
        pieces["kind"].astype(np.uint8),
        pieces["cause"].copy(),
        _texts(events, devices[0].ran.transfers if devices else (), what),
        _objects(thread),
        before,
        after,
    )


def _beside(events: HostEvents, device: DeviceTime, start: Int64s, end: Int64s) -> tuple[Objects, Objects]:
    """The names of what the device ended last before these times, and of what it began first after those."""
    own = device.ran.events
    by_end, by_start = (np.argsort(times, kind="stable") for times in (own.end_ps, own.start_ps))
    before = np.searchsorted(own.end_ps[by_end], start, side="right") - 1
    after = np.searchsorted(own.start_ps[by_start], end)
    return _names(events, own.rows, by_end, before), _names(events, own.rows, by_start, after)


def _names(events: HostEvents, rows: Int32s, order: Int64s, places: Int64s) -> Objects:
    def name(place: int) -> str | None:
        if not 0 <= place < len(order):
            return None
        meta = int(events.meta[rows[order[place]]])
        return events.display_names[meta] or events.names[meta]

    return _objects([name(place) for place in places.tolist()])
