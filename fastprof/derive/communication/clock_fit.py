"""How the clocks of hosts differ, from collectives in which they met: nobody is done before the last has begun, and all
are done at nearly the same time.

    host a   |...........|==| 20          ends at 20 on its clock, the next at 50
    host b   |=======| 17    ...  |==| 47
    offset   b + 3 = a, each time; what is left over shows how sure that is

Times are int64. The fit is in floats of differences: of the ends of one meeting, which are within what is left over,
and of meetings to the middle one, whose multiples with a drift are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass

MOST_DRIFT: Final = 50e-6
"""Of clocks of computers against each other. A drift that the ends show no better is not fitted."""
_WILD: Final = 0.5
"""Larger drifts are of stamps that are damaged."""
FEWEST: Final = 8
"""Meetings of a host from which on the spread of its ends shows an error."""
MOST_FITTED: Final = 512
"""Meetings of a host that are fitted, about; all of them bound it."""
_MOST_ROWS: Final = 1 << 20
"""Of all hosts together: of more than 2,048 hosts, fewer meetings of each are fitted."""
_NORMAL: Final = 1.4826
"""The standard deviation of normal errors, by their median size; the error of a median is 1.25 times that of a mean."""
_OF_MEDIAN: Final = 1.25
_OF_FEW: Final = 1.35
"""The variance of the median of n normal values is about this / n; of one or two, it is 1 / n."""
_HUBER: Final = 1.5
_ROUNDS, _ENOUGH_PS = 100, 1000.0
_FAR: Final = 2**62
_GOLDEN: Final = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Attended:
    """A row per host at a meeting of several hosts: when the last of its devices began and the first was done, by its
    own clock."""

    meeting: Int64s
    host: Int64s
    begin_ps: Int64s
    end_ps: Int64s

    def take(self, rows: Int64s | Bools) -> Attended:
        if rows.dtype == np.bool_ and rows.all():
            return self  # there are many
        return Attended(*(getattr(self, name)[rows] for name in self.__slots__))

    def __len__(self) -> int:
        return len(self.host)


@dataclass(frozen=True, slots=True)
class Fit:
    """By host. ``part``: hosts that met, directly or through others, -1: it met none; ``reference``: the host whose
    clock counts in the part. ``offset_ps`` is added to what the clock shows at ``at_ps``, to have the time of the
    reference; the clock gains ``drift`` on it. ``error_ps``: standard error at the worst of the meetings;
    ``bound_ps``: no more is possible, -1: unknown; ``residual_ps``: the standard deviation of its ends."""

    part: Int64s
    reference: Int64s
    offset_ps: Int64s
    at_ps: Int64s
    drift: Float64s
    error_ps: Int64s
    bound_ps: Int64s
    residual_ps: Int64s

    def corrected(self, host: Int64s, time_ps: Int64s) -> Int64s:
        """Times of hosts by the clock of their reference."""
        drift = self.drift[host]
        gained = np.rint((time_ps - self.at_ps[host]) * (drift / (1 + drift))).astype(np.int64)
        return np.asarray(time_ps + self.offset_ps[host] - gained)


def fit(rows: Attended, count: int, every: Attended | None = None) -> Fit:
    """The clocks of ``count`` hosts; the reference of each part is its first host. Rows in any order. ``every``: these,
    and rows with ends that may be late, which only bound the clocks; None: there are no such rows."""
    rows = in_order(rows)
    meetings = int(rows.meeting.max()) + 1 if len(rows) else 0
    reference = _references(rows, count, meetings)
    some = _some(rows, meetings, max(min(MOST_FITTED, _MOST_ROWS // max(count, 1)), 1))
    offset, parent, shared = _start(some, reference, meetings)
    line = _Line(some, offset, reference)
    line.fit()
    bounding = rows if every is None else _in_parts(every, rows, reference)
    return _fitted(rows, bounding, line, offset, reference, _Way(parent, shared))


def _in_parts(every: Attended, rows: Attended, reference: Int64s) -> Attended:
    """The rows of meetings whose hosts are all of one part."""
    part = np.where(np.bincount(rows.host, minlength=len(reference)) > 0, reference, -1)[every.host]
    count = int(every.meeting.max(initial=-1)) + 1
    least, most = _least(every.meeting, part, count), _most(every.meeting, part, count)
    return every.take(((least == most) & (least >= 0))[every.meeting])


def in_order(rows: Attended) -> Attended:
    """By host, begin and end."""
    ordered = True
    for first in range(0, len(rows), _STRETCH):  # there are many
        host, begin, end = (
            getattr(rows, name)[first : first + _STRETCH + 1] for name in ("host", "begin_ps", "end_ps")
        )
        same = host[1:] == host[:-1]
        later = (begin[1:] > begin[:-1]) | ((begin[1:] == begin[:-1]) & (end[1:] >= end[:-1]))
        ordered &= bool((np.where(same, later, host[1:] > host[:-1])).all())
    return rows if ordered else rows.take(np.lexsort((rows.end_ps, rows.begin_ps, rows.host)))


_STRETCH: Final = 1 << 16


# ---- who meets whom


def _references(rows: Attended, count: int, meetings: int) -> Int64s:
    """By host the first host of its part."""
    label = np.arange(count)
    while True:
        least = _least(rows.meeting, label[rows.host], meetings)
        new = label.copy()
        np.minimum.at(new, rows.host, least[rows.meeting])
        if (new == label).all():
            return label
        label = new[new]


def _some(rows: Attended, meetings: int, most: int) -> Attended:
    """Rows of enough meetings, about ``most`` of each host: those that one of the hosts has chosen, at even intervals
    that no pattern repeats."""
    if meetings <= most:
        return rows
    first = np.searchsorted(rows.host, rows.host)
    count = np.bincount(rows.host)[rows.host] if len(rows) else first
    place = np.arange(len(rows)) - first
    chosen = (place * _GOLDEN) % 1.0 * count < most
    wanted = np.zeros(meetings, np.bool_)
    wanted[rows.meeting[chosen]] = True
    return rows.take(wanted[rows.meeting])


@dataclass(frozen=True, slots=True)
class _Way:
    """How hosts are compared with their references: by host one that is nearer to it, itself: it is the reference; and
    the number of meetings with such hosts."""

    parent: Int64s
    shared: Int64s

    def errors(self, own: Float64s, many: Int64s) -> Float64s:
        """Errors against the reference: those of all hosts between are independent. ``own``: of a host that attended
        ``many`` meetings."""
        square = own**2 * many
        of_pair = (square + square[self.parent]) / np.maximum(self.shared, 1)
        total, at = np.zeros(len(own)), np.arange(len(own))
        while (at != self.parent[at]).any():
            total += np.where(at != self.parent[at], of_pair[at], 0)
            at = self.parent[at]
        return np.sqrt(total)


def _start(rows: Attended, reference: Int64s, meetings: int) -> tuple[Int64s, Int64s, Int64s]:
    """What the clock of each host shows beyond its reference, about: the median over meetings with hosts that are
    nearer to it; and the way there: see _Way."""
    count = len(reference)
    offset, parent, shared = np.zeros(count, np.int64), np.arange(count), np.zeros(count, np.int64)
    known = reference == parent
    while True:
        of_known = known[rows.host]
        nearest = _least(rows.meeting[of_known], rows.host[of_known], meetings)
        end = np.zeros(meetings, np.int64)
        is_nearest = rows.host == nearest[rows.meeting]
        end[rows.meeting[is_nearest]] = (rows.end_ps - offset[rows.host])[is_nearest]
        new = np.flatnonzero(~of_known & (nearest < _FAR)[rows.meeting])
        if not len(new):
            return offset, parent, shared
        host, meeting = rows.host[new], rows.meeting[new]
        parent[host] = _least(host, nearest[meeting], count)[host]
        shared += np.bincount(host, minlength=count)
        offset[host] = medians(host, rows.end_ps[new] - end[meeting], count)[host]
        known[host] = True


def start_of(rows: Attended, reference: Int64s, meetings: int) -> Int64s:
    """The same, without the way."""
    return _start(rows, reference, meetings)[0]


def _least(place: Int64s, values: Int64s, count: int) -> Int64s:
    least = np.full(count, _FAR)
    np.minimum.at(least, place, values)
    return least


def _most(place: Int64s, values: Int64s, count: int) -> Int64s:
    return -_least(place, -values, count)


def medians(place: Int64s, values: Int64s, count: int) -> Int64s:
    """The lower of the two in the middle."""
    order = np.lexsort((values, place))
    many = np.bincount(place, minlength=count)
    first = np.cumsum(many) - many
    at = np.minimum(first + (many - 1) // 2, max(len(order) - 1, 0))
    return np.where(many > 0, values[order][at], 0) if len(order) else np.zeros(count, np.int64)


def of_others(meeting: Int64s, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Int64s]:
    """The median of the other hosts of each row's meeting, itself if there are none; and how many hosts attended."""
    return median_of_others(meeting, values), np.bincount(meeting)[meeting]


