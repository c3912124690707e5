"""Pods with clocks of their own, as the fit of clocks wants them: arrays of meetings, and what is true of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fastprof.derive.communication.blame import Blame, assign_blame
from fastprof.derive.communication.clocks import Clocks, HostMeetings, MeetingRows, compare_clocks
from fastprof.schema.columns import Float64s, Int64s

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
from clock_shape import ALL, CROSSED, ROWS, US_PS, Pod, Stamps, Truth, write_clocks

sys.path.pop(0)

__all__ = ["ALL", "CROSSED", "ROWS", "US_PS", "Pod", "Stamps", "Truth", "attended", "judged", "of_reference", "seen",
           "write_clocks"]  # fmt: skip


def attended(stamps: Stamps) -> MeetingRows:
    """A row per host at a meeting, looked at one by one."""
    rows: dict[tuple[int, int], tuple[int, int]] = {}
    columns = (stamps.meeting, stamps.host, stamps.begin_ps, stamps.end_ps)
    for meeting, host, begin, end in zip(*(column.tolist() for column in columns), strict=True):
        first, last = rows.get((meeting, host), (begin, end))
        rows[meeting, host] = (max(first, begin), min(last, end))
    columns = np.array([(*place, *times) for place, times in rows.items()], np.int64).T
    return MeetingRows(*columns)


def seen(pod: Pod) -> tuple[Clocks, MeetingRows, Truth]:
    stamps, truth = pod.stamps()
    rows = (
        attended(stamps) if pod.cores > 1 else MeetingRows(stamps.meeting, stamps.host, stamps.begin_ps, stamps.end_ps)
    )
    rows = rows.take((np.bincount(rows.meeting) > 1)[rows.meeting])
    met = HostMeetings(rows, truth.step, np.zeros(len(truth.step), np.int64))
    return compare_clocks(met, [f"host{number:03}" for number in range(pod.hosts)]), rows, truth


def judged(pod: Pod) -> tuple[Blame, Truth]:
    known, _, truth = seen(pod)
    return assign_blame(known, truth.step), truth


def of_reference(truth: Truth, host: Int64s, reference: Int64s, shown_ps: Int64s) -> Float64s:
    """What the clocks of references show when those of hosts show this."""
    time = (shown_ps - truth.offset_ps[host]) / (1 + truth.drift[host])
    return np.asarray(time + truth.offset_ps[reference] + truth.drift[reference] * time)
