"""Source of a host's steps (markers, executions of programs, annotations or launches that repeat), and step numbers.

By default (``auto``) the first of these that the capture has counts, in this order:

    markers       set by the program or its framework, if they hold the work
    launched      markers that only hold the dispatch, each extended to the work that it launched
    loader        calls of a data loader that work follows, except on TPUs
    modules       executions of the compiled program that takes most time, at least three
    annotations   an annotation that repeats on one thread and covers at least half of the time
    launches      the longest pattern of launches that repeats
    modules       fewer executions than three

Three integers belong to a step::

    number   what users see and choose: 7 of ``train 7``; several steps may have one number
    group    its group of events on a host, from 0: the stat group_id
    step     the key of the step in a session: the group on the first host, unique
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.derive.steps import device_steps, grouping, inferred_steps
from fastprof.derive.steps.device_steps import ProgramExecutions, find_executions, find_step_modules
from fastprof.derive.steps.event_graph import EventForest
from fastprof.derive.steps.grouping import Groups, make_naming
from fastprof.derive.steps.inferred_steps import find_loader_steps, group_by_execution
from fastprof.derive.steps.step_database import Markers, StepDatabase, select_longest_markers
from fastprof.derive.steps.step_events import HostStepEvents, collect_host_step_events
from fastprof.errors import MemoryLimitError
from fastprof.schema.columns import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import LONG, count_noun, list_few, shorten_name

if TYPE_CHECKING:
    from fastprof.wording.amounts import Steps


_NUMBER: Final = compile_late(r"\d+")
_LEAST: Final = 2
"""A kind occurs at least so often: names that never repeat are no kinds."""


def list_marker_kinds(database: StepDatabase) -> list[str]:
    """Return the kind of each step: its name without numbers, ``ProfilerStep`` of ``ProfilerStep#7``."""
    shared: dict[str, str] = {}  # of very many, few differ
    return [shared.setdefault(kind := _NUMBER.sub("", label).strip(" #"), kind) for label in database.label]


def choose_marker_kind(database: StepDatabase) -> tuple[Bools, str]:
    """Return which steps are of the kind that counts: of those that the program numbers, else of all, the one that
    takes most time. And the names in words, "" if all steps are of one kind."""
    of_steps = list_marker_kinds(database)
    duration = database.duration_ps.max(axis=1, initial=0).tolist()
    weight: dict[str, list[int]] = {}
    for kind, numbered, time in zip(of_steps, database.numbered.tolist(), duration, strict=True):
        weights = weight.setdefault(kind, [0, 0, 0])
        weights[0], weights[1], weights[2] = max(weights[0], int(numbered)), weights[1] + time, weights[2] + 1
    every = np.ones(len(of_steps), np.bool_)
    repeated = {kind: weights for kind, weights in weight.items() if weights[2] >= _LEAST}
    if len(weight) < 2 or not repeated:
        return every, ""
    best = max(repeated, key=lambda kind: repeated[kind])
    others = [f"{count} {_name_kind(kind)}" for kind, (_, _, count) in weight.items() if kind != best]
    chosen = np.array([kind == best for kind in of_steps], np.bool_)
    return chosen, f"markers {_name_kind(best)} make the steps; others are left out: {', '.join(others)}"


def _name_kind(kind: str) -> str:
    return f"called {kind}" if kind else "without a name"


def remove_steps(groups: Groups, steps: Int64s) -> Groups:
    """Return the groups without these steps: their events belong to none."""
    dropped = np.zeros(groups.count + 1, np.bool_)  # the last is for events of no group
    dropped[steps] = True
    rows = ~dropped[groups.step_groups]
    return replace(
        groups,
        group_id=np.where(dropped[groups.group_id], -1, groups.group_id).astype(np.int32),
        step_rows=groups.step_rows[rows],
        step_groups=groups.step_groups[rows],
        device_steps={number: steps[~dropped[steps.group_id]] for number, steps in groups.device_steps.items()},
    )


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
"""Sources in words."""
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
    "help": "step source: program or framework markers, as in XProf (markers), data loader calls (loader), compiled "
    "program executions (modules), repeated annotations (annotations) or launch patterns (launches); auto: the first "
    "of these in the capture, with markers extended to the work that they launched. Any other value names markers or "
    "an annotation, without the step number",
    "choices": (AUTO, MARKERS, LOADER, MODULES, ANNOTATIONS, LAUNCHES),
    "or_name": True,
    "metavar": "SOURCE",
}
"""Metadata of the field ``steps_from`` of parameters; the default is AUTO."""


