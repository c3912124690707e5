"""StepStats: what TensorFlow 1 records of one run of a graph, by device and node, as columns; and what allocators hold
while tensors live, counted as TensorFlow's own timeline counts it.

A tensor lives from the start of the node that makes it to the end of the last node that uses it. Times are those of
TensorFlow's timeline: whole microseconds of nodes, a microsecond before the end of a node that uses it.

    a  |-----|                    float[4], 16 bytes      held   16
    b        |---|   takes a      float[2],  8 bytes             24, and 8 a microsecond before the end of b
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.message import Field, get_message, read_sound_fields
from fastprof.inputs.message_columns import Buffer, ByteSpans, MessageColumns, Owned, decode_texts
from fastprof.schema.columns import Int64s, count_bounds, sort_rows
from fastprof.schema.message_fields import get_tensor_type_name
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

MICRO: Final = 1_000
"""Nanoseconds."""
MOST_NS: Final = 1 << 62
"""Times beyond this, some 146 years after 1970, are none."""
BATCH: Final = 1 << 13
"""Nodes that are read at once."""
DOING: Final = "reading RunMetadata"
_MOST_BYTES, _LARGEST_NODE = 1 << 18, 1 << 20
"""Most bytes of nodes that are read at once, and of one node. While tiny messages are read, they take fifty times their
size."""
_HELD_BASE, _HELD_PER_BYTE = 64 << 20, 4
_OF_DEVICE, _OF_NODE, _OF_PART = 12_000, 600, 450
"""Memory of a device, of a node, and of a part of a node, in bytes, until they are written. Parts are outputs, inputs
in long labels, and allocator records."""
_LONG_LABEL: Final = 1 << 10
_NAME, _LABEL, _MEMORY, _OUTPUT, _SCHEDULED, _THREAD, _MEMORY_STATS = 1, 8, 6, 7, 9, 10, 12
_MICROS: Final = (2, 3, 4, 5)
_NANOS: Final = (13, 14, 15, 16)
"""Fields: the start, and relative to it the start of the op, its end, and the end."""
_REFERENCED: Final = 11
_NOT_TIMES: Final = (_NAME, _SCHEDULED, _REFERENCED, _MEMORY_STATS)
_WORD: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """A device of a run: its nodes that have a time, in order. ``untimed``: the others; ``lost``: damaged ones.

    ``data``: the RunMetadata, which begins at ``base`` in the file, and in which the nodes lie ``at``.
    ``records``: what allocators recorded, with the row of the node as its owner.
    """

    data: Buffer
    base: int
    name: str
    threads: dict[int, str]
    at: ByteSpans
    start_ns: Int64s
    duration_ns: Int64s
    thread: Int64s
    records: AllocationRecords
    untimed: int
    lost: int

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True)
class AllocationRecords:
    """Allocations and deallocations, with the sign of their size. ``allocator``: the place of its name in ``names``."""

    owner: Int64s
    micros: Int64s
    size: Int64s
    allocator: Int64s
    names: list[str]


class HeldStats:
    """Memory budget for the statistics of a file. Nodes, outputs and records of a few bytes take hundreds in memory."""

    def __init__(self) -> None:
        self._left = _HELD_BASE

    def hold(self, more: int, at: int) -> None:
        """Take bytes from the budget; a negative number adds bytes. CaptureError: the budget is exceeded."""
        self._left -= more
        if self._left < 0:
            text = f"the statistics take more memory than 64 MiB plus {_HELD_PER_BYTE} bytes per byte"
            raise CaptureError(f"{text}, {DOING}", offset=at)


def cut_batches(length: Int64s) -> Iterator[slice]:
    """Yield slices of nodes to read at once. ``length``: bytes of each node."""
    ends, first = np.cumsum(length), 0
    while first < len(ends):
        until = int(ends[first] - length[first]) + _MOST_BYTES
        last = min(first + BATCH, max(first + 1, int(np.searchsorted(ends, until, "right"))))
        yield slice(first, last)
        first = last


def read_device(data: Buffer, base: int, of: Field, salvage: bool, held: HeldStats) -> DeviceStats:
    """``of``: DeviceStepStats, whose value lies in ``data`` from ``of.at`` on. CaptureError: it does not decode."""
    at = np.array([of.at])
    try:
        device, lost = MessageColumns(data, ByteSpans(at, np.array([len(get_message(of.value))])), DOING), 0
    except CaptureError as fault:
        if not salvage or fault.offset is None:
            raise
        device, lost = MessageColumns(data, ByteSpans(at, np.array([fault.offset - of.at])), DOING), 1
    (name,) = decode_texts(data, device.spans(1))
    try:
        entries = MessageColumns(data, device.each(3).at, DOING)
    except CaptureError:
        if not salvage:
            raise
        threads = {}
    else:
        threads = dict(zip(entries.integers(1).tolist(), decode_texts(data, entries.spans(2)), strict=True))
    every = device.each(2).at
    held.hold(_OF_DEVICE + _OF_NODE * len(every.offset) - _HELD_PER_BYTE * len(get_message(of.value)), of.at)
    parts = [
        _read_times(data, ByteSpans(every.offset[some], every.length[some]), name, salvage, held)
        for some in (*cut_batches(every.length),) or (slice(0),)
    ]
    return _join_parts(data, base, name, threads, parts, lost)


@dataclass(frozen=True, slots=True)
class _NodeTimes:
    at: ByteSpans
    start_ns: Int64s
    duration_ns: Int64s
    thread: Int64s
    records: AllocationRecords
    untimed: int
    lost: int


def _read_times(data: Buffer, at: ByteSpans, device: str, salvage: bool, held: HeldStats) -> _NodeTimes:
    sound = at.taken(np.flatnonzero(at.length <= _LARGEST_NODE))
    if len(sound.length) < len(at.length) and not salvage:
        raise CaptureError(f"a node is larger than 1 MiB, {DOING}", offset=int(at.offset[at.length > _LARGEST_NODE][0]))
    sound = _drop_damaged(data, sound, device) if salvage else sound
    nodes = MessageColumns(data, sound, DOING, _NOT_TIMES)
    start = _read_absolute(nodes)
    rows = np.flatnonzero((start > 0) & (start < MOST_NS))
    allocators = nodes.each(_MEMORY)
    memory = MessageColumns(data, allocators.at, DOING)
    names = decode_texts(data, memory.spans(1))
    every = memory.each(6)
    labels = nodes.spans(_LABEL)
    inputs = sum(
        text.count(", ") for text in decode_texts(data, labels.taken(np.flatnonzero(labels.length > _LONG_LABEL)))
    )
    parts = len(nodes.each(_OUTPUT).owner) + inputs + len(names) + len(every.owner)
    held.hold(_OF_PART * parts, int(at.offset[0]) if len(at.offset) else 0)
    record = MessageColumns(data, every.at, DOING)
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    allocator = np.array([place[name] for name in names], np.int64)[every.owner]
    owner = np.full(nodes.count, -1, np.int64)
    owner[rows] = np.arange(len(rows))
    records = AllocationRecords(
        owner[allocators.owner[every.owner]], record.integers(1), record.integers(2), allocator, list(place)
    )
    duration = np.minimum(_read_relative(nodes, 3), MOST_NS - start)[rows]
    count = len(at.offset)
    return _NodeTimes(
        sound.taken(rows), start[rows], duration, nodes.integers(_THREAD)[rows], records, nodes.count - len(rows),
        count - nodes.count,
    )  # fmt: skip


def _drop_damaged(data: Buffer, at: ByteSpans, device: str) -> ByteSpans:
    """Return the nodes that decode in full."""
    try:
        read_nodes(data, at, device)
    except CaptureError:
        if len(at.offset) <= 1:
            return at.taken(np.zeros(0, np.int64))
        half = np.arange(len(at.offset)) < len(at.offset) // 2
        parts = [_drop_damaged(data, at.taken(np.flatnonzero(side)), device) for side in (half, ~half)]
        return ByteSpans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return at


def _join_parts(
    data: Buffer, base: int, name: str, threads: dict[int, str], parts: Sequence[_NodeTimes], lost: int
) -> DeviceStats:
    names = list(dict.fromkeys(name for part in parts for name in part.records.names))
    place = {name: number for number, name in enumerate(names)}
    firsts = count_bounds([len(part.start_ns) for part in parts])
    owners = [
        np.where(part.records.owner < 0, -1, part.records.owner + first)
        for part, first in zip(parts, firsts.tolist(), strict=False)
    ]
    allocators = [
        np.array([place[name] for name in part.records.names], np.int64)[part.records.allocator] for part in parts
    ]
    records = AllocationRecords(
        np.concatenate(owners), np.concatenate([part.records.micros for part in parts]),
        np.concatenate([part.records.size for part in parts]), np.concatenate(allocators), names,
    )  # fmt: skip
    at = ByteSpans(
        np.concatenate([part.at.offset for part in parts]), np.concatenate([part.at.length for part in parts])
    )
    start, duration, thread = (
        np.concatenate([getattr(part, column) for part in parts]) for column in ("start_ns", "duration_ns", "thread")
    )
    untimed = sum(part.untimed for part in parts)
    lost += sum(part.lost for part in parts)
    return DeviceStats(data, base, name, threads, at, start, duration, thread, records, untimed, lost)


def _convert_to_ns(micros: Int64s) -> Int64s:
    """Times out of range stay out of range."""
    return np.clip(micros, -1, MOST_NS // MICRO + 1) * MICRO


def _read_absolute(nodes: MessageColumns) -> Int64s:
    nanos = nodes.integers(_NANOS[0])
    return np.where(nanos > 0, nanos, _convert_to_ns(nodes.integers(_MICROS[0])))


def _read_relative(nodes: MessageColumns, which: int) -> Int64s:
    """Return times since the start: 1 of the op's start, 2 of its end, 3 of the end. Nanoseconds win: the relative
    microseconds are differences of truncated times."""
    has_nanos = nodes.integers(_NANOS[0]) > 0
    known = np.where(has_nanos, nodes.integers(_NANOS[which]), _convert_to_ns(nodes.integers(_MICROS[which])))
    return np.clip(known, 0, MOST_NS)


# ---- nodes in full


@dataclass(frozen=True, slots=True)
class NodeStats:
    """Some nodes, in full. ``sizes``: those of SIZES, of each memory of an allocator. ``outputs``: described."""

    names: list[str]
    labels: list[str]
    op_start_ns: Int64s
    op_end_ns: Int64s
    scheduled_micros: Int64s
    temp_bytes: Int64s
    persistent_bytes: Int64s
    allocator_owner: Int64s
    allocators: list[str]
    sizes: Int64s
    output_owner: Int64s
    slots: Int64s
    outputs: list[str]
    ops: list[RecordedOp]


SIZES: Final = ("total_bytes", "peak_bytes", "live_bytes", "bytes_in_use")
_SIZES: Final = (2, 3, 4, 5)
"""What an allocator says of a node, and the fields of it."""


def read_nodes(data: Buffer, at: ByteSpans, device: str) -> NodeStats:
    """CaptureError: one does not decode."""
    nodes = MessageColumns(data, at, DOING, (_REFERENCED,))
    names, labels = decode_texts(data, nodes.spans(_NAME)), decode_texts(data, nodes.spans(_LABEL))
    stats = MessageColumns(data, nodes.spans(_MEMORY_STATS), DOING)
    memory = nodes.each(_MEMORY)
    allocators = MessageColumns(data, memory.at, DOING)
    MessageColumns(data, allocators.each(6).at, DOING)
    outputs = nodes.each(_OUTPUT)
    slots = MessageColumns(data, outputs.at, DOING)
    return NodeStats(
        names, labels, _read_relative(nodes, 1), _read_relative(nodes, 2), nodes.integers(_SCHEDULED),
        stats.integers(1),
        stats.integers(3), memory.owner, decode_texts(data, allocators.spans(1)),
        np.column_stack([allocators.integers(number) for number in _SIZES]), outputs.owner, slots.integers(1),
        _describe_tensors(data, slots.spans(3)), [parse_op(*pair, device) for pair in zip(names, labels, strict=True)],
    )  # fmt: skip


def _describe_tensors(data: Buffer, tensors: ByteSpans) -> list[str]:
    """``float[2,3] 24/256 bytes cpu 0x7f``: type, dimensions, bytes requested and allocated, allocator, address. Empty:
    no tensor is described."""
    every = MessageColumns(data, tensors, DOING)
    shapes, blocks = _format_shapes(data, every.spans(2)), every.spans(4)
    block = MessageColumns(data, blocks, DOING)
    columns = zip(
        tensors.length.tolist(), every.integers(1).tolist(), shapes, blocks.length.tolist(),
        block.integers(1).tolist(), block.integers(2).tolist(), decode_texts(data, block.spans(3)),
        block.integers(6).tolist(),
        strict=True,
    )  # fmt: skip
    return [
        "" if length < 0 else f"{get_tensor_type_name(kind)}{shape}" + (
            "" if has_block < 0 else f" {requested}/{allocated} bytes {allocator} {pointer & _WORD:#x}"
        )
        for length, kind, shape, has_block, requested, allocated, allocator, pointer in columns
    ]  # fmt: skip


def _format_shapes(data: Buffer, at: ByteSpans) -> list[str]:
    shapes = MessageColumns(data, at, DOING)
    dimensions: Owned = shapes.each(2)
    sizes: list[list[str]] = [[] for _ in range(shapes.count)]
    every = MessageColumns(data, dimensions.at, DOING).integers(1).tolist()
    for owner, size in zip(dimensions.owner.tolist(), every, strict=True):
        sizes[owner].append(str(size))
    unknown = shapes.integers(3).tolist()
    return ["[?]" if no_rank else f"[{','.join(sizes_of)}]" for sizes_of, no_rank in zip(sizes, unknown, strict=True)]


def read_devices(step_stats: Field, data: Buffer, base: int, salvage: bool, held: HeldStats) -> Iterator[DeviceStats]:
    """CaptureError, BadMessageError: the bytes are no StepStats."""
    for part in read_sound_fields(get_message(step_stats.value), step_stats.at, salvage):
        if part.number == 1:
            yield read_device(data, base, part, salvage, held)


# ---- labels


@dataclass(frozen=True, slots=True)
class RecordedOp:
    """``kernel``: what tracers of devices record behind ``@@``."""

    node: str
    type: str
    inputs: Sequence[str] = ()
    kernel: str = ""

    @property
    def name(self) -> str:
        """``x:MatMul``, or the node alone where the type is unknown."""
        return self.node if self.type == UNKNOWN else f"{self.node}:{self.type}"


UNKNOWN: Final = "unknown"
_TRACER: Final = compile_late(r"/stream:|/memcpy", re.IGNORECASE)


def is_tracer(device: str) -> bool:
    """Return whether a device is what a tracer of kernels and copies shows."""
    return _TRACER.search(device) is not None


def parse_op(name: str, label: str, device: str) -> RecordedOp:
    """Parse the op that ran from its label: ``x = MatMul(a, b)``, of tracers ``kernel@@x:MatMul#id=0#`` or
    ``x:MatMul@@kernel#id=0#``: the part counts as the kernel that is not the name of the node."""
    if is_tracer(device):
        first, separator, rest = label.partition("@@")
        second, has_end, _ = rest.partition("#")
        if not separator or not has_end or not first:
            first, second = name, ""
        node, kernel = (second, first) if second == name else (first, second)
        head, _, type_ = node.partition(":")
        return RecordedOp(head, type_ or UNKNOWN, kernel=kernel)
    if name == "RecvTensor":
        return RecordedOp(name, name)
    close = label.rfind(")")
    opens = label.rfind("(", 0, max(close, 0))
    equals = label.rfind(" = ", 0, max(opens, 0))
    if equals < 0:
        return RecordedOp(name, UNKNOWN)
    inputs = tuple(label[opens + 1 : close].split(", ")) if close > opens + 1 else ()
    return RecordedOp(name, label[equals + 3 : opens], inputs)


