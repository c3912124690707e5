"""The input pipelines of a host, from its events: the exact reading, and what is kept of it.

Ids are taken as recorded, all 64 bits of them. An iterator event belongs to the iterator around it on its line,
whatever lies between, else to the one that took its element, else to the one that made the context in which it ran.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fastprof._native import records
from fastprof._native.kernels import nesting_lines
from fastprof.decode.workers import Workers
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.pipelines.element_links import Askers, askers
from fastprof.derive.pipelines.host_lines import (
    CONSUME,
    EXECUTOR,
    FUNCTION,
    ITERATES,
    NAMED,
    READ,
    HostLines,
    is_root,
    role_of,
)
from fastprof.derive.pipelines.iterator_events import (
    ATTRIBUTES,
    INTEGERS,
    IteratorEvents,
    is_integer,
    iterator_events,
    recorded_attributes,
)
from fastprof.derive.pipelines.iterator_kinds import is_asynchronous, own_parts, short_name
from fastprof.derive.pipelines.iterator_tree import number_of, parents_by_id, tree_of
from fastprof.derive.pipelines.reading import (
    FILE_READ,
    GENERATOR,
    ITERATOR,
    TAKING,
    USER_FUNCTION,
    Iterators,
    Reading,
    calls_of,
    nothing_read,
    pipelines_of,
    walk,
)
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s, Records
from fastprof.schema.ascending_rows import rows_within
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents

STATS = ("id", "parent_id", "element_id", "_a", "_pt", "_p", "_ct", "_c", "_pid", *ATTRIBUTES)
"""The stats of events that pipelines are read from."""
PLANES = (r"^/host:CPU$",)
_TIMES = "the durations of iterators"
ACTIVITY = np.dtype([("start", "i8"), ("end", "i8"), ("event", "i4"), ("part", "i4")])
"""fp_activity of csrc/kernels/pipeline_calls.h. ``event``: number of the iterator event during which it went on."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptPipelines:
    """What is kept of a host. ``recorded_host``: its name in the capture; ``unidentified``: iterator events without an
    id of their iterator; ``call_rows``: rows of the HostEvents, of the calls of ``exact``."""

    host: str
    recorded_host: str | None
    exact: Reading
    iterator_event_count: int
    unidentified: int
    call_rows: Int32s

    def in_groups(self, group_id: Int32s) -> KeptPipelines:
        """The same with the groups of the calls; ``group_id``: by row of the HostEvents, -1: none."""
        calls = replace(self.exact.calls, group_id=group_id[self.call_rows])
        return replace(self, exact=replace(self.exact, calls=calls))


def call_events(lines: HostLines, events: IteratorEvents, wanted: Bools | None) -> tuple[Int64s, Int32s]:
    """The iterator events with names of roots, which programs call, in the order of the capture: their numbers, and
    their rows in the HostEvents. ``wanted``: as in ``keep_pipelines``."""
    roots = np.flatnonzero(events.origins.is_root[events.origin])
    rows: Int32s = lines.rows[lines.iterator_rows[roots]] + np.int32(lines.first)
    return (roots, rows) if wanted is None else (roots[wanted[rows]], rows[wanted[rows]])


