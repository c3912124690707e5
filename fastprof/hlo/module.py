"""One compiled program: its computations and instructions, looked up by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native.hlo import read_hlo
from fastprof.hlo.columns import COMPUTATION, INSTRUCTION, SHAPE
from fastprof.hlo.shapes import NO_SHAPE, Shape
from fastprof.names import Int32s, texts_of

Records = npt.NDArray[np.void]
_ARGUMENTS = ("XLA_Args", "XLA_Retvals")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction as the cost model and the texts about it need it. ``row`` is its row in the module."""

    row: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    """Rows of instructions; -1 where the module has no such instruction."""
    calls: tuple[int, ...]
    """Rows of computations, likewise."""
    parameter_number: int
    tuple_index: int
    fusion_kind: str
    custom_call_target: str
    proto: memoryview
    """The HloInstructionProto."""


class HloModule:
    """The columns of csrc/formats/hlo.h, and what is looked up in them. Raises CaptureError, with the offset in
    ``data``, where the bytes are no HloProto."""

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)
        raw = read_hlo(data)
        self.entry: int = raw["entry"]
        self.computations: Records = np.frombuffer(raw["computations"], COMPUTATION)
        self.instructions: Records = np.frombuffer(raw["instructions"], INSTRUCTION)
        self.shapes: Records = np.frombuffer(raw["shapes"], SHAPE)
        self.operands: Int32s = np.frombuffer(raw["operands"], np.int32)
        self.calls: Int32s = np.frombuffer(raw["calls"], np.int32)
        self.dimensions: npt.NDArray[np.int64] = np.frombuffer(raw["dimensions"], np.int64)
        self.texts = texts_of(*raw["texts"])
        self.name: str = self.text(raw["name"])
        self._met: dict[int, Instruction] = {}

    def __len__(self) -> int:
        return len(self.instructions)

    def text(self, number: int) -> str:
        return str(self.texts[number].as_py())

    # ---- instructions

    @cached_property
    def _named(self) -> dict[str, int]:
        """The row of the first instruction of each name."""
        numbers = self.instructions["name"][::-1]
        named: dict[str, int] = dict(
            zip(self.texts.take(pa.array(numbers)).to_pylist(), reversed(range(len(self))), strict=True)
        )
        named.pop("", None)
        return named

    def find(self, names: Sequence[str]) -> Int32s:
        """Rows of the instructions of these names, in whichever computation; -1 where there is none."""
        return np.array([self._named.get(name, -1) for name in names], np.int32)

    def instruction(self, row: int) -> Instruction:
        """LookupError: there is no such row."""
        if row < 0:
            raise LookupError("an instruction refers to one that is not there")
        found = self._met.get(row)
        if found is None:
            found = self._met[row] = self._read(row)
        return found

    def _read(self, row: int) -> Instruction:
        raw = self.instructions[row]
        first, count = int(raw["first_operand"]), int(raw["operand_count"])
        call, calls = int(raw["first_call"]), int(raw["call_count"])
        at = int(raw["offset"])
        return Instruction(
            row=row,
            name=self.text(raw["name"]),
            opcode=self.text(raw["opcode"]),
            shape=NO_SHAPE if raw["shape"] < 0 else self.shape(int(raw["shape"])),
            operands=tuple(self.operands[first : first + count].tolist()),
            calls=tuple(self.calls[call : call + calls].tolist()),
            parameter_number=int(raw["parameter_number"]),
            tuple_index=int(raw["tuple_index"]),
            fusion_kind=self.text(raw["fusion_kind"]),
            custom_call_target=self.text(raw["custom_call_target"]),
            proto=self.data[at : at + int(raw["length"])],
        )

    def rows_of(self, computation: int) -> range:
        """Rows of a computation's instructions. LookupError: there is no such computation."""
        if computation < 0:
            raise LookupError("an instruction calls a computation that is not there")
        raw = self.computations[computation]
        return range(int(raw["first_instruction"]), int(raw["last_instruction"]))

    def root_of(self, computation: int) -> Instruction:
        if computation < 0:
            raise LookupError("an instruction calls a computation that is not there")
        return self.instruction(int(self.computations[computation]["root"]))

    def shape(self, row: int) -> Shape:
        raw = self.shapes[row]
        first, count = int(raw["first_dimension"]), int(raw["dimension_count"])
        elements = []
        inner, last = row + 1, int(raw["last"])
        while inner < last:
            elements.append(self.shape(inner))
            inner = int(self.shapes[inner]["last"])
        return Shape(
            element_type=int(raw["element_type"]),
            dimensions=tuple(self.dimensions[first : first + count].tolist()),
            elements=tuple(elements),
            has_layout=bool(raw["has_layout"]),
            memory_space=int(raw["memory_space"]),
            element_bits=int(raw["element_bits"]),
            layout=(int(raw["layout_offset"]), int(raw["layout_length"])),
        )

    # ---- where instructions come from

    def op_name(self, row: int) -> str:
        """What the framework calls the op that an instruction comes from: ``jit(f)/dot_general``; "" where unknown."""
        return self.text(self.instructions[row]["op_name"])

    def framework_op(self, row: int) -> str:
        """``op_name:op_type``; "" where both are unknown."""
        name, kind = self.op_name(row), self.text(self.instructions[row]["op_type"])
        if not kind and name in _ARGUMENTS:
            kind = name
        return f"{name}:{kind}" if name or kind else ""

    def framework_ops(self) -> list[tuple[str, str]]:
        """Each distinct (op_name, op_type) of its instructions."""
        pairs = np.unique(self.instructions[["op_name", "op_type"]])
        return [(self.text(name), self.text(kind)) for name, kind in pairs.tolist()]
