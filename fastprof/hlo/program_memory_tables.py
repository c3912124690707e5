"""The tables about the memory of compiled programs: each column, and how it follows from the program's buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.hlo.module import SourceLine
from fastprof.hlo.program_memory import (
    CATEGORIES,
    CONSTANT,
    KINDS,
    OUTPUT,
    PARAMETER,
    TEMPORARY,
    THREAD_LOCAL,
    UNKNOWN,
    VMEM,
    Heap,
    MemorySpace,
    ProgramMemory,
    find_most_scoped,
    get_space_name,
)
from fastprof.hlo.shapes import Shape
from fastprof.schema.columns import Int64s, number_values
from fastprof.schema.tables import Bytes, Count, Flag, Formula, Share, TableSchema, Text, encode_texts
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late


class Buffers:
    """``rows``: buffers of the program's assignment; -1 if no buffer, whose texts are null."""

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
        """Return bytes without padding, or UNKNOWN."""
        return np.where(self.absent, UNKNOWN, self._number(self.program.unpadded))

    def offsets(self) -> Int64s:
        return self._number(self.program.buffers.offset_of)

    # ---- texts: looked up once for each distinct one

    def names(self) -> pa.Array:
        """Return names with the element of the result that the buffer holds: ``copy-start{0}``."""
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
        """Return a text column of the module's instructions."""
        module = self.program.module
        return take_numbered_texts(module.texts, np.append(module.instructions[column], 0)[self.instruction])

    def shapes(self) -> pa.Array:
        return self._by_shape(self.program.shape_text)

    def padded_shapes(self) -> pa.Array:
        return self._by_shape(_format_padded)

    def _by_shape(self, text: Callable[[Shape], str]) -> pa.Array:
        kinds, at = self.program.shape_kinds
        distinct, place = number_values(np.append(at, -1)[self.rows])
        return encode_texts([None if kind < 0 else text(kinds[kind]) or None for kind in distinct.tolist()], place)

    def sources(self) -> pa.Array:
        return self._by_source(_format_place)

    def stacks(self) -> pa.Array:
        return self._by_source(lambda source: source.stack.rstrip("\n"))

    def _by_source(self, text: Callable[[SourceLine], str]) -> pa.Array:
        module = self.program.module
        places = module.instructions[["source_file", "source_line", "stack_frame_id"]]
        known = self.instruction >= 0
        _, example, at = np.unique(places[self.instruction[known]], return_index=True, return_inverse=True)
        rows = self.instruction[known][example].tolist()
        number = np.full(len(self.rows), len(rows))
        number[known] = at
        return encode_texts([*(text(module.source_of(row)) or None for row in rows), None], number)


