"""The input pipelines of a host, from its events: the exact reading, the iterators of each pipeline as a tree, and the
host state of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fastprof._native import records
from fastprof._native.kernels import nesting_lines
from fastprof._native.pipeline_kernels import preorder
from fastprof.decode.workers import Workers
from fastprof.derive.pipelines.iterator_events import (
    ATTRIBUTES,
    CONSUME,
    EXECUTOR,
    FUNCTION,
    INTEGERS,
    ITERATES,
    NAMED,
    READ,
    Askers,
    HostLines,
    IteratorEvents,
    find_askers,
    find_role,
    is_integer,
    is_root,
    read_attributes,
    read_iterator_events,
)
from fastprof.derive.pipelines.recorded_pipelines import (
    FILE_READ,
    GENERATOR,
    ITERATOR,
    TAKING,
    USER_FUNCTION,
    InputPipelines,
    IteratorRecords,
    Iterators,
    IteratorTree,
    PipelineReading,
    find_own_parts,
    is_asynchronous,
    list_pipelines,
    make_calls,
    make_empty_reading,
    shorten_iterator_name,
    walk_calls,
)
from fastprof.schema.columns import (
    Bools,
    Float64s,
    Int32s,
    Int64s,
    Records,
    find_equal,
    find_first_rows,
    find_rows_within,
    number_keys,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents


def find_numbers(ids: Int64s, wanted: Int64s) -> Int32s:
    """Return the place of each wanted id among distinct ids, or -1."""
    number, count = number_keys([np.concatenate([ids, wanted])])
    place = np.full(count, -1, np.int32)
    place[number[: len(ids)]] = np.arange(len(ids), dtype=np.int32)
    return np.asarray(place[number[len(ids) :]])


def find_parents_by_id(iterator_id: Int64s, parent_id: Int64s, has_parent: Bools) -> Int32s:
    """Return the number of the iterator that each one names as its parent, or -1 if it has none or that has no
    events."""
    parent = np.where(has_parent, find_numbers(iterator_id, parent_id), -1).astype(np.int32)
    parent[parent == np.arange(len(parent))] = -1
    return parent


def build_tree(
    parent: Int32s, pipelines: InputPipelines, call_pipeline: Int32s, records: IteratorRecords
) -> IteratorTree:
    """Build the tree. ``parent``: by iterator. Iterators that a call reached are below its root if no parents lead up
    to it."""
    up = parent.copy()
    up[pipelines.root] = -1
    order, depth = np.empty(len(up), np.int32), np.empty(len(up), np.int32)
    count = preorder(up, pipelines.root, order, depth)
    order, depth = order[:count], depth[:count]
    pipeline = np.full(len(up), -1, np.int32)
    begins = np.flatnonzero(depth == 0)
    pipeline[order] = np.repeat(np.arange(len(begins), dtype=np.int32), np.diff(np.append(begins, count)))
    of_record = call_pipeline[records.call]
    # pairs of a pipeline and an iterator that its calls reached outside of its tree
    apart = pipeline[records.iterator] != of_record
    pairs = np.unique(of_record[apart].astype(np.int64) << 32 | records.iterator[apart])
    stray_pipeline, stray = (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
    columns = [
        np.concatenate([pipeline[order], stray_pipeline]),
        np.concatenate([order, stray]),
        np.concatenate([up[order], pipelines.root[stray_pipeline]]),
        np.concatenate([depth, np.ones(len(stray), np.int32)]),
    ]
    rows = np.argsort(columns[0], kind="stable")
    return IteratorTree(*(column[rows].astype(np.int32) for column in columns))


def find_tree_rows(tree: IteratorTree, pipeline: Int32s, iterator: Int32s) -> Int64s:
    """Return the row of the tree of each iterator of a pipeline, or -1."""
    count = int(max(tree.iterator.max(initial=0), iterator.max(initial=0))) + 1
    keys, wanted = (
        at.astype(np.int64) * count + of for at, of in ((tree.pipeline, tree.iterator), (pipeline, iterator))
    )
    order = np.argsort(keys, kind="stable")
    there, place = find_equal(keys[order], wanted)
    return np.where(there & (iterator >= 0), np.append(order, -1)[place], -1)


class Subtrees:
    """Subtrees by row of the tree. ``up``: the row of the parent; ``end``: the row after the last one below; ``stage``:
    the row of the nearest asynchronous iterator above, not itself; -1 if there is none."""

    def __init__(self, tree: IteratorTree, asynchronous: Bools) -> None:
        """Find the subtrees. ``asynchronous``: by row of the tree."""
        self.up = find_tree_rows(tree, tree.pipeline, tree.parent)
        self.end = _find_subtree_ends(tree.depth.astype(np.int64), self.up)
        count = len(self.up)
        above = np.where(self.up >= 0, self.up, count)
        pointer = np.append(np.where(asynchronous, np.arange(count), above), count)
        stage = _follow_pointers(pointer)[above]
        self.stage: Int64s = np.where(stage == count, -1, stage)

    def sums(self, values: Float64s) -> Float64s:
        """Sum values of each row and all rows below in the same stage."""
        order = sort_rows(self.stage, np.arange(len(values)))
        before = np.concatenate([[0.0], np.cumsum(values[order])])
        place = np.empty(len(values), np.int64)
        place[order] = np.arange(len(values))
        # in the order of stage, then row: the first row of each stage that is not before its end
        size = len(values) + 1
        keys = (self.stage[order] + 1) * size + order
        ends = np.searchsorted(keys, (self.stage + 1) * size + self.end)
        return np.asarray(before[ends] - before[place])


def _find_subtree_ends(depth: Int64s, up: Int64s) -> Int64s:
    """Return the end of each subtree: where the next row of its depth begins, if that has the same parent, else its
    parent's."""
    count = len(depth)
    order = sort_rows(depth, np.arange(count))
    following = np.full(count + 1, count, np.int64)
    same = depth[order[1:]] == depth[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    above = np.append(up, -1)
    is_last = (following == count) | (above[np.minimum(following, count)] != above)
    is_last[:count] &= up >= 0  # the next tree follows upon a root
    pointer = np.where(is_last, np.where(above >= 0, above, count), np.arange(count + 1))
    return following[_follow_pointers(pointer)][:count]


def _follow_pointers(pointer: Int64s) -> Int64s:
    """Follow pointers to the end: a place that points to itself."""
    for _ in range(len(pointer).bit_length()):
        further = pointer[pointer]
        if (further == pointer).all():
            break
        pointer = further
    return pointer


STATS = ("id", "parent_id", "element_id", "_a", "_pt", "_p", "_ct", "_c", "_pid", *ATTRIBUTES)
"""Stats of events that pipelines are read from."""
PLANES = (r"^/host:CPU$",)
_TIMES = "the durations of iterators"
ACTIVITY = np.dtype([("start", "i8"), ("end", "i8"), ("event", "i4"), ("part", "i4")])
"""Struct fp_activity of csrc/kernels/pipeline_calls.h. ``event``: number of the iterator event during which it ran."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPipelines:
    """Host state. ``recorded_host``: name in the capture; ``unidentified``: number of iterator events without an id of
    their iterator; ``call_rows``: rows of the HostEvents, of the calls of ``exact``."""

    host: str
    recorded_host: str | None
    exact: PipelineReading
    iterator_event_count: int
    unidentified: int
    call_rows: Int32s

    def in_groups(self, group_id: Int32s) -> RecordedPipelines:
        """Set the groups of the calls. ``group_id``: by row of the HostEvents, or -1."""
        calls = replace(self.exact.calls, group_id=group_id[self.call_rows])
        return replace(self, exact=replace(self.exact, calls=calls))


def find_calls(lines: HostLines, events: IteratorEvents, wanted: Bools | None) -> tuple[Int64s, Int32s]:
    """Return the iterator events with names of roots, which programs call, in the order of the capture: their numbers,
    and their rows in the HostEvents. ``wanted``: as in ``read_pipelines``."""
    roots = np.flatnonzero(events.origins.is_root[events.origin])
    rows: Int32s = lines.rows[lines.iterator_rows[roots]] + np.int32(lines.first)
    return (roots, rows) if wanted is None else (roots[wanted[rows]], rows[wanted[rows]])


def read_pipelines(events: HostEvents, workers: Workers, wanted: Bools | None = None) -> RecordedPipelines:
    """Read the pipelines of a host. ``wanted``: which rows of the events may be calls, or None for all. The groups of
    calls are set later, by ``in_groups``. CaptureError: durations do not add up in 64 bits."""
    recorded_host = events.capture.hostnames[0] if events.capture.hostnames else None
    if not any(map(is_root, events.names)):
        count, unidentified = _count_uncalled(events)
        return RecordedPipelines(
            events.host, recorded_host, make_empty_reading(), count, unidentified, np.zeros(0, np.int32)
        )
    lines = HostLines(events, workers)
    iterator_events = read_iterator_events(lines, kept=False)
    identified = iterator_events.origins.is_identified[iterator_events.origin]
    is_iterator = np.zeros(len(lines), np.bool_)
    is_iterator[lines.iterator_rows[identified]] = True
    nearest = np.append(lines.nearest(is_iterator), np.int32(-1))
    owner: Int32s = lines.number[nearest]
    asked = find_askers(lines, iterator_events, owner)
    owners = Owners(lines, owner, asked)
    ran = find_functions(lines, owners)
    iterators, iterator = _read_iterators(lines, iterator_events, identified, ran)
    roots, root_rows = find_calls(lines, iterator_events, wanted)
    known = np.flatnonzero(identified[roots])
    activities = list_iterator_activities(lines, owners, ran)
    exact, order = _make_reading(iterator_events, asked.parent, iterator, iterators, activities, roots[known])
    unidentified = int((~identified).sum())
    rows = root_rows[known[order]]
    return RecordedPipelines(events.host, recorded_host, exact, len(iterator_events), unidentified, rows)


def _count_uncalled(events: HostEvents) -> tuple[int, int]:
    """Count the iterator events of a host that calls no pipeline, and those without an id of their iterator."""
    role = np.array([find_role(name) for name in events.names], np.uint8)
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not (role & ITERATES).any():
        return 0, 0
    count = int(np.count_nonzero((role & ITERATES)[events.meta[plane.first : plane.last]]))
    ids = events.stat("id").of_kinds(INTEGERS).rows
    ids = ids[find_rows_within(ids, plane.first, plane.last)]
    identified = np.count_nonzero((role & NAMED)[events.meta[ids]])
    return count, count - int(identified)


def _read_iterators(
    lines: HostLines, events: IteratorEvents, identified: Bools, ran: Functions
) -> tuple[Iterators, Int32s]:
    """Return the iterators, and the iterator of each event, or -1."""
    origins = events.origins
    known = np.flatnonzero(origins.is_identified)
    of_origin = np.full(len(origins), -1, np.int32)
    of_origin[known], count = number_keys([origins.iterator_id[known]])
    first = known[find_first_rows(of_origin[known], count)]
    iterator = of_origin[events.origin]
    own = iterator[identified]
    has_parent = is_integer(origins.parent_kind[first])
    shorts = [shorten_iterator_name(name) for name in origins.names]
    places = origins.name[first]
    iterators = Iterators(
        origins.iterator_id[first],
        origins.id_kind[first] == records.UINT64,
        np.where(has_parent, origins.parent_id[first], 0),
        has_parent,
        [shorts[place] for place in places.tolist()],
        [origins.names[place] for place in places.tolist()],
        np.array([is_asynchronous(name) for name in shorts], np.bool_)[places],
        np.where(origins.is_generator[first], GENERATOR, ITERATOR).astype(np.uint8),
        np.bincount(own, minlength=count),
        sum_by(own, np.maximum(events.duration_ps[identified], 0), count, _TIMES),
        sum_by(own, _measure_self_times(lines, lines.iterator_rows[identified]), count, _TIMES),
        _measure_function_times(lines, events, iterator, ran, origins.iterator_id[first]),
        read_attributes(lines, iterator, count),
    )
    return iterators, iterator


def _measure_self_times(lines: HostLines, rows: Int32s) -> Int64s:
    """Return the duration of each event minus the iterator events inside it on its line."""
    own = np.zeros(len(lines.bounds), records.LINE_ROWS)
    own["first"], own["last"] = np.searchsorted(rows, lines.bounds[:, 0]), np.searchsorted(rows, lines.bounds[:, 1])
    kind, asynchronous = lines.beside("_a", rows)
    apart = ((kind == records.INT64) & (asynchronous != 0)).view(np.uint8)
    depth, parent = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
    duration, self_time = np.maximum(lines.duration_ps[rows], 0), np.empty(len(rows), np.int64)
    nesting_lines(lines.start_ps[rows], duration, apart, own, depth, parent, self_time)
    return self_time


def _measure_function_times(
    lines: HostLines, events: IteratorEvents, iterator: Int32s, ran: Functions, ids: Int64s
) -> Int64s:
    """Return, by iterator, how long its user functions ran, each by itself. A function whose element nobody took
    belongs to the parent of an iterator event that was made along with it."""
    time = ran.end_ps - lines.start_ps[ran.rows]
    own = np.full(len(time), -1, np.int32)
    waited = ran.event >= 0
    own[waited] = iterator[ran.event[waited]]
    asked = np.flatnonzero(~waited & (ran.made >= 0))
    origin = events.origin[ran.made[asked]]
    known = is_integer(events.origins.parent_kind[origin])
    own[asked[known]] = find_numbers(ids, events.origins.parent_id[origin[known]])
    keep = (own >= 0) & ran.is_outer & (time > 0)
    return sum_by(own[keep], time[keep], len(ids), _TIMES)


def _make_reading(
    events: IteratorEvents, parent: Int32s, iterator: Int32s, iterators: Iterators, activities: Records, roots: Int64s
) -> tuple[PipelineReading, Int64s]:
    """Make the reading; return also which of the ``roots`` each call is. ``parent``: the event that asked for each;
    ``iterator``: of each; ``roots``: the events of calls, in the order of the capture."""
    is_device = np.zeros(len(iterators), np.bool_)
    asking = find_parents_by_id(iterators.iterator_id, iterators.parent_id, iterators.has_parent)
    generators = asking[iterators.kind == GENERATOR]
    is_device[generators[generators >= 0]] = True
    start, longest = events.start_ps[roots], np.iinfo(np.int64).max - np.maximum(events.start_ps[roots], 0)
    duration = np.minimum(np.maximum(events.duration_ps[roots], 0), longest)  # no end exceeds 64 bits
    by_start = np.argsort(start, kind="stable")
    pipelines, of_call = list_pipelines(iterator[roots[by_start]], is_device)
    pipeline = np.empty_like(of_call)
    pipeline[by_start] = of_call
    order = sort_rows(pipeline, -duration, start)
    called: Int32s = roots[order].astype(np.int32)
    pipeline = pipeline[order]
    columns = (events.start_ps, events.duration_ps, parent, iterator)
    ran, segments, parts = walk_calls(
        columns, find_own_parts(iterators.name, iterators.is_async), activities, called, pipeline
    )
    calls = make_calls(pipeline, start[order], duration[order], np.full(len(called), -1, np.int32), ran)
    # One that names no parent feeds the iterator of the event which asked for its first event.
    lost = np.append(asking < 0, False)  # the last for -1
    asked = np.flatnonzero(lost[iterator] & (parent >= 0))
    taker = asking.copy()
    taker[iterator[asked][::-1]] = iterator[parent[asked]][::-1]
    taker = np.where(taker == np.arange(len(taker)), -1, taker).astype(np.int32)
    tree = build_tree(taker, pipelines, pipeline, ran)
    return PipelineReading(iterators, pipelines, calls, ran, tree, segments, parts), order


# ---- activities while an iterator runs its own code


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """Calls of user functions, by row. ``event``: the iterator event that waits for it, or -1; ``made``: an iterator
    event that its caller made, or -1; ``end_ps``: end, for asynchronous ones of their last executor; ``is_outer``:
    whether it is not part of another one of the same iterator event. ``executors``: rows of the plane of those that
    worked for functions, ascending; ``of_function``: the place of the function of each."""

    rows: Int32s
    event: Int32s
    made: Int32s
    end_ps: Int64s
    is_outer: Bools
    executors: Int32s
    of_function: Int64s


class Owners:
    """Iterator events that rows belong to. ``owner``: the nearest identified iterator event at or above each row; one
    more at the end is for row -1."""

    def __init__(self, lines: HostLines, owner: Int32s, asked: Askers) -> None:
        self.lines = lines
        self.owner = owner
        self.asked = asked
        self._under: Int32s | None = None
        """Nearest Produce event at or above each row that is known to have made something."""
        if len(asked.produce_rows):
            is_produce = np.zeros(len(lines), np.bool_)
            is_produce[asked.produce_rows] = True
            self._under = lines.nearest(is_produce)

    def of(self, rows: Int32s) -> tuple[Int32s, Int32s]:
        """Return the iterator event around each row, else the one that took the element for which it was done, or -1;
        and an event that was made with it, if it lies in none."""
        around = self.lines.parent[rows]
        event = self.owner[around]
        made = np.full(len(rows), -1, np.int32)
        if self._under is None:
            return event, made
        under = np.where(around >= 0, self._under[around], -1)
        apart = (event < 0) & (under >= 0)
        place = np.searchsorted(self.asked.produce_rows, under[apart])
        event[apart], made[apart] = self.asked.taker[place], self.asked.made[place]
        return event, made


def find_functions(lines: HostLines, owners: Owners) -> Functions:
    """Find the user functions that ran, and for how long."""
    rows = lines.having(FUNCTION)
    event, made = owners.of(rows)
    end = lines.start_ps[rows] + np.maximum(lines.duration_ps[rows], 0)
    executors, of_function = _find_executors(lines, rows)
    ran = lines.all_starts[executors] + np.maximum(lines.all_durations[executors], 0)
    np.maximum.at(end, of_function, ran)
    is_outer = np.ones(len(rows), np.bool_)
    if len(rows):
        around = lines.parent[rows]
        above = np.where(around >= 0, lines.nearest_of(FUNCTION)[around], -1)
        inner = above >= 0
        is_outer[inner] = event[np.searchsorted(rows, above[inner])] != event[inner]
    return Functions(rows, event, made, end, is_outer, executors, of_function)


def _find_executors(lines: HostLines, functions_at: Int32s) -> tuple[Int32s, Int64s]:
    """Return the executors that worked for functions, and the function of each, by the id of its run."""
    runs = lines.all_having(EXECUTOR, "id").of_kinds(INTEGERS)
    if not len(runs) or not len(functions_at):
        return runs.rows[:0], np.zeros(0, np.int64)
    kind, run = lines.beside("id", functions_at)
    known = np.flatnonzero(is_integer(kind))
    number, count = number_keys([np.concatenate([run[known], runs.value])])
    function = np.full(count, -1, np.int64)
    function[number[: len(known)][::-1]] = known[::-1]  # the first function of an id
    worked_for = function[number[len(known) :]]
    return runs.rows[worked_for >= 0], worked_for[worked_for >= 0]


def list_iterator_activities(lines: HostLines, owners: Owners, ran: Functions) -> Records:
    """List the activities during iterator events, by event, then start."""
    takes = lines.having(CONSUME)
    reads = lines.having(READ)
    end = [lines.start_ps[rows] + np.maximum(lines.duration_ps[rows], 0) for rows in (reads, takes)]
    reader, _ = owners.of(reads)
    lost = np.flatnonzero(reader < 0)
    if len(lost) and len(ran.executors):  # ops that read files belong to the function that they are part of
        nearest = lines.all_nearest(ran.executors)[lines.rows[reads[lost]]]
        place = np.searchsorted(ran.executors, nearest[nearest >= 0])
        reader[lost[nearest >= 0]] = ran.event[ran.of_function[place]]
    every = np.concatenate([
        _pack_activities(lines.start_ps[ran.rows], ran.end_ps, ran.event, USER_FUNCTION),
        _pack_activities(lines.start_ps[reads], end[0], reader, FILE_READ),
        _pack_activities(lines.start_ps[takes], end[1], owners.of(takes)[0], TAKING),
    ])  # fmt: skip
    return np.ascontiguousarray(every[sort_rows(every["event"], every["start"])])


def _pack_activities(start: Int64s, end: Int64s, event: Int32s, part: int) -> Records:
    keep = (event >= 0) & (end > start)
    rows = np.zeros(int(keep.sum()), ACTIVITY)
    rows["start"], rows["end"], rows["event"], rows["part"] = start[keep], end[keep], event[keep], part
    return rows
