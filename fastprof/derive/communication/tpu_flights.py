"""Communication of a TPU core.

On a core's op lines time belongs to the innermost op, which computes or communicates. An asynchronous operation has an
op that starts it and one that ends it, which waits for it. Between these it is aloft: from the begin of the first to
the end of the second one on the core, or, where the second does not name the first, as an event of the line ``Async XLA
Ops`` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native.communication_kernels import innermost_stretches
from fastprof._native.op_kernels import extent
from fastprof.decode.nesting import line_rows
from fastprof.decode.workers import Workers
from fastprof.derive.communication.flights import (
    NO_BYTES,
    STRETCH,
    CoreActivity,
    Flights,
    Operations,
    in_order,
    joined,
)
from fastprof.derive.communication.kinds import DONE, START
from fastprof.derive.communication.tpu_instructions import COMMUNICATES, Instructions, instructions
from fastprof.derive.devices.device_events import OP_LINES, OpEvents, op_events
from fastprof.derive.ops.tables import span_ps, sums_by
from fastprof.schema.array_types import Bools, Int32s, Int64s, Records
from fastprof.tables.host_events import HostEvents, Plane

ASYNC_LINE: Final = "Async XLA Ops"
"""The line on which a core records flights."""

EVENT_STATS: Final = ("hlo_op",)
"""What is read beyond what ops are made of."""


def activities(
    events: HostEvents, planes: Sequence[Plane], operations: Operations, workers: Workers
) -> list[CoreActivity | None]:
    """What each core did; None: it has no ops."""
    ops = workers.run(None, [partial(op_events, events, plane) for plane in planes])
    known = [  # one after the other, so that operations are numbered alike each time
        instructions(events, _met(events, found.meta), _met(events, _aside(events, plane)[1]), operations)
        for plane, found in zip(planes, ops, strict=True)
    ]
    return workers.run(None, [partial(_activity, events, *one) for one in zip(planes, ops, known, strict=True)])


def _activity(events: HostEvents, plane: Plane, found: OpEvents, known: Instructions) -> CoreActivity | None:
    if not len(found):
        return None
    order, lines = _in_time_order(plane, found)
    start, duration, marks = found.start_ps[order], found.duration_ps[order], known.mark[found.meta[order]]
    work, others = (np.frombuffer(part, STRETCH) for part in innermost_stretches(start, duration, marks, lines))
    chosen = np.flatnonzero(marks == COMMUNICATES)
    flights, flight_of_op = _flights(events, plane, found, order[chosen], known)
    stood = others.copy()
    stood["row"] = flight_of_op[np.searchsorted(chosen, others["row"])]
    wait = sums_by(stood["row"], stood["end"] - stood["begin"], len(flights), "times of waiting")
    begin, end = _extent(start, duration)
    span_ps(events.host, plane.name, begin, end)
    return CoreActivity(in_order(work), stood, replace(flights, wait_ps=wait), begin, end)


def _met(events: HostEvents, meta: Int32s) -> Int64s:
    """The rows of metadata that occur."""
    seen = np.zeros(len(events.names) + 1, np.bool_)
    seen[meta] = True
    return np.flatnonzero(seen[:-1])


def _extent(start: Int64s, duration: Int64s) -> tuple[int, int]:
    """The last end is at most the last picosecond that 64 bits can hold."""
    span = extent(start, duration)
    return span if span is not None else (int(start.min()), 2**63 - 1)


def _in_time_order(plane: Plane, found: OpEvents) -> tuple[Int64s, Records]:
    """The op events of each line by start, longer first, and where the lines are."""
    counts = [line.last - line.first for line in plane.lines if line.name in OP_LINES and line.last > line.first]
    lines = line_rows(np.array(counts, np.int64), np.zeros(len(counts), np.int64))
    line = np.repeat(np.arange(len(counts)), counts)
    start, duration = found.start_ps, found.duration_ps
    later = (start[1:] > start[:-1]) | (start[1:] == start[:-1]) & (duration[1:] <= duration[:-1])
    if (later | (line[1:] != line[:-1])).all():
        return np.arange(len(found)), lines
    order = np.argsort(start, kind="stable")  # mostly sorted, so that this takes little
    after, before = order[1:], order[:-1]
    if len(lines) == 1 and not ((start[after] == start[before]) & (duration[after] > duration[before])).any():
        return order, lines
    return np.lexsort((-duration, start, line)), lines


# ---- flights


def _aside(events: HostEvents, plane: Plane) -> tuple[Int64s, Int32s]:
    """Rows and metadata of the plane's records of asynchronous ops."""
    lines = [line for line in plane.lines if line.name == ASYNC_LINE and line.last > line.first]
    rows = joined([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    return rows, events.meta[rows]


@dataclass(frozen=True, slots=True)
class _Ops:
    """Ops that communicate: their events, on the core's clock and on the host's."""

    meta: Int32s
    role: npt.NDArray[np.int8]
    begin: Int64s
    end: Int64s
    clock_begin: Int64s
    clock_end: Int64s

    @classmethod
    def of(cls, events: HostEvents, found: OpEvents, chosen: Int64s, known: Instructions) -> _Ops:
        rows, meta = found.rows[chosen], found.meta[chosen]
        begin, clock = found.start_ps[chosen], events.start_ps[rows]
        return cls(
            meta,
            known.role[meta],
            begin,
            begin + found.duration_ps[chosen],
            clock,
            clock + np.maximum(events.duration_ps[rows], 0),
        )


@dataclass(frozen=True, slots=True)
class _Aloft:
    """The records of the line of asynchronous ops, and their ops: the places of the ops that start and end it,
    -1: not known."""

    meta: Int32s
    clock_begin: Int64s
    clock_end: Int64s
    start: Int64s
    done: Int64s


def _flights(
    events: HostEvents, plane: Plane, found: OpEvents, chosen: Int64s, known: Instructions
) -> tuple[Flights, Int64s]:
    """The flights of a core, and the number of that of each of the ``chosen`` op events."""
    ops = _Ops.of(events, found, chosen, known)
    start = _pairs(ops, known)
    aloft = _aloft(events, plane, ops, known)
    # the line of asynchronous ops has pairs that ops do not record: in loops one iteration ends what another starts
    paired = (aloft.start >= 0) & (aloft.done >= 0)
    taken = np.zeros(len(chosen), np.bool_)
    taken[start[start >= 0]] = True
    paired[paired] = (start[aloft.done[paired]] < 0) & ~taken[aloft.start[paired]]
    start[aloft.done[paired]] = aloft.start[paired]
    heads = np.flatnonzero(start < 0)
    number = np.full(len(chosen), -1, np.int64)
    number[heads] = np.arange(len(heads))
    number[start >= 0] = number[start[start >= 0]]
    begin, end, clock_begin, clock_end = (
        column[heads] for column in (ops.begin, ops.end, ops.clock_begin, ops.clock_end)
    )
    ended = np.flatnonzero(start >= 0)
    end[number[ended]], clock_end[number[ended]] = ops.end[ended], ops.clock_end[ended]
    is_aloft = np.zeros(len(heads), np.bool_)
    is_aloft[number[ended]] = True
    alone = _Flying(known.op[ops.meta[heads]], begin, end, clock_begin, clock_end, is_aloft)
    return _with_aloft(alone, number, aloft, _Clock(events, found), known), number


def _pairs(ops: _Ops, known: Instructions) -> Int64s:
    """For each op the place of the one that starts what it ends; -1: it ends nothing, or its start is not known."""
    start = np.full(len(ops.meta), -1, np.int64)
    both = np.flatnonzero((ops.role == START) | (ops.role == DONE))
    before = before_each(known.start_key[ops.meta[both]], ops.begin[both], ops.role[both] == START)
    start[both[before >= 0]] = both[before[before >= 0]]
    return start


def _aloft(events: HostEvents, plane: Plane, ops: _Ops, known: Instructions) -> _Aloft:
    rows, meta = _aside(events, plane)
    keep = known.mark[meta] == COMMUNICATES
    rows, meta = rows[keep], meta[keep]
    begin = events.start_ps[rows]
    end = begin + np.maximum(events.duration_ps[rows], 0)
    starts, dones = np.flatnonzero(ops.role == START), np.flatnonzero(ops.role == DONE)
    start = places_of((known.key[ops.meta[starts]], ops.clock_begin[starts]), (known.key[meta], begin))
    done = places_of((known.key[ops.meta[dones]], ops.clock_end[dones]), (_named(events, rows, meta, known), end))
    return _Aloft(meta, begin, end, _through(starts, start), _through(dones, done))


def _through(places: Int64s, at: Int64s) -> Int64s:
    found = np.full(len(at), -1, np.int64)
    found[at >= 0] = places[at[at >= 0]]
    return found


def _named(events: HostEvents, rows: Int64s, meta: Int32s, known: Instructions) -> Int64s:
    """The key of the op that ends each, as its stat hlo_op has it; -1: it does not say."""
    at, numbers = events.texts("hlo_op")
    place = np.minimum(np.searchsorted(at, rows), max(len(at) - 1, 0))
    has = at[place] == rows if len(at) else np.zeros(len(rows), np.bool_)
    key = np.full(len(rows), -1, np.int64)
    if has.any():
        number, program = numbers[place[has]], known.program[meta[has]]
        texts, text = np.unique(number, return_inverse=True)
        programs, of = np.unique(program, return_inverse=True)
        distinct, inverse = np.unique(text.reshape(-1) * len(programs) + of.reshape(-1), return_inverse=True)
        names = events.all_texts(texts)
        keys = [
            known.key_of(int(programs[one % len(programs)]), names[one // len(programs)]) for one in distinct.tolist()
        ]
        key[has] = np.array(keys, np.int64)[inverse.reshape(-1)]
    return key


@dataclass(frozen=True, slots=True)
class _Flying:
    op: Int32s
    begin: Int64s
    end: Int64s
    clock_begin: Int64s
    clock_end: Int64s
    aloft: npt.NDArray[np.bool_]


class _Clock:
    """Times of the host as the core's own clock has them: each as far behind the last begin or end of an op as on the
    host's, but not beyond the next one."""

    def __init__(self, events: HostEvents, found: OpEvents) -> None:
        self._events, self._found = events, found

    @cached_property
    def _anchors(self) -> tuple[Int64s, Int64s]:
        """Begins and ends of ops on the host's clock, ascending, and on the core's; none: they are the same."""
        events, found = self._events, self._found
        start = events.start_ps[found.rows]
        clock = np.concatenate([start, start + np.maximum(events.duration_ps[found.rows], 0)])
        own = np.concatenate([found.start_ps, found.start_ps + found.duration_ps])
        if np.array_equal(clock, own):
            return clock[:0], own[:0]
        order = np.lexsort((own, clock))
        return clock[order], np.maximum.accumulate(own[order])

    def own(self, time: Int64s) -> Int64s:
        clock, own = self._anchors if len(time) else (time, time)
        if not len(clock):
            return time
        last = np.searchsorted(clock, time, side="right") - 1
        after, known = np.minimum(last + 1, len(own) - 1), np.maximum(last, 0)
        shifted = own[known] + (time - clock[known])
        within: Int64s = np.where(last + 1 < len(own), np.minimum(shifted, own[after]), shifted)
        return within


def _with_aloft(flying: _Flying, number: Int64s, aloft: _Aloft, clock: _Clock, known: Instructions) -> Flights:
    """Adds what the line of asynchronous ops records of flights that lack their start or their end, and flights of no
    op."""
    open_ = ~flying.aloft
    started = np.flatnonzero(_of_open(aloft.start, number, open_))
    open_[number[aloft.start[started]]] = False
    ended = np.flatnonzero(_of_open(aloft.done, number, open_))
    alone = np.flatnonzero((aloft.start < 0) & (aloft.done < 0))
    place = number[aloft.start[started]]
    flying.end[place], flying.clock_end[place] = clock.own(aloft.clock_end[started]), aloft.clock_end[started]
    flying.aloft[place] = True
    place = number[aloft.done[ended]]
    flying.begin[place], flying.clock_begin[place] = clock.own(aloft.clock_begin[ended]), aloft.clock_begin[ended]
    flying.aloft[place] = True
    begin, end = clock.own(aloft.clock_begin[alone]), clock.own(aloft.clock_end[alone])
    op = np.concatenate([flying.op, known.op[aloft.meta[alone]]])
    return Flights(
        op,
        np.concatenate([flying.begin, begin]),
        np.concatenate([flying.end, np.maximum(end, begin)]),
        np.concatenate([flying.clock_begin, aloft.clock_begin[alone]]),
        np.concatenate([flying.clock_end, aloft.clock_end[alone]]),
        np.zeros(len(op), np.int64),
        np.concatenate([flying.aloft, np.ones(len(alone), np.bool_)]),
        np.full(len(op), NO_BYTES, np.int64),
    )


def _of_open(places: Int64s, number: Int64s, open_: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which are about the op of a flight that is not known to be aloft yet."""
    known = places >= 0
    known[known] = open_[number[places[known]]]
    return known


def before_each(key: Int64s, time: Int64s, begins: Bools) -> Int64s:
    """Of each row that does not begin anything the row that does: the latest one of its key, unless another row that
    does not is between them; -1: there is none."""
    order = np.lexsort((time, key))
    after, before = order[1:], order[:-1]
    pairs = ~begins[after] & begins[before] & (key[after] == key[before])
    found = np.full(len(key), -1, np.int64)
    found[after[pairs]] = before[pairs]
    return found


def places_of(known: tuple[Int64s, Int64s], wanted: tuple[Int64s, Int64s]) -> Int64s:
    """For each wanted pair of numbers the first row of it among the known ones; -1: there is none."""
    if not len(known[0]) or not len(wanted[0]):
        return np.full(len(wanted[0]), -1, np.int64)
    first, second = (np.concatenate(pair) for pair in zip(known, wanted, strict=True))
    order = np.lexsort((second, first))  # stable: of equal pairs those that are known come first
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (first[order[1:]] != first[order[:-1]]) | (second[order[1:]] != second[order[:-1]])
    heads = order[np.flatnonzero(fresh)][np.cumsum(fresh) - 1]
    found = np.empty(len(order), np.int64)
    found[order] = np.where(heads < len(known[0]), heads, -1)
    return found[len(known[0]) :]
