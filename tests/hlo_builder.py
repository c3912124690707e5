"""Compiled programs made by hand, as the bytes of an HloProto.

    program = Program("jit_f")
    body = program.computation("fused", Op("p", "parameter", f32(4)), Op("e", "exponential", f32(4), ["p"]))
    program.entry(Op("x", "parameter", f32(4)), Op("y", "fusion", f32(4), ["x"], calls=[body], fusion_kind="kLoop"))
    program.proto()

Operands are names of instructions of the same computation. The last instruction of a computation is its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_builder import int_field, len_field, varint

TYPES = {"pred": 1, "s8": 2, "s32": 4, "u32": 8, "f16": 10, "f32": 11, "f64": 12, "c64": 15, "bf16": 16, "s4": 21}
TUPLE, TOKEN = 13, 17


def packed(number: int, values: Sequence[int]) -> bytes:
    """A repeated int64, as protobuf writes it."""
    return len_field(number, b"".join(varint(value) for value in values)) if values else b""


def shape(
    kind: str,
    *dimensions: int,
    order: Sequence[int] | None = None,
    space: int = 0,
    bits: int = 0,
    tiles: Sequence[Sequence[int]] = (),
    alignment: int = 1,
) -> bytes:
    """A ShapeProto; ``order``: minor to major."""
    minor = range(len(dimensions) - 1, -1, -1) if order is None else order
    tiled = b"".join(len_field(6, packed(1, tile)) for tile in tiles)
    layout = packed(1, list(minor)) + tiled + (int_field(7, bits) if bits else b"")
    layout += (int_field(8, space) if space else b"") + int_field(16, alignment)
    return int_field(2, TYPES[kind]) + packed(3, dimensions) + packed(6, [0] * len(dimensions)) + len_field(5, layout)


def f32(*dimensions: int) -> bytes:
    return shape("f32", *dimensions)


def tuple_of(*shapes: bytes) -> bytes:
    return int_field(2, TUPLE) + b"".join(len_field(4, one) for one in shapes)


@dataclass(frozen=True)
class Op:
    """An HloInstructionProto; ``raw``: fields that are written as they are."""

    name: str
    opcode: str
    shape: bytes
    operands: Sequence[str] = ()
    calls: Sequence[int] = ()
    fusion_kind: str = ""
    target: str = ""
    op_name: str = ""
    op_type: str = ""
    tuple_index: int = 0
    raw: bytes = b""
    metadata: bytes = b""
    """Further fields of its OpMetadata."""


@dataclass
class Program:
    name: str
    computations: list[bytes] = field(default_factory=list)
    next_id: int = 1
    ids: dict[str, int] = field(default_factory=dict)
    """Of instructions, by name; of equal ones the last."""
    entry_shape: bytes = b""
    stack_frames: bytes = b""
    """A StackFrameIndexProto."""

    def computation(self, name: str, *ops: Op, fused: bool = False) -> int:
        """Adds a computation and returns its id."""
        ids: dict[str, int] = {}
        parameters = 0
        written = b""
        for op in ops:
            ids[op.name] = self.ids[op.name] = self.next_id
            self.next_id += 1
            number = parameters if op.opcode == "parameter" else 0
            parameters += op.opcode == "parameter"
            written += len_field(2, _instruction(op, ids, number))
        number = len(self.computations) + 1
        root = ids[ops[-1].name] if ops else 0
        self.entry_shape = program_shape(ops)
        self.computations.append(
            len_field(1, name)
            + written
            + len_field(4, self.entry_shape)
            + int_field(5, number)
            + int_field(6, root)
            + (int_field(7, 1) if fused else b"")
        )
        return number

    def entry(self, *ops: Op) -> None:
        self.computation("main", *ops)

    def proto(self, buffer_assignment: bytes = b"") -> bytes:
        """The last computation is the entry."""
        module = (
            len_field(1, self.name) + len_field(2, "main") + b"".join(len_field(3, one) for one in self.computations)
        )
        module += len_field(4, self.entry_shape) + int_field(5, 7) + int_field(6, len(self.computations))
        module += len_field(17, self.stack_frames) if self.stack_frames else b""
        return len_field(1, module) + (len_field(3, buffer_assignment) if buffer_assignment else b"")


def program_shape(ops: Sequence[Op]) -> bytes:
    """The ProgramShapeProto of a computation."""
    parameters = [op for op in ops if op.opcode == "parameter"]
    written = b"".join(len_field(1, op.shape) for op in parameters) + (len_field(2, ops[-1].shape) if ops else b"")
    return written + b"".join(len_field(3, op.name) for op in parameters)


def _instruction(op: Op, ids: dict[str, int], parameter_number: int) -> bytes:
    metadata = len_field(1, op.op_type) + len_field(2, op.op_name) + op.metadata
    texts = len_field(1, op.name) + len_field(2, op.opcode) + len_field(3, op.shape) + len_field(7, metadata)
    kinds = len_field(11, op.fusion_kind) + len_field(28, op.target)
    numbers = int_field(9, parameter_number) + int_field(13, op.tuple_index) + int_field(35, ids[op.name])
    links = packed(36, [ids[name] for name in op.operands]) + packed(38, op.calls)
    return texts + kinds + numbers + links + op.raw
