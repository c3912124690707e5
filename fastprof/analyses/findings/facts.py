"""Findings, and the facts that they rest on: reports of other analyses, the duration of the run, names of events."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.analyses.contract import AnalysisReport
from fastprof.analyses.findings import reports
from fastprof.analyses.findings.advice import get_advice
from fastprof.analyses.findings.recompilation import Recompilation
from fastprof.decode.plane_kinds import pluralise_device
from fastprof.derive.causes.callees import find_around, find_callees
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.causes.time_by_cause import CAUSE_NAMES, Budget, SessionBudget
from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.devices.run_environment import TracerLevels
from fastprof.derive.host import CPU_ONLY, GPU
from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.derive.steps.event_origin import find_event_origins, mark_frames, parse_frame
from fastprof.derive.steps.host_calls import LoaderTime
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.schema.columns import Bools, Int64s, S, number_values, sum_by, sum_unbounded
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.wording.quantities import format_measure

if TYPE_CHECKING:
    from fastprof.derive.tfprof.view_set import AdvisorResult


MOST_SHOWN: Final = 7
LEAST_SHARE: Final = 0.01
"""Share of the run below which findings are left out."""

CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"
_WEIGHT: Final = {CERTAIN: 4, LIKELY: 3, POSSIBLE: 2}  # quarters
_PART: Final = {LIKELY: "¾", POSSIBLE: "½"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause of lost time, with its cost and what to do about it.

    ``cost_ps``: run time lost per device; None if unknown. ``is_bound``: whether removing the cause saves at most that,
    not just that. ``evidence``: the rows that show it, ``ANALYSIS.TABLE?COLUMN=VALUE&…``, with values quoted as in an
    address. ``detail``: what other reports know of it. ``is_once``: whether it is start-up, which does not come again.
    The other fields are what all places of the cause have in common, or None."""

    cause: str
    title: str
    cost_ps: int | None
    certainty: str
    evidence: str
    advice: str
    is_bound: bool = False
    host: str | None = None
    device: str | None = None
    step: int | None = None
    op: str | None = None
    annotation: str | None = None
    source: str | None = None
    detail: str | None = None
    is_once: bool = False

    def measure_worth(self) -> int:
        """Return what removing the cause may save: half of an upper bound, less if unsure."""
        return (self.cost_ps or 0) * _WEIGHT[self.certainty] // (8 if self.is_bound else 4)

    def explain_rank(self) -> str | None:
        """Return what decides the rank of the finding, or None if that is its cost."""
        if self.is_once:
            return "after recurring causes"
        if self.cost_ps is None or (not self.is_bound and self.certainty == CERTAIN):
            return None
        words = ["upper bound × ½"] if self.is_bound else []
        if self.certainty in _PART:
            words.append(f"{self.certainty} × {_PART[self.certainty]}")
        return f"{format_measure(self.measure_worth(), 'ps')} ({', '.join(words)})"


def limit_to_run(finding: Finding, window_ps: int) -> Finding:
    """Limit the cost to the run: damaged or truncated steps may be longer."""
    if finding.cost_ps is None or finding.cost_ps <= window_ps:
        return finding
    return replace(finding, cost_ps=window_ps)


def rank_findings(findings: Iterable[Finding], window_ps: int) -> list[Finding]:
    """Return the findings that matter, the most worth first, start-up last. ``window_ps``: run time.

    Findings of unknown cost, such as leaks, stay."""
    every = list(findings)
    least = max(1, LEAST_SHARE * max(window_ps - sum_start_up(every), 0))
    enough = [finding for finding in every if finding.cost_ps is None or finding.cost_ps >= least]
    ordered = sorted(enough, key=lambda finding: (finding.is_once, -finding.measure_worth()))
    known = [finding for finding in ordered if finding.cost_ps is not None]
    known = known[: max(MOST_SHOWN - (len(ordered) - len(known)), 1)]
    return [finding for finding in ordered if finding.cost_ps is None or finding in known][:MOST_SHOWN]


def sum_start_up(findings: Iterable[Finding]) -> int:
    """Return the start-up time. Its causes are those of time in which no device computes, which add up."""
    return sum(finding.cost_ps or 0 for finding in findings if finding.is_once)


# ---- names of events


UNKNOWN_RECORDER: Final = "unknown"
RECORDERS: Final = (UNKNOWN_RECORDER, "run", "record", "capture")
"""Commands and functions of fastprof that record a program."""


