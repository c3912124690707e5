"""What the steps of a host are made from: markers, executions of programs, annotations or launches that repeat.

By itself (``auto``) the first of these that the capture has counts, in this order:

    markers       set by the program or its framework, if they hold the work
    launched      markers that only hold the dispatch, each extended to the work that it launched
    loader        calls of a data loader that work follows, except on TPUs
    modules       executions of the compiled program that takes most time, at least three
    annotations   an annotation that repeats on one thread and covers at least half of the time
    launches      the longest pattern of launches that repeats
    modules       fewer executions than three
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fastprof.derive.steps import device_steps, marker_kinds, pool_work, profiler_steps, repeating
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.executions import Executions, executions, main_module
from fastprof.derive.steps.forest import Forest
from fastprof.derive.steps.grouping import Groups, known_names
from fastprof.derive.steps.host_step_events import HostStepEvents, host_step_events
from fastprof.derive.steps.loader_steps import loader_steps
from fastprof.derive.steps.module_steps import grouped_by_execution
from fastprof.derive.steps.step_time import Markers, longest
from fastprof.errors import MemoryLimitError
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.wording.quantities import few, shortened

AUTO: Final = "auto"
MARKERS: Final = "markers"
LAUNCHED: Final = "launched"
LOADER: Final = "loader"
MODULES: Final = "modules"
ANNOTATIONS: Final = "annotations"
LAUNCHES: Final = "launches"
NOTHING: Final = "nothing"
SOURCES: Final = {
    MARKERS: "markers",
    LAUNCHED: "markers and what they launched",
    LOADER: "calls of the data loader",
    MODULES: "executions of programs",
    ANNOTATIONS: "an annotation that repeats",
    LAUNCHES: "launches that repeat",
}
"""In words."""
CERTAINTY: Final = {
    MARKERS: "certain",
    LAUNCHED: "certain",
    LOADER: "likely",
    MODULES: "likely",
    ANNOTATIONS: "likely",
    LAUNCHES: "possible",
}
"""Certainty of steps by their source."""
CERTAINTIES: Final = ("possible", "likely", "certain")
STEPS_FROM: Final[dict[str, Any]] = {
    "help": "source of steps: markers of the program or its framework, as in XProf (markers), calls of the data loader "
    "(loader), executions of a compiled program (modules), repeating annotations or patterns of launches (annotations, "
    "launches); auto: the first source in the capture, with the work that it launched. Any other text is the name of "
    "markers or of an annotation, without their numbers",
    "choices": (AUTO, MARKERS, LOADER, MODULES, ANNOTATIONS, LAUNCHES),
    "or_name": True,
    "metavar": "SOURCE",
}
"""Metadata of the field ``steps_from`` of parameters; the default is AUTO."""


@dataclass(frozen=True, slots=True)
class StepSource:
    """``groups``: those that make the steps. ``source``: what they are made from, as above, ``nothing`` if there is
    nothing; ``why``: in words. ``spans``: when each step is, of hosts without devices and of PyTorch's profiler; None:
    as markers or devices say. ``marks``: rows of the annotations that steps are made from; None: none are. ``kinds``:
    in words, which of several kinds of markers make the steps; ``entire``: whether the first and the last step are
    recorded from begin to end. ``numbers``: by group, those of all steps if only some of
    them are chosen."""

    groups: Groups
    source: str
    why: str
    spans: Markers | None = None
    marks: Int64s | None = None
    kinds: str = ""
    entire: bool = False
    numbers: Mapping[int, int] | None = None

    @property
    def marked(self) -> Int64s:
        """The rows of events that mark steps."""
        return self.groups.step_rows.astype(np.int64) if self.marks is None else self.marks

    def subset(self, keep: Bools) -> StepSource:
        """Of these rows only."""
        groups = self.groups.subset(keep)
        spans = self.spans
        if spans is not None:
            spans = spans[np.isin(spans.group, groups.group_id)]
        marks = self.marks if self.marks is None else (np.cumsum(keep) - 1)[self.marks[keep[self.marks]]]
        return replace(self, groups=groups, spans=spans, marks=marks)

    def on_threads(self) -> HostStepEvents | None:
        """Return what threads of the host did in the steps; None if the host has no plane of threads."""
        return host_step_events(self.groups.events, self.groups)


def is_name(source: str) -> bool:
    """Return whether ``source`` is a marker or annotation name."""
    return source not in STEPS_FROM["choices"]


def requested(
    source: str, groups: Groups, forest: Callable[[], Forest], marked: Callable[[], StepDatabase]
) -> StepSource:
    """The steps that are made from ``source``. ``marked``: the steps by their markers."""
    if source == MARKERS:
        return StepSource(groups, MARKERS, "each marker is a step")
    if source == MODULES:
        return _of_modules(groups, every=True)
    if source == LOADER:
        return _of_loader(groups) or _of_nothing(groups, "no data loader is called three times with work in between")
    if source == ANNOTATIONS:
        return _of_annotation(groups, forest) or _of_nothing(
            groups, "no annotation repeats and covers half of the time"
        )
    if source == LAUNCHES:
        return _of_launches(groups) or _of_nothing(groups, "no pattern of launches repeats")
    if source != AUTO:
        return _of_name(groups, forest, marked(), source)
    return _by_itself(groups, forest, marked)


def _of_name(groups: Groups, forest: Callable[[], Forest], database: StepDatabase, name: str) -> StepSource:
    """Return the steps that markers of a name make, whatever their numbers, else an annotation of this name."""
    kinds = marker_kinds.kinds(database)
    chosen = np.array([kind == name for kind in kinds], np.bool_)
    if chosen.any():
        if _has_devices(groups.events):
            steps = marker_kinds.without(groups, database.step[~chosen])
            return StepSource(steps, MARKERS, f"each marker called {name} is a step")
        return _of_markers(groups, database.step[chosen])
    repeated = repeating.called(groups.events, name)
    made = None if repeated is None else _of_repeated(groups, forest, repeated)
    if made is not None:
        return made
    others = few(dict.fromkeys(shortened(kind) for kind in kinds if kind)) or "none"
    named = f"no marker and no annotation is called {shortened(name)!r}"
    return _of_nothing(groups, f"{named} (markers of this capture: {others})")


def _of_torch(groups: Groups) -> StepSource | None:
    """The steps of PyTorch's profiler, from the begin to the end of their markers on the host."""
    events = groups.events
    if not len(groups.step_rows) or not len(profiler_steps.step_marks(events)):
        return None
    rows = groups.step_rows
    spans = Markers(groups.step_groups, events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
    return StepSource(groups, MARKERS, "each marker is a step", spans, entire=True)


def _by_itself(groups: Groups, forest: Callable[[], Forest], marked: Callable[[], StepDatabase]) -> StepSource:
    if (of_torch := _of_torch(groups)) is not None:
        return of_torch
    try:
        database = marked()
    except MemoryLimitError:  # there are some, and a choice of them may fit
        return StepSource(groups, MARKERS, "each marker is a step")
    if len(database):
        chosen, kinds = marker_kinds.one_kind(database)
        if _has_devices(groups.events):
            steps = groups if chosen.all() else marker_kinds.without(groups, database.step[~chosen])
            return StepSource(steps, MARKERS, "each marker is a step", kinds=kinds)
        own = _of_markers(groups, database.step[chosen])
        return replace(own, kinds=kinds if own.source in (MARKERS, LAUNCHED) else "")
    if (of_loader := _of_loader(groups)) is not None:
        return of_loader
    of_planes = executions(groups.events)
    main = main_module(of_planes)
    count = max((one.counts()[main] for one in of_planes), default=0) if main is not None else 0
    if count >= repeating.LEAST:
        return _of_modules(groups, every=False)
    found = _of_annotation(groups, forest) or _of_launches(groups)
    if found is not None:
        return found
    if count:
        return _of_modules(groups, every=False)
    return StepSource(groups, NOTHING, "nothing marks steps, and nothing repeats")


def _of_loader(groups: Groups) -> StepSource | None:
    if groups.events.planes_of("TPU"):
        return None
    found = loader_steps(groups)
    if found is None:
        return None
    why = f"each lasts from one call of {found.name} to the next"
    spans = None if _has_devices(groups.events) else found.spans
    return StepSource(found.groups, LOADER, why, spans)


def _of_markers(groups: Groups, marked: Int64s) -> StepSource:
    """Of a CPU program: with the runs of compiled programs that the steps hold, or launched."""
    events = groups.events
    seen = host_step_events(events, groups)
    runs = next(iter(executions(events)), None)
    if seen is None:
        return StepSource(groups, MARKERS, "each marker is a step")
    spans = longest(seen.markers)
    spans = spans[np.isin(spans.group, marked)]
    if runs is None or not len(runs.rows):
        return StepSource(groups, MARKERS, "each marker is a step", spans)
    if pool_work.held_by(runs, spans):
        return StepSource(
            pool_work.with_runs(events, groups, runs, None, spans),
            MARKERS,
            "each marker is a step, with what thread pools run in its time",
            spans,
        )
    of_run = pool_work.launching_steps(events, runs, spans)
    if of_run is not None and (of_run >= 0).any():
        spans = pool_work.extended(spans, runs, of_run)
        return StepSource(
            pool_work.with_runs(events, groups, runs, of_run, spans),
            LAUNCHED,
            "each lasts until the work that its marker launched is done",
            spans,
        )
    found = _of_modules(groups, every=False)
    return replace(found, why=f"the markers only hold the dispatch, and no work can be assigned to them: {found.why}")


def _of_modules(groups: Groups, *, every: bool) -> StepSource:
    events = groups.events
    of_planes = executions(events)
    main = main_module(of_planes)
    if main is None:
        return _of_nothing(groups, "no executions of compiled programs in this capture")
    if every:
        return _of_executions(groups, of_planes, MODULES, "each execution of a compiled program is a step")
    several = len({name for one in of_planes for name in one.counts()}) > 1
    what = f"{main}, the program that takes most time," if several else main
    chosen = [one.of_module(main) for one in of_planes]
    return _of_executions(groups, chosen, MODULES, f"each execution of {what} is a step")


def _of_annotation(groups: Groups, forest: Callable[[], Forest]) -> StepSource | None:
    repeated = repeating.annotation(groups.events)
    return None if repeated is None else _of_repeated(groups, forest, repeated)


def _of_repeated(groups: Groups, forest: Callable[[], Forest], repeated: repeating.Repeated) -> StepSource | None:
    events = groups.events
    why = f"each annotation {repeated.name} is a step"
    if not _has_devices(events):
        made = _of_executions(groups, repeating.as_executions(events, repeated), ANNOTATIONS, why)
        return replace(made, marks=repeated.rows)
    group_id = np.full(len(events), -1, np.int32)
    roots = repeated.rows[np.argsort(events.start_ps[repeated.rows], kind="stable")].astype(np.int32)
    forest().graph.group(roots, None, 0, group_id)
    if not any((group_id[plane.first : plane.last] >= 0).any() for plane in _devices(events)):
        return None
    none = np.zeros(0, np.int32)
    found = replace(
        groups,
        group_id=group_id,
        count=len(roots),
        root_rows=roots,
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        vetoed=False,
        _naming=known_names(dict.fromkeys(range(len(roots)), repeated.name)),
    )
    found.device_steps = device_steps.of_planes(events, group_id, False)
    return StepSource(found, ANNOTATIONS, why, marks=repeated.rows)


def _of_launches(groups: Groups) -> StepSource | None:
    found = repeating.launches(groups.events)
    if not found:
        return None
    return _of_executions(groups, found, LAUNCHES, "each repeat of a pattern of launches is a step")


def _of_executions(groups: Groups, of_planes: list[Executions], source: str, why: str) -> StepSource:
    """The runs of other programs in the time of such steps on a host belong to these, too."""
    events = groups.events
    made = grouped_by_execution(groups, of_planes)
    if _has_devices(events):
        return StepSource(made, source, why)
    spans = made.device_steps[of_planes[0].plane.number].markers
    runs = next(iter(executions(events)), None)
    if runs is not None and len(runs.rows):
        of_run = None
        if source == MODULES:
            of_run = made.group_id[_first_rows(runs)].astype(np.int64)
        made = pool_work.with_runs(events, made, runs, of_run, spans)
    return StepSource(made, source, why, spans)


def _first_rows(runs: Executions) -> Int32s:
    """A row of each run."""
    first = np.zeros(len(runs.begin_ps), np.int64)
    first[runs.of[::-1]] = runs.rows[::-1]
    return first.astype(np.int32)


def _of_nothing(groups: Groups, why: str) -> StepSource:
    """No steps."""
    without = None if _has_devices(groups.events) else Markers.none()
    return StepSource(grouped_by_execution(groups, []), NOTHING, why, without)


def _has_devices(events: HostEvents) -> bool:
    return bool(_devices(events))


def _devices(events: HostEvents) -> list[Plane]:
    return [*events.planes_of("TPU"), *events.planes_of("GPU")]
