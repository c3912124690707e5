"""The threads of a host without devices, as one device: ``CPU``.

It runs what XLA compiled, or ops of TensorFlow or PyTorch that belong to no input pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native.communication_kernels import innermost_stretches
from fastprof.decode.nesting import line_rows
from fastprof.derive.devices.communication_kinds import kind_of
from fastprof.derive.devices.kineto_categories import COLLECTIVES
from fastprof.derive.ops.device_time import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    CPU,
    HOST,
    WAIT,
    DeviceEvents,
    Spans,
    Transfer,
    device_time,
    extent,
    spans_of,
    transfer,
)
from fastprof.derive.ops.stat_values import distinct
from fastprof.derive.steps.event_types import CODES, TF_OP
from fastprof.derive.steps.host_reasons import WORK
from fastprof.derive.steps.step_time import NO_TYPE, EventType, TypedEvents
from fastprof.derive.steps.stretches import STRETCH, Stretches, union
from fastprof.derive.steps.torch_ops import computing_ops, op_runs
from fastprof.schema.array_types import Int32s, Int64s, Records
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane

if TYPE_CHECKING:
    from fastprof.derive.steps.forest import Forest

_TYPES: Final = np.full(5, NO_TYPE, np.uint8)
_TYPES[[COMPUTE, COMMUNICATION, COPY]] = WORK, EventType.DEVICE_COLLECTIVES, EventType.HOST_TO_DEVICE


def time_on_threads(spans: Sequence[Spans]) -> TypedEvents | None:
    """Return when threads compute, communicate or copy, in order of time, as events of no group; None if they run
    nothing as a device. ``spans``: what they run as a device."""
    window = extent(spans)
    if window is None:
        return None
    time = device_time("", spans[0], *window)
    type_ = _TYPES[time.kind]
    busy = type_ != NO_TYPE
    none = np.full(int(busy.sum()), -1, np.int32)
    return TypedEvents(none, type_[busy], time.start_ps[busy], time.duration_ps[busy])


def spans_of_threads(events: HostEvents, forest: Forest, computes: Callable[[str], bool]) -> list[Spans]:
    """Return what the threads of a host run as a device; empty if they run nothing.

    Ops count first, then the callbacks that they wait for. The rest of the time in which a program runs is compute,
    too: threads that share the work of an op record nothing."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return []
    compiled = _compiled_rows(events, plane)
    rows = compiled if len(compiled) else _torch_rows(events)
    rows = rows if len(rows) else _tensorflow_rows(forest, plane, computes)
    if not len(rows):
        return []
    moves, transfers = _moves_of_rows(events, rows, computes, compiled=len(compiled) > 0)
    begin, end = _runs(events, plane) if len(compiled) else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    (work, until), others = _work_and_moves(events, plane, rows, moves)
    place = moves[others["row"]]
    kinds = np.array([one.kind for one in transfers] or [0], np.int32)
    spans = np.concatenate(
        [
            spans_of(work, until, 2 * COMPUTE, 0),
            spans_of(begin, end, 2 * WAIT + 1, 0),
            spans_of(others["begin"], others["end"], 2 * kinds[place], place + 1),
        ]
    )
    return [Spans(CPU, plane, spans, transfers, times_of_rows(events, rows))]


def _work_and_moves(events: HostEvents, plane: Plane, rows: Int32s, moves: Int32s) -> tuple[Stretches, Records]:
    """Return when any thread computes, and as STRETCH when the innermost op of a thread moves data. ``moves``: by row,
    the transfer, or -1 if it computes."""
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    if not (moves >= 0).any():
        return union(start, duration), np.zeros(0, STRETCH)
    lines = [line for line in plane.lines if line.last > line.first]
    bounds = np.array([line.first for line in lines] + [plane.last], rows.dtype)
    counts = np.diff(np.searchsorted(rows, bounds)).astype(np.int64)
    marks = np.where(moves < 0, 1, 2).astype(np.uint8)
    of_lines = line_rows(counts, np.zeros(len(counts), np.int64))
    work, others = (np.frombuffer(part, STRETCH) for part in innermost_stretches(start, duration, marks, of_lines))
    return union(work["begin"], work["end"] - work["begin"]), others


_EXECUTION: Final = "ThunkExecutor::Execute"
"""How names of events begin that last as long as a program runs on a CPU."""
_COMPLETION: Final = f"{_EXECUTION} (wait for completion)"


def _runs(events: HostEvents, plane: Plane) -> tuple[Int64s, Int64s]:
    """Return begins and ends of what threads do for programs. A thread that goes on when the run is complete does
    nothing for it: the system keeps it from ending."""
    runs, waits = (times_of_rows(events, _named(events, plane, name)) for name in (_EXECUTION, _COMPLETION))
    order = np.argsort(waits.start_ps, kind="stable")
    complete = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(waits.end_ps[order]))
    complete = complete[np.searchsorted(waits.start_ps[order], runs.start_ps, side="right")]
    return runs.start_ps, np.where(complete > runs.start_ps, np.minimum(runs.end_ps, complete), runs.end_ps)


