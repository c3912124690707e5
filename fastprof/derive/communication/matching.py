"""Which occurrences of collectives are one meeting, and what it was: of a block of occurrences at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.occurrences import Occurrences
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.links import numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Met:
    """``rows``: the occurrences that met, by meeting, host and device. ``first``, ``number``: of each meeting its first
    row, and the number of its occurrences. ``first_of_pair``: the first row of each pair of a meeting and a host.
    ``apart``: how many have the number of others, but were not at the same time."""

    rows: Occurrences
    first: Int64s
    number: Int64s
    first_of_pair: Int64s
    apart: int


def matched(found: Occurrences) -> Met:
    """Numbers count from the first occurrence, or, if more belong together then, from the last, which is -1: some
    devices may be captured later."""
    # without steps, occurrences on one host cannot be paired with those on another
    host = np.where(found.step < 0, found.host, -1)
    series, many = joined([found.op, found.team, found.step, host])
    number, from_last = _numbers(found)
    grouped = _Grouped(found, *joined([series, number]))
    if (number - from_last != (number - from_last)[:1]).any():  # else both numbers pair the same
        other = _Grouped(found, *joined([series, from_last]))
        late = other.agreed(series, many) > grouped.agreed(series, many)
        if late.any():
            number = np.where(late[series], from_last, number)
            grouped = _Grouped(found, *joined([series, number]))
    several = grouped.many > 1
    return grouped.met(found, number, several & grouped.together, several & ~grouped.together)


def of_meetings(found: Occurrences, meeting: Int64s) -> Met:
    """The same, if it is known what belongs together. ``meeting``: the number of each occurrence's, from 0."""
    grouped = _Grouped(found, meeting, int(meeting.max(initial=-1)) + 1)
    return grouped.met(found, _numbers(found)[0], grouped.many > 1, grouped.many == 1)


class _Grouped:
    """Occurrences by meeting, host and device. ``order``: their rows; ``first``, ``many``: of each meeting the first of
    these, and how many there are; ``together``: whether, on each host, all devices have begun before any is done."""

    def __init__(self, found: Occurrences, meeting: Int64s, count: int) -> None:
        self.order = np.argsort(meeting.astype(np.uint16) if count <= FEW else meeting, kind="stable")
        fresh = _changes(meeting[self.order])
        self.first = np.flatnonzero(fresh)
        self.many = np.diff(np.append(self.first, len(self.order)))
        pairs = np.flatnonzero(fresh | _changes(found.host[self.order]))
        apart = _most(found.begin_ps[self.order], pairs) > _least(found.end_ps[self.order], pairs)
        self.together = np.ones(len(self.first), np.bool_)
        self.together[np.searchsorted(self.first, pairs[apart], side="right") - 1] = False

    def agreed(self, series: Int64s, count: int) -> Int64s:
        """How many occurrences of each series meet others."""
        met = np.where(self.together & (self.many > 1), self.many, 0)
        return sums_by(series[self.order[self.first]], met, count)

    def met(self, found: Occurrences, number: Int64s, chosen: Bools, apart: Bools) -> Met:
        many = self.many[chosen]
        rows = found.take(self.order if chosen.all() else self.order[np.repeat(chosen, self.many)])
        first = np.cumsum(many) - many
        fresh = _changes(rows.host)
        fresh[first] = True
        of_first = number[self.order[self.first[chosen]]]
        return Met(rows, first, of_first, np.flatnonzero(fresh), int(self.many[apart].sum()))


FEW: Final = 1 << 16
"""Up to this limit, numbers are sorted digit by digit."""


def _numbers(found: Occurrences) -> tuple[Int64s, Int64s]:
    """The number of each occurrence of its op on its device, in its step, counted from the first and from the last."""
    first = np.flatnonzero(_changes(found.device) | _changes(found.op) | _changes(found.step))
    many = np.diff(np.append(first, len(found)))
    from_first = np.arange(len(found)) - np.repeat(first, many)
    return from_first, from_first - np.repeat(many, many)


def _changes(values: npt.NDArray[Any]) -> Bools:
    """Where each stretch of equal values begins."""
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return fresh


def joined(columns: Sequence[Int64s | Int32s]) -> tuple[Int64s, int]:
    """A number for each row, equal for equal values; some may be unused. And a bound of the numbers."""
    place, count = _encoded(columns[0])
    for column in columns[1:]:
        number, many = _encoded(column)
        if many > 1:
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


