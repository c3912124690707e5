"""Device time by cause: windows of devices by step, kind and cause. What is kept of a host when its events are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeVar

import numpy as np

from fastprof._native.cause_kernels import gap_sums
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.causes.gaps import GAP, NO_CAUSE, DeviceGaps
from fastprof.derive.devices.run_environment import HostDevices, count_by_host
from fastprof.derive.ops.device_time import COMMUNICATION, COMPUTE, KINDS, DeviceTime, Transfer
from fastprof.derive.ops.record_checks import HostRecords, explain_missing_records
from fastprof.schema.columns import (
    ArrayRows,
    Int32s,
    Int64s,
    Objects,
    Records,
    UInt8s,
    find_last_started,
    number_sorted_rows,
    number_values,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, find_lines
from fastprof.tables.host_spill import Stored

BETWEEN_STEPS: Final = -1
_NO_TEXTS: Final[dict[str, Any]] = {"none": np.empty(0, np.object_)}
_NO_NUMBERS: Final[dict[str, Any]] = {"none": np.empty(0, np.int32)}
_NO_KINDS: Final[dict[str, Any]] = {"none": np.empty(0, np.uint8)}
CAUSE_NAMES: Final = (*GAP_CAUSES, None)
"""Names by number of a cause; the last, of compute, has none."""
_COMMUNICATION: Final = GAP_CAUSES.index("communication")
GAP_SUM: Final = np.dtype([
    ("group", "i4"), ("kind", "i4"), ("cause", "i4"), ("what", "i4"),
    ("time", "i8"), ("explained", "i8"), ("count", "i8"), ("longest", "i8"), ("longest_begin", "i8"),
])  # fmt: skip
"""The struct of csrc/kernels/gap_sums.h; a test compares its size with C's."""


@dataclass(frozen=True, slots=True)
class Budget(ArrayRows):
    """A row per device, step, kind and cause; ``time_ps`` of a device adds up to its window. ``device``: place in the
    names of the host, or of SessionBudget; ``step``: of a host the group of the step, in 32 bits, of a session its
    number; BETWEEN_STEPS: between steps, or in one that not all hosts have; ``kind``: see derive/ops/device_time.py;
    ``cause``: see CAUSE_NAMES."""

    device: Int32s = field(metadata=_NO_NUMBERS)
    step: Int64s
    kind: UInt8s = field(metadata=_NO_KINDS)
    cause: UInt8s = field(metadata=_NO_KINDS)
    time_ps: Int64s


@dataclass(frozen=True, slots=True)
class CauseTimes(ArrayRows):
    """A row per device, cause and kind, in this order; ``event``: what of the host, or of the device if that moves data
    or waits for queued work, explains most of the time, None if nothing. ``longest_ps``, ``longest_start_ps``: of the
    longest piece."""

    device: Int32s = field(metadata=_NO_NUMBERS)
    kind: UInt8s = field(metadata=_NO_KINDS)
    cause: UInt8s = field(metadata=_NO_KINDS)
    time_ps: Int64s
    count: Int64s
    longest_ps: Int64s
    longest_start_ps: Int64s
    event: Objects = field(metadata=_NO_TEXTS)


@dataclass(frozen=True, slots=True)
class ExplainedTime(ArrayRows):
    """Time of a device that one explanation has, over all steps. ``device``, ``kind``, ``cause``, ``event``: as in
    Causes."""

    device: Int32s = field(metadata=_NO_NUMBERS)
    kind: UInt8s = field(metadata=_NO_KINDS)
    cause: UInt8s = field(metadata=_NO_KINDS)
    time_ps: Int64s
    event: Objects = field(metadata=_NO_TEXTS)


