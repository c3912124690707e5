"""The ProfileProto that tfprof would make of a graph, of runs of it and of a log of its ops.

    GraphDef      nodes, inputs, attributes                       profile_bytes      ProfileProto, as tfprof writes it
    RunMetadata   when nodes ran, on which devices, memory   ------------------->    and as ``profile_columns`` reads it
    OpLogProto    types, float operations, code

A node is counted on the first device of a job that mentions it; what others say of it is left out, but for streams of
accelerators. A node that no graph has gets its name for an op.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final

from fastprof.inputs import profile_columns as profile
from fastprof.inputs.message_columns import Buffer, MessageColumns, Spans, all_of, texts
from fastprof.inputs.value_columns import ends_of
from fastprof.schema.array_types import Int64s
from fastprof.schema.message_fields import put, varint
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

_GRAPH, _RUN, _LOG = "reading a GraphDef", "reading RunMetadata", "reading an OpLogProto"
_CANONICAL: Final = pattern_of(r".*/(device:gpu|gpu|device:cpu|cpu):\d+", re.DOTALL)
_GPU: Final = pattern_of(r"gpu:\d+")
_OUTPUT: Final = pattern_of(r"[0-9]{1,9}")
_NO_NODES: Final = ("RecvTensor", "_SOURCE")
_ENTRY_KEY, _ENTRY_VALUE = 1, 2


@dataclass(slots=True)
class _Run:
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
class _Node:
    name: str
    op: str
    attrs: bytes = b""
    shape: list[int] = field(default_factory=list)
    output_shapes: list[list[int]] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    float_ops: int = 0
    code: bytes = b""
    device: str = ""
    runs: dict[int, _Run] = field(default_factory=dict)


class ProfileModel:
    """A graph, to which runs and a log are added; then its profile."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {}
        self.steps: set[int] = set()
        self.texts: dict[int, bytes] = {}
        self.has_code = False
        self.misses_stream = False

    # ---- graph

    def add_graph(self, data: Buffer) -> None:
        top = MessageColumns(data, all_of(data), _GRAPH)
        at = top.each(1).at
        columns = MessageColumns(data, at, _GRAPH)
        names, ops = (texts(data, columns.spans(number)) for number in (1, 2))
        fresh: list[_Node | None] = []
        for name, op in zip(names, ops, strict=True):
            node = None if name in self.nodes else self.nodes.setdefault(name, _Node(name, op, types={op}))
            fresh.append(node)
        every = columns.each(3)
        for owner, text in zip(every.owner.tolist(), texts(data, every.at), strict=True):
            if (node := fresh[owner]) is not None:
                node.inputs.append(text)
        self._add_attrs(data, columns, fresh)

    def _add_attrs(self, data: Buffer, columns: MessageColumns, nodes: Sequence[_Node | None]) -> None:
        every, view = columns.each(5), memoryview(data)
        entries = MessageColumns(data, every.at, _GRAPH)
        keys, values = texts(data, entries.spans(_ENTRY_KEY)), entries.spans(_ENTRY_VALUE)
        places = zip(every.at.offset.tolist(), every.at.length.tolist(), strict=True)
        shaped: list[int] = []
        for row, (owner, key, (begin, size)) in enumerate(zip(every.owner.tolist(), keys, places, strict=True)):
            node = nodes[owner]
            if node is not None:
                node.attrs += put(profile.ATTRS, bytes(view[begin : begin + size]))
                if key in ("shape", "_output_shapes"):
                    shaped.append(row)
        rows = _array(shaped)
        at = values.taken(rows)
        lists = MessageColumns(data, MessageColumns(data, at, _GRAPH).spans(1), _GRAPH).each(7)
        listed = list(zip(lists.owner.tolist(), _shapes(data, lists.at), strict=True))
        own = MessageColumns(data, at, _GRAPH).spans(7)
        for row, size, shape in zip(shaped, own.length.tolist(), _shapes(data, own), strict=True):
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
        at = MessageColumns(data, all_of(data), _RUN).each(1).at
        if not len(at.offset):
            return
        self.steps.add(step)
        stats = MessageColumns(data, at, _RUN)
        devices = MessageColumns(data, stats.each(1).at, _RUN)
        names = [name.lower() for name in texts(data, devices.spans(1))]
        gpus = [name for name in names if "gpu" in name]
        self.misses_stream |= bool(gpus) and not any("stream:all" in name for name in gpus)
        every = devices.each(2)
        nodes = _NodeStats(data, every.at)
        for row, (owner, name) in enumerate(zip(every.owner.tolist(), nodes.names, strict=True)):
            node = self.nodes.get(name)
            if node is None:
                if name in _NO_NODES or "MEMCPY" in name:
                    continue
                node = self.nodes[name] = _Node(name, name, types={name})
            _add_stats(node, step, names[owner], nodes, row)

    # ---- log

    def add_log(self, data: Buffer) -> None:
        top = MessageColumns(data, all_of(data), _LOG)
        entries = MessageColumns(data, top.each(2).at, _LOG)
        keys, values = entries.integers(_ENTRY_KEY).tolist(), _bytes(data, entries.spans(_ENTRY_VALUE))
        for key, value in zip(keys, values, strict=True):
            self.texts.setdefault(key, value)
        columns = MessageColumns(data, top.each(1).at, _LOG)
        names, codes = texts(data, columns.spans(1)), columns.spans(4)
        found = [self.nodes.get(name) for name in names]
        every = columns.each(3)
        for owner, text in zip(every.owner.tolist(), texts(data, every.at), strict=True):
            if (node := found[owner]) is not None:
                node.types.add(text)
        rows = zip(found, columns.integers(2).tolist(), codes.length.tolist(), _bytes(data, codes), strict=True)
        for node, float_ops, size, code in rows:
            if node is None:
                continue
            node.float_ops = float_ops or node.float_ops
            if size >= 0:
                self.has_code = True
                node.code = node.code or put(profile.TRACE, code)

    # ---- writing

    def profile(self) -> Iterator[bytes]:
        """A field at a time."""
        ids = {name: number for number, name in enumerate(self.nodes)}
        for number, node in enumerate(self.nodes.values()):
            yield put(profile.NODES, put(1, number) + put(2, b"".join(_fields(node, number, ids))))
        yield put(profile.HAS_TRACE, int(self.has_code))
        yield put(profile.STEPS, b"".join(map(varint, sorted(self.steps))))
        for key, text in sorted(self.texts.items()):
            yield put(profile.ID_TO_STRING, put(1, key) + put(2, text))
        yield put(profile.MISSES_STREAM, int(self.misses_stream))


