"""Pods with clocks of their own, as the fit of clocks wants them: arrays of meetings, and what is true of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fastprof.derive.communication.blame import Blame, blame
from fastprof.derive.communication.clock_fit import Attended
from fastprof.derive.communication.clocks import Clocks, Encounters, clocks
from fastprof.schema.array_types import Float64s, Int64s

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
from clock_shape import ALL, CROSSED, ROWS, US_PS, Pod, Stamps, Truth, write_clocks

sys.path.pop(0)

__all__ = ["ALL", "CROSSED", "ROWS", "US_PS", "Pod", "Stamps", "Truth", "attended", "judged", "of_reference", "seen",
           "write_clocks"]  # fmt: skip


def attended(stamps: Stamps) -> Attended:
    """A row per host at a meeting, looked at one by one."""
    rows: dict[tuple[int, int], tuple[int, int]] = {}
    columns = (stamps.meeting, stamps.host, stamps.begin_ps, stamps.end_ps)
    for meeting, host, begin, end in zip(*(column.tolist() for column in columns), strict=True):
        first, last = rows.get((meeting, host), (begin, end))
        rows[meeting, host] = (max(first, begin), min(last, end))
    columns = np.array([(*place, *times) for place, times in rows.items()], np.int64).T
    return Attended(*columns)


def seen(pod: Pod) -> tuple[Clocks, Attended, Truth]:
    stamps, truth = pod.stamps()
    rows = attended(stamps) if pod.cores > 1 else Attended(stamps.meeting, stamps.host, stamps.begin_ps, stamps.end_ps)
    rows = rows.take((np.bincount(rows.meeting) > 1)[rows.meeting])
    met = Encounters(rows, truth.step, np.zeros(len(truth.step), np.int64))
    return clocks(met, [f"host{number:03}" for number in range(pod.hosts)]), rows, truth


def judged(pod: Pod) -> tuple[Blame, Truth]:
    known, _, truth = seen(pod)
    return blame(known, truth.step), truth


def of_reference(truth: Truth, host: Int64s, reference: Int64s, shown_ps: Int64s) -> Float64s:
    """What the clocks of references show when those of hosts show this."""
    time = (shown_ps - truth.offset_ps[host]) / (1 + truth.drift[host])
    return np.asarray(time + truth.offset_ps[reference] + truth.drift[reference] * time)
