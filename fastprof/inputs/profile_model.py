"""A ProfileProto on its way to an XSpace: the one that tfprof would make of a graph, of runs of it and of a log of its
ops; one that is damaged, without the nodes that do not decode; and its planes, with the executions of nodes as
events.

    GraphDef      nodes, inputs, attributes                       make_profile       ProfileProto, as tfprof writes it
    RunMetadata   when nodes ran, on which devices, memory   ------------------->    and as ``profile_columns`` reads it
    OpLogProto    types, float operations, code

A node is counted on the first device of a job that mentions it; what others say of it is left out, but for streams of
accelerators. A node that no graph has gets its name for an op.

plane "/host:CPU"       lines "lane 0", "GPU:0 scheduling", ...    events NODE:OP, group_id: the step
                        line  "runs"                               an event a step, around its executions
plane "/device:GPU:0"   line  "stream all"
plane "tfprof"          event metadata "profile", stats "profile_proto": pieces of the file, one after the other

Tasks but the first are hosts: their names stand before those of their planes.

A damaged field becomes one of a number that nobody reads: all others stay where they are.

    | 1 node | 1 node | 1 no|e | 1 node | 4 text |  ->  | 1 node | 1 node | 15 no|e | 1 node | 4 text |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof._native import transcribing
from fastprof.errors import CaptureError
from fastprof.inputs import profile_columns as profile
from fastprof.inputs.formats.contract import PROFILE_PLANE, PROFILE_STAT, FormatRemark
from fastprof.inputs.formats.step_planes import (
    HOST,
    DevicePlace,
    LineColumns,
    find_task,
    make_environment,
    name_task_host,
    place_device,
)
from fastprof.inputs.message_columns import Buffer, ByteSpans, MessageColumns, decode_texts, find_ends, make_whole_span
from fastprof.inputs.profile_columns import DOING, PICOSECONDS, ProfileColumns, find_times
from fastprof.schema.columns import Int64s, find_least_by, find_most_by, number_values
from fastprof.schema.message_fields import BYTES, encode_varint, put, put_all
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

_GRAPH, _RUN, _LOG = "reading a GraphDef", "reading RunMetadata", "reading an OpLogProto"
_CANONICAL: Final = compile_late(r".*/(device:gpu|gpu|device:cpu|cpu):\d+", re.DOTALL)
_GPU: Final = compile_late(r"gpu:\d+")
_OUTPUT: Final = compile_late(r"[0-9]{1,9}")
_NO_NODES: Final = ("RecvTensor", "_SOURCE")
_ENTRY_KEY, _ENTRY_VALUE = 1, 2


@dataclass(slots=True)
class _NodeRun:
    """What a node did in a step. Texts are fields of ExecProfile and ExecMemory."""

    count: int = 0
    start: int = 0
    end: int = 0
    accelerators: dict[str, list[bytes]] = field(default_factory=dict)
    hosts: dict[str, list[bytes]] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)
    memory: list[bytes] = field(default_factory=list)
    allocations: list[bytes] = field(default_factory=list)

    def fields(self) -> bytes:
        parts = [put(profile.RUN_COUNT, self.count), put(profile.START, self.start), put(profile.END, self.end)]
        for number, devices in ((profile.ACCELERATOR_EXECS, self.accelerators), (profile.CPU_EXECS, self.hosts)):
            parts += [put(number, put(1, device) + put(2, b"".join(times))) for device, times in devices.items()]
        parts += [put(profile.DEVICES, device) for device in sorted(self.devices)]
        return b"".join(parts + self.memory + self.allocations)


@dataclass(slots=True)
class _ModelNode:
    name: str
    op: str
    attrs: bytearray = field(default_factory=bytearray)
    shape: list[int] = field(default_factory=list)
    output_shapes: list[list[int]] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    float_ops: int = 0
    code: bytes = b""
    device: str = ""
    runs: dict[int, _NodeRun] = field(default_factory=dict)


class ProfileModel:
    """Builds the profile of a graph, its runs and a log. ``as_tfprof``: every input reads the first output of its
    producer, as in tfprof."""

    def __init__(self, *, as_tfprof: bool = False) -> None:
        self._as_tfprof = as_tfprof
        self.nodes: dict[str, _ModelNode] = {}
        self.steps: set[int] = set()
        self.texts: dict[int, bytes] = {}
        self.has_code = False
        self.misses_stream = False
        self.complaints: list[str] = []
        """tfprof's messages on standard error while it adds a run."""

    # ---- graph

    def add_graph(self, data: Buffer) -> None:
        top = MessageColumns(data, make_whole_span(data), _GRAPH)
        at = top.each(1).at
        columns = MessageColumns(data, at, _GRAPH)
        names, ops = (decode_texts(data, columns.spans(number)) for number in (1, 2))
        fresh: list[_ModelNode | None] = []
        for name, op in zip(names, ops, strict=True):
            node = None if name in self.nodes else self.nodes.setdefault(name, _ModelNode(name, op, types={op}))
            fresh.append(node)
        every = columns.each(3)
        for owner, text in zip(every.owner.tolist(), decode_texts(data, every.at), strict=True):
            if (node := fresh[owner]) is not None:
                node.inputs.append(text)
        self._add_attrs(data, columns, fresh)

    def _add_attrs(self, data: Buffer, columns: MessageColumns, nodes: Sequence[_ModelNode | None]) -> None:
        every, view = columns.each(5), memoryview(data)
        entries = MessageColumns(data, every.at, _GRAPH)
        keys, values = decode_texts(data, entries.spans(_ENTRY_KEY)), entries.spans(_ENTRY_VALUE)
        places = zip(every.at.offset.tolist(), every.at.length.tolist(), strict=True)
        shaped: list[int] = []
        for row, (owner, key, (begin, size)) in enumerate(zip(every.owner.tolist(), keys, places, strict=True)):
            node = nodes[owner]
            if node is not None:
                node.attrs += put(profile.ATTRS, bytes(view[begin : begin + size]))
                if key in ("shape", "_output_shapes"):
                    shaped.append(row)
        rows = np.array(shaped, np.int64)
        at = values.taken(rows)
        lists = MessageColumns(data, MessageColumns(data, at, _GRAPH).spans(1), _GRAPH).each(7)
        listed = list(zip(lists.owner.tolist(), _read_shapes(data, lists.at), strict=True))
        own = MessageColumns(data, at, _GRAPH).spans(7)
        for row, size, shape in zip(shaped, own.length.tolist(), _read_shapes(data, own), strict=True):
            node = nodes[int(every.owner[row])]
            if node is not None and keys[row] == "shape" and size >= 0:
                node.shape = shape
        for place, shape in listed:
            node = nodes[int(every.owner[shaped[place]])]
            if node is not None and keys[shaped[place]] == "_output_shapes":
                node.output_shapes.append(shape)

    # ---- runs

    def add_run(self, step: int, data: Buffer) -> None:
        """A run without statistics does not count."""
        at = MessageColumns(data, make_whole_span(data), _RUN).each(1).at
        if not len(at.offset):
            return
        self.steps.add(step)
        stats = MessageColumns(data, at, _RUN)
        devices = MessageColumns(data, stats.each(1).at, _RUN)
        names = [name.lower() for name in decode_texts(data, devices.spans(1))]
        gpus = [name for name in names if "gpu" in name]
        self.misses_stream |= bool(gpus) and not any("stream:all" in name for name in gpus)
        every = devices.each(2)
        nodes = _NodeStats(data, every.at)
        for row, (owner, name) in enumerate(zip(every.owner.tolist(), nodes.names, strict=True)):
            node = self.nodes.get(name)
            if node is None:
                if name in _NO_NODES or "MEMCPY" in name:
                    continue
                node = self.nodes[name] = _ModelNode(name, name, types={name})
            self.complaints += _add_stats(node, step, names[owner], nodes, row)

    # ---- log

    def add_log(self, data: Buffer) -> None:
        top = MessageColumns(data, make_whole_span(data), _LOG)
        entries = MessageColumns(data, top.each(2).at, _LOG)
        keys, values = entries.integers(_ENTRY_KEY).tolist(), _get_bytes(data, entries.spans(_ENTRY_VALUE))
        for key, value in zip(keys, values, strict=True):
            self.texts.setdefault(key, value)
        columns = MessageColumns(data, top.each(1).at, _LOG)
        names, codes = decode_texts(data, columns.spans(1)), columns.spans(4)
        nodes = [self.nodes.get(name) for name in names]
        every = columns.each(3)
        for owner, text in zip(every.owner.tolist(), decode_texts(data, every.at), strict=True):
            if (node := nodes[owner]) is not None:
                node.types.add(text)
        rows = zip(nodes, columns.integers(2).tolist(), codes.length.tolist(), _get_bytes(data, codes), strict=True)
        for node, float_ops, size, code in rows:
            if node is None:
                continue
            node.float_ops = float_ops or node.float_ops
            if size >= 0:
                self.has_code = True
                node.code = node.code or put(profile.TRACE, code)

    # ---- writing

    def profile(self) -> Iterator[bytes]:
        """Yield a field at a time."""
        ids = {name: number for number, name in enumerate(self.nodes)}
        for number, node in enumerate(self.nodes.values()):
            yield put(profile.NODES, put(1, number) + put(2, b"".join(self._make_fields(node, number, ids))))
        yield put(profile.HAS_TRACE, int(self.has_code))
        yield put(profile.STEPS, b"".join(map(encode_varint, sorted(self.steps))))
        for key, text in sorted(self.texts.items()):
            yield put(profile.ID_TO_STRING, put(1, key) + put(2, text))
        yield put(profile.MISSES_STREAM, int(self.misses_stream))

    def _make_fields(self, node: _ModelNode, number: int, ids: dict[str, int]) -> Iterator[bytes]:
        yield put(profile.NAME, node.name)
        outputs: dict[int, int] = {}
        for slot, text in enumerate(node.inputs):
            name, _, output = text.removeprefix("^").partition(":")
            if name in ids:
                yield put(profile.INPUTS, put(1, slot) + put(2, ids[name]))
                is_other = not self._as_tfprof and _OUTPUT.fullmatch(output)
                outputs[ids[name]] = int(output) if is_other else 0
            elif self._as_tfprof:
                yield put(profile.INPUTS, put(1, slot) + put(2, profile.ABSENT))
        if node.shape:
            yield put(profile.SHAPE, b"".join(map(encode_varint, node.shape)))
        yield from (put(profile.TYPES, text) for text in sorted(node.types, key=str.encode))
        if node.device:
            yield put(profile.CANONICAL_DEVICE, node.device) + put(
                profile.HOST_DEVICE, _GPU.sub("cpu:0", node.device, 1)
            )
        yield put(profile.FLOAT_OPS, node.float_ops) + put(profile.OP, node.op) + node.code + node.attrs
        yield from (put(profile.EXECS, put(1, step) + put(2, run.fields())) for step, run in sorted(node.runs.items()))
        yield put(profile.ID, number)
        yield from (put(profile.OUTPUT_OF_INPUT, put(1, id_) + put(2, output)) for id_, output in outputs.items())
        for slot, sizes in enumerate(node.output_shapes):
            yield put(
                profile.OUTPUT_SHAPES, put(1, slot) + put(2, put(profile.TUPLE, b"".join(map(encode_varint, sizes))))
            )


