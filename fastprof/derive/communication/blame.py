"""Who makes whom wait: the critical path through the meetings of hosts, from the last end back to the first arrival.

    host a   |==work==|....wait....|T|==work==|T|      the path: b's work, transfer, a's work, transfer
    host b   |=====work============|T|=work=|.|T|      b's work beyond the median is its excess

At each meeting the path goes to the host that came last, and on to its meeting before. Work and transfer on the path
add up to its time, to the picosecond. A host that works longer than the median of those it meets, on the path, delays
all, even those that then make others wait in their turn. Collectives may run beside compute.
Then hosts compute while they wait, and this compute counts as their work: without the wait, it would come later.

    slow host   |=backward 1=|=backward 2=|      |T|  sums of gradients: [1], [2]
    other host  |=1=|=2=|[1]........|T|[2]..|T|       its work before [2] is what it computes beside [1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof.derive.communication.clocks import (
    Clocks,
    MeetingRows,
    find_last_rows,
    find_median_of_others,
    measure_gaps,
)
from fastprof.schema.columns import Int64s, sort_rows, sum_by
from fastprof.schema.value_classes import dataclass

LEAST_SHARE: Final = 0.01
AHEAD: Final = 3
FEWEST_STEPS: Final = 2
"""Conditions to name a host: its excess is at least this share of the path, this many times that of the next host, and
in at least this many steps."""
CLEAR: Final = 4
"""Smallest ratio of the excess in a step to the clock error, so that it is the host that is late."""
NET: Final = 0.5
"""Smallest share of the excess that is left if times in which the host was quicker than the median count, too. A host
that the path cannot avoid, because its links are slow, is slower and quicker by chance."""


@dataclass(frozen=True, slots=True)
class MeetingPath:
    """The critical path of a part. ``time_ps = work_ps + transfer_ps``; ``named``: the host that delays the others, or
    -1 if there is no single one; ``next_ps``: the largest excess of any other; ``before_ps``: time that is saved beside
    saved_ps if that host's usual delay also occurs before the first meeting; ``hosts``, ``meetings``: the path, in
    order."""

    part: int
    time_ps: int
    work_ps: int
    transfer_ps: int
    named: int
    next_ps: int
    before_ps: int
    hosts: Sequence[int]
    meetings: Sequence[int]


@dataclass(frozen=True, slots=True)
class Blame:
    """Blame of each host. ``waited_ps``: wait for the last hosts of its meetings; ``caused_alone_ps``: time that others
    would wait less, had it come with the next to last host; ``on_path_ps``: its work on the path; ``excess_ps``: part
    of that beyond the median of the other hosts; ``saved_ps``: upper bound of the time saved if it works like the
    median; ``steps``: number of steps with an excess. ``work`` and ``wait`` have an element for each of the ``rows``,
    which are hosts at meetings: the work since the meeting before, with what the host computed during it, or -1 if
    unknown, and the wait for the last host."""

    meetings: Int64s
    last_count: Int64s
    waited_ps: Int64s
    caused_alone_ps: Int64s
    on_path_ps: Int64s
    excess_ps: Int64s
    saved_ps: Int64s
    steps: Int64s
    paths: Sequence[MeetingPath]
    rows: MeetingRows
    work: Int64s
    wait: Int64s


def assign_blame(clocks: Clocks, step: Int64s) -> Blame:
    """Find the critical paths of all parts, and what each host contributes. ``step``: step of each meeting, or -1."""
    rows, count = clocks.rows, len(clocks.known)
    seen = _MeetingLinks(rows)
    sums = {name: np.zeros(count, np.int64) for name in ("on_path", "excess", "net", "saved", "steps")}
    paths = [_walk_path(part, seen, step, clocks, sums) for part in np.unique(clocks.fit.part[rows.host]).tolist()]
    last = seen.last[seen.last >= 0]
    return Blame(
        meetings=np.bincount(rows.host, minlength=count),
        last_count=np.bincount(rows.host[last], minlength=count),
        waited_ps=sum_by(rows.host, seen.wait, count, "times of waiting"),
        caused_alone_ps=sum_by(rows.host[last], (seen.ahead * (seen.many - 1))[rows.meeting[last]], count),
        on_path_ps=sums["on_path"],
        excess_ps=sums["excess"],
        saved_ps=sums["saved"],
        steps=sums["steps"],
        paths=paths,
        rows=rows,
        work=seen.work,
        wait=seen.wait,
    )


class _MeetingLinks:
    """Links between the rows of meetings. By row: ``previous``, the row of the host's last meeting that had ended, or
    -1; ``apart``, the time from that end to the begin; ``work``, that time and what the host computes during the last
    meeting, or -1; ``net``, its difference from the median of the others. By meeting: ``last``, the row that came last;
    ``ahead``, its distance to the next to last; ``many``, the number of hosts."""

    def __init__(self, rows: MeetingRows) -> None:
        count = int(rows.meeting.max()) + 1 if len(rows) else 0
        self.rows, self.last = rows, find_last_rows(rows, count)
        self.previous = np.full(len(rows), -1, np.int64)
        order = sort_rows(rows.host, rows.end_ps, rows.begin_ps)
        bounds = np.flatnonzero(np.diff(rows.host[order], prepend=-1, append=-1))
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            own = order[first:last]
            ended = np.searchsorted(rows.end_ps[own], rows.begin_ps[own], side="right")
            at = np.minimum(ended, np.arange(len(own))) - 1  # a collective that takes no time has ended when it begins
            self.previous[own] = np.where(at >= 0, own[np.maximum(at, 0)], -1)
        del order
        has = self.previous >= 0
        self.apart = rows.begin_ps - rows.end_ps[self.previous]
        hidden = rows.hidden_ps[self.previous] if len(rows.hidden_ps) else 0
        self.work = np.where(has, self.apart + hidden, -1)
        last_begin = rows.begin_ps[self.last]
        self.wait = last_begin[rows.meeting] - rows.begin_ps
        self.many = np.bincount(rows.meeting, minlength=count)
        self.ahead = measure_gaps(rows, self.last)
        self.net = np.zeros(len(rows), np.int64)
        self.net[has] = self.work[has] - find_median_of_others(rows.meeting[has], self.work[has])


def _walk_path(part: int, seen: _MeetingLinks, step: Int64s, clocks: Clocks, sums: dict[str, Int64s]) -> MeetingPath:
    """Walk the critical path of a part, and add to the sums of its hosts."""
    rows = seen.rows
    hosts = clocks.fit.part == part
    mine = hosts[rows.host]
    latest = np.flatnonzero(mine & (rows.end_ps == rows.end_ps[mine].max()))
    top = int(latest[np.argmin(rows.host[latest])])  # of the first host if several end last
    left, arrived = _walk_back(seen, top)
    transfer = int((rows.end_ps[left] - rows.begin_ps[arrived]).sum())
    path = arrived[:-1]  # nothing is known of the work before the first meeting
    work, meeting, host = seen.apart[path], rows.meeting[path], rows.host[path]
    net = seen.net[path]
    excess = np.clip(net, 0, work)
    count = len(clocks.known)
    sums["on_path"] += sum_by(host, work, count)
    sums["excess"] += sum_by(host, excess, count)
    np.add.at(sums["net"], host, net)
    saved = np.minimum(excess, seen.ahead[meeting])
    sums["saved"] += sum_by(host, saved, count)
    late_host, late_meeting = host[excess > 0], meeting[excess > 0]
    late_step = np.where(step[late_meeting] >= 0, step[late_meeting], -1 - late_meeting)  # outside of steps: its own
    pairs = np.unique(np.column_stack([late_host, late_step]), axis=0)
    sums["steps"] += np.bincount(pairs[:, 0], minlength=count)
    time = int(rows.end_ps[top] - rows.begin_ps[arrived[-1]])
    error = int(clocks.fit.error_ps[hosts].max())
    most_excess = np.where(hosts, sums["excess"], -1)
    order = np.argsort(-most_excess, kind="stable")
    first, most = int(order[0]), int(most_excess[order[0]])
    following = max(int(most_excess[order[1]]), 0) if len(order) > 1 else 0
    steps = int(sums["steps"][first])
    is_first = most >= max(1, LEAST_SHARE * time) and most >= AHEAD * following and steps >= FEWEST_STEPS
    is_clear = most >= CLEAR * error * steps and sums["net"][first] >= NET * most
    named = first if is_first and is_clear else -1
    before = 0
    if named == rows.host[arrived[-1]]:
        own = np.sort(saved[host == named])
        before = min(int(own[len(own) // 2]), int(seen.ahead[rows.meeting[arrived[-1]]]))
    in_order = (rows.host[arrived[::-1]].tolist(), rows.meeting[arrived[::-1]].tolist())
    return MeetingPath(part, time, int(work.sum()), transfer, named, following, before, *in_order)


def _walk_back(seen: _MeetingLinks, top: int) -> tuple[Int64s, Int64s]:
    """Walk from the last end back. Return the rows by which the path leaves each meeting, and those that came last to
    it."""
    left, arrived, visited, row = [], [], set[int](), top
    while row >= 0:
        meeting = int(seen.rows.meeting[row])
        if meeting in visited:  # stamps that contradict each other may lead in a circle
            break
        visited.add(meeting)
        left.append(row)
        arrived.append(int(seen.last[meeting]))
        row = int(seen.previous[arrived[-1]])
    return np.array(left), np.array(arrived)