def keep_pipelines(events: HostEvents, workers: Workers, wanted: Bools | None = None) -> KeptPipelines:
    """The pipelines of a host. ``wanted``: by row of the events, which of them may be calls; None: all. The groups of
    calls are set later, by ``in_groups``. Raises CaptureError: durations do not add up in 64 bits."""
    recorded_host = events.capture.hostnames[0] if events.capture.hostnames else None
    if not any(map(is_root, events.names)):
        count, unidentified = _uncalled(events)
        return KeptPipelines(events.host, recorded_host, nothing_read(), count, unidentified, np.zeros(0, np.int32))
    lines = HostLines(events, workers)
    found = iterator_events(lines, kept=False)
    identified = found.origins.is_identified[found.origin]
    is_iterator = np.zeros(len(lines), np.bool_)
    is_iterator[lines.iterator_rows[identified]] = True
    nearest = np.append(lines.nearest(is_iterator), np.int32(-1))
    owner: Int32s = lines.number[nearest]
    asked = askers(lines, found, owner)
    owners = Owners(lines, owner, asked)
    ran = functions(lines, owners)
    iterators, iterator = _iterators(lines, found, identified, ran)
    roots, root_rows = call_events(lines, found, wanted)
    known = np.flatnonzero(identified[roots])
    went_on = activities(lines, owners, ran)
    exact, order = _reading(found, asked.parent, iterator, iterators, went_on, roots[known])
    unidentified = int((~identified).sum())
    return KeptPipelines(events.host, recorded_host, exact, len(found), unidentified, root_rows[known[order]])


def _uncalled(events: HostEvents) -> tuple[int, int]:
    """How many iterator events a host has that calls no pipeline, and how many of them have no id of their iterator."""
    role = np.array([role_of(name) for name in events.names], np.uint8)
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not (role & ITERATES).any():
        return 0, 0
    count = int(np.count_nonzero((role & ITERATES)[events.meta[plane.first : plane.last]]))
    ids = events.stat("id").of_kinds(INTEGERS).rows
    ids = ids[rows_within(ids, plane.first, plane.last)]
    identified = np.count_nonzero((role & NAMED)[events.meta[ids]])
    return count, count - int(identified)


def _iterators(lines: HostLines, events: IteratorEvents, identified: Bools, ran: Functions) -> tuple[Iterators, Int32s]:
    """The iterators, and the iterator of each event, -1: unknown."""
    origins = events.origins
    known = np.flatnonzero(origins.is_identified)
    of_origin = np.full(len(origins), -1, np.int32)
    of_origin[known], count = numbered([origins.iterator_id[known]])
    first = known[first_of(of_origin[known], count)]
    iterator = of_origin[events.origin]
    own = iterator[identified]
    has_parent = is_integer(origins.parent_kind[first])
    shorts = [short_name(name) for name in origins.names]
    places = origins.name[first]
    found = Iterators(
        origins.iterator_id[first],
        origins.id_kind[first] == records.UINT64,
        np.where(has_parent, origins.parent_id[first], 0),
        has_parent,
        [shorts[place] for place in places.tolist()],
        [origins.names[place] for place in places.tolist()],
        np.array([is_asynchronous(name) for name in shorts], np.bool_)[places],
        np.where(origins.is_generator[first], GENERATOR, ITERATOR).astype(np.uint8),
        np.bincount(own, minlength=count),
        sums_by(own, np.maximum(events.duration_ps[identified], 0), count, _TIMES),
        sums_by(own, _self_times(lines, lines.iterator_rows[identified]), count, _TIMES),
        _function_times(lines, events, iterator, ran, origins.iterator_id[first]),
        recorded_attributes(lines, iterator, count),
    )
    return found, iterator


def _self_times(lines: HostLines, rows: Int32s) -> Int64s:
    """By event: its duration less the time of the iterator events inside it on its line."""
    own = np.zeros(len(lines.bounds), records.LINE_ROWS)
    own["first"], own["last"] = np.searchsorted(rows, lines.bounds[:, 0]), np.searchsorted(rows, lines.bounds[:, 1])
    kind, asynchronous = lines.beside("_a", rows)
    apart = ((kind == records.INT64) & (asynchronous != 0)).view(np.uint8)
    depth, parent = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
    duration, self_time = np.maximum(lines.duration_ps[rows], 0), np.empty(len(rows), np.int64)
    nesting_lines(lines.start_ps[rows], duration, apart, own, depth, parent, self_time)
    return self_time