def make_profile(graph: Buffer, runs: Iterable[tuple[int, Buffer]] = (), op_log: Buffer | None = None) -> bytes:
    """``graph``: a GraphDef; ``runs``: numbers of steps and their RunMetadata; ``op_log``: an OpLogProto.

    An input that the graph lacks is left out. CaptureError: one does not decode; its offset is one in it.
    """
    model = ProfileModel()
    model.add_graph(graph)
    for step, data in runs:
        model.add_run(step, data)
    if op_log is not None:
        model.add_log(op_log)
    return b"".join(model.profile())


def find_log_place(runs: int, *, as_tfprof: bool) -> int:
    """Return the number of runs that are added before the log. tfprof adds a single run before the log, which then also
    applies to nodes that only the run has. It adds several runs after the log."""
    return 0 if as_tfprof and runs > 1 else runs


# ---- statistics of nodes


class _NodeStats:
    """Columns of NodeExecStats, as lists. Names end at the first colon."""

    def __init__(self, data: Buffer, at: ByteSpans) -> None:
        nodes = MessageColumns(data, at, _RUN)
        self.labels = list(decode_texts(data, nodes.spans(1)))
        self.names = [label.partition(":")[0] for label in self.labels]
        self.start, self.op_end = nodes.integers(2).tolist(), nodes.integers(4).tolist()
        has_memory = nodes.spans(12)
        memory = MessageColumns(data, has_memory, _RUN)
        self.temp, self.persistent = memory.integers(1).tolist(), memory.integers(3).tolist()
        used = nodes.each(6)
        self.allocators = find_ends(used.owner, nodes.count).tolist()
        allocators = MessageColumns(data, used.at, _RUN)
        self.is_gpu = ["GPU" in name for name in decode_texts(data, allocators.spans(1))]
        self.total, self.peak, self.live, self.in_use = (
            allocators.integers(number).tolist() for number in (2, 3, 4, 5)
        )
        records = allocators.each(6)
        self.records, self.of_allocator = (
            _get_bytes(data, records.at),
            find_ends(records.owner, allocators.count).tolist(),
        )
        made = nodes.each(7)
        outputs = MessageColumns(data, made.at, _RUN)
        tensors = MessageColumns(data, outputs.spans(3), _RUN).spans(4)
        described = MessageColumns(data, tensors, _RUN)
        self.outputs = find_ends(made.owner, nodes.count).tolist()
        self.slot, self.is_known = outputs.integers(1).tolist(), (tensors.length >= 0).tolist()
        sizes = zip(described.integers(1).tolist(), described.integers(2).tolist(), strict=True)
        self.size, self.pointer = [max(pair) for pair in sizes], described.integers(6).tolist()