@dataclass(frozen=True, slots=True)
class EventNames:
    """Functions named by events.

    ``defined``: file and line of each Python function that the tracer saw, "" if functions share its name.
    ``callers``: the function and line that calls each slow compiled function for longest.
    ``callees``: the innermost function of the same file that takes at least half of a long function's time, by the
    name of the long function. ``in_pipelines``: self time of each Python function that tf.data calls, directly or
    not."""

    defined: Mapping[str, str] = field(default_factory=dict)
    callers: Mapping[str, str] = field(default_factory=dict)
    callees: Mapping[str, str] = field(default_factory=dict)
    in_pipelines: Mapping[str, int] = field(default_factory=dict)

    def add_caller(self, event: str) -> str:
        """Return the event, with the line that calls it if it is a compiled function of Python."""
        if event not in self.callers:
            return event
        caller = parse_frame(self.callers[event])
        return f"{parse_frame(event).function} in {caller.function} ({caller.file}:{caller.line})"

    @property
    def has_python(self) -> bool:
        return bool(self.defined)


def collect_names(events: HostEvents) -> EventNames:
    """Collect the names of a host. ``events``: its events, including derived ones."""
    callers, callees = _find_callers(events), find_callees(events)
    return EventNames(_find_definitions(events.recorded_names), callers, callees, _sum_in_pipelines(events))


def join_names(hosts: Iterable[EventNames]) -> EventNames:
    """Join the names of all hosts, leaving out definitions that differ."""
    defined: dict[str, str] = {}
    callers: dict[str, str] = {}
    callees: dict[str, str] = {}
    in_pipelines: Counter[str] = Counter()
    for host in hosts:
        in_pipelines.update(host.in_pipelines)
        for function, place in host.defined.items():
            defined[function] = place if defined.get(function, place) == place else ""
        callers = {**host.callers, **callers}
        callees = {**host.callees, **callees}
    return EventNames(defined, callers, callees, in_pipelines)


def _find_definitions(names: Iterable[str]) -> dict[str, str]:
    places: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if is_frame(name):
            frame = parse_frame(name)
            place = "" if frame.line is None else f"{frame.file}:{frame.line}"
            places[frame.function] = place if places.get(frame.function, place) == place else ""
    return places


_LONG_PS: Final = 100_000_000
_HOPS: Final = 8


def _find_callers(raw: HostEvents) -> dict[str, str]:
    lined, built_in = mark_frames(raw)
    if not built_in.any():
        return {}
    rows = np.flatnonzero(built_in[raw.meta] & (raw.duration_ps >= _LONG_PS))
    parent = find_event_origins(raw).parent
    caller = parent[rows].astype(np.int64)
    for _ in range(_HOPS):
        up = (caller >= 0) & ~lined[raw.meta[caller]]
        caller[up] = parent[caller[up]]
    known = (caller >= 0) & lined[raw.meta[caller]]
    rows, caller = rows[known], caller[known]
    pairs = zip(raw.meta[rows].tolist(), raw.meta[caller].tolist(), strict=True)
    longest_last = sorted(sum_by_key(pairs, raw.duration_ps[rows]).items(), key=lambda entry: entry[1])
    return {raw.names[called]: raw.names[by] for (called, by), _time_ps in longest_last}


CALLS_PYTHON: Final = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
"""Ops in which tf.data calls Python functions."""


def _sum_in_pipelines(raw: HostEvents) -> dict[str, int]:
    calls = np.array([name.rpartition(":")[2] in CALLS_PYTHON for name in raw.names], np.bool_)
    lined, _ = mark_frames(raw)
    if not calls.any() or not lined.any():
        return {}
    own_ps = raw.duration_ps - sum_by(find_enclosing(raw), raw.duration_ps, len(raw))
    rows = np.flatnonzero(lined[raw.meta])
    rows = rows[find_around(raw, rows, calls) >= 0]
    return {raw.names[meta]: own for meta, own in sum_by_key(raw.meta[rows].tolist(), own_ps[rows]).items()}


# ---- facts


Key = TypeVar("Key")
Row = TypeVar("Row", bound=NamedTuple)