def take_numbered_texts(pool: pa.Array, numbers: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Texts of a pool by number; null for number 0, the empty text."""
    distinct, at = number_values(numbers)
    indices = pa.array(at.astype(np.int32), mask=numbers <= 0)
    return pa.DictionaryArray.from_arrays(indices, pool.take(pa.array(distinct)))


def _format_place(source: SourceLine) -> str:
    return f"{source.file}:{source.line}" if source.file and source.line > 0 else source.file


def _format_padded(shape: Shape) -> str:
    """Return the array with its dimensions padded to whole tiles; "" where tiles pad nothing."""
    if shape.is_tuple or not shape.dimensions:
        return ""
    padded = shape.array.padded_dimensions
    if padded is None or padded == shape.dimensions:
        return ""
    return f"{shape.type_name.lower()}[{','.join(map(str, padded))}]"


# ---- what is alive at the peak


@dataclass(frozen=True, slots=True, eq=False)
class Alive:
    """Memory alive at a time, in program order: allocations that live throughout, then what the heaps hold. ``buffer``:
    what is in it, or -1; ``bytes``: what it takes; ``heap``: number of its heap among the traced ones, or -1."""

    allocation: Int64s
    buffer: Int64s
    bytes: Int64s
    heap: Int64s


def find_alive_at_peak(space: MemorySpace) -> Alive:
    """Return what adds up to the peak. If that is unknown: each heap at its own peak, and temporaries without a trace
    as they are allocated."""
    every, sizes = space.program.buffers.allocations["size"], space.program.buffers.buffers["size"]
    throughout = np.concatenate([space.whole_run, space.untraced])
    parts = [
        (throughout, np.array([space.representative(row) for row in throughout.tolist()], np.int64), every[throughout])
    ]
    heap = [np.full(len(throughout), -1)]
    for number, (row, traced) in enumerate(space.traced):
        parts.append((np.full(len(traced.owners), row), traced.shown.astype(np.int64), sizes[traced.owners]))
        heap.append(np.full(len(traced.owners), number))
    allocation, buffer, taken = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    return Alive(allocation, buffer, taken, np.concatenate(heap).astype(np.int64))


_NUMBER: Final = compile_late(r"\d+")


def make_share(part: Int64s) -> pa.Array:
    """Return shares of the sum of all parts; null if that is 0."""
    total = sum(part.tolist())
    return pa.nulls(len(part), pa.float64()) if total <= 0 else pa.array(part / total)


# ---- memory spaces of programs: one value per space


def _sum_category(category: int) -> Formula:
    return lambda space: space.sized(category)


def _measure_fragmentation(space: MemorySpace) -> int | None:
    """Return allocated bytes beyond the peak; null also if the plan contradicts itself: more in use than allocated."""
    peak, allocated = space.peak.bytes, space.allocated_bytes
    return None if peak is None or peak > allocated else allocated - peak


_NO_PLAN: Final = "null: the program has no memory plan"
_NO_PEAK: Final = "null: peak_bytes is unknown"
_OF_SPACE = (
    Bytes("allocated_bytes", "memory that the program takes when it runs: all allocations, except thread-local ones; "
          f"{_NO_PLAN}", lambda space: space.allocated_bytes),
    Bytes("peak_bytes", "peak memory in use: what lives throughout, plus the heap peak; null: unknown, see "
          "reason", lambda space: space.peak.bytes),
    Bytes("unpadded_peak_bytes", f"peak_bytes without padding; buffers of unknown types count in full; {_NO_PEAK}",
          lambda space: space.peak.unpadded),
    Bytes("fragmentation_bytes", f"allocated_bytes - peak_bytes; {_NO_PEAK}, or more than allocated_bytes",
          _measure_fragmentation),
    Bytes("parameter_bytes", f"parameter allocations; {_NO_PLAN}", _sum_category(PARAMETER)),
    Bytes("output_bytes", f"output allocations that are not parameters; {_NO_PLAN}", _sum_category(OUTPUT)),
    Bytes("aliased_bytes", f"parameter allocations that outputs overwrite (donated); {_NO_PLAN}",
          lambda space: space.aliased_bytes),
    Bytes("constant_bytes", f"constant allocations; {_NO_PLAN}", _sum_category(CONSTANT)),
    Bytes("temporary_bytes", f"temporary allocations, which do not live throughout; {_NO_PLAN}",
          _sum_category(TEMPORARY)),
    Bytes("thread_local_bytes", "allocations of computations on threads, which allocated_bytes does not contain; "
          f"{_NO_PLAN}", _sum_category(THREAD_LOCAL)),
    Count("allocation_count", f"allocations in the memory space; {_NO_PLAN}", lambda space: len(space.allocations)),
    Count("buffer_count", f"buffers in the memory space; {_NO_PLAN}", lambda space: space.assigned_count()),
    Count("program_points", f"events of the heap traces: allocations, frees and shares; {_NO_PLAN}",
          lambda space: sum(len(heap.events) for _, heap in space.traced)),
    Bytes("scoped_vmem_bytes", "most scoped VMEM that one instruction takes for itself while it runs; null: the memory "
          "space is not VMEM",
          lambda space: find_most_scoped(space.program.module)[0] if space.number == VMEM else None),
    Count("instruction_count", "instructions of the program, in all computations",
          lambda space: len(space.program.module)),
    Text("reason", "why the peak is unknown; null: it is known", lambda space: space.peak.reason),
)  # fmt: skip
_SPACE = Count("memory_space", f"number of the memory space; {_NO_PLAN} (buffer assignment)",
               lambda space: space.number)  # fmt: skip
_MODULES = (
    Text("host", "host of the program, the first one if several hosts have it"),
    Count("host_count", "hosts that have the program"),
    Text("module", "program title: jit_f(12)"),
    Count("program_id", "program id, uint64 as two's complement"),
    _SPACE,
    Text("memory_space_name", "name of the memory space; null: unknown, or the program has no memory plan"),
    *_OF_SPACE,
)

ModuleRow = dict[str, Any]
"""A row of the table modules, except the columns that name the host, the program and the memory space."""


def list_module_rows(memory: ProgramMemory, only: int | None = None) -> list[ModuleRow]:
    """Return one row per memory space, or of ``only`` one. A program without a plan has one row, of nulls; one without
    allocations has the row of the device's memory."""
    columns = (_SPACE, *_OF_SPACE)
    if memory.unknown:
        nulls: ModuleRow = dict.fromkeys(column.name for column in columns)
        return [nulls | {"instruction_count": len(memory.module), "reason": memory.unknown}]
    numbers = [only] if only is not None else memory.spaces or [0]
    spaces = [memory.space(number) for number in numbers]
    return [{column.name: column.of(space) for column in columns if column.of} for space in spaces]


# ---- buffers and allocations of a memory space


class _BufferRows(SimpleNamespace):
    """Rows about ``buffers`` of a memory ``space``, the ``allocation`` that each lies in, and what else the formulas of
    a table read. ``heap``: number of the heap among the traced ones, or -1 if there is none; ``start``, ``end``: events
    of that heap, -1: it lives throughout, or that is unknown."""

    @cached_property
    def every(self) -> Any:
        """Allocation record of each row."""
        return self.space.program.buffers.allocations[self.allocation]

    def category(self) -> pa.Array:
        return encode_texts(CATEGORIES, self.space.program.buffers.category[self.allocation])

    def instruction_at(self, event: Int64s) -> pa.Array:
        """Return the instruction of an event of each row's heap."""
        names = np.zeros(len(event), np.int64)
        for number, places in _group_by_heap(np.where(event >= 0, self.heap, -1)):
            instructions = np.append(self.space.traced[number][1].events["instruction_name"], 0)
            names[places] = instructions[event[places]]
        return take_numbered_texts(self.space.program.buffers.texts, names)


def _group_by_heap(heap: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Yield each number of a heap except -1, with the places that have it. There may be as many heaps as buffers."""
    order = np.argsort(heap, kind="stable")
    numbers, first = np.unique(heap[order], return_index=True)
    for number, places in zip(numbers.tolist(), np.split(order, first[1:]), strict=True) if len(heap) else ():
        if number >= 0:
            yield number, places


def _is_always_alive(rows: _BufferRows) -> Any:
    return rows.start < 0


_POINT: Final = "number of the heap event"
_ENDLESS: Final = "null: unknown, or the buffer lives throughout"
_UNPLANNED: Final = "null: the program has no memory plan, so the row is from its signature"
_NO_TRACE: Final = "null: the allocation has no heap trace"
_NAME = Text("buffer", "instruction that makes the buffer, and the element of its result; null: unknown",
             lambda rows: rows.buffers.names())  # fmt: skip
_BUFFER_ID = Count("buffer_id", "buffer id; null: the row has no buffer", lambda rows: rows.buffers.ids(),
                   lambda rows: rows.buffers.absent)  # fmt: skip
_CATEGORY = Text("category", "use of the allocation: " + ", ".join(CATEGORIES), lambda rows: rows.category())
_WHERE = (
    Text("shape", "shape of the buffer with its layout; null: unknown", lambda rows: rows.buffers.shapes()),
    Text("padded_shape", "dimensions with the padding of the layout's tiles; null: no padding",
         lambda rows: rows.buffers.padded_shapes()),
    Text("opcode", "opcode of the instruction that makes the buffer; null: unknown",
         lambda rows: rows.buffers.of_instruction("opcode")),
    Text("op_name", "framework op that the instruction comes from, for parameters often the argument; null: unknown",
         lambda rows: rows.buffers.of_instruction("op_name")),
    Text("source", "source line of the instruction, as file:line; null: unknown", lambda rows: rows.buffers.sources()),
)  # fmt: skip
_ALLOCATION = Count("allocation", "number of the allocation that contains the buffer", lambda rows: rows.every["index"])
_OFFSET = Bytes("offset_bytes", "start of the buffer in its allocation", lambda rows: rows.buffers.offsets())
_PARAMETER = Count("parameter_number", "number of the program's parameter; null: not a parameter",
                   lambda rows: rows.every["parameter_number"],
                   lambda rows: rows.every["entry_parameter"] == 0)  # fmt: skip
_SIZES = (
    Bytes("unpadded_bytes", "size of the elements alone; null: the type is unknown, or its elements would take more "
          "than the buffer", lambda rows: rows.unpadded, lambda rows: rows.unpadded < 0),
    Bytes("padding_bytes", "bytes - unpadded_bytes; null: unpadded_bytes is unknown",
          lambda rows: rows.bytes - rows.unpadded, lambda rows: rows.unpadded < 0),
)  # fmt: skip
_LIFE = (
    Count("start", f"{_POINT} that begins the buffer's life; {_ENDLESS}", lambda rows: rows.start, _is_always_alive),
    Count("end", f"{_POINT} that ends the buffer's life, or the number of all events if none does; {_ENDLESS}",
          lambda rows: rows.end, _is_always_alive),
    Text("start_instruction", f"instruction at which the buffer's life begins; {_ENDLESS}",
         lambda rows: rows.instruction_at(rows.start)),
    Text("end_instruction", f"instruction at which the buffer's life ends; {_ENDLESS}, or to the end",
         lambda rows: rows.instruction_at(rows.end)),
)  # fmt: skip


# ---- what is alive at the peak


_PEAK = (
    Count("position", "place in program order: first buffers that live throughout, then by allocation",
          lambda rows: np.arange(len(rows.bytes))),
    _BUFFER_ID,
    _NAME,
    _CATEGORY,
    Bytes("bytes", "memory that the buffer takes; the rows add up to the peak", lambda rows: rows.bytes),
    *_SIZES,
    Share("share", "bytes / peak; null: the peak is 0", lambda rows: make_share(rows.bytes)),
    *_WHERE,
    Text("stack", "file:line:column of calls, innermost first, one per line; null: unknown",
         lambda rows: rows.buffers.stacks()),
    _ALLOCATION,
    _OFFSET,
    _PARAMETER,
    *_LIFE,
)  # fmt: skip


def make_peak_table(space: MemorySpace) -> pa.Table:
    alive = find_alive_at_peak(space)
    start, end = np.full(len(alive.bytes), -1, np.int64), np.full(len(alive.bytes), -1, np.int64)
    for number, places in _group_by_heap(alive.heap):
        heap = space.traced[number][1]
        at = heap.places(alive.buffer[places])
        start[places], end[places] = heap.start[at], heap.end[at]
    buffers = Buffers(space.program, alive.buffer)
    unpadded = np.minimum(buffers.unpadded(), alive.bytes)
    rows = _BufferRows(
        space=space, allocation=alive.allocation, buffers=buffers, bytes=alive.bytes, unpadded=unpadded, start=start,
        end=end, heap=alive.heap,
    )  # fmt: skip
    return TABLES["buffers_at_peak"].of(rows).take(np.argsort(-alive.bytes, kind="stable"))


_PEAK_BY_OP = (
    Text("category", _CATEGORY.description, lambda rows: encode_texts(CATEGORIES, rows.category)),
    Text("op", "op_name, or else the instruction name, with * for each number, so that layers of a model become one "
         "row; null: both are unknown", lambda rows: rows.op),
    Count("buffer_count", "buffers of the ops", lambda rows: rows.count),
    Bytes("bytes", "memory that the buffers take; the rows add up to the peak", lambda rows: rows.bytes),
    Bytes("padding_bytes", "padding of the buffers; buffers of unknown types count as unpadded",
          lambda rows: rows.padding),
    Share("share", "bytes / peak; null: the peak is 0", lambda rows: make_share(rows.bytes)),
    Text("shape", "shape of the largest buffer; null: unknown", lambda rows: rows.largest.shapes()),
    Text("source", "source line of the largest buffer, as file:line; null: unknown",
         lambda rows: rows.largest.sources()),
)  # fmt: skip


def make_peak_by_op_table(space: MemorySpace) -> pa.Table:
    alive = find_alive_at_peak(space)
    buffers = Buffers(space.program, alive.buffer)
    named = zip(buffers.of_instruction("op_name").to_pylist(), buffers.instruction_names().to_pylist(), strict=True)
    names = [None if op is None and name is None else _NUMBER.sub("*", op or name) for op, name in named]
    category = space.program.buffers.category[alive.allocation].tolist()
    place: dict[tuple[int, str | None], int] = {}
    group = np.array([place.setdefault(key, len(place)) for key in zip(category, names, strict=True)], np.int64)
    largest_first = np.argsort(-alive.bytes, kind="stable")
    _, largest = np.unique(group[largest_first], return_index=True)
    unpadded = np.minimum(buffers.unpadded(), alive.bytes)
    sums = np.zeros((2, len(place)), np.int64)
    np.add.at(sums[0], group, alive.bytes)
    np.add.at(sums[1], group, np.where(unpadded < 0, 0, alive.bytes - unpadded))
    rows = SimpleNamespace(
        category=np.array([number for number, _ in place], np.int64),
        op=[name for _, name in place],
        count=np.bincount(group, minlength=len(place)),
        bytes=sums[0],
        padding=sums[1],
        largest=Buffers(space.program, alive.buffer[largest_first[largest]]),
    )
    return TABLES["peak_by_op"].of(rows).take(np.argsort(-sums[0], kind="stable"))


# ---- heaps, allocations, lifetimes


def _make_event_text(column: str) -> Formula:
    return lambda rows: take_numbered_texts(rows.buffers.program.buffers.texts, rows.heap.events[column])


def _get_event_kind(rows: Any) -> pa.Array:
    kind = rows.heap.events["kind"]
    return encode_texts((*KINDS, "unknown"), np.where((kind >= 0) & (kind < len(KINDS)), kind, len(KINDS)))


_HEAP = (
    Count("allocation", "number of the allocation that contains the heap",
          lambda rows: np.full(len(rows.heap.events), rows.allocation)),
    Count("point", "number of the event in program order, from 0", lambda rows: np.arange(len(rows.heap.events))),
    Text("event", "alloc, free, share: the buffer uses memory of another buffer, or unknown", _get_event_kind),
    Text("instruction", "instruction at which the event happens; null: unknown", _make_event_text("instruction_name")),
    Text("computation", "computation of the instruction; null: unknown", _make_event_text("computation_name")),
    _BUFFER_ID,
    _NAME,
    Bytes("buffer_bytes", "buffer size; null: the program has no such buffer", lambda rows: rows.buffers.sizes(),
          lambda rows: rows.buffers.absent),
    Bytes("heap_bytes", "memory of this heap in use after the event", lambda rows: rows.heap.bytes[1:]),
    Bytes("unpadded_heap_bytes", "heap_bytes without padding", lambda rows: rows.heap.unpadded[1:]),
    Bytes("total_bytes", "heap_bytes plus the memory that lives throughout",
          lambda rows: rows.heap.bytes[1:] + rows.whole_run_bytes),
)  # fmt: skip


def make_heap_table(space: MemorySpace) -> pa.Table:
    schema = TABLES["heap"]
    index = space.program.buffers.allocations["index"]
    heaps = [
        schema.of(SimpleNamespace(
            allocation=index[row], heap=heap, buffers=Buffers(space.program, heap.events["buffer"]),
            whole_run_bytes=space.whole_run_bytes,
        ))
        for row, heap in space.traced
    ]  # fmt: skip
    return pa.concat_tables([schema.empty(), *heaps]).unify_dictionaries()


def _find_unused(rows: Any) -> list[int | None]:
    sizes = zip(rows.every["size"].tolist(), rows.heaps, strict=True)
    return [None if heap is None or heap.peak_bytes > size else size - heap.peak_bytes for size, heap in sizes]


def _get_parameter_index(rows: Any) -> list[str | None]:
    indices = [rows.space.program.buffers.index(row) for row in rows.every]
    return ["{" + ",".join(map(str, index)) + "}" if index else None for index in indices]


def _make_heap_column(of: Callable[[Heap], int]) -> Formula:
    return lambda rows: [None if heap is None else of(heap) for heap in rows.heaps]


_ALLOCATIONS = (
    Count("allocation", f"allocation number; {_UNPLANNED}", _ALLOCATION.of),
    _CATEGORY,
    Bytes("bytes", "allocation size; null: more than 64 bits can count", lambda rows: rows.every["size"]),
    Count("buffer_count", f"buffers in the allocation; {_UNPLANNED}", lambda rows: rows.every["assigned_count"]),
    Bytes("peak_bytes", f"peak heap memory in use; {_NO_TRACE}",
          _make_heap_column(lambda heap: heap.peak_bytes)),
    Bytes("fragmentation_bytes", f"bytes - peak_bytes; {_NO_TRACE}, or peak_bytes is more than bytes", _find_unused),
    Count("peak_point", f"heap event after which peak_bytes are in use; {_NO_TRACE}",
          _make_heap_column(lambda heap: heap.peak_event)),
    Count("program_points", f"heap trace events; {_NO_TRACE}",
          _make_heap_column(lambda heap: len(heap.events))),
    _BUFFER_ID,
    Text("buffer", "largest buffer of the allocation; null: no buffer", _NAME.of),
    *_WHERE,
    _PARAMETER,
    Text("parameter_index", "element of the parameter: {0,1}; null: the entire parameter, or not a parameter",
         _get_parameter_index),
    Flag("is_output", "whether the allocation may hold program results", lambda rows: rows.every["live_out"] != 0),
    Flag("is_aliased", "whether the allocation is a parameter that an output overwrites (donated)",
         lambda rows: rows.space.program.buffers.aliased[rows.allocation]),
    Flag("is_tuple", "whether the allocation holds the pointers of a tuple", lambda rows: rows.every["tuple"] != 0),
    Flag("is_reusable", "whether the allocation is neither thread-local nor holds the pointers of a tuple",
         lambda rows: (rows.every["tuple"] == 0) & (rows.every["thread_local"] == 0)),
)  # fmt: skip


def make_allocations_table(space: MemorySpace) -> pa.Table:
    rows = space.allocations.tolist()
    heaps = dict(space.traced)
    buffers = Buffers(space.program, np.array([space.representative(row) for row in rows], np.int64))
    return TABLES["allocations"].of(
        _BufferRows(space=space, allocation=space.allocations, buffers=buffers, heaps=[heaps.get(row) for row in rows])
    )


_LIFETIMES = (
    Count("buffer_id", "buffer id", _BUFFER_ID.of),
    _NAME,
    _CATEGORY,
    _ALLOCATION,
    _OFFSET,
    Bytes("timeline_bytes", "start of the buffer in the drawing, which stacks temporaries that have a trace; null: not "
          "drawn", lambda rows: rows.timeline, lambda rows: rows.timeline < 0),
    Bytes("bytes", "buffer size", lambda rows: rows.bytes),
    *_SIZES,
    *_LIFE,
    Count("shares_with", "id of another buffer, whose memory the buffer shares; null: it has its own memory",
          lambda rows: rows.space.program.buffers.buffers["id"][rows.shares], lambda rows: rows.shares < 0),
    Flag("is_at_peak", "whether the buffer is in use at the peak", lambda rows: rows.at_peak),
    *_WHERE,
)  # fmt: skip


def make_lifetimes_table(space: MemorySpace) -> pa.Table:
    program = space.program
    of = program.buffers.allocation_of
    rows = np.flatnonzero(np.isin(of, space.allocations))
    start, end, root, heap_of, base = (np.full(len(of), -1, np.int64) for _ in range(5))
    stacked = 0
    for number, (allocation, heap) in enumerate(space.traced):
        mine = heap.start >= 0
        named = heap.rows[mine]
        start[named], end[named], heap_of[named], base[named] = heap.start[mine], heap.end[mine], number, stacked
        shares = mine & (heap.root != np.arange(len(heap.root)))
        root[heap.rows[shares]] = heap.rows[heap.root[shares]]
        stacked += int(program.buffers.allocations["size"][allocation])
    at_peak = np.zeros(len(of) + 1, bool)
    at_peak[find_alive_at_peak(space).buffer] = True
    buffers = Buffers(program, rows)
    base, offsets = base[rows], buffers.offsets()
    drawn = (base >= 0) & (offsets <= np.iinfo(np.int64).max - np.maximum(base, 0))
    timeline = np.where(drawn, np.where(drawn, base, 0) + np.where(drawn, offsets, 0), -1)
    return TABLES["lifetimes"].of(
        _BufferRows(
            space=space, allocation=of[rows].astype(np.int64), buffers=buffers, bytes=buffers.sizes(),
            unpadded=buffers.unpadded(), start=start[rows], end=end[rows], heap=heap_of[rows], timeline=timeline,
            shares=root[rows], at_peak=at_peak[rows],
        )
    )  # fmt: skip


# ---- uses of memory


_BY_TYPE = (
    Count("memory_space", "number of the memory space"),
    Text("memory_space_name", "name of the memory space; null: unknown"),
    _CATEGORY,
    Count("allocation_count", "allocations of this category"),
    Count("buffer_count", "buffers in allocations of this category"),
    Bytes("bytes", "total size of allocations of this category"),
    Share("share", "bytes / bytes of all categories of the memory space; null: their sum is 0"),
)


def make_by_type_table(program: ProgramMemory, hardware: str) -> pa.Table:
    """Return a row per category of each memory space. ``hardware`` names memory spaces."""
    rows = []
    for space in map(program.space, program.spaces):
        total = space.sized()
        category = program.buffers.category[space.allocations]
        for number in np.unique(category).tolist():
            size = space.sized(number)
            rows.append({
                "memory_space": space.number,
                "memory_space_name": get_space_name(space.number, hardware),
                "category": CATEGORIES[number],
                "allocation_count": int(np.count_nonzero(category == number)),
                "buffer_count": space.assigned_count(number),
                "bytes": size,
                "share": size / total if total > 0 else None,
            })  # fmt: skip
    return pa.Table.from_pylist(rows, TABLES["by_allocation_type"].arrow())


TABLES: Final = {
    table.name: table
    for table in (
        TableSchema("modules", "a memory space of a program", _MODULES, derived=True),
        TableSchema("buffers_at_peak", "a buffer in use at the peak, largest first", _PEAK, derived=True),
        TableSchema("peak_by_op", "buffers of ops with similar names in use at the peak", _PEAK_BY_OP, derived=True),
        TableSchema("by_allocation_type", "a category of allocations in a memory space", _BY_TYPE, derived=True),
        TableSchema("heap", "an event of a heap", _HEAP, derived=True),
        TableSchema("allocations", "an allocation of the memory space", _ALLOCATIONS, derived=True),
        TableSchema("lifetimes", "a buffer of the memory space", _LIFETIMES, derived=True),
    )
}