def _add_stats(node: _ModelNode, step: int, device: str, stats: _NodeStats, row: int) -> Iterator[str]:
    """Add the stats of a node, and yield tfprof's messages."""
    is_canonical = _CANONICAL.fullmatch(device) is not None
    if is_canonical:
        if node.device and node.device != device:
            return
        node.device = device
        node.types.add(device)
    run = node.runs.setdefault(step, _NodeRun())
    run.devices.add(device)
    start = stats.start[row]
    if start <= 0:
        if device == node.device:
            yield f"{stats.labels[row]} has no start time, skipping"
        return
    took = stats.op_end[row] or 1
    run.start = min(run.start, start) if run.start > 0 else start
    run.end = max(run.end, start + took)
    times = put(profile.TIMES, put(profile.TUPLE, encode_varint(start) + encode_varint(took)))
    if "stream:all" in device:
        run.accelerators.setdefault(device, []).append(times)
    elif is_canonical:
        run.hosts.setdefault(device, []).append(times)
        run.count += 1
    if device == node.device:
        of_gpu = sum(stats.is_gpu[stats.allocators[row] : stats.allocators[row + 1]])
        if of_gpu > 1:
            yield f"found {of_gpu} gpu allocator for 1 node"
        _add_memory(run, device, stats, row)


