"""Communication of a TPU core.

On a core's op lines time belongs to the innermost op, which computes or communicates. An asynchronous operation has an
op that starts it and one that ends it, which waits for it. Between these it is aloft: from the begin of the first to
the end of the second one on the core, or, if the second does not name the first, as an event of the line ``Async XLA
Ops`` records it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache, partial
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native.communication_kernels import innermost_stretches
from fastprof._native.op_kernels import extent
from fastprof.decode.nesting import number_lines
from fastprof.decode.workers import Workers
from fastprof.derive.communication.flights import NO_BYTES, CoreActivity, Flights, Operation, Operations, merge_work
from fastprof.derive.devices.communication_kinds import DONE, START, CommunicationOp, find_communication
from fastprof.derive.devices.device_events import OP_LINES, OpEvents, is_op_metadata, list_op_events, sort_op_events
from fastprof.derive.ops.launches import ASYNC_LINE, find_latest_begin, find_part_before
from fastprof.derive.ops.op_table import compute_span
from fastprof.derive.steps.event_graph import STRETCH
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    Records,
    UInt8s,
    find_equal,
    find_last_started,
    join_parts,
    number_owners,
    number_values,
    sort_rows,
    sum_by,
    take_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import INTEGER_KINDS, TEXT_KINDS, HostEvents, Plane

EVENT_STATS: Final = ("hlo_op",)
METADATA_STATS: Final = ("program_id", "symbol_id", "hlo_category", "tf_op")
"""Stats that are read beyond those of ops."""

NO_OP, WORKS, COMMUNICATES = range(3)


def find_tpu_flights(
    events: HostEvents, planes: Sequence[Plane], operations: Operations, workers: Workers
) -> list[CoreActivity | None]:
    """Find the activity of each core, or None if it has no ops."""
    ops = workers.run(None, [partial(list_op_events, events, plane) for plane in planes])
    recorded = CoreMetadata(events)
    known = [  # one after the other, so that operations are numbered alike each time
        read_instructions(
            recorded, _find_distinct(core.meta), _find_distinct(_find_async_records(events, plane)[1]), operations
        )
        for plane, core in zip(planes, ops, strict=True)
    ]
    return workers.run(None, [partial(_find_flights, events, *core) for core in zip(planes, ops, known, strict=True)])


def _find_flights(events: HostEvents, plane: Plane, ops: OpEvents, known: Instructions) -> CoreActivity | None:
    if not len(ops):
        return None
    order, lines = _sort_by_time(events, plane, ops)
    instruction = known.place(ops.meta)
    start, duration, marks = ops.start_ps[order], ops.duration_ps[order], known.mark[instruction[order]]
    work, others = (np.frombuffer(part, STRETCH) for part in innermost_stretches(start, duration, marks, lines))
    chosen = np.flatnonzero(marks == COMMUNICATES)
    at = order[chosen]
    own, begun, clock = instruction[at], ops.start_ps[at], events.start_ps[ops.rows[at]]
    clock_end = clock + np.maximum(events.duration_ps[ops.rows[at]], 0)
    chosen_ops = _CommunicationOps(own, known.role[own], begun, begun + ops.duration_ps[at], clock, clock_end)
    flights, flight_of_op = _pair_flights(events, plane, ops, chosen_ops, known)
    stood = others.copy()
    stood["row"] = flight_of_op[np.searchsorted(chosen, others["row"])]
    wait = sum_by(stood["row"], stood["end"] - stood["begin"], len(flights), "times of waiting")
    span = extent(start, duration)
    begin, end = span if span is not None else (int(start.min()), 2**63 - 1)
    compute_span(events.host, plane.name, begin, end)
    return CoreActivity(merge_work(work), stood, replace(flights, wait_ps=wait), begin, end)


def _sort_by_time(events: HostEvents, plane: Plane, ops: OpEvents) -> tuple[Int64s, Records]:
    """Sort the op events of each line by start, longer first. Return the order, and where the lines are."""
    counts = [line.last - line.first for line in plane.lines if line.name in OP_LINES and line.last > line.first]
    lines = number_lines(np.array(counts, np.int64), np.zeros(len(counts), np.int64))
    line = number_owners(counts)
    start, duration = ops.start_ps, ops.duration_ps
    later = (start[1:] > start[:-1]) | (start[1:] == start[:-1]) & (duration[1:] <= duration[:-1])
    if (later | (line[1:] != line[:-1])).all():
        return np.arange(len(ops)), lines
    order = sort_op_events(events, plane)
    if len(lines) == 1:
        begins, lasts = start[order], duration[order]
        if not ((begins[1:] == begins[:-1]) & (lasts[1:] > lasts[:-1])).any():
            return order, lines
    return sort_rows(line, start, -duration), lines


# ---- flights


def _find_async_records(events: HostEvents, plane: Plane) -> tuple[Int64s, Int32s]:
    """Return rows and metadata of the plane's records of asynchronous ops."""
    lines = [line for line in plane.lines if line.name == ASYNC_LINE and line.last > line.first]
    rows = join_parts(np.arange(line.first, line.last) for line in lines)
    return rows, events.meta[rows]