@dataclass(frozen=True, slots=True)
class StepSource:
    """Sources of steps. ``groups``: groups that make the steps. ``source``: as above, ``nothing`` if there is
    nothing; ``why``: in words. ``spans``: when each step is, on hosts without devices and with PyTorch's profiler, or
    None if markers or devices say so. ``marks``: rows of the annotations that make steps, or None if none do.
    ``kinds``: in words, which of several kinds of markers make the steps; ``entire``: whether the first and the last
    step are recorded from begin to end. ``numbers``: by group, those of all steps if only some of them are chosen."""

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
        """Select rows."""
        groups = self.groups.subset(keep)
        spans = self.spans
        if spans is not None:
            spans = spans[np.isin(spans.group, groups.group_id)]
        marks = self.marks if self.marks is None else (np.cumsum(keep) - 1)[self.marks[keep[self.marks]]]
        return replace(self, groups=groups, spans=spans, marks=marks)

    def on_threads(self) -> HostStepEvents | None:
        """Return what threads of the host did in the steps, or None if the host has no plane of threads."""
        return collect_host_step_events(self.groups.events, self.groups)


def is_step_name(source: str) -> bool:
    """Return whether ``source`` is a marker or annotation name."""
    return source not in STEPS_FROM["choices"]


def choose_step_source(
    source: str, groups: Groups, forest: Callable[[], EventForest], marked: Callable[[], StepDatabase]
) -> StepSource:
    """Return the steps that are made from ``source``. ``marked``: the steps by their markers."""
    if source == MARKERS:
        return StepSource(groups, MARKERS, "each marker is a step")
    if source == MODULES:
        return _make_module_source(groups, every=True)
    if source == LOADER:
        return _make_loader_source(groups) or _make_empty_source(
            groups, "no data loader is called three times with work in between"
        )
    if source == ANNOTATIONS:
        return _make_annotation_source(groups, forest) or _make_empty_source(
            groups, "no annotation repeats and covers half of the time"
        )
    if source == LAUNCHES:
        return _make_launch_source(groups) or _make_empty_source(groups, "no pattern of launches repeats")
    if source != AUTO:
        return _make_named_source(groups, forest, marked(), source)
    return _choose_automatically(groups, forest, marked)


def _make_named_source(
    groups: Groups, forest: Callable[[], EventForest], database: StepDatabase, name: str
) -> StepSource:
    """Return the steps that markers of a name make, whatever their numbers, else an annotation of this name."""
    kinds = list_marker_kinds(database)
    chosen = np.array([kind == name for kind in kinds], np.bool_)
    if chosen.any():
        if _has_devices(groups.events):
            steps = remove_steps(groups, database.step[~chosen])
            return StepSource(steps, MARKERS, f"each marker called {name} is a step")
        return _make_marker_source(groups, database.step[chosen])
    repeated = inferred_steps.find_calls_named(groups.events, name)
    made = None if repeated is None else _make_repeated_source(groups, forest, repeated)
    if made is not None:
        return made
    others = list_few(dict.fromkeys(shorten_name(kind) for kind in kinds if kind)) or "none"
    named = f"no marker and no annotation is called {shorten_name(name)!r}"
    return _make_empty_source(groups, f"{named} (markers of this capture: {others})")