def _add_memory(run: _NodeRun, device: str, stats: _NodeStats, row: int) -> None:
    temp, persistent = stats.temp[row], stats.persistent[row]
    total = peak = temp + persistent
    residual, in_use, made = persistent, 0, 0
    for at in range(stats.allocators[row], stats.allocators[row + 1]):
        total, peak, residual = total + stats.total[at], peak + stats.peak[at], residual + stats.live[at]
        if stats.is_gpu[at]:
            in_use = max(in_use, stats.in_use[at])
            records = stats.records[stats.of_allocator[at] : stats.of_allocator[at + 1]]
            run.allocations += [put(profile.ALLOCATIONS, record) for record in records]
    outputs = bytearray()
    for at in range(stats.outputs[row], stats.outputs[row + 1]):
        if stats.is_known[at]:
            made += stats.size[at]
            memory = put(1, stats.size[at]) + put(2, stats.pointer[at])
            outputs += put(profile.OUTPUT_MEMORY, put(1, stats.slot[at]) + put(2, memory))
    of_host = (temp, persistent, 0, 0) if "cpu" in device else (0, 0, temp, persistent)
    values = (stats.start[row] + stats.op_end[row], *of_host, total, peak, residual, made, in_use)
    numbers = zip(profile.MEMORY_NUMBERS, values, strict=True)
    run.memory.append(put(profile.MEMORY, b"".join(put(number, value) for number, value in numbers) + outputs))


