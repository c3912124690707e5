"""The threads of a host with their tf.data events: the role of each event in tf.data, and what encloses it."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.grouping import parents
from fastprof._native.pipeline_kernels import marked_rows, nearest_marked
from fastprof.decode.workers import Workers, grouped
from fastprof.derive.devices.op_names import Framework, parse
from fastprof.derive.steps.event_types import CODES, TF_OP, code_of
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.event_stats import Stat
from fastprof.tables.host_events import HOST_THREADS, HostEvents

Roles = npt.NDArray[np.uint8]
ITERATOR, GENERATOR, PRODUCE, CONSUME, FUNCTION, EXECUTOR, READ, NAMED = (1 << bit for bit in range(8))
"""Roles, as bits. NAMED: the name begins like those of iterators."""
ITERATES = ITERATOR | GENERATOR
KEPT = ITERATOR | GENERATOR | PRODUCE | CONSUME | FUNCTION | READ

_BUFFERS = (
    "Prefetch", "ParallelInterleave", "ParallelMap", "MapAndBatch", "ParseExample", "ParallelBatch", "ParallelFilter",
)  # fmt: skip
"""Iterators that fill a buffer on threads of their own, as their events are called."""
_FUNCTIONS = tuple(
    CODES[f"InstantiatedCapturedFunction::{what}"]
    for what in ("Run", "RunWithBorrowedArgs", "RunInstantiated", "RunAsync")
)
_READING_OPS = {
    "ReadFile", "MatchingFiles", "ReaderRead", "ReaderReadV2", "ReaderReadUpTo", "ReaderReadUpToV2", "RestoreV2",
}  # fmt: skip
"""Ops of TensorFlow that read files."""
_TASK_EVENTS = 1 << 18


@lru_cache(maxsize=1 << 16)
def role_of(name: str) -> int:
    """The bits of a name."""
    code = code_of(name)
    if code == CODES["Iterator"]:
        return ITERATOR | (NAMED if parse(name).framework is Framework.TF_DATA else 0)
    if code == CODES["Iterator::Prefetch::Generator"]:
        return GENERATOR | NAMED
    if code in _FUNCTIONS:
        return FUNCTION
    if code == CODES["ExecutorState::Process"]:
        return EXECUTOR
    if code == TF_OP:
        return READ if parse(name).type in _READING_OPS else 0
    for end, role in (("Produce", PRODUCE), ("Consume", CONSUME)):
        if name.endswith(end) and name.removesuffix(end) in _BUFFERS:
            return role
    return 0


def is_root(name: str) -> bool:
    """Whether an event of this name is a call of a pipeline: of an iterator that takes its elements for nobody else."""
    return role_of(name) == ITERATOR | NAMED and name.count("::") == 1


class HostLines:
    """The rows of plane /host:CPU that have a role of KEPT: they are numbered from 0.

    ``rows``    row in the plane, ascending
    ``parent``  the nearest of these rows around each, on its line; -1: none
    ``around``  the one right around each; -1: there is no event around it, -2: one that is not among these

    Of all rows of the plane:

    ``first``        row in ``events`` of the first
    ``all_roles``    the bits of each
    ``all_parents``  the row around each; -1: none
    ``all_numbers``  the number of the nearest kept row at or above each; -1: none
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
        self.all_roles = self._roles()
        self.all_parents = self._parents(workers)
        self._keep()
        self.roles: Roles = self.all_roles[self.rows]
        self.start_ps: Int64s = self.all_starts[self.rows]
        self.duration_ps: Int64s = self.all_durations[self.rows]
        self.meta: Int32s = self._all_metas[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def _roles(self) -> Roles:
        names = self.events.names
        of_meta, present = np.zeros(len(names), np.uint8), np.zeros(len(names), np.bool_)
        present[self._all_metas] = True
        for number in np.flatnonzero(present).tolist():
            of_meta[number] = role_of(names[number])
        return np.asarray(of_meta[self._all_metas])

    def _parents(self, workers: Workers) -> Int32s:
        """Asynchronous events neither enclose others nor are enclosed."""
        apart: Roles | None = None
        beside = self.all_stat("_a")
        if len(beside):
            apart = np.zeros(len(self.all_starts), np.uint8)
            apart[beside.rows[(beside.kind == records.INT64) & (beside.value != 0)]] = 1
        start, duration = self.all_starts, self.all_durations
        parent, none = np.empty(len(start), np.int32), np.zeros((0, 3), np.int64)
        bounds = np.array([(line.first, line.last) for line in self._lines], np.int64).reshape(-1, 2) - self.first
        tasks = []
        for first, last in grouped((bounds[:, 1] - bounds[:, 0]).tolist(), _TASK_EVENTS):
            share = np.ascontiguousarray(bounds[first:last])
            tasks.append(lambda share=share: parents(start, duration, apart, none, share, parent))
        workers.run(None, tasks)
        return parent

    def _keep(self) -> None:
        marks = self.all_roles & np.uint8(KEPT)
        count = np.count_nonzero(marks)
        self.rows, self.parent, self.around = (np.empty(count, np.int32) for _ in range(3))
        self.all_numbers = np.empty(len(marks), np.int32)
        marked_rows(self.all_parents, marks, self.rows, self.parent, self.around, self.all_numbers)

    # ---- of all rows

    def all_stat(self, name: str) -> Stat:
        """The stats of a name, of all kinds, by row of the plane."""
        found = self._own.get(name)
        if found is None:
            stat = self.events.stat(name)
            first, last = np.searchsorted(stat.rows, [self.first, self._last]).tolist()
            rows = stat.rows[first:last] - np.int32(self.first) if self.first else stat.rows[first:last]
            found = self._own[name] = Stat(rows, stat.kind[first:last], stat.value[first:last])
        return found

    def all_having(self, role: int, stat: str) -> Stat:
        """The stats of all rows of a role."""
        every = self.all_stat(stat)
        keep = (self.all_roles[every.rows] & np.uint8(role)) != 0
        return Stat(every.rows[keep], every.kind[keep], every.value[keep])

    def all_nearest(self, rows: Int32s) -> Int32s:
        """The nearest of these rows of the plane at or above each row of it; -1: none."""
        marked, found = np.zeros(len(self.all_roles), np.uint8), np.empty(len(self.all_roles), np.int32)
        marked[rows] = 1
        nearest_marked(self.all_parents, marked, 1, found)
        return found

    def kept(self, rows: Int32s) -> Int32s:
        """The numbers of rows of the plane; -1: it is not kept."""
        is_kept = (self.all_roles[rows] & np.uint8(KEPT)) != 0
        return np.where(is_kept, self.all_numbers[rows], -1).astype(np.int32)

    # ---- of kept rows

    @cached_property
    def bounds(self) -> Int64s:
        """[lines, 2]: the first row of each line and the row after its last."""
        ends = np.array([(line.first, line.last) for line in self._lines], np.int64).reshape(-1, 2)
        return np.searchsorted(self.rows, ends - self.first)

    def having(self, roles: int) -> Int32s:
        """The rows of some roles, whose bits are given together."""
        return np.flatnonzero(self.roles & np.uint8(roles)).astype(np.int32)

    @cached_property
    def iterator_rows(self) -> Int32s:
        """The rows of iterator events."""
        return self.having(ITERATES)

    @cached_property
    def number(self) -> Int32s:
        """The iterator event of each row, -1: none; one more at the end, for row -1."""
        number = np.full(len(self) + 1, -1, np.int32)
        number[self.iterator_rows] = np.arange(len(self.iterator_rows), dtype=np.int32)
        return number

    def nearest(self, marked: npt.NDArray[np.bool_]) -> Int32s:
        """The nearest marked row at or above each row, on its line; -1: none."""
        return self._nearest(marked.view(np.uint8), 1)

    def nearest_of(self, role: int) -> Int32s:
        """The same of a role."""
        return self._nearest(self.roles, role)

    def _nearest(self, marks: Roles, bits: int) -> Int32s:
        found = np.empty(len(self), np.int32)
        nearest_marked(self.parent, marks, bits, found)
        return found

    def stat(self, name: str) -> Stat:
        """The stats of a name that these rows have, of all kinds."""
        found = self._stats.get(name)
        if found is None:
            own = self.all_having(KEPT, name)
            found = self._stats[name] = Stat(self.all_numbers[own.rows], own.kind, own.value)
        return found

    def beside(self, name: str, rows: Int32s) -> tuple[npt.NDArray[np.uint8], Int64s]:
        """Kind and value of a stat beside some rows; kind NONE where there is none."""
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
