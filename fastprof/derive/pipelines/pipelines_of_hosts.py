"""The pipelines of many hosts after one look at each, and the sentences of the report: which are slow, why, and what to
do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.derive.pipelines.pipeline_tables import LARGE, TABLES, HostPipelines, InSteps, list_rows
from fastprof.derive.pipelines.recorded_pipelines import FILE_READ, USER_FUNCTION, WAITING
from fastprof.derive.pipelines.stages import AHEAD, PARALLEL, TWICE
from fastprof.tables.host_spill import MadeTogether, SetAside, Stored, StoredByName, StoredTable
from fastprof.wording.quantities import count_noun

WORTH_SAYING: Final = 1.05
"""Smallest speedup of a batch for a change to be named, or drawn."""
PACE: Final = 1.02
"""Bound of batch time / the program's own time between calls up to which the program sets the pace."""
HARDLY: Final = 0.01
"""Share of step time below which waiting for input is not worth a recommendation."""
MAINLY: Final = 0.5
"""Smallest share of an iterator's time that is reported as its main activity."""

NO_ITERATORS: Final = (
    "no events of tf.data iterators. TensorFlow records them on the host with host_tracer_level=2 (the default) or "
    "more, while a pipeline is read: profile several batches. Input without tf.data has none"
)
NO_CALLS: Final = (
    "events of tf.data iterators, but no program call for a pipeline element: profile for longer, with several "
    "batches in the capture"
)
NO_CHOSEN_CALLS: Final = "events of tf.data iterators, but no call of a pipeline belongs to the selected steps"
_UNITS: Final = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"), (1, "ps"))
_PARTS: Final = {
    FILE_READ: "reading files",
    USER_FUNCTION: "in its function",
    WAITING: "waiting for its buffer to fill",
}


class Change(NamedTuple):
    """The change worth trying first: a prefetch or calls in parallel, if they save at least half as much as the best
    change; else faster code. ``now_ps``, ``then_ps``: time per batch before and after; ``least_ps``: after it, if
    threads wait rather than compute; ``cores``: of the host, or 0 if not recorded; ``between_ps``: time that the
    program takes itself."""

    words: str
    now_ps: int
    then_ps: int
    least_ps: int
    cores: int
    between_ps: int

    def text(self) -> str:
        """Describe a batch after the change."""
        faster = f" ({self.now_ps / self.then_ps:,.2g} times as fast)" if self.then_ps else ""
        sentence = (
            f"A batch takes {format_three_digits(self.now_ps)}; with {self.words}, "
            f"{format_three_digits(self.then_ps)}{faster}"
        )
        if self.least_ps < self.then_ps:
            waiting = f"{format_three_digits(self.least_ps)} if I/O-bound"
            return f"{sentence} if CPU-bound ({count_noun(self.cores, 'core', 'cores')}), {waiting}."
        if self.then_ps <= PACE * self.between_ps:
            return f"{sentence}: then the program sets the pace, not its input."
        return f"{sentence}."


def format_three_digits(ps: int) -> str:
    """Format a time in a suitable unit, with three digits."""
    size, unit = next((pair for pair in _UNITS if ps >= pair[0]), _UNITS[-1])
    value = ps / size
    return f"{value:,.{max(0, 3 - len(str(int(value)))) if size > 1 else 0}f} {unit}"


def find_best_change(host: HostPipelines, pipeline: int) -> Change | None:
    """Return the change of a pipeline worth trying first, or None if no change makes a batch a twentieth faster. Of
    changes that save about as much, the simplest goes first: a prefetch, then calls in parallel. Faster code goes first
    if it saves more than twice as much as these."""
    what_if = host.what_if
    rows = np.flatnonzero((host.reading.tree.pipeline[what_if.tree_row] == pipeline) & what_if.helps)
    rows = rows[what_if.now_ps[rows] >= WORTH_SAYING * what_if.then_ps[rows]]
    if not len(rows):
        return None
    is_setting = what_if.change[rows] != TWICE
    saved = what_if.saved_ps[rows]
    if 2 * int(saved[is_setting].max(initial=0)) >= int(saved.max()):
        rows = rows[is_setting]
    ties = rows[what_if.then_ps[rows] <= int(what_if.then_ps[rows].min()) * 1.01]

    def effort(row: int) -> tuple[int, int, int]:
        effort = {AHEAD: 0, PARALLEL: 1}.get(int(what_if.change[row]), 2)
        return effort, int(what_if.then_ps[row]), int(what_if.least_ps[row])

    row = min(ties.tolist(), key=effort)
    now, then, least = (int(column[row]) for column in (what_if.now_ps, what_if.then_ps, what_if.least_ps))
    name = host.reading.iterators.name[int(host.reading.tree.iterator[what_if.tree_row[row]])]
    words = {AHEAD: f"a prefetch after {name}", PARALLEL: f"{name} in parallel by {host.parallel:,}"}
    between = int(host.calls.between_ps[pipeline]) // max(int(host.calls.count[pipeline]) - 1, 1)
    text = words.get(int(what_if.change[row]), f"{name} twice as fast")
    return Change(text, now, then, least, int(what_if.cores[row]), between)