@dataclasses.dataclass(frozen=True)
class DiagnosisFacts:
    """Reports, names of events and properties of the run that findings rest on.

    ``framework``: see derive.devices.op_names; ``hardware``: CPU_ONLY, GPU or TPU; ``reports``: by analysis name;
    ``names``: of events of all hosts; ``levels``: what the profiler was asked to record on all hosts, or None;
    ``capability``: the least compute capability of GPUs, or None; ``graphs``: results of tfprof's advisor; ``device``:
    name of a device (GPU, TPU, MTIA, NPU, …); ``maker``: vendor of the GPUs, or None if unknown or several; ``loader``:
    DataLoader waits of the host that waits longest; ``compilations``: number by function, "" if it is not recorded;
    ``recompilations``: those of functions that were compiled before; ``recorded_with``: one of RECORDERS."""

    framework: str
    hardware: str
    reports: Mapping[str, AnalysisReport]
    names: EventNames
    levels: TracerLevels | None = None
    capability: tuple[int, int] | None = None
    graphs: tuple[AdvisorResult, ...] = ()
    device: str = GPU
    maker: str | None = None
    loader: LoaderTime = field(default_factory=LoaderTime)
    compilations: Mapping[str, int] = field(default_factory=dict)
    recompilations: Sequence[Recompilation] = ()
    recorded_with: str = UNKNOWN_RECORDER

    @cached_property
    def memo(self) -> dict[str, Any]:
        """Results that several rules share, by a name that the rules choose."""
        return {}

    def report(self, report: type[Row]) -> AnalysisReport:
        """Return the report of figures or of a table."""
        return self.reports[reports.PLACES[report][0]]

    def table(self, table: type[Row]) -> pa.Table:
        return self.report(table).tables[reports.PLACES[table][1]]

    def columns(self, table: type[Row]) -> Row:
        """Return columns of a table, as chunked Arrow arrays."""
        columns = self.table(table)
        return table._make(columns[name] for name in table._fields)

    def rows(self, table: type[Row], most: int | None = None) -> list[Row]:
        """Return rows of a table; ``most``: the first ones only."""
        rows = self.table(table)
        columns = (list_texts(rows[name].slice(0, most)) for name in table._fields if rows.num_rows)
        return [*map(table._make, zip(*columns, strict=True))]

    def scalars(self, report: type[Row]) -> Row:
        """Return figures of a report with the reasons why they are unknown."""
        scalars = self.report(report).scalars
        return report._make(scalars[name] for name in report._fields)

    def figures(self, report: type[Row]) -> Row:
        """Return the values of figures of a report; None is unknown."""
        return report._make(scalar.value for scalar in self.scalars(report))

    @cached_property
    def _works(self) -> Bools:
        """Return whether each device that ran anything computes or communicates."""
        devices = self.columns(reports.Gaps.devices)
        return read_array(devices.compute_ps, np.int64) + read_array(devices.communication_ps, np.int64) > 0

    @cached_property
    def _counts(self) -> Bools:
        """Return whether findings cover each device that ran anything: it computes or communicates, or no device does.

        Copies alone, such as those of a process that prepares data on a device, are not what a run waits for."""
        return self._works if self._works.any() else np.ones_like(self._works)

    @cached_property
    def computing_count(self) -> int:
        """Number of devices that compute or communicate."""
        return int(np.count_nonzero(self._works))

    @cached_property
    def device_count(self) -> int:
        """Number of devices that findings cover."""
        return int(np.count_nonzero(self._counts))

    @cached_property
    def window_ps(self) -> int:
        """Run time, mean over devices."""
        return self.per_device(self._sum_devices(self.columns(reports.Gaps.devices).window_ps))

    @cached_property
    def compute_ps(self) -> int:
        """Compute time, summed over devices."""
        return self._sum_devices(self.columns(reports.Gaps.devices).compute_ps)

    @property
    def compute_share(self) -> float:
        """Compute time over recorded run time."""
        window_ps = self._sum_devices(self.columns(reports.Gaps.devices).window_ps)
        return self.compute_ps / max(window_ps - self.lost_records_ps, 1)

    @cached_property
    def lost_records_ps(self) -> int:
        """Time in which devices may have run work whose records are lost, summed over devices."""
        return sum_unbounded(self.get_lost_time("lost_records").time_ps)

    def _sum_devices(self, times: pa.ChunkedArray) -> int:
        return sum_unbounded(read_array(times, np.int64)[self._counts])

    @cached_property
    def lost(self) -> dict[str, LostTime]:
        """Rows of the table by_cause, by cause of gaps."""
        devices, rows = self.columns(reports.Gaps.devices), self.columns(reports.Gaps.by_cause)
        pairs = zip(list_texts(devices.host), list_texts(devices.device), strict=True)
        counts = {pair for pair, count in zip(pairs, self._counts.tolist(), strict=True) if count}
        host, device, event, causes = map(list_texts, (rows.host, rows.device, rows.event, rows.cause))
        places_of_cause: dict[str, list[int]] = {}
        for place, (cause, *pair) in enumerate(zip(causes, host, device, strict=True)):
            if cause is not None and tuple(pair) in counts:
                places_of_cause.setdefault(cause, []).append(place)
        amounts = [read_array(column, np.int64) for column in (rows.time_ps, rows.count, rows.longest_ps)]
        return {
            cause: LostTime(
                *([texts[place] for place in places] for texts in (host, device, event)),  # type: ignore[arg-type]
                *(times[places] for times in amounts),
            )
            for cause, places in places_of_cause.items()
        }

    def get_lost_time(self, cause: str) -> LostTime:
        """Return the rows of one cause, perhaps none."""
        none = np.zeros(0, np.int64)
        return self.lost.get(cause, LostTime([], [], [], none, none, none))

    @property
    def kernels(self) -> int:
        """Number of kernels that GPUs ran."""
        return self.figures(reports.KernelStats).occurrences or 0

    @cached_property
    def launch_waits(self) -> int:
        """Number of waits for launches: pieces of such time, at most one per kernel.

        The host may do several things in one wait."""
        pieces = sum_unbounded(self.get_lost_time("launch").count)
        return min(pieces, self.kernels or pieces)

    def per_device(self, time_ps: int) -> int:
        """Divide a sum over devices into run time."""
        return time_ps // max(1, self.device_count)

    @property
    def gaps(self) -> SessionBudget:
        """Device time by step, kind and cause, from which the tables of gaps are made."""
        return self.report(reports.Gaps).detail_as(SessionBudget)

    def list_budgets(self, cause: str | None = None) -> Iterator[Budget]:
        """Yield the time of devices that findings cover, in batches of hosts. ``cause``: of gaps (default: all)."""
        for rows in self.gaps.budgets(cause):
            yield rows[self._counts[rows.device]]

    def sum_cause_time(self, cause: str) -> int:
        """Return the time of a cause of gaps, over all devices and steps."""
        return sum_unbounded(self.time_by_step[1][:, CAUSE_NAMES.index(cause)])

    def measure_share_between_steps(self, cause: str) -> float:
        """Return the share of the time of a cause of gaps that lies between marked steps, over all devices.

        Waits for slower hosts are left out. 0.0 if there are no steps."""
        if not self.figures(reports.Steps).step_count:
            return 0.0
        of_cause = self.sum_cause_time(cause)
        known = self.waited_between_ps if cause == "idle" else 0
        return max(self.measure_time_between_steps(cause) - known, 0) / max(of_cause - known, 1)

    def measure_time_between_steps(self, cause: str) -> int:
        """Return the time of a cause of gaps outside of what is marked as steps or runs for them, over all devices."""
        return int(self.gaps.apart_ps[self._counts, GAP_CAUSES.index(cause)].sum())

    @cached_property
    def waited_between_ps(self) -> int:
        """Unexplained idle time between steps, in which hosts wait for a slower host, summed over devices."""
        waited = {row.host: row.waited_between_ps for row in self.rows(reports.Steps.hosts) if row.waited_between_ps}
        if not waited:
            return 0
        names = list_texts(self.columns(reports.Gaps.devices).host)
        devices = Counter(name for name, count in zip(names, self._counts.tolist(), strict=True) if count)
        idle = sum_by_key(names, self.gaps.apart_ps[:, GAP_CAUSES.index("idle")] * self._counts)
        return sum(min(time * devices[name], idle[name]) for name, time in waited.items())

    def sum_explanations(self, cause: str) -> Counter[str | None]:
        """Return the time of a cause of gaps by what explains it, over all devices. None: nothing does."""
        rows = self.gaps.explained(cause)
        rows = rows[self._counts[rows.device]]
        return sum_by_key(rows.event.tolist(), rows.time_ps)

    def measure_concurrent_time(self, cause: str) -> int:
        """Return how long something else goes on while devices wait for a cause of gaps, over all devices."""
        return int(self.gaps.beside_ps[self._counts, GAP_CAUSES.index(cause)].sum())

    @cached_property
    def time_by_step(self) -> tuple[Int64s, Int64s]:
        """Ascending step numbers, BETWEEN_STEPS first if any time is between steps, and device time by step and cause.

        Causes are in the order of CAUSE_NAMES."""
        steps, count = np.zeros(0, np.int64), len(CAUSE_NAMES)
        sums = np.zeros((0, count), np.int64)
        for rows in self.list_budgets():
            known, step = number_values(np.concatenate([steps, rows.step]))
            before, own = np.split(step, [len(steps)])
            cells = np.concatenate([(before[:, None] * count + np.arange(count)).reshape(-1), own * count + rows.cause])
            of_cells = sum_by(cells, np.concatenate([sums.reshape(-1), rows.time_ps]), len(known) * count)
            steps, sums = known, of_cells.reshape(len(known), count)
        database = self.report(reports.Steps).detail_as(SessionSteps).database
        return database.numbers_of(steps), sums

    @property
    def on_gpus(self) -> bool:
        """Return whether all devices are CUDA or ROCm GPUs."""
        return self.device == GPU

    def advise(self, cause: str) -> str:
        """Return the advice on a cause for this framework and these devices."""
        if cause == "idle" and (flags := self.name_flags(host=2, python=1)):
            return f"Record more of the host. {flags}"
        return get_advice(cause, self.framework, on_gpus=self.on_gpus)

    def name_flags(self, **levels: int) -> str:
        """Return a sentence with the flags that set these tracer levels in the command that recorded the run, or "" if
        the command is unknown."""
        if self.recorded_with == UNKNOWN_RECORDER:
            return ""
        if self.recorded_with == "record":
            words = ", ".join(f"{tracer}_level={level}" for tracer, level in levels.items())
            return f"Call fastprof.record(…, {words})."
        flags = " ".join(f"--{tracer}-level {level}" for tracer, level in levels.items())
        return f"Use fastprof {self.recorded_with} {flags}."

    def name_devices(self) -> str:
        """Return the devices as a subject with the verb wait."""
        if self.hardware == CPU_ONLY:
            return "Compute waits"
        if self.device_count == 1:
            return f"The {self.device} waits"
        return f"{self.name_idle_devices()} wait"

    def name_idle_devices(self) -> str:
        """Return the devices as a subject without an article; threads that are the device are "Device"."""
        if self.hardware == CPU_ONLY:
            return "Device"
        named = self.device if self.device_count == 1 else pluralise_device(self.device)
        return f"{named[0].upper()}{named[1:]}"


