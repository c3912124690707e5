"""Critical path of a window of a host: of all chains of ops, launches and kernels, the one that takes longest.

Nodes are begins and ends of the ops and calls of the host that begin in the window, and of what they launched. An
edge lasts from the one to the other, or 0 where it only says what comes first::

    thread     [op [call     ]] 0 [op  [ synchronise ]]     along the calls, 0 between ops and into the end of a wait
                    \\ launch                       ^ 0
    stream 7         [ kernel ] break [ kernel     ]         a launch counts where the stream was idle
                               \\ 0
    stream 20                    [ kernel ]                  after an event that it waits for

The thread of the backward pass takes over from the thread that waits for it, and hands back::

    main        [forward ops]                            [optimizer]
                             \\ 0                        / 0
    autograd                  [backward ops            ]

Formulas: HolisticTraceAnalysis 0.5.0, critical_path_analysis. It also wants the queue of the stream to be empty
before the launch and after the begin, and else takes the break: so it blames the kernel before, which had ended.
HolisticTraceAnalysis 0.6 takes both threads of a backward pass as one, if it knows them by their names: ops that do
not overlap follow each other then, as here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from types import SimpleNamespace
from typing import Final

import numpy as np

from fastprof._native.cause_kernels import longest_path
from fastprof._native.pipeline_kernels import nearest_marked
from fastprof.derive.devices.op_names import ANNOTATIONS, CALLS, OPS, has_category, is_frame, is_kineto, is_op
from fastprof.derive.ops.launches import find_calls, find_launches
from fastprof.derive.ops.stream_events import COMMUNICATION, COPY, GpuStreams, StreamEvents, read_streams
from fastprof.derive.ops.training_passes import find_forward_ops, mark_backward_names
from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.schema.columns import (
    ArrayRows,
    Bools,
    Int32s,
    Int64s,
    UInt8s,
    add_durations,
    find_equal,
    find_group_bounds,
    find_last_started,
    number_distinct_rows,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, find_lines, join_stat

WAITS: Final = frozenset({"_sync"})
"""The category of what PyTorch's profiler records of waits: for a stream, a device or an event."""
MEDIAN: Final = -1


@dataclass(frozen=True, slots=True)
class PathWindow:
    """``number``: which of ``count`` annotations of equal text it is, in order of time."""

    name: str
    number: int
    count: int
    begin_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class PathNodes:
    """``ops``: rows of the host, with the ``line`` of each. ``ran``: what calls launched, by stream, in order of start.
    ``waits``: rows of recorded waits, and of their calls."""

    streams: GpuStreams
    ops: Int64s
    line: Int64s
    ran: StreamEvents
    waits: Int64s
    wait_call: Int32s


