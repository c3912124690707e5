"""Device time by activity: compute, communication, copy, waiting for the host, idle.

If several of these go on at once, the first counts::

    stream 1     |==compute==|        |=compute=|
    stream 2          |--all-reduce--|          |..copy..|
    kinds    idle|  compute  |comm.  | compute  | copy   |idle

The threads of a host without devices are one device, ``CPU``. It runs what XLA compiled, or ops of TensorFlow or
PyTorch that belong to no input pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native.cause_kernels import foremost
from fastprof._native.communication_kernels import innermost_stretches
from fastprof.decode.nesting import number_lines
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES, CommunicationKind, find_communication
from fastprof.derive.devices.op_names import COLLECTIVES
from fastprof.derive.devices.run_environment import CPU as CPU
from fastprof.derive.ops.line_times import select_instruction_rows
from fastprof.derive.ops.op_table import compute_span
from fastprof.derive.steps.event_graph import CODES, STRETCH, TF_OP
from fastprof.derive.steps.event_graph import PIECE as PIECE
from fastprof.derive.steps.host_calls import find_computing_ops, find_op_runs
from fastprof.derive.steps.host_causes import WORK
from fastprof.derive.steps.step_database import NO_TYPE, EventType, TypedEvents
from fastprof.schema.columns import (
    DisjointSpans,
    Int32s,
    Int64s,
    Records,
    UInt8s,
    add_durations,
    merge_spans,
    number_distinct,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane, find_lines

if TYPE_CHECKING:
    from fastprof.derive.steps.event_graph import EventForest


KINDS: Final = ("compute", "communication", "copy", "wait", "idle")
COMPUTE, COMMUNICATION, COPY, WAIT, IDLE = range(len(KINDS))
"""Kinds of time, in order of precedence."""

SPAN: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("rank", "i4"), ("label", "i4")])
"""Mirrors the struct of csrc/kernels/foremost.h; a test compares its size with C's."""

INFEED, OUTFEED, HOST, CORE = "infeed", "outfeed", "host", "core"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A data movement: its name, the kind of time that a device waiting for it spends and, for WAIT, what it waits for:
    INFEED, OUTFEED, HOST or another CORE."""

    name: str
    kind: int
    waits_for: str = ""


_WAITS: Final = {
    CommunicationKind.INFEED: INFEED,
    CommunicationKind.OUTFEED: OUTFEED,
    CommunicationKind.HOST_SEND_RECV: HOST,
    CommunicationKind.OFFLOAD: CORE,
}


def make_transfer(name: str, kind: CommunicationKind) -> Transfer:
    """Return how a device that waits for a transfer of this kind spends its time."""
    if kind.scope == BETWEEN_DEVICES:
        return Transfer(name, COMMUNICATION)
    return Transfer(name, WAIT, _WAITS[kind]) if kind in _WAITS else Transfer(name, COPY)


@dataclass(frozen=True, slots=True)
class DeviceEvents:
    """Events of a device: their rows, ascending, and their times by the clock of its ops."""

    rows: Int32s
    start_ps: Int64s
    end_ps: Int64s


@dataclass(frozen=True, slots=True)
class DeviceSpans:
    """Spans that a device ran, as SPAN; they may overlap, in any order. ``rank``: of simultaneous spans the lowest
    counts. ``label``: 0 for compute, else the place in ``transfers`` plus 1."""

    name: str
    plane: Plane
    spans: Records
    transfers: Sequence[Transfer]
    events: DeviceEvents


IS_IDLE, COMPUTES = -2, -1
"""States of a device; from 0 on the place in its transfers of what it waits for."""


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Consecutive intervals, without gaps, that add up to the window from the first of ``start_ps`` to ``last_ps``, by
    the clock of the device's ops. ``state``: see IS_IDLE; neighbours differ in it."""

    ran: DeviceSpans
    start_ps: Int64s
    state: Int32s
    last_ps: int

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def end_ps(self) -> Int64s:
        return np.append(self.start_ps, self.last_ps)[1:]

    @property
    def duration_ps(self) -> Int64s:
        return self.end_ps - self.start_ps

    @property
    def kind(self) -> UInt8s:
        """Kind of each interval, see KINDS."""
        kinds: UInt8s = np.array([*(transfer.kind for transfer in self.ran.transfers), IDLE, COMPUTE], np.uint8)[
            self.state
        ]
        return kinds


def divide_device_time(host: str, ran: DeviceSpans, begin_ps: int, end_ps: int) -> DeviceTime:
    """Divide a device's time from ``begin_ps`` to ``end_ps``. CaptureError: 64 bits cannot hold the time between."""
    compute_span(host, ran.name, begin_ps, end_ps)
    pieces = np.frombuffer(foremost(ran.spans, begin_ps, end_ps), PIECE)
    state = pieces["label"].astype(np.int32)
    state -= 1
    return DeviceTime(ran, np.ascontiguousarray(pieces["begin"]), state, end_ps)