def median_of_others(meeting: Int64s, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In a meeting, it is one value for the low hosts, one for the high ones, and one for the host in the middle:

    values    1   2   4   8   9          place of the middle: 2
    others    6   6   5   3   3          of 2, 4, 8, 9: (4 + 8) / 2; of 1, 2, 8, 9: (2 + 8) / 2
    """
    order = np.lexsort((values, meeting))
    ordered = values[order]
    many = np.bincount(meeting)
    many = many[many > 0]
    first = np.cumsum(many) - many
    low, high = np.maximum(many - 2, 0) // 2, (many - 1) // 2
    below, above = ([ordered[first + np.minimum(middle + more, many - 1)] for more in (0, 1)] for middle in (low, high))
    parts = [_between(below[1], above[1]), _between(below[0], above[1]), _between(below[0], above[0])]
    counts = np.column_stack([low + 1, high - low, many - high - 1])
    ordered = np.repeat(np.column_stack(parts).ravel(), counts.ravel())
    value = np.empty_like(values)
    value[order] = ordered
    return value


def _between(low: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[Any]:
    apart = high - low
    return np.asarray(low + (apart // 2 if low.dtype.kind == "i" else apart / 2))


class _Middle:
    """Medians of floats by place, which stays."""

    def __init__(self, place: Int64s, count: int) -> None:
        self.place, self.many = place, np.bincount(place, minlength=count)
        first = np.cumsum(self.many) - self.many
        last = max(len(place) - 1, 0)
        self._low = np.minimum(first + np.maximum(self.many - 1, 0) // 2, last)
        self._high = np.minimum(first + self.many // 2, last)

    def of(self, values: Float64s) -> Float64s:
        ordered = values[np.lexsort((values, self.place))]
        return np.asarray((ordered[self._low] + ordered[self._high]) / 2)


# ---- offset and drift


class _Line:
    """Robust lines through the ends of each host: ``offset`` beyond where it started, and ``drift``."""

    def __init__(self, rows: Attended, start: Int64s, reference: Int64s) -> None:
        self.host, self.reference, self.count = rows.host, reference, len(reference)
        met, meeting = np.unique(rows.meeting, return_inverse=True)
        self.meeting = meeting.reshape(-1)
        about = rows.end_ps - start[rows.host]
        base = _least(self.meeting, about, len(met))
        of_meeting = np.zeros(len(met), np.int64)
        of_meeting[self.meeting] = reference[rows.host]
        self.middle_ps = medians(of_meeting, base, self.count)  # by reference
        self._beyond = (about - base[self.meeting]).astype(np.float64)
        self._when = (base - self.middle_ps[of_meeting]).astype(np.float64)
        self._of_meetings, self._of_hosts = _Middle(self.meeting, len(met)), _Middle(self.host, self.count)
        self.many = self._of_hosts.many
        self.offset, self.drift = np.zeros(self.count), np.zeros(self.count)
        self.drifts = self.many >= FEWEST

    def fit(self) -> None:
        if not len(self.host):
            self.time, self.sigma, self.spread = np.zeros(0), np.zeros(self.count), np.zeros(self.count)
            return
        self._repeat()
        self.sigma = self._deviation()
        with np.errstate(divide="ignore", invalid="ignore"):
            unsure = _OF_MEDIAN * self.sigma / np.sqrt(self.many * self.spread) > MOST_DRIFT
        unsure |= self.spread == 0
        if (unsure & self.drifts).any():
            self.drifts &= ~unsure
            self.drift[~self.drifts] = 0
            self._repeat()
            self.sigma = self._deviation()

    def _repeat(self) -> None:
        """Until lines stay as they are: where hosts meet in groups, what one shows spreads from group to group."""
        for _ in range(_ROUNDS):
            before, before_drift = self.offset, self.drift
            self._round()
            far = np.abs(self.time).max()
            if max(np.abs(self.offset - before).max(), np.abs(self.drift - before_drift).max() * far) < _ENOUGH_PS:
                break

    def _round(self) -> None:
        host, when = self.host, self._when[self.meeting]
        left = (self._beyond - self.offset[host] - self.drift[host] * when) / (1 + self.drift[host])
        middle = self._of_meetings.of(left)[self.meeting]
        time, late = when + middle, self._beyond - middle
        residual = np.abs(late - self.offset[host] - self.drift[host] * time)
        scale = _NORMAL * self._of_hosts.of(residual)
        limit = (_HUBER * scale)[host]
        weight = np.where(residual <= limit, 1.0, limit / np.maximum(residual, 1e-9))
        total = np.maximum(self._sum(weight), 1e-9)
        mean_time, mean_late = self._sum(weight * time) / total, self._sum(weight * late) / total
        away = time - mean_time[host]
        spread = self._sum(weight * away * away)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = self._sum(weight * away * (late - mean_late[host])) / spread
        drift = np.where(self.drifts & (spread > 0), np.clip(slope, -_WILD, _WILD), 0.0)
        offset = mean_late - drift * mean_time
        self.drift = np.clip(drift - drift[self.reference], -_WILD, _WILD)
        self.offset = offset - offset[self.reference]
        self.drift[~self.drifts] = 0
        self.time, self._left = time, left
        self.spread = spread / total
        self.away = away

    def _deviation(self) -> Float64s:
        """The standard deviation of ends of each host, by their distance to the median of the other hosts, which has an
        error itself. To the median of all hosts, one in three is none if three meet."""
        others, joined = of_others(self.meeting, self._left)
        mine = np.maximum(joined - 1, 1)
        variance = 1 + np.where(mine < 3, 1, _OF_FEW) / mine
        return np.asarray(_NORMAL * self._of_hosts.of(np.abs(self._left - others) / np.sqrt(variance)))

    def _sum(self, values: Float64s) -> Float64s:
        return np.bincount(self.host, values, self.count).astype(np.float64)

    def error(self) -> Float64s:
        """Of each line by itself, at the meeting that is furthest from the middle."""
        most = np.zeros(self.count)
        if len(self.host):
            np.maximum.at(most, self.host, np.abs(self.away))
        root = np.sqrt(np.maximum(self.many, 1))
        mean = _OF_MEDIAN * self.sigma * (1 + 1 / root) / root  # the deviation is not known better than by its root
        with np.errstate(divide="ignore", invalid="ignore"):
            leaned = mean * np.sqrt(1 + most * most / self.spread)
        return np.where(self.drifts & (self.spread > 0), leaned, mean + MOST_DRIFT * most)


# ---- errors and bounds


def _fitted(rows: Attended, bounding: Attended, line: _Line, start: Int64s, reference: Int64s, way: _Way) -> Fit:
    hosts = np.arange(len(reference))
    shown = np.rint(line.offset).astype(np.int64)
    met = np.bincount(rows.host, minlength=len(hosts)) > 0
    _, part = np.unique(reference[met], return_inverse=True)
    parts = np.full(len(hosts), -1, np.int64)
    parts[met] = part.reshape(-1)
    at = start + line.middle_ps[reference] + shown if len(rows) else start
    raw = Fit(parts, reference, -(start + shown), at, line.drift, shown, shown, shown)
    bound = _bounds(bounding, raw, int(bounding.meeting.max(initial=-1)) + 1)
    margin = 3 * (line.sigma + line.sigma[reference])
    bound = np.where(hosts == reference, 0, np.where(bound >= _FAR // 2, -1, bound + np.ceil(margin).astype(np.int64)))
    error = np.ceil(way.errors(line.error(), line.many)).astype(np.int64)
    few = (line.many < FEWEST) & (hosts != reference)
    error = np.where(few, bound, error)
    return Fit(parts, reference, raw.offset_ps, at, line.drift, error, bound, np.ceil(line.sigma).astype(np.int64))


def _bounds(rows: Attended, raw: Fit, meetings: int) -> Int64s:
    """How far the clock of each host may be from where it is put, if nobody is done before the last has begun: at most
    what it takes from the begin of one host to the end of another, in both directions, over hosts between."""
    begin, end = raw.corrected(rows.host, rows.begin_ps), raw.corrected(rows.host, rows.end_ps)
    last, first = _most(rows.meeting, begin, meetings), _least(rows.meeting, end, meetings)
    agrees = (last <= first)[rows.meeting]
    rows, begin, end = rows.take(agrees), begin[agrees], end[agrees]
    hosts = np.arange(len(raw.reference))
    start = np.where(hosts == raw.reference, 0, _FAR)
    # begin of g less its bound <= end of h less that of h
    above = _spread(
        start, rows, lambda bound: end - _most(rows.meeting, begin - bound[rows.host], meetings)[rows.meeting]
    )
    below = _spread(
        start, rows, lambda bound: _least(rows.meeting, end + bound[rows.host], meetings)[rows.meeting] - begin
    )
    return np.maximum(above, below)


def _spread(bound: Int64s, rows: Attended, limits: Callable[[Int64s], Int64s]) -> Int64s:
    """Bounds that hosts pass on to those that they meet, until none becomes lower."""
    for _ in range(_ROUNDS):
        new, limit = bound.copy(), limits(bound)
        np.minimum.at(new, rows.host, np.where(limit < _FAR // 2, limit, _FAR))
        if (new == bound).all():
            break
        bound = new
    return bound