def choose_window(events: HostEvents, text: str, marks: Int64s, number: int) -> PathWindow | None:
    """Return the host annotation whose name contains the text; without a text one of the step ``marks``, and without
    these the whole recording. ``number``: from 0 in order of time, or MEDIAN for the median duration. None if there is
    no such annotation."""
    rows = _select_named_events(events, text) if text else marks
    if not text and not len(rows):
        if not len(events):
            return None
        ends = add_durations(events.start_ps, np.maximum(events.duration_ps, 0))
        return PathWindow("", 0, 1, int(events.start_ps.min()), int(ends.max()))
    if not len(rows) or number >= len(rows):
        return None
    rows = rows[np.argsort(events.start_ps[rows], kind="stable")]
    if number == MEDIAN:
        number = int(np.argsort(events.duration_ps[rows], kind="stable")[(len(rows) - 1) // 2])
    row = rows[number]
    end = int(add_durations(events.start_ps[[row]], np.maximum(events.duration_ps[[row]], 0))[0])
    return PathWindow(events.names[events.meta[row]], number, len(rows), int(events.start_ps[row]), end)


def _select_named_events(events: HostEvents, text: str) -> Int64s:
    """Events of the host whose names contain the text: annotations where the profiler says which these are."""
    of_name = np.array([text in name for name in events.names], bool)
    if is_kineto(events):
        old = has_category(events, frozenset({"operator"}))  # files of 2021 write annotations as ops
        of_name &= has_category(events, ANNOTATIONS) | old & ~is_op(events)
    return np.flatnonzero(of_name[events.meta] & _mark_plane_events(events, "/host:"))


def _mark_plane_events(events: HostEvents, begin: str) -> Bools:
    on_planes = np.zeros(len(events), bool)
    for plane in events.planes:
        if plane.name.startswith(begin):
            on_planes[plane.first : plane.last] = True
    return on_planes


def select_path_nodes(events: HostEvents, window: PathWindow, marks: Int64s) -> PathNodes:
    """Return what counts in the window; of host events only those with a duration."""
    streams = read_streams(events, True)
    every = streams.events
    begun = (events.start_ps >= window.begin_ps) & (events.start_ps <= window.end_ps)
    inside = (every.call >= 0) & begun[np.maximum(every.call, 0)]
    wanted = begun & (events.duration_ps > 0) & _is_path_op(events, every)
    wanted[marks] = False
    ops = np.flatnonzero(wanted)
    lines = events.used_lines
    line = np.array([line.number for line in lines], np.int64)[find_lines(lines, ops)]
    waits = np.flatnonzero(has_category(events, WAITS)[events.meta] & _mark_plane_events(events, "/device:"))
    call = find_launches(events, waits).row
    return PathNodes(streams, ops, line, every[inside], waits, call)


def _is_path_op(events: HostEvents, every: StreamEvents) -> Bools:
    """Ops and calls. Where the profiler does not say which events these are: what threads that launch recorded, calls
    of Python excepted."""
    if is_kineto(events):
        known: Bools = (is_op(events) | has_category(events, CALLS))[events.meta] & _mark_plane_events(events, "/host:")
        return known
    launching = np.zeros(len(events), bool)
    calls = every.call[every.call >= 0]
    for line in events.lines:
        if line.last > line.first and ((calls >= line.first) & (calls < line.last)).any():
            launching[line.first : line.last] = True
    plain = np.array([not is_frame(name) for name in events.names], bool)
    path_ops: Bools = launching & plain[events.meta]
    return path_ops


_FORWARD = "forward"


def find_handovers(events: HostEvents, nodes: PathNodes) -> tuple[Int64s, Int64s]:
    """Return pairs of ops, as places in ``nodes.ops``: the second waits on its thread for the end of the first."""
    is_backward = mark_backward_names(events)[events.meta[nodes.ops]] > 0
    waiting = _find_waiting_line(events, nodes, is_backward) if is_backward.any() else None
    pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    if waiting is not None:
        start = events.start_ps[nodes.ops]
        end = add_durations(start, events.duration_ps[nodes.ops])
        main = _find_outermost(nodes, start, end, waiting)
        for line in np.unique(nodes.line[is_backward]).tolist():
            if line != waiting:
                theirs = _find_outermost(nodes, start, end, line)
                pairs += [_match_followed(start, end, main, theirs), _match_followed(start, end, theirs, main)]
    before, after = zip(*pairs, strict=True)
    return np.concatenate(before), np.concatenate(after)


def _find_waiting_line(events: HostEvents, nodes: PathNodes, is_backward: Bools) -> int | None:
    """Return the thread with most of the forward ops, else the only one that names an op or annotation so, else the
    only one beside those of the backward pass, or None."""
    lines, counts = np.unique(nodes.line[np.isin(nodes.ops, find_forward_ops(events))], return_counts=True)
    if len(lines):
        return int(lines[np.argmax(counts)])
    named = np.array([_FORWARD in name for name in events.names], bool) & has_category(events, OPS | ANNOTATIONS)
    rows = np.flatnonzero(named[events.meta])
    named_lines = [line.number for line in events.lines if ((rows >= line.first) & (rows < line.last)).any()]
    beside = np.setdiff1d(nodes.line, nodes.line[is_backward]).tolist()
    return named_lines[0] if len(named_lines) == 1 else beside[0] if len(beside) == 1 else None


def _find_outermost(nodes: PathNodes, start: Int64s, end: Int64s, line: int) -> Int64s:
    """Return the places of a thread's ops that no other op is around, in order of time."""
    places: Int64s = np.flatnonzero(nodes.line == line)
    reached = np.maximum.accumulate(end[places])
    outer: Int64s = places[np.append(True, start[places[1:]] >= reached[:-1])[: len(places)]]
    return outer


def _match_followed(start: Int64s, end: Int64s, first: Int64s, second: Int64s) -> tuple[Int64s, Int64s]:
    """Return the ops of ``second`` before which an op of ``first`` ended last, and these before them."""
    at = find_last_started(end[first], start[second])
    previous = np.append(np.iinfo(np.int64).min, end[second[:-1]])[: len(second)]
    switches = at >= 0
    switches[switches] = end[first[at[switches]]] >= previous[switches]
    return first[at[switches]], second[switches]


KINDS: Final = ("host", "kernel", "collective", "copy", "launch", "break", "next", "wait")
"""Kinds of edges. ``launch``: from the begin of the call to that of what it launched. ``break``: between two kernels of
a stream. ``next``, ``wait``: without duration."""
HOST, KERNEL, COLLECTIVE, COPIED, LAUNCH, BREAK, NEXT, WAIT = range(len(KINDS))

_BLOCKING: Final = frozenset({
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize", "cudaMemcpy",
    "cudaMemcpyAsync", "hipDeviceSynchronize", "hipStreamSynchronize", "hipEventQuery", "hipEventSynchronize",
    "hipMemcpy", "hipMemcpyAsync", "hipMemcpyWithStream", "cuCtxSynchronize", "cuStreamSynchronize", "cuEventQuery",
    "cuEventSynchronize", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoDAsync_v2",
})  # fmt: skip
"""Calls that may wait for a GPU: their own time is not what the path waits for."""
_RECORDS: Final = ("cudaEventRecord", "cudaEventRecordWithFlags", "hipEventRecord", "cuEventRecord")


@dataclass(frozen=True, slots=True)
class PathEdges(ArrayRows):
    """Edges between nodes: node 2i is the begin of the i-th of all ops and then all kernels, node 2i + 1 its end."""

    begin: Int64s
    end: Int64s
    weight: Int64s
    kind: UInt8s


def build_path_edges(events: HostEvents, nodes: PathNodes) -> PathEdges:
    """Return all edges of a window."""
    waits, until = _connect_waits(events, nodes)
    ran = nodes.ran
    begin, kind = 2 * (len(nodes.ops) + np.arange(len(ran))), np.full(len(ran), KERNEL, np.uint8)
    kind[ran.kind == COMMUNICATION] = COLLECTIVE
    kind[ran.kind == COPY] = COPIED
    kernels = _make_edges(begin, begin + 1, ran.end_ps - ran.start_ps, kind)
    before, after = find_handovers(events, nodes)
    parts = [
        _connect_along_threads(events, nodes),
        _make_edges(2 * before + 1, 2 * after, 0, NEXT),
        kernels,
        *waits,
    ]
    return PathEdges.joined([*parts, *_connect_into_kernels(nodes, until)])


def _make_edges(begin: Int64s, end: Int64s, weight: Int64s | int, kind: UInt8s | int) -> PathEdges:
    """Return edges. A negative weight, from contradicting clocks, counts as 0."""
    weights = np.broadcast_to(np.maximum(weight, 0), begin.shape).astype(np.int64)
    return PathEdges(begin, end, weights, np.broadcast_to(kind, begin.shape).astype(np.uint8))


# ---- along the calls of threads


def _connect_along_threads(events: HostEvents, nodes: PathNodes) -> PathEdges:
    """Connect each begin and end of a thread to the next: inner calls begin later and end earlier."""
    count = len(nodes.ops)
    start = events.start_ps[nodes.ops]
    number = np.arange(count)
    time = np.concatenate([start, add_durations(start, events.duration_ps[nodes.ops])])
    is_begin = np.repeat([1, 0], count)
    line = np.concatenate([nodes.line, nodes.line])
    order = sort_rows(line, time, is_begin, np.concatenate([number, -number]))
    node = np.concatenate([2 * number, 2 * number + 1])[order]
    open_calls = np.cumsum(2 * is_begin[order] - 1)
    same = line[order][1:] == line[order][:-1]
    outside = open_calls[:-1][same] == 0
    begin, end = node[:-1][same], node[1:][same]
    blocking = np.array([name in _BLOCKING for name in events.names], bool)[events.meta[nodes.ops]]
    waited = (end % 2 == 1) & blocking[end // 2]
    lasted = time[order][1:][same] - time[order][:-1][same]
    return _make_edges(
        begin, end, np.where(outside | waited, 0, lasted), np.where(outside, NEXT, HOST).astype(np.uint8)
    )


# ---- along streams


def _connect_into_kernels(nodes: PathNodes, until: Int64s) -> list[PathEdges]:
    """Connect into each begin: from its launch if what it waited for had ended before, else from the end before it.
    ``until``: end of what the kernel waits for on other streams."""
    ran, ops = nodes.ran, len(nodes.ops)
    before = np.arange(len(ran)) - 1
    follows = np.append(False, ran.stream[1:] == ran.stream[:-1]) if len(ran) else np.zeros(0, bool)
    previous = np.where(follows, ran.end_ps[before], np.iinfo(np.int64).min) if len(ran) else until
    launched: Bools = (previous < ran.call_ps) & (until < ran.call_ps)
    there, call = find_equal(nodes.ops, ran.call)
    place = np.flatnonzero(launched & there)
    behind = np.flatnonzero(~launched & follows & (until <= previous))
    return [
        _make_edges(2 * call[place], 2 * (ops + place), ran.start_ps[place] - ran.call_ps[place], LAUNCH),
        _make_edges(2 * (ops + behind) - 1, 2 * (ops + behind), ran.start_ps[behind] - previous[behind], BREAK),
    ]


# ---- waits


def _connect_waits(events: HostEvents, nodes: PathNodes) -> tuple[list[PathEdges], Int64s]:
    """Edges of recorded waits, and by kernel the end of what it waits for on other streams, else the least integer."""
    until = np.full(len(nodes.ran), np.iinfo(np.int64).min)
    names = np.array([_WAIT_KINDS.get(name, 0) for name in events.names], np.uint8)[events.meta[nodes.waits]]
    finder = _WaitFinder(events, nodes)
    return [finder.streams_ended(names), *finder.events_passed(names, until)], until


_FOR_STREAM, _FOR_DEVICE, _FOR_EVENT, _STREAM_FOR_EVENT = 1, 2, 3, 4
_WAIT_KINDS: Final = {
    "Stream Sync": _FOR_STREAM, "Context Sync": _FOR_DEVICE, "Event Sync": _FOR_EVENT,
    "Stream Wait Event": _STREAM_FOR_EVENT,
}  # fmt: skip


class _WaitFinder:
    """Finds what recorded waits wait for."""

    def __init__(self, events: HostEvents, nodes: PathNodes) -> None:
        self._events, self._nodes = events, nodes
        self._ops = len(nodes.ops)
        ran = nodes.ran
        self._bounds = find_group_bounds(ran.stream, len(nodes.streams.lines))
        first = np.array([line.first for line in nodes.streams.lines], np.int64)
        has, stream = join_stat(first, *events.ints("stream"))
        planes = [line.plane.number for line in nodes.streams.lines]
        self._stream_of = {key: i for i, key in enumerate(zip(planes, stream.tolist(), strict=True)) if has[i]}
        self._gpus = [plane for plane in events.planes_of("GPU") if plane.last > plane.first]
        self._first_rows = np.array([plane.first for plane in self._gpus], np.int64)
        self._by_call: dict[int, Int64s] = {}

    def streams_ended(self, kinds: UInt8s) -> PathEdges:
        """Connect to the end of a call that waits for a stream or a device from the last kernel begun before that."""
        nodes, events = self._nodes, self._events
        pairs: list[tuple[int, int]] = []
        for place in np.flatnonzero(
            ((kinds == _FOR_STREAM) | (kinds == _FOR_DEVICE)) & (nodes.wait_call >= 0)
        ).tolist():
            row, call = int(nodes.waits[place]), self._node_of(int(nodes.wait_call[place]))
            if call < 0:
                continue
            end = int(events.start_ps[row]) + max(int(events.duration_ps[row]), 0)
            stream = self._stream(row, "stream")
            streams = range(len(self._bounds) - 1) if kinds[place] == _FOR_DEVICE else [stream]
            for each in streams:
                if each >= 0:
                    first, last = self._bounds[each : each + 2]
                    begun = first + int(np.searchsorted(nodes.ran.start_ps[first:last], end)) - 1
                    pairs += [(int(begun), call)] if begun >= first else []
        return self._done(pairs, 1)

    def events_passed(self, kinds: UInt8s, until: Int64s) -> list[PathEdges]:
        """Connect from the last kernel launched before an event was recorded: to the end of the call that waits for it,
        or to the next kernel launched on the waiting stream, whose ``until`` is written."""
        nodes, events = self._nodes, self._events
        called, passed = [], []
        rows = np.flatnonzero((kinds >= _FOR_EVENT) & (nodes.wait_call >= 0))
        # the call that recorded the event which each waits for, or -1 if it is not recorded
        has, ids = join_stat(nodes.waits[rows], *events.ints("wait_on_cuda_event_record_corr_id"))
        calls = find_calls(events, ids).astype(np.int64)
        is_record = np.array([name in _RECORDS for name in events.names], bool)[events.meta[calls]]
        recorded = np.where(has & (calls >= 0) & is_record, calls, -1)
        for place, record in zip(rows.tolist(), recorded.tolist(), strict=True):
            row, call = int(nodes.waits[place]), int(nodes.wait_call[place])
            waited = self._stream(row, "wait_on_stream")
            last = self._launched(waited, int(events.start_ps[record]), -1) if record >= 0 else -1
            if last < 0:
                continue
            if kinds[place] == _FOR_EVENT:
                node = self._node_of(call)
                called += [(last, node)] if node >= 0 else []
                continue
            next_one = self._launched(self._stream(row, "stream"), int(events.start_ps[call]), 0)
            if next_one >= 0:
                passed.append((last, next_one))
                until[next_one] = max(until[next_one], nodes.ran.end_ps[last])
        begins = np.array(passed, np.int64).reshape(-1, 2)
        onward = _make_edges(2 * (self._ops + begins[:, 0]) + 1, 2 * (self._ops + begins[:, 1]), 0, WAIT)
        return [self._done(called, 1), onward]

    def _done(self, pairs: list[tuple[int, int]], side: int) -> PathEdges:
        """Edges from the ends of kernels to ops."""
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return _make_edges(2 * (self._ops + both[:, 0]) + 1, 2 * both[:, 1] + side, 0, WAIT)

    def _node_of(self, row: int) -> int:
        place = int(np.searchsorted(self._nodes.ops, row))
        return place if place < self._ops and self._nodes.ops[place] == row else -1

    def _stream(self, row: int, stat: str) -> int:
        """Return the stream that a wait names, of the GPU it is recorded with; -1 if nothing ran there."""
        has, number = join_stat(np.array([row]), *self._events.ints(stat))
        plane = self._gpus[int(np.searchsorted(self._first_rows, row, side="right")) - 1]
        return self._stream_of.get((plane.number, int(number[0])), -1) if has[0] else -1

    def _launched(self, stream: int, time: int, step: int) -> int:
        """Return the kernel of a stream that was launched last before a time (``step`` -1), or first from then on
        (0)."""
        if stream < 0:
            return -1
        first, last = self._bounds[stream : stream + 2]
        order = self._by_call.get(stream)
        if order is None:
            order = self._by_call[stream] = first + np.argsort(self._nodes.ran.call_ps[first:last], kind="stable")
        place = int(np.searchsorted(self._nodes.ran.call_ps[order], time)) + step
        return int(order[place]) if 0 <= place < len(order) else -1


_OF_ITS_END: Final = (LAUNCH, BREAK, NEXT, WAIT)
"""Kinds of edges that belong to the op or kernel they lead to."""


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """The edges of the path in order: ``kind`` of KINDS, ``row`` of the op or kernel it belongs to, begin and duration.
    ``length_ps``: of all. ``nodes``, ``cut``: numbers of begins and ends examined, and of edges dropped because they
    close circles. ``waits``, ``launches``: whether the window records waits, and calls that launched most GPU work."""

    window: PathWindow
    kind: UInt8s
    row: Int64s
    start_ps: Int64s
    time_ps: Int64s
    length_ps: int
    nodes: int
    cut: int
    waits: bool
    launches: bool


def find_critical_path(events: HostEvents, window: PathWindow, marks: Int64s) -> CriticalPath:
    """Return the longest path; of equally long ones, any."""
    nodes = select_path_nodes(events, window, marks)
    edges = build_path_edges(events, nodes)
    start = events.start_ps[nodes.ops]
    times = np.empty((len(nodes.ops) + len(nodes.ran), 2), np.int64)  # begin and end of each
    times[:, 0] = np.concatenate([start, nodes.ran.start_ps])
    times[:, 1] = np.concatenate([add_durations(start, events.duration_ps[nodes.ops]), nodes.ran.end_ps])
    time = times.reshape(-1)
    del start
    rank = np.empty(len(time), np.int32)
    rank[np.argsort(time, kind="stable")] = np.arange(len(time), dtype=np.int32)
    reach, via = np.zeros(len(time), np.int64), np.zeros(len(time), np.int32)
    cut = longest_path(rank[edges.begin], rank[edges.end], edges.weight, reach, via)
    steps, at = [], int(np.argmax(reach)) if len(reach) else 0
    while len(reach) and (edge := int(via[at])) >= 0:  # from the end of the path back to where it began
        steps.append(edge)
        at = int(rank[edges.begin[edge]])
    path = edges[np.array(steps[::-1], np.int64)]
    del steps
    row = _find_path_rows(events, nodes, path)
    length = int(reach.max(initial=0))
    waits, called = bool((nodes.wait_call >= 0).any()), nodes.ran.call >= 0
    launches = bool(2 * np.count_nonzero(called) > len(called))
    return CriticalPath(window, path.kind, row, time[path.begin], path.weight, length, len(time), cut, waits, launches)


def _find_path_rows(events: HostEvents, nodes: PathNodes, path: PathEdges) -> Int64s:
    """Return what each edge belongs to: along a thread the innermost op that is open meanwhile."""
    rows = np.concatenate([nodes.ops, nodes.ran.row]).astype(np.int64)
    of_end = np.isin(path.kind, _OF_ITS_END) | (path.begin % 2 == 1)
    owner: Int64s = rows[np.where(of_end, path.end, path.begin) // 2]
    between = np.flatnonzero((path.kind == HOST) & (path.begin % 2 == 1) & (path.end % 2 == 0))
    is_op = np.zeros(len(events), np.uint8)
    is_op[nodes.ops] = 1
    parent, nearest = find_enclosing(events), np.empty(len(events), np.int32)
    nearest_marked(parent, is_op, 1, nearest)
    above = np.append(nearest, -1)[parent[owner[between]]]  # the last where nothing is around
    owner[between] = np.where(above >= 0, above, owner[between])
    return owner


_TIMED = 6
"""Number of kinds with a duration, the first of KINDS."""


@dataclass(slots=True)
class HostPath:
    """Rows of each table, as attributes of their columns. ``missing``: whether the host lacks such a window; ``waits``,
    ``launches``: whether waits, and calls that launched GPU work, are recorded; ``torch``: whether PyTorch made the
    capture."""

    windows: list[SimpleNamespace] = field(default_factory=list)
    kinds: list[SimpleNamespace] = field(default_factory=list)
    names: list[SimpleNamespace] = field(default_factory=list)
    path: list[SimpleNamespace] = field(default_factory=list)
    missing: bool = False
    waits: bool = False
    launches: bool = False
    torch: bool = False


def sum_host_path(events: HostEvents, window: PathWindow, marks: Int64s) -> HostPath:
    path = find_critical_path(events, window, marks)
    sums = sum_by(path.kind, path.time_ps, len(KINDS))
    window_row = SimpleNamespace(
        host=events.host, window=window.name, instance=window.number, of=window.count, start_ps=window.begin_ps,
        window_ps=window.end_ps - window.begin_ps, path_ps=path.length_ps, host_ps=int(sums[HOST]),
        device_ps=sum(int(sums[kind]) for kind in (KERNEL, COLLECTIVE, COPIED)), edges=len(path.kind), cut=path.cut,
    )  # fmt: skip
    return HostPath(
        [window_row], list(_sum_kinds(events, path, sums)), list(_sum_names(events, path)),
        list(_list_path(events, path)),
        waits=path.waits, launches=path.launches, torch=is_kineto(events),
    )  # fmt: skip


def _divide_path_share(path: CriticalPath, time: int) -> float | None:
    return time / path.length_ps if path.length_ps else None


def _sum_kinds(events: HostEvents, path: CriticalPath, sums: Int64s) -> Iterator[SimpleNamespace]:
    counts = np.bincount(path.kind, minlength=len(KINDS))
    for kind in sorted(range(_TIMED), key=lambda place: -int(sums[place])):
        if counts[kind]:
            time = int(sums[kind])
            yield SimpleNamespace(
                host=events.host,
                kind=KINDS[kind],
                time_ps=time,
                share=_divide_path_share(path, time),
                count=int(counts[kind]),
            )


def _sum_names(events: HostEvents, path: CriticalPath) -> Iterator[SimpleNamespace]:
    lasts = np.flatnonzero(path.kind < _TIMED)
    if not len(lasts):
        return
    kind, meta = path.kind[lasts], events.meta[path.row[lasts]]
    first, number = number_distinct_rows([kind, meta])
    sums, counts = sum_by(number, path.time_ps[lasts], len(first)), np.bincount(number)
    for place in np.argsort(-sums, kind="stable").tolist():
        time = int(sums[place])
        yield SimpleNamespace(
            host=events.host, kind=KINDS[kind[first[place]]], name=events.names[meta[first[place]]], time_ps=time,
            share=_divide_path_share(path, time), count=int(counts[place]),
        )  # fmt: skip


def _list_path(events: HostEvents, path: CriticalPath) -> Iterator[SimpleNamespace]:
    lines = events.used_lines
    place = find_lines(lines, path.row)
    for i, (row, at) in enumerate(zip(path.row.tolist(), place.tolist(), strict=True)):
        yield SimpleNamespace(
            host=events.host, kind=KINDS[path.kind[i]], name=events.names[events.meta[row]],
            plane=lines[at].plane.name, line=lines[at].name, start_ps=int(path.start_ps[i]),
            time_ps=int(path.time_ps[i]),
        )  # fmt: skip