@dataclass(frozen=True, slots=True)
class LargestGaps(ArrayRows):
    """Intervals in which a device does not compute, longest first. ``step``: as in Budget; ``thread``: its name;
    ``before_op``, ``after_op``: the device ops before and after, or None if unknown."""

    device: Int32s = field(metadata=_NO_NUMBERS)
    step: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    kind: UInt8s = field(metadata=_NO_KINDS)
    cause: UInt8s = field(metadata=_NO_KINDS)
    event: Objects = field(metadata=_NO_TEXTS)
    thread: Objects = field(metadata=_NO_TEXTS)
    before_op: Objects = field(metadata=_NO_TEXTS)
    after_op: Objects = field(metadata=_NO_TEXTS)


@dataclass(frozen=True, slots=True)
class HostBudget:
    """``devices``: names of those that ran anything; ``events``: of the rows of ``budget``, as in Causes; ``present``:
    devices of the capture; ``waiting_ps``: of idle time that nothing explains, that in which the host waits for its
    devices; ``beside_ps``: [device, cause], of the time of these causes that in which something else goes on, see
    meanwhile; ``apart_ps``: that in no marker of a step and in nothing that runs for one; ``records``: what checks of
    the host's records show."""

    host: str
    devices: tuple[str, ...]
    budget: Budget
    events: Objects
    causes: CauseTimes
    explained: ExplainedTime
    largest: LargestGaps
    present: HostDevices
    waiting_ps: int
    beside_ps: Int64s
    apart_ps: Int64s
    records: HostRecords | None = None

    def for_others(self) -> HostBudget:
        """Drop what only the tables of gaps show: time in a step by device, except communication, and events in steps.
        Devices that all work, or that none does, share the time of the first of them."""
        budget, explained = self.budget, self.explained
        busy = (self.causes.kind == COMPUTE) | (self.causes.kind == COMMUNICATION)
        works = np.bincount(self.causes.device, self.causes.time_ps * busy, len(self.devices)) > 0
        like = _NO_NUMBERS["none"]
        if len(works):
            like = np.where(works, works.argmax(), (~works).argmax()).astype(np.int32)
        device = np.where(budget.cause == _COMMUNICATION, budget.device, like[budget.device])
        rows, place = _find_firsts(budget.cause, device, budget.step)
        merged = replace(budget[rows], device=device[rows], time_ps=sum_by(place, budget.time_ps, len(rows)))
        device, numbers = like[explained.device], dict[str | None, int]()
        event = np.array([numbers.setdefault(name, len(numbers)) for name in explained.event], np.int32)
        rows, place = _find_firsts(explained.cause, device, explained.kind, event)
        times = sum_by(place, explained.time_ps, len(rows))
        of_events = replace(explained[rows], device=device[rows], time_ps=times)
        return replace(self, budget=merged, explained=of_events, events=self.events[:0].copy())


@dataclass(frozen=True, slots=True)
class _HostRange:
    """Rows of hosts that follow each other, with devices and steps of the session; spilled if hosts are many."""

    budget: Stored[Budget] | Budget
    explained: Stored[ExplainedTime] | ExplainedTime
    largest: Stored[LargestGaps] | LargestGaps


