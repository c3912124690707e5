"""tf.data events of host threads: their role, the iterator of each, what encloses them, and which iterator requested
another's work on other threads."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.grouping import parents
from fastprof._native.pipeline_kernels import marked_rows, nearest_marked
from fastprof.decode.workers import Workers, group_sizes
from fastprof.derive.devices.op_names import Framework, parse_op_name
from fastprof.derive.pipelines.recorded_pipelines import Value
from fastprof.derive.steps.event_graph import CODES, TF_OP, LinkEnds, find_contexts, get_type_code
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    UInt8s,
    find_equal,
    find_first_rows,
    find_rows_within,
    number_keys,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Stat

Roles = npt.NDArray[np.uint8]
ITERATOR, GENERATOR, PRODUCE, CONSUME, FUNCTION, EXECUTOR, READ, NAMED = (1 << bit for bit in range(8))
"""Roles, as bits. NAMED: the name begins like those of iterators."""
ITERATES = ITERATOR | GENERATOR
KEPT = ITERATOR | GENERATOR | PRODUCE | CONSUME | FUNCTION | READ

_BUFFERS = (
    "Prefetch", "ParallelInterleave", "ParallelMap", "MapAndBatch", "ParseExample", "ParallelBatch", "ParallelFilter",
)  # fmt: skip
"""Iterators that fill a buffer on threads of their own, by the names of their events."""
_FUNCTIONS = tuple(
    CODES[f"InstantiatedCapturedFunction::{what}"]
    for what in ("Run", "RunWithBorrowedArgs", "RunInstantiated", "RunAsync")
)
_READING_OPS = {
    "ReadFile", "MatchingFiles", "ReaderRead", "ReaderReadV2", "ReaderReadUpTo", "ReaderReadUpToV2", "RestoreV2",
}  # fmt: skip
"""TensorFlow ops that read files."""
_TASK_EVENTS = 1 << 18


@lru_cache(maxsize=1 << 16)
def find_role(name: str) -> int:
    """Return the roles of a name."""
    code = get_type_code(name)
    if code == CODES["Iterator"]:
        return ITERATOR | (NAMED if parse_op_name(name).framework is Framework.TF_DATA else 0)
    if code == CODES["Iterator::Prefetch::Generator"]:
        return GENERATOR | NAMED
    if code in _FUNCTIONS:
        return FUNCTION
    if code == CODES["ExecutorState::Process"]:
        return EXECUTOR
    if code == TF_OP:
        return READ if parse_op_name(name).type in _READING_OPS else 0
    for end, role in (("Produce", PRODUCE), ("Consume", CONSUME)):
        if name.endswith(end) and name.removesuffix(end) in _BUFFERS:
            return role
    return 0


def is_root(name: str) -> bool:
    """Return whether an event of this name is a call of a pipeline: of an iterator whose elements no other iterator
    takes."""
    return find_role(name) == ITERATOR | NAMED and name.count("::") == 1


class HostLines:
    """Rows of plane /host:CPU that have a role of KEPT, numbered from 0. Values are -1 if there is none.

    ``rows``    row in the plane, ascending
    ``parent``  the nearest of these rows around each, on its line
    ``around``  the one right around each; -2 if it is not among these

    Of all rows of the plane:

    ``first``        row in ``events`` of the first
    ``all_roles``    the roles of each
    ``all_parents``  the row around each
    ``all_numbers``  the number of the nearest kept row at or above each
    """

    def __init__(self, events: HostEvents, workers: Workers) -> None:
        plane = events.plane_named(HOST_THREADS)
        self.events = events
        self._lines = plane.lines if plane else []
        self.first, self._last = (plane.first, plane.last) if plane else (0, 0)
        self._stats: dict[str, Stat] = {}
        self._own: dict[str, Stat] = {}
        self._places: dict[str, Int32s] = {}
        here = slice(self.first, self._last)
        self.all_starts: Int64s = events.start_ps[here]
        self.all_durations: Int64s = events.duration_ps[here]
        self._all_metas: Int32s = events.meta[here]
        role_of_meta, is_used = np.zeros(len(events.names), np.uint8), np.zeros(len(events.names), np.bool_)
        is_used[self._all_metas] = True
        for number in np.flatnonzero(is_used).tolist():
            role_of_meta[number] = find_role(events.names[number])
        self.all_roles: Roles = role_of_meta[self._all_metas]
        self.all_parents = self._parents(workers)
        marks = self.all_roles & np.uint8(KEPT)
        count = np.count_nonzero(marks)
        self.rows, self.parent, self.around = (np.empty(count, np.int32) for _ in range(3))
        self.all_numbers = np.empty(len(marks), np.int32)
        marked_rows(self.all_parents, marks, self.rows, self.parent, self.around, self.all_numbers)
        self.roles: Roles = self.all_roles[self.rows]
        self.start_ps: Int64s = self.all_starts[self.rows]
        self.duration_ps: Int64s = self.all_durations[self.rows]
        self.meta: Int32s = self._all_metas[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def _parents(self, workers: Workers) -> Int32s:
        """Find the parents. Asynchronous events neither enclose others nor are enclosed."""
        apart: Roles | None = None
        beside = self.all_stat("_a")
        if len(beside):
            apart = np.zeros(len(self.all_starts), np.uint8)
            apart[beside.rows[(beside.kind == records.INT64) & (beside.value != 0)]] = 1
        start, duration = self.all_starts, self.all_durations
        parent, none = np.empty(len(start), np.int32), np.zeros((0, 3), np.int64)
        bounds = np.array([(line.first, line.last) for line in self._lines], np.int64).reshape(-1, 2) - self.first
        tasks = []
        for first, last in group_sizes((bounds[:, 1] - bounds[:, 0]).tolist(), _TASK_EVENTS):
            share = np.ascontiguousarray(bounds[first:last])
            tasks.append(lambda share=share: parents(start, duration, apart, none, share, parent))
        workers.run(None, tasks)
        return parent

    # ---- of all rows

    def all_stat(self, name: str) -> Stat:
        """Return the stats of a name, of all kinds, by row of the plane."""
        own_stat = self._own.get(name)
        if own_stat is None:
            stat = self.events.stat(name)
            own = find_rows_within(stat.rows, self.first, self._last)
            rows = stat.rows[own] - np.int32(self.first) if self.first else stat.rows[own]
            own_stat = self._own[name] = Stat(rows, stat.kind[own], stat.value[own])
        return own_stat

    def all_having(self, role: int, stat: str) -> Stat:
        """Return the stats of all rows of a role."""
        every = self.all_stat(stat)
        keep = (self.all_roles[every.rows] & np.uint8(role)) != 0
        return Stat(every.rows[keep], every.kind[keep], every.value[keep])

    def all_nearest(self, rows: Int32s) -> Int32s:
        """Return the nearest of these rows of the plane at or above each of its rows, or -1."""
        marked, numbers = np.zeros(len(self.all_roles), np.uint8), np.empty(len(self.all_roles), np.int32)
        marked[rows] = 1
        nearest_marked(self.all_parents, marked, 1, numbers)
        return numbers

    def kept(self, rows: Int32s) -> Int32s:
        """Return the numbers of rows of the plane, or -1 if a row is not kept."""
        is_kept = (self.all_roles[rows] & np.uint8(KEPT)) != 0
        return np.where(is_kept, self.all_numbers[rows], -1).astype(np.int32)

    # ---- of kept rows

    @cached_property
    def bounds(self) -> Int64s:
        """Bounds [lines, 2]: the first row of each line and the row after its last."""
        ends = np.array([(line.first, line.last) for line in self._lines], np.int64).reshape(-1, 2)
        return np.searchsorted(self.rows, ends - self.first)

    def having(self, roles: int) -> Int32s:
        """Return the rows with any of these roles."""
        return np.flatnonzero(self.roles & np.uint8(roles)).astype(np.int32)

    @cached_property
    def iterator_rows(self) -> Int32s:
        """Rows of iterator events."""
        return self.having(ITERATES)

    @cached_property
    def number(self) -> Int32s:
        """Iterator event of each row, or -1; one more at the end is for row -1."""
        number = np.full(len(self) + 1, -1, np.int32)
        number[self.iterator_rows] = np.arange(len(self.iterator_rows), dtype=np.int32)
        return number

    def nearest(self, marked: npt.NDArray[np.bool_]) -> Int32s:
        """Return the nearest marked row at or above each row, on its line, or -1."""
        return self._nearest(marked.view(np.uint8), 1)

    def nearest_of(self, role: int) -> Int32s:
        """Return the nearest row of a role at or above each row, on its line, or -1."""
        return self._nearest(self.roles, role)

    def _nearest(self, marks: Roles, bits: int) -> Int32s:
        numbers = np.empty(len(self), np.int32)
        nearest_marked(self.parent, marks, bits, numbers)
        return numbers

    def stat(self, name: str) -> Stat:
        """Return the stats of a name that these rows have, of all kinds."""
        joined = self._stats.get(name)
        if joined is None:
            own = self.all_having(KEPT, name)
            joined = self._stats[name] = Stat(self.all_numbers[own.rows], own.kind, own.value)
        return joined

    def beside(self, name: str, rows: Int32s) -> tuple[npt.NDArray[np.uint8], Int64s]:
        """Return kind and value of a stat beside some rows; the kind is NONE if there is none."""
        stat = self.stat(name)
        if not len(stat):
            return np.full(len(rows), records.NONE, np.uint8), np.zeros(len(rows), np.int64)
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = np.full(len(self), -1, np.int32)
            place[stat.rows] = np.arange(len(stat), dtype=np.int32)
        at = place[rows]
        has = at >= 0
        return np.where(has, stat.kind[at], np.uint8(records.NONE)), np.where(has, stat.value[at], 0)


INTEGERS = (records.INT64, records.UINT64)
ATTRIBUTES = ("parallelism", "buffer_limit", "buffer_size", "autotune", "batch_size", "cycle_length", "deterministic",
              "cpu_budget", "threadpool_size")  # fmt: skip
"""Stats of iterator events that record the setup of the iterator; the last two are those of entire pipelines."""


def is_integer(kind: UInt8s) -> Bools:
    """Return whether stats of these kinds are integers."""
    return np.asarray((kind == records.INT64) | (kind == records.UINT64))


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Origins of iterator events, a row for each distinct one, in order of first event, or for each event. ``*_kind``:
    kind of the id as recorded, or NONE; ``name``: place in ``names``; ``is_named``: whether the name begins like those
    of iterators; ``is_root``: whether the name is that of a single iterator, which a program calls."""

    iterator_id: Int64s
    id_kind: UInt8s
    parent_id: Int64s
    parent_kind: UInt8s
    name: Int32s
    is_generator: Bools
    is_named: Bools
    is_root: Bools
    names: list[str]

    def __len__(self) -> int:
        return len(self.iterator_id)

    @property
    def is_identified(self) -> Bools:
        """Return whether each origin has the id of its iterator."""
        return is_integer(self.id_kind) & self.is_named


