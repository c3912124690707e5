"""The tables about the memory of a compiled program, from its buffers and heaps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.errors import CaptureError
from fastprof.hlo.buffers import CATEGORIES, KINDS
from fastprof.hlo.heap import Heap
from fastprof.hlo.layout import array_of
from fastprof.hlo.program_memory import UNKNOWN, MemorySpace, ProgramMemory
from fastprof.hlo.program_memory_schemas import TABLES
from fastprof.hlo.shapes import Shape
from fastprof.hlo.stack_frames import Source
from fastprof.schema.array_types import Int64s
from fastprof.schema.arrow_columns import texts

Columns = dict[str, Any]

_NUMBER: Final = re.compile(r"\d+")


def table(name: str, columns: Columns) -> pa.Table:
    return pa.table(columns, schema=TABLES[name].arrow())


def empty(name: str) -> pa.Table:
    return TABLES[name].arrow().empty_table()


def share_of(part: Int64s, whole: int) -> pa.Array:
    """Null where the whole is 0."""
    return pa.nulls(len(part), pa.float64()) if whole <= 0 else pa.array(part / whole)


def _unknown(values: Int64s, absent: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values.astype(np.int64), mask=absent)


# ---- what buffers are


class Buffers:
    """Columns about some buffers of a program, rows of its assignment; -1: none. Texts are null where there is none."""

    def __init__(self, program: ProgramMemory, rows: npt.NDArray[np.integer[Any]]) -> None:
        self.program = program
        self.rows = rows.astype(np.int64)
        self.absent = rows < 0
        self.instruction = np.append(program.instruction, np.int32(-1))[self.rows]

    def _number(self, column: npt.NDArray[Any]) -> Int64s:
        return np.append(column, 0)[self.rows].astype(np.int64)

    def ids(self) -> pa.Array:
        return _unknown(self._number(self.program.buffers.buffers["id"]), self.absent)

    def sizes(self) -> Int64s:
        return self._number(self.program.buffers.buffers["size"])

    def unpadded(self) -> Int64s:
        """UNKNOWN where it is not known."""
        return np.where(self.absent, UNKNOWN, self._number(self.program.unpadded))

    def offsets(self) -> Int64s:
        return self._number(self.program.buffers.offset_of)

    # ---- texts: looked up once for each distinct one

    def names(self) -> pa.Array:
        """With which element of what the instruction makes."""
        found = self.instruction_names()
        parts = np.flatnonzero(self._number(self.program.buffers.buffers["index_count"]))
        if not len(parts):
            return found
        names = found.to_pylist()
        for place, row in zip(parts.tolist(), self.rows[parts].tolist(), strict=True):
            names[place] = self.program.name(row)
        return pa.array(names, pa.string()).dictionary_encode()

    def instruction_names(self) -> pa.Array:
        known = self._of_instruction("name")
        lost = (self.instruction < 0) & ~self.absent
        if not lost.any():
            return known
        names = known.to_pylist()
        for place in np.flatnonzero(lost).tolist():
            names[place] = self.program.instruction_name(int(self.rows[place])) or None
        return pa.array(names, pa.string()).dictionary_encode()

    def opcodes(self) -> pa.Array:
        return self._of_instruction("opcode")

    def _of_instruction(self, column: str) -> pa.Array:
        module = self.program.module
        return numbered_texts(module.texts, np.append(module.instructions[column], 0)[self.instruction])

    def op_names(self) -> pa.Array:
        return self._of_instruction("op_name")

    def shapes(self) -> pa.Array:
        return self._by_shape(self.program.shape_text)

    def padded_shapes(self) -> pa.Array:
        return self._by_shape(lambda shape: _padded(shape, self.program.module.data))

    def _by_shape(self, text: Callable[[Shape], str]) -> pa.Array:
        kinds, at = self.program.shape_kinds
        there, place = np.unique(np.append(at, -1)[self.rows], return_inverse=True)
        return texts([None if kind < 0 else text(kinds[kind]) or None for kind in there.tolist()], place)

    def where(self) -> Columns:
        """What the instructions are and where they come from."""
        return {
            "shape": self.shapes(),
            "padded_shape": self.padded_shapes(),
            "opcode": self.opcodes(),
            "op_name": self.op_names(),
            "source": self.sources(),
        }

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
    """Texts of a pool by their numbers, of which 0 is the empty one; null where that is."""
    there, at = np.unique(numbers, return_inverse=True)
    return pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32), mask=numbers <= 0), pool.take(pa.array(there)))


def _place(source: Source) -> str:
    return f"{source.file}:{source.line}" if source.file and source.line > 0 else source.file


def _padded(shape: Shape, data: memoryview) -> str:
    """The dimensions that an array has with the padding of its tiles; "" where they are its own."""
    if shape.is_tuple or not shape.dimensions:
        return ""
    try:
        padded = array_of(shape, data).padded_dimensions
    except CaptureError:  # a damaged layout
        return ""
    if padded is None or padded == shape.dimensions:
        return ""
    return f"{shape.type_name.lower()}[{','.join(map(str, padded))}]"


# ---- what is alive at the peak


@dataclass(frozen=True, slots=True, eq=False)
class Alive:
    """In the order of the program: allocations that live throughout, then what the heaps hold. ``buffer``: what is in
    it, -1: not told; ``bytes``: what it takes; ``heap``: number of its heap among those that are traced, -1: it is in
    none."""

    allocation: Int64s
    buffer: Int64s
    bytes: Int64s
    heap: Int64s


def alive_at_peak(space: MemorySpace) -> Alive:
    """What adds up to the peak. Where that is not known: each heap at its own peak, and temporaries without a trace as
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