@dataclass(frozen=True, slots=True)
class SessionBudget:
    """Budget of a session. ``hosts``, ``devices``: names; ``host_of``: host of each device; ``count``, ``used``:
    devices of the session, and those that ran anything; ``has_events``: whether hosts have all that tables show;
    ``why_unknown``: why nothing is known of devices. Rows of all hosts are joined when they are looked at."""

    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    host_of: Int64s
    causes: CauseTimes
    count: int
    used: int
    waiting_ps: int
    beside_ps: Int64s
    apart_ps: Int64s
    between_steps_ps: int
    has_events: bool
    kept: Sequence[HostBudget]
    parts: Sequence[_HostRange]
    why_unknown: str | None

    @classmethod
    def of(cls, kept: Sequence[HostBudget], numbers: Callable[[int, Int64s], Int64s]) -> SessionBudget:
        """Add up host budgets. ``numbers``: session steps of the groups of host i, see find_session_steps."""
        hosts: list[tuple[str, tuple[str, ...], HostDevices]] = []
        beside, causes, parts = [np.zeros((0, len(CAUSE_NAMES)), np.int64)], [CauseTimes.none()], []
        apart = beside.copy()
        waiting_ps, between_ps, devices, has_events = 0, 0, 0, True
        for first in range(0, len(kept), _TOGETHER):
            some = []
            for place, host in enumerate(kept[first : first + _TOGETHER], first):
                steps = numbers(place, host.budget.step)
                between_ps += int(host.budget.time_ps[steps == BETWEEN_STEPS].sum())
                some.append((
                    _move_rows(host.budget, devices, steps),
                    replace(host.explained, device=host.explained.device + np.int32(devices)),
                    _move_rows(host.largest, devices, numbers(place, host.largest.step)),
                ))  # fmt: skip
                causes.append(replace(host.causes, device=host.causes.device + np.int32(devices)))
                beside.append(host.beside_ps)
                apart.append(host.apart_ps)
                hosts.append((host.host, host.devices, host.present))
                waiting_ps, devices = waiting_ps + host.waiting_ps, devices + len(host.devices)
                has_events &= len(host.events) == len(host.budget)
            parts.append(_join_hosts(some, set_aside=len(kept) > _TOGETHER))
        present = count_by_host([of_host for _, _, of_host in hosts])
        many = [len(names) for _, names, _ in hosts]
        return cls(
            tuple(host for host, _, _ in hosts),
            tuple(name for _, names, _ in hosts for name in names),
            np.repeat(np.arange(len(hosts)), many),
            CauseTimes.joined(causes),
            sum(present),
            sum(own for own, count in zip(many, present, strict=True) if count),
            waiting_ps,
            np.concatenate(beside),
            np.concatenate(apart),
            between_ps,
            has_events,
            kept if has_events else (),
            parts,
            explain_missing_records([host.records for host in kept if host.records is not None]),
        )

    def budget(self) -> Budget:
        """Return the rows of all hosts."""
        return Budget.joined([Budget.none(), *self.budgets()])

    def budgets(self, cause: str | None = None) -> Iterator[Budget]:
        """Return the rows of all hosts in batches, for one cause, or all causes if it is None."""
        return (_select_cause(_get_rows(part.budget), cause) for part in self.parts)

    def events(self) -> Objects:
        """Return what explains each row of ``budget``, if hosts have it."""
        return np.concatenate([_NO_TEXTS["none"], *(host.events for host in self.kept)])

    def explained(self, cause: str) -> ExplainedTime:
        """Return the explained time of a cause on all hosts."""
        return ExplainedTime.joined(
            [ExplainedTime.none(), *(_select_cause(_get_rows(part.explained), cause) for part in self.parts)]
        )

    def pieces(self, cause: str) -> LargestGaps:
        """Return the longest of each host, of a cause."""
        return LargestGaps.joined(
            [LargestGaps.none(), *(_select_cause(_get_rows(part.largest), cause) for part in self.parts)]
        )

    def largest(self, most: int) -> LargestGaps:
        """Return the longest pieces of all hosts."""
        rows = LargestGaps.joined([LargestGaps.none(), *(_get_rows(part.largest) for part in self.parts)])
        return rows[sort_rows(-rows.duration_ps, rows.device, rows.start_ps)[:most]]


_TOGETHER: Final = 32
"""Most hosts whose rows are spilled together; fewer stay in memory."""
Rows = TypeVar("Rows", Budget, LargestGaps)
OfCauses = TypeVar("OfCauses", Budget, ExplainedTime, LargestGaps)


def _join_hosts(some: Sequence[tuple[Budget, ExplainedTime, LargestGaps]], *, set_aside: bool) -> _HostRange:
    budget, explained, largest = zip(*some, strict=True)
    rows = Budget.joined(budget), ExplainedTime.joined(explained), LargestGaps.joined(largest)
    return _HostRange(Stored(rows[0]), Stored(rows[1]), Stored(rows[2])) if set_aside else _HostRange(*rows)


