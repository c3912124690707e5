"""What goes on while an iterator runs its own code: user functions, reads of files, elements taken from buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastprof.derive.pipelines.element_links import Askers
from fastprof.derive.pipelines.host_lines import CONSUME, EXECUTOR, FUNCTION, READ, HostLines
from fastprof.derive.pipelines.iterator_events import INTEGERS, is_integer
from fastprof.derive.pipelines.reading import FILE_READ, TAKING, USER_FUNCTION
from fastprof.derive.steps.links import numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s, Records

ACTIVITY = np.dtype([("start", "i8"), ("end", "i8"), ("event", "i4"), ("part", "i4")])
"""fp_activity of csrc/kernels/pipeline_calls.h. ``event``: number of the iterator event during which it went on."""


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
        _packed(lines.start_ps[reads], end[0], _reading(lines, owners, ran, reads), FILE_READ),
        _packed(lines.start_ps[takes], end[1], owners.of(takes)[0], TAKING),
    ])  # fmt: skip
    return np.ascontiguousarray(every[np.lexsort((every["start"], every["event"]))])


def _packed(start: Int64s, end: Int64s, event: Int32s, part: int) -> Records:
    keep = (event >= 0) & (end > start)
    rows = np.zeros(int(keep.sum()), ACTIVITY)
    rows["start"], rows["end"], rows["event"], rows["part"] = start[keep], end[keep], event[keep], part
    return rows


def _reading(lines: HostLines, owners: Owners, ran: Functions, reads: Int32s) -> Int32s:
    """The iterator event of ops that read files: by their line, else by the function that they are part of."""
    event, _ = owners.of(reads)
    lost = np.flatnonzero(event < 0)
    if not len(lost) or not len(ran.executors):
        return event
    nearest = lines.all_nearest(ran.executors)[lines.rows[reads[lost]]]
    place = np.searchsorted(ran.executors, nearest[nearest >= 0])
    event[lost[nearest >= 0]] = ran.event[ran.of_function[place]]
    return event
