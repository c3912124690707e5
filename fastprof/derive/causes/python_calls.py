"""Python calls on the threads that the Python tracer recorded: what they ran, what ran for them on other threads and
devices, and their tables.

    thread          |-- $train.py:9 main ---------------------------------------|
                       |-- $train.py:3 step ---------|  |-- $data.py:5 load --|
                           |-- PjitFunction(f) --|
    device                          |-- fusion.1 --|

Times of a thread are self times, as the table ``nesting`` has them: they add up to the time that its events cover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.decode.nesting import nest_events, number_lines
from fastprof.derive.causes.gaps import find_run_window
from fastprof.derive.devices.op_names import STEP
from fastprof.derive.ops.device_time import DeviceSpans
from fastprof.derive.ops.op_trees import REST as LEFT_OUT
from fastprof.derive.ops.op_trees import (
    TIMES,
    CallTree,
    GrowingTree,
    PreorderTree,
    add_leaves,
    build_call_tree,
    find_nearest_wanted,
    lay_out,
)
from fastprof.derive.steps import event_origin
from fastprof.derive.steps.event_graph import find_schedulers
from fastprof.derive.steps.event_origin import (
    EventOrigins,
    Origin,
    find_event_origins,
    is_idle,
    mark_frames,
    parse_frame,
    strip_address,
    waits_for_device,
)
from fastprof.derive.steps.host_causes import DRIVER
from fastprof.derive.steps.step_source import AUTO
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    UInt8s,
    add_durations,
    number_values,
    sort_rows,
    sum_by,
    sum_exactly,
)
from fastprof.schema.tables import Column, Count, Picoseconds, Share, String, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import MODULE_LINES, HostEvents, Line
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.derive.host import Host


STATS: Final = tuple(dict.fromkeys((*event_origin.STATS, "hlo_op")))
"""What is read of events beyond what grouping reads."""
_NUMBER: Final = compile_late(r"\W*\d+\W*")
"""The number at the end of a step marker's name, read from its end: else each place where a number might begin would be
tried."""
THREAD_PS, DEVICE_PS = range(2)
"""Columns of amounts of the tree: time on the thread, and of what ran elsewhere for it."""
KINDS: Final = ("root", "thread", "function", "annotation", "op", "input", "framework", "kernel", "rest")
ROOT, THREAD, FUNCTION, ANNOTATION, OP, INPUT, FRAMEWORK, KERNEL, REST = range(len(KINDS))
"""Kinds of nodes."""
_KIND_OF_ORIGIN: Final = np.array([FRAMEWORK, FUNCTION, OP, INPUT, FRAMEWORK, ANNOTATION], np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCalls:
    """Sums over calls, by thread and function. ``total_ps``: time during which any call lasted, so that a call within a
    call counts once; ``self_ps``: time in which it was innermost; of that, ``native_ps`` in frameworks and ops,
    ``waited_ps`` waiting for a device, ``run_ps`` in the run if the thread runs its steps, ``idle_ps`` doing nothing if
    it does not. ``run_total_ps``: the part of ``total_ps`` in the run. ``device_ps``: time elsewhere for it."""

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
class CallerSums:
    """Calls between functions: ``caller`` is -1 where no function calls. ``total_ps``: the sum of the durations of
    the calls."""

    caller: Int64s
    callee: Int64s
    calls: Int64s
    total_ps: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class PythonCalls:
    """Python calls of a host. ``names``, ``kinds``: by label. ``threads``: names of the threads that the tracer saw;
    ``runs_steps``: which of them run steps; ``outside_ps``: by thread, time of events in no function. ``window_ps``:
    length of the run. ``tree``: its roots are the threads, in order; idle time of other threads is left out."""

    host: str
    names: list[str]
    kinds: UInt8s
    threads: list[str]
    runs_steps: list[bool]
    outside_ps: list[int]
    window_ps: int
    functions: FunctionCalls
    between: CallerSums
    tree: CallTree


@dataclass(frozen=True, slots=True, eq=False)
class _TracedEvents:
    """The events of the threads that the tracer saw, n of them: their rows, threads, labels, and how they nest."""

    rows: Int32s
    thread: Int64s
    label: Int64s
    parent: Int64s
    depth: Int32s
    duration_ps: Int64s
    self_ps: Int64s
    is_frame: Bools


def find_python_calls(host: Host, most_nodes: int, devices: Callable[[], Sequence[DeviceSpans]]) -> PythonCalls | None:
    """Return the calls of a host, or None if the tracer saw none. ``devices``: what they ran. The tree has at most
    about twice ``most_nodes`` nodes. CaptureError: times do not add up in 64 bits."""
    events = host.raw
    origins = find_event_origins(events)
    lines = [line for line in origins.lines if (origins.origin[line.first : line.last] == Origin.PYTHON).any()]
    if not lines:
        return None
    names, kinds, label_of = _label_calls(events, origins, name_step_kinds(host))
    seen = _collect_seen(host, lines, label_of, kinds)
    frame = find_nearest_wanted(np.arange(len(seen.rows)), seen.parent, seen.is_frame)
    ran, above, ran_ps = _find_work_elsewhere(host, origins, seen)
    run = _find_run(host, lines, seen, devices())
    # self time of threads that run no steps, in functions that do nothing
    is_resting = np.array([is_idle(name) for name in names], np.bool_)[seen.label[frame]]
    is_resting &= (frame >= 0) & ~run.runs_steps[seen.thread]
    idle_ps = np.where(is_resting, seen.self_ps, 0)
    del is_resting
    tree = _build_tree(seen, idle_ps, len(lines), ran, above, ran_ps, label_of, len(names))
    functions = _sum_functions(host, seen, frame, above, ran_ps, names, run, idle_ps)
    outside = sum_by(np.where(frame < 0, seen.thread, -1), seen.self_ps, len(lines), TIMES)
    return PythonCalls(
        events.host,
        names,
        kinds,
        [line.name for line in lines],
        run.runs_steps.tolist(),
        outside.tolist(),
        run.end_ps - run.begin_ps,
        functions,
        _sum_calls_between(seen, frame),
        tree.bounded(most_nodes),
    )


@dataclass(frozen=True, slots=True)
class LongestFunction:
    """The function that takes most time of a host's threads. ``name``: of its frame; ``time_ps``: without its callees
    that have source lines; ``window_ps``: from the first to the last event of its thread."""

    name: str
    time_ps: int
    window_ps: int


def find_longest_function(events: HostEvents) -> LongestFunction | None:
    """Return the function with a source line that works for longest on one thread, or None if no frame is recorded."""
    origins = find_event_origins(events)
    lined, _ = mark_frames(events)
    idle = np.array([is_idle(name) for name in events.names], np.bool_)
    own_ps = events.duration_ps - sum_by(origins.parent, events.duration_ps, len(events))
    longest: list[LongestFunction] = []
    for line in origins.python_lines:
        rows = np.arange(line.first, line.last)
        meta, parent = events.meta[rows], origins.parent[rows].astype(np.int64)
        above = np.where(parent < 0, -1, parent - line.first)
        frame = find_nearest_wanted(np.arange(len(rows)), above, (lined | idle)[meta])
        works = (frame >= 0) & ~idle[meta[frame]]
        times = sum_by(np.where(works, meta[frame], -1), own_ps[rows], len(events.names))
        if times.any():
            end = int(add_durations(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)).max())
            most = int(times.argmax())
            window_ps = end - int(events.start_ps[line.first])
            longest.append(LongestFunction(events.names[most], int(times[most]), window_ps))
    return max(longest, key=lambda function: function.time_ps, default=None)


def name_step_kinds(host: Host) -> dict[str, str]:
    """Return the name of each step marker without its number, if several differ in nothing else."""
    marked = host.source_of_steps(AUTO).marked
    names = {host.events.names[meta] for meta in np.unique(host.events.meta[marked]).tolist()}
    names.update(name for name in host.events.names if name.startswith(STEP))
    kinds = {}
    for name in names:
        number = _NUMBER.match(name[::-1])
        kinds[name] = name if number is None else name[: len(name) - number.end()]
    count = Counter(kinds.values())
    return {name: kind for name, kind in kinds.items() if kind and count[kind] > 1}


def _label_calls(events: HostEvents, origins: EventOrigins, folded: dict[str, str]) -> tuple[list[str], UInt8s, Int64s]:
    """Return names and kinds of what is called, and the label of each event; devices are KERNEL. ``folded``: names that
    count as another."""
    numbers: dict[str, int] = {}
    shown = (folded.get(name) or strip_address(name) for name in events.names)
    of_meta = np.array([numbers.setdefault(name, len(numbers)) for name in shown], np.int64)
    kind = np.where(origins.origin == Origin.NONE, KERNEL, _KIND_OF_ORIGIN[origins.origin]).astype(np.int64)
    keys, label = number_values(of_meta[events.meta] * len(KINDS) + kind)
    names = list(numbers)
    return (
        [names[key] for key in (keys // len(KINDS)).tolist()],
        (keys % len(KINDS)).astype(np.uint8),
        label.reshape(-1).astype(np.int64),
    )


def _collect_seen(host: Host, lines: list[Line], label_of: Int64s, kinds: UInt8s) -> _TracedEvents:
    events = host.raw
    rows = np.concatenate([np.arange(line.first, line.last, dtype=np.int32) for line in lines])
    thread = np.repeat(np.arange(len(lines)), [line.last - line.first for line in lines])
    at, values = events.ints("_a")
    beside = np.isin(rows, at[values != 0])
    rows, thread = rows[~beside], thread[~beside]
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    counts = np.bincount(thread, minlength=len(lines)).astype(np.int64)
    of_lines = number_lines(counts, np.cumsum(counts) - counts)
    depth, parent, self_ps = nest_events(start, duration, None, of_lines, host.workers, events.slack_ps)
    label = label_of[rows]
    return _TracedEvents(rows, thread, label, parent, depth, duration, self_ps, kinds[label] == FUNCTION)


@dataclass(frozen=True, slots=True, eq=False)
class _TracedRun:
    """The run of a host. ``runs_steps``: by thread; ``self_ps``: by event of ``seen``, in the run."""

    begin_ps: int
    end_ps: int
    runs_steps: Bools
    self_ps: Int64s


def _find_run(host: Host, lines: list[Line], seen: _TracedEvents, ran: Sequence[DeviceSpans]) -> _TracedRun:
    """Find the run of a host. Time beyond it is cut off, so that shares of it are right."""
    causes = host.causes_from(AUTO)
    begin, end = find_run_window(host, AUTO, ran)
    drivers = {line.number for line, role in zip(causes.lines, causes.role, strict=True) if role == DRIVER}
    start = host.raw.start_ps[seen.rows]
    counts = np.bincount(seen.thread, minlength=len(lines)).astype(np.int64)
    of_lines = number_lines(counts, np.cumsum(counts) - counts)
    first, duration = _clip_spans(start, seen.duration_ps, begin, end)
    _, _, self_ps = nest_events(first, duration, None, of_lines, host.workers, host.raw.slack_ps)
    return _TracedRun(begin, end, np.array([line.number in drivers for line in lines], np.bool_), self_ps)


def _clip_spans(start_ps: Int64s, duration_ps: Int64s, begin_ps: int, end_ps: int) -> tuple[Int64s, Int64s]:
    """Return starts and durations of what lies in an interval."""
    first = np.clip(start_ps, begin_ps, end_ps)
    return first, np.clip(add_durations(start_ps, duration_ps), begin_ps, end_ps) - first


def _find_work_elsewhere(host: Host, origins: EventOrigins, seen: _TracedEvents) -> tuple[Int32s, Int64s, Int64s]:
    """Return what ran on devices, and ops on threads that the tracer did not see: rows, the place in ``seen`` of the
    event that led to each, or -1 if there is none, and durations."""
    events = host.raw
    rows = [np.zeros(0, np.int32)]
    for line in events.lines:
        wanted = line.plane.kind == "GPU" or (line.plane.kind == "TPU" and line.name in MODULE_LINES)
        if wanted and not line.is_derived:
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
    above = find_schedulers(events, ran, above, place >= 0)
    led = np.where(above >= 0, place[above], -1)
    return ran, led, np.maximum(events.duration_ps[ran], 0)


def _build_tree(
    seen: _TracedEvents,
    idle_ps: Int64s,
    threads: int,
    ran: Int32s,
    above: Int64s,
    ran_ps: Int64s,
    label_of: Int64s,
    labels: int,
) -> CallTree:
    """Build the tree of calls. Thread labels follow those of names."""
    n = len(seen.rows)
    parent = np.concatenate([np.full(threads, -1), np.where(seen.parent < 0, seen.thread, seen.parent + threads)])
    depth = np.concatenate([np.zeros(threads, np.int32), seen.depth + 1]).astype(np.int32)
    label = np.concatenate([labels + np.arange(threads), seen.label])
    own = np.zeros((threads + n, 2), np.int64)
    own[threads:, THREAD_PS] = seen.self_ps - idle_ps
    tree, node = build_call_tree(parent.astype(np.int64), depth, label, own)
    amounts = np.zeros((len(ran), 2), np.int64)
    amounts[:, DEVICE_PS] = ran_ps
    return add_leaves(tree, np.where(above < 0, -1, node[above + threads]), label_of[ran], amounts)


def _sum_functions(
    host: Host,
    seen: _TracedEvents,
    frame: Int64s,
    above: Int64s,
    ran_ps: Int64s,
    names: list[str],
    run: _TracedRun,
    idle_ps: Int64s,
) -> FunctionCalls:
    waiting = np.array([waits_for_device(name) for name in names], np.bool_)
    waits = find_nearest_wanted(np.arange(len(frame)), seen.parent, seen.is_frame | waiting[seen.label])
    in_one = frame >= 0
    waited = in_one & waiting[seen.label[waits]]
    frames = np.flatnonzero(seen.is_frame)
    base = len(names)
    keys, place = number_values(seen.thread[frames] * base + seen.label[frames])
    of_frame = np.full(len(frame) + 1, -1, np.int64)
    of_frame[frames] = place.reshape(-1)
    of = of_frame[frame]

    def summed(chosen: Bools, times: Int64s = seen.self_ps) -> Int64s:
        return sum_by(np.where(chosen, of, -1), times, len(keys), TIMES)

    device = sum_by(np.where(above < 0, -1, of[above]), ran_ps, len(keys), TIMES)
    return FunctionCalls(
        keys // base,
        keys % base,
        np.bincount(place.reshape(-1), minlength=len(keys)).astype(np.int64),
        summed(in_one),
        summed(in_one & run.runs_steps[seen.thread], run.self_ps),
        summed(in_one, idle_ps),
        _measure_covered(host, seen, frames, place.reshape(-1), len(keys)),
        np.where(
            run.runs_steps[keys // base], _measure_covered(host, seen, frames, place.reshape(-1), len(keys), run), 0
        ),
        summed(in_one & ~seen.is_frame),
        summed(waited),
        device,
    )


def _measure_covered(
    host: Host, seen: _TracedEvents, frames: Int64s, place: Int64s, count: int, within: _TracedRun | None = None
) -> Int64s:
    """Return the time during which any call of each function of a thread lasts: calls are nested like events of a line.
    ``within``: the run that counts."""
    order = np.argsort(place, kind="stable")
    rows = seen.rows[frames[order]]
    start, duration = host.raw.start_ps[rows], np.maximum(host.raw.duration_ps[rows], 0)
    if within is not None:
        start, duration = _clip_spans(start, duration, within.begin_ps, within.end_ps)
    counts = np.bincount(place, minlength=count).astype(np.int64)
    of_lines = number_lines(counts, np.cumsum(counts) - counts)
    _, _, own = nest_events(start, duration, None, of_lines, host.workers)
    return sum_by(place[order], own, count, TIMES)


def _sum_calls_between(seen: _TracedEvents, frame: Int64s) -> CallerSums:
    frames = np.flatnonzero(seen.is_frame)
    up = seen.parent[frames]
    caller = np.where(up < 0, -1, np.append(frame, -1)[up])
    labels = np.append(seen.label, -1)
    base = int(seen.label.max()) + 2
    keys, place = number_values((labels[caller] + 1) * base + seen.label[frames])
    sums = sum_by(place.reshape(-1), seen.duration_ps[frames], len(keys), TIMES)
    calls = np.bincount(place.reshape(-1), minlength=len(keys)).astype(np.int64)
    return CallerSums(keys // base - 1, keys % base, calls, sums)


ALL: Final = "all threads"
_NO_CALLER: Final = "null: no function calls it"


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRows:
    """A row a function: those that take most of the run first; ``label``: its frame as recorded. ``window_ps``: of the
    runs of all hosts."""

    label: list[str]
    threads: Int64s
    calls: Int64s
    self_ps: Int64s
    run_ps: Int64s
    idle_ps: Int64s
    total_ps: Int64s
    run_total_ps: Int64s
    native_ps: Int64s
    waited_ps: Int64s
    device_ps: Int64s
    window_ps: int


def _make_frame_columns() -> tuple[Column, ...]:
    return (
        Text("function", "function name", lambda rows: [parse_frame(name).function for name in rows.label]),
        Text("file", "file that defines it, or module of a compiled function; null: PyTorch's profiler records no "
             "module of compiled functions", lambda rows: [parse_frame(name).file or None for name in rows.label]),
        Count("line", "line of its definition; null: it is compiled",
              lambda rows: [parse_frame(name).line for name in rows.label]),
    )  # fmt: skip


_AMOUNTS: Final = (
    Count("calls", "calls that the tracer recorded"),
    Picoseconds("self_ps", "time in which it is the innermost function"),
    Picoseconds("run_ps", "part of self_ps on threads that run the steps, in the run"),
    Picoseconds("idle_ps", "part of self_ps in which threads that run no steps only wait: for a lock, a queue, a "
                "connection or a timeout"),
    Picoseconds("total_ps", "time in which it is on the stack of a thread; recursive calls count once"),
    Picoseconds("native_ps", "part of self_ps in events of frameworks, ops and annotations"),
    Picoseconds("waited_ps", "part of self_ps in which it waits for a device, as far as recorded"),
    Picoseconds("device_ps", "sum of the durations of kernels, TPU programs and ops on other threads whose nearest "
                "calling function it is"),
)  # fmt: skip


def _divide_by_window(amount: str) -> Any:
    return lambda rows: getattr(rows, amount) / max(rows.window_ps, 1)


_FUNCTIONS = TableSchema(
    "functions",
    "a function, over all threads and hosts, largest share of the run first, waits of other threads last",
    (
        *_make_frame_columns(),
        Count("threads", "threads that call it"),
        *_AMOUNTS[:3],
        Share("self_share", "run_ps / window_ps of the figures: its share of the run", _divide_by_window("run_ps")),
        *_AMOUNTS[3:5],
        Share(
            "total_share",
            "part of the run in which it is on the stack of a thread that runs the steps, summed over such threads",
            _divide_by_window("run_total_ps"),
        ),
        *_AMOUNTS[5:],
    ),
    derived=True,
)
_THREAD_FUNCTIONS = TableSchema(
    "thread_functions",
    "a function on a thread",
    (
        Text("host", "host of the thread", lambda rows: [rows.host] * len(rows.label)),
        Text("thread", "thread name"),
        *_make_frame_columns(),
        *_AMOUNTS,
    ),
    derived=True,
)
_STACKS = TableSchema(
    "stacks",
    "a stack of calls: a node of a tree in preorder, children with most time first; equal stacks are one",
    (
        Count("node", "row number", lambda rows: np.arange(len(rows.tree))),
        Count("parent", "parent node: the stack without its last call; null: the root",
              lambda rows: [None, *rows.tree.parent[1:].tolist()]),
        Count("depth", "number of enclosing calls, counting the thread", lambda rows: rows.tree.depth),
        Text("kind", f"kind of the node: one of {', '.join(KINDS)}", lambda rows: [KINDS[kind] for kind in rows.kind]),
        Text("name", "function, or event name", lambda rows: rows.names),
        String("source", "file and line of a function; null: it has none", lambda rows: rows.sources),
        Count("calls", "number of calls; for rest, calls directly in its parent; for a thread, 1"),
        Picoseconds("self_ps", "time on the thread without nodes below and without idle_ps; all rows add up to "
                    "total_ps of the root"),
        Picoseconds("total_ps", "time on the thread, including all nodes below"),
        Share("share", "total_ps / total_ps of the root", lambda rows: rows.total_ps / max(int(rows.total_ps[0]), 1)),
        Picoseconds("device_ps", "time of kernels, TPU programs and ops on other threads that it launched, including "
                    "all nodes below"),
    ),
    derived=True,
)  # fmt: skip
_THREADS = TableSchema(
    "threads",
    "a thread on which the tracer recorded a call",
    (
        Text("host", "host of the thread"),
        Text("thread", "thread name"),
        Text("role", "steps: it marks steps or launches work; other: it does neither"),
        Count("calls", "calls that the tracer recorded"),
        Picoseconds("python_ps", "time within Python calls"),
        Picoseconds("idle_ps", "part of python_ps in which it only waits, if it runs no steps"),
        Picoseconds("outside_ps", "time of its events outside Python calls"),
    ),
    derived=True,
)
_CALLS = TableSchema(
    "calls",
    "a function that calls another, over all threads and hosts, longest first",
    (
        Text("caller", f"function that calls; {_NO_CALLER}", lambda rows: [_format_name(name) for name in rows.caller]),
        String("caller_source", f"its file and line; {_NO_CALLER}, or it is unknown",
               lambda rows: [name and format_source(name) for name in rows.caller]),
        Text("callee", "function that is called", lambda rows: [_format_name(name) for name in rows.callee]),
        String("callee_source", "its file and line; null: it is unknown",
               lambda rows: [format_source(name) for name in rows.callee]),
        Count("calls", "calls from the caller to the callee, directly or through events that are not functions"),
        Picoseconds("total_ps", "sum of the durations of these calls"),
    ),
    derived=True,
)  # fmt: skip
TABLES: Final = {table.name: table for table in (_FUNCTIONS, _STACKS, _THREADS, _THREAD_FUNCTIONS, _CALLS)}


def _format_name(name: str | None) -> str | None:
    return None if name is None else parse_frame(name).function


def format_source(name: str) -> str | None:
    """Return ``file:line`` of a frame, or the module of a compiled function, or None if it has neither."""
    frame = parse_frame(name)
    return f"{frame.file}:{frame.line}" if frame.line is not None else frame.file or None


def describe_function(name: str, hosts: Sequence[PythonCalls]) -> str:
    """Describe a function with its file and line, or if these are not recorded those of the function that calls it
    longest."""
    frame, rows = parse_frame(name), make_call_rows(hosts)
    if frame.line is not None:
        return f"{frame.function} ({format_source(name)})"
    callers = (caller for caller, callee in zip(rows.caller, rows.callee, strict=True) if callee == name)
    caller = next(callers, None)
    if caller is None or parse_frame(caller).line is None:
        return frame.function
    return f"{frame.function} in {parse_frame(caller).function} ({format_source(caller)})"


def make_function_rows(hosts: Sequence[PythonCalls]) -> FunctionRows:
    """Make the rows of functions over all threads and hosts. CaptureError: times exceed 64 bits."""
    numbers: dict[str, int] = {}
    names = (host.names[label] for host in hosts for label in host.functions.label.tolist())
    row = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)

    def summed(name: str) -> Int64s:
        parts = [np.zeros(0, np.int64), *(getattr(host.functions, name) for host in hosts)]
        return sum_by(row, np.concatenate(parts), len(numbers))

    amounts = {name: summed(name) for name in (*(column.name for column in _AMOUNTS), "run_total_ps")}
    labels = list(numbers)
    works = amounts["self_ps"] - amounts["idle_ps"]
    keys = (np.array(labels, object), -amounts["total_ps"], -amounts["self_ps"], -works, -amounts["run_ps"])
    order = np.lexsort(keys) if labels else np.zeros(0, np.int64)
    threads = np.bincount(row, minlength=len(numbers)).astype(np.int64)
    return FunctionRows(
        [labels[place] for place in order.tolist()],
        threads[order],
        **{name: values[order] for name, values in amounts.items()},
        window_ps=sum(host.window_ps for host in hosts),
    )


def make_thread_function_rows(hosts: Sequence[PythonCalls]) -> Iterator[SimpleNamespace]:
    """Yield the rows of each host, thread after thread, most self time first."""
    for host in hosts:
        functions = host.functions
        order = sort_rows(functions.thread, -functions.self_ps, functions.label)
        yield SimpleNamespace(
            host=host.host,
            thread=[host.threads[thread] for thread in functions.thread[order].tolist()],
            label=[host.names[label] for label in functions.label[order].tolist()],
            **{column.name: getattr(functions, column.name)[order] for column in _AMOUNTS},
        )


def make_thread_rows(hosts: Sequence[PythonCalls]) -> SimpleNamespace:
    """Make a row for each thread, in the order of the capture."""
    rows = SimpleNamespace(host=[], thread=[], role=[], calls=[], python_ps=[], idle_ps=[], outside_ps=[])
    for host in hosts:
        count = len(host.threads)
        rows.host += [host.host] * count
        rows.thread += host.threads
        rows.role += ["steps" if runs_step else "other" for runs_step in host.runs_steps]
        of = host.functions
        for name, values in (("calls", of.calls), ("python_ps", of.self_ps), ("idle_ps", of.idle_ps)):
            getattr(rows, name).extend(sum_by(of.thread, values, count, TIMES).tolist())
        rows.outside_ps += host.outside_ps
    return rows


def make_call_rows(hosts: Sequence[PythonCalls]) -> SimpleNamespace:
    """Make rows of calls between functions of all hosts, longest first."""
    sums: dict[tuple[str | None, str], list[int]] = {}
    for host in hosts:
        of = host.between
        rows = zip(of.caller.tolist(), of.callee.tolist(), of.calls.tolist(), of.total_ps.tolist(), strict=True)
        for caller, callee, calls, total in rows:
            amounts = sums.setdefault((None if caller < 0 else host.names[caller], host.names[callee]), [0, 0])
            amounts[0] += calls
            amounts[1] += total
    order = sorted(sums.items(), key=lambda entry: (-entry[1][1], -entry[1][0], entry[0][0] or "", entry[0][1]))
    return SimpleNamespace(
        caller=[pair[0] for pair, _ in order],
        callee=[pair[1] for pair, _ in order],
        calls=[amounts[0] for _, amounts in order],
        total_ps=[amounts[1] for _, amounts in order],
    )


@dataclass(frozen=True, slots=True, eq=False)
class StackRows:
    """The stacks of all hosts below one root, in preorder."""

    tree: PreorderTree
    kind: list[int]
    names: list[str]
    sources: list[str | None]
    calls: Int64s
    self_ps: Int64s
    total_ps: Int64s
    device_ps: Int64s


def make_stack_rows(hosts: Sequence[PythonCalls]) -> StackRows:
    """Make rows of stacks. Nodes are few: the tree of each host is bounded."""
    growth = GrowingTree(ALL)
    sources: list[str | None] = [None]
    parts = [(np.zeros(1, np.int64), np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64))]
    for host in hosts:
        tree, shift = host.tree, len(growth)
        for node, label in zip(tree.parent.tolist(), tree.label.tolist(), strict=True):
            kind, name = REST, "(smaller)"
            source: str | None = None
            if label != LEFT_OUT and label >= len(host.names):
                thread = host.threads[label - len(host.names)]
                kind, name = THREAD, f"{host.host} {thread}" if len(hosts) > 1 else thread
            elif label != LEFT_OUT:
                kind, name = int(host.kinds[label]), host.names[label]
                if kind == FUNCTION:
                    name, source = parse_frame(name).function, format_source(name)
            growth.added(node + shift if node >= 0 else 0, kind, name)
            sources.append(source)
        parts.append((tree.calls, tree.own, tree.total))
    calls, own, total = (np.concatenate(part) for part in zip(*parts, strict=True))
    roots = np.flatnonzero(np.array(growth.parent) == 0)
    total[0] = [sum_exactly(column, TIMES) for column in total[roots].T]
    calls[0] = calls[roots].sum()
    laid = lay_out(growth, total[:, THREAD_PS], total[:, DEVICE_PS].astype(np.float64))
    order = laid.grown
    return StackRows(
        laid,
        laid.kind.tolist(),
        laid.name,
        [sources[row] for row in order.tolist()],
        calls[order],
        own[order, THREAD_PS],
        total[order, THREAD_PS],
        total[order, DEVICE_PS],
    )
