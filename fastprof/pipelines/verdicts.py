"""What the report on tf.data says in sentences: which pipelines are slow, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from fastprof.pipelines.pipeline_tables import HostPipelines
from fastprof.pipelines.reading import FILE_READ, USER_FUNCTION, WAITING
from fastprof.pipelines.what_if import AHEAD, COPIES, PARALLEL

MOST: Final = 5
"""Verdicts of a report."""
WORTH_SAYING: Final = 1.05
"""How much faster a batch must become for a change to be named."""
HARDLY: Final = 0.01
"""Share of step time below which waiting for input is not worth a recommendation."""
MAINLY: Final = 0.5
"""Share of its time from which on an iterator is said to spend it on one thing."""

NO_ITERATORS: Final = (
    "no events of tf.data iterators. TensorFlow records them on the host from host_tracer_level=2 on, which is its "
    "default, while a pipeline is read: profile several batches. Input that is not read with tf.data leaves none"
)
NO_CALLS: Final = (
    "events of tf.data iterators, but no call of the program for an element of a pipeline: profile for longer, with "
    "several batches in the capture"
)
_UNITS: Final = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"), (1, "ps"))
_PARTS: Final = {
    FILE_READ: "reading files",
    USER_FUNCTION: "in its function",
    WAITING: "waiting for its buffer to fill",
}


class Change(NamedTuple):
    """The change that saves most, in words, and the time per batch before and after."""

    words: str
    now_ps: int
    then_ps: int


def time_text(ps: int) -> str:
    """A time in a unit that suits, to three digits."""
    size, unit = next((one for one in _UNITS if ps >= one[0]), _UNITS[-1])
    value = ps / size
    return f"{value:,.{max(0, 3 - len(str(int(value)))) if size > 1 else 0}f} {unit}"


def best_change(host: HostPipelines, pipeline: int) -> Change | None:
    """The change that saves most in a pipeline; None: none saves a twentieth. Of changes that save about as much, the
    one goes first that takes least: a prefetch, calls in parallel, faster code, copies of the pipeline."""
    found = host.what_if
    rows = np.flatnonzero((host.reading.tree.pipeline[found.tree_row] == pipeline) & (found.then_ps >= 0))
    if not len(rows):
        return None
    ties = rows[found.then_ps[rows] <= int(found.then_ps[rows].min()) * 1.01]

    def effort(row: int) -> tuple[int, int]:
        effort = {AHEAD: 0, PARALLEL: 1}.get(int(found.change[row]), 2)
        return 3 if found.assumption[row] == COPIES else effort, int(found.then_ps[row])

    row = min(ties.tolist(), key=effort)
    now, then = int(found.now_ps[row]), int(found.then_ps[row])
    if now < WORTH_SAYING * then or now == then:
        return None
    name = host.reading.iterators.name[int(host.reading.tree.iterator[found.tree_row[row]])]
    words = {AHEAD: f"a prefetch after {name}", PARALLEL: f"{name} in parallel by {host.parallel:,}"}
    return Change(words.get(int(found.change[row]), f"{name} twice as fast"), now, then)


def slow_pipelines(hosts: Sequence[HostPipelines]) -> list[tuple[HostPipelines, int]]:
    """Pipelines with slow calls, those first that calls take longest of."""
    slow = [
        (-host.calls.total_ps[pipeline], place, pipeline)
        for place, host in enumerate(hosts)
        for pipeline in np.flatnonzero(host.calls.slow).tolist()
    ]
    return [(hosts[place], pipeline) for _, place, pipeline in sorted(slow)]


def verdict(host: HostPipelines, pipeline: int, *, several_hosts: bool) -> str:
    """What is slow about a pipeline, and what to do about it."""
    calls, names = host.calls, host.reading.pipelines.name
    count, slow, total = (int(column[pipeline]) for column in (calls.count, calls.slow, calls.total_ps))
    of = f" of {host.host}" if several_hosts else ""
    long = f"{slow:,} of {count:,} calls take more than {host.slow_us:,} µs, {time_text(total // count)} on average"
    told = f"{names[pipeline]}{of} is slow: {long if count > 1 else f'its only call takes {time_text(total)}'}"
    waits = step_share(host, pipeline)
    told += "." if waits is None else f"; steps wait {100 * waits:,.1f} % of their time for it."
    row = int(host.bottlenecks.of_pipeline[pipeline])
    if row < 0:
        return told
    iterator = int(host.reading.tree.iterator[row])
    share = int(host.bottlenecks.critical_ps[pipeline]) / total
    name = host.reading.iterators.name[iterator]
    told += f" {100 * share:.0f} % of a call is {name}{_mainly(host, pipeline, iterator)}. {host.suggestions[pipeline]}"
    change = best_change(host, pipeline)
    if change is not None and count > 1:
        faster = f" ({change.now_ps / change.then_ps:,.2g} times as fast)" if change.then_ps else ""
        told += f" A batch takes {time_text(change.now_ps)}; with {change.words}, {time_text(change.then_ps)}{faster}."
    return told


def step_share(host: HostPipelines, pipeline: int) -> float | None:
    """The part of the time of the host's steps in which calls of the pipeline ran that belong to them; None: there are
    no steps, or no call belongs to one."""
    rows = np.flatnonzero(host.waits.pipeline == pipeline)
    whole = int(np.maximum(host.steps.duration_ps, 0).sum())
    if not whole or not host.waits.count[rows].any():
        return None
    return int(host.waits.wait_ps[rows].sum()) / whole


def _mainly(host: HostPipelines, pipeline: int, iterator: int) -> str:
    """What the iterator spends at least half of its time on, if it is one of the things that have a name."""
    parts = host.reading.parts
    rows = np.flatnonzero((parts.pipeline == pipeline) & (parts.iterator == iterator))
    if not len(rows):
        return ""
    row = int(rows[parts.time_ps[rows].argmax()])
    words = _PARTS.get(int(parts.part[row]))
    whole = int(parts.time_ps[rows].sum())
    return f", mostly {words}" if words and int(parts.time_ps[row]) >= MAINLY * whole else ""