def peak_table(space: MemorySpace) -> pa.Table:
    alive = alive_at_peak(space)
    buffers = Buffers(space.program, alive.buffer)
    every = space.program.buffers.allocations[alive.allocation]
    unpadded, start, end = np.minimum(buffers.unpadded(), alive.bytes), *_lives(space, alive)
    unknown = unpadded < 0
    columns = {
        "position": np.arange(len(alive.bytes)),
        "buffer_id": buffers.ids(),
        "buffer": buffers.names(),
        "category": _categories(space, alive.allocation),
        "bytes": alive.bytes,
        "unpadded_bytes": _unknown(unpadded, unknown),
        "padding_bytes": _unknown(alive.bytes - unpadded, unknown),
        "share": share_of(alive.bytes, sum(alive.bytes.tolist())),
        **buffers.where(),
        "stack": buffers.stacks(),
        "allocation": every["index"],
        "offset_bytes": buffers.offsets(),
        "parameter_number": _unknown(every["parameter_number"], every["entry_parameter"] == 0),
        **_life_columns(space, start, end, alive.heap),
    }
    found = table("buffers_at_peak", columns)
    return found.take(np.argsort(-alive.bytes, kind="stable"))


def _categories(space: MemorySpace, allocations: Int64s) -> pa.Array:
    return texts(CATEGORIES, space.program.buffers.category[allocations])


def _lives(space: MemorySpace, alive: Alive) -> tuple[Int64s, Int64s]:
    """The first and the last event of what the heaps hold; -1: what lives throughout."""
    start, end = np.full(len(alive.bytes), -1, np.int64), np.full(len(alive.bytes), -1, np.int64)
    for number, places in _by_heap(alive.heap):
        heap = space.traced[number][1]
        at = heap.places(alive.buffer[places])
        start[places], end[places] = heap.start[at], heap.end[at]
    return start, end


