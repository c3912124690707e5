"""What the threads of a host that the Python tracer saw did: the calls of Python, what these ran, and what ran for them
on other threads and devices.

    thread          |-- $train.py:9 main ---------------------------------------|
                       |-- $train.py:3 step ---------|  |-- $data.py:5 load --|
                           |-- PjitFunction(f) --|
    device                          |-- fusion.1 --|

Times of a thread are self times, as the table ``nesting`` has them: they add up to the time that its events cover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.decode.nesting import line_rows, nest
from fastprof.derive.causes.run_window import run_window
from fastprof.derive.causes.scheduled_tasks import scheduled_by
from fastprof.derive.devices.kineto_categories import STEP
from fastprof.derive.ops.call_tree import TIMES, CallTree, call_tree, nearest, with_leaves
from fastprof.derive.ops.device_time import Spans
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps import event_origin
from fastprof.derive.steps.device_steps import MODULE_LINES, is_derived
from fastprof.derive.steps.event_origin import EventOrigins, Origin, event_origins
from fastprof.derive.steps.host_causes import DRIVER
from fastprof.derive.steps.python_frames import is_idle, waits_for_device, without_address
from fastprof.derive.steps.step_source import AUTO
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.derive.host import Host

STATS: Final = tuple(dict.fromkeys((*event_origin.STATS, "hlo_op")))
"""What is read of events beyond what grouping reads."""
_NUMBER: Final = pattern_of(r"\W*\d+\W*")
"""At the end of the name of a step's marker, which is read from its end: else each place where a number might begin
would be tried."""
THREAD_PS, DEVICE_PS = range(2)
"""Columns of amounts of the tree: time on the thread, and of what ran elsewhere for it."""
KINDS: Final = ("root", "thread", "function", "annotation", "op", "input", "framework", "kernel", "rest")
ROOT, THREAD, FUNCTION, ANNOTATION, OP, INPUT, FRAMEWORK, KERNEL, REST = range(len(KINDS))
"""Kinds of nodes."""
_KIND_OF_ORIGIN: Final = np.array([FRAMEWORK, FUNCTION, OP, INPUT, FRAMEWORK, ANNOTATION], np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCalls:
    """By thread and function: sums over its calls. ``total_ps``: the time during which any of them lasted, so that a
    call within a call counts once; ``self_ps``: in which it was the innermost; of that, ``native_ps`` in what
    frameworks and ops recorded, ``waited_ps`` waiting for a device, ``run_ps`` in the run if the thread runs its steps,
    ``idle_ps`` doing nothing if it does not. ``run_total_ps``: of ``total_ps``, as ``run_ps``. ``device_ps``: of what
    ran elsewhere for it."""

    thread: Int64s
    label: Int64s
    calls: Int64s
    self_ps: Int64s
    run_ps: Int64s
    idle_ps: Int64s
    total_ps: Int64s
    run_total_ps: Int64s
    native_ps: Int64s
    waited_ps: Int64s
    device_ps: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls between functions: ``caller`` is -1 where no function calls. ``total_ps``: the sum of the durations of
    the calls."""

    caller: Int64s
    callee: Int64s
    calls: Int64s
    total_ps: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class PythonCalls:
    """Of a host. ``names``, ``kinds``: by label. ``threads``: the names of those that the tracer saw; ``runs_steps``:
    which of them do; ``outside_ps``: by thread, time of events that lie in no function. ``window_ps``: of the run.
    ``tree``: its roots are the threads, in order; what is idle of others has no time in it."""

    host: str
    names: list[str]
    kinds: UInt8s
    threads: list[str]
    runs_steps: list[bool]
    outside_ps: list[int]
    window_ps: int
    functions: FunctionCalls
    between: Calls
    tree: CallTree


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The events of the threads that the tracer saw, n of them: their rows, threads, labels, and how they nest."""

    rows: Int32s
    thread: Int64s
    label: Int64s
    parent: Int64s
    depth: Int32s
    duration_ps: Int64s
    self_ps: Int64s
    is_frame: Bools


def python_calls(host: Host, most_nodes: int, devices: Callable[[], Sequence[Spans]]) -> PythonCalls | None:
    """The calls of a host; None: the tracer saw none. ``devices``: what they ran. The tree has at most about twice
    ``most_nodes`` nodes. CaptureError: times do not add up in 64 bits."""
    events = host.raw
    origins = event_origins(events)
    lines = [line for line in origins.lines if (origins.origin[line.first : line.last] == Origin.PYTHON).any()]
    if not lines:
        return None
    names, kinds, label_of = _labels(events, origins, step_kinds(host))
    seen = _seen(host, lines, label_of, kinds)
    frame = nearest(np.arange(len(seen.rows)), seen.parent, seen.is_frame)
    ran, above, ran_ps = _ran_elsewhere(host, origins, seen)
    run = _run(host, lines, seen, devices())
    idle_ps = _idle(seen, frame, names, run)
    tree = _tree(seen, idle_ps, len(lines), ran, above, ran_ps, label_of, len(names))
    functions = _functions(host, seen, frame, above, ran_ps, names, run, idle_ps)
    outside = sums_by(np.where(frame < 0, seen.thread, -1), seen.self_ps, len(lines), TIMES)
    return PythonCalls(
        events.host,
        names,
        kinds,
        [line.name for line in lines],
        run.runs_steps.tolist(),
        outside.tolist(),
        run.end_ps - run.begin_ps,
        functions,
        _between(seen, frame),
        tree.bounded(most_nodes),
    )


def step_kinds(host: Host) -> dict[str, str]:
    """By the name of a marker of a step, the name without the number, if several differ in nothing else."""
    marked = host.source_of_steps(AUTO).marked
    names = {host.events.names[meta] for meta in np.unique(host.events.meta[marked]).tolist()}
    names.update(name for name in host.events.names if name.startswith(STEP))
    kinds = {name: _without_number(name) for name in names}
    count = Counter(kinds.values())
    return {name: kind for name, kind in kinds.items() if kind and count[kind] > 1}


def _without_number(name: str) -> str:
    number = _NUMBER.match(name[::-1])
    return name if number is None else name[: len(name) - number.end()]


def _labels(events: HostEvents, origins: EventOrigins, folded: dict[str, str]) -> tuple[list[str], UInt8s, Int64s]:
    """Names and kinds of what is called, and the label of each event; devices are KERNEL. ``folded``: names that count
    as another."""
    numbers: dict[str, int] = {}
    shown = (folded.get(name) or without_address(name) for name in events.names)
    of_meta = np.array([numbers.setdefault(name, len(numbers)) for name in shown], np.int64)
    kind = np.where(origins.origin == Origin.NONE, KERNEL, _KIND_OF_ORIGIN[origins.origin]).astype(np.int64)
    keys, label = np.unique(of_meta[events.meta] * len(KINDS) + kind, return_inverse=True)
    names = list(numbers)
    return (
        [names[key] for key in (keys // len(KINDS)).tolist()],
        (keys % len(KINDS)).astype(np.uint8),
        label.reshape(-1).astype(np.int64),
    )


def _seen(host: Host, lines: list[Line], label_of: Int64s, kinds: UInt8s) -> _Seen:
    events = host.raw
    rows = np.concatenate([np.arange(line.first, line.last, dtype=np.int32) for line in lines])
    thread = np.repeat(np.arange(len(lines)), [line.last - line.first for line in lines])
    at, values = events.ints("_a")
    beside = np.isin(rows, at[values != 0])
    rows, thread = rows[~beside], thread[~beside]
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    counts = np.bincount(thread, minlength=len(lines)).astype(np.int64)
    of_lines = line_rows(counts, np.cumsum(counts) - counts)
    depth, parent, self_ps = nest(start, duration, None, of_lines, host.workers, events.slack_ps)
    label = label_of[rows]
    return _Seen(rows, thread, label, parent, depth, duration, self_ps, kinds[label] == FUNCTION)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """When the run of a host is. ``runs_steps``: by thread; ``self_ps``: by event of ``seen``, in the run."""

    begin_ps: int
    end_ps: int
    runs_steps: Bools
    self_ps: Int64s


def _run(host: Host, lines: list[Line], seen: _Seen, ran: Sequence[Spans]) -> _Run:
    """Time beyond the run is cut off, so that shares of it are right."""
    causes = host.causes_from(AUTO)
    begin, end = run_window(host, AUTO, ran)
    drivers = {line.number for line, role in zip(causes.lines, causes.role, strict=True) if role == DRIVER}
    start = host.raw.start_ps[seen.rows]
    counts = np.bincount(seen.thread, minlength=len(lines)).astype(np.int64)
    of_lines = line_rows(counts, np.cumsum(counts) - counts)
    first, duration = _within(start, seen.duration_ps, begin, end)
    _, _, self_ps = nest(first, duration, None, of_lines, host.workers, host.raw.slack_ps)
    return _Run(begin, end, np.array([line.number in drivers for line in lines], np.bool_), self_ps)


def _within(start_ps: Int64s, duration_ps: Int64s, begin_ps: int, end_ps: int) -> tuple[Int64s, Int64s]:
    """Starts and durations of what lies in a stretch of time."""
    first = np.clip(start_ps, begin_ps, end_ps)
    return first, np.clip(ends_of(start_ps, duration_ps), begin_ps, end_ps) - first


def _idle(seen: _Seen, frame: Int64s, names: list[str], run: _Run) -> Int64s:
    """By event, its own time if its thread runs no steps and does nothing in it."""
    idle = np.array([is_idle(name) for name in names], np.bool_)
    resting = (frame >= 0) & ~run.runs_steps[seen.thread] & idle[seen.label[frame]]
    return np.where(resting, seen.self_ps, 0)


def _ran_elsewhere(host: Host, origins: EventOrigins, seen: _Seen) -> tuple[Int32s, Int64s, Int64s]:
    """What ran on devices, and ops on threads that the tracer did not see: its rows, the place in ``seen`` of the event
    that led to each, -1: none, and its time."""
    events = host.raw
    rows = [np.zeros(0, np.int32)]
    for line in events.lines:
        wanted = line.plane.kind == "GPU" or (line.plane.kind == "TPU" and line.name in MODULE_LINES)
        if wanted and not is_derived(line):
            rows.append(np.arange(line.first, line.last, dtype=np.int32))
    at = events.texts("hlo_op")[0]
    place = np.full(len(events), -1, np.int64)
    place[seen.rows] = np.arange(len(seen.rows))
    is_op = (origins.origin[at] == Origin.OP) & (place[at] < 0)
    inside = origins.parent[at[is_op]]
    outermost = ~((inside >= 0) & np.isin(inside, at[is_op]))
    rows.append(at[is_op][outermost])
    ran = np.ascontiguousarray(np.concatenate(rows), np.int32)
    above = np.full(len(ran), -1, np.int32)
    if len(ran):
        marks = (place >= 0).view(np.uint8)
        host.forest.graph.nearest_above(np.ascontiguousarray(marks), 1, ran, above)
    above = scheduled_by(events, ran, above, place >= 0)
    led = np.where(above >= 0, place[above], -1)
    return ran, led, np.maximum(events.duration_ps[ran], 0)


def _tree(
    seen: _Seen,
    idle_ps: Int64s,
    threads: int,
    ran: Int32s,
    above: Int64s,
    ran_ps: Int64s,
    label_of: Int64s,
    labels: int,
) -> CallTree:
    """Labels of threads follow those of names."""
    n = len(seen.rows)
    parent = np.concatenate([np.full(threads, -1), np.where(seen.parent < 0, seen.thread, seen.parent + threads)])
    depth = np.concatenate([np.zeros(threads, np.int32), seen.depth + 1]).astype(np.int32)
    label = np.concatenate([labels + np.arange(threads), seen.label])
    own = np.zeros((threads + n, 2), np.int64)
    own[threads:, THREAD_PS] = seen.self_ps - idle_ps
    tree, node = call_tree(parent.astype(np.int64), depth, label, own)
    amounts = np.zeros((len(ran), 2), np.int64)
    amounts[:, DEVICE_PS] = ran_ps
    return with_leaves(tree, np.where(above < 0, -1, node[above + threads]), label_of[ran], amounts)


def _functions(
    host: Host, seen: _Seen, frame: Int64s, above: Int64s, ran_ps: Int64s, names: list[str], run: _Run, idle_ps: Int64s
) -> FunctionCalls:
    waiting = np.array([waits_for_device(name) for name in names], np.bool_)
    waits = nearest(np.arange(len(frame)), seen.parent, seen.is_frame | waiting[seen.label])
    in_one = frame >= 0
    waited = in_one & waiting[seen.label[waits]]
    frames = np.flatnonzero(seen.is_frame)
    base = len(names)
    keys, place = np.unique(seen.thread[frames] * base + seen.label[frames], return_inverse=True)
    of_frame = np.full(len(frame) + 1, -1, np.int64)
    of_frame[frames] = place.reshape(-1)
    of = of_frame[frame]

    def summed(chosen: Bools, times: Int64s = seen.self_ps) -> Int64s:
        return sums_by(np.where(chosen, of, -1), times, len(keys), TIMES)

    device = sums_by(np.where(above < 0, -1, of[above]), ran_ps, len(keys), TIMES)
    return FunctionCalls(
        keys // base,
        keys % base,
        np.bincount(place.reshape(-1), minlength=len(keys)).astype(np.int64),
        summed(in_one),
        summed(in_one & run.runs_steps[seen.thread], run.self_ps),
        summed(in_one, idle_ps),
        _covered(host, seen, frames, place.reshape(-1), len(keys)),
        np.where(run.runs_steps[keys // base], _covered(host, seen, frames, place.reshape(-1), len(keys), run), 0),
        summed(in_one & ~seen.is_frame),
        summed(waited),
        device,
    )


def _covered(host: Host, seen: _Seen, frames: Int64s, place: Int64s, count: int, within: _Run | None = None) -> Int64s:
    """By function of a thread, the time during which any of its calls lasts: they are nested like events of a line.
    ``within``: the run that counts."""
    order = np.argsort(place, kind="stable")
    rows = seen.rows[frames[order]]
    start, duration = host.raw.start_ps[rows], np.maximum(host.raw.duration_ps[rows], 0)
    if within is not None:
        start, duration = _within(start, duration, within.begin_ps, within.end_ps)
    counts = np.bincount(place, minlength=count).astype(np.int64)
    of_lines = line_rows(counts, np.cumsum(counts) - counts)
    _, _, own = nest(start, duration, None, of_lines, host.workers)
    return sums_by(place[order], own, count, TIMES)


def _between(seen: _Seen, frame: Int64s) -> Calls:
    frames = np.flatnonzero(seen.is_frame)
    up = seen.parent[frames]
    caller = np.where(up < 0, -1, np.append(frame, -1)[up])
    labels = np.append(seen.label, -1)
    base = int(seen.label.max()) + 2
    keys, place = np.unique((labels[caller] + 1) * base + seen.label[frames], return_inverse=True)
    sums = sums_by(place.reshape(-1), seen.duration_ps[frames], len(keys), TIMES)
    calls = np.bincount(place.reshape(-1), minlength=len(keys)).astype(np.int64)
    return Calls(keys // base - 1, keys % base, calls, sums)
