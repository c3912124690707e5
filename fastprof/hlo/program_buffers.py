"""Facts about some buffers of a program, a column each: sizes, shapes, instructions and their sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.hlo.program_memory import UNKNOWN, MemorySpace, ProgramMemory
from fastprof.hlo.shapes import Shape
from fastprof.hlo.stack_frames import Source
from fastprof.schema.array_types import Int64s
from fastprof.schema.arrow_columns import texts
from fastprof.schema.value_classes import dataclass


class Buffers:
    """``rows``: buffers of the program's assignment; -1: no buffer, whose texts are null."""

    def __init__(self, program: ProgramMemory, rows: npt.NDArray[np.integer[Any]]) -> None:
        self.program = program
        self.rows = rows.astype(np.int64)
        self.absent = rows < 0
        self.instruction = np.append(program.instruction, np.int32(-1))[self.rows]

    def _number(self, column: npt.NDArray[Any]) -> Int64s:
        return np.append(column, 0)[self.rows].astype(np.int64)

    def ids(self) -> Int64s:
        return self._number(self.program.buffers.buffers["id"])

    def sizes(self) -> Int64s:
        return self._number(self.program.buffers.buffers["size"])

    def unpadded(self) -> Int64s:
        """UNKNOWN where it is not known."""
        return np.where(self.absent, UNKNOWN, self._number(self.program.unpadded))

    def offsets(self) -> Int64s:
        return self._number(self.program.buffers.offset_of)

    # ---- texts: looked up once for each distinct one

    def names(self) -> pa.Array:
        """With the element of the result that the buffer holds: ``copy-start{0}``."""
        instructions = self.instruction_names()
        parts = np.flatnonzero(self._number(self.program.buffers.buffers["index_count"]))
        if not len(parts):
            return instructions
        names = instructions.to_pylist()
        for place, row in zip(parts.tolist(), self.rows[parts].tolist(), strict=True):
            names[place] = self.program.name(row)
        return pa.array(names, pa.string()).dictionary_encode()

    def instruction_names(self) -> pa.Array:
        known = self.of_instruction("name")
        lost = (self.instruction < 0) & ~self.absent
        if not lost.any():
            return known
        names = known.to_pylist()
        for place in np.flatnonzero(lost).tolist():
            names[place] = self.program.instruction_name(int(self.rows[place])) or None
        return pa.array(names, pa.string()).dictionary_encode()

    def of_instruction(self, column: str) -> pa.Array:
        """A text column of the module's instructions."""
        module = self.program.module
        return numbered_texts(module.texts, np.append(module.instructions[column], 0)[self.instruction])

    def shapes(self) -> pa.Array:
        return self._by_shape(self.program.shape_text)

    def padded_shapes(self) -> pa.Array:
        return self._by_shape(_padded)

    def _by_shape(self, text: Callable[[Shape], str]) -> pa.Array:
        kinds, at = self.program.shape_kinds
        distinct, place = np.unique(np.append(at, -1)[self.rows], return_inverse=True)
        return texts([None if kind < 0 else text(kinds[kind]) or None for kind in distinct.tolist()], place)

    def sources(self) -> pa.Array:
        return self._by_source(_place)

    def stacks(self) -> pa.Array:
        return self._by_source(lambda source: source.stack.rstrip("\n"))

    def _by_source(self, text: Callable[[Source], str]) -> pa.Array:
        module = self.program.module
        places = module.instructions[["source_file", "source_line", "stack_frame_id"]]
        known = self.instruction >= 0
        _, example, at = np.unique(places[self.instruction[known]], return_index=True, return_inverse=True)
        rows = self.instruction[known][example].tolist()
        number = np.full(len(self.rows), len(rows))
        number[known] = at
        return texts([*(text(module.source_of(row)) or None for row in rows), None], number)


def numbered_texts(pool: pa.Array, numbers: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Texts of a pool by number; null for number 0, the empty text."""
    distinct, at = np.unique(numbers, return_inverse=True)
    indices = pa.array(at.astype(np.int32), mask=numbers <= 0)
    return pa.DictionaryArray.from_arrays(indices, pool.take(pa.array(distinct)))


def _place(source: Source) -> str:
    return f"{source.file}:{source.line}" if source.file and source.line > 0 else source.file


def _padded(shape: Shape) -> str:
    """The array with its dimensions padded to whole tiles; "" where tiles pad nothing."""
    if shape.is_tuple or not shape.dimensions:
        return ""
    padded = shape.array.padded_dimensions
    if padded is None or padded == shape.dimensions:
        return ""
    return f"{shape.type_name.lower()}[{','.join(map(str, padded))}]"


# ---- what is alive at the peak


@dataclass(frozen=True, slots=True, eq=False)
class Alive:
    """In the order of the program: allocations that live throughout, then what the heaps hold. ``buffer``: what is in
    it, -1: unknown; ``bytes``: what it takes; ``heap``: number of its heap among the traced ones, -1: none."""

    allocation: Int64s
    buffer: Int64s
    bytes: Int64s
    heap: Int64s


def alive_at_peak(space: MemorySpace) -> Alive:
    """What adds up to the peak. Where that is unknown: each heap at its own peak, and temporaries without a trace as
    they are allocated."""
    every, sizes = space.program.buffers.allocations["size"], space.program.buffers.buffers["size"]
    throughout = np.concatenate([space.whole_run, space.untraced])
    parts = [
        (throughout, np.array([space.representative(row) for row in throughout.tolist()], np.int64), every[throughout])
    ]
    heap = [np.full(len(throughout), -1)]
    for number, (row, one) in enumerate(space.traced):
        parts.append((np.full(len(one.owners), row), one.shown.astype(np.int64), sizes[one.owners]))
        heap.append(np.full(len(one.owners), number))
    allocation, buffer, taken = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    return Alive(allocation, buffer, taken, np.concatenate(heap).astype(np.int64))