def _function_times(lines: HostLines, events: IteratorEvents, iterator: Int32s, ran: Functions, ids: Int64s) -> Int64s:
    """By iterator: how long its user functions ran, each by itself. A function whose element nobody took belongs to the
    parent of an iterator event that was made along with it."""
    time = ran.end_ps - lines.start_ps[ran.rows]
    own = np.full(len(time), -1, np.int32)
    waited = ran.event >= 0
    own[waited] = iterator[ran.event[waited]]
    asked = np.flatnonzero(~waited & (ran.made >= 0))
    origin = events.origin[ran.made[asked]]
    known = is_integer(events.origins.parent_kind[origin])
    own[asked[known]] = number_of(ids, events.origins.parent_id[origin[known]])
    keep = (own >= 0) & ran.is_outer & (time > 0)
    return sums_by(own[keep], time[keep], len(ids), _TIMES)


def _reading(
    events: IteratorEvents, parent: Int32s, iterator: Int32s, iterators: Iterators, went_on: Records, roots: Int64s
) -> tuple[Reading, Int64s]:
    """``parent``: the event that asked for each, ``iterator``: of each; ``roots``: the events of calls, in the order of
    the capture. Also which of them each call is."""
    is_device = np.zeros(len(iterators), np.bool_)
    asking = parents_by_id(iterators.iterator_id, iterators.parent_id, iterators.has_parent)
    generators = asking[iterators.kind == GENERATOR]
    is_device[generators[generators >= 0]] = True
    start, longest = events.start_ps[roots], np.iinfo(np.int64).max - np.maximum(events.start_ps[roots], 0)
    duration = np.minimum(np.maximum(events.duration_ps[roots], 0), longest)  # no end exceeds 64 bits
    by_start = np.argsort(start, kind="stable")
    pipelines, of_call = pipelines_of(iterator[roots[by_start]], is_device)
    pipeline = np.empty_like(of_call)
    pipeline[by_start] = of_call
    order = np.lexsort((start, -duration, pipeline))
    called: Int32s = roots[order].astype(np.int32)
    pipeline = pipeline[order]
    columns = (events.start_ps, events.duration_ps, parent, iterator)
    ran, segments, parts = walk(columns, own_parts(iterators.name, iterators.is_async), went_on, called, pipeline)
    calls = calls_of(pipeline, start[order], duration[order], np.full(len(called), -1, np.int32), ran)
    tree = tree_of(_askers_by_iterator(asking, parent, iterator), pipelines, pipeline, ran)
    return Reading(iterators, pipelines, calls, ran, tree, segments, parts), order


def _askers_by_iterator(asking: Int32s, parent: Int32s, iterator: Int32s) -> Int32s:
    """The iterator that takes elements from each: the one that it names, else that of the event which asked for its
    first event."""
    lost = np.append(asking < 0, False)  # the last for -1
    asked = np.flatnonzero(lost[iterator] & (parent >= 0))
    seen = asking.copy()
    seen[iterator[asked][::-1]] = iterator[parent[asked]][::-1]
    return np.where(seen == np.arange(len(seen)), -1, seen).astype(np.int32)


# ---- what goes on while an iterator runs its own code


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """Calls of user functions, by row: ``event``: the iterator event that waits for it, -1: none; ``made``: an iterator
    event that its caller made, -1: none; ``end_ps``: of asynchronous ones, when their last executor was done;
    ``is_outer``: it is not part of another one of the same iterator event. ``executors``: rows of the plane of those
    that worked for functions, ascending; ``of_function``: the place of the function of each."""

    rows: Int32s
    event: Int32s
    made: Int32s
    end_ps: Int64s
    is_outer: Bools
    executors: Int32s
    of_function: Int64s