def describe_pipeline(host: HostPipelines, pipeline: int, *, several_hosts: bool) -> str:
    """Describe what is slow about a pipeline, and what to do about it."""
    calls, names = host.calls, host.reading.pipelines.name
    count, slow, total = (int(column[pipeline]) for column in (calls.count, calls.slow, calls.total_ps))
    of = f" of {host.host}" if several_hosts else ""
    long = (
        f"{slow:,} of {count:,} calls take more than {host.slow_us:,} µs, "
        f"{format_three_digits(total // count)} on average"
    )
    long = long if count > 1 else f"its only call takes {format_three_digits(total)}"
    name, waits = f"{names[pipeline]}{of}", measure_step_share(host, pipeline)
    if is_outside(host, pipeline):
        when = "outside of all steps: the capture does not show whether the program waits for them."
        return f"{name}: {long}, {when}{_describe_bottleneck(host, pipeline)}"
    if waits is not None and waits < HARDLY:
        hardly = f"but steps wait only {100 * waits:,.1f} % of their time for it."
        return f"{name}: {long}, {hardly}{_describe_bottleneck(host, pipeline)}"
    sentence = f"{name} is slow: {long}"
    sentence += "." if waits is None else f"; steps wait {100 * waits:,.1f} % of their time for it."
    sentence += _describe_bottleneck(host, pipeline)
    if host.suggestions[pipeline]:
        sentence += f" {host.suggestions[pipeline]}"
    change = find_best_change(host, pipeline)
    return sentence if change is None else f"{sentence} {change.text()}"


def _describe_bottleneck(host: HostPipelines, pipeline: int) -> str:
    """Describe what takes most of a call, after a space, or return "" if it takes no time."""
    row, total = int(host.bottlenecks.of_pipeline[pipeline]), int(host.calls.total_ps[pipeline])
    if row < 0 or not total:
        return ""
    iterator = int(host.reading.tree.iterator[row])
    share = int(host.bottlenecks.critical_ps[pipeline]) / total
    name = host.reading.iterators.name[iterator]
    parts, main_work = host.reading.parts, ""
    rows = np.flatnonzero((parts.pipeline == pipeline) & (parts.iterator == iterator))
    if len(rows):
        longest = int(rows[parts.time_ps[rows].argmax()])
        words = _PARTS.get(int(parts.part[longest]))
        if words and int(parts.time_ps[longest]) >= MAINLY * int(parts.time_ps[rows].sum()):
            main_work = f", mostly {words}"
    return f" {100 * share:.0f} % of a call is {name}{main_work}."


def is_outside(host: HostPipelines, pipeline: int) -> bool:
    """Return whether all calls of a pipeline run outside of the existing steps."""
    return host.in_steps.step_count > 0 and host.in_steps.outside[pipeline] == int(host.calls.count[pipeline])


def measure_step_share(host: HostPipelines, pipeline: int) -> float | None:
    """Return the share of step time in which calls of the pipeline ran that belong to the steps, or None without steps
    or such calls."""
    return host.in_steps.shares[pipeline]


_MANY: Final = 1 << 16
"""Bound of call records of several hosts whose large tables are in memory."""


_NO_CALLS: Final = InSteps(0, 0, 0, has_calls=False, waits=False, outside=[], shares=[], ahead_known=True)