def profile_bytes(graph: Buffer, runs: Iterable[tuple[int, Buffer]] = (), op_log: Buffer | None = None) -> bytes:
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


def _fields(node: _Node, number: int, ids: dict[str, int]) -> Iterator[bytes]:
    yield put(profile.NAME, node.name)
    outputs: dict[int, int] = {}
    for slot, text in enumerate(node.inputs):
        name, _, output = text.removeprefix("^").partition(":")
        if name in ids:
            yield put(profile.INPUTS, put(1, slot) + put(2, ids[name]))
            outputs[ids[name]] = int(output) if _OUTPUT.fullmatch(output) else 0
    if node.shape:
        yield put(profile.SHAPE, b"".join(map(varint, node.shape)))
    yield from (put(profile.TYPES, text) for text in sorted(node.types, key=str.encode))
    if node.device:
        yield put(profile.CANONICAL_DEVICE, node.device) + put(profile.HOST_DEVICE, _GPU.sub("cpu:0", node.device, 1))
    yield put(profile.FLOAT_OPS, node.float_ops) + put(profile.OP, node.op) + node.code + node.attrs
    yield from (put(profile.EXECS, put(1, step) + put(2, run.fields())) for step, run in sorted(node.runs.items()))
    yield put(profile.ID, number)
    yield from (put(profile.OUTPUT_OF_INPUT, put(1, id_) + put(2, output)) for id_, output in outputs.items())
    for slot, sizes in enumerate(node.output_shapes):
        yield put(profile.OUTPUT_SHAPES, put(1, slot) + put(2, put(profile.TUPLE, b"".join(map(varint, sizes)))))


# ---- statistics of nodes


