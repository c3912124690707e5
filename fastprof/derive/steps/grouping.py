"""Groups of events: each training step, batch, request or program run is one, numbered from 0 on each host.

A group begins at a root: an event that a user or a framework marked. It takes in all that the root encloses on its
line, and all that those events lead to on other threads and devices. Follows TSL's EventForest; the rules are in
docs/analyses/steps.md.

PyTorch's profiler marks steps on the thread that calls ``profiler.step()``. What other threads do in that time belongs
to the step too: autograd runs the backward pass on a thread of its own, which has no marker. What a device runs belongs
to the step in which it was launched, which may be over by then::

    main thread  |--- ProfilerStep#7 ---|--- ProfilerStep#8 ---|
    autograd          |- backward -|                               begins in step 7
    GPU                        |------ kernels ------|             launched in step 7
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.decode.workers import Workers
from fastprof.derive.devices import op_names
from fastprof.derive.devices.op_names import STEP
from fastprof.derive.steps import device_steps
from fastprof.derive.steps.device_steps import PlaneSteps
from fastprof.derive.steps.event_graph import (
    CODES,
    HAS_GRAPH_TYPE,
    HAS_ITER_NUM,
    HAS_STEP_NUM,
    EventForest,
    is_any_type,
    is_one_of,
)
from fastprof.derive.steps.event_graph import STATS as STATS
from fastprof.schema.columns import Bools, Int32s, Int64s, add_durations, find_last_started, number_values, sort_rows
from fastprof.tables.host_events import HOST_THREADS, MODULE_LINES, STEP_LINES, HostEvents, Plane, find_lines, join_stat
from fastprof.tables.host_reader import CORRELATION, OP_ID
from fastprof.wording.patterns import compile_late

_NUMBERED: Final = compile_late(re.escape(STEP) + r"(\d{1,18})", re.ASCII)


def find_profiler_marks(events: HostEvents) -> Int32s:
    """Return the rows of the markers, in order of time; none where the profiler wrote none."""
    threads = events.plane_named(HOST_THREADS)
    if threads is None or not any(name.startswith(STEP) for name in events.names):
        return np.zeros(0, np.int32)
    wanted = op_names.has_category(events, op_names.ANNOTATIONS | op_names.OPS)
    named = np.array([_NUMBERED.fullmatch(name) is not None for name in events.names], bool) & wanted
    rows = threads.first + np.flatnonzero(named[events.meta[threads.first : threads.last]])
    return rows[np.argsort(events.start_ps[rows], kind="stable")].astype(np.int32)


def number_profiler_steps(events: HostEvents, marks: Int32s, most: int) -> Int32s:
    """Return the number of each step, as its marker has it. If two have one number, or one is ``most`` or more, as by
    damage, they are counted instead."""
    names = (events.names[meta].removeprefix(STEP) for meta in events.meta[marks].tolist())
    numbers = np.array([min(int(name), most) for name in names], np.int32)
    is_usable = len(np.unique(numbers)) == len(numbers) and (numbers < most).all()
    return numbers if is_usable else np.arange(len(marks), dtype=np.int32)


def group_by_marks(events: HostEvents, marks: Int32s, until_ps: Int64s | None = None) -> Int32s:
    """Return, per row, the number of the marker whose step the event is in, or -1. ``until_ps``: when steps
    end; by default with their markers."""
    group_id = np.full(len(events), -1, np.int32)
    begin = events.start_ps[marks]
    end = begin + np.maximum(events.duration_ps[marks], 0) if until_ps is None else until_ps
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        rows = slice(threads.first, threads.last)
        start = events.start_ps[rows]
        step = find_last_started(begin, start)
        group_id[rows] = np.where((step >= 0) & (start < end[step]), step, -1)
        del start, step
    group_id[marks] = np.arange(len(marks), dtype=np.int32)
    for stat in (CORRELATION, OP_ID):
        if stat in events.stats:
            _follow_launches(events, stat, group_id)
    return group_id


def collect_profiler_steps(events: HostEvents, group_id: Int32s) -> dict[int, PlaneSteps]:
    """Return the steps of each GPU by number of plane: from the first to the last that it ran of a step."""
    steps_by_plane = {}
    for plane in events.planes_of("GPU"):
        spans = [np.arange(line.first, line.last) for line in plane.lines if not line.is_derived]
        rows = np.concatenate([*spans, np.zeros(0, np.int64)]).astype(np.int64)
        rows = rows[group_id[rows] >= 0]
        steps, place = number_values(group_id[rows])
        begin = np.full(len(steps), np.iinfo(np.int64).max, np.int64)
        end = np.full(len(steps), np.iinfo(np.int64).min, np.int64)
        np.minimum.at(begin, place, events.start_ps[rows])
        np.maximum.at(end, place, events.start_ps[rows] + np.maximum(events.duration_ps[rows], 0))
        steps_by_plane[plane.number] = PlaneSteps(steps, begin, end - begin, begin, end - begin)
    return steps_by_plane


def _follow_launches(events: HostEvents, stat: str, group_id: Int32s) -> None:
    """Assign what devices ran the group of the call or op with the same id."""
    rows, ids = events.ints(stat)
    on_device = np.zeros(len(events), bool)
    for plane in events.planes_of("GPU"):
        on_device[plane.first : plane.last] = True
    launched = on_device[rows]
    calls, call_ids = rows[~launched], ids[~launched]
    order = np.argsort(call_ids, kind="stable")
    place = np.searchsorted(call_ids[order], ids[launched])
    known = place < len(order)
    known[known] = call_ids[order][place[known]] == ids[launched][known]
    group_id[rows[launched][known]] = group_id[calls[order[place[known]]]]


Types = npt.NDArray[np.uint8]
_IMPLICIT = tuple(CODES[name] for name in ("FunctionRun", "SessionRun", "RunGraph", "ExecutorState::Process"))
_TRACE_CONTEXT = CODES["TraceContext"]
_MOST_GROUPS = 1 << 20
"""Recorded group numbers up to this are accepted; a truncated capture may have few events and large numbers."""
_BATCHES, _BATCHING_RUN = (CODES["ProcessBatch"], CODES["OrbaxServing::ProcessBatch"]), CODES["BatchingSessionRun"]


Naming = Callable[[Int32s, npt.NDArray[Any]], tuple[list[str], Bools]]
"""Returns the names of groups, given by root and number, and whether the capture records the number in each."""


def _name_by_number(_roots: Int32s, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
    return list(map(str, groups.tolist())), np.zeros(len(groups), np.bool_)


def make_naming(names: Mapping[int, str]) -> Naming:
    """Return a naming of groups by these names; others are empty."""

    def naming(_roots: Int32s, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
        titles = [names.get(group, "") for group in groups.tolist()]
        return titles, np.array([bool(name) for name in titles], np.bool_)

    return naming


@dataclass(eq=False)
class Groups:
    """``group_id``: int32 by row of ``events``, or -1 if there is none. ``is_eager``: uint8 likewise. ``root_rows``:
    the root of each group, int32. ``step_rows``, ``step_groups``: rows that carry the name of a step, and its group.
    ``relations``: int32 pairs, the first group leads into the second. ``device_steps``: by number of plane."""

    events: HostEvents
    types: Types
    group_id: Int32s
    is_eager: npt.NDArray[np.uint8]
    count: int
    root_rows: Int32s
    step_rows: Int32s
    step_groups: Int32s
    relations: npt.NDArray[np.int32]
    device_steps: dict[int, PlaneSteps] = field(default_factory=dict)
    vetoed: bool = False
    """True if grouping was given up because events of loops do not record their iterations."""
    made: int | None = None
    """Number of groups that were made, if the capture records more, or None if all were made."""
    _naming: Naming = _name_by_number

    @cached_property
    def names(self) -> list[str]:
        """The name of each group, such as ``train 7``; empty where none is known."""
        return self.names_of(np.arange(self.count, dtype=np.int32))

    def names_of(self, groups: npt.NDArray[Any]) -> list[str]:
        """Return the names of some groups."""
        return self._naming(self.root_rows[groups], groups)[0]

    def step_names(self, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
        """Return the names of these steps, and whether the capture records them, with their groups or on the step lines
        of TPUs; other steps are named by the number of their group."""
        names, numbered = self._naming(self.root_rows[groups], groups)
        names = [name or str(number) for name, number in zip(names, groups.tolist(), strict=True)]
        if not numbered.all() and (on_lines := self._names_on_step_lines()):
            for place in np.flatnonzero(~numbered).tolist():
                if name := on_lines.get(int(groups[place])):
                    names[place], numbered[place] = name, True
        return names, numbered

    def _names_on_step_lines(self) -> dict[int, str]:
        """Return the name by group that all TPUs have for the step; empty where they differ."""
        title_of_group: dict[int, str] = {}
        events = self.events
        for plane in events.planes_of("TPU"):
            for line in plane.lines:
                if line.name in STEP_LINES:
                    here = slice(line.first, line.last)
                    for group, title in zip(self.group_id[here].tolist(), events.meta[here].tolist(), strict=True):
                        name = events.names[title]
                        title_of_group[group] = name if title_of_group.get(group, name) == name else ""
        return title_of_group

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        """First of each pair of related groups."""
        return self.relations[:, 0]

    @property
    def children(self) -> npt.NDArray[np.int32]:
        return self.relations[:, 1]

    def subset(self, keep: Bools) -> Groups:
        """Select rows; groups keep their numbers and names."""
        names, numbered = self._naming(self.root_rows, np.arange(self.count))
        moved = np.cumsum(keep, dtype=np.int32) - 1
        here = keep[self.step_rows]
        kept = set(np.unique(self.group_id[keep]).tolist())
        roots = np.where((self.root_rows >= 0) & keep[self.root_rows], moved[self.root_rows], -1)
        related = np.isin(self.relations, list(kept)).all(axis=1)
        steps = {number: steps[np.isin(steps.group_id, list(kept))] for number, steps in self.device_steps.items()}
        return Groups(
            self.events.subset(keep), self.types[keep], self.group_id[keep], self.is_eager[keep], self.count,
            roots.astype(np.int32), moved[self.step_rows[here]], self.step_groups[here], self.relations[related],
            steps, self.vetoed, self.made, lambda _, groups: ([names[group] for group in groups], numbered[groups]),
        )  # fmt: skip


def group_events(raw: HostEvents, workers: Workers) -> Groups:
    """Group the events of a host."""
    return group_forest(EventForest(raw, workers))


def group_forest(forest: EventForest) -> Groups:
    """Return the groups of a forest, or those that whoever wrote the capture made."""
    marks = find_profiler_marks(forest.events)
    if len(marks):
        return _group_by_profiler(forest, marks)
    if forest.recorded:
        groups = _read_groups(forest)
    else:
        if forest.vetoed:
            none = np.zeros(0, np.int32)
            groups = Groups(
                forest.events, forest.types, np.full(len(forest.events), -1, np.int32), forest.is_eager, 0, none, none,
                none, np.zeros((0, 2), np.int32), vetoed=True,
            )  # fmt: skip
        else:
            groups = _group_by_roots(forest)
        if len(forest.events.stat("group_id")):
            groups = _complete_groups(groups, _read_groups(forest), forest)
    groups.device_steps = device_steps.collect_device_steps(groups.events, groups.group_id, forest.recorded)
    return groups


def _group_by_profiler(forest: EventForest, marks: Int32s) -> Groups:
    """Return the steps that PyTorch's profiler marks: other threads have no part in its nesting, but work for a step
    too."""
    events = forest.events
    numbers = number_profiler_steps(events, marks, _MOST_GROUPS)
    group_id = np.append(numbers, np.int32(-1))[group_by_marks(events, marks)]
    names = dict(zip(numbers.tolist(), (events.names[meta] for meta in events.meta[marks].tolist()), strict=True))
    count = int(numbers.max()) + 1
    roots = np.full(count, -1, np.int32)
    roots[numbers] = marks
    return Groups(
        events, forest.types, group_id, np.zeros(len(events), np.uint8), count, roots, marks, numbers,
        np.zeros((0, 2), np.int32), collect_profiler_steps(events, group_id), made=len(marks),
        _naming=make_naming(names),
    )  # fmt: skip


def _read_groups(forest: EventForest) -> Groups:
    """Return the groups that the stats group_id, step_name and is_eager of the capture record."""
    raw = forest.events
    group_id = np.full(len(raw), -1, np.int32)
    rows, values = raw.ints("group_id")
    known = (values >= 0) & (values < max(len(raw), _MOST_GROUPS))
    group_id[rows[known]] = values[known]
    if not known.all():
        text = "group_id is negative or larger than any that groups of the host have; such events have no group"
        raw.note("data_loss", "bad_group_id", text, int((~known).sum()))
    rows, numbers = raw.texts("step_name")
    rows, numbers = rows[group_id[rows] >= 0], numbers[group_id[rows] >= 0]
    names = dict(zip(group_id[rows].tolist(), raw.all_texts(numbers), strict=True))
    count = int(group_id.max(initial=-1)) + 1
    return Groups(
        raw, forest.types, group_id, forest.is_eager, count, np.full(count, -1, np.int32), rows, group_id[rows],
        np.zeros((0, 2), np.int32), _naming=make_naming(names),
    )  # fmt: skip


def _complete_groups(groups: Groups, recorded: Groups, forest: EventForest) -> Groups:
    """Complete the groups of a capture in which only some planes had been grouped: events without a new group keep the
    recorded one, and so do events of a TPU that only take the group of the step they overlap."""
    stay = groups.group_id < 0
    for plane in forest.tpu_planes:
        line = device_steps.find_grouping_line(plane)
        for other in plane.lines:
            if other is not line:
                stay[other.first : other.last] = True
    stay &= recorded.group_id >= 0
    named = stay[recorded.step_rows]
    count = max(groups.count, recorded.count)
    later = dict(enumerate(recorded.names[groups.count :], groups.count))

    def naming(roots: Int32s, numbers: npt.NDArray[Any]) -> tuple[list[str], Bools]:
        names, numbered = groups._naming(roots, numbers)
        recorded_names = [later.get(number, "") for number in numbers.tolist()]
        names = [name or own for name, own in zip(recorded_names, names, strict=True)]
        return names, numbered | np.array([bool(name) for name in recorded_names], np.bool_)

    return replace(
        groups,
        group_id=np.where(stay, recorded.group_id, groups.group_id),
        count=count,
        root_rows=np.concatenate([groups.root_rows, np.full(count - groups.count, -1, np.int32)]),
        step_rows=np.concatenate([groups.step_rows, recorded.step_rows[named]]),
        step_groups=np.concatenate([groups.step_groups, recorded.step_groups[named]]),
        made=groups.count,
        _naming=naming,
    )


def _group_by_roots(forest: EventForest) -> Groups:
    events, types, tpu = forest.events, forest.types, forest.tpu_planes
    group_id = np.full(len(events), -1, np.int32)
    graph = forest.graph
    roots, level = forest.loop_roots, None
    if roots is None:
        roots, level = _find_roots(events, types, forest.captured_functions, tpu)
    tasks: list[Callable[[], Any]] = [  # the second only looks at the graph
        partial(graph.group, roots, level, 0, group_id),
        lambda: forest.is_eager,
    ]
    grouped, is_eager = forest.workers.run(None, tasks)
    root_rows = np.frombuffer(grouped[0], np.int32)
    count, pairs = len(root_rows), np.frombuffer(grouped[1], np.int32)
    if tpu:
        count, more = device_steps.number_in_lock_step(tpu, graph, group_id, count)
        pairs = np.append(pairs, np.frombuffer(more, np.int32))
        device_steps.spread_groups(events, tpu, group_id)
    pairs = pairs.reshape(-1, 2)
    keys = np.sort(pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1])
    keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys  # np.unique hashes, pairs crowd there
    relations = np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)
    named = np.flatnonzero(~_is_implicit(events, types, root_rows)).astype(np.int32)
    root_rows = np.concatenate([root_rows, np.full(count - len(root_rows), -1, np.int32)])
    return Groups(
        events, types, group_id, is_eager, count, root_rows, root_rows[named], named, relations,
        _naming=partial(_name_roots, forest),
    )  # fmt: skip


def _find_roots(
    events: HostEvents, types: Types, of_functions: npt.NDArray[np.int64], tpu_planes: Sequence[Plane]
) -> tuple[Int32s, Int32s]:
    """Return roots, highest level first, then in order of time; and the number of the level of each row, or 0 if it is
    no root. What runs a function of tf.data heads no group, yet the roots below it are not the outermost ones of their
    level."""
    rows, values = events.ints("_r")
    marked: list[tuple[npt.NDArray[Any], npt.NDArray[np.int64] | int]] = [
        (np.flatnonzero(types == _TRACE_CONTEXT), 1),
        (rows, values),
        (np.flatnonzero(is_any_type(types, _BATCHES)), 2),
        (np.flatnonzero(types == _BATCHING_RUN), 1),
    ]
    rows = np.concatenate([rows for rows, _ in marked]).astype(np.int32)
    values = np.concatenate([np.broadcast_to(level, len(rows)) for rows, level in marked])
    order = np.argsort(rows, kind="stable")
    last = np.append(rows[order[1:]] != rows[order[:-1]], True) if len(rows) else np.zeros(0, bool)
    roots, levels = rows[order[last]], values[order[last]]
    for plane in tpu_planes:
        keep = (roots < plane.first) | (roots >= plane.last)
        roots, levels = roots[keep], levels[keep]
    number = np.zeros(len(events), np.int32)
    number[roots] = np.unique(levels, return_inverse=True)[1].astype(np.int32) + 1
    if len(of_functions):
        has_id, id_ = join_stat(roots, *events.ints("id"))
        keep = ~(has_id & is_one_of(id_, of_functions))
        roots, levels = roots[keep], levels[keep]
    order = sort_rows(~levels, events.start_ps[roots], roots)
    return np.ascontiguousarray(roots[order]), number


# ---- names and flags


def _is_implicit(events: HostEvents, types: Types, roots: Int32s) -> Bools:
    """Return whether frameworks or devices make each root: groups of these are called by a number alone."""
    implicit = is_any_type(types[roots], _IMPLICIT)
    if lines := events.used_lines:
        by_line = np.array([line.name in STEP_LINES + MODULE_LINES for line in lines])
        implicit |= by_line[find_lines(lines, roots)]
    return implicit


def _name_roots(forest: EventForest, roots: Int32s, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
    """Return the names of the roots, with the recorded number of their iteration, else of their step, else that of
    their group, as for groups without a root."""
    events = forest.events
    rooted = np.flatnonzero(roots >= 0)
    rows = roots[rooted]
    count, numbered = groups.astype(np.int64), np.zeros(len(groups), np.bool_)
    for stat, bit in (("step_num", HAS_STEP_NUM), ("iter_num", HAS_ITER_NUM)):
        stat_rows, values = events.ints(stat)
        above = forest.nearest_above(bit, rows)
        count[rooted[above >= 0]] = values[np.searchsorted(stat_rows, above[above >= 0])]
        numbered[rooted[above >= 0]] = True
    titles = [""] * len(groups)
    implicit = _is_implicit(events, forest.types, rows)
    for place, meta, nameless in zip(rooted.tolist(), events.meta[rows].tolist(), implicit.tolist(), strict=True):
        titles[place] = "" if nameless else events.names[meta]
    texts, numbers = events.texts("graph_type")
    graphs = forest.nearest_above(HAS_GRAPH_TYPE, rows)
    for i in np.flatnonzero(graphs >= 0).tolist():
        titles[int(rooted[i])] = events.text(int(numbers[np.searchsorted(texts, graphs[i])]))
    pairs = zip(titles, count.tolist(), strict=True)
    return [f"{title} {number}" if title else str(number) for title, number in pairs], numbered


NEVER: Final[int] = np.iinfo(np.int64).max
"""A time that no event has."""


def find_step_markers(events: HostEvents, groups: Groups, steps: Int64s) -> tuple[Int64s, Int64s]:
    """Return begin and end of the marker of each step on the host's threads, of several the longest; NEVER and -NEVER
    if there is none. ``steps``: groups, ascending."""
    begin, end = np.full(len(steps), NEVER), np.full(len(steps), -NEVER)
    rows = np.concatenate([groups.step_rows, groups.root_rows[groups.root_rows >= 0]])
    of = np.concatenate([groups.step_groups.astype(np.int64), np.flatnonzero(groups.root_rows >= 0)])
    place = np.minimum(np.searchsorted(steps, of), max(len(steps) - 1, 0))
    known = steps[place] == of if len(steps) else np.zeros(len(of), np.bool_)
    for plane in events.planes:
        if plane.kind != "CPU":
            known &= (rows < plane.first) | (rows >= plane.last)
    place, rows = place[known], rows[known]
    order = np.argsort(np.maximum(events.duration_ps[rows], 0), kind="stable")
    place, rows = place[order], rows[order]
    begin[place], end[place] = (
        events.start_ps[rows],
        add_durations(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)),
    )
    return begin, end
