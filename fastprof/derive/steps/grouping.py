"""Groups of events: each training step, batch, request or program run is one, numbered from 0 on each host.

A group begins at a root: an event that a user or a framework marked. It takes in all that the root encloses on its
line, and all that those events lead to on other threads and devices. Follows TSL's EventForest; the rules are in
docs/analyses/steps.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.decode.workers import Workers
from fastprof.derive.steps import device_steps, profiler_steps
from fastprof.derive.steps.device_steps import DeviceSteps
from fastprof.derive.steps.event_types import CODES, among
from fastprof.derive.steps.forest import HAS_GRAPH_TYPE, HAS_ITER_NUM, HAS_STEP_NUM, Forest
from fastprof.derive.steps.forest import STATS as STATS
from fastprof.derive.steps.links import is_one_of
from fastprof.schema.array_types import Bools, Int32s
from fastprof.tables.host_events import HostEvents, Plane, beside

Types = npt.NDArray[np.uint8]
_IMPLICIT = tuple(CODES[name] for name in ("FunctionRun", "SessionRun", "RunGraph", "ExecutorState::Process"))
_IMPLICIT_LINES = ("Steps", "Sparse Core Steps", "XLA Modules", "Sparse Core Modules")
_TRACE_CONTEXT = CODES["TraceContext"]
_MOST_GROUPS = 1 << 20
"""Recorded group numbers up to this are accepted; a truncated capture may have few events and large numbers."""
_BATCHES, _BATCHING_RUN = (CODES["ProcessBatch"], CODES["OrbaxServing::ProcessBatch"]), CODES["BatchingSessionRun"]


Naming = Callable[[Int32s, npt.NDArray[Any]], tuple[list[str], Bools]]
"""For the roots of groups and their numbers, the names, and whether the capture records the number in each."""


def _by_number(_roots: Int32s, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
    return list(map(str, groups.tolist())), np.zeros(len(groups), np.bool_)


def known_names(names: Mapping[int, str]) -> Naming:
    """Names by group; others are empty."""

    def naming(_roots: Int32s, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
        found = [names.get(group, "") for group in groups.tolist()]
        return found, np.array([bool(name) for name in found], np.bool_)

    return naming


@dataclass(eq=False)
class Groups:
    """``group_id``: int32 by row of ``events``, -1: none. ``is_eager``: uint8 likewise. ``root_rows``: the root of each
    group, int32. ``step_rows``, ``step_groups``: rows that carry the name of a step, and its group. ``relations``:
    int32 pairs, the first group leads into the second. ``device_steps``: by number of plane."""

    events: HostEvents
    types: Types
    group_id: Int32s
    is_eager: npt.NDArray[np.uint8]
    count: int
    root_rows: Int32s
    step_rows: Int32s
    step_groups: Int32s
    relations: npt.NDArray[np.int32]
    device_steps: dict[int, DeviceSteps] = field(default_factory=dict)
    vetoed: bool = False
    """Whether grouping was given up because events of loops do not record their iterations."""
    made: int | None = None
    """The number of groups that were made, where the capture records more; None: all were."""
    _naming: Naming = _by_number

    @cached_property
    def names(self) -> list[str]:
        """The name of each group, such as ``train 7``; empty where none is known."""
        return self.names_of(np.arange(self.count, dtype=np.int32))

    def names_of(self, groups: npt.NDArray[Any]) -> list[str]:
        """The names of some groups."""
        return self._naming(self.root_rows[groups], groups)[0]

    def step_names(self, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
        """The names of these steps, and whether the capture records them, with their groups or on the step lines of
        TPUs; other steps are named by the number of their group."""
        names, numbered = self._naming(self.root_rows[groups], groups)
        names = [name or str(number) for name, number in zip(names, groups.tolist(), strict=True)]
        if not numbered.all() and (on_lines := self._names_on_step_lines()):
            for place in np.flatnonzero(~numbered).tolist():
                if name := on_lines.get(int(groups[place])):
                    names[place], numbered[place] = name, True
        return names, numbered

    def _names_on_step_lines(self) -> dict[int, str]:
        """By group, the name that all TPUs have for the step; empty where they differ."""
        found: dict[int, str] = {}
        events = self.events
        for plane in events.planes_of("TPU"):
            for line in plane.lines:
                if line.name in device_steps.STEP_LINES:
                    here = slice(line.first, line.last)
                    for group, title in zip(self.group_id[here].tolist(), events.meta[here].tolist(), strict=True):
                        name = events.names[title]
                        found[group] = name if found.get(group, name) == name else ""
        return found

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        """First of each pair of related groups."""
        return self.relations[:, 0]

    @property
    def children(self) -> npt.NDArray[np.int32]:
        return self.relations[:, 1]

    def subset(self, keep: Bools) -> Groups:
        """These rows only; groups keep their numbers and names."""
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


def group(raw: HostEvents, workers: Workers) -> Groups:
    """Groups the events of a host."""
    return groups_of(Forest(raw, workers))


def groups_of(forest: Forest) -> Groups:
    """The groups of a forest, or those that whoever wrote the capture made."""
    marks = profiler_steps.step_marks(forest.events)
    if len(marks):
        return _marked(forest, marks)
    if forest.recorded:
        groups = _recorded(forest)
    else:
        groups = _ungrouped(forest) if forest.vetoed else _grouped(forest)
        if len(forest.events.stat("group_id")):
            groups = _completed(groups, _recorded(forest), forest)
    groups.device_steps = device_steps.of_planes(groups.events, groups.group_id, forest.recorded)
    return groups


def _marked(forest: Forest, marks: Int32s) -> Groups:
    """The steps that PyTorch's profiler marks: other threads have no part in its nesting, but work for a step too."""
    events = forest.events
    numbers = profiler_steps.numbers(events, marks, _MOST_GROUPS)
    group_id = np.append(numbers, np.int32(-1))[profiler_steps.group_ids(events, marks)]
    names = dict(zip(numbers.tolist(), (events.names[meta] for meta in events.meta[marks].tolist()), strict=True))
    count = int(numbers.max()) + 1
    roots = np.full(count, -1, np.int32)
    roots[numbers] = marks
    return Groups(
        events, forest.types, group_id, np.zeros(len(events), np.uint8), count, roots, marks, numbers,
        np.zeros((0, 2), np.int32), profiler_steps.device_steps(events, group_id), made=len(marks),
        _naming=known_names(names),
    )  # fmt: skip