class _NodeStats:
    """Columns of NodeExecStats, as lists. Names end at the first colon."""

    def __init__(self, data: Buffer, at: Spans) -> None:
        nodes = MessageColumns(data, at, _RUN)
        self.names = [name.partition(":")[0] for name in texts(data, nodes.spans(1))]
        self.start, self.op_end = nodes.integers(2).tolist(), nodes.integers(4).tolist()
        has_memory = nodes.spans(12)
        memory = MessageColumns(data, has_memory, _RUN)
        self.temp, self.persistent = memory.integers(1).tolist(), memory.integers(3).tolist()
        used = nodes.each(6)
        self.allocators = ends_of(used.owner, nodes.count).tolist()
        allocators = MessageColumns(data, used.at, _RUN)
        self.is_gpu = ["GPU" in name for name in texts(data, allocators.spans(1))]
        self.total, self.peak, self.live, self.in_use = (
            allocators.integers(number).tolist() for number in (2, 3, 4, 5)
        )
        records = allocators.each(6)
        self.records, self.of_allocator = _bytes(data, records.at), ends_of(records.owner, allocators.count).tolist()
        made = nodes.each(7)
        outputs = MessageColumns(data, made.at, _RUN)
        tensors = MessageColumns(data, outputs.spans(3), _RUN).spans(4)
        described = MessageColumns(data, tensors, _RUN)
        self.outputs = ends_of(made.owner, nodes.count).tolist()
        self.slot, self.is_known = outputs.integers(1).tolist(), (tensors.length >= 0).tolist()
        sizes = zip(described.integers(1).tolist(), described.integers(2).tolist(), strict=True)
        self.size, self.pointer = [max(pair) for pair in sizes], described.integers(6).tolist()


def _add_stats(node: _Node, step: int, device: str, stats: _NodeStats, row: int) -> None:
    is_canonical = _CANONICAL.fullmatch(device) is not None
    if is_canonical:
        if node.device and node.device != device:
            return
        node.device = device
        node.types.add(device)
    run = node.runs.setdefault(step, _Run())
    run.devices.add(device)
    start = stats.start[row]
    if start <= 0:
        return
    took = stats.op_end[row] or 1
    run.start = min(run.start, start) if run.start > 0 else start
    run.end = max(run.end, start + took)
    times = put(profile.TIMES, put(profile.TUPLE, varint(start) + varint(took)))
    if "stream:all" in device:
        run.accelerators.setdefault(device, []).append(times)
    elif is_canonical:
        run.hosts.setdefault(device, []).append(times)
        run.count += 1
    if device == node.device:
        _add_memory(run, device, stats, row)


def _add_memory(run: _Run, device: str, stats: _NodeStats, row: int) -> None:
    temp, persistent = stats.temp[row], stats.persistent[row]
    total = peak = temp + persistent
    residual, in_use, made = persistent, 0, 0
    for at in range(stats.allocators[row], stats.allocators[row + 1]):
        total, peak, residual = total + stats.total[at], peak + stats.peak[at], residual + stats.live[at]
        if stats.is_gpu[at]:
            in_use = max(in_use, stats.in_use[at])
            records = stats.records[stats.of_allocator[at] : stats.of_allocator[at + 1]]
            run.allocations += [put(profile.ALLOCATIONS, one) for one in records]
    outputs = b""
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


def _array(rows: list[int]) -> Int64s:
    import numpy as np

    return np.array(rows, np.int64)


def _bytes(data: Buffer, at: Spans) -> list[bytes]:
    """Nothing where there is none."""
    view = memoryview(data)
    places = zip(at.offset.tolist(), at.length.tolist(), strict=True)
    return [bytes(view[begin : begin + max(size, 0)]) for begin, size in places]


def _shapes(data: Buffer, at: Spans) -> list[list[int]]:
    """Sizes of TensorShapeProtos: of a scalar 1, of unknown rank none."""
    shapes = MessageColumns(data, at, _GRAPH)
    every = shapes.each(2)
    sizes = MessageColumns(data, every.at, _GRAPH).integers(1).tolist()
    ends = ends_of(every.owner, shapes.count).tolist()
    unknown = shapes.integers(3).tolist()
    return [
        sizes[first:last] if last > first or is_unknown else [1]
        for first, last, is_unknown in zip(ends, ends[1:], unknown, strict=False)
    ]