_NODE_NAME, _START, _END, _NODE_OUTPUT, _NODE_LABEL, _START_NANOS, _END_NANOS = 1, 2, 5, 7, 8, 13, 16
_NOT_READ: Final = (6, 9, 10, 11, 12)
_RECEIVED: Final = "RecvTensor"
"""A node that uses no tensor of the host."""


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """What an allocator holds from each of these times on."""

    allocator: str
    micros: Int64s
    size: Int64s


@dataclass(slots=True)
class _Tensors:
    """The tensors of a run. ``place``: of the last tensor of each name."""

    place: dict[str, int] = field(default_factory=dict)
    allocator: list[str] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    begin: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)


def count_held_bytes(devices: Sequence[DeviceStats]) -> list[HeldBytes]:
    """CaptureError: a node does not decode."""
    tensors = _Tensors()
    for device in devices:
        for nodes in _read_batches(device):
            _make_tensors(tensors, device, nodes)
    if any(tensors.allocator):
        for device in devices:
            if not is_tracer(device.name):
                for nodes in _read_batches(device):
                    _use_tensors(tensors, device, nodes)
    return list(_count_held(tensors))


def _read_batches(device: DeviceStats) -> Iterator[MessageColumns]:
    for some in cut_batches(device.at.length):
        at = ByteSpans(device.at.offset[some], device.at.length[some])
        try:
            yield MessageColumns(device.data, at, DOING, _NOT_READ)
        except CaptureError as fault:
            raise CaptureError(fault.message, offset=device.base + (fault.offset or 0)) from None


