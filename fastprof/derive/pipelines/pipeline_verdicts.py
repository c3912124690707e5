"""The report on tf.data in sentences: which pipelines are slow, why, and what to do about it."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fastprof.derive.pipelines.pipeline_tables import HostPipelines
from fastprof.derive.pipelines.reading import FILE_READ, USER_FUNCTION, WAITING
from fastprof.derive.pipelines.what_if import AHEAD, PARALLEL, TWICE, cores_are

WORTH_SAYING: Final = 1.05
"""The least speedup of a batch for a change to be named, or drawn."""
PACE: Final = 1.02
"""The program sets the pace of a batch that takes no longer than this times its own time between calls."""
HARDLY: Final = 0.01
"""Share of step time below which waiting for input is not worth a recommendation."""
MAINLY: Final = 0.5
"""Least share of an iterator's time that is reported as its main activity."""

NO_ITERATORS: Final = (
    "no events of tf.data iterators. TensorFlow records them on the host from host_tracer_level=2 on, which is its "
    "default, while a pipeline is read: profile several batches. Input that is not read with tf.data leaves none"
)
NO_CALLS: Final = (
    "events of tf.data iterators, but no call of the program for an element of a pipeline: profile for longer, with "
    "several batches in the capture"
)
NO_CHOSEN_CALLS: Final = "events of tf.data iterators, but no call of a pipeline belongs to the selected steps"
_UNITS: Final = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"), (1, "ps"))
_PARTS: Final = {
    FILE_READ: "reading files",
    USER_FUNCTION: "in its function",
    WAITING: "waiting for its buffer to fill",
}


class Change(NamedTuple):
    """The change worth trying first, in words: a prefetch or calls in parallel, if they save at least half as much as
    the best change; else faster code. Then the time per batch before and after; ``least_ps``: after it, if threads wait
    rather than compute; ``cores``: of the host, 0: not recorded; ``between_ps``: that the program takes itself."""

    words: str
    now_ps: int
    then_ps: int
    least_ps: int
    cores: int
    between_ps: int

    def text(self) -> str:
        """What it would make of a batch."""
        faster = f" ({self.now_ps / self.then_ps:,.2g} times as fast)" if self.then_ps else ""
        sentence = f"A batch takes {time_text(self.now_ps)}; with {self.words}, {time_text(self.then_ps)}{faster}"
        if self.least_ps < self.then_ps:
            waiting = f"{time_text(self.least_ps)} if they wait for something else"
            return f"{sentence} if threads compute, as {cores_are(self.cores)} there for it, and {waiting}."
        if self.then_ps <= PACE * self.between_ps:
            return f"{sentence}: then the program sets the pace, and not its input."
        return f"{sentence}."


def time_text(ps: int) -> str:
    """A time in a unit that suits, to three digits."""
    size, unit = next((one for one in _UNITS if ps >= one[0]), _UNITS[-1])
    value = ps / size
    return f"{value:,.{max(0, 3 - len(str(int(value)))) if size > 1 else 0}f} {unit}"


def best_change(host: HostPipelines, pipeline: int) -> Change | None:
    """The change of a pipeline worth trying first; None: it makes no batch a twentieth faster. Of changes that save
    about as much, the one goes first that takes least: a prefetch, then calls in parallel. Faster code takes most: it
    goes first where it saves more than twice as much as these."""
    found = host.what_if
    rows = np.flatnonzero((host.reading.tree.pipeline[found.tree_row] == pipeline) & found.helps)
    rows = rows[found.now_ps[rows] >= WORTH_SAYING * found.then_ps[rows]]
    if not len(rows):
        return None
    is_setting = found.change[rows] != TWICE
    saved = found.saved_ps[rows]
    if 2 * int(saved[is_setting].max(initial=0)) >= int(saved.max()):
        rows = rows[is_setting]
    ties = rows[found.then_ps[rows] <= int(found.then_ps[rows].min()) * 1.01]

    def effort(row: int) -> tuple[int, int, int]:
        effort = {AHEAD: 0, PARALLEL: 1}.get(int(found.change[row]), 2)
        return effort, int(found.then_ps[row]), int(found.least_ps[row])

    row = min(ties.tolist(), key=effort)
    now, then, least = (int(column[row]) for column in (found.now_ps, found.then_ps, found.least_ps))
    name = host.reading.iterators.name[int(host.reading.tree.iterator[found.tree_row[row]])]
    words = {AHEAD: f"a prefetch after {name}", PARALLEL: f"{name} in parallel by {host.parallel:,}"}
    between = int(host.calls.between_ps[pipeline]) // max(int(host.calls.count[pipeline]) - 1, 1)
    text = words.get(int(found.change[row]), f"{name} twice as fast")
    return Change(text, now, then, least, int(found.cores[row]), between)


def verdict(host: HostPipelines, pipeline: int, *, several_hosts: bool) -> str:
    """What is slow about a pipeline, and what to do about it."""
    calls, names = host.calls, host.reading.pipelines.name
    count, slow, total = (int(column[pipeline]) for column in (calls.count, calls.slow, calls.total_ps))
    of = f" of {host.host}" if several_hosts else ""
    long = f"{slow:,} of {count:,} calls take more than {host.slow_us:,} µs, {time_text(total // count)} on average"
    long = long if count > 1 else f"its only call takes {time_text(total)}"
    name, waits = f"{names[pipeline]}{of}", step_share(host, pipeline)
    if is_outside(host, pipeline):
        when = "outside of all steps: the capture does not record whether the program waits for that."
        return f"{name}: {long}, {when}{_bottleneck(host, pipeline)}"
    if waits is not None and waits < HARDLY:
        hardly = f"but steps wait only {100 * waits:,.1f} % of their time for it."
        return f"{name}: {long}, {hardly}{_bottleneck(host, pipeline)}"
    sentence = f"{name} is slow: {long}"
    sentence += "." if waits is None else f"; steps wait {100 * waits:,.1f} % of their time for it."
    sentence += _bottleneck(host, pipeline)
    if host.suggestions[pipeline]:
        sentence += f" {host.suggestions[pipeline]}"
    change = best_change(host, pipeline)
    return sentence if change is None else f"{sentence} {change.text()}"


def _bottleneck(host: HostPipelines, pipeline: int) -> str:
    """What takes most of a call, with a space before; "": it takes no time."""
    row, total = int(host.bottlenecks.of_pipeline[pipeline]), int(host.calls.total_ps[pipeline])
    if row < 0 or not total:
        return ""
    iterator = int(host.reading.tree.iterator[row])
    share = int(host.bottlenecks.critical_ps[pipeline]) / total
    name = host.reading.iterators.name[iterator]
    return f" {100 * share:.0f} % of a call is {name}{_mainly(host, pipeline, iterator)}."


def is_outside(host: HostPipelines, pipeline: int) -> bool:
    """Whether all calls of a pipeline run outside of the steps that there are."""
    return host.in_steps.step_count > 0 and host.in_steps.outside[pipeline] == int(host.calls.count[pipeline])


def step_share(host: HostPipelines, pipeline: int) -> float | None:
    """The share of the time of the host's steps in which calls of the pipeline ran that belong to them; None: there are
    no steps, or no call belongs to one."""
    return host.in_steps.shares[pipeline]


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