# ---- values


def _get_bytes(data: Buffer, at: ByteSpans) -> list[bytes]:
    """Return the bytes of spans, empty where there is none."""
    view = memoryview(data)
    places = zip(at.offset.tolist(), at.length.tolist(), strict=True)
    return [bytes(view[begin : begin + max(size, 0)]) for begin, size in places]


def _read_shapes(data: Buffer, at: ByteSpans) -> list[list[int]]:
    """Sizes of TensorShapeProtos: of a scalar 1, of unknown rank none."""
    shapes = MessageColumns(data, at, _GRAPH)
    every = shapes.each(2)
    sizes = MessageColumns(data, every.at, _GRAPH).integers(1).tolist()
    ends = find_ends(every.owner, shapes.count).tolist()
    unknown = shapes.integers(3).tolist()
    return [
        sizes[first:last] if last > first or is_unknown else [1]
        for first, last, is_unknown in zip(ends, ends[1:], unknown, strict=False)
    ]


_PIECE: Final = 1 << 20
_GROUP, _STEP_NAME, _TF_OP = 1, 2, 3
_STATS: Final = {"group_id": _GROUP, "step_name": _STEP_NAME, "tf_op": _TF_OP}
_RUNS_LINE: Final = 0xDEADBEEF + 300
"""Lines with such ids are made from others."""


