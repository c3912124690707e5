"""The memory of one compiled program: its buffers with the instructions that they come from, and each memory space."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np

from fastprof.errors import UsageError
from fastprof.hlo.buffers import OUTPUT, TEMPORARY, BufferAssignment, Heap
from fastprof.hlo.module import HloModule
from fastprof.hlo.shapes import NO_SHAPE, OPAQUE, POINTER_BYTES, TOKEN, Shape
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.spelling import meant

UNKNOWN = -1
"""Bytes without padding that are not known."""
NO_PLAN: Final = "the program carries no plan of its memory (buffer assignment)"
TOO_LARGE: Final = "the sizes in its plan of memory add up to more than 64 bits can count"
_MOST: Final = (1 << 63) - 1


class ProgramMemory:
    """A module and its buffer assignment. Columns are by buffer, rows of ``buffers.buffers``. Raises CaptureError where
    the assignment does not decode."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.buffers = BufferAssignment(module.data)
        self._heaps: dict[int, Heap] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (bytes(self.module.data),)

    @cached_property
    def unknown(self) -> str:
        """Why there are no figures of its memory, in words; "": there are, and each sum of its sizes fits an int64."""
        if not self.buffers.is_there:
            return NO_PLAN
        return TOO_LARGE if self._most() > _MOST else ""

    def _most(self) -> int:
        """A bound of every sum of sizes: all allocations, and all buffers of each heap. Exact."""
        plan = self.buffers
        names = np.concatenate([plan.events["buffer"], plan.events["canonical"]]).astype(np.int64)
        named = np.flatnonzero(names >= 0)
        allocated = _exact_sum(plan.allocations["size"])
        most = allocated + _exact_sum(plan.buffers["size"][names[named]])
        if most <= _MOST:  # although buffers count each time that they are named
            return most
        traces = np.tile(plan.events["trace"].astype(np.int64), 2)
        each = np.unique(np.stack([traces[named], names[named]]), axis=1)
        return allocated + _exact_sum(plan.buffers["size"][each[1]])

    @cached_property
    def instruction(self) -> Int32s:
        """The row of the instruction that makes each buffer, by its id, in older programs by its name; -1: none."""
        buffers, ids = self.buffers.buffers, self.module.instructions["id"]
        if not len(ids) or not len(buffers):
            return np.full(len(buffers), -1, np.int32)
        order = np.argsort(ids, kind="stable")
        place = np.searchsorted(ids[order], buffers["instruction_id"], side="right") - 1
        candidates = order[np.maximum(place, 0)]
        there = (place >= 0) & (ids[candidates] == buffers["instruction_id"])
        rows = np.where(there, candidates, -1).astype(np.int32)
        named = np.flatnonzero(~there & (buffers["instruction_name"] != 0))
        if len(named):
            names = self.buffers.texts.take(buffers["instruction_name"][named]).to_pylist()
            rows[named] = self.module.find(names)
        return rows

    @cached_property
    def shape_kinds(self) -> tuple[list[Shape], Int64s]:
        """The distinct shapes, and by buffer the number of its own among them: the shape of its instruction, or of the
        element that the buffer's shape index selects."""
        place: dict[tuple[int, int], int] = {}
        kinds: list[Shape] = []

        def number(shape: Shape) -> int:
            if shape.proto not in place:
                place[shape.proto] = len(kinds)
                kinds.append(shape)
            return place[shape.proto]

        rows = np.append(self.module.instructions["shape"], np.int32(-1))[self.instruction]
        distinct, at = np.unique(rows, return_inverse=True)
        shapes = [self.module.shape(row) for row in distinct.tolist()]
        numbers = np.array([number(shape) for shape in shapes], np.int64)[at]
        for buffer in np.flatnonzero(self.buffers.buffers["index_count"]).tolist():
            numbers[buffer] = number(_element(shapes[at[buffer]], self.index(buffer)))
        return kinds, numbers

    def shape(self, buffer: int) -> Shape:
        kinds, numbers = self.shape_kinds
        return kinds[int(numbers[buffer])]

    def index(self, buffer: int) -> tuple[int, ...]:
        return self.buffers.index(self.buffers.buffers[buffer])

    @cached_property
    def unpadded(self) -> Int64s:
        """Bytes of the elements of each buffer, without tiles' padding; UNKNOWN, also where they exceed its size."""
        kinds, numbers = self.shape_kinds
        known = [self._unpadded(shape) for shape in kinds]
        sizes = np.array([UNKNOWN if size is None else size for size in known], np.int64)[numbers]
        sizes[sizes > self.buffers.buffers["size"]] = UNKNOWN
        return sizes

    @staticmethod
    def _unpadded(shape: Shape) -> int | None:
        if shape is NO_SHAPE:
            return None
        if shape.is_tuple:
            return POINTER_BYTES * len(shape.elements)
        if shape.element_type in (TOKEN, OPAQUE):
            return 0
        return shape.array.bytes

    @cached_property
    def at_least(self) -> Int64s:
        """``unpadded``, or the size of the buffer where that is not known."""
        return np.where(self.unpadded == UNKNOWN, self.buffers.buffers["size"], self.unpadded).astype(np.int64)

    # ---- texts

    def name(self, buffer: int) -> str:
        """The instruction, and which element of its result: ``copy-start{0}``."""
        index = self.index(buffer)
        return self.instruction_name(buffer) + ("{" + ",".join(map(str, index)) + "}" if index else "")

    def instruction_name(self, buffer: int) -> str:
        row = int(self.instruction[buffer])
        if row >= 0:
            return self.module.names[row]
        return self.buffers.text(self.buffers.buffers["instruction_name"][buffer])

    def shape_text(self, shape: Shape) -> str:
        """With its layout; "" where a damaged program has none."""
        offset, length = shape.proto
        return "" if shape is NO_SHAPE else self.module.shape_texts.text(self.module.data[offset : offset + length])

    # ---- heaps and memory spaces

    def heap(self, trace: int) -> Heap:
        if trace not in self._heaps:
            self._heaps[trace] = Heap(self.buffers, trace, self.at_least)
        return self._heaps[trace]

    @cached_property
    def trace_of(self) -> dict[int, int]:
        """By row of an allocation, the trace of its heap: a trace belongs to the allocation of its first event's
        buffer; the last of several counts. (The allocations that traces name themselves are outdated.)"""
        traces: dict[int, int] = {}
        of = np.append(self.buffers.allocation_of, np.int32(-1))
        for trace, (first, count) in enumerate(self.buffers.traces[["first_event", "event_count"]].tolist()):
            allocation = int(of[self.buffers.events["buffer"][first]]) if count else -1
            if allocation >= 0:
                traces[allocation] = trace
        return traces

    @cached_property
    def spaces(self) -> list[int]:
        """Numbers of the memory spaces that it has allocations or buffers in."""
        colors = (self.buffers.allocations["color"], self.buffers.buffers["color"])
        numbers: list[int] = np.unique(np.concatenate(colors)).tolist()
        return numbers

    def space(self, number: int) -> MemorySpace:
        return MemorySpace(self, number)


