"""Findings, and the facts that they rest on: reports of other analyses, the duration of the run, names of events."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import AnalysisReport, Scalar, Value
from fastprof.analyses.findings.advice import get_advice
from fastprof.decode.plane_kinds import pluralise_device
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.causes.time_by_cause import CAUSE_NAMES, Budget, SessionBudget
from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.devices.run_environment import TracerLevels
from fastprof.derive.host import CPU_ONLY, GPU
from fastprof.derive.steps.event_origin import find_event_origins, has_line, is_built_in, parse_frame
from fastprof.derive.steps.host_calls import LoaderTime
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.schema.columns import Bools, Float64s, Int64s, number_values, sum_by
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import format_measure

if TYPE_CHECKING:
    from fastprof.derive.tfprof.view_set import AdvisorResult


MOST_SHOWN: Final = 7
LEAST_SHARE: Final = 0.01
"""Findings that cost less of the run are left out."""

CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"
_WEIGHT: Final = {CERTAIN: 4, LIKELY: 3, POSSIBLE: 2}  # quarters
_PART: Final = {LIKELY: "three quarters", POSSIBLE: "half"}


@dataclass(frozen=True, slots=True)
class Finding:
    """``cost_ps``: time of the run that the cause takes, per device; None: unknown. ``is_bound``: whether removing the
    cause saves at most that, not just that. ``evidence``: the rows that show it, ``ANALYSIS.TABLE?COLUMN=VALUE&…``,
    with values quoted as in an address; ``detail``: what other reports know of it; ``is_once``:
    whether it is start-up, which does not come again. The rest, where it is known, is None
    or what the cause has in common in all places."""

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

    def worth(self) -> int:
        """What removing the cause may save, for the order of findings: half of an upper bound, less if unsure."""
        return (self.cost_ps or 0) * _WEIGHT[self.certainty] // (8 if self.is_bound else 4)

    def ranked_by(self) -> str | None:
        """What decides the place of the finding, if that is not its cost; None: it is."""
        if self.is_once:
            return "after what comes again"
        if self.cost_ps is None or (not self.is_bound and self.certainty == CERTAIN):
            return None
        words = ["half, because it is an upper bound"] if self.is_bound else []
        if self.certainty in _PART:
            of_that = " of that" if words else ""
            words.append(f"{_PART[self.certainty]}{of_that}, because it is {self.certainty}")
        return f"{format_measure(self.worth(), 'ps')}: {', and '.join(words)}"


def limit_to_run(finding: Finding, window_ps: int) -> Finding:
    """The finding, with a cost of at most the run: steps that are damaged or cut off may be longer."""
    if finding.cost_ps is None or finding.cost_ps <= window_ps:
        return finding
    return replace(finding, cost_ps=window_ps)


def rank_findings(findings: Iterable[Finding], window_ps: int) -> list[Finding]:
    """The findings that matter, the one worth most first, but start-up last. ``window_ps``: time of the run. Those
    whose cost is unknown, such as leaks, are not left out for others."""
    every = list(findings)
    least = max(1, LEAST_SHARE * max(window_ps - sum_start_up(every), 0))
    enough = [one for one in every if one.cost_ps is None or one.cost_ps >= least]
    ordered = sorted(enough, key=lambda one: (one.is_once, -one.worth()))
    unknown = [one for one in ordered if one.cost_ps is None]
    known = [one for one in ordered if one.cost_ps is not None][: max(MOST_SHOWN - len(unknown), 1)]
    return [one for one in ordered if one.cost_ps is None or one in known][:MOST_SHOWN]


def sum_start_up(findings: Iterable[Finding]) -> int:
    """What start-up takes. Its causes are those of time in which no device computes, which add up."""
    return sum(finding.cost_ps or 0 for finding in findings if finding.is_once)


_COMPILES: Final = compile_late(r"backend_compile(?:_and_load)?$|tf\.function-graph_building$|XlaCompilationCache::")
"""Events that are one compilation each; those of passes and stages lie within."""
_CALLED: Final = compile_late(r"PjitFunction\((.*)\)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EventNames:
    """``compiled``: how often each function was compiled, "" if none is recorded; ``defined``: by function of Python
    that the tracer saw, its file and line, "" if several are called alike; ``callers``: of compiled functions whose
    calls take long, the function with a line that calls it for longest."""

    compiled: Mapping[str, int] = field(default_factory=dict)
    defined: Mapping[str, str] = field(default_factory=dict)
    callers: Mapping[str, str] = field(default_factory=dict)

    def called(self, event: str) -> str:
        """Return the event, with the line that calls it if it is a compiled function of Python."""
        if event not in self.callers:
            return event
        caller = parse_frame(self.callers[event])
        return f"{parse_frame(event).function} in {caller.function} ({caller.file}:{caller.line})"

    @property
    def has_python(self) -> bool:
        return bool(self.defined)


def collect_names(raw: HostEvents, events: HostEvents) -> EventNames:
    """``events``: of the same host, with what derived analyses know of them."""
    return EventNames(_count_compilations(raw), _find_definitions(events.recorded_names), _find_callers(events))


def join_names(hosts: Iterable[EventNames]) -> EventNames:
    """Of all hosts: compilations are added; definitions that differ are left out."""
    compiled: Counter[str] = Counter()
    defined: dict[str, str] = {}
    callers: dict[str, str] = {}
    for host in hosts:
        compiled.update(host.compiled)
        for function, place in host.defined.items():
            defined[function] = place if defined.get(function, place) == place else ""
        callers.update({name: caller for name, caller in host.callers.items() if name not in callers})
    return EventNames(compiled, defined, callers)


def _find_definitions(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if is_frame(name):
            frame = parse_frame(name)
            place = "" if frame.line is None else f"{frame.file}:{frame.line}"
            found[frame.function] = place if found.get(frame.function, place) == place else ""
    return found


_LONG_PS: Final = 100_000_000
_HOPS: Final = 8


def _find_callers(raw: HostEvents) -> dict[str, str]:
    built_in = np.array([is_built_in(name) for name in raw.names], np.bool_)
    if not built_in.any():
        return {}
    lined = np.array([has_line(name) for name in raw.names], np.bool_)
    rows = np.flatnonzero(built_in[raw.meta] & (raw.duration_ps >= _LONG_PS))
    parent = find_event_origins(raw).parent
    caller = parent[rows].astype(np.int64)
    for _ in range(_HOPS):
        up = (caller >= 0) & ~lined[raw.meta[caller]]
        caller[up] = parent[caller[up]]
    known = (caller >= 0) & lined[raw.meta[caller]]
    rows, caller = rows[known], caller[known]
    time: dict[tuple[int, int], int] = {}
    for pair, time_ps in zip(
        zip(raw.meta[rows].tolist(), raw.meta[caller].tolist(), strict=True),
        raw.duration_ps[rows].tolist(),
        strict=True,
    ):
        time[pair] = time.get(pair, 0) + time_ps
    found: dict[str, str] = {}
    for (called, by), _time_ps in sorted(time.items(), key=lambda one: one[1]):
        found[raw.names[called]] = raw.names[by]
    return found


def _count_compilations(raw: HostEvents) -> Counter[str]:
    """How often each function was compiled: the outermost call of a function that encloses the compilation."""
    names = raw.names
    compiles = np.array([_COMPILES.match(name) is not None for name in names], bool)
    if not compiles.any():
        return Counter()
    calls = np.array([_CALLED.match(name) is not None for name in names], bool)
    found: Counter[str] = Counter()
    for line in raw.lines:
        meta = raw.meta[line.first : line.last]
        at = np.flatnonzero(compiles[meta])
        if len(at):
            begin = raw.start_ps[line.first : line.last]
            end = begin + raw.duration_ps[line.first : line.last]
            call = _find_outermost(at, np.flatnonzero(calls[meta]), begin, end)
            functions, counts = np.unique(np.where(call < 0, -1, meta[call]), return_counts=True)
            for name, count in zip(functions.tolist(), counts.tolist(), strict=True):
                match = _CALLED.match(names[name])
                found[match[1] if match else ""] += count
    return found


def _find_outermost(at: Int64s, calls: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    """For each event of a line the outermost of these calls that encloses it, -1: none; ordered by start."""
    if not len(calls):
        return np.full(len(at), -1, np.int64)
    reached = np.maximum.accumulate(end[calls])
    outermost = calls[np.append(True, begin[calls[1:]] >= reached[:-1])]
    before = np.searchsorted(outermost, at) - 1
    call = outermost[np.maximum(before, 0)]
    return np.where((before >= 0) & (end[call] >= end[at]), call, -1)


@dataclasses.dataclass(frozen=True)
class DiagnosisFacts:
    """``framework``: that made the capture, see derive.devices.framework; ``hardware``: CPU_ONLY, GPU or TPU;
    ``reports``: by name of the analysis; ``names``: what names of events show, of all hosts; ``levels``: what the
    profiler was asked to record of all hosts, None: unknown; ``capability``: the least compute capability of GPUs,
    None: unknown; ``graphs``: what tfprof's advisor finds; ``device``: what to call a device: GPU, TPU, MTIA, NPU, …;
    ``maker``: who made the GPUs, as tensor_cores has it, None: unknown, or several; ``loader``: how the host that waits
    longest for a DataLoader of PyTorch does."""

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

    @cached_property
    def memo(self) -> dict[str, Any]:
        """Results that several rules share, by a name that the rules choose."""
        return {}

    @cached_property
    def _counts(self) -> Bools:
        """By device that ran anything, whether findings are of it: it computes or communicates, or none does. Copies
        alone, as those of a process that prepares data on a device, are not what a run waits for."""
        devices = self.table("gaps", "devices")
        works = read_times(devices, "compute_ps") + read_times(devices, "communication_ps") > 0
        return works if works.any() else np.ones(len(devices), np.bool_)

    @cached_property
    def computing_count(self) -> int:
        """Devices that compute or communicate."""
        devices = self.table("gaps", "devices")
        return int(np.count_nonzero(read_times(devices, "compute_ps") + read_times(devices, "communication_ps")))

    @cached_property
    def device_count(self) -> int:
        """Devices that findings are of."""
        return int(np.count_nonzero(self._counts))

    @cached_property
    def window_ps(self) -> int:
        """Time of the run: of the mean device."""
        return self.per_device(self._total("window_ps"))

    @cached_property
    def compute_ps(self) -> int:
        """Time in which devices compute, over all."""
        return self._total("compute_ps")

    @property
    def compute_share(self) -> float:
        """Share of the recorded time of the run."""
        return self.compute_ps / max(self._total("window_ps") - self.lost_records_ps, 1)

    @cached_property
    def lost_records_ps(self) -> int:
        """Time in which devices may have run work whose records are lost, over all."""
        return sum_exactly(self.lost_to("lost_records").time_ps)

    def _total(self, column: str) -> int:
        return sum(read_times(self.table("gaps", "devices"), column)[self._counts].tolist())

    @cached_property
    def lost(self) -> dict[str, LostTime]:
        """By cause of gaps, the rows of the table by_cause."""
        devices = zip(*(list_texts(self.table("gaps", "devices"), name) for name in ("host", "device")), strict=True)
        counts = {device for device, count in zip(devices, self._counts.tolist(), strict=True) if count}
        rows = self.table("gaps", "by_cause")
        host, device, event, causes = (list_texts(rows, name) for name in ("host", "device", "event", "cause"))
        of_cause: dict[str, list[int]] = {}
        for place, (cause, *of_device) in enumerate(zip(causes, host, device, strict=True)):
            if cause is not None and tuple(of_device) in counts:
                of_cause.setdefault(cause, []).append(place)
        amounts = [read_times(rows, name) for name in ("time_ps", "count", "longest_ps")]
        return {
            cause: LostTime(
                [host[place] for place in places],
                [device[place] for place in places],
                [event[place] for place in places],
                *(column[places] for column in amounts),
            )
            for cause, places in of_cause.items()
        }

    def lost_to(self, cause: str) -> LostTime:
        """The rows of one cause, perhaps none."""
        none = np.zeros(0, np.int64)
        return self.lost.get(cause, LostTime([], [], [], none, none, none))

    @property
    def kernels(self) -> int:
        """How many GPUs ran; 0: the devices are no GPUs."""
        return int(self.figure("kernel_stats", "occurrences") or 0)

    @cached_property
    def launch_waits(self) -> int:
        """How often devices wait for a launch: pieces of such time, but at most one for each kernel. The host may do
        several things one after another in one wait."""
        pieces = sum_exactly(self.lost_to("launch").count)
        return min(pieces, self.kernels or pieces)

    def per_device(self, time_ps: int) -> int:
        """A sum over devices as time of the run."""
        return time_ps // max(1, self.device_count)

    @property
    def gaps(self) -> SessionBudget:
        """Time of devices by step, kind and cause: what the tables of gaps are made of."""
        return self.reports["gaps"].detail_as(SessionBudget)

    def budgets(self, cause: str | None = None) -> Iterator[Budget]:
        """Of devices that findings are of, some hosts after the others. ``cause``: of gaps, None: all."""
        for rows in self.gaps.budgets(cause):
            yield rows[self._counts[rows.device]]

    def between_steps_share(self, cause: str) -> float:
        """Return the part of the time of a cause of gaps that lies between what is marked as steps, over all devices,
        without waits for slower hosts; 0.0 if there are no steps."""
        if not self.figure("steps", "step_count"):
            return 0.0
        of_cause = sum_exactly(self.time_by_step[1][:, CAUSE_NAMES.index(cause)])
        known = self.waited_between_ps if cause == "idle" else 0
        return max(self.between_steps_ps(cause) - known, 0) / max(of_cause - known, 1)

    def between_steps_ps(self, cause: str) -> int:
        """Return the time of a cause of gaps outside of what is marked as steps or runs for them, over all devices."""
        return int(self.gaps.apart_ps[self._counts, GAP_CAUSES.index(cause)].sum())

    @cached_property
    def waited_between_ps(self) -> int:
        """Unexplained idle time, summed over devices, in which their hosts wait between step extents for a slower
        host."""
        hosts = self.table("steps", "hosts").select(["host", "waited_between_ps"]).to_pylist()
        waited = {row["host"]: row["waited_between_ps"] for row in hosts if row["waited_between_ps"]}
        if not waited:
            return 0
        names = list_texts(self.table("gaps", "devices"), "host")
        devices = Counter(name for name, count in zip(names, self._counts.tolist(), strict=True) if count)
        idle: Counter[str] = Counter()
        apart_ps = self.gaps.apart_ps[:, GAP_CAUSES.index("idle")] * self._counts
        for name, time_ps in zip(names, apart_ps.tolist(), strict=True):
            idle[name] += time_ps
        return sum(min(time * devices[name], idle[name]) for name, time in waited.items())

    def explanations(self, cause: str) -> Counter[str | None]:
        """By what explains time of a cause of gaps, over all devices: that time. None: nothing does."""
        rows = self.gaps.explained(cause)
        rows = rows[self._counts[rows.device]]
        time: Counter[str | None] = Counter()
        for event, time_ps in zip(rows.event.tolist(), rows.time_ps.tolist(), strict=True):
            time[event] += time_ps
        return time

    def beside_ps(self, cause: str) -> int:
        """Of the time that devices wait for a cause of gaps, over all, that in which something else goes on."""
        return int(self.gaps.beside_ps[self._counts, GAP_CAUSES.index(cause)].sum())

    @cached_property
    def time_by_step(self) -> tuple[Int64s, Int64s]:
        """Step numbers in order, BETWEEN_STEPS first if time is between steps, and the time of all devices:
        [step, cause], see CAUSE_NAMES."""
        steps, count = np.zeros(0, np.int64), len(CAUSE_NAMES)
        sums = np.zeros((0, count), np.int64)
        for rows in self.budgets():
            known, step = number_values(np.concatenate([steps, rows.step]))
            before, own = np.split(step.reshape(-1), [len(steps)])
            cells = np.concatenate([(before[:, None] * count + np.arange(count)).reshape(-1), own * count + rows.cause])
            of_cells = sum_by(cells, np.concatenate([sums.reshape(-1), rows.time_ps]), len(known) * count)
            steps, sums = known, of_cells.reshape(len(known), count)
        database = self.reports["steps"].detail_as(SessionSteps).database
        return database.numbers_of(steps), sums

    def table(self, analysis: str, table: str) -> pa.Table:
        return self.reports[analysis].tables[table]

    def figure(self, analysis: str, name: str) -> Value:
        return self.scalar(analysis, name).value

    def scalar(self, analysis: str, name: str) -> Scalar:
        """The figure with the reason why it is unknown, if it is."""
        return self.reports[analysis].scalars[name]

    @property
    def on_gpus(self) -> bool:
        """Whether all devices are CUDA or ROCm GPUs."""
        return self.device == GPU

    def advise(self, cause: str) -> str:
        """Return the advice on a cause for this framework and these devices."""
        return get_advice(cause, self.framework, on_gpus=self.on_gpus)

    def devices(self) -> str:
        """Return the devices as a subject with the verb wait."""
        if self.hardware == CPU_ONLY:
            return "Compute waits"
        if self.device_count == 1:
            return f"The {self.device} waits"
        named = pluralise_device(self.device)
        return f"{named[0].upper()}{named[1:]} wait"


@dataclasses.dataclass(frozen=True)
class LostTime:
    """What devices lose to one cause of gaps, a row each."""

    host: list[str]
    device: list[str]
    event: list[str | None]
    time_ps: Int64s
    count: Int64s
    longest_ps: Int64s

    def __len__(self) -> int:
        return len(self.host)

    def mostly(self, names: Sequence[str], least: float) -> str | None:
        """The name of rows with most of the time, if that is at least this share of it; None: none has."""
        time: Counter[str] = Counter()
        for name, time_ps in zip(names, self.time_ps.tolist(), strict=True):
            time[name] += time_ps
        if not time:
            return None
        name, most = time.most_common(1)[0]
        return name if most >= least * time.total() else None


def sum_exactly(values: Int64s) -> int:
    """The exact sum."""
    return sum(values.tolist())


def list_texts(table: pa.Table, column: str) -> list[Any]:
    """The texts of a column, equal ones in memory once."""
    found: list[Any] = []
    for part in table[column].chunks:
        is_dictionary = pa.types.is_dictionary(part.type)
        known = part.dictionary.to_pylist() if is_dictionary else part.to_pylist()
        found += [None if at is None else known[at] for at in part.indices.to_pylist()] if is_dictionary else known
    return found


def read_numbers(table: pa.Table, column: str) -> Float64s:
    """A column of numbers; nan: unknown."""
    values: Float64s = np.asarray(table[column].to_numpy(), np.float64)
    return values


def read_times(table: pa.Table, column: str) -> Int64s:
    """A column of picoseconds, none of them null."""
    values: Int64s = np.asarray(table[column].to_numpy(), np.int64)
    return values
