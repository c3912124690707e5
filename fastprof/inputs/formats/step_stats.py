"""StepStats: what TensorFlow 1 records of one run of a graph, by device and node, as columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.message_bytes import Field, message, sound_fields
from fastprof.inputs.message_columns import Buffer, MessageColumns, Owned, Spans, texts
from fastprof.schema.array_types import Int64s
from fastprof.schema.tensor_types import name_of
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

MICRO: Final = 1_000
"""Nanoseconds."""
MOST_NS: Final = 1 << 62
"""Times beyond this, some 146 years after 1970, are none."""
BATCH: Final = 1 << 13
"""Nodes that are read at once."""
DOING: Final = "reading RunMetadata"
_NAME, _LABEL, _MEMORY, _OUTPUT, _SCHEDULED, _THREAD, _MEMORY_STATS = 1, 8, 6, 7, 9, 10, 12
_MICROS: Final = (2, 3, 4, 5)
_NANOS: Final = (13, 14, 15, 16)
"""Fields: the start, and relative to it the start of the op, its end, and the end."""
_REFERENCED: Final = 11
_NOT_TIMES: Final = (_NAME, _LABEL, _OUTPUT, _SCHEDULED, _REFERENCED, _MEMORY_STATS)
_WORD: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a run: its nodes that have a time, in order. ``untimed``: the others; ``lost``: damaged ones.

    ``data``: the RunMetadata, which begins at ``base`` in the file, and in which the nodes lie ``at``.
    ``records``: what allocators recorded, with the row of the node as its owner.
    """

    data: Buffer
    base: int
    name: str
    threads: dict[int, str]
    at: Spans
    start_ns: Int64s
    duration_ns: Int64s
    thread: Int64s
    records: Records
    untimed: int
    lost: int

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True)
class Records:
    """Allocations and deallocations, with the sign of their size. ``allocator``: the place of its name in ``names``."""

    owner: Int64s
    micros: Int64s
    size: Int64s
    allocator: Int64s
    names: list[str]


def read_device(data: Buffer, base: int, of: Field, salvage: bool) -> Device:
    """``of``: DeviceStepStats, whose value lies in ``data`` from ``of.at`` on. CaptureError: it does not decode."""
    device, lost = _fields(data, of, salvage)
    (name,) = texts(data, device.spans(1))
    threads = _threads(data, device.each(3).at, salvage)
    every = device.each(2).at
    parts = [
        _read_times(
            data, Spans(every.offset[first : first + BATCH], every.length[first : first + BATCH]), name, salvage
        )
        for first in range(0, max(len(every.offset), 1), BATCH)
    ]
    return _joined(data, base, name, threads, parts, lost)


def _fields(data: Buffer, of: Field, salvage: bool) -> tuple[MessageColumns, int]:
    """The fields of a device; 1: after a fault there are more."""
    at = np.array([of.at])
    try:
        return MessageColumns(data, Spans(at, np.array([len(message(of.value))])), DOING), 0
    except CaptureError as fault:
        if not salvage or fault.offset is None:
            raise
        return MessageColumns(data, Spans(at, np.array([fault.offset - of.at])), DOING), 1


def _threads(data: Buffer, at: Spans, salvage: bool) -> dict[int, str]:
    try:
        entries = MessageColumns(data, at, DOING)
    except CaptureError:
        if not salvage:
            raise
        return {}
    return dict(zip(entries.integers(1).tolist(), texts(data, entries.spans(2)), strict=True))


@dataclass(frozen=True, slots=True)
class _Times:
    at: Spans
    start_ns: Int64s
    duration_ns: Int64s
    thread: Int64s
    records: Records
    untimed: int
    lost: int


