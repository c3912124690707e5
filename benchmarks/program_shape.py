"""A capture of one large compiled program: layer after layer, each a fusion, what it reads, and a collective.

A TPU core runs each instruction of the entry computation once. The program has a buffer for every instruction and the
trace of the heap that they lie in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from host_shape import HostCapture
from trace_writer import (
    PLANE_EVENT_METADATA,
    PLANE_ID,
    PLANE_NAME,
    PLANE_STAT_METADATA,
    CaptureWriter,
    bytes_field,
    line_head,
    map_entry,
    number_field,
    text_field,
    varint,
)

FUSED = ("negate", "exponential", "tanh", "abs", "sine", "copy", "sqrt", "logistic")
A_LAYER = len(FUSED) + 1 + 3
"""Instructions of a layer: those fused and their parameter; the fusion, a collective and a conversion."""
TITLE, PROGRAM_ID = "jit_train", 77
OP_PS = 1_250_000
BUFFER_BYTES = 65_536
SHAPE_TEXT = "bf16[128,1000]{1,0:T(8,128)(2,1)}"
STATS = ("Hlo Proto", "program_id", "symbol_id", "hlo_category", "tf_op", "flops", "bytes_accessed", "source")
STAT_ID = {name: number for number, name in enumerate(STATS, 1)}
BF16 = 16


def packed(field: int, *values: int) -> bytes:
    return bytes_field(field, b"".join(map(varint, values)))


SHAPE = (
    number_field(2, BF16)
    + packed(3, 128, 1000)
    + bytes_field(5, packed(1, 1, 0) + bytes_field(6, packed(1, 8, 128)) + bytes_field(6, packed(1, 2, 1)))
)
SCALAR = number_field(2, BF16) + bytes_field(5, b"")


def _instruction(
    number: int,
    name: str,
    opcode: str,
    *,
    operands: Sequence[int] = (),
    parameter: int = 0,
    calls: int = 0,
    scope: str = "",
    shape: bytes = SHAPE,
) -> bytes:
    metadata = text_field(2, scope) + text_field(3, "/src/model.py") + number_field(4, number % 500 + 1)
    written = text_field(1, name) + text_field(2, opcode) + bytes_field(3, shape) + number_field(35, number)
    written += bytes_field(7, metadata) if scope else b""
    written += packed(36, *operands) if operands else b""
    written += packed(38, calls) if calls else b""
    written += number_field(9, parameter)
    return bytes_field(2, written + (text_field(11, "kLoop") if opcode == "fusion" else b""))


def _signature(shape: bytes, parameters: Sequence[str]) -> bytes:
    return b"".join(bytes_field(1, shape) + text_field(3, name) for name in parameters) + bytes_field(2, shape)


def _computation(
    number: int, name: str, instructions: list[bytes], root: int, shape: bytes = SHAPE, parameters: Sequence[str] = "x"
) -> bytes:
    tail = bytes_field(4, _signature(shape, parameters)) + number_field(5, number) + number_field(6, root)
    return bytes_field(3, text_field(1, name) + b"".join(instructions) + tail)


class _Program:
    """Writes the module, and keeps what ran and what has a buffer."""

    def __init__(self, layers: int) -> None:
        self.number = 0
        self.names: list[str] = []
        """Of all instructions, by number less 1."""
        self.ran: list[tuple[str, str, str]] = []
        """Name, category and scope of the instructions of the entry."""
        adder = [
            self._add("a", "parameter", shape=SCALAR),
            self._add("b", "parameter", shape=SCALAR, parameter=1),
            self._add("c", "add", operands=(1, 2), shape=SCALAR),
        ]
        computations = [_computation(1, "add", adder, 3, SCALAR, "ab")]
        entry = [self._add("x", "parameter")]
        last = self.number
        for layer in range(layers):
            computations.append(self._fused(layer))
            scope = f"jit(train)/jit(main)/Model/layer_{layer}"
            for name, category, calls in (
                (f"fusion.{layer}", "fusion", layer + 2),
                (f"all-reduce.{layer}", "all-reduce", 1),
                (f"convert.{layer}", "convert", 0),
            ):
                entry.append(self._add(name, category, operands=(last,), calls=calls, scope=f"{scope}/{category}"))
                self.ran.append((name, "loop fusion" if category == "fusion" else category, f"{scope}/{category}"))
                last = self.number
        computations.append(_computation(layers + 2, "main", entry, last))
        signature = bytes_field(4, _signature(SHAPE, ("x",)))
        head = text_field(1, TITLE) + text_field(2, "main")
        self.module = head + b"".join(computations) + signature + number_field(5, 1) + number_field(6, layers + 2)

    def _add(
        self,
        name: str,
        opcode: str,
        *,
        operands: Sequence[int] = (),
        parameter: int = 0,
        calls: int = 0,
        scope: str = "",
        shape: bytes = SHAPE,
    ) -> bytes:
        self.number += 1
        self.names.append(name)
        return _instruction(
            self.number, name, opcode, operands=operands, parameter=parameter, calls=calls, scope=scope, shape=shape
        )

    def _fused(self, layer: int) -> bytes:
        inner = [self._add(f"p.{layer}", "parameter")]
        for opcode in FUSED:
            scope = f"jit(train)/jit(main)/Model/layer_{layer}/mlp/{opcode}"
            inner.append(self._add(f"{opcode}.{layer}", opcode, operands=(self.number,), scope=scope))
        return _computation(layer + 2, f"fused_computation.{layer}", inner, self.number)

    def buffers(self) -> bytes:
        """The BufferAssignmentProto: each buffer is alive until the next but two."""
        written, held, events = [], [], []
        for number, name in enumerate(self.names, 1):
            where = text_field(2, name) + number_field(4, number)
            written.append(
                bytes_field(1, number_field(1, number) + number_field(2, BUFFER_BYTES) + bytes_field(3, where))
            )
            place = number_field(2, number % 3 * BUFFER_BYTES)
            held.append(bytes_field(9, number_field(1, number) + place + number_field(3, BUFFER_BYTES)))
            if number > 3:
                events.append(bytes_field(1, number_field(1, 1) + number_field(2, number - 3) + text_field(4, name)))
            events.append(bytes_field(1, number_field(2, number) + text_field(4, name)))
        allocation = number_field(2, 3 * BUFFER_BYTES) + b"".join(held)
        return b"".join(written) + bytes_field(3, allocation) + bytes_field(4, b"".join(events) + number_field(2, 1))

    def proto(self) -> bytes:
        return bytes_field(1, self.module) + bytes_field(3, self.buffers())


def _stat(name: str, field: int, value: int | str | bytes) -> bytes:
    encoded = number_field(field, value) if isinstance(value, int) else b""
    if isinstance(value, str):
        encoded = text_field(field, value)
    elif isinstance(value, bytes):
        encoded = bytes_field(field, value)
    return bytes_field(5, number_field(1, STAT_ID[name]) + encoded)


def write_program(out: CaptureWriter, rng: np.random.Generator, instructions: int) -> HostCapture:
    """A capture of a program with about this number of instructions."""
    program = _Program(max(1, instructions // A_LAYER))
    counts = HostCapture(events=len(program.ran), lines=1)
    names = b"".join(
        map_entry(PLANE_STAT_METADATA, number, number_field(1, number) + text_field(2, name))
        for name, number in STAT_ID.items()
    )
    with out.plane() as plane:
        plane.write(number_field(PLANE_ID, 2) + text_field(PLANE_NAME, "/device:TPU:0"))
        plane.line(
            line_head(3, "XLA Ops", 0),
            b"".join(_events(rng.integers(OP_PS // 2, OP_PS, len(program.ran)).tolist())),
            b"",
        )
        plane.write(names)
        for number, (name, category, scope) in enumerate(program.ran, 1):
            plane.write(map_entry(PLANE_EVENT_METADATA, number, _op(number, name, category, scope)))
    with out.plane() as plane:
        plane.write(number_field(PLANE_ID, 1) + text_field(PLANE_NAME, "/host:metadata") + names)
        title = number_field(1, PROGRAM_ID) + text_field(2, f"{TITLE}({PROGRAM_ID})")
        plane.write(map_entry(PLANE_EVENT_METADATA, PROGRAM_ID, title + _stat("Hlo Proto", 6, program.proto())))
    return counts


def _events(took: list[int]) -> list[bytes]:
    """XEvents as a line holds them, one after the other, of these durations."""
    return [
        bytes_field(4, number_field(1, k + 1) + number_field(2, k * OP_PS) + number_field(3, duration))
        for k, duration in enumerate(took)
    ]


def _op(number: int, name: str, category: str, scope: str) -> bytes:
    opcode = "fusion" if category == "loop fusion" else category
    text = f"%{name} = {SHAPE_TEXT} {opcode}({SHAPE_TEXT} %p.{number})"
    stats = _stat("program_id", 3, PROGRAM_ID) + _stat("symbol_id", 3, number) + _stat("hlo_category", 5, category)
    stats += _stat("tf_op", 5, f"{scope}:") + _stat("flops", 3, 1_024_000) + _stat("bytes_accessed", 3, 512_000)
    stats += _stat("source", 5, f"/src/model.py:{number % 500 + 1}")
    return number_field(1, number) + text_field(2, text) + text_field(4, name) + stats