class ProfilePlanes:
    """Planes of the executions of a profile. ``zero_us``: the zero of their times, Unix time; ``timed``: whether each
    has a time, and becomes an event."""

    def __init__(self, profile: ProfileColumns) -> None:
        self._profile = profile
        self._every = profile.executions
        self.zero_us, self.timed = find_times(self._every)

    def remarks(self) -> Iterator[FormatRemark]:
        lost = len(self.timed) - int(self.timed.sum())
        if lost:
            text = "executions whose times are none are no events: the table tfprof_executions has them"
            yield FormatRemark("notice", "bad_time", text, lost, None)

    def xspace(self) -> Iterator[bytes]:
        devices: Sequence[str] = self._profile.devices.words.to_pylist()
        first = next((task for task in map(find_task, sorted(devices)) if task), None)
        places = [_place_host(device, first) for device in devices]
        numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
        of_device = np.array([numbers[place] for place in places], np.int64)
        rows = np.flatnonzero(self.timed)
        place_of_row = of_device[self._every.device[rows]]
        ends = np.cumsum(np.bincount(place_of_row, minlength=len(numbers)))
        rows = rows[np.argsort(place_of_row, kind="stable")]
        of_plane: dict[str, dict[DevicePlace, Int64s]] = {HOST: {}}
        of_host: dict[str, list[Int64s]] = {}
        for (host, place), some in zip(
            numbers, np.split(rows, ends[:-1]), strict=False
        ):  # of no places there is one, too
            of_plane.setdefault(host + HOST, {})
            of_plane.setdefault(host + place.plane, {})[place] = some
            of_host.setdefault(host + HOST, []).append(some)
        for number, (name, rows_of) in enumerate(of_plane.items()):
            yield self._plane(number + 1, name, rows_of, of_host.get(name, []))
        yield make_environment("TensorFlow 1 profile", self.zero_us * 1000)
        yield from _cut_plane(self._profile.data, len(of_plane) + 1)

    def _plane(self, number: int, name: str, rows: Mapping[DevicePlace, Int64s], of_host: Sequence[Int64s]) -> bytes:
        """``rows``: of the executions of each place. ``of_host``: those of its host, if the plane is of its threads."""
        is_host = name.endswith(HOST)
        used = [self._every.node[some] for some in rows.values()]
        nodes = np.unique(np.concatenate([np.zeros(0, np.int64), *used]))
        lines: list[bytes] = []
        for place, some in rows.items():
            lines += self._lines(some, np.searchsorted(nodes, self._every.node[some]) + 1, place, len(lines) + 1)
        metadata = self._metadata(nodes, 0 if is_host else _TF_OP)
        content = put(1, number) + put(2, name) + put_all(3, lines) + metadata
        if is_host:
            content += self._runs(np.concatenate([np.zeros(0, np.int64), *of_host]), len(nodes) + 1)
        content += put_all(5, (put(1, stat) + put(2, put(1, stat) + put(2, text)) for text, stat in _STATS.items()))
        return put(1, content)

    @cached_property
    def _titles(self) -> pa.Array:
        """NODE:OP of each node."""
        import pyarrow.compute as pc  # late: most captures do without

        ops = self._profile.ops.array().cast(pa.string())
        return pc.binary_join_element_wise(self._profile.names, ops, ":").cast(pa.large_binary())

    def _metadata(self, nodes: Int64s, stat: int) -> bytes:
        texts = self._titles.take(pa.array(nodes))
        _, offsets, content = texts.buffers()
        bounds = np.frombuffer(offsets, np.int64)[: len(nodes) + 1] if len(nodes) else np.zeros(1, np.int64)
        return transcribing.event_metadata(1, bounds, content if content is not None else b"", stat)

    def _lines(self, rows: Int64s, metadata: Int64s, place: DevicePlace, first: int) -> list[bytes]:
        every = self._every
        order = np.argsort(every.start_us[rows], kind="stable")
        rows, metadata = rows[order], metadata[order]
        start, duration = every.start_us[rows], every.duration_us[rows]
        lane = np.zeros(len(rows), np.int32)
        if place.is_lanes:
            lane = np.frombuffer(transcribing.first_free_lanes(start, start + duration), np.int32)
        by_lane = np.argsort(lane, kind="stable")
        ends = np.cumsum(np.bincount(lane))
        groups = np.searchsorted(self._steps, every.step[rows])
        lines = []
        for number, chosen in enumerate(np.split(by_lane, ends[:-1])):
            is_one = len(ends) == 1 and place.line != ""
            name = place.line if is_one else f"{place.line} lane {number}".strip()
            offset, length = (start[chosen] - self.zero_us) * PICOSECONDS, duration[chosen] * PICOSECONDS
            events = LineColumns.of_integer(metadata[chosen], offset, length, _GROUP, groups[chosen]).written()
            lines.append(put(1, first + number) + put(2, name) + put(3, self.zero_us * 1000) + events)
        return lines

    @cached_property
    def _steps(self) -> Int64s:
        return np.unique(self._every.step[self.timed])

    def _runs(self, rows: Int64s, metadata: int) -> bytes:
        """Return a line with an event for each step of these executions."""
        every = self._every
        groups = np.searchsorted(self._steps, every.step[rows])
        of_step, group = number_values(groups)
        steps = self._steps[of_step]
        begin = find_least_by(group, every.start_us[rows], len(steps))
        end = find_most_by(group, every.start_us[rows] + every.duration_us[rows], len(steps))
        events = []
        spans = zip(of_step.tolist(), steps.tolist(), begin.tolist(), end.tolist(), strict=True)
        for number, step, first, last in spans:
            stats = [put(1, _GROUP) + put(4, number), put(1, _STEP_NAME) + put(5, str(step))]
            times = put(2, (first - self.zero_us) * PICOSECONDS) + put(3, (last - first) * PICOSECONDS)
            events.append(put(1, metadata) + times + put_all(4, stats))
        if not events:
            return b""
        line = put(1, _RUNS_LINE) + put(2, "runs") + put(3, self.zero_us * 1000) + put_all(4, events)
        return put(3, line) + put(4, put(1, metadata) + put(2, put(1, metadata) + put(2, "step")))