class PipelineTotals(NamedTuple):
    """Totals of a host. ``pipelines``, ``iterators``, ``calls``, ``slow_calls``: numbers; ``most_ps``: of a call;
    ``in_steps``: see InSteps; ``of_devices``: whether steps come from events of devices; ``predicted``, ``helps``:
    whether anything is predicted of a change, and any change helps; ``cores``: that predictions rest on; ``slow``: the
    pipelines with slow calls: whether all calls are outside of steps, the negative time of calls, the number of the
    pipeline and of its calls."""

    pipelines: int
    iterators: int
    calls: int
    slow_calls: int
    most_ps: int
    in_steps: InSteps
    of_devices: bool
    predicted: bool
    helps: bool
    cores: list[int]
    slow: list[tuple[bool, int, int, int]]

    @classmethod
    def of(cls, host: HostPipelines) -> PipelineTotals:
        if not host.call_count:
            return cls(0, 0, 0, 0, 0, _NO_CALLS, False, False, False, [], [])
        calls, predicted = host.calls, bool((host.what_if.then_ps >= 0).any())
        return cls(
            len(host.reading.pipelines),
            len(host.reading.tree.iterator),
            host.call_count,
            int(calls.slow.sum()),
            int(calls.most_ps.max(initial=0)),
            host.in_steps,
            host.steps.of_devices,
            predicted,
            bool(host.what_if.helps.any()),
            [number for number in np.unique(host.what_if.cores).tolist() if number] if predicted else [],
            [
                (bool(is_outside(host, pipeline)), -int(calls.total_ps[pipeline]), pipeline, int(calls.count[pipeline]))
                for pipeline in np.flatnonzero(calls.slow).tolist()
            ],
        )


class KeptPipelinesOfHost(SetAside[HostPipelines]):
    """Pipelines of a host, which may be spilled. ``event_count``: number of iterator events; ``unidentified``:
    number of events without an id; ``chosen``: whether only some steps are selected."""

    def __init__(self, host: HostPipelines, event_count: int, unidentified: int, *, chosen: bool) -> None:
        self.event_count, self.unidentified, self.chosen = event_count, unidentified, chosen
        self.record_count = len(host.reading.records)
        self._totals: PipelineTotals | None = None
        self._summary: Stored[HostPipelines] | None = None
        self._tables: StoredByName[pa.Table] | None = None
        super().__init__(host, is_large=self.record_count > 0)

    @property
    def totals(self) -> PipelineTotals:
        with self._guard:
            if self._totals is None:
                self._totals = PipelineTotals.of(self.value())
            return self._totals

    def pipelines(self) -> HostPipelines:
        """Return the pipelines of the host, without its calls if they are spilled."""
        with self._guard:
            return self.value() if self._summary is None else self._summary.value()

    def table(self, name: str) -> pa.Table:
        """Return the host's rows of a table that is not large."""
        with self._guard:
            stored = self._tables
        return _make_host_table(self.value(), name) if stored is None else stored.value(name)

    def summarize(self) -> None:
        if self._summary is None:
            pipelines, _ = self.value(), self.totals
            self._tables = StoredByName(
                {name: _make_host_table(pipelines, name) for name in TABLES if name not in LARGE}
            )
            self._summary = Stored(pipelines.without_calls())


def _make_host_table(host: HostPipelines, name: str) -> pa.Table:
    rows = list_rows(host)[name]
    return TABLES[name].of(rows) if len(rows.pipeline) else TABLES[name].empty()


def make_pipeline_tables(
    hosts: Sequence[KeptPipelinesOfHost], record_count: int, *, several: bool
) -> dict[str, Callable[[], pa.Table]]:
    """Return a function for each of TABLES. ``hosts``: those with pipelines; ``record_count``: of all; ``several``:
    whether there are other hosts, with pipelines or without."""
    large = _LargeTables(hosts, record_count)
    made: dict[str, Callable[[str], pa.Table]] = dict.fromkeys(LARGE, large.table)
    made["bottlenecks"] = partial(_sort_largest_first, hosts, "total_ps")
    if several:
        made["what_if"] = partial(_sort_largest_first, hosts, "saved_ps")
    return {name: partial(made.get(name, partial(_make_small_table, hosts)), name) for name in TABLES}


def _sort_largest_first(hosts: Sequence[KeptPipelinesOfHost], amount: str, name: str) -> pa.Table:
    small = _make_small_table(hosts, name)
    if small.num_rows < 2:  # the rest would import pyarrow.compute
        return small
    amounts = small[amount].fill_null(-1) if small[amount].null_count else small[amount]
    return small.take(pa.array(np.argsort(-np.asarray(amounts), kind="stable")))