@dataclasses.dataclass(frozen=True)
class LostTime:
    """Time that devices lose to one cause of gaps, a row each."""

    host: list[str]
    device: list[str]
    event: list[str | None]
    time_ps: Int64s
    count: Int64s
    longest_ps: Int64s

    def __len__(self) -> int:
        return len(self.host)

    def find_main(self, names: Sequence[str], least: float) -> str | None:
        """Return the name that has most of the time, or None if that is less than this share of it."""
        time = sum_by_key(names, self.time_ps)
        name, most = max(time.items(), key=lambda entry: entry[1], default=(None, 0))
        return name if most >= least * time.total() else None


def sum_by_key(keys: Iterable[Key], amounts: Int64s) -> Counter[Key]:
    """Return the sum of amounts by key, of any size."""
    sums: Counter[Key] = Counter()
    for key, amount in zip(keys, amounts.tolist(), strict=True):
        sums[key] += amount
    return sums


def list_texts(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, equal strings of a dictionary in memory once."""
    texts: list[Any] = []
    for part in column.chunks:
        is_dictionary = pa.types.is_dictionary(part.type)
        known = part.dictionary.to_pylist() if is_dictionary else part.to_pylist()
        texts += [None if at is None else known[at] for at in part.indices.to_pylist()] if is_dictionary else known
    return texts


def read_array(column: pa.ChunkedArray, dtype: type[S]) -> npt.NDArray[S]:
    """Return a column of numbers. Nulls are NaN as np.float64; there must be none as np.int64."""
    return np.asarray(column.to_numpy(), dtype)