def _place_host(device: str, first: str | None) -> tuple[str, DevicePlace]:
    """Return the prefix of the names of its host's planes, and its place there. ``first``: the first task."""
    task = find_task(device)
    host = f"{name_task_host(task)} " if task not in (None, first) else ""
    return host, place_device(device, task or first)


def _cut_plane(data: Buffer, number: int) -> Iterator[bytes]:
    """Yield the plane of the profile itself. Its length comes first, but it is copied a piece at a time."""
    heads = []
    for at in range(0, len(data), _PIECE):
        size = min(_PIECE, len(data) - at)
        value = put(1, 1) + encode_varint(6 << 3 | 2) + encode_varint(size)
        heads.append(encode_varint(5 << 3 | 2) + encode_varint(len(value) + size) + value)
    metadata = put(1, 1) + put(2, "profile")
    inner = len(metadata) + sum(map(len, heads)) + len(data)
    entry = put(1, 1) + encode_varint(2 << 3 | 2) + encode_varint(inner)
    plane = put(1, number) + put(2, PROFILE_PLANE) + put(5, put(1, 1) + put(2, put(1, 1) + put(2, PROFILE_STAT)))
    head = encode_varint(4 << 3 | 2) + encode_varint(len(entry) + inner)
    size = len(plane) + len(head) + len(entry) + inner
    yield encode_varint(1 << 3 | 2) + encode_varint(size) + plane + head + entry + metadata
    view = memoryview(data)
    for number, start in enumerate(heads):
        yield start
        yield bytes(view[number * _PIECE : (number + 1) * _PIECE])


_IGNORED: Final = 15 << 3 | BYTES
_MOST_FAULTS: Final = 200
"""Each takes another reading of the profile."""


def drop_damaged_nodes(document: bytearray, path: str, salvage: bool, remarks: list[FormatRemark]) -> ProfileColumns:
    """CaptureError: the document is damaged and not to be salvaged, or damaged in too many places."""
    for _ in range(_MOST_FAULTS):
        try:
            profile = ProfileColumns(document, tolerant=salvage)
            if salvage:
                profile.check()
                for what, count in profile.lost.items():
                    text = f"{what} have ids that the profile does not have"
                    remarks.append(FormatRemark("data_loss", "unknown_id", text, count, None))
            else:
                assert profile.executions is not None  # the rest is read when a table needs it
            return profile
        except CaptureError as fault:
            if not salvage or fault.offset is None:
                raise CaptureError(fault.message, path=path, offset=fault.offset) from None
            remarks.append(_leave_out(document, fault.message, fault.offset))
    raise CaptureError(f"more than {_MOST_FAULTS} fields are damaged, {DOING}", path=path, offset=0, salvageable=False)


def _leave_out(document: bytearray, what: str, offset: int) -> FormatRemark:
    """Take the damaged field out of the document, or all that follows it if it does not end."""
    try:
        MessageColumns(document, make_whole_span(document), DOING)
    except CaptureError as fault:
        assert fault.offset is not None
        del document[fault.offset :]
        return FormatRemark("data_loss", "truncated", f"the rest is not read: {what}", 1, fault.offset)
    # The field of the profile that holds the byte begins here; its number is below 16.
    top = MessageColumns(document, make_whole_span(document), DOING)
    begins = np.sort(np.concatenate([top.each(number).at.offset for number in range(1, 16)]))
    place = int(np.searchsorted(begins, offset, "right")) - 1
    at = int(begins[max(place, 0)]) - 2
    while document[at] & 0x80:
        at -= 1
    document[at] = _IGNORED
    return FormatRemark("data_loss", "damaged_node", f"what is damaged is left out: {what}", 1, at)