def _move_rows(rows: Rows, devices: int, steps: Int64s) -> Rows:
    """Shift the rows of a host to its place among the devices of the session."""
    return replace(rows, device=rows.device + np.int32(devices), step=steps)


def _get_rows(rows: Stored[OfCauses] | OfCauses) -> OfCauses:
    return rows.value() if isinstance(rows, Stored) else rows


def _select_cause(rows: OfCauses, cause: str | None) -> OfCauses:
    return rows if cause is None else rows[rows.cause == GAP_CAUSES.index(cause)]


def merge_rows(rows: Budget, events: Objects) -> tuple[Budget, Objects]:
    """Merge rows of one device, step, cause and kind, in this order: times are added, the event is that of the row with
    the most time."""
    place, count = _number_alike(rows.device, rows.step, rows.cause, rows.kind)
    most = _find_longest(place, rows.time_ps, count)
    return replace(rows[most], time_ps=sum_by(place, rows.time_ps, count)), events[most]


def _number_alike(*keys: Int64s | Int32s | UInt8s) -> tuple[Int32s, int]:
    """Return the place of each row among the distinct ones, in the order of the keys, and how many these are."""
    order = sort_rows(*keys)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
    place = np.empty(len(order), np.int32)
    place[order] = np.cumsum(fresh) - 1
    return place, int(fresh.sum())


def _find_firsts(*keys: Int64s | Int32s | UInt8s) -> tuple[Int64s, Int32s]:
    """Return the first row of each distinct key, by first occurrence, and the place of each row among them."""
    place, count = _number_alike(*keys)
    first = np.full(count, len(place), np.int64)
    np.minimum.at(first, place, np.arange(len(place)))
    order = np.argsort(first)
    rank = np.empty(count, np.int32)
    rank[order] = np.arange(count, dtype=np.int32)
    return first[order], rank[place]


def make_host_budget(
    events: HostEvents, gaps: Iterable[DeviceGaps], most: int, chosen: Int32s | None, *, neighbours: bool = True
) -> HostBudget:
    """Return the budget of a host, with its longest ``most`` pieces. ``chosen``: groups of the steps that count, or
    None for all time. ``neighbours``: name the ops before and after the longest pieces."""
    times, sums, explained = [], [np.zeros(0, GAP_SUM)], [np.zeros(0, GAP_SUM)]
    longest, of_longest = np.zeros(0, GAP), np.zeros(0, np.int32)
    beside = [np.zeros((0, len(CAUSE_NAMES)), np.int64)]
    apart = beside.copy()
    for gap in gaps:
        times.append(gap.time)
        counts = slice(None) if chosen is None else np.isin(gap.pieces["group"], chosen[chosen >= 0])
        pieces = gap.pieces[counts]
        cause = pieces["cause"].astype(np.int64)
        beside.append(sum_by(cause, gap.beside_ps[counts], len(CAUSE_NAMES))[np.newaxis])
        apart.append(sum_by(cause, gap.apart_ps[counts], len(CAUSE_NAMES))[np.newaxis])
        sums.append(np.frombuffer(gap_sums(pieces, events.meta, len(events.names)), GAP_SUM))
        explained.append(_sum_explanations(events, pieces))
        longest, of_longest = _with_longest(longest, of_longest, pieces, len(times) - 1, most)
        del gap, pieces, counts  # before those of the next device are made
    rows = np.concatenate(sums)
    device, of_explained = (
        np.repeat(np.arange(-1, len(times)), list(map(len, parts))).astype(np.int32) for parts in (sums, explained)
    )
    transfers = times[0].ran.transfers if times else ()
    explaining = np.concatenate(explained)
    explanations = ExplainedTime(
        of_explained,
        explaining["kind"].astype(np.uint8),
        explaining["cause"].astype(np.uint8),
        explaining["time"].copy(),
        _get_texts(events, transfers, explaining["group"].copy()),
    )
    return HostBudget(
        events.host,
        tuple(time.ran.name for time in times),
        Budget(
            device,
            rows["group"].copy(),
            rows["kind"].astype(np.uint8),
            rows["cause"].astype(np.uint8),
            rows["time"].copy(),
        ),
        _get_texts(events, transfers, rows["what"]),
        _explain_causes(rows, device, explanations),
        explanations,
        _describe_largest(events, times, longest, of_longest, neighbours=neighbours),
        HostDevices.of(events),
        int(rows["explained"][rows["cause"] == GAP_CAUSES.index("idle")].sum()),
        np.concatenate(beside),
        np.concatenate(apart),
    )