@dataclass(frozen=True, slots=True, eq=False)
class IteratorEvents:
    """Events of iterators, by line and start. ``parent``: the event right around each, if that is one of these, or
    -1."""

    start_ps: Int64s
    duration_ps: Int64s
    origin: Int32s
    parent: Int32s
    origins: Origins

    def __len__(self) -> int:
        return len(self.start_ps)


def read_iterator_events(lines: HostLines, *, kept: bool) -> IteratorEvents:
    """Read the iterator events of a host, as ``lines.number`` numbers them. ``kept``: whether origins are distinct,
    which takes longer to find, because they are kept."""
    rows = lines.iterator_rows
    id_kind, iterator_id = lines.beside("id", rows)
    parent_kind, parent_id = lines.beside("parent_id", rows)
    origin, first_rows = np.arange(len(rows), dtype=np.int32), rows
    if kept:
        kinds = lines.meta[rows].astype(np.int64) << 16 | id_kind.astype(np.int64) << 8 | parent_kind
        origin, count = number_keys([iterator_id, parent_id, kinds])
        first = find_first_rows(origin, count)
        first_rows, id_kind, iterator_id = rows[first], id_kind[first], iterator_id[first]
        parent_kind, parent_id = parent_kind[first], parent_id[first]
    metas, is_used = lines.meta[first_rows], np.zeros(len(lines.events.names), np.bool_)
    is_used[metas] = True
    names = [lines.events.names[number] for number in np.flatnonzero(is_used).tolist()]
    name = (np.cumsum(is_used, dtype=np.int32) - np.int32(1))[metas]
    role = lines.roles[first_rows]
    is_generator, is_named = (role & GENERATOR) != 0, (role & NAMED) != 0
    of_root = np.array([is_root(text) for text in names], np.bool_)[name]
    origins = Origins(iterator_id, id_kind, parent_id, parent_kind, name, is_generator, is_named, of_root, names)
    parent = lines.number[np.maximum(lines.around[rows], -1)]
    return IteratorEvents(lines.start_ps[rows], lines.duration_ps[rows], origin, parent, origins)