def _by_heap(heap: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Each number of a heap, with the places that have it; not -1. There may be as many heaps as buffers."""
    order = np.argsort(heap, kind="stable")
    numbers, first = np.unique(heap[order], return_index=True)
    for number, places in zip(numbers.tolist(), np.split(order, first[1:]), strict=True) if len(heap) else ():
        if number >= 0:
            yield number, places


def _life_columns(space: MemorySpace, start: Int64s, end: Int64s, heap: Int64s) -> Columns:
    names = [np.zeros(len(start), np.int64) for _ in range(2)]
    for number, places in _by_heap(np.where(start >= 0, heap, -1)):
        instructions = np.append(space.traced[number][1].events["instruction_name"], 0)
        names[0][places], names[1][places] = instructions[start[places]], instructions[end[places]]
    return {
        "start": _unknown(start, start < 0),
        "end": _unknown(end, start < 0),
        "start_instruction": numbered_texts(space.program.buffers.texts, names[0]),
        "end_instruction": numbered_texts(space.program.buffers.texts, names[1]),
    }


def peak_by_op_table(space: MemorySpace) -> pa.Table:
    alive = alive_at_peak(space)
    buffers = Buffers(space.program, alive.buffer)
    told = zip(buffers.op_names().to_pylist(), buffers.instruction_names().to_pylist(), strict=True)
    names = [_alike(op or name) for op, name in told]
    place: dict[tuple[int, str | None], int] = {}
    category = space.program.buffers.category[alive.allocation]
    keys = zip(category.tolist(), names, strict=True)
    group = np.array([place.setdefault(key, len(place)) for key in keys], np.int64)
    unpadded = np.minimum(buffers.unpadded(), alive.bytes)
    padding = np.where(unpadded < 0, 0, alive.bytes - unpadded)
    largest_first = np.argsort(-alive.bytes, kind="stable")
    _, largest = np.unique(group[largest_first], return_index=True)
    example = largest_first[largest]
    total = _sums(alive.bytes, group, len(place))
    columns = {
        "category": texts(CATEGORIES, np.array([number for number, _ in place], np.int64)),
        "op": [name for _, name in place],
        "buffer_count": np.bincount(group, minlength=len(place)),
        "bytes": total,
        "padding_bytes": _sums(padding, group, len(place)),
        "share": share_of(total, sum(total.tolist())),
        "shape": buffers.shapes().take(example),
        "source": buffers.sources().take(example),
    }
    return table("peak_by_op", columns).take(np.argsort(-total, kind="stable"))


def _alike(name: str | None) -> str | None:
    return None if name is None else _NUMBER.sub("*", name)


def _sums(values: Int64s, group: Int64s, count: int) -> Int64s:
    found = np.zeros(count, np.int64)
    np.add.at(found, group, values)
    return found


# ---- heaps, allocations, lifetimes


def heap_table(space: MemorySpace) -> pa.Table:
    return pa.concat_tables([empty("heap"), *(_heap_rows(space, *one) for one in space.traced)]).unify_dictionaries()


def _heap_rows(space: MemorySpace, allocation: int, heap: Heap) -> pa.Table:
    program, events = space.program, heap.events
    buffers = Buffers(program, events["buffer"])
    columns = {
        "allocation": np.full(len(events), program.buffers.allocations["index"][allocation]),
        "point": np.arange(len(events)),
        "event": texts((*KINDS, "unknown"), np.where((events["kind"] >= 0) & (events["kind"] < len(KINDS)),
                                                     events["kind"], len(KINDS))),
        "instruction": numbered_texts(program.buffers.texts, events["instruction_name"]),
        "computation": numbered_texts(program.buffers.texts, events["computation_name"]),
        "buffer_id": buffers.ids(),
        "buffer": buffers.names(),
        "buffer_bytes": _unknown(buffers.sizes(), buffers.absent),
        "heap_bytes": heap.bytes[1:],
        "unpadded_heap_bytes": heap.unpadded[1:],
        "total_bytes": heap.bytes[1:] + space.whole_run_bytes,
    }  # fmt: skip
    return table("heap", columns)


def allocations_table(space: MemorySpace) -> pa.Table:
    rows = space.allocations
    program, every = space.program, space.program.buffers.allocations[rows]
    buffers = Buffers(program, np.array([space.representative(row) for row in rows.tolist()], np.int64))
    heaps = dict(space.traced)
    of = [heaps.get(row) for row in rows.tolist()]
    peaks = [None if heap is None else heap.peak_bytes for heap in of]
    columns = {
        "allocation": every["index"],
        "category": _categories(space, rows),
        "bytes": every["size"],
        "buffer_count": every["assigned_count"],
        "peak_bytes": peaks,
        "fragmentation_bytes": [
            None if peak is None or peak > size else size - peak
            for size, peak in zip(every["size"].tolist(), peaks, strict=True)
        ],
        "peak_point": [None if heap is None else heap.peak_event for heap in of],
        "program_points": [None if heap is None else len(heap.events) for heap in of],
        "buffer_id": buffers.ids(),
        "buffer": buffers.names(),
        **buffers.where(),
        "parameter_number": _unknown(every["parameter_number"], every["entry_parameter"] == 0),
        "parameter_index": [_index(program, row) for row in every],
        "is_output": every["live_out"] != 0,
        "is_aliased": program.buffers.aliased[rows],
        "is_tuple": every["tuple"] != 0,
        "is_reusable": (every["tuple"] == 0) & (every["thread_local"] == 0),
    }
    return table("allocations", columns)


def aliased_bytes(space: MemorySpace) -> int:
    """Of parameters that results are written to."""
    buffers, rows = space.program.buffers, space.allocations
    return sum(buffers.allocations["size"][rows[buffers.aliased[rows]]].tolist())


def _index(program: ProgramMemory, allocation: Any) -> str | None:
    index = program.buffers.index(allocation)
    return "{" + ",".join(map(str, index)) + "}" if index else None


def stacked(space: MemorySpace) -> dict[int, int]:
    """Where each allocation with a trace begins in the drawing: one upon the other, by index."""
    found: dict[int, int] = {}
    upto = 0
    for row, _ in space.traced:
        found[row] = upto
        upto += int(space.program.buffers.allocations["size"][row])
    return found


def lifetimes_table(space: MemorySpace) -> pa.Table:
    program = space.program
    of = program.buffers.allocation_of
    rows = np.flatnonzero(np.isin(of, space.allocations))
    start, end, root = (np.full(len(of), -1, np.int64) for _ in range(3))
    heap_of, base = np.full(len(of), -1, np.int64), np.full(len(of), -1, np.int64)
    at_peak = np.zeros(len(of) + 1, bool)
    below = stacked(space)
    for number, (allocation, heap) in enumerate(space.traced):
        mine = heap.start >= 0
        named = heap.rows[mine]
        start[named], end[named], heap_of[named] = heap.start[mine], heap.end[mine], number
        base[named] = below[allocation]
        shares = mine & (heap.root != np.arange(len(heap.root)))
        root[heap.rows[shares]] = heap.rows[heap.root[shares]]
    at_peak[alive_at_peak(space).buffer] = True
    buffers = Buffers(program, rows)
    sizes, unpadded, offsets = buffers.sizes(), buffers.unpadded(), buffers.offsets()
    undrawn = (base[rows] < 0) | (offsets > np.iinfo(np.int64).max - np.maximum(base[rows], 0))
    columns = {
        "buffer_id": buffers.ids(),
        "buffer": buffers.names(),
        "category": _categories(space, of[rows].astype(np.int64)),
        "allocation": program.buffers.allocations["index"][of[rows]],
        "offset_bytes": offsets,
        "timeline_bytes": _unknown(np.where(undrawn, 0, base[rows]) + np.where(undrawn, 0, offsets), undrawn),
        "bytes": sizes,
        "unpadded_bytes": _unknown(unpadded, unpadded < 0),
        "padding_bytes": _unknown(sizes - unpadded, unpadded < 0),
        **_life_columns(space, start[rows], end[rows], heap_of[rows]),
        "shares_with": _unknown(program.buffers.buffers["id"][root[rows]], root[rows] < 0),
        "is_at_peak": at_peak[rows],
        **buffers.where(),
    }
    return table("lifetimes", columns)


def by_type_table(program: ProgramMemory, names: Callable[[int], str | None]) -> pa.Table:
    """``names``: of memory spaces."""
    rows = []
    for number in program.spaces:
        space = program.space(number)
        every = space.sized()
        rows += [(number, names(number), *one, one[-1] / every if every > 0 else None) for one in space.by_category()]
    columns = zip(*rows, strict=True) if rows else [[]] * len(TABLES["by_allocation_type"].columns)
    return table("by_allocation_type", dict(zip(TABLES["by_allocation_type"].names(), map(list, columns), strict=True)))
