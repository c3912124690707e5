"""The clocks of a session's hosts against each other, from collectives in which they met: nobody is done before the
last has begun, and all are done at nearly the same time.

    host a   |...........|==| 20          ends at 20 on its clock, the next at 50
    host b   |=======| 17    ...  |==| 47
    offset   b + 3 = a, each time; what is left over shows how sure that is

Times are int64. The fit is in floats of differences: of the ends of one meeting, which are within what is left over,
and of meetings to the middle one, whose multiples with a drift are small.

If a host counts its steps from another one on than the others, its ends scatter by what steps differ in length:

    recorded   step 0 | step 1 | step 2        the right shift is that of 1 to 3 steps, in either direction,
    host b              step 0 | step 1        with which the ends scatter far less
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.schema.columns import Bools, Float64s, Int64s, find_equal, number_values, sort_rows
from fastprof.schema.value_classes import dataclass

MOST_DRIFT: Final = 50e-6
"""Largest usual drift between computer clocks. A drift that the ends do not show more precisely is not fitted."""
_WILD: Final = 0.5
"""Bound of drifts: larger ones come from damaged stamps."""
FEWEST: Final = 8
"""Fewest meetings of a host from which the spread of its ends shows an error."""
MOST_FITTED: Final = 512
"""Approximate number of meetings of a host that are fitted; all of them bound its clock."""
_MOST_ROWS: Final = 1 << 20
"""Bound over all hosts together: with more than 2,048 hosts, fewer meetings of each are fitted."""
_NORMAL: Final = 1.4826
"""The standard deviation of normal errors, by their median size; the error of a median is 1.25 times that of a mean."""
_OF_MEDIAN: Final = 1.25
_OF_FEW: Final = 1.35
"""Factor of the variance of the median of n normal values, which is about this / n; for one or two values it is 1 /
n."""
_HUBER: Final = 1.5
_ROUNDS, _ENOUGH_PS = 100, 1000.0
_FAR: Final = 2**62
_GOLDEN: Final = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class MeetingRows:
    """A row per host at a meeting of several hosts: when the last of its devices began and the first was done, by its
    own clock, and how long it computed meanwhile, empty if no host did."""

    meeting: Int64s
    host: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    hidden_ps: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    def take(self, rows: Int64s | Bools) -> MeetingRows:
        if rows.dtype == np.bool_ and rows.all():
            return self  # there are many
        columns = (getattr(self, name) for name in self.__slots__)
        return MeetingRows(*(column[rows] if len(column) else column for column in columns))

    def __len__(self) -> int:
        return len(self.host)


@dataclass(frozen=True, slots=True)
class ClockFit:
    """Clock fit of each host. ``part``: number of the group of hosts that met, directly or through others, or -1 if the
    host met none; ``reference``: the host whose clock counts in the part. ``offset_ps`` is added to what the clock
    shows at ``at_ps``, to have the time of the reference; the clock gains ``drift`` on it. ``error_ps``: standard error
    at the worst of the meetings; ``bound_ps``: largest possible error, or -1 if unknown; ``residual_ps``: standard
    deviation of the host's ends."""

    part: Int64s
    reference: Int64s
    offset_ps: Int64s
    at_ps: Int64s
    drift: Float64s
    error_ps: Int64s
    bound_ps: Int64s
    residual_ps: Int64s

    def corrected(self, host: Int64s, time_ps: Int64s) -> Int64s:
        """Convert times of hosts to the clock of their reference."""
        drift = self.drift[host]
        gained = np.rint((time_ps - self.at_ps[host]) * (drift / (1 + drift))).astype(np.int64)
        return np.asarray(time_ps + self.offset_ps[host] - gained)