def make_span_records(begin: Int64s, end: Int64s, rank: Int32s | int, label: Int32s | int) -> Records:
    """Return spans as SPAN."""
    spans = np.empty(len(begin), SPAN)
    spans["begin"], spans["end"], spans["rank"], spans["label"] = begin, end, rank, label
    return spans


def find_extent_of_spans(spans: Sequence[DeviceSpans]) -> tuple[int, int] | None:
    """Return the first begin and the last end of all spans, or None if there are none."""
    ran = [device.spans for device in spans if len(device.spans)]
    if not ran:
        return None
    return min(int(part["begin"].min()) for part in ran), max(int(part["end"].max()) for part in ran)


_TYPES: Final = np.full(5, NO_TYPE, np.uint8)
_TYPES[[COMPUTE, COMMUNICATION, COPY]] = WORK, EventType.DEVICE_COLLECTIVES, EventType.HOST_TO_DEVICE


def divide_thread_time(spans: Sequence[DeviceSpans]) -> TypedEvents | None:
    """Return when threads compute, communicate or copy, in order of time, as events without groups; None if they run
    nothing as a device. ``spans``: what they run as a device."""
    window = find_extent_of_spans(spans)
    if window is None:
        return None
    time = divide_device_time("", spans[0], *window)
    type_ = _TYPES[time.kind]
    busy = type_ != NO_TYPE
    none = np.full(int(busy.sum()), -1, np.int32)
    return TypedEvents(none, type_[busy], time.start_ps[busy], time.duration_ps[busy])


def find_thread_spans(events: HostEvents, forest: EventForest, computes: Callable[[str], bool]) -> list[DeviceSpans]:
    """Return what a host's threads run as a device; empty if nothing.

    Ops count first, then the callbacks that they wait for. The rest of the time in which a program runs is compute,
    too: threads that share the work of an op record nothing."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return []
    compiled = select_instruction_rows(events, plane)
    rows = compiled if len(compiled) else _select_torch_rows(events)
    rows = rows if len(rows) else _select_tensorflow_rows(forest, plane, computes)
    if not len(rows):
        return []
    moves, transfers = _match_transfers(events, rows, computes, compiled=len(compiled) > 0)
    begin, end = _find_program_runs(events, plane) if len(compiled) else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    (work, until), others = _split_work_and_moves(events, plane, rows, moves)
    place = moves[others["row"]]
    kinds = np.array([transfer.kind for transfer in transfers] or [0], np.int32)
    spans = np.concatenate(
        [
            make_span_records(work, until, 2 * COMPUTE, 0),
            make_span_records(begin, end, 2 * WAIT + 1, 0),
            make_span_records(others["begin"], others["end"], 2 * kinds[place], place + 1),
        ]
    )
    return [DeviceSpans(CPU, plane, spans, transfers, read_row_times(events, rows))]


def _split_work_and_moves(
    events: HostEvents, plane: Plane, rows: Int32s, moves: Int32s
) -> tuple[DisjointSpans, Records]:
    """Return when any thread computes, and as STRETCH when a thread's innermost op moves data. ``moves``: transfer of
    each row, or -1 if it computes."""
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    if not (moves >= 0).any():
        return merge_spans(start, duration), np.zeros(0, STRETCH)
    lines = [line for line in plane.lines if line.last > line.first]
    bounds = np.array([line.first for line in lines] + [plane.last], rows.dtype)
    counts = np.diff(np.searchsorted(rows, bounds)).astype(np.int64)
    marks = np.where(moves < 0, 1, 2).astype(np.uint8)
    of_lines = number_lines(counts, np.zeros(len(counts), np.int64))
    work, others = (np.frombuffer(part, STRETCH) for part in innermost_stretches(start, duration, marks, of_lines))
    return merge_spans(work["begin"], work["end"] - work["begin"]), others


_EXECUTION: Final = "ThunkExecutor::Execute"
"""Prefix of the names of events that last as long as a program runs on a CPU."""
_COMPLETION: Final = f"{_EXECUTION} (wait for completion)"


def _find_program_runs(events: HostEvents, plane: Plane) -> tuple[Int64s, Int64s]:
    """Return begins and ends of what threads do for programs. A thread that continues after its run is complete does
    nothing for it: the system keeps it from ending."""
    runs, waits = (read_row_times(events, _select_beginning(events, plane, name)) for name in (_EXECUTION, _COMPLETION))
    order = np.argsort(waits.start_ps, kind="stable")
    complete = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(waits.end_ps[order]))
    complete = complete[np.searchsorted(waits.start_ps[order], runs.start_ps, side="right")]
    return runs.start_ps, np.where(complete > runs.start_ps, np.minimum(runs.end_ps, complete), runs.end_ps)


def _select_beginning(events: HostEvents, plane: Plane, beginning: str) -> Int32s:
    """Return a plane's events whose names have this prefix."""
    matches = np.array([name.startswith(beginning) for name in events.names], np.bool_)
    if not matches.any():
        return np.zeros(0, np.int32)
    return (np.flatnonzero(matches[events.meta[plane.first : plane.last]]) + plane.first).astype(np.int32)