def read_attributes(lines: HostLines, iterator: Int32s, count: int) -> dict[str, list[Value]]:
    """Return the last value of each attribute for each iterator, in the order of events. ``iterator``: by iterator
    event, or -1 if unknown."""
    attributes: dict[str, list[Value]] = {}
    for name in ATTRIBUTES:
        stat = lines.stat(name)
        event = lines.number[stat.rows]
        own = np.where(event >= 0, iterator[event], -1) if len(iterator) else event
        last = np.full(count + 1, -1, np.int64)  # of equal indices the last assignment stays; the last for -1
        last[own] = np.arange(len(stat))
        has = np.flatnonzero(last[:-1] >= 0)
        if not len(has):
            continue
        kinds, values = stat.kind[last[has]], stat.value[last[has]]
        keys = list(zip(kinds.tolist(), values.tolist(), strict=True))
        by_key = {key: _convert_value(lines, *key) for key in set(keys)}
        shown: list[Value] = [None] * count
        for number, key in zip(has.tolist(), keys, strict=True):
            shown[number] = by_key[key]
        attributes[name] = shown
    return attributes


def _convert_value(lines: HostLines, kind: int, value: int) -> Value:
    if kind == records.INT64:
        return value
    if kind == records.UINT64:
        return value % 2**64
    if kind == records.DOUBLE:
        return float(np.int64(value).view(np.float64))
    if kind in (records.STR, records.REF):
        text = lines.events.text(value)
        return None if text == "unavailable" else text
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Askers:
    """Iterators that request elements. ``parent``: for each iterator event, the one that asked for its element, or -1;
    ``produce_rows``: ascending rows of Produce events in which something was made, with the iterator event that took
    it, or -1, and the first iterator event that was made, which has its parent."""

    parent: Int32s
    produce_rows: Int32s
    taker: Int32s
    made: Int32s