def _choose_automatically(
    groups: Groups, forest: Callable[[], EventForest], marked: Callable[[], StepDatabase]
) -> StepSource:
    events, rows = groups.events, groups.step_rows
    if len(rows) and len(grouping.find_profiler_marks(events)):
        spans = Markers(groups.step_groups, events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
        return StepSource(groups, MARKERS, "each marker is a step", spans, entire=True)
    try:
        database = marked()
    except MemoryLimitError:  # there are some, and a choice of them may fit
        return StepSource(groups, MARKERS, "each marker is a step")
    if len(database):
        chosen, kinds = choose_marker_kind(database)
        if _has_devices(events):
            steps = groups if chosen.all() else remove_steps(groups, database.step[~chosen])
            return StepSource(steps, MARKERS, "each marker is a step", kinds=kinds)
        own = _make_marker_source(groups, database.step[chosen])
        return replace(own, kinds=kinds if own.source in (MARKERS, LAUNCHED) else "")
    if (of_loader := _make_loader_source(groups)) is not None:
        return of_loader
    of_planes = find_executions(events)
    mains = find_step_modules(of_planes)
    count = max((sum(map(of_plane.counts().__getitem__, mains)) for of_plane in of_planes), default=0)
    if count >= inferred_steps.LEAST_REPEATS:
        return _make_module_source(groups, every=False)
    source = _make_annotation_source(groups, forest) or _make_launch_source(groups)
    if source is not None:
        return source
    if count:
        return _make_module_source(groups, every=False)
    return StepSource(groups, NOTHING, "there are no step markers and no repetitions")


def _make_loader_source(groups: Groups) -> StepSource | None:
    if groups.events.planes_of("TPU"):
        return None
    loader = find_loader_steps(groups)
    if loader is None:
        return None
    why = f"each lasts from one call of {loader.name} to the next"
    spans = None if _has_devices(groups.events) else loader.spans
    return StepSource(loader.groups, LOADER, why, spans)


def _make_marker_source(groups: Groups, marked: Int64s) -> StepSource:
    """Make the step source of a CPU program: with the runs of compiled programs that the steps hold, or launched."""
    events = groups.events
    seen = collect_host_step_events(events, groups)
    runs = next(iter(find_executions(events)), None)
    if seen is None:
        return StepSource(groups, MARKERS, "each marker is a step")
    spans = select_longest_markers(seen.markers)
    spans = spans[np.isin(spans.group, marked)]
    if runs is None or not len(runs.rows):
        return StepSource(groups, MARKERS, "each marker is a step", spans)
    if inferred_steps.holds_most_time(runs, spans):
        return StepSource(
            inferred_steps.add_pool_runs(events, groups, runs, None, spans),
            MARKERS,
            "each marker is a step, with what thread pools run in its time",
            spans,
        )
    of_run = inferred_steps.find_launching_steps(events, runs, spans)
    if of_run is not None and (of_run >= 0).any():
        spans = inferred_steps.extend_markers(spans, runs, of_run)
        return StepSource(
            inferred_steps.add_pool_runs(events, groups, runs, of_run, spans),
            LAUNCHED,
            "each lasts until the work launched in its marker ends",
            spans,
        )
    source = _make_module_source(groups, every=False)
    return replace(
        source, why=f"the markers only enclose the dispatch, and no work can be assigned to them: {source.why}"
    )


def _make_module_source(groups: Groups, *, every: bool) -> StepSource:
    events = groups.events
    of_planes = find_executions(events)
    mains = find_step_modules(of_planes)
    if not mains:
        return _make_empty_source(groups, "no executions of compiled programs in this capture")
    if every:
        return _make_execution_source(groups, of_planes, MODULES, "each execution of a compiled program is a step")
    several = len({name for runs in of_planes for name in runs.counts()}) > 1
    others = ""
    if len(mains) > 1:
        others = f" and of {count_noun(len(mains) - 1, 'other program', 'other programs')} of its function"
    elif several:
        others = ", the program with the most time,"
    what = shorten_name(mains[0], LONG) + others
    chosen = [of_plane.of_modules(mains) for of_plane in of_planes]
    return _make_execution_source(groups, chosen, MODULES, f"each execution of {what} is a step")


def _make_annotation_source(groups: Groups, forest: Callable[[], EventForest]) -> StepSource | None:
    repeated = inferred_steps.find_repeated_annotation(groups.events)
    return None if repeated is None else _make_repeated_source(groups, forest, repeated)


def _make_repeated_source(
    groups: Groups, forest: Callable[[], EventForest], repeated: inferred_steps.RepeatedAnnotation
) -> StepSource | None:
    events = groups.events
    why = f"each annotation {shorten_name(repeated.name, LONG)} is a step"
    if not _has_devices(events):
        made = _make_execution_source(groups, inferred_steps.convert_to_executions(events, repeated), ANNOTATIONS, why)
        return replace(made, marks=repeated.rows)
    group_id = np.full(len(events), -1, np.int32)
    roots = repeated.rows[np.argsort(events.start_ps[repeated.rows], kind="stable")].astype(np.int32)
    forest().graph.group(roots, None, 0, group_id)
    if not any((group_id[plane.first : plane.last] >= 0).any() for plane in _list_devices(events)):
        return None
    none = np.zeros(0, np.int32)
    annotated = replace(
        groups,
        group_id=group_id,
        count=len(roots),
        root_rows=roots,
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        vetoed=False,
        _naming=make_naming(dict.fromkeys(range(len(roots)), repeated.name)),
    )
    annotated.device_steps = device_steps.collect_device_steps(events, group_id, False)
    return StepSource(annotated, ANNOTATIONS, why, marks=repeated.rows)


def _make_launch_source(groups: Groups) -> StepSource | None:
    patterns = inferred_steps.find_launch_pattern(groups.events)
    if not patterns:
        return None
    return _make_execution_source(groups, patterns, LAUNCHES, "each repeat of a pattern of launches is a step")


def _make_execution_source(groups: Groups, of_planes: list[ProgramExecutions], source: str, why: str) -> StepSource:
    """Return the runs of other programs in the time of such steps on a host belong to these, too."""
    events = groups.events
    made = group_by_execution(groups, of_planes)
    if _has_devices(events):
        return StepSource(made, source, why)
    spans = made.device_steps[of_planes[0].plane.number].markers
    runs = next(iter(find_executions(events)), None)
    if runs is not None and len(runs.rows):
        of_run = None
        if source == MODULES:
            first = np.zeros(len(runs.begin_ps), np.int64)
            first[runs.of[::-1]] = runs.rows[::-1]
            of_run = made.group_id[first].astype(np.int64)
        made = inferred_steps.add_pool_runs(events, made, runs, of_run, spans)
    return StepSource(made, source, why, spans)


def _make_empty_source(groups: Groups, why: str) -> StepSource:
    """Make a source without steps."""
    without = None if _has_devices(groups.events) else Markers.none()
    return StepSource(group_by_execution(groups, []), NOTHING, why, without)


def _has_devices(events: HostEvents) -> bool:
    return bool(_list_devices(events))


def _list_devices(events: HostEvents) -> list[Plane]:
    return [*events.planes_of("TPU"), *events.planes_of("GPU")]


_NUMBERED: Final = compile_late(r"(?:(.*)[ #])?(\d{1,18})", re.ASCII | re.DOTALL)
_MOST_LISTED: Final = 8


def split_label(label: str) -> tuple[str, int | None]:
    """Return the name of a step without its number, and the number or None. ``train 7``, ``ProfilerStep#7`` and ``7``
    have 7."""
    match = _NUMBERED.fullmatch(label)
    return (label, None) if match is None else ((match[1] or "").strip(), int(match[2]))


def number_steps(database: StepDatabase, source: StepSource) -> StepDatabase:
    """Return the steps of a host with their numbers. Steps that the program does not number count from 0,
    and a label that shows the number of its group shows this number instead. ``source.numbers``: numbers by group,
    which steps had before others were left out."""
    is_marked = source.source in (MARKERS, LAUNCHED)
    if not is_marked and source.numbers is None:
        return replace(database, number=np.arange(len(database)))
    recorded = (
        split_label(label)[1] if is_marked and numbered else None
        for label, numbered in zip(database.label, database.numbered.tolist(), strict=True)
    )
    known, count = source.numbers or {}, 0
    numbers, labels = np.zeros(len(database), np.int64), list(database.label)
    for row, (group, own) in enumerate(zip(database.step.tolist(), recorded, strict=True)):
        if own is None:
            own = known.get(group, count)
            count += 1
            if is_marked and split_label(labels[row])[1] == group:
                labels[row] = labels[row].removesuffix(str(group)) + str(own)
        numbers[row] = own
    return replace(database, number=numbers, label=labels)


def number_groups(groups: Int32s, label: list[str], numbered: Bools) -> tuple[Int64s, Int64s, list[str]]:
    """Return the number, group and label of groups that may be steps; without a number of the program, it is the
    group's."""
    recorded = [split_label(title)[1] if known else None for title, known in zip(label, numbered.tolist(), strict=True)]
    numbers = [group if own is None else own for own, group in zip(recorded, groups.tolist(), strict=True)]
    return np.array(numbers, np.int64), groups.astype(np.int64), label


def are_chosen(number: Int64s, label: Sequence[str], steps: Steps) -> Bools:
    """Return which steps of these numbers and labels are wanted."""
    chosen: Bools = number >= max(0, steps.first or 0)
    if steps.last is not None:
        chosen &= number < steps.last
    if steps.name is not None:
        chosen &= np.array([split_label(title)[0] == steps.name for title in label], np.bool_)
    return chosen


def describe_repeated_numbers(number: Int64s, label: Iterable[str]) -> str | None:
    """Return a notice if several of the chosen steps have one number, else None."""
    _, place, times = np.unique(number, return_inverse=True, return_counts=True)
    several = (times > 1)[place.reshape(-1)]
    if not several.any():
        return None
    many = count_noun(int(np.count_nonzero(times > 1)), "number belongs", "numbers belong")
    names = list(
        dict.fromkeys(split_label(title)[0] for title, twice in zip(label, several.tolist(), strict=True) if twice)
    )
    text = f"{many} to several of the chosen steps: all of these are selected."
    if len(names) > 1:
        return f"{text} To choose by name, write {shorten_name(names[0])}=A:B."
    return text


def list_numbers(number: Int64s, label: Sequence[str]) -> str:
    """Return the existing steps, in at most a line: ``3:8, 10:12`` of one name, ``train=3:8, eval=2:4`` of several."""
    kinds = [split_label(title)[0] for title in label]
    # names distinguish steps if some number has several
    distinguishes = len({*zip(kinds, number.tolist(), strict=True)}) > len(np.unique(number))
    names = list(dict.fromkeys(kinds)) if len({*kinds}) <= _MOST_LISTED and distinguishes else [None]
    ranges: list[str] = []
    for name in names:
        own = number if len(names) == 1 else number[np.array([kind == name for kind in kinds], np.bool_)]
        prefix = f"{shorten_name(name)}=" if len(names) > 1 and name else ""
        distinct = np.unique(own)
        parts = np.split(distinct, np.flatnonzero(np.diff(distinct) != 1) + 1) if len(distinct) else []
        ranges += [f"{prefix}{part[0]}" + (f":{part[-1] + 1}" if len(part) > 1 else "") for part in parts]
    more = len(ranges) - _MOST_LISTED
    return ", ".join(ranges[:_MOST_LISTED]) + (f" and {more:,} more ranges" if more > 0 else "")


def describe_missing_steps(steps: Steps, number: Int64s, label: Sequence[str]) -> str:
    """Return the message that ``steps`` are missing, with the steps that exist."""
    steps = steps._replace(name=shorten_name(steps.name)) if steps.name else steps
    missing = f"no step {'in ' if ':' in str(steps) else ''}{steps}"
    if not len(number):
        return f"{missing}; the session has no steps"
    if len(number) == 1:
        return f"{missing}; the only step is {list_numbers(number, label)}"
    ranges = list_numbers(number, label)
    return f"{missing}; choose from {ranges}{' (ends excluded)' if ':' in ranges else ''}"
