"""What each op, call and kernel of a window had to wait for: edges of the graph of its critical path.

Nodes are begins and ends. An edge lasts from the one to the other, or 0 where it only says what comes first::

    thread     [op [call     ]] 0 [op  [ synchronise ]]     along the calls, 0 between ops and into the end of a wait
                    \\ launch                       ^ 0
    stream 7         [ kernel ] break [ kernel     ]         a launch counts where the stream was idle
                               \\ 0
    stream 20                    [ kernel ]                  after an event that it waits for

Formulas: HolisticTraceAnalysis 0.5.0, critical_path_analysis. It also wants the queue of the stream to be empty before
the launch and after the begin, and else takes the break: so it blames the kernel before, which had ended. Threads of
backward passes: path_handovers.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.ops.launches import calls_of
from fastprof.derive.ops.streams.path_handovers import hand_overs
from fastprof.derive.ops.streams.path_nodes import PathNodes
from fastprof.derive.ops.streams.stream_events import COMMUNICATION, COPY
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Bools, Int64s, UInt8s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, beside

KINDS: Final = ("host", "kernel", "collective", "copy", "launch", "break", "next", "wait")
"""Of edges. ``launch``: from the begin of the call to that of what it launched. ``break``: between two kernels of a
stream. ``next``, ``wait``: they last nothing."""
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
    """Between nodes: node 2i is the begin of the i-th of all ops and then all kernels, node 2i + 1 its end."""

    begin: Int64s
    end: Int64s
    weight: Int64s
    kind: UInt8s


def path_edges(events: HostEvents, nodes: PathNodes) -> PathEdges:
    """All edges of a window."""
    waits, until = _waits(events, nodes)
    before, after = hand_overs(events, nodes)
    parts = [_along_threads(events, nodes), _edges(2 * before + 1, 2 * after, 0, NEXT), _kernels(nodes), *waits]
    return PathEdges.joined([*parts, *_into_kernels(nodes, until)])


def _edges(begin: Int64s, end: Int64s, weight: Int64s | int, kind: UInt8s | int) -> PathEdges:
    """A weight below 0, of clocks that contradict each other, counts 0."""
    weights = np.broadcast_to(np.maximum(weight, 0), begin.shape).astype(np.int64)
    return PathEdges(begin, end, weights, np.broadcast_to(kind, begin.shape).astype(np.uint8))


# ---- along the calls of threads


def _along_threads(events: HostEvents, nodes: PathNodes) -> PathEdges:
    """From each begin and end of a thread to the next: inner calls begin later and end earlier."""
    count = len(nodes.ops)
    start = events.start_ps[nodes.ops]
    number = np.arange(count)
    time = np.concatenate([start, ends_of(start, events.duration_ps[nodes.ops])])
    is_begin = np.repeat([1, 0], count)
    line = np.concatenate([nodes.line, nodes.line])
    order = np.lexsort((np.concatenate([number, -number]), is_begin, time, line))
    node = np.concatenate([2 * number, 2 * number + 1])[order]
    open_calls = np.cumsum(2 * is_begin[order] - 1)
    same = line[order][1:] == line[order][:-1]
    outside = open_calls[:-1][same] == 0
    begin, end = node[:-1][same], node[1:][same]
    blocking = np.array([name in _BLOCKING for name in events.names], bool)[events.meta[nodes.ops]]
    waited = (end % 2 == 1) & blocking[end // 2]
    lasted = time[order][1:][same] - time[order][:-1][same]
    return _edges(begin, end, np.where(outside | waited, 0, lasted), np.where(outside, NEXT, HOST).astype(np.uint8))


# ---- along streams


def _kernels(nodes: PathNodes) -> PathEdges:
    ran = nodes.ran
    begin = 2 * (len(nodes.ops) + np.arange(len(ran)))
    kind = np.full(len(ran), KERNEL, np.uint8)
    kind[ran.kind == COMMUNICATION] = COLLECTIVE
    kind[ran.kind == COPY] = COPIED
    return _edges(begin, begin + 1, ran.end_ps - ran.start_ps, kind)


def _into_kernels(nodes: PathNodes, until: Int64s) -> list[PathEdges]:
    """To each begin: from its launch if what it had to wait for had ended before, else from the end before it.
    ``until``: the end of what the kernel waits for on other streams."""
    ran, ops = nodes.ran, len(nodes.ops)
    before = np.arange(len(ran)) - 1
    follows = np.append(False, ran.stream[1:] == ran.stream[:-1]) if len(ran) else np.zeros(0, bool)
    previous = np.where(follows, ran.end_ps[before], np.iinfo(np.int64).min) if len(ran) else until
    launched: Bools = (previous < ran.call_ps) & (until < ran.call_ps)
    call = np.searchsorted(nodes.ops, ran.call)
    known = launched & (call < ops)
    known[known] = nodes.ops[call[known]] == ran.call[known]
    place = np.flatnonzero(known)
    behind = np.flatnonzero(~launched & follows & (until <= previous))
    return [
        _edges(2 * call[place], 2 * (ops + place), ran.start_ps[place] - ran.call_ps[place], LAUNCH),
        _edges(2 * (ops + behind) - 1, 2 * (ops + behind), ran.start_ps[behind] - previous[behind], BREAK),
    ]


# ---- waits


def _waits(events: HostEvents, nodes: PathNodes) -> tuple[list[PathEdges], Int64s]:
    """Edges of recorded waits, and by kernel the end of what it waits for on other streams, else the least integer."""
    until = np.full(len(nodes.ran), np.iinfo(np.int64).min)
    names = np.array([_WAIT_KINDS.get(name, 0) for name in events.names], np.uint8)[events.meta[nodes.waits]]
    finder = _Finder(events, nodes)
    return [finder.streams_ended(names), *finder.events_passed(names, until)], until


_FOR_STREAM, _FOR_DEVICE, _FOR_EVENT, _STREAM_FOR_EVENT = 1, 2, 3, 4
_WAIT_KINDS: Final = {
    "Stream Sync": _FOR_STREAM, "Context Sync": _FOR_DEVICE, "Event Sync": _FOR_EVENT,
    "Stream Wait Event": _STREAM_FOR_EVENT,
}  # fmt: skip


class _Finder:
    """Finds what recorded waits wait for."""

    def __init__(self, events: HostEvents, nodes: PathNodes) -> None:
        self._events, self._nodes = events, nodes
        self._ops = len(nodes.ops)
        ran = nodes.ran
        self._bounds = np.searchsorted(ran.stream, np.arange(len(nodes.streams.lines) + 1))
        first = np.array([line.first for line in nodes.streams.lines], np.int64)
        has, stream = beside(first, *events.ints("stream"))
        planes = [line.plane.number for line in nodes.streams.lines]
        self._stream_of = {key: i for i, key in enumerate(zip(planes, stream.tolist(), strict=True)) if has[i]}
        self._gpus = [plane for plane in events.planes_of("GPU") if plane.last > plane.first]
        self._first_rows = np.array([plane.first for plane in self._gpus], np.int64)
        self._by_call: dict[int, Int64s] = {}

    def streams_ended(self, kinds: UInt8s) -> PathEdges:
        """To the end of a call that waits for a stream or a device: from the last kernel that began before that."""
        nodes, events = self._nodes, self._events
        found: list[tuple[int, int]] = []
        for place in np.flatnonzero(
            ((kinds == _FOR_STREAM) | (kinds == _FOR_DEVICE)) & (nodes.wait_call >= 0)
        ).tolist():
            row, call = int(nodes.waits[place]), self._node_of(int(nodes.wait_call[place]))
            if call < 0:
                continue
            end = int(events.start_ps[row]) + max(int(events.duration_ps[row]), 0)
            stream = self._stream(row, "stream")
            streams = range(len(self._bounds) - 1) if kinds[place] == _FOR_DEVICE else [stream]
            found += [(last, call) for one in streams if (last := self._last_begun(one, end)) >= 0]
        return self._done(found, 1)

    def events_passed(self, kinds: UInt8s, until: Int64s) -> list[PathEdges]:
        """From the last kernel launched before an event was recorded: to the end of the call that waits for it, or to
        the next kernel launched on the stream that does; ``until`` of that one is written."""
        nodes, events = self._nodes, self._events
        called, passed = [], []
        rows = np.flatnonzero((kinds >= _FOR_EVENT) & (nodes.wait_call >= 0))
        recorded = self._records(nodes.waits[rows])
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
        onward = _edges(2 * (self._ops + begins[:, 0]) + 1, 2 * (self._ops + begins[:, 1]), 0, WAIT)
        return [self._done(called, 1), onward]

    def _done(self, pairs: list[tuple[int, int]], side: int) -> PathEdges:
        """Edges from the ends of kernels to ops."""
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return _edges(2 * (self._ops + both[:, 0]) + 1, 2 * both[:, 1] + side, 0, WAIT)

    def _node_of(self, row: int) -> int:
        place = int(np.searchsorted(self._nodes.ops, row))
        return place if place < self._ops and self._nodes.ops[place] == row else -1

    def _stream(self, row: int, stat: str) -> int:
        """The stream that a wait names, of the GPU it is recorded with; -1: nothing ran there."""
        has, number = beside(np.array([row]), *self._events.ints(stat))
        plane = self._gpus[int(np.searchsorted(self._first_rows, row, side="right")) - 1]
        return self._stream_of.get((plane.number, int(number[0])), -1) if has[0] else -1

    def _records(self, waits: Int64s) -> Int64s:
        """The calls that recorded the events which these wait for; -1: not recorded."""
        has, ids = beside(waits, *self._events.ints("wait_on_cuda_event_record_corr_id"))
        row = calls_of(self._events, ids).astype(np.int64)
        is_record = np.array([name in _RECORDS for name in self._events.names], bool)[self._events.meta[row]]
        return np.where(has & (row >= 0) & is_record, row, -1)

    def _last_begun(self, stream: int, before: int) -> int:
        if stream < 0:
            return -1
        first, last = self._bounds[stream : stream + 2]
        place = first + int(np.searchsorted(self._nodes.ran.start_ps[first:last], before)) - 1
        return int(place) if place >= first else -1

    def _launched(self, stream: int, time: int, step: int) -> int:
        """The kernel of a stream that was launched last before a time (``step`` -1), or first from then on (0)."""
        if stream < 0:
            return -1
        first, last = self._bounds[stream : stream + 2]
        order = self._by_call.get(stream)
        if order is None:
            order = self._by_call[stream] = first + np.argsort(self._nodes.ran.call_ps[first:last], kind="stable")
        place = int(np.searchsorted(self._nodes.ran.call_ps[order], time)) + step
        return int(order[place]) if 0 <= place < len(order) else -1