def _exact_sum(sizes: Int64s) -> int:
    """Of fewer than 2^31 sizes, none below 0."""
    return (int((sizes >> 32).sum()) << 32) + int((sizes & 0xFFFFFFFF).sum())


def _opened(data: bytes) -> ProgramMemory:
    return ProgramMemory(HloModule(data))


def _element(shape: Shape, index: tuple[int, ...]) -> Shape:
    for place in index:
        if not 0 <= place < len(shape.elements):
            return NO_SHAPE
        shape = shape.elements[place]
    return shape


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that is in use at once; None where that is not known, for ``reason``. ``known_by``: how it is known
    without a trace."""

    bytes: int | None
    unpadded: int | None
    reason: str | None = None
    known_by: str = ""


class MemorySpace:
    """What a program has in one memory space, its number as in layouts: 0 is the device's main memory."""

    def __init__(self, program: ProgramMemory, number: int) -> None:
        self.program = program
        self.number = number
        every = program.buffers.allocations
        rows = np.flatnonzero(every["color"] == number)
        self.allocations = rows[np.argsort(every["index"][rows], kind="stable")].astype(np.int64)
        """Rows of allocations, by ascending index."""

    def __reduce__(self) -> tuple[Any, ...]:
        return MemorySpace, (self.program, self.number)

    def sized(self, category: int | None = None) -> int:
        """Bytes of all allocations, or of those of a category."""
        return self._sum(self._used_for(category))

    def assigned_count(self, category: int | None = None) -> int:
        """Buffers in all allocations, or in those of a category."""
        return int(self.program.buffers.allocations["assigned_count"][self._used_for(category)].sum())

    def _used_for(self, category: int | None) -> Int64s:
        rows = self.allocations
        return rows if category is None else rows[self.program.buffers.category[rows] == category]

    def _sum(self, rows: Int64s) -> int:
        return sum(self.program.buffers.allocations["size"][rows].tolist())

    @property
    def allocated_bytes(self) -> int:
        """What the program takes of it when it runs: all allocations except those of threads."""
        return self._sum(self.allocations[self.program.buffers.allocations["thread_local"][self.allocations] == 0])

    @property
    def aliased_bytes(self) -> int:
        """Of parameters that results are written to."""
        return self._sum(self.allocations[self.program.buffers.aliased[self.allocations]])

    @cached_property
    def whole_run(self) -> Int64s:
        """Rows of allocations that live as long as the program runs: parameters, outputs, constants."""
        rows: Int64s = self.allocations[self.program.buffers.whole_run[self.allocations]]
        return rows

    @property
    def whole_run_bytes(self) -> int:
        return self._sum(self.whole_run)

    @cached_property
    def temporaries(self) -> Int64s:
        """Rows of allocations that live shorter."""
        return self._used_for(TEMPORARY)

    @cached_property
    def traced(self) -> list[tuple[int, Heap]]:
        """Temporaries with a trace of when each buffer is allocated and freed: their rows, and heaps."""
        traces = self.program.trace_of
        return [(row, self.program.heap(traces[row])) for row in self.temporaries.tolist() if row in traces]

    @cached_property
    def untraced(self) -> Int64s:
        """Rows of temporaries without a trace, which are not empty."""
        sizes = self.program.buffers.allocations["size"]
        rows = [row for row in self.temporaries.tolist() if row not in self.program.trace_of and sizes[row] > 0]
        return np.array(rows, np.int64)

    def representative(self, allocation: int) -> int:
        """The row of the largest buffer in an allocation; of equal ones the first, in outputs the last: the result, not
        what was there before. -1: no buffer, or only empty ones."""
        plan = self.program.buffers
        return plan.largest(allocation, last=plan.category[allocation] == OUTPUT)

    @cached_property
    def misfits(self) -> int:
        """Buffers that lie outside the allocation that they are in, or reach beyond it."""
        plan = self.program.buffers
        inside = plan.assigned[np.isin(plan.assigned["allocation"], self.allocations)]
        size = np.append(plan.buffers["size"], 0)[inside["buffer"]]  # 0 for -1, an unknown buffer
        room = plan.allocations["size"][inside["allocation"]]
        return int(np.count_nonzero((inside["offset"] < 0) | (inside["offset"] > room - size)))

    @cached_property
    def peak(self) -> Peak:
        """Allocations that live throughout, and the peak of the heap where there is one. Without a trace it is known
        only where temporaries are one allocation that a single buffer fills."""
        size = self.whole_run_bytes
        unpadded = sum(self._least(row) for row in self.whole_run.tolist())
        untraced = self.untraced.tolist()
        if len(self.traced) == 1 and not untraced:
            heap = self.traced[0][1]
            return Peak(size + heap.peak_bytes, unpadded + heap.peak_unpadded)
        if not self.traced and not untraced:
            return Peak(size, unpadded, known_by="there are no temporaries")
        if not self.traced and len(untraced) == 1 and self._is_filled(untraced[0]):
            taken = int(self.program.buffers.allocations["size"][untraced[0]])
            return Peak(size + taken, unpadded + self._least(untraced[0]), known_by="one buffer fills the temporaries")
        return Peak(None, None, self._why_unknown(len(self.traced), len(untraced)))

    def _least(self, allocation: int) -> int:
        """Bytes without padding of the largest buffer in an allocation; its size, where it has no buffer."""
        buffer = self.representative(allocation)
        if buffer < 0:
            return int(self.program.buffers.allocations["size"][allocation])
        return int(self.program.at_least[buffer])

    def _is_filled(self, allocation: int) -> bool:
        buffer = self.representative(allocation)
        sizes = self.program.buffers.buffers["size"], self.program.buffers.allocations["size"]
        return buffer >= 0 and bool(sizes[0][buffer] == sizes[1][allocation])

    def _why_unknown(self, traced: int, untraced: int) -> str:
        most = f"it is at least {self.whole_run_bytes:,} and at most {self.allocated_bytes:,} bytes"
        if not traced:
            return f"the program does not record when temporaries are allocated and freed: {most}"
        if untraced:
            return f"the program does not record when some temporaries are allocated and freed: {most}"
        return f"temporaries lie in {traced:,} heaps, and the program does not record how these overlap: {most}"