def _read_times(data: Buffer, at: Spans, device: str, salvage: bool) -> _Times:
    sound = _sound(data, at, device) if salvage else at
    nodes = MessageColumns(data, sound, DOING, _NOT_TIMES)
    start = _absolute(nodes)
    rows = np.flatnonzero((start > 0) & (start < MOST_NS))
    allocators = nodes.each(_MEMORY)
    memory = MessageColumns(data, allocators.at, DOING)
    names = texts(data, memory.spans(1))
    every = memory.each(6)
    record = MessageColumns(data, every.at, DOING)
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    allocator = np.array([place[one] for one in names], np.int64)[every.owner]
    owner = np.full(nodes.count, -1, np.int64)
    owner[rows] = np.arange(len(rows))
    records = Records(
        owner[allocators.owner[every.owner]], record.integers(1), record.integers(2), allocator, list(place)
    )
    duration = np.minimum(_relative(nodes, 3), MOST_NS - start)[rows]
    count = len(at.offset)
    return _Times(
        sound.taken(rows), start[rows], duration, nodes.integers(_THREAD)[rows], records, nodes.count - len(rows),
        count - nodes.count,
    )  # fmt: skip


def _sound(data: Buffer, at: Spans, device: str) -> Spans:
    """Those of the nodes that decode in full."""
    try:
        read_nodes(data, at, device)
    except CaptureError:
        if len(at.offset) <= 1:
            return at.taken(np.zeros(0, np.int64))
        half = np.arange(len(at.offset)) < len(at.offset) // 2
        parts = [_sound(data, at.taken(np.flatnonzero(side)), device) for side in (half, ~half)]
        return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return at


def _joined(data: Buffer, base: int, name: str, threads: dict[int, str], parts: Sequence[_Times], lost: int) -> Device:
    names = list(dict.fromkeys(one for part in parts for one in part.records.names))
    place = {one: number for number, one in enumerate(names)}
    firsts = np.cumsum([0, *(len(part.start_ns) for part in parts)])
    owners = [
        np.where(part.records.owner < 0, -1, part.records.owner + first)
        for part, first in zip(parts, firsts.tolist(), strict=False)
    ]
    allocators = [
        np.array([place[one] for one in part.records.names], np.int64)[part.records.allocator] for part in parts
    ]
    records = Records(
        np.concatenate(owners), np.concatenate([part.records.micros for part in parts]),
        np.concatenate([part.records.size for part in parts]), np.concatenate(allocators), names,
    )  # fmt: skip
    at = Spans(np.concatenate([part.at.offset for part in parts]), np.concatenate([part.at.length for part in parts]))
    start, duration, thread = (
        np.concatenate([getattr(part, column) for part in parts]) for column in ("start_ns", "duration_ns", "thread")
    )
    untimed = sum(part.untimed for part in parts)
    lost += sum(part.lost for part in parts)
    return Device(data, base, name, threads, at, start, duration, thread, records, untimed, lost)


