"""StepStats: what TensorFlow 1 records of one run of a graph, by device and node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from fastprof.inputs.message_bytes import Field, fields, message, signed, text

MICRO: Final = 1_000
"""Nanoseconds."""
MOST_NS: Final = 1 << 62
"""Times beyond this, some 146 years after 1970, are none."""


@dataclass(slots=True)
class Allocator:
    """What a node allocated by one allocator; ``records``: when, in microseconds, and how many bytes, negative: freed.
    Sizes that are 0 are not recorded."""

    name: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    records: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Node:
    """A node that ran. Times are those of the proto, all but ``start`` relative to it; ``micros``, ``nanos``: start, op
    start, op end, end."""

    name: str = ""
    label: str = ""
    micros: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    nanos: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    scheduled_micros: int = 0
    thread: int = 0
    temp_bytes: int = 0
    persistent_bytes: int = 0
    allocators: list[Allocator] = field(default_factory=list)
    outputs: dict[int, str] = field(default_factory=dict)

    @property
    def start_ns(self) -> int:
        return self.nanos[0] if self.nanos[0] > 0 else self.micros[0] * MICRO

    def relative_ns(self, which: int) -> int:
        """From the start: 1 to the start of the op, 2 to its end, 3 to the end."""
        known = self.nanos[which] if self.nanos[0] > 0 else self.micros[which] * MICRO
        return min(max(known, 0), MOST_NS)


@dataclass(slots=True)
class Device:
    name: str = ""
    nodes: list[Node] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)


def devices(step_stats: Field) -> Iterator[Device]:
    """BadMessageError: the bytes are no StepStats."""
    for one in fields(message(step_stats.value), step_stats.at):
        if one.number == 1:
            yield _device(one)


def _device(of: Field) -> Device:
    found = Device()
    for one in fields(message(of.value), of.at):
        if one.number == 1:
            found.name = text(one.value)
        elif one.number == 2:
            found.nodes.append(_node(one))
        elif one.number == 3:
            entry = {part.number: part.value for part in fields(message(one.value), one.at)}
            found.threads[signed(entry.get(1, 0))] = text(entry.get(2, 0))
    return found


_MICROS: Final = {2: 0, 3: 1, 4: 2, 5: 3}
_NANOS: Final = {13: 0, 14: 1, 15: 2, 16: 3}


def _node(of: Field) -> Node:
    node = Node()
    for one in fields(message(of.value), of.at):
        number, value = one.number, one.value
        if number in _MICROS:
            node.micros[_MICROS[number]] = signed(value)
        elif number in _NANOS:
            node.nanos[_NANOS[number]] = signed(value)
        elif number == 1:
            node.name = text(value)
        elif number == 8:
            node.label = text(value)
        elif number == 9:
            node.scheduled_micros = signed(value)
        elif number == 10:
            node.thread = signed(value)
        elif number == 6:
            node.allocators.append(_allocator(one))
        elif number == 7:
            _output(one, node.outputs)
        elif number == 12:
            sizes = {part.number: signed(part.value) for part in fields(message(value), one.at)}
            node.temp_bytes, node.persistent_bytes = sizes.get(1, 0), sizes.get(3, 0)
    return node


_SIZES: Final = {2: "total_bytes", 3: "peak_bytes", 4: "live_bytes", 5: "bytes_in_use"}


def _allocator(of: Field) -> Allocator:
    found = Allocator()
    for one in fields(message(of.value), of.at):
        if one.number == 1:
            found.name = text(one.value)
        elif one.number in _SIZES:
            found.sizes[_SIZES[one.number]] = signed(one.value)
        elif one.number == 6:
            record = {part.number: signed(part.value) for part in fields(message(one.value), one.at)}
            found.records.append((record.get(1, 0), record.get(2, 0)))
    return found


TYPES: Final = (
    "invalid", "float", "double", "int32", "uint8", "int16", "int8", "string", "complex64", "int64", "bool", "qint8",
    "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128", "half", "resource", "variant",
    "uint32", "uint64",
)  # fmt: skip
"""Names of DataType, by number."""


def _output(of: Field, outputs: dict[int, str]) -> None:
    """``float[2,3] 24/256 bytes cpu 0x7f``: type, dimensions, bytes requested and allocated, allocator, address."""
    slot, described = 0, ""
    for one in fields(message(of.value), of.at):
        if one.number == 1:
            slot = signed(one.value)
        elif one.number == 3:
            described = _tensor(one)
    outputs[slot] = described


def _tensor(of: Field) -> str:
    kind, shape, bytes_ = "invalid", "[]", ""
    for one in fields(message(of.value), of.at):
        if one.number == 1:
            number = signed(one.value)
            kind = TYPES[number] if 0 <= number < len(TYPES) else f"type {number}"
        elif one.number == 2:
            shape = _shape(one)
        elif one.number == 4:
            part = {member.number: member.value for member in fields(message(one.value), one.at)}
            requested, allocated, pointer = (signed(part.get(number, 0)) for number in (1, 2, 6))
            bytes_ = f" {requested}/{allocated} bytes {text(part.get(3, 0))} {pointer & (1 << 64) - 1:#x}"
    return f"{kind}{shape}{bytes_}"


def _shape(of: Field) -> str:
    sizes = []
    for one in fields(message(of.value), of.at):
        if one.number == 2:
            dimension = {part.number: signed(part.value) for part in fields(message(one.value), one.at)}
            sizes.append(str(dimension.get(1, 0)))
        elif one.number == 3 and one.value:
            return "[?]"
    return f"[{','.join(sizes)}]"


# ---- labels


@dataclass(frozen=True, slots=True)
class Op:
    """``kernel``: what tracers of devices record behind ``@@``."""

    node: str
    type: str
    inputs: Sequence[str] = ()
    kernel: str = ""


UNKNOWN: Final = "unknown"
_TRACER: Final = re.compile(r"/stream:|/memcpy", re.IGNORECASE)


def is_tracer(device: str) -> bool:
    """Whether a device is what a tracer of kernels and copies shows."""
    return _TRACER.search(device) is not None


def op_of(node: Node, device: str) -> Op:
    """What ran, by the label: ``x = MatMul(a, b)``, of tracers ``x:MatMul@@kernel#id=0#``."""
    if is_tracer(device):
        name, found, rest = node.label.partition("@@")
        if not found or "#" not in rest or not name:
            name = node.name
        head, _, type_ = name.partition(":")
        return Op(head, type_ or UNKNOWN, kernel=rest.partition("#")[0])
    if node.name == "RecvTensor":
        return Op(node.name, node.name)
    label = node.label
    close = label.rfind(")")
    opens = label.rfind("(", 0, max(close, 0))
    equals = label.rfind(" = ", 0, max(opens, 0))
    if equals < 0:
        return Op(node.name, UNKNOWN)
    inputs = tuple(label[opens + 1 : close].split(", ")) if close > opens + 1 else ()
    return Op(node.name, label[equals + 3 : opens], inputs)