# ---- names of memory spaces

_TPU: Final = ("HBM", "VMEM", "SFLAG", "CMEM", "SMEM", "host", "SparseCore")
_NAMES: Final[Mapping[str, Mapping[int, str]]] = {
    "TPU": dict(enumerate(_TPU)),
    "GPU": {0: "device", 5: "host"},
    "CPU_ONLY": {0: "host"},
}
"""By hardware. Other spaces of GPUs and CPUs have no public names."""
_REQUESTED: Final = {name.lower(): number for number, name in enumerate(_TPU)} | {"device": 0}
"""Names that a space may be requested by, besides its number."""
DEVICE, VMEM = 0, 1


def space_name(number: int, hardware: str) -> str | None:
    """``hardware``: TPU, GPU or CPU_ONLY. None: unknown."""
    return _NAMES.get(hardware, {}).get(number)


def space_text(number: int, hardware: str) -> str:
    """``HBM``, or ``memory space 7``."""
    return space_name(number, hardware) or f"memory space {number}"


def space_number(requested: str, hardware: str = "") -> int:
    """The number of a space given by number, also as in layouts, ``S(5)``, or by name, first among those of the
    hardware. UsageError: neither."""
    plain = requested.strip().lower()
    own = {name.lower(): number for number, name in _NAMES.get(hardware, {}).items()}
    names = _REQUESTED | own
    if plain in names:
        return names[plain]
    digits = plain[2:-1] if plain.startswith("s(") and plain.endswith(")") else plain
    if digits.isascii() and digits.isdigit() and len(digits) < 19:
        return int(digits)
    raise UsageError(
        f"no memory space {requested!r}; give a number, also as in layouts, S(5), or one of {', '.join(names)}"
        f"{meant(requested, names)}"
    )
