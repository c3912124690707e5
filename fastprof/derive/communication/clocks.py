"""The clocks of a session's hosts against each other: which of them are known, and who would have begun after the end.

If a host counts its steps from another one on than the others, its ends scatter by what steps differ in length:

    recorded   step 0 | step 1 | step 2        the right shift is that of 1 to 3 steps, in either direction,
    host b              step 0 | step 1        with which the ends scatter far less
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof.derive.communication.clock_fit import FEWEST, Attended, Fit, fit, in_order, medians, of_others, start_of
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.value_classes import dataclass

MOST_VIOLATED: Final = 0.01
"""If a larger share of the meetings of a part is impossible, its hosts do not count their collectives alike."""
_SHIFTS: Final = (1, -1, 2, -2, 3, -3)
_SCATTER: Final = 4
"""Residuals of a host that are this many times those of the median host show no noise, but other meetings."""
_BETTER: Final = 4
"""A shift has to divide the scatter of ends by this."""
_MOST_PS: Final = 2**60
"""Larger times are damage."""
_PS_IN_NS: Final = 1000


@dataclass(frozen=True, slots=True)
class Encounters:
    """Meetings of several hosts: who attended and waited until the end; and of each meeting its step, -1: none, and its
    series: equal for the same collective of a step, among the same devices. ``every``: also who may have seen the end
    late, because something else went on, None: nobody; ``blocks``: of each meeting, whether nothing else did, None:
    nothing in any."""

    rows: Attended
    step: Int64s
    series: Int64s
    every: Attended | None = None
    blocks: Bools | None = None


@dataclass(frozen=True, slots=True)
class Clocks:
    """By host. ``known``: whether its clock is: it met another host, and its part agrees on what came first;
    ``doubtful``: whether the part agrees only within errors, which are large if steps are not those of others;
    ``meetings``, ``violated``: how many it attended, and those whose last begin is after its end; ``shift``: added to
    the numbers of its steps; ``rows``: of those whose clock is known, by the clocks of their references, at meetings
    that nothing else hides."""

    fit: Fit
    known: Bools
    doubtful: Bools
    meetings: Int64s
    violated: Int64s
    shift: Int64s
    rows: Attended

    @property
    def parts(self) -> int:
        """Groups of hosts that met."""
        return int(self.fit.part.max(initial=-1)) + 1

    def ntp_error_ps(self, starts_unix_ns: Sequence[int | None]) -> list[int | None]:
        """By host, how far it is off if it is put where it recorded to have started; None: unknown, or of no use."""
        found: list[int | None] = []
        for host, (start, reference) in enumerate(zip(starts_unix_ns, self.fit.reference.tolist(), strict=True)):
            other = starts_unix_ns[reference]
            error = None
            if self.known[host] and start is not None and other is not None:
                error = (start - other) * _PS_IN_NS - int(self.fit.offset_ps[host])
            found.append(error if error is not None and abs(error) < _MOST_PS else None)
        return found


def clocks(met: Encounters, names: Sequence[str], shift: Int64s | None = None) -> Clocks:
    """``names``: of hosts; the first of a part in their order is its reference. ``shift``: see Clocks."""
    count = len(names)
    order = np.array(sorted(range(count), key=names.__getitem__), np.int64)
    rank = np.argsort(order, kind="stable")
    rows = _ranked(met.rows, rank)
    ranked = fit(rows, count, None if met.every is None else _ranked(met.every, rank))
    by_host = (getattr(ranked, name)[rank] for name in Fit.__slots__ if name not in ("part", "reference"))
    found = Fit(ranked.part[rank], order[ranked.reference[rank]], *by_host)
    begin, end = ranked.corrected(rows.host, rows.begin_ps), ranked.corrected(rows.host, rows.end_ps)
    by_reference = Attended(rows.meeting, order[rows.host], begin, end)
    del rows, begin, end  # there are many
    attended = np.bincount(by_reference.host, minlength=count)
    slack = np.where(attended < FEWEST, 0, 3 * np.minimum(found.residual_ps, _usual_residual(found)))
    violated = _violations(by_reference, slack)
    known = (found.part >= 0) & ~_contradictory(by_reference, violated, found)[found.part] & (found.error_ps >= 0)
    doubtful = _contradictory(by_reference, _violations(by_reference, 0 * slack), found)[found.part]
    return Clocks(
        fit=found,
        known=known,
        doubtful=doubtful & (found.part >= 0),
        meetings=attended,
        violated=np.bincount(by_reference.host[violated], minlength=count),
        shift=np.zeros(count, np.int64) if shift is None else shift,
        rows=by_reference.take(known[by_reference.host] & _blocking(met, by_reference)),
    )


def _blocking(met: Encounters, rows: Attended) -> Bools:
    return np.ones(len(rows), np.bool_) if met.blocks is None else met.blocks[rows.meeting]


def _sane(rows: Attended) -> Attended:
    earliest, latest = np.minimum(rows.begin_ps, rows.end_ps), np.maximum(rows.begin_ps, rows.end_ps)
    return rows.take((earliest > -_MOST_PS) & (latest < _MOST_PS))


def _ranked(rows: Attended, rank: Int64s) -> Attended:
    """Rows that make sense, by host in the order of their names."""
    rows = _sane(rows)
    return in_order(Attended(rows.meeting, rank[rows.host], rows.begin_ps, rows.end_ps))


def _usual_residual(found: Fit) -> Int64s:
    """By host, what residuals of its part may be: a host that does not fit at all has no larger ones to hide behind."""
    usual = medians(np.maximum(found.part, 0), found.residual_ps, int(found.part.max(initial=0)) + 1)
    return np.asarray(_SCATTER * usual[found.part])


def _violations(rows: Attended, slack_ps: Int64s) -> Bools:
    """The rows that end before the last host of their meeting begins, by more than the slack of both hosts."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    last = last_rows(rows, int(rows.meeting.max()) + 1)[rows.meeting]
    slack = slack_ps[rows.host] + slack_ps[rows.host[last]]
    return np.asarray(rows.end_ps < rows.begin_ps[last] - slack)