@dataclass(frozen=True, slots=True)
class _CommunicationOps:
    """Communicating ops: their instructions and their events, on the core's clock and on the host's."""

    instruction: Int64s
    role: npt.NDArray[np.int8]
    begin: Int64s
    end: Int64s
    clock_begin: Int64s
    clock_end: Int64s


@dataclass(frozen=True, slots=True)
class _AsyncRecords:
    """Records of the line of asynchronous ops, on the host's clock and on the core's, and the places of the ops that
    start and end them, or -1."""

    instruction: Int64s
    clock_begin: Int64s
    clock_end: Int64s
    begin: Int64s
    end: Int64s
    start: Int64s
    done: Int64s


def _pair_flights(
    events: HostEvents, plane: Plane, core_ops: OpEvents, ops: _CommunicationOps, known: Instructions
) -> tuple[Flights, Int64s]:
    """Return the flights of a core, and the number of the flight of each of its ``ops``."""
    count = len(ops.instruction)
    start = np.full(count, -1, np.int64)  # the op that starts what each ends; -1 if nothing or unknown
    both = np.flatnonzero((ops.role == START) | (ops.role == DONE))
    before = find_latest_begin(known.start_key[ops.instruction[both]], ops.begin[both], ops.role[both] == START)
    start[both[before >= 0]] = both[before[before >= 0]]
    aloft = _read_aloft(events, plane, core_ops, ops, known)
    # the line of asynchronous ops has pairs that ops do not record: in loops one iteration ends what another starts
    paired = (aloft.start >= 0) & (aloft.done >= 0)
    taken = np.zeros(count, np.bool_)
    taken[start[start >= 0]] = True
    paired[paired] = (start[aloft.done[paired]] < 0) & ~taken[aloft.start[paired]]
    start[aloft.done[paired]] = aloft.start[paired]
    heads = np.flatnonzero(start < 0)
    number = np.full(count, -1, np.int64)
    number[heads] = np.arange(len(heads))
    number[start >= 0] = number[start[start >= 0]]
    times = [column[heads] for column in (ops.begin, ops.end, ops.clock_begin, ops.clock_end)]
    alone = _make_flights(known.op[ops.instruction[heads]], times, np.zeros(len(heads), np.bool_))
    ended = np.flatnonzero(start >= 0)
    alone.end_ps[number[ended]], alone.clock_end_ps[number[ended]] = ops.end[ended], ops.clock_end[ended]
    alone.aloft[number[ended]] = True
    alone.done_ps[number[ended]] = ops.end[ended] - ops.begin[ended]
    return _add_aloft(alone, number, aloft, known), number


def _make_flights(op: Int32s, times: Sequence[Int64s], aloft: Bools) -> Flights:
    """Make flights. ``times``: begin and end, on the core's clock and on the host's."""
    begin, end, clock_begin, clock_end = times
    wait, moved = np.zeros(len(op), np.int64), np.full(len(op), NO_BYTES, np.int64)
    return Flights(op, begin, end, clock_begin, clock_end, wait, aloft, moved, wait.copy())


def _read_aloft(
    events: HostEvents, plane: Plane, core_ops: OpEvents, ops: _CommunicationOps, known: Instructions
) -> _AsyncRecords:
    rows, meta = _find_async_records(events, plane)
    own = known.place(meta)
    communicates = known.mark[own] == COMMUNICATES
    rows, own = rows[communicates], own[communicates]
    begin = events.start_ps[rows]
    end = begin + np.maximum(events.duration_ps[rows], 0)
    starts, dones = np.flatnonzero(ops.role == START), np.flatnonzero(ops.role == DONE)
    start = find_places((known.key[ops.instruction[starts]], ops.clock_begin[starts]), (known.key[own], begin))
    done = find_places(
        (known.key[ops.instruction[dones]], ops.clock_end[dones]), (_find_named(events, rows, own, known), end)
    )
    own_begin, own_end = _convert_to_core_clock(events, core_ops, np.concatenate([begin, end])).reshape(2, -1)
    return _AsyncRecords(own, begin, end, own_begin, own_end, np.append(starts, -1)[start], np.append(dones, -1)[done])