def _named(events: HostEvents, plane: Plane, beginning: str) -> Int32s:
    """The events of a plane whose names begin so."""
    matches = np.array([name.startswith(beginning) for name in events.names], np.bool_)
    if not matches.any():
        return np.zeros(0, np.int32)
    return (np.flatnonzero(matches[events.meta[plane.first : plane.last]]) + plane.first).astype(np.int32)


def _compiled_rows(events: HostEvents, plane: Plane) -> Int32s:
    """The events of threads that name an instruction of a program."""
    at, _ = events.texts("hlo_op")
    return at[slice(*np.searchsorted(at, [plane.first, plane.last]).tolist())]


def _torch_rows(events: HostEvents) -> Int32s:
    """The ops of PyTorch, but for runs of those that are too short to be work."""
    rows, runs = computing_ops(events), op_runs(events)
    within = np.zeros(len(rows), np.bool_)
    for first, last in zip(*np.searchsorted(rows, [runs.first, runs.last]).tolist(), strict=True):
        within[first:last] = True
    return rows[~within].astype(np.int32)


_RUNS: Final = np.zeros(256, np.uint8)
"""1 for the kinds of events that are functions of tf.data."""
_RUNS[[code for name, code in CODES.items() if name.startswith("InstantiatedCapturedFunction")]] = 1


def _tensorflow_rows(forest: Forest, plane: Plane, computes: Callable[[str], bool]) -> Int32s:
    """The ops of TensorFlow that no input pipeline runs: neither in a function of tf.data, on whatever thread, nor on a
    thread of its own."""
    events, types = forest.events, forest.types
    lines = [line for line in plane.lines if not line.name.startswith("tf_data")]
    parts = [np.flatnonzero(types[line.first : line.last] == TF_OP) + line.first for line in lines]
    rows = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int32)
    is_op = np.zeros(len(events.names), np.bool_)
    is_op[events.meta[rows]] = True
    met = np.flatnonzero(is_op)
    is_op[met] = [computes(events.names[one]) for one in met.tolist()]
    rows = rows[is_op[events.meta[rows]]]
    marks = _RUNS[types]
    if len(rows) and marks.any() and not forest.vetoed:
        above = np.empty(len(rows), np.int32)
        forest.graph.nearest_above(marks, 1, rows, above)
        rows = rows[above < 0]
    eager = _eager_rows(events, plane, computes)
    return np.sort(np.concatenate([rows, eager])) if len(eager) else rows


_EAGER: Final = "EagerLocalExecute: "


def _eager_rows(events: HostEvents, plane: Plane, computes: Callable[[str], bool]) -> Int32s:
    """The runs of kernels in ops, not functions, that are executed eagerly: these record no event of their own."""
    kernels = _named(events, plane, "KernelAndDevice")
    calls = _named(events, plane, _EAGER) if len(kernels) else kernels
    if not len(calls):
        return kernels[:0]
    ops = [one.removeprefix(_EAGER) for one in events.names]
    is_op = np.array([
        op != name and not op.startswith("__") and computes(op) for op, name in zip(ops, events.names, strict=True)
    ])  # fmt: skip
    call = calls[np.maximum(np.searchsorted(calls, kernels) - 1, 0)]
    firsts = np.array([line.first for line in plane.lines])
    same = np.searchsorted(firsts, call, side="right") == np.searchsorted(firsts, kernels, side="right")
    ends = ends_of(events.start_ps[call], np.maximum(events.duration_ps[call], 0))
    rows: Int32s = kernels[(call < kernels) & same & (events.start_ps[kernels] < ends) & is_op[events.meta[call]]]
    return rows


def _moves_of_rows(
    events: HostEvents, rows: Int32s, computes: Callable[[str], bool], *, compiled: bool
) -> tuple[Int32s, list[Transfer]]:
    """The place in the list of what each event transfers or waits for, -1: it computes. Looks at each name once."""
    if compiled:
        at, numbers = events.texts("hlo_op")
        codes = numbers[np.searchsorted(at, rows)]
    else:
        codes = (events.meta[rows] % len(events.names)).astype(np.int64)
    met, place = distinct(codes)
    names = events.all_texts(met) if compiled else [events.names[one] for one in met.tolist()]
    transfers: list[Transfer] = []
    numbers_of = np.full(len(names), -1, np.int32)
    for at_name, name in enumerate(names):
        moves = _of_op(name, computes, compiled=compiled)
        if moves is not None:
            numbers_of[at_name] = len(transfers)
            transfers.append(moves)
    return numbers_of[place], transfers


def _of_op(name: str, computes: Callable[[str], bool], *, compiled: bool) -> Transfer | None:
    """Return the transfer that an op of a thread is or waits for; None if it computes."""
    if not compiled:
        collective = ":Collective" in name or name.startswith(COLLECTIVES)
        return Transfer(name, COMMUNICATION) if collective else None
    part = kind_of("", "", name.split("::")[-1])
    if part is not None:
        return transfer(name, part.kind)
    return None if computes(name) else Transfer(name, WAIT, HOST)


def times_of_rows(events: HostEvents, rows: Int32s) -> DeviceEvents:
    """Return the events in these rows with their recorded times; negative durations count as 0."""
    start = events.start_ps[rows]
    return DeviceEvents(rows, start, ends_of(start, np.maximum(events.duration_ps[rows], 0)))