# ---- what meetings were


class Block:
    """Meetings of a block. By meeting: ``op``, ``team``, ``step``, ``number``, ``host_count``, ``device_count``,
    ``begin_ps``, when the first device came; ``first``, ``last``: numbers of devices, -1: unknown; ``skew_ps``,
    ``wait_ps``: -1: unknown. ``blocks``: nothing else hides it. ``of_hosts``: of meetings of several hosts."""

    def __init__(self, met: Met) -> None:
        rows, first = met.rows, met.first
        self.op, self.team, self.step, self.number = rows.op[first], rows.team[first], rows.step[first], met.number
        self.device_count = np.diff(np.append(first, len(rows)))
        self.host_count = np.diff(np.append(np.searchsorted(met.first_of_pair, first), len(met.first_of_pair)))
        self.begin_ps, last_begin = _least(rows.begin_ps, first), _most(rows.begin_ps, first)
        self.shortest_ps, self.longest_ps = _least(rows.duration_ps, first), _most(rows.duration_ps, first)
        hidden = np.searchsorted(first, np.flatnonzero(~rows.blocks), side="right") - 1
        self.blocks = np.ones(len(first), np.bool_)
        self.blocks[hidden] = False
        alone = self.host_count == 1
        meeting = np.repeat(np.arange(len(first)), self.device_count)
        waited = rows.duration_ps - self.shortest_ps[meeting]
        shortest = rows.device[_first_where(waited == 0, first)]
        self.first = np.where(alone, rows.device[_first_where(rows.begin_ps == self.begin_ps[meeting], first)], -1)
        last = rows.device[_first_where(rows.begin_ps == last_begin[meeting], first)]
        self.last = np.where(alone, last, np.where(self.blocks, shortest, -1))
        self.skew_ps = np.where(alone, last_begin - self.begin_ps, -1)
        self.wait_ps = np.where(self.blocks, sums_by(meeting, waited, len(first), "times of waiting"), -1)
        self.of_hosts = OfHosts(met, meeting, ~alone)
        self.device = rows.device
        self.late_ps = np.where(alone[meeting], rows.begin_ps - self.begin_ps[meeting], -1)
        self.waited_ps = np.where(self.blocks[meeting], waited, 0)


class OfHosts:
    """A row per host at a meeting of several, by meeting and host. ``begin_ps``: when the last of its devices began;
    ``end_ps``: when the first was done; ``first``, ``last``: devices; ``first_begin_ps``: when the first began;
    ``shows``: the device that was done first waited until then."""

    def __init__(self, met: Met, meeting: Int64s, several: Bools) -> None:
        rows, pairs = met.rows, met.first_of_pair
        if not several.any():
            rows, pairs, meeting = rows.take(slice(0, 0)), pairs[:0], meeting[:0]
        begin, first_begin, end = _most(rows.begin_ps, pairs), _least(rows.begin_ps, pairs), _least(rows.end_ps, pairs)
        many = np.diff(np.append(pairs, len(rows)))
        last = rows.device[_first_where(rows.begin_ps == np.repeat(begin, many), pairs)]
        first = rows.device[_first_where(rows.begin_ps == np.repeat(first_begin, many), pairs)]
        chosen = several[meeting[pairs]] if len(pairs) else np.zeros(0, np.bool_)
        self.meeting, self.host = meeting[pairs][chosen], rows.host[pairs][chosen]
        self.begin_ps, self.first_begin_ps, self.end_ps = begin[chosen], first_begin[chosen], end[chosen]
        self.first, self.last = first[chosen], last[chosen]
        done = _first_where(rows.end_ps == np.repeat(end, many), pairs)
        shows = rows.blocks[done] | rows.waited[done] if len(rows.waited) else rows.blocks[done]
        self.shows = shows[chosen]


def _least(values: Int64s, first: Int64s) -> Int64s:
    """Of each stretch; ``first``: where they begin."""
    return np.minimum.reduceat(values, first) if len(first) else values[:0]


def _most(values: Int64s, first: Int64s) -> Int64s:
    return np.maximum.reduceat(values, first) if len(first) else values[:0]


def _first_where(wanted: Bools, first: Int64s) -> Int64s:
    """The first row of each stretch for which a condition holds, as it does for one."""
    rows = np.flatnonzero(wanted)
    return rows[np.searchsorted(rows, first)]