def _nanoseconds(micros: Int64s) -> Int64s:
    """Times out of range stay out of range."""
    return np.clip(micros, -1, MOST_NS // MICRO + 1) * MICRO


def _absolute(nodes: MessageColumns) -> Int64s:
    nanos = nodes.integers(_NANOS[0])
    return np.where(nanos > 0, nanos, _nanoseconds(nodes.integers(_MICROS[0])))


def _relative(nodes: MessageColumns, which: int) -> Int64s:
    """From the start: 1 to the start of the op, 2 to its end, 3 to the end. Nanoseconds win: the relative microseconds
    are differences of truncated times."""
    has_nanos = nodes.integers(_NANOS[0]) > 0
    known = np.where(has_nanos, nodes.integers(_NANOS[which]), _nanoseconds(nodes.integers(_MICROS[which])))
    return np.clip(known, 0, MOST_NS)


# ---- nodes in full


@dataclass(frozen=True, slots=True)
class Nodes:
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
    ops: list[Op]


SIZES: Final = ("total_bytes", "peak_bytes", "live_bytes", "bytes_in_use")
_SIZES: Final = (2, 3, 4, 5)
"""What an allocator says of a node, and the fields of it."""


def read_nodes(data: Buffer, at: Spans, device: str) -> Nodes:
    """CaptureError: one does not decode."""
    nodes = MessageColumns(data, at, DOING, (_REFERENCED,))
    names, labels = texts(data, nodes.spans(_NAME)), texts(data, nodes.spans(_LABEL))
    stats = MessageColumns(data, nodes.spans(_MEMORY_STATS), DOING)
    memory = nodes.each(_MEMORY)
    allocators = MessageColumns(data, memory.at, DOING)
    MessageColumns(data, allocators.each(6).at, DOING)
    outputs = nodes.each(_OUTPUT)
    slots = MessageColumns(data, outputs.at, DOING)
    return Nodes(
        names, labels, _relative(nodes, 1), _relative(nodes, 2), nodes.integers(_SCHEDULED), stats.integers(1),
        stats.integers(3), memory.owner, texts(data, allocators.spans(1)),
        np.column_stack([allocators.integers(number) for number in _SIZES]), outputs.owner, slots.integers(1),
        _described(data, slots.spans(3)), [op_of(*one, device) for one in zip(names, labels, strict=True)],
    )  # fmt: skip


def _described(data: Buffer, tensors: Spans) -> list[str]:
    """``float[2,3] 24/256 bytes cpu 0x7f``: type, dimensions, bytes requested and allocated, allocator, address. Empty:
    no tensor is described."""
    every = MessageColumns(data, tensors, DOING)
    shapes, blocks = _shapes(data, every.spans(2)), every.spans(4)
    block = MessageColumns(data, blocks, DOING)
    columns = zip(
        tensors.length.tolist(), every.integers(1).tolist(), shapes, blocks.length.tolist(),
        block.integers(1).tolist(), block.integers(2).tolist(), texts(data, block.spans(3)), block.integers(6).tolist(),
        strict=True,
    )  # fmt: skip
    return [
        "" if length < 0 else f"{name_of(kind)}{shape}" + (
            "" if has_block < 0 else f" {requested}/{allocated} bytes {allocator} {pointer & _WORD:#x}"
        )
        for length, kind, shape, has_block, requested, allocated, allocator, pointer in columns
    ]  # fmt: skip


def _shapes(data: Buffer, at: Spans) -> list[str]:
    shapes = MessageColumns(data, at, DOING)
    dimensions: Owned = shapes.each(2)
    sizes: list[list[str]] = [[] for _ in range(shapes.count)]
    every = MessageColumns(data, dimensions.at, DOING).integers(1).tolist()
    for owner, size in zip(dimensions.owner.tolist(), every, strict=True):
        sizes[owner].append(str(size))
    unknown = shapes.integers(3).tolist()
    return ["[?]" if no_rank else f"[{','.join(one)}]" for one, no_rank in zip(sizes, unknown, strict=True)]


def devices(step_stats: Field, data: Buffer, base: int, salvage: bool) -> Iterator[Device]:
    """CaptureError, BadMessageError: the bytes are no StepStats."""
    for one in sound_fields(message(step_stats.value), step_stats.at, salvage):
        if one.number == 1:
            yield read_device(data, base, one, salvage)


# ---- labels


@dataclass(frozen=True, slots=True)
class Op:
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
_TRACER: Final = pattern_of(r"/stream:|/memcpy", re.IGNORECASE)


def is_tracer(device: str) -> bool:
    """Whether a device is what a tracer of kernels and copies shows."""
    return _TRACER.search(device) is not None


def op_of(name: str, label: str, device: str) -> Op:
    """What ran, by the label: ``x = MatMul(a, b)``, of tracers ``kernel@@x:MatMul#id=0#`` or
    ``x:MatMul@@kernel#id=0#``: the part counts as the kernel that is not the name of the node."""
    if is_tracer(device):
        first, found, rest = label.partition("@@")
        second, has_end, _ = rest.partition("#")
        if not found or not has_end or not first:
            first, second = name, ""
        node, kernel = (second, first) if second == name else (first, second)
        head, _, type_ = node.partition(":")
        return Op(head, type_ or UNKNOWN, kernel=kernel)
    if name == "RecvTensor":
        return Op(name, name)
    close = label.rfind(")")
    opens = label.rfind("(", 0, max(close, 0))
    equals = label.rfind(" = ", 0, max(opens, 0))
    if equals < 0:
        return Op(name, UNKNOWN)
    inputs = tuple(label[opens + 1 : close].split(", ")) if close > opens + 1 else ()
    return Op(name, label[equals + 3 : opens], inputs)