def _explain_causes(rows: Records, device: Int32s, explained: ExplainedTime) -> CauseTimes:
    """Sum time by device, kind and cause, each with its explanation of the most time, or None if there is none."""
    place, count = _number_alike(device, rows["cause"], rows["kind"])
    longest = _find_longest(place, rows["longest"], count)
    times = CauseTimes(
        device[longest],
        rows["kind"][longest].astype(np.uint8),
        rows["cause"][longest].astype(np.uint8),
        sum_by(place, rows["time"].copy(), count),
        sum_by(place, rows["count"].copy(), count),
        rows["longest"][longest],
        rows["longest_begin"][longest],
        np.full(count, None, np.object_),
    )
    known = explained[explained.event != None]  # noqa: E711  by element
    known = known[sort_rows(_number_places(known), known.time_ps)]
    places, wanted = _number_places(known), _number_places(times)
    at = find_last_started(places, wanted)
    has = (at >= 0) & (places[np.maximum(at, 0)] == wanted) if len(known) else np.zeros(count, np.bool_)
    times.event[has] = known.event[at[has]]
    return times


def _number_places(rows: CauseTimes | ExplainedTime) -> Int64s:
    """Return a number for each device, cause and kind."""
    return (rows.device.astype(np.int64) * len(CAUSE_NAMES) + rows.cause) * len(KINDS) + rows.kind


_AT_ONCE: Final = 1 << 18


def _sum_explanations(events: HostEvents, pieces: Records) -> Records:
    """Sum non-compute pieces by kind, cause and explanation, as GAP_SUM with the explanation's number in ``group``.
    Pieces are copied for that in batches."""
    parts = [np.zeros(0, GAP_SUM)]
    for first in range(0, len(pieces), _AT_ONCE):
        some = pieces[first : first + _AT_ONCE]
        some = some[(some["kind"] != COMPUTE) | (some["cause"] != NO_CAUSE)]
        some["group"] = _number_explanations(events, some)
        parts.append(np.frombuffer(gap_sums(some, events.meta, len(events.names)), GAP_SUM))
    sums = np.concatenate(parts)
    keys = ("kind", "cause", "group")
    firsts, place = number_sorted_rows([sums[name] for name in keys])
    merged = np.zeros(len(firsts), GAP_SUM)
    for name in keys:
        merged[name] = sums[name][firsts]
    merged["time"] = sum_by(place, sums["time"], len(merged))
    return merged


def _number_explanations(events: HostEvents, pieces: Records) -> Int32s:
    """Return the number of what explains each piece: of a name, above these of what a device moves, or -1 if nothing
    does."""
    names = len(events.names)
    moved = np.where(pieces["transfer"] >= 0, pieces["transfer"] + names, -1)
    return np.where(pieces["row"] >= 0, events.meta[pieces["row"]] % names, moved).astype(np.int32)


