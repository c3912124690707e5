"""Collective operations that devices have together: who comes last, and how long others wait.

Occurrences of an op with the same number belong together: on each device they are counted in the step, or, without
steps, over the capture. They count only if all devices have begun before any is done, on the clock of their host,
because nobody is done before the last one has come. To find what belongs together, clocks of different hosts are
compared only if these are ranks of PyTorch whose traces count from Unix epoch: there, what goes on at once belongs
together; see ranks. Who came last of several hosts follows from their clocks, as far as the meetings show these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.clock_fit import Attended
from fastprof.derive.communication.clocks import Clocks, Encounters, clocks, gaps, last_rows, step_shifts
from fastprof.derive.communication.flights import Operation
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.communication.matching import Block, Met, joined, matched, of_meetings
from fastprof.derive.communication.operation_sums import Merged
from fastprof.derive.communication.ranks import at_once, offsets_ps
from fastprof.derive.communication.session_arrivals import SessionArrivals
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Int32s, Int64s


class Attendance:
    """By device: the meetings that it took part in, how late it came after the first device, -1: some are of several
    hosts, and how long it waited."""

    def __init__(self, devices: int) -> None:
        self.meetings, self.late_ps, self.waited_ps = np.zeros((3, devices), np.int64)
        self._unknown = np.zeros(devices, np.bool_)

    def add(self, block: Block) -> None:
        count = len(self.meetings)
        late_ps = np.maximum(block.late_ps, 0)
        self.meetings += np.bincount(block.device, minlength=count)
        self.late_ps = _added(self.late_ps, block.device, late_ps)
        self.waited_ps = _added(self.waited_ps, block.device, block.waited_ps)
        self._unknown[block.device[block.late_ps < 0]] = True

    def done(self) -> None:
        self.late_ps[self._unknown] = -1


def _added(sums: Int64s, device: Int32s, values: Int64s) -> Int64s:
    """The sums with these; values are not negative, so that sums that do not fit into 64 bits are an error."""
    places = np.arange(len(sums), dtype=np.int32)
    return sums_by(np.concatenate([places, device]), np.concatenate([sums, values]), len(sums))


_COLUMNS: Final = {
    "step": np.int64, "number": np.int64, "op": np.int32, "team": np.int32, "begin_ps": np.int64,
    "host_count": np.int64, "device_count": np.int64, "shortest_ps": np.int64, "longest_ps": np.int64,
    "first": np.int64, "last": np.int64, "skew_ps": np.int64, "wait_ps": np.int64, "blocks": np.bool_,
}  # fmt: skip
_OF_HOSTS: Final = {
    "meeting": np.int32, "host": np.int32, "first": np.int32, "last": np.int32, "begin_ps": np.int64,
    "end_ps": np.int64, "first_begin_ps": np.int64, "shows": np.bool_,
}  # fmt: skip


class Meetings:
    """A row per meeting, by step and then by the arrival of the first device. ``op``: place in ``operations``;
    ``first``, ``last``: numbers of devices, -1: unknown; ``skew_ps``, ``wait_ps``: -1: unknown. ``apart``: occurrences
    with the same number that were not at the same time; ``grouped``: occurrences of ops of several groups of devices
    whose members are not known; ``compared``: the steps that they are of, None: all."""

    def __init__(
        self, operations: list[Operation], found: Iterable[Met], devices: int, grouped: int, compared: Int64s | None
    ) -> None:
        self.operations, self.grouped, self.apart, self.compared = operations, grouped, 0, compared
        self.attendance = Attendance(devices)
        columns: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, kind)] for name, kind in _COLUMNS.items()}
        of_hosts: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, kind)] for name, kind in _OF_HOSTS.items()}
        many = 0
        for met in found:
            self.apart += met.apart
            block = Block(met)
            self.attendance.add(block)
            for name, parts in columns.items():
                parts.append(getattr(block, name).astype(_COLUMNS[name], copy=False))
            block.of_hosts.meeting += many
            for name, parts in of_hosts.items():
                parts.append(getattr(block.of_hosts, name).astype(_OF_HOSTS[name], copy=False))
            many += len(block.op)
        self.attendance.done()
        of = {name: np.concatenate(columns.pop(name)) for name in _COLUMNS}
        order = np.lexsort((of["begin_ps"], of["step"]))
        self.step, self.number, self.op = of["step"][order], of["number"][order], of["op"][order]
        self.host_count, self.device_count = of["host_count"][order], of["device_count"][order]
        self.shortest_ps, self.longest_ps = of["shortest_ps"][order], of["longest_ps"][order]
        self.first, self.last = of["first"][order], of["last"][order]
        self.skew_ps, self.wait_ps = of["skew_ps"][order], of["wait_ps"][order]
        series, _ = joined([self.op, of["team"][order], self.number])
        self._hosts = _Hosts({name: np.concatenate(of_hosts.pop(name)) for name in _OF_HOSTS}, order)
        attended = self._hosts.attended
        blocks = of["blocks"][order]
        if blocks.all():
            self.encounters = Encounters(attended, self.step, series)
        else:
            rows = attended.take(self._hosts.shows)
            rows = rows.take((np.bincount(rows.meeting, minlength=len(blocks)) > 1)[rows.meeting])
            self.encounters = Encounters(rows, self.step, series, attended, blocks)

    def __len__(self) -> int:
        return len(self.op)

    def compare(self, seen: Clocks) -> None:
        """Find who was first and last of several hosts, if the gap to the next host is four times what their clocks may
        be off. Nobody is, of hosts that do not count their collectives alike: what seems to be one collective is none.
        What is known of hosts is forgotten then, because there is much of it."""
        each = self._hosts
        begin = seen.fit.corrected(each.attended.host, each.attended.begin_ps)
        begin_of_first = seen.fit.corrected(each.attended.host, each.first_begin_ps)
        error = np.where(seen.known & (seen.fit.error_ps >= 0), seen.fit.error_ps, _UNSURE)[each.attended.host]
        error = _most(each.attended.meeting, error, len(self))
        last, sure = each.ahead(begin, error)
        self.last[sure] = each.last[last]
        self.skew_ps[sure] = begin[last] - _least(each.attended.meeting, begin_of_first, len(self))[sure]
        first, sure = each.ahead(-begin_of_first, error)
        self.first[sure] = each.first[first]
        apart = (seen.fit.part >= 0) & (seen.fit.error_ps >= 0) & ~seen.known
        apart_in = _most(each.attended.meeting, apart[each.attended.host].astype(np.int64), len(self)) > 0
        self.first[apart_in], self.last[apart_in] = -1, -1
        del self._hosts, self.encounters


_UNSURE: Final = 2**59
"""An error that no gap exceeds."""


class _Hosts:
    """The hosts of meetings of several. ``first``, ``last``, ``first_begin_ps``, ``shows``: as in OfHosts."""

    def __init__(self, of: dict[str, npt.NDArray[Any]], order: Int64s) -> None:
        """``of``: by columns of OfHosts, by meeting; ``order``: of these meetings."""
        many = np.bincount(of["meeting"], minlength=len(order))
        first, own = (np.cumsum(many) - many)[order], many[order]
        rows = np.repeat(first - (np.cumsum(own) - own), own)
        rows += np.arange(len(rows))
        meeting = np.repeat(np.arange(len(order)), own)
        del of["meeting"]
        taken = {name: of.pop(name)[rows] for name in [*of]}  # one by one, because there are many
        self.first, self.last, self.first_begin_ps = taken["first"], taken["last"], taken["first_begin_ps"]
        self.shows = taken["shows"]
        self.attended = Attended(meeting, taken["host"].astype(np.int64), taken["begin_ps"], taken["end_ps"])

    def ahead(self, time_ps: Int64s, error_ps: Int64s) -> tuple[Int64s, Int64s]:
        """The rows that are later than all others of their meetings by more than four errors, and these meetings."""
        rows = Attended(self.attended.meeting, self.attended.host, time_ps, time_ps)
        last = last_rows(rows, len(error_ps))
        gap = gaps(rows, last)
        sure = np.flatnonzero((last >= 0) & (error_ps < _UNSURE) & (gap > 4 * np.clip(error_ps, 0, _UNSURE)))
        return last[sure], sure


def meetings(
    kept: Sequence[HostCommunication],
    operations: Merged,
    arrivals: SessionArrivals,
    shift: Int64s | None = None,
) -> Meetings:
    ranks = _of_ranks(arrivals, kept)
    found = map(matched, arrivals.blocks(shift)) if ranks is None else [ranks]
    devices = sum(len(one.devices) for one in kept)
    grouped = sum(one.arrivals.grouped for one in kept)
    return Meetings(operations.every, found, devices, grouped, arrivals.compared(shift))


def compared(
    kept: Sequence[HostCommunication], operations: Merged, arrivals: SessionArrivals
) -> tuple[Meetings, Clocks | None]:
    """The meetings, and the clocks of the hosts; None: no host met another. The hosts in ``kept`` need not have their
    arrivals."""
    found, names = meetings(kept, operations, arrivals), [one.host for one in kept]
    seen = clocks(found.encounters, names) if len(found.encounters.rows) else None
    shift = step_shifts(found.encounters, seen) if seen is not None else np.zeros(0, np.int64)
    if seen is not None and shift.any():
        other = meetings(kept, operations, arrivals, shift)
        known = clocks(other.encounters, names, shift)
        if np.count_nonzero(known.doubtful) < np.count_nonzero(seen.doubtful):
            found, seen = other, known
    if seen is not None:
        found.compare(seen)
    return found, seen


def _of_ranks(arrivals: SessionArrivals, kept: Sequence[HostCommunication]) -> Met | None:
    """Of ranks that count from one moment. None: they do not, or their clocks disagree, as less than half of the
    collectives have others at once."""
    offsets = offsets_ps([one.zero_ns for one in kept])
    if offsets is None or not all(one.of_torch for one in kept):
        return None
    found = arrivals.all_at_once()
    if not len(found):
        return None
    shift = np.array(offsets, np.int64)[found.host]
    series, _ = joined([found.op, found.team, found.size])
    met = at_once(series, found.device, found.begin_ps + shift, found.end_ps + shift)
    if 2 * np.count_nonzero((np.bincount(met) > 1)[met]) < len(found):
        return None
    return of_meetings(found, met)


def _least(place: Int64s, values: Int64s, count: int) -> Int64s:
    least = np.full(count, 2**63 - 1)
    np.minimum.at(least, place, values)
    return least


def _most(place: Int64s, values: Int64s, count: int) -> Int64s:
    most = np.full(count, -(2**63))
    np.maximum.at(most, place, values)
    return most