class Owners:
    """The iterator events that rows belong to. ``owner``: the nearest identified iterator event at or above each row;
    one more at the end, for row -1."""

    def __init__(self, lines: HostLines, owner: Int32s, asked: Askers) -> None:
        self.lines = lines
        self.owner = owner
        self.asked = asked
        self._under: Int32s | None = None
        """The nearest Produce event at or above each row that is known to have made something."""
        if len(asked.produce_rows):
            is_produce = np.zeros(len(lines), np.bool_)
            is_produce[asked.produce_rows] = True
            self._under = lines.nearest(is_produce)

    def of(self, rows: Int32s) -> tuple[Int32s, Int32s]:
        """The iterator event around each row, else the one that took the element for which it was done; -1: none. And
        an event that was made with it, if it lies in none."""
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


def functions(lines: HostLines, owners: Owners) -> Functions:
    """The user functions that ran, and for how long."""
    rows = lines.having(FUNCTION)
    event, made = owners.of(rows)
    end = lines.start_ps[rows] + np.maximum(lines.duration_ps[rows], 0)
    executors, of_function = _executors(lines, rows)
    ran = lines.all_starts[executors] + np.maximum(lines.all_durations[executors], 0)
    np.maximum.at(end, of_function, ran)
    is_outer = np.ones(len(rows), np.bool_)
    if len(rows):
        around = lines.parent[rows]
        above = np.where(around >= 0, lines.nearest_of(FUNCTION)[around], -1)
        inner = above >= 0
        is_outer[inner] = event[np.searchsorted(rows, above[inner])] != event[inner]
    return Functions(rows, event, made, end, is_outer, executors, of_function)


def _executors(lines: HostLines, functions_at: Int32s) -> tuple[Int32s, Int64s]:
    """The executors that worked for functions, and the function of each, by the id of its run."""
    runs = lines.all_having(EXECUTOR, "id").of_kinds(INTEGERS)
    if not len(runs) or not len(functions_at):
        return runs.rows[:0], np.zeros(0, np.int64)
    kind, run = lines.beside("id", functions_at)
    known = np.flatnonzero(is_integer(kind))
    number, count = numbered([np.concatenate([run[known], runs.value])])
    function = np.full(count, -1, np.int64)
    function[number[: len(known)][::-1]] = known[::-1]  # the first function of an id
    worked_for = function[number[len(known) :]]
    return runs.rows[worked_for >= 0], worked_for[worked_for >= 0]


def activities(lines: HostLines, owners: Owners, ran: Functions) -> Records:
    """What went on during iterator events, by event, then start."""
    takes = lines.having(CONSUME)
    reads = lines.having(READ)
    end = [lines.start_ps[rows] + np.maximum(lines.duration_ps[rows], 0) for rows in (reads, takes)]
    every = np.concatenate([
        _packed(lines.start_ps[ran.rows], ran.end_ps, ran.event, USER_FUNCTION),
        _packed(lines.start_ps[reads], end[0], _reads_of(lines, owners, ran, reads), FILE_READ),
        _packed(lines.start_ps[takes], end[1], owners.of(takes)[0], TAKING),
    ])  # fmt: skip
    return np.ascontiguousarray(every[np.lexsort((every["start"], every["event"]))])


def _packed(start: Int64s, end: Int64s, event: Int32s, part: int) -> Records:
    keep = (event >= 0) & (end > start)
    rows = np.zeros(int(keep.sum()), ACTIVITY)
    rows["start"], rows["end"], rows["event"], rows["part"] = start[keep], end[keep], event[keep], part
    return rows


def _reads_of(lines: HostLines, owners: Owners, ran: Functions, reads: Int32s) -> Int32s:
    """The iterator event of ops that read files: by their line, else by the function that they are part of."""
    event, _ = owners.of(reads)
    lost = np.flatnonzero(event < 0)
    if not len(lost) or not len(ran.executors):
        return event
    nearest = lines.all_nearest(ran.executors)[lines.rows[reads[lost]]]
    place = np.searchsorted(ran.executors, nearest[nearest >= 0])
    event[lost[nearest >= 0]] = ran.event[ran.of_function[place]]
    return event