def _recorded(forest: Forest) -> Groups:
    """The groups that the stats group_id, step_name and is_eager of the capture record."""
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
        np.zeros((0, 2), np.int32), _naming=known_names(names),
    )  # fmt: skip


def _completed(groups: Groups, recorded: Groups, forest: Forest) -> Groups:
    """Groups of a capture in which only some planes had been grouped: events without a new group keep the recorded one,
    and so do events of a TPU that only take the group of the step they overlap."""
    stay = groups.group_id < 0
    for plane in forest.tpu_planes:
        line = device_steps.grouping_line(plane)
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


def _ungrouped(forest: Forest) -> Groups:
    none = np.zeros(0, np.int32)
    return Groups(
        forest.events, forest.types, np.full(len(forest.events), -1, np.int32), forest.is_eager, 0, none, none, none,
        np.zeros((0, 2), np.int32), vetoed=True,
    )  # fmt: skip


def _grouped(forest: Forest) -> Groups:
    events, types, tpu = forest.events, forest.types, forest.tpu_planes
    group_id = np.full(len(events), -1, np.int32)
    graph = forest.graph
    roots, level = forest.loop_roots, None
    if roots is None:
        roots, level = _roots(events, types, forest.captured_functions, tpu)
    tasks: list[Callable[[], Any]] = [  # the second only looks at the graph
        partial(graph.group, roots, level, 0, group_id),
        lambda: forest.is_eager,
    ]
    found, is_eager = forest.workers.run(None, tasks)
    root_rows = np.frombuffer(found[0], np.int32)
    count, pairs = len(root_rows), found[1]
    if tpu:
        count, more = device_steps.lock_step(tpu, graph, group_id, count)
        pairs += more
        device_steps.spread(events, tpu, group_id)
    relations = _distinct(np.frombuffer(pairs, np.int32).reshape(-1, 2))
    named = np.flatnonzero(~_implicit(events, types, root_rows)).astype(np.int32)
    root_rows = np.concatenate([root_rows, np.full(count - len(root_rows), -1, np.int32)])
    return Groups(
        events, types, group_id, is_eager, count, root_rows, root_rows[named], named, relations,
        _naming=partial(_names, forest),
    )  # fmt: skip


def _distinct(pairs: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Each pair once, in order."""
    keys = np.sort(pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1])
    keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys  # np.unique hashes, pairs crowd there
    return np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)


def _roots(
    events: HostEvents, types: Types, of_functions: npt.NDArray[np.int64], tpu_planes: Sequence[Plane]
) -> tuple[Int32s, Int32s]:
    """Roots, highest level first, then in order of time; and the number of the level of each row, 0: no root. What runs
    a function of tf.data heads no group, yet the roots below it are not the outermost ones of their level."""
    rows, values = events.ints("_r")
    marked: list[tuple[npt.NDArray[Any], npt.NDArray[np.int64] | int]] = [
        (np.flatnonzero(types == _TRACE_CONTEXT), 1),
        (rows, values),
        (np.flatnonzero(among(types, _BATCHES)), 2),
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
        has_id, id_ = beside(roots, *events.ints("id"))
        keep = ~(has_id & is_one_of(id_, of_functions))
        roots, levels = roots[keep], levels[keep]
    order = np.lexsort((roots, events.start_ps[roots], ~levels))
    return np.ascontiguousarray(roots[order]), number


# ---- names and flags


def _implicit(events: HostEvents, types: Types, roots: Int32s) -> Bools:
    """Roots that frameworks and devices make: their groups are called by a number alone."""
    implicit = among(types[roots], _IMPLICIT)
    lines = [line for line in events.lines if line.last > line.first]
    if lines:
        by_line = np.array([line.name in _IMPLICIT_LINES for line in lines])
        firsts = np.array([line.first for line in lines])
        implicit |= by_line[np.searchsorted(firsts, roots, side="right") - 1]
    return implicit


def _names(forest: Forest, roots: Int32s, groups: npt.NDArray[Any]) -> tuple[list[str], Bools]:
    """The names of the roots, with the recorded number of their iteration, else of their step, else that of their
    group, as for groups without a root."""
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
    implicit = _implicit(events, forest.types, rows)
    for place, meta, nameless in zip(rooted.tolist(), events.meta[rows].tolist(), implicit.tolist(), strict=True):
        titles[place] = "" if nameless else events.names[meta]
    texts, numbers = events.texts("graph_type")
    graphs = forest.nearest_above(HAS_GRAPH_TYPE, rows)
    for i in np.flatnonzero(graphs >= 0).tolist():
        titles[int(rooted[i])] = events.text(int(numbers[np.searchsorted(texts, graphs[i])]))
    pairs = zip(titles, count.tolist(), strict=True)
    return [f"{title} {number}" if title else str(number) for title, number in pairs], numbered