def _get_micros(nodes: MessageColumns) -> tuple[Int64s, Int64s]:
    """Return starts and ends of nodes."""
    start, end = nodes.integers(_START), nodes.integers(_END)
    has_none = start == 0
    start = np.where(has_none, nodes.integers(_START_NANOS) // MICRO, start)
    return start, start + np.where(has_none, nodes.integers(_END_NANOS) // MICRO, end)


def _make_tensors(tensors: _Tensors, device: DeviceStats, nodes: MessageColumns) -> None:
    start, end = _get_micros(nodes)
    outputs = nodes.each(_NODE_OUTPUT)
    described = MessageColumns(device.data, outputs.at, DOING).spans(3)
    block = MessageColumns(device.data, MessageColumns(device.data, described, DOING).spans(4), DOING)
    number = np.arange(len(outputs.owner)) - np.searchsorted(outputs.owner, outputs.owner)
    names = decode_texts(device.data, nodes.spans(_NODE_NAME).taken(outputs.owner))
    rows = zip(
        names, number.tolist(), start[outputs.owner].tolist(), end[outputs.owner].tolist(), block.integers(1).tolist(),
        decode_texts(device.data, block.spans(3)), strict=True,
    )  # fmt: skip
    for name, output, begin, last, size, allocator in rows:
        tensors.place[f"{name}:{output}" if output else name] = len(tensors.size)
        tensors.allocator.append(allocator)
        tensors.size.append(size)
        tensors.begin.append(begin)
        tensors.end.append(last)


def _use_tensors(tensors: _Tensors, device: DeviceStats, nodes: MessageColumns) -> None:
    names, labels = (decode_texts(device.data, nodes.spans(number)) for number in (_NODE_NAME, _NODE_LABEL))
    for name, label, end in zip(names, labels, _get_micros(nodes)[1].tolist(), strict=True):
        if name == _RECEIVED:
            continue
        for source in parse_op(name, label, device.name).inputs:
            place = tensors.place.get(source)
            if place is None and (cut := source.rfind("/_")) > 0:  # a copy of it on another device
                place = tensors.place.get(source[:cut])
            if place is not None and end - 1 > tensors.end[place]:
                tensors.end[place] = end - 1


def _count_held(tensors: _Tensors) -> Iterator[HeldBytes]:
    places = np.array(list(tensors.place.values()), np.int64)
    if not len(places):
        return
    allocators = [tensors.allocator[place] for place in places.tolist()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(allocators))}
    number = np.array([numbers[name] for name in allocators], np.int64)
    size, begin, end = (np.array(column, np.int64)[places] for column in (tensors.size, tensors.begin, tensors.end))
    for name, own in numbers.items():
        rows = np.flatnonzero(number == own)
        if not name and not size[rows].any():
            continue
        times = np.concatenate([begin[rows], end[rows]])
        change = np.concatenate([size[rows], -size[rows]])
        order = sort_rows(times, change)
        yield HeldBytes(name, times[order], np.cumsum(change[order]))