def _select_torch_rows(events: HostEvents) -> Int32s:
    """Return PyTorch ops, except runs of ops too short to be work."""
    rows, runs = find_computing_ops(events), find_op_runs(events)
    within = np.zeros(len(rows), np.bool_)
    for first, last in zip(*np.searchsorted(rows, [runs.first, runs.last]).tolist(), strict=True):
        within[first:last] = True
    return rows[~within].astype(np.int32)


_RUNS: Final = np.zeros(256, np.uint8)
"""Flags of the event kinds that are tf.data functions."""
_RUNS[[code for name, code in CODES.items() if name.startswith("InstantiatedCapturedFunction")]] = 1


def _select_tensorflow_rows(forest: EventForest, plane: Plane, computes: Callable[[str], bool]) -> Int32s:
    """Return TensorFlow ops that no input pipeline runs, neither in a tf.data function on any thread nor on a thread of
    its own."""
    events, types = forest.events, forest.types
    lines = [line for line in plane.lines if not line.name.startswith("tf_data")]
    parts = [np.flatnonzero(types[line.first : line.last] == TF_OP) + line.first for line in lines]
    rows = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int32)
    is_op = np.zeros(len(events.names), np.bool_)
    is_op[events.meta[rows]] = True
    met = np.flatnonzero(is_op)
    is_op[met] = [computes(events.names[meta]) for meta in met.tolist()]
    rows = rows[is_op[events.meta[rows]]]
    marks = _RUNS[types]
    if len(rows) and marks.any() and not forest.vetoed:
        above = np.empty(len(rows), np.int32)
        forest.graph.nearest_above(marks, 1, rows, above)
        rows = rows[above < 0]
    eager = _select_eager_rows(events, plane, computes)
    return np.sort(np.concatenate([rows, eager])) if len(eager) else rows


_EAGER: Final = "EagerLocalExecute: "


def _select_eager_rows(events: HostEvents, plane: Plane, computes: Callable[[str], bool]) -> Int32s:
    """Return kernel runs in ops, not functions, executed eagerly: such ops record no event of their own."""
    kernels = _select_beginning(events, plane, "KernelAndDevice")
    calls = _select_beginning(events, plane, _EAGER) if len(kernels) else kernels
    if not len(calls):
        return kernels[:0]
    ops = [full_name.removeprefix(_EAGER) for full_name in events.names]
    is_op = np.array([
        op != name and not op.startswith("__") and computes(op) for op, name in zip(ops, events.names, strict=True)
    ])  # fmt: skip
    call = calls[np.maximum(np.searchsorted(calls, kernels) - 1, 0)]
    same = find_lines(plane.lines, call) == find_lines(plane.lines, kernels)
    ends = add_durations(events.start_ps[call], np.maximum(events.duration_ps[call], 0))
    rows: Int32s = kernels[(call < kernels) & same & (events.start_ps[kernels] < ends) & is_op[events.meta[call]]]
    return rows


def _match_transfers(
    events: HostEvents, rows: Int32s, computes: Callable[[str], bool], *, compiled: bool
) -> tuple[Int32s, list[Transfer]]:
    """Return for each event the place in the list of what it transfers or waits for, or -1 if it computes. Looks at
    each name once."""
    if compiled:
        at, numbers = events.texts("hlo_op")
        codes = numbers[np.searchsorted(at, rows)]
    else:
        codes = (events.meta[rows] % len(events.names)).astype(np.int64)
    met, place = number_distinct(codes)
    names = events.all_texts(met) if compiled else [events.names[meta] for meta in met.tolist()]
    transfers: list[Transfer] = []
    numbers_of = np.full(len(names), -1, np.int32)
    for at_name, name in enumerate(names):
        moves: Transfer | None = None
        if not compiled:
            if ":Collective" in name or name.startswith(COLLECTIVES):
                moves = Transfer(name, COMMUNICATION)
        elif (part := find_communication("", "", name.split("::")[-1])) is not None:
            moves = make_transfer(name, part.kind)
        elif not computes(name):
            moves = Transfer(name, WAIT, HOST)
        if moves is not None:
            numbers_of[at_name] = len(transfers)
            transfers.append(moves)
    return numbers_of[place], transfers


def read_row_times(events: HostEvents, rows: Int32s) -> DeviceEvents:
    """Return the events of these rows with their recorded times; negative durations count as 0."""
    start = events.start_ps[rows]
    return DeviceEvents(rows, start, add_durations(start, np.maximum(events.duration_ps[rows], 0)))