def fit_clocks(rows: MeetingRows, count: int, every: MeetingRows | None = None) -> ClockFit:
    """Fit the clocks of ``count`` hosts; the reference of each part is its first host. Rows are in any order.
    ``every``: these rows and others whose ends may be late, which only bound the clocks, or None if there are no such
    rows."""
    rows = sort_meeting_rows(rows)
    meetings = int(rows.meeting.max()) + 1 if len(rows) else 0
    reference = _find_references(rows, count, meetings)
    some = _sample_rows(rows, meetings, max(min(MOST_FITTED, _MOST_ROWS // max(count, 1)), 1))
    offset, parent, shared = _estimate_start(some, reference, meetings)
    line = _RobustLines(some, offset, reference)
    line.fit()
    bounding = rows
    if every is not None:  # of the meetings whose hosts are all of one part
        part = np.where(np.bincount(rows.host, minlength=len(reference)) > 0, reference, -1)[every.host]
        meetings = int(every.meeting.max(initial=-1)) + 1
        least, most = _find_least(every.meeting, part, meetings), _find_most(every.meeting, part, meetings)
        bounding = every.take(((least == most) & (least >= 0))[every.meeting])
        del part, least, most
    return _fit_lines(rows, bounding, line, offset, reference, _ReferencePath(parent, shared))


def sort_meeting_rows(rows: MeetingRows) -> MeetingRows:
    """Sort by host, begin and end."""
    ordered = True
    for first in range(0, len(rows), _CHUNK_ROWS):  # there are many
        host, begin, end = (
            getattr(rows, name)[first : first + _CHUNK_ROWS + 1] for name in ("host", "begin_ps", "end_ps")
        )
        same = host[1:] == host[:-1]
        later = (begin[1:] > begin[:-1]) | ((begin[1:] == begin[:-1]) & (end[1:] >= end[:-1]))
        ordered &= bool((np.where(same, later, host[1:] > host[:-1])).all())
    return rows if ordered else rows.take(sort_rows(rows.host, rows.begin_ps, rows.end_ps))


_CHUNK_ROWS: Final = 1 << 16


# ---- who meets whom


def _find_references(rows: MeetingRows, count: int, meetings: int) -> Int64s:
    """Return the first host of each host's part."""
    label = np.arange(count)
    while True:
        least = _find_least(rows.meeting, label[rows.host], meetings)
        new = label.copy()
        np.minimum.at(new, rows.host, least[rows.meeting])
        if (new == label).all():
            return label
        label = new[new]


def _sample_rows(rows: MeetingRows, meetings: int, most: int) -> MeetingRows:
    """Select rows of enough meetings, about ``most`` of each host: those that one of the hosts has chosen, at even
    intervals that no pattern repeats."""
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
class _ReferencePath:
    """Comparison of hosts with their references: for each host the next host on the way to the reference (the
    reference itself has itself), and the number of meetings with such hosts."""

    parent: Int64s
    shared: Int64s

    def errors(self, own: Float64s, many: Int64s) -> Float64s:
        """Return errors against the reference; those of the hosts on the way are independent. ``own``: error of a host
        that attended ``many`` meetings."""
        square = own**2 * many
        of_pair = (square + square[self.parent]) / np.maximum(self.shared, 1)
        total, at = np.zeros(len(own)), np.arange(len(own))
        while (at != self.parent[at]).any():
            total += np.where(at != self.parent[at], of_pair[at], 0)
            at = self.parent[at]
        return np.sqrt(total)


def _estimate_start(rows: MeetingRows, reference: Int64s, meetings: int) -> tuple[Int64s, Int64s, Int64s]:
    """Estimate how far each clock is ahead of its reference: the median over meetings with hosts that are nearer to it.
    Return it with the parent and the number of shared meetings of each host: see _ReferencePath."""
    count = len(reference)
    offset, parent, shared = np.zeros(count, np.int64), np.arange(count), np.zeros(count, np.int64)
    known = reference == parent
    while True:
        of_known = known[rows.host]
        nearest = _find_least(rows.meeting[of_known], rows.host[of_known], meetings)
        end = np.zeros(meetings, np.int64)
        is_nearest = rows.host == nearest[rows.meeting]
        end[rows.meeting[is_nearest]] = (rows.end_ps - offset[rows.host])[is_nearest]
        new = np.flatnonzero(~of_known & (nearest < _FAR)[rows.meeting])
        if not len(new):
            return offset, parent, shared
        host, meeting = rows.host[new], rows.meeting[new]
        parent[host] = _find_least(host, nearest[meeting], count)[host]
        shared += np.bincount(host, minlength=count)
        offset[host] = find_medians(host, rows.end_ps[new] - end[meeting], count)[host]
        known[host] = True


def _find_least(place: Int64s, values: Int64s, count: int) -> Int64s:
    least = np.full(count, _FAR)
    np.minimum.at(least, place, values)
    return least


def _find_most(place: Int64s, values: Int64s, count: int) -> Int64s:
    return -_find_least(place, -values, count)


def find_medians(place: Int64s, values: Int64s, count: int) -> Int64s:
    """Return the median of each place's values, the lower of two; 0 without values."""
    order = sort_rows(place, values)
    many = np.bincount(place, minlength=count)
    first = np.cumsum(many) - many
    at = np.minimum(first + (many - 1) // 2, max(len(order) - 1, 0))
    return np.where(many > 0, values[order][at], 0) if len(order) else np.zeros(count, np.int64)


def measure_others(meeting: Int64s, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Int64s]:
    """Return the median of the other hosts of each row's meeting, or the row's own value if there are none; and how
    many hosts attended."""
    return find_median_of_others(meeting, values), np.bincount(meeting)[meeting]


def find_median_of_others(meeting: Int64s, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the median of the other hosts of each row's meeting. It is one value for the low hosts, one for the high
    ones, and one for the host in the middle:

        values    1   2   4   8   9          place of the middle: 2
        others    6   6   5   3   3          of 2, 4, 8, 9: (4 + 8) / 2; of 1, 2, 8, 9: (2 + 8) / 2
    """
    order = sort_rows(meeting, values)
    ordered = values[order]
    many = np.bincount(meeting)
    many = many[many > 0]
    first = np.cumsum(many) - many
    low, high = np.maximum(many - 2, 0) // 2, (many - 1) // 2
    below, above = ([ordered[first + np.minimum(middle + more, many - 1)] for more in (0, 1)] for middle in (low, high))
    parts = [_find_midpoint(below[1], above[1]), _find_midpoint(below[0], above[1]), _find_midpoint(below[0], above[0])]
    counts = np.column_stack([low + 1, high - low, many - high - 1])
    ordered = np.repeat(np.column_stack(parts).ravel(), counts.ravel())
    value = np.empty_like(values)
    value[order] = ordered
    return value


def _find_midpoint(low: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[Any]:
    apart = high - low
    return np.asarray(low + (apart // 2 if low.dtype.kind == "i" else apart / 2))


class _PlaceMedians:
    """Medians of floats by place; the places stay the same."""

    def __init__(self, place: Int64s, count: int) -> None:
        self.place, self.many = place, np.bincount(place, minlength=count)
        first = np.cumsum(self.many) - self.many
        last = max(len(place) - 1, 0)
        self._low = np.minimum(first + np.maximum(self.many - 1, 0) // 2, last)
        self._high = np.minimum(first + self.many // 2, last)

    def of(self, values: Float64s) -> Float64s:
        ordered = values[sort_rows(self.place, values)]
        return np.asarray((ordered[self._low] + ordered[self._high]) / 2)


# ---- offset and drift


class _RobustLines:
    """Robust lines through the ends of each host: ``offset`` to the first estimate, and ``drift``."""

    def __init__(self, rows: MeetingRows, start: Int64s, reference: Int64s) -> None:
        self.host, self.reference, self.count = rows.host, reference, len(reference)
        met, self.meeting = number_values(rows.meeting)
        about = rows.end_ps - start[rows.host]
        base = _find_least(self.meeting, about, len(met))
        of_meeting = np.zeros(len(met), np.int64)
        of_meeting[self.meeting] = reference[rows.host]
        self.middle_ps = find_medians(of_meeting, base, self.count)  # by reference
        self._beyond = (about - base[self.meeting]).astype(np.float64)
        self._when = (base - self.middle_ps[of_meeting]).astype(np.float64)
        self._of_meetings, self._of_hosts = _PlaceMedians(self.meeting, len(met)), _PlaceMedians(self.host, self.count)
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
        """Repeat rounds until the lines stay as they are: where hosts meet in groups, a change spreads from group to
        group."""
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
        """Return the standard deviation of each host's ends, from their distance to the median of the other hosts,
        which has an error itself. (If three hosts meet, the median of all has no distance to one of them.)"""
        others, joined = measure_others(self.meeting, self._left)
        mine = np.maximum(joined - 1, 1)
        variance = 1 + np.where(mine < 3, 1, _OF_FEW) / mine
        return np.asarray(_NORMAL * self._of_hosts.of(np.abs(self._left - others) / np.sqrt(variance)))

    def _sum(self, values: Float64s) -> Float64s:
        return np.bincount(self.host, values, self.count).astype(np.float64)

    def error(self) -> Float64s:
        """Return the error of each line by itself, at the meeting that is furthest from the middle."""
        most = np.zeros(self.count)
        if len(self.host):
            np.maximum.at(most, self.host, np.abs(self.away))
        root = np.sqrt(np.maximum(self.many, 1))
        mean = _OF_MEDIAN * self.sigma * (1 + 1 / root) / root  # the deviation is not known better than by its root
        with np.errstate(divide="ignore", invalid="ignore"):
            leaned = mean * np.sqrt(1 + most * most / self.spread)
        return np.where(self.drifts & (self.spread > 0), leaned, mean + MOST_DRIFT * most)


# ---- errors and bounds


def _fit_lines(
    rows: MeetingRows, bounding: MeetingRows, line: _RobustLines, start: Int64s, reference: Int64s, way: _ReferencePath
) -> ClockFit:
    hosts = np.arange(len(reference))
    shown = np.rint(line.offset).astype(np.int64)
    met = np.bincount(rows.host, minlength=len(hosts)) > 0
    parts = np.full(len(hosts), -1, np.int64)
    _, parts[met] = number_values(reference[met])
    at = start + line.middle_ps[reference] + shown if len(rows) else start
    raw = ClockFit(parts, reference, -(start + shown), at, line.drift, shown, shown, shown)
    bound = _find_bounds(bounding, raw, int(bounding.meeting.max(initial=-1)) + 1)
    margin = 3 * (line.sigma + line.sigma[reference])
    bound = np.where(hosts == reference, 0, np.where(bound >= _FAR // 2, -1, bound + np.ceil(margin).astype(np.int64)))
    error = np.ceil(way.errors(line.error(), line.many)).astype(np.int64)
    few = (line.many < FEWEST) & (hosts != reference)
    error = np.where(few, bound, error)
    return ClockFit(parts, reference, raw.offset_ps, at, line.drift, error, bound, np.ceil(line.sigma).astype(np.int64))


def _find_bounds(rows: MeetingRows, raw: ClockFit, meetings: int) -> Int64s:
    """Return how far the clock of each host may be from its fit, if nobody is done before the last has begun: at most
    the time from the begin of one host to the end of another, in both directions, over hosts between."""
    begin, end = raw.corrected(rows.host, rows.begin_ps), raw.corrected(rows.host, rows.end_ps)
    last, first = _find_most(rows.meeting, begin, meetings), _find_least(rows.meeting, end, meetings)
    agrees = (last <= first)[rows.meeting]
    rows, begin, end = rows.take(agrees), begin[agrees], end[agrees]
    hosts = np.arange(len(raw.reference))
    start = np.where(hosts == raw.reference, 0, _FAR)
    # begin of g less its bound <= end of h less that of h
    above = _spread_bounds(
        start, rows, lambda bound: end - _find_most(rows.meeting, begin - bound[rows.host], meetings)[rows.meeting]
    )
    below = _spread_bounds(
        start, rows, lambda bound: _find_least(rows.meeting, end + bound[rows.host], meetings)[rows.meeting] - begin
    )
    return np.maximum(above, below)


def _spread_bounds(bound: Int64s, rows: MeetingRows, limits: Callable[[Int64s], Int64s]) -> Int64s:
    """Pass bounds on to hosts that meet, until none becomes lower."""
    for _ in range(_ROUNDS):
        new, limit = bound.copy(), limits(bound)
        np.minimum.at(new, rows.host, np.where(limit < _FAR // 2, limit, _FAR))
        if (new == bound).all():
            break
        bound = new
    return bound


MOST_VIOLATED: Final = 0.01
"""Largest share of impossible meetings of a part; with more, its hosts number their collectives differently."""
_SHIFTS: Final = (1, -1, 2, -2, 3, -3)
_SCATTER: Final = 4
"""Residuals of a host that are this many times those of the median host come from other meetings, not from noise."""
_BETTER: Final = 4
"""A shift has to divide the scatter of ends by this."""
_MOST_PS: Final = 2**60
"""Bound of times: larger ones are damaged."""
_PS_IN_NS: Final = 1000


@dataclass(frozen=True, slots=True)
class HostMeetings:
    """Meetings of several hosts. ``rows``: hosts that waited until the end. ``step`` and ``series`` of each meeting:
    its step, or -1 if there is none, and a number that is equal for the same collective of a step among the same
    devices. ``every``: also hosts that may have seen the end late, because something else was running, or None if there
    are none; ``blocks``: whether nothing else was running in each meeting, or None if that holds for all."""

    rows: MeetingRows
    step: Int64s
    series: Int64s
    every: MeetingRows | None = None
    blocks: Bools | None = None


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks of hosts. ``known``: whether the clock is known: the host met another one, and its part agrees on what
    came first; ``doubtful``: whether the part agrees only within errors, which are large if step numbers are shifted;
    ``meetings``, ``violated``: number of meetings, and of those whose last begin is after the host's end; ``shift``:
    number to add to the host's steps; ``rows``: meetings of hosts whose clock is known, by the clocks of their
    references, if nothing else hides them."""

    fit: ClockFit
    known: Bools
    doubtful: Bools
    meetings: Int64s
    violated: Int64s
    shift: Int64s
    rows: MeetingRows

    @property
    def parts(self) -> int:
        """Number of groups of hosts that met."""
        return int(self.fit.part.max(initial=-1)) + 1

    def ntp_error_ps(self, starts_unix_ns: Sequence[int | None]) -> list[int | None]:
        """Return the error of each host's recorded start against its fitted clock, or None if that is unknown or of no
        use."""
        errors: list[int | None] = []
        for host, (start, reference) in enumerate(zip(starts_unix_ns, self.fit.reference.tolist(), strict=True)):
            other = starts_unix_ns[reference]
            error = None
            if self.known[host] and start is not None and other is not None:
                error = (start - other) * _PS_IN_NS - int(self.fit.offset_ps[host])
            errors.append(error if error is not None and abs(error) < _MOST_PS else None)
        return errors


def compare_clocks(met: HostMeetings, names: Sequence[str], shift: Int64s | None = None) -> Clocks:
    """Compare the clocks of hosts. The first name of a part, in alphabetical order, is its reference. ``shift``: see
    Clocks."""
    count = len(names)
    order = np.array(sorted(range(count), key=names.__getitem__), np.int64)
    rank = np.argsort(order, kind="stable")
    rows = _rank_rows(met.rows, rank)
    ranked = fit_clocks(rows, count, None if met.every is None else _rank_rows(met.every, rank))
    by_host = (getattr(ranked, name)[rank] for name in ClockFit.__slots__ if name not in ("part", "reference"))
    fit = ClockFit(ranked.part[rank], order[ranked.reference[rank]], *by_host)
    begin, end = ranked.corrected(rows.host, rows.begin_ps), ranked.corrected(rows.host, rows.end_ps)
    by_reference = MeetingRows(rows.meeting, order[rows.host], begin, end, rows.hidden_ps)
    del rows, begin, end  # there are many
    attended = np.bincount(by_reference.host, minlength=count)
    residual = find_medians(np.maximum(fit.part, 0), fit.residual_ps, int(fit.part.max(initial=0)) + 1)
    usual = _SCATTER * residual[fit.part]  # of the part: a host that does not fit at all cannot hide behind its own
    slack = np.where(attended < FEWEST, 0, 3 * np.minimum(fit.residual_ps, usual))
    violated = _find_violations(by_reference, slack)
    known = (fit.part >= 0) & ~_find_contradictory(by_reference, violated, fit)[fit.part] & (fit.error_ps >= 0)
    doubtful = _find_contradictory(by_reference, _find_violations(by_reference, 0 * slack), fit)[fit.part]
    return Clocks(
        fit=fit,
        known=known,
        doubtful=doubtful & (fit.part >= 0),
        meetings=attended,
        violated=np.bincount(by_reference.host[violated], minlength=count),
        shift=np.zeros(count, np.int64) if shift is None else shift,
        rows=by_reference.take(
            known[by_reference.host] & (True if met.blocks is None else met.blocks[by_reference.meeting])
        ),
    )


def _drop_bad_rows(rows: MeetingRows) -> MeetingRows:
    earliest, latest = np.minimum(rows.begin_ps, rows.end_ps), np.maximum(rows.begin_ps, rows.end_ps)
    return rows.take((earliest > -_MOST_PS) & (latest < _MOST_PS))


def _rank_rows(rows: MeetingRows, rank: Int64s) -> MeetingRows:
    """Drop damaged rows, number hosts in the order of their names, and sort by host."""
    rows = _drop_bad_rows(rows)
    return sort_meeting_rows(MeetingRows(rows.meeting, rank[rows.host], rows.begin_ps, rows.end_ps, rows.hidden_ps))


def _find_violations(rows: MeetingRows, slack_ps: Int64s) -> Bools:
    """Return which rows end before the last host of their meeting begins, by more than the slack of both hosts."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    last = find_last_rows(rows, int(rows.meeting.max()) + 1)[rows.meeting]
    slack = slack_ps[rows.host] + slack_ps[rows.host[last]]
    return np.asarray(rows.end_ps < rows.begin_ps[last] - slack)


def find_last_rows(rows: MeetingRows, count: int) -> Int64s:
    """Return the row of the host that came last to each of ``count`` meetings (the first of several), or -1 without
    hosts."""
    latest = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(latest, rows.meeting, rows.begin_ps)
    last = np.full(count, -1, np.int64)
    at = np.flatnonzero(rows.begin_ps == latest[rows.meeting])
    at = at[np.argsort(-rows.host[at], kind="stable")]
    last[rows.meeting[at]] = at
    return last


def measure_gaps(rows: MeetingRows, last: Int64s) -> Int64s:
    """Return how much later than all others the last host came to each meeting, or 0 without others."""
    gap = np.full(len(last), _MOST_PS)
    others = np.flatnonzero(np.arange(len(rows)) != last[rows.meeting])
    at = rows.meeting[others]
    np.minimum.at(gap, at, rows.begin_ps[last[at]] - rows.begin_ps[others])
    gap[np.bincount(at, minlength=len(last)) == 0] = 0
    return gap


def _find_contradictory(rows: MeetingRows, violated: Bools, fit: ClockFit) -> Bools:
    """Return whether too many meetings of each part are impossible. A last entry, for hosts without a part, is
    False."""
    parts = int(fit.part.max(initial=-1)) + 1
    meetings, first = np.unique(rows.meeting, return_index=True)
    of_meeting = fit.part[rows.host[first]]
    bad = np.isin(meetings, rows.meeting[violated])
    every = np.bincount(of_meeting, minlength=parts)
    wrong = np.bincount(of_meeting[bad], minlength=parts)
    return np.append(wrong > MOST_VIOLATED * every, False)


# ---- hosts that count steps from another one on


def find_step_shifts(met: HostMeetings, clocks: Clocks) -> Int64s:
    """Return what to add to the step numbers of each host so that its ends scatter least; mostly 0."""
    count = len(clocks.known)
    if not clocks.doubtful.any():
        return np.zeros(count, np.int64)
    rows = _drop_bad_rows(met.rows)
    rows = rows.take(met.step[rows.meeting] >= 0)
    if not len(rows):
        return np.zeros(count, np.int64)
    rows = sort_meeting_rows(rows)
    meetings = len(met.step)
    about = rows.end_ps - _estimate_start(rows, clocks.fit.reference, meetings)[0][rows.host]
    others, joined = measure_others(rows.meeting, about)
    key = _StepKey(met, rows, count)
    best, scatter = np.zeros(count, np.int64), _measure_scatter(rows.host, about - others, count)
    may = np.bincount(rows.host[joined > 2], minlength=count) > 0
    may |= clocks.fit.reference != np.arange(count)  # of a pair, the other host is shifted
    for shift in _SHIFTS:
        mine, partner = key.pairs(shift)
        other = _measure_scatter(rows.host[mine], about[mine] - others[partner], count)
        better = may & (other * _BETTER < scatter) & (np.bincount(rows.host[mine], minlength=count) >= FEWEST)
        best[better] = shift
        scatter = np.where(better, other * _BETTER, scatter)
    return best


class _StepKey:
    """Index that pairs the rows of a host with those of the same collective in other steps."""

    def __init__(self, met: HostMeetings, rows: MeetingRows, count: int) -> None:
        step, most = met.step[rows.meeting], max(_SHIFTS)
        self._steps = int(step.max()) + 1 + 2 * most
        self._keys = (met.series[rows.meeting] * count + rows.host) * self._steps + step + most
        self._order = np.argsort(self._keys, kind="stable")

    def pairs(self, shift: int) -> tuple[Int64s, Int64s]:
        """Return rows, and the rows of the same collective that many steps later."""
        there, at = find_equal(self._keys[self._order], self._keys + shift)
        mine = np.flatnonzero(there)
        return mine, self._order[at[mine]]


def _measure_scatter(host: Int64s, values: Int64s, count: int) -> Int64s:
    """Return the median distance to the median of each host's values."""
    return find_medians(host, np.abs(values - find_medians(host, values, count)[host]), count)