def _make_small_table(hosts: Sequence[KeptPipelinesOfHost], name: str) -> pa.Table:
    return _join_parts(name, [host.table(name) for host in hosts])


def _join_parts(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    some = [part for part in parts if part.num_rows]
    return pa.concat_tables(some).unify_dictionaries().combine_chunks() if some else TABLES[name].empty()


class _LargeTables:
    """Large tables. With many records, all of them are made at the first use of one, host by host, and are in a
    temporary file."""

    def __init__(self, hosts: Sequence[KeptPipelinesOfHost], record_count: int) -> None:
        self._hosts, self._record_count = hosts, record_count
        self._of_many = MadeTogether(partial(_list_spilled, hosts))

    def table(self, name: str) -> pa.Table:
        hosts = self._hosts
        if len(hosts) < 2 or self._record_count <= _MANY:
            return _join_parts(name, [_make_host_table(host.value(), name) for host in hosts])
        return self._of_many.table(name)


def _list_spilled(hosts: Sequence[KeptPipelinesOfHost]) -> dict[str, pa.Table]:
    made = {name: StoredTable() for name in LARGE}
    for host in hosts:
        pipelines = host.value()
        for name in LARGE:
            made[name].append(_make_host_table(pipelines, name))
    return {name: table.table() if len(table) else TABLES[name].empty() for name, table in made.items()}


MOST: Final = 5
"""Number of slow pipelines that are known by their hosts."""


class PipelinesOfHosts:
    """Totals of hosts. ``hosts``: their number; ``places``: places of those with pipelines; ``record_count``: of these.
    ``slowest``: place of the host, and number, of the first of ``slow_count`` pipelines with slow calls: those of steps
    first, then those with the longest calls. ``slow_outside``: number of their calls outside of steps;
    ``slow_in_steps``: whether one is not. ``away``: number of calls outside of all steps, among ``of_steps`` calls of
    hosts with steps. The rest are sums of PipelineTotals and InSteps, or whether that holds for any host; ``step_ps``,
    ``waited_ps``, ``has_calls``: of hosts with calls; ``ahead_known``: of all."""

    def __init__(self, kept: Iterable[KeptPipelinesOfHost]) -> None:
        self.hosts, self.places = 0, list[int]()
        self.event_count = self.unidentified = self.record_count = 0
        self.pipelines = self.iterators = self.calls = self.slow_calls = self.most_ps = 0
        self.step_ps = self.waited_ps = self.away = self.of_steps = 0
        self.slow_count = self.slow_outside = 0
        self.any_chosen = self.has_calls = self.devices_wait = self.slow_in_steps = False
        self.predicted = self.helps = False
        self.ahead_known = True
        self.cores = set[int]()
        self._slowest = list[tuple[bool, int, int, int]]()
        for place, host in enumerate(kept):
            totals = host.totals
            self.hosts += 1
            self.event_count += host.event_count
            self.unidentified += host.unidentified
            self.any_chosen |= host.chosen
            if totals.pipelines:
                self.places.append(place)
                self.record_count += host.record_count
            self.pipelines += totals.pipelines
            self.iterators += totals.iterators
            self.calls += totals.calls
            self.slow_calls += totals.slow_calls
            self.most_ps = max(self.most_ps, totals.most_ps)
            steps = totals.in_steps
            if totals.calls:
                self.step_ps += steps.step_ps
                self.waited_ps += steps.waited_ps
                self.has_calls |= steps.has_calls
            if steps.step_count:
                self.away += sum(steps.outside)
                self.of_steps += totals.calls
            self.devices_wait |= totals.of_devices and steps.waits
            self.ahead_known &= steps.ahead_known
            self.predicted |= totals.predicted
            self.helps |= totals.predicted and totals.helps
            self.cores.update(totals.cores)
            self.slow_count += len(totals.slow)
            self.slow_outside += sum(count for outside, *_, count in totals.slow if outside)
            self.slow_in_steps |= not all(outside for outside, *_ in totals.slow)
            slow = [(outside, time, place, pipeline) for outside, time, pipeline, _ in totals.slow]
            self._slowest = sorted([*self._slowest, *slow])[:MOST]

    @property
    def slowest(self) -> list[tuple[int, int]]:
        return [(place, pipeline) for _, _, place, pipeline in self._slowest]