def last_rows(rows: Attended, count: int) -> Int64s:
    """The row of the host that came last to each of ``count`` meetings, the first such host; -1: none came."""
    latest = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(latest, rows.meeting, rows.begin_ps)
    last = np.full(count, -1, np.int64)
    at = np.flatnonzero(rows.begin_ps == latest[rows.meeting])
    at = at[np.argsort(-rows.host[at], kind="stable")]
    last[rows.meeting[at]] = at
    return last


def gaps(rows: Attended, last: Int64s) -> Int64s:
    """How much later than all others the last host came to each meeting; 0: there are no others."""
    gap = np.full(len(last), _MOST_PS)
    others = np.flatnonzero(np.arange(len(rows)) != last[rows.meeting])
    at = rows.meeting[others]
    np.minimum.at(gap, at, rows.begin_ps[last[at]] - rows.begin_ps[others])
    gap[np.bincount(at, minlength=len(last)) == 0] = 0
    return gap


def _contradictory(rows: Attended, violated: Bools, found: Fit) -> Bools:
    """Of each part, whether too many of its meetings are impossible; and of no part, which comes last: they are not."""
    parts = int(found.part.max(initial=-1)) + 1
    meetings, first = np.unique(rows.meeting, return_index=True)
    of_meeting = found.part[rows.host[first]]
    bad = np.isin(meetings, rows.meeting[violated])
    every = np.bincount(of_meeting, minlength=parts)
    wrong = np.bincount(of_meeting[bad], minlength=parts)
    return np.append(wrong > MOST_VIOLATED * every, False)


# ---- hosts that count steps from another one on


def step_shifts(met: Encounters, found: Clocks) -> Int64s:
    """By host, what to add to the numbers of its steps, so that its ends scatter least; mostly 0."""
    count = len(found.known)
    if not found.doubtful.any():
        return np.zeros(count, np.int64)
    rows = _sane(met.rows)
    rows = rows.take(met.step[rows.meeting] >= 0)
    if not len(rows):
        return np.zeros(count, np.int64)
    rows = in_order(rows)
    meetings = len(met.step)
    about = rows.end_ps - start_of(rows, found.fit.reference, meetings)[rows.host]
    others, joined = of_others(rows.meeting, about)
    key = _Key(met, rows, count)
    best, scatter = np.zeros(count, np.int64), _scatter(rows.host, about - others, count)
    may = np.bincount(rows.host[joined > 2], minlength=count) > 0
    may |= found.fit.reference != np.arange(count)  # of a pair, the other host is shifted
    for shift in _SHIFTS:
        mine, partner = key.pairs(shift)
        other = _scatter(rows.host[mine], about[mine] - others[partner], count)
        better = may & (other * _BETTER < scatter) & (np.bincount(rows.host[mine], minlength=count) >= FEWEST)
        best[better] = shift
        scatter = np.where(better, other * _BETTER, scatter)
    return best


class _Key:
    """Finds the rows of a host at the same collective of other steps."""

    def __init__(self, met: Encounters, rows: Attended, count: int) -> None:
        step, most = met.step[rows.meeting], max(_SHIFTS)
        self._steps = int(step.max()) + 1 + 2 * most
        self._keys = (met.series[rows.meeting] * count + rows.host) * self._steps + step + most
        self._order = np.argsort(self._keys, kind="stable")

    def pairs(self, shift: int) -> tuple[Int64s, Int64s]:
        """Rows, and those that are that number of steps later."""
        ordered = self._keys[self._order]
        at = np.minimum(np.searchsorted(ordered, self._keys + shift), len(ordered) - 1)
        mine = np.flatnonzero(ordered[at] == self._keys + shift)
        return mine, self._order[at[mine]]


def _scatter(host: Int64s, values: Int64s, count: int) -> Int64s:
    """The median distance to the median, by host."""
    return medians(host, np.abs(values - medians(host, values, count)[host]), count)