def _find_named(events: HostEvents, rows: Int64s, instruction: Int64s, known: Instructions) -> Int64s:
    """Return the key of the op that ends each record, by its stat hlo_op, or -1 if it is not recorded."""
    at, numbers = events.texts("hlo_op")
    has, place = find_equal(at, rows)
    key = np.full(len(rows), -1, np.int64)
    if has.any():
        number, program = numbers[place[has]], known.program[instruction[has]]
        texts, text = number_values(number)
        programs, of = number_values(program)
        distinct, inverse = number_values(text * len(programs) + of)
        names = events.all_texts(texts)
        keys = [
            known.key_of(int(programs[pair % len(programs)]), names[pair // len(programs)])
            for pair in distinct.tolist()
        ]
        key[has] = np.array(keys, np.int64)[inverse]
    return key


def _convert_to_core_clock(events: HostEvents, core_ops: OpEvents, time: Int64s) -> Int64s:
    """Convert times of the host to the core's own clock. Each is as far behind the last begin or end of an op as on the
    host's clock, but not beyond the next one."""
    if not len(time):
        return time
    start = take_rows(events.start_ps, core_ops.rows)
    clock = np.concatenate([start, start + np.maximum(take_rows(events.duration_ps, core_ops.rows), 0)])
    own = np.concatenate([core_ops.start_ps, core_ops.start_ps + core_ops.duration_ps])
    if np.array_equal(clock, own):
        return time
    order = sort_rows(clock, own)
    clock, own = clock[order], np.maximum.accumulate(own[order])
    last = find_last_started(clock, time)
    after, known = np.minimum(last + 1, len(own) - 1), np.maximum(last, 0)
    shifted = own[known] + (time - clock[known])
    return np.asarray(np.where(last + 1 < len(own), np.minimum(shifted, own[after]), shifted))


def _add_aloft(flights: Flights, number: Int64s, aloft: _AsyncRecords, known: Instructions) -> Flights:
    """Complete flights that lack their start or their end by the line of asynchronous ops, and add flights without
    ops."""
    open_ = ~flights.aloft
    started = np.flatnonzero(_select_open(aloft.start, number, open_))
    open_[number[aloft.start[started]]] = False
    ended = np.flatnonzero(_select_open(aloft.done, number, open_))
    place = number[aloft.start[started]]
    flights.end_ps[place], flights.clock_end_ps[place] = aloft.end[started], aloft.clock_end[started]
    flights.aloft[place] = True
    place = number[aloft.done[ended]]
    flights.done_ps[place] = flights.end_ps[place] - flights.begin_ps[place]
    flights.begin_ps[place], flights.clock_begin_ps[place] = aloft.begin[ended], aloft.clock_begin[ended]
    flights.aloft[place] = True
    for begin, end in ((flights.begin_ps, flights.end_ps), (flights.clock_begin_ps, flights.clock_end_ps)):
        np.maximum(end, begin, out=end)  # damaged times end before they begin: such a flight takes no time
    rows = np.flatnonzero((aloft.start < 0) & (aloft.done < 0))
    if not len(rows):
        return flights
    begin, end, *clock = (column[rows] for column in (aloft.begin, aloft.end, aloft.clock_begin, aloft.clock_end))
    others = _make_flights(known.op[aloft.instruction[rows]], (begin, np.maximum(end, begin), *clock), rows >= 0)
    return Flights(*(
        np.concatenate([getattr(flights, name), getattr(others, name)]) for name in Flights.__slots__
    ))  # fmt: skip


def _select_open(places: Int64s, number: Int64s, open_: Bools) -> Bools:
    """Return which places are of transfers that are not known to be in flight yet."""
    known = places >= 0
    known[known] = open_[number[places[known]]]
    return known


def find_places(known: tuple[Int64s, Int64s], wanted: tuple[Int64s, Int64s]) -> Int64s:
    """Return the first row of each wanted pair of numbers among the known ones, or -1."""
    if not len(known[0]) or not len(wanted[0]):
        return np.full(len(wanted[0]), -1, np.int64)
    first, second = (np.concatenate(pair) for pair in zip(known, wanted, strict=True))
    order = sort_rows(first, second)  # stable: known ones come first of equal pairs
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (first[order[1:]] != first[order[:-1]]) | (second[order[1:]] != second[order[:-1]])
    heads = order[np.flatnonzero(fresh)][np.cumsum(fresh) - 1]
    place = np.empty(len(order), np.int64)
    place[order] = np.where(heads < len(known[0]), heads, -1)
    return place[len(known[0]) :]


# ---- instructions


class CoreMetadata:
    """Stats of event metadata, by row of metadata. ``is_op``: whether op statistics count it."""

    def __init__(self, events: HostEvents) -> None:
        self.events = events
        self.program = self._column("program_id", INTEGER_KINDS, 0)
        self.is_op = is_op_metadata(events)
        self.category, self.framework_op = (self._column(stat, TEXT_KINDS, -1) for stat in ("hlo_category", "tf_op"))

    def _column(self, stat: str, kinds: tuple[int, ...], missing: int) -> Int64s:
        recorded = self.events.meta_stat(stat).of_kinds(kinds)
        values = np.full(len(self.events.names), missing, np.int64)
        values[recorded.rows] = recorded.value
        return values


@dataclass(slots=True)
class Instructions:
    """Roles of a core's instructions, in the order of ``rows``, their rows of metadata; a last one is for events
    without metadata. Values are -1 for instructions that do not communicate. ``key``: numbers (program, name);
    ``start_key``: key of the op which starts what this one starts or ends."""

    rows: Int64s
    program: Int64s
    mark: UInt8s
    role: npt.NDArray[np.int8]
    op: Int32s
    key: Int64s
    start_key: Int64s
    _keys: dict[tuple[int, str], int] = field(default_factory=dict)

    def key_of(self, program: int, name: str) -> int:
        return self._keys.setdefault((program, name), len(self._keys))

    def place(self, meta: Int32s) -> Int64s:
        """Return the place of each row of metadata."""
        places = np.searchsorted(self.rows, np.arange(-1, int(meta.max(initial=-1)) + 1))
        places[0] = len(self.rows)  # of -1
        return np.asarray(places[meta + 1], np.int64)


def _find_distinct(meta: Int32s) -> Int32s:
    first = np.full(int(meta.max(initial=-1)) + 2, len(meta), np.int64)  # 0: of -1
    first[meta[::-1] + 1] = np.arange(len(meta) - 1, -1, -1)
    values = np.flatnonzero(first < len(meta))
    return (values[np.argsort(first[values], kind="stable")] - 1).astype(meta.dtype)


def read_instructions(recorded: CoreMetadata, met: Int32s, aside: Int32s, operations: Operations) -> Instructions:
    """Read the instructions of a core. ``met``: rows of metadata on its op lines; ``aside``: rows of its asynchronous
    ops, which count only if they communicate; rows of -1 are left out."""
    rows = np.union1d(met[met >= 0], aside[aside >= 0]).astype(np.int64)
    count = len(rows) + 1
    instructions = Instructions(
        rows=rows,
        program=recorded.program[rows],
        mark=np.zeros(count, np.uint8),
        role=np.full(count, -1, np.int8),
        op=np.full(count, -1, np.int32),
        key=np.full(count, -1, np.int64),
        start_key=np.full(count, -1, np.int64),
    )
    works = recorded.is_op[rows] & np.isin(rows, met)
    instructions.mark[:-1][works] = WORKS
    places = np.flatnonzero(works | np.isin(rows, aside))
    candidates = rows[places]
    events, categories = recorded.events, recorded.category[candidates]
    category_of = {number: _read_text(events, number) for number in np.unique(categories).tolist()}
    may = {number for number, text in category_of.items() if not text or find_communication(text, "", "") is not None}
    columns = (places, candidates, categories, recorded.framework_op[candidates])
    for place, row, category, framework_op in zip(*(column.tolist() for column in columns), strict=True):
        if category not in may:
            continue
        name = (events.display_names[row] or events.names[row]).removeprefix("%")
        text = events.names[row] if events.display_names[row] else ""
        part, starts = _classify_op(category_of[category], text, name)
        if part is None:
            continue
        program = int(instructions.program[place])
        operation = Operation(program, name, part.kind, text, _read_text(events, framework_op))
        instructions.mark[place], instructions.role[place] = COMMUNICATES, part.role
        instructions.op[place] = operations.number(operation)
        instructions.key[place] = instructions.key_of(program, name)
        instructions.start_key[place] = instructions.key_of(program, starts)
    return instructions


def _read_text(events: HostEvents, number: int) -> str:
    return "" if number < 0 else events.text(number)


@lru_cache(1 << 15)
def _classify_op(category: str, text: str, name: str) -> tuple[CommunicationOp | None, str]:
    """Return the role of an op, and the name of the op that starts what this one starts or ends."""
    part = find_communication(category, text, name)
    if part is None or part.role != DONE:
        return part, name
    return part, find_part_before(name, text)