def _find_longest(place: Int32s, duration: Int64s, count: int) -> Int64s:
    """Return the longest row of each place, of equal ones the first. Every place has some."""
    most = np.full(count, -1, np.int64)
    np.maximum.at(most, place, duration)
    rows = np.flatnonzero(duration == most[place])[::-1]  # the last that is written stays
    longest = np.empty(count, np.int64)
    longest[place[rows]] = rows
    return longest


def _with_longest(longest: Records, of: Int32s, pieces: Records, device: int, most: int) -> tuple[Records, Int32s]:
    """Return the longest pieces in which devices do not compute, at most ``most``, and their devices: those of earlier
    devices and of this one. Of equal ones the first count, by device, then by time."""
    if not most:
        return longest, of
    least = np.iinfo(np.int64).min if len(longest) < most else int(longest["end"][-1] - longest["begin"][-1])
    duration = pieces["end"] - pieces["begin"]
    rows = np.flatnonzero((pieces["kind"] != COMPUTE) & (duration > least))
    if not len(rows):
        return longest, of
    if most < len(rows):  # a sort of these alone
        rows = rows[duration[rows] >= np.partition(duration[rows], -most)[-most]]
    rows = rows[np.argsort(-duration[rows], kind="stable")[:most]]
    every = np.concatenate([longest, pieces[rows]])
    order = np.argsort(every["begin"] - every["end"], kind="stable")[:most]
    return every[order], np.append(of, np.full(len(rows), device, np.int32))[order]


def _get_texts(events: HostEvents, transfers: Sequence[Transfer], what: Int32s) -> Objects:
    """Return names of host events or, above these numbers, of what a device moves; None for -1."""
    names, count = events.names, len(events.names)
    numbers, place = number_values(what)
    texts = _make_objects([
        None if number < 0 else names[number] if number < count else transfers[number - count].name
        for number in numbers.tolist()
    ])  # fmt: skip
    return texts[place]


def _make_objects(values: Sequence[str | None]) -> Objects:
    objects = np.full(len(values), None, np.object_)
    objects[:] = values
    return objects


def _describe_largest(
    events: HostEvents, devices: Sequence[DeviceTime], pieces: Records, device: Int32s, *, neighbours: bool
) -> LargestGaps:
    duration = pieces["end"] - pieces["begin"]
    lines = events.used_lines
    of = find_lines(lines, pieces["row"])
    thread = [None if place < 0 else lines[place].name for place in of.tolist()]
    before, after = _make_objects([None] * len(pieces)), _make_objects([None] * len(pieces))
    for number in np.unique(device).tolist() if neighbours else ():
        here = np.flatnonzero(device == number)
        before[here], after[here] = _find_neighbours(
            events, devices[number], pieces["begin"][here], pieces["end"][here]
        )
    what = _number_explanations(events, pieces)
    return LargestGaps(
        device,
        pieces["group"].copy(),
        pieces["begin"].copy(),
        duration,
        pieces["kind"].astype(np.uint8),
        pieces["cause"].astype(np.uint8),
        _get_texts(events, devices[0].ran.transfers if devices else (), what),
        _make_objects(thread),
        before,
        after,
    )


def _find_neighbours(events: HostEvents, device: DeviceTime, start: Int64s, end: Int64s) -> tuple[Objects, Objects]:
    """Return the names of what the device ended last before these times, and of what it began first after those."""
    own = device.ran.events
    by_end, by_start = (np.argsort(times, kind="stable") for times in (own.end_ps, own.start_ps))
    before = find_last_started(own.end_ps[by_end], start)
    after = np.searchsorted(own.start_ps[by_start], end)
    return _get_names(events, own.rows, by_end, before), _get_names(events, own.rows, by_start, after)


def _get_names(events: HostEvents, rows: Int32s, order: Int64s, places: Int64s) -> Objects:
    def name(place: int) -> str | None:
        if not 0 <= place < len(order):
            return None
        meta = int(events.meta[rows[order[place]]])
        return events.display_names[meta] or events.names[meta]

    return _make_objects([name(place) for place in places.tolist()])