def find_askers(lines: HostLines, events: IteratorEvents, owner: Int32s) -> Askers:
    """Find who asked for each element. ``owner``: the nearest identified iterator event at or above each row; one more
    at the end is for row -1.

    Each event has one asker: the iterator that its own lies in, else the one that took the element, else the one that
    made the context in which it ran. The caller of a pipeline is no iterator."""
    asks = (events.origins.is_identified & ~events.origins.is_root)[events.origin]
    outer = lines.parent[lines.iterator_rows]
    parent = np.where(asks, owner[outer], -1).astype(np.int32)
    lost = np.flatnonzero(asks & (parent < 0) & (outer >= 0)).astype(np.int32)
    produce = lines.nearest_of(PRODUCE)[outer[lost]] if len(lost) else lost
    made, under = lost[produce >= 0], produce[produce >= 0]
    taker = _find_takers(lines, events, owner, made, under)
    parent[made] = taker
    _link_by_context(lines, owner, np.flatnonzero(asks & (parent < 0)), parent)
    order = np.argsort(under, kind="stable")
    first = np.append(True, under[order[1:]] != under[order[:-1]])[: len(order)]
    once = order[first]
    return Askers(parent, under[once], taker[once], made[once])


def _find_takers(lines: HostLines, events: IteratorEvents, owner: Int32s, made: Int32s, under: Int32s) -> Int32s:
    """Return the iterator event that took the element of each event made below a Produce event, or -1."""
    taker = np.full(len(made), -1, np.int32)
    takes = lines.having(CONSUME)
    taken_kind, taken = lines.beside("element_id", takes)
    by = owner[lines.parent[takes]]
    known = is_integer(taken_kind) & (by >= 0)
    makes = lines.having(PRODUCE)
    made_kind, element = lines.beside("element_id", makes)
    place = np.searchsorted(makes, under)
    asked_kind = events.origins.parent_kind[events.origin[made]]
    asks = np.flatnonzero(is_integer(made_kind[place]) & is_integer(asked_kind))
    if not known.any() or not len(asks):
        return taker
    takes, taken, by = takes[known], taken[known], by[known]
    asked = events.origins.parent_id[events.origin[made[asks]]]
    asking = events.origins.iterator_id[events.origin[by]]
    wanted, offered = element[place[asks]], lines.start_ps[under[asks]]
    best = _find_next_of_key((asking, taken), lines.start_ps[takes], (asked, wanted), offered)
    taker[asks] = np.where(best >= 0, by[best], -1)
    return taker


