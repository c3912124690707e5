"""Collective operations that devices have together: who comes last, and how long others wait.

Occurrences of an op with the same number belong together: on each device they are counted in the step, or, without
steps, over the capture. They count only if all devices have begun before any is done, on the clock of their host,
because nobody is done before the last one has come. To find what belongs together, clocks of different hosts are
compared only if these are ranks of PyTorch whose traces count from Unix epoch: there, what goes on at once belongs
together; see ranks. Who came last of several hosts follows from their clocks, as far as the meetings show these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from fastprof.derive.communication.clock_fit import Attended
from fastprof.derive.communication.clocks import Clocks, Encounters, clocks, gaps, last_rows, step_shifts
from fastprof.derive.communication.flights import NO_BYTES, Operation
from fastprof.derive.communication.host_communication import Device, HostCommunication, merged
from fastprof.derive.communication.ranks import at_once, offsets_ps
from fastprof.derive.devices.communication_kinds import Kind
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass

Groups = Sequence[Mapping[int, int]]
"""By host: the number of each step in the session, by that of its group on the host."""


@dataclass(frozen=True, slots=True)
class Attendance:
    """A row per device at a meeting."""

    meeting: Int64s
    device: Int32s
    late_ps: Int64s
    waited_ps: Int64s


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """Rows by device, op, step and begin. There are many, so numbers are narrow where they can be; ``size``: only of
    ranks of PyTorch, else empty."""

    host: Int32s
    device: Int32s
    op: Int32s
    team: Int32s
    step: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    duration_ps: Int64s
    blocks: Bools
    size: Int64s

    def take(self, rows: Int64s) -> _Occurrences:
        """These rows, which are in order."""
        if len(rows) == len(self):
            return self
        columns = (getattr(self, name) for name in self.__slots__)
        return _Occurrences(*(column[rows] if len(column) else column for column in columns))

    def __len__(self) -> int:
        return len(self.op)


class Meetings:
    """A row per meeting. ``op``: place in ``operations``; ``first``, ``last``: numbers of devices, -1: unknown;
    ``skew_ps``, ``wait_ps``: -1: unknown. ``apart``: occurrences with the same number that were not at the same time;
    ``grouped``: occurrences of ops of several groups of devices whose members are not known."""

    def __init__(
        self,
        operations: list[Operation],
        found: _Occurrences,
        number: Int64s,
        meeting: Int64s,
        count: int,
        *,
        apart: int,
        grouped: int,
    ) -> None:
        """``number``, ``meeting``: of each occurrence; ``count``: of meetings."""
        self.operations, self.apart, self.grouped = operations, apart, grouped
        rows = first_of(meeting, count)
        self.step, self.number, self.op = found.step[rows], number[rows], found.op[rows]
        self.host_count = np.bincount(_pairs(meeting, found.host), minlength=count)
        self.device_count = np.bincount(_pairs(meeting, found.device), minlength=count)
        self.shortest_ps = _least(meeting, found.duration_ps, count)
        self.longest_ps = _most(meeting, found.duration_ps, count)
        first_begin, last_begin = _least(meeting, found.begin_ps, count), _most(meeting, found.begin_ps, count)
        blocks = np.bincount(meeting[~found.blocks], minlength=count) == 0
        alone = self.host_count == 1
        self._by_host = _ByHost(found, meeting, ~alone)
        series, _ = _joined([self.op, found.team[rows], self.number])
        attended = self._by_host.attended
        self.encounters = Encounters(attended.take(blocks[attended.meeting]), self.step, series)
        waited = found.duration_ps - self.shortest_ps[meeting]
        first = _device_at(found, meeting, found.begin_ps == first_begin[meeting], count)
        last = _device_at(found, meeting, found.begin_ps == last_begin[meeting], count)
        shortest = _device_at(found, meeting, waited == 0, count)
        self.first = np.where(alone, first, -1)
        self.last = np.where(alone, last, np.where(blocks, shortest, -1))
        self.skew_ps = np.where(alone, last_begin - first_begin, -1)
        self.wait_ps = np.where(blocks, sums_by(meeting, waited, count, "times of waiting"), -1)
        late = np.where(alone[meeting], found.begin_ps - first_begin[meeting], -1)
        self.attendance = Attendance(meeting, found.device, late, np.where(blocks[meeting], waited, 0))

    def __len__(self) -> int:
        return len(self.op)

    def compare(self, seen: Clocks) -> None:
        """Find who was first and last of several hosts, if the gap to the next host is four times what their clocks may
        be off."""
        each = self._by_host
        begin = seen.fit.corrected(each.attended.host, each.attended.begin_ps)
        begin_of_first = seen.fit.corrected(each.attended.host, each.first_begin_ps)
        error = np.where(seen.known & (seen.fit.error_ps >= 0), seen.fit.error_ps, _UNSURE)[each.attended.host]
        error = _most(each.attended.meeting, error, len(self))
        last, sure = each.ahead(begin, error)
        self.last[sure] = each.last[last]
        self.skew_ps[sure] = begin[last] - _least(each.attended.meeting, begin_of_first, len(self))[sure]
        first, sure = each.ahead(-begin_of_first, error)
        self.first[sure] = each.first[first]


_UNSURE: Final = 2**59
"""An error that no gap exceeds."""


class _ByHost:
    """The hosts of meetings of several. ``first``, ``last``: devices; ``first_begin_ps``: when the first began."""

    def __init__(self, found: _Occurrences, meeting: Int64s, several: Bools) -> None:
        rows = np.flatnonzero(several[meeting])
        found, meeting = found.take(rows), meeting[rows]
        pair, most = _joined([meeting, found.host])
        used, pair = np.unique(pair, return_inverse=True) if most else (pair, pair)
        pair, count = pair.reshape(-1), len(used)
        at = first_of(pair, count)
        begin, self.first_begin_ps = _most(pair, found.begin_ps, count), _least(pair, found.begin_ps, count)
        self.last = _device_at(found, pair, found.begin_ps == begin[pair], count)
        self.first = _device_at(found, pair, found.begin_ps == self.first_begin_ps[pair], count)
        self.attended = Attended(meeting[at], found.host[at].astype(np.int64), begin, _least(pair, found.end_ps, count))

    def ahead(self, time_ps: Int64s, error_ps: Int64s) -> tuple[Int64s, Int64s]:
        """The rows that are later than all others of their meetings by more than four errors, and these meetings."""
        rows = Attended(self.attended.meeting, self.attended.host, time_ps, time_ps)
        last = last_rows(rows, len(error_ps))
        gap = gaps(rows, last)
        sure = np.flatnonzero((last >= 0) & (error_ps < _UNSURE) & (gap > 4 * np.clip(error_ps, 0, _UNSURE)))
        return last[sure], sure


def devices_of(kept: Sequence[HostCommunication]) -> list[tuple[HostCommunication, Device]]:
    """All devices, in the order of their numbers."""
    return [(host, device) for host in kept for device in host.devices]


def meetings(kept: Sequence[HostCommunication], groups: Groups) -> Meetings:
    operations, places = merged(kept)
    found, grouped = _occurrences(kept, groups, places)
    ranks = _met(found, kept)
    meeting, count, number = _matched(found) if ranks is None else ranks
    together = np.ones(count, np.bool_) if ranks is not None else _together(found, meeting, count)
    several = np.bincount(meeting, minlength=count) > 1
    apart = int((~several if ranks is not None else several & ~together)[meeting].sum())
    chosen = several & together
    rows = np.flatnonzero(chosen[meeting])
    met = found.take(rows)
    place, count = _in_order(met, meeting[rows], count), int(chosen.sum())
    return Meetings(operations, met, number[rows], place, count, apart=apart, grouped=grouped)


def compared(kept: Sequence[HostCommunication], groups: Groups) -> tuple[Meetings, Clocks | None]:
    """The meetings, and the clocks of the hosts; None: no host met another."""
    found, names = meetings(kept, groups), [one.host for one in kept]
    if not len(found.encounters.rows):
        return found, None
    seen = clocks(found.encounters, names)
    shift = step_shifts(found.encounters, seen)
    if shift.any():
        moved = [
            {group: step + more for group, step in of.items()} for of, more in zip(groups, shift.tolist(), strict=True)
        ]
        other = meetings(kept, moved)
        known = clocks(other.encounters, names, shift)
        if np.count_nonzero(known.doubtful) < np.count_nonzero(seen.doubtful):
            found, seen = other, known
    found.compare(seen)
    return found, seen


def _occurrences(
    kept: Sequence[HostCommunication], groups: Groups, places: Sequence[Int64s]
) -> tuple[_Occurrences, int]:
    """All that known groups of devices do together, of all devices; and how many occurrences are of unknown ones.
    ``places``: of the operations of each host."""
    parts: dict[str, list[Any]] = {name: [np.zeros(0, kind)] for name, kind in _COLUMNS.items()}
    grouped, sized = 0, all(one.of_torch for one in kept)
    each = [(place, at, device) for place, host in enumerate(kept) for at, device in enumerate(host.devices)]
    uneven = [np.array([one.kind is Kind.ALL_TO_ALL for one in host.operations], np.bool_) for host in kept]
    for number, (place, at, device) in enumerate(each):
        arrivals = device.arrivals
        team = kept[place].teams[at][np.searchsorted(device.operations.op, arrivals.op)]
        rows = np.flatnonzero(team >= 0)
        grouped += len(team) - len(rows)
        step = np.array([groups[place].get(group, -1) for group in arrivals.groups.tolist()], np.int64)
        step, op = step[arrivals.group], places[place][arrivals.op]
        rows = rows[np.lexsort((arrivals.begin_ps[rows], step[rows], op[rows]))]
        parts["host"].append(np.full(len(rows), place, np.int32))
        parts["device"].append(np.full(len(rows), number, np.int32))
        for name, values in (("op", op), ("team", team), ("step", step)):
            parts[name].append(values[rows].astype(_COLUMNS[name]))
        for name in ("begin_ps", "end_ps", "duration_ps", "blocks"):
            parts[name].append(getattr(arrivals, name)[rows])
        if sized:
            size = arrivals.bytes if len(arrivals.bytes) else np.full(len(op), NO_BYTES)
            parts["size"].append(np.where(uneven[place][arrivals.op], NO_BYTES, size)[rows])
    return _Occurrences(*(np.concatenate(parts.pop(name)) for name in _COLUMNS)), grouped


_COLUMNS: Final = dict(zip(_Occurrences.__slots__, "iiiiqqqq?q", strict=True))


def _met(found: _Occurrences, kept: Sequence[HostCommunication]) -> tuple[Int64s, int, Int64s] | None:
    """The same as _matched, of ranks that count from one moment. None: they do not, or their clocks disagree, as less
    than half of the collectives have others at once."""
    offsets = offsets_ps([one.zero_ns for one in kept])
    if offsets is None or not all(one.of_torch for one in kept) or not len(found):
        return None
    shift = np.array(offsets, np.int64)[found.host]
    series, _ = _joined([found.op, found.team, found.size])
    met = at_once(series, found.device, found.begin_ps + shift, found.end_ps + shift)
    count = int(met.max()) + 1
    if 2 * np.count_nonzero((np.bincount(met, minlength=count) > 1)[met]) < len(found):
        return None
    return met, count, _numbers(found)[0]


def _matched(found: _Occurrences) -> tuple[Int64s, int, Int64s]:
    """The meeting of each occurrence, how many there are, and the numbers of occurrences. These count from the first
    one, or, if more belong together then, from the last, which is -1: some devices may be captured later."""
    # without steps, occurrences on one host cannot be paired with those on another
    host = np.where(found.step < 0, found.host, -1)
    series, many = _joined([found.op, found.team, found.step, host])
    from_first, from_last = _numbers(found)
    agreed = []
    for number in (from_first, from_last):
        meeting, count = _joined([series, number])
        met = (np.bincount(meeting, minlength=count) > 1) & _together(found, meeting, count)
        agreed.append(np.bincount(series[met[meeting]], minlength=many))
    chosen = np.where((agreed[1] > agreed[0])[series], from_last, from_first) if many else from_first
    return *_joined([series, chosen]), chosen


def _numbers(found: _Occurrences) -> tuple[Int64s, Int64s]:
    """The number of each occurrence of its op on its device, in its step, counted from the first and from the last;
    rows are in order of these."""
    rows = np.arange(len(found))
    fresh = np.ones(len(found), np.bool_)
    for column in (found.device, found.op, found.step):
        fresh[1:] &= column[1:] == column[:-1]
    fresh[1:] = ~fresh[1:]
    first = np.flatnonzero(fresh)
    run = np.cumsum(fresh) - 1
    last = np.append(first[1:], len(found))
    return rows - first[run], rows - last[run]


def _joined(columns: Sequence[Int64s | Int32s]) -> tuple[Int64s, int]:
    """A number for each row, equal for equal values; some may be unused. And a bound of the numbers."""
    place, count = _encoded(columns[0])
    for column in columns[1:]:
        number, many = _encoded(column)
        place, count = _encoded(place * many + number)
    return place, count


def _encoded(values: Int64s | Int32s) -> tuple[Int64s, int]:
    """A number for each value, equal for equal ones, and a bound of the numbers, of the order of their count."""
    if not len(values):
        return values.astype(np.int64), 0
    least, most = int(values.min()), int(values.max())
    if most - least < 4 * len(values):
        return values.astype(np.int64) - least, most - least + 1
    number, count = numbered([values.astype(np.int64)])
    return number.astype(np.int64), count


def _least(place: Int64s, values: Int64s, count: int) -> Int64s:
    least = np.full(count, 2**63 - 1)
    np.minimum.at(least, place, values)
    return least


def _most(place: Int64s, values: Int64s, count: int) -> Int64s:
    most = np.full(count, -(2**63))
    np.maximum.at(most, place, values)
    return most


def _together(found: _Occurrences, meeting: Int64s, count: int) -> Bools:
    """Whether, on each host, all devices of a meeting have begun before any is done."""
    on_host, hosts = _joined([meeting, found.host])
    last_begin = _most(on_host, found.begin_ps, hosts)
    first_end = _least(on_host, found.end_ps, hosts)
    together = np.ones(count, np.bool_)
    together[meeting[(last_begin > first_end)[on_host]]] = False
    return together


def _in_order(found: _Occurrences, meeting: Int64s, count: int) -> Int64s:
    """The place of each one's meeting among all that occur, by step and then by the arrival of the first device."""
    begin = _least(meeting, found.begin_ps, count)
    step = np.zeros(count, np.int64)
    step[meeting] = found.step
    met = np.unique(meeting)
    place = np.zeros(count, np.int64)
    place[met[np.lexsort((met, begin[met], step[met]))]] = np.arange(len(met))
    return np.asarray(place[meeting])


def _pairs(meeting: Int64s, other: Int32s) -> Int64s:
    """The meeting of each distinct pair."""
    pair, count = _joined([meeting, other])
    of_pair = np.full(count, -1)
    of_pair[pair] = meeting
    return of_pair[of_pair >= 0]  # numbers of pairs may be unused


def _device_at(found: _Occurrences, meeting: Int64s, wanted: Bools, count: int) -> Int64s:
    """The first device of each meeting for which a condition holds."""
    device = np.full(count, 2**31)
    np.minimum.at(device, meeting[wanted], found.device[wanted])
    return device