def _find_next_of_key(
    keys: tuple[Int64s, Int64s], times: Int64s, wanted: tuple[Int64s, Int64s], since: Int64s
) -> Int64s:
    """Return the place of the first row of each wanted key at or after a time, else of its last row, or -1."""
    both, _ = number_keys([np.concatenate(pair) for pair in zip(keys, wanted, strict=True)])
    own, asked = both[: len(times)], both[len(times) :]
    order = sort_rows(own, times)
    # Both ordered by key, then time, wanted ones first: what follows is the first at or after them.
    key = np.concatenate([asked, own[order]])
    time = np.concatenate([since, times[order]])
    merged = sort_rows(key, time, np.arange(len(key)) >= len(asked))
    is_own = merged >= len(asked)
    upto = np.cumsum(is_own)
    place = np.empty(len(asked), np.int64)
    place[merged[~is_own]] = upto[~is_own]  # those before: the number of the next
    first, last = np.searchsorted(own[order], asked), np.searchsorted(own[order], asked, side="right")
    chosen = np.minimum(place, last - 1)
    return np.where(last > first, order[chosen], -1)


def _link_by_context(lines: HostLines, owner: Int32s, lost: Int64s, parent: Int32s) -> None:
    """Set the parents of lost events within consumers of a context that an iterator made: of several iterators the last
    that began before, else the first."""
    rows = lines.rows[lines.iterator_rows[lost]]
    may_take = lines.all_stat("_c").rows
    if not len(may_take) or not (find_equal(may_take, rows)[0] | (lines.all_parents[rows] >= 0)).any():
        return
    takes = _select_plane(lines, find_contexts(lines.events, "_ct", "_c"))
    nearest = lines.all_nearest(takes.rows)[rows]
    lost, nearest = lost[nearest >= 0], nearest[nearest >= 0]
    makes = _select_plane(lines, find_contexts(lines.events, "_pt", "_p"))
    maker = owner[lines.all_numbers[makes.rows]]
    known = maker >= 0
    makes = makes.where(known)
    if not len(makes.rows) or not len(lost):
        return
    number, _ = number_keys([np.concatenate(pair) for pair in zip(makes.keys, takes.keys, strict=True)])
    given, asked = number[: len(makes.rows)], number[len(makes.rows) :][np.searchsorted(takes.rows, nearest)]
    # Times are inverted, so that the next row of a key is the last one at or before a time.
    made, taken = ~lines.all_starts[makes.rows], ~lines.all_starts[nearest]
    makers, takers = (given.astype(np.int64), np.zeros_like(made)), (asked.astype(np.int64), np.zeros_like(taken))
    best = _find_next_of_key(makers, made, takers, taken)
    lost, best = lost[best >= 0], best[best >= 0]
    giver = maker[known][best]
    parent[lost] = np.where(giver == lost, -1, giver)


def _select_plane(lines: HostLines, ends: LinkEnds) -> LinkEnds:
    """Select the ends on the plane, by its rows."""
    here = (ends.rows >= lines.first) & (ends.rows < lines.first + len(lines.all_roles))
    ends = ends.where(here)
    return LinkEnds(ends.rows - np.int32(lines.first), ends.keys)
