"""The memory of one compiled program: buffers, the allocations and heaps they lie in, the instructions they come from,
each memory space, and memory that no plan lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native.hlo import read_hlo_buffers
from fastprof._native.memory_kernels import heap_trace
from fastprof.errors import CaptureError, UsageError
from fastprof.hlo.module import HAS_BACKEND_CONFIG, HloModule
from fastprof.hlo.shapes import MOST, NO_SHAPE, OPAQUE, POINTER_BYTES, TOKEN, Shape
from fastprof.inputs.message import Message
from fastprof.schema.columns import (
    Int32s,
    Int64s,
    Records,
    find_equal,
    find_last_started,
    number_distinct_rows,
    number_values,
)
from fastprof.schema.tables import build_texts
from fastprof.schema.value_classes import dataclass
from fastprof.wording.spelling import suggest_name

BUFFER = np.dtype(
    [("id", "i8"), ("size", "i8"), ("color", "i8"), ("instruction_id", "i8")]
    + [("first_index", "i4"), ("index_count", "i4"), ("instruction_name", "i4"), ("unused", "i4")]
)
_FLAGS = ("thread_local", "entry_parameter", "live_out", "tuple", "constant", "aliased_output")
ALLOCATION = np.dtype(
    [("index", "i8"), ("size", "i8"), ("color", "i8"), ("parameter_number", "i8")]
    + [("first_index", "i4"), ("index_count", "i4"), ("first_assigned", "i4"), ("assigned_count", "i4")]
    + [(flag, "u1") for flag in _FLAGS]
    + [("unused", "u2")]
)
ASSIGNED = np.dtype([("buffer_id", "i8"), ("offset", "i8"), ("size", "i8"), ("buffer", "i4"), ("allocation", "i4")])
TRACE = np.dtype(
    [("allocation_index", "i8"), ("first_event", "i4"), ("event_count", "i4"), ("whole_module", "i4"), ("unused", "i4")]
)
EVENT = np.dtype(
    [("buffer_id", "i8"), ("canonical_id", "i8"), ("buffer", "i4"), ("canonical", "i4")]
    + [("instruction_name", "i4"), ("computation_name", "i4"), ("trace", "i4"), ("kind", "i4")]
)
"""Mirror the structs of csrc/formats/hlo_buffers.h; a test compares their sizes with C's."""

ALLOC, FREE, SHARE_WITH = range(3)
KINDS: Final = ("alloc", "free", "share")
"""Events of a heap by kind; others are unknown."""

PARAMETER, OUTPUT, THREAD_LOCAL, CONSTANT, TEMPORARY = range(5)
CATEGORIES: Final = ("Parameter", "Output", "Thread-local", "Constant", "Temporary")
"""Uses of an allocation; the first that applies counts."""


class BufferAssignment:
    """The columns of csrc/formats/hlo_buffers.h for the bytes of an HloProto. CaptureError, with the offset in
    ``data``: they do not decode. ``is_there``: whether the program has a buffer assignment; else columns are empty.
    Sizes below 0 become 0; ``odd_buffers`` and ``odd_allocations`` mark them."""

    def __init__(self, data: Any) -> None:
        raw = read_hlo_buffers(data)
        self.is_there = raw["is_there"]
        self.buffers, self.odd_buffers = _clip_sizes(np.frombuffer(raw["buffers"], BUFFER))
        self.allocations, self.odd_allocations = _clip_sizes(np.frombuffer(raw["allocations"], ALLOCATION))
        self.assigned, _ = _clip_sizes(np.frombuffer(raw["assigned"], ASSIGNED))
        self.traces: Records = np.frombuffer(raw["traces"], TRACE)
        self.events: Records = np.frombuffer(raw["events"], EVENT)
        self.indices: Int64s = np.frombuffer(raw["indices"], np.int64)
        self.texts = build_texts(*raw["texts"])

    def text(self, number: int) -> str:
        return str(self.texts[number].as_py())

    @cached_property
    def category(self) -> npt.NDArray[np.int8]:
        """Place of each allocation in CATEGORIES."""
        by = [self.allocations[name] != 0 for name in ("entry_parameter", "live_out", "thread_local", "constant")]
        return np.select(by, [PARAMETER, OUTPUT, THREAD_LOCAL, CONSTANT], TEMPORARY).astype(np.int8)

    @cached_property
    def aliased(self) -> npt.NDArray[np.bool_]:
        """Return whether each allocation is a parameter that a result is written to, as recorded, or that may hold the
        program's result."""
        written = (self.allocations["aliased_output"] != 0) | (self.allocations["live_out"] != 0)
        aliased: npt.NDArray[np.bool_] = written & (self.allocations["entry_parameter"] != 0)
        return aliased

    @cached_property
    def whole_run(self) -> npt.NDArray[np.bool_]:
        """Return whether each allocation lives as long as the program runs, as parameters, outputs and constants do."""
        lives = [self.allocations[name] != 0 for name in ("entry_parameter", "live_out", "constant")]
        throughout: npt.NDArray[np.bool_] = lives[0] | lives[1] | lives[2]
        return throughout

    @cached_property
    def allocation_of(self) -> Int32s:
        """Row of each buffer's allocation, the last of several that list it, or -1."""
        return self._of_assigned("allocation", -1).astype(np.int32)

    @cached_property
    def lies(self) -> npt.NDArray[np.bool_]:
        """Return whether each buffer lies in an allocation; at the end False for -1."""
        lies: npt.NDArray[np.bool_] = np.append(self.allocation_of >= 0, False)
        return lies

    @cached_property
    def offset_of(self) -> Int64s:
        """Offset of each buffer in its allocation; 0 if it is in none."""
        return self._of_assigned("offset", 0)

    def _of_assigned(self, column: str, absent: int) -> Int64s:
        values = np.full(len(self.buffers), absent, np.int64)
        known = self.assigned["buffer"] >= 0
        values[self.assigned["buffer"][known]] = self.assigned[column][known]
        return values

    def inside(self, allocation: int) -> Int64s:
        """Return rows of the buffers in an allocation."""
        first, count = self.allocations[["first_assigned", "assigned_count"]][allocation].item()
        rows = self.assigned["buffer"][first : first + count].astype(np.int64)
        inside: Int64s = rows[rows >= 0]
        return inside

    def largest(self, allocation: int, last: bool = False) -> int:
        """Return the row of the largest buffer in an allocation, of equal ones the first, or the ``last``. -1: no
        buffer, or only empty ones."""
        rows = self.inside(allocation)
        sizes = self.buffers["size"][rows]
        if not len(rows) or sizes.max() <= 0:
            return -1
        return int(rows[np.flatnonzero(sizes == sizes.max())[-1 if last else 0]])

    def index(self, row: Any) -> tuple[int, ...]:
        """Return the element of a value that a buffer holds, or of a parameter that an allocation is for."""
        first = int(row["first_index"])
        return tuple(self.indices[first : first + int(row["index_count"])].tolist())


def _clip_sizes(records: Records) -> tuple[Records, npt.NDArray[np.bool_]]:
    """Return the records with 0 for sizes below it, and where those are."""
    odd: npt.NDArray[np.bool_] = records["size"] < 0
    if odd.any():
        records = records.copy()
        records["size"][odd] = 0
    return records, odd


# ---- heaps: how much is in use at each point of the program, and what is alive at the peak


class Heap:
    """One trace, a row of ``buffers.traces``, followed from its first event to its last. ``unpadded``: bytes by buffer.
    Events of buffers without allocation are ignored.

    ``events``              of the trace, records of BufferAssignment.events
    ``bytes``, ``unpadded`` in use before each event, and at the end
    ``rows``                the buffers that the trace names, ascending rows of BufferAssignment.buffers: a plan may
                            have many traces with few buffers each
    ``start``, ``end``, ``held``, ``freed``, ``root``   parallel to ``rows``: csrc/kernels/heap_trace.h describes them;
                            ``root`` is a place in ``rows``
    ``owners``, ``shown``   rows of buffers whose memory is in use at the peak, in the order of allocation, and the
                            buffers in that memory
    ``peak_event``          the event after which ``peak_bytes`` are in use
    ``passed_over``         events that make no sense, such as a second free
    """

    def __init__(self, buffers: BufferAssignment, trace: int, unpadded: Int64s) -> None:
        first, count = buffers.traces[["first_event", "event_count"]][trace].item()
        self.events: Records = buffers.events[first : first + count]
        named = np.concatenate([self.events["buffer"], self.events["canonical"]])
        self.rows, places = _number_rows(np.where(buffers.lies[named], named, np.int32(-1)), len(buffers.buffers))
        self.bytes: Int64s = np.empty(count + 1, np.int64)
        self.unpadded: Int64s = np.empty(count + 1, np.int64)
        self.start, self.end, self.held, self.freed, self.root = np.empty((5, len(self.rows)), np.int32)
        owners, shown = np.empty((2, count), np.int32)
        peak = heap_trace(
            np.ascontiguousarray(self.events["kind"]), places[:count], places[count:],
            buffers.buffers["size"][self.rows], unpadded[self.rows], self.bytes, self.unpadded,
            self.start, self.end, self.held, self.freed, self.root, owners, shown,
        )  # fmt: skip
        self.owners: Int64s = self.rows[owners[: peak["alive"]]]
        self.shown: Int64s = self.rows[shown[: peak["alive"]]]
        self.peak_bytes, self.peak_unpadded, self.peak_event = peak["bytes"], peak["unpadded"], peak["event"]
        self.passed_over = peak["passed_over"]

    def places(self, buffers: npt.NDArray[np.integer[Any]]) -> Int64s:
        """Return the places of buffers in ``rows``; -1 if the trace does not name them."""
        there, place = find_equal(self.rows, buffers)
        return np.where(there, place, -1)

    def spans(self, buffers: npt.NDArray[np.integer[Any]]) -> tuple[Int64s, Int64s]:
        """``held`` and ``freed`` of buffers; -1 if they own no memory of the heap."""
        at = self.places(buffers)
        return np.append(self.held, -1)[at].astype(np.int64), np.append(self.freed, -1)[at].astype(np.int64)


def _number_rows(rows: Int32s, count: int) -> tuple[Int64s, Int32s]:
    """Return the distinct ones of some rows of ``count``, ascending, and the place of each among them; -1 stays -1."""
    if count > 8 * len(rows):  # few of many: sorting is faster than marking all
        distinct, places = number_values(rows)
        absent = int(len(distinct) > 0 and distinct[0] < 0)
        return distinct[absent:].astype(np.int64), (places - absent).astype(np.int32)
    there = np.zeros(count + 1, bool)  # -1 is the last of these
    there[rows] = True
    there[-1] = False
    number = np.cumsum(there, dtype=np.int32) - 1
    number[-1] = -1
    return np.flatnonzero(there), number[rows].astype(np.int32)


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
        return _open_plan, (bytes(self.module.data),)

    @cached_property
    def unknown(self) -> str:
        """Why there are no figures of its memory, in words; "" if there are, and each sum of its sizes fits an
        int64."""
        if not self.buffers.is_there:
            return NO_PLAN
        return TOO_LARGE if self._most() > _MOST else ""

    def _most(self) -> int:
        """Return a bound of every sum of sizes: all allocations, and all buffers of each heap. Exact."""
        plan = self.buffers
        names = np.concatenate([plan.events["buffer"], plan.events["canonical"]]).astype(np.int64)
        named = np.flatnonzero(names >= 0)
        allocated = _sum_exactly(plan.allocations["size"])
        most = allocated + _sum_exactly(plan.buffers["size"][names[named]])
        if most <= _MOST:  # although buffers count each time that they are named
            return most
        traces = np.tile(plan.events["trace"].astype(np.int64), 2)
        once, _ = number_distinct_rows([traces[named], names[named]])
        return allocated + _sum_exactly(plan.buffers["size"][names[named[once]]])

    @cached_property
    def instruction(self) -> Int32s:
        """The row of the instruction that makes each buffer, by its id, in older programs by its name; -1 if there is
        none."""
        buffers, ids = self.buffers.buffers, self.module.instructions["id"]
        if not len(ids) or not len(buffers):
            return np.full(len(buffers), -1, np.int32)
        order = np.argsort(ids, kind="stable")
        place = find_last_started(ids[order], buffers["instruction_id"])
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
        distinct, at = number_values(rows)
        shapes = [self.module.shape(row) for row in distinct.tolist()]
        numbers = np.array([number(shape) for shape in shapes], np.int64)[at]
        for buffer in np.flatnonzero(self.buffers.buffers["index_count"]).tolist():
            numbers[buffer] = number(_find_element(shapes[at[buffer]], self.index(buffer)))
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
        """Return the instruction, and which element of its result: ``copy-start{0}``."""
        index = self.index(buffer)
        return self.instruction_name(buffer) + ("{" + ",".join(map(str, index)) + "}" if index else "")

    def instruction_name(self, buffer: int) -> str:
        row = int(self.instruction[buffer])
        if row >= 0:
            return self.module.names[row]
        return self.buffers.text(self.buffers.buffers["instruction_name"][buffer])

    def shape_text(self, shape: Shape) -> str:
        """Return a shape's text with its layout; "" if a damaged program has none."""
        offset, length = shape.proto
        return "" if shape is NO_SHAPE else self.module.shape_texts.text(self.module.data[offset : offset + length])

    # ---- heaps and memory spaces

    def heap(self, trace: int) -> Heap:
        if trace not in self._heaps:
            self._heaps[trace] = Heap(self.buffers, trace, self.at_least)
        return self._heaps[trace]

    @cached_property
    def trace_of(self) -> dict[int, int]:
        """Trace of the heap by row of its allocation: a trace belongs to the allocation of its first event's buffer;
        the last of several counts. (The allocations that traces name themselves are outdated.)"""
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


def _sum_exactly(sizes: Int64s) -> int:
    """Sum fewer than 2^31 sizes, none below 0."""
    return (int((sizes >> 32).sum()) << 32) + int((sizes & 0xFFFFFFFF).sum())


def _open_plan(data: bytes) -> ProgramMemory:
    return ProgramMemory(HloModule(data))


def _find_element(shape: Shape, index: tuple[int, ...]) -> Shape:
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
        """Return bytes of all allocations, or of those of a category."""
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
        """Bytes that the program takes when it runs: all allocations except those of threads."""
        return self._sum(self.allocations[self.program.buffers.allocations["thread_local"][self.allocations] == 0])

    @property
    def aliased_bytes(self) -> int:
        """Bytes of parameters that results are written to."""
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
        """Return the row of the largest buffer in an allocation; of equal ones the first, in outputs the last: the
        result, not what was there before. -1: no buffer, or only empty ones."""
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
        why = "the program does not record when temporaries are allocated and freed"
        if self.traced and untraced:
            why = "the program does not record when some temporaries are allocated and freed"
        elif self.traced:
            why = f"temporaries lie in {len(self.traced):,} heaps, and the program does not record how these overlap"
        bounds = f"it is at least {size:,} and at most {self.allocated_bytes:,} bytes"
        return Peak(None, None, f"{why}: {bounds}")

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


# ---- names of memory spaces

_TPU: Final = ("HBM", "VMEM", "SFLAG", "CMEM", "SMEM", "host", "SparseCore")
_NAMES: Final[Mapping[str, Mapping[int, str]]] = {
    "TPU": dict(enumerate(_TPU)),
    "GPU": {0: "device", 5: "host"},
    "CPU_ONLY": {0: "host"},
}
"""Names by hardware. Other spaces of GPUs and CPUs have no public names."""
_REQUESTED: Final = {name.lower(): number for number, name in enumerate(_TPU)} | {"device": 0}
"""Names that a space may be requested by, besides its number."""
DEVICE, VMEM = 0, 1


def get_space_name(number: int, hardware: str) -> str | None:
    """``hardware``: TPU, GPU or CPU_ONLY. None: unknown."""
    return _NAMES.get(hardware, {}).get(number)


def format_space(number: int, hardware: str) -> str:
    """``HBM``, or ``memory space 7``."""
    return get_space_name(number, hardware) or f"memory space {number}"


def parse_space(requested: str, hardware: str = "") -> int:
    """Return the number of a space given by number, also as in layouts, ``S(5)``, or by name, first among those of the
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
        f"{suggest_name(requested, names)}"
    )


_ALIASES = 8
"""The field of an HloModuleProto that lists the outputs written to parameters."""


# ---- scoped VMEM


def find_scoped_vmem(memory: ProgramMemory, number: int) -> dict[str, Any]:
    """Return figures of the most VMEM that one instruction takes for itself while it runs, the first of equal ones,
    from its backend_config (JSON), with a reason if there is none."""
    if number != VMEM:
        why = (None, "reported for VMEM alone: --memory-space vmem")
        return {"scoped_vmem_bytes": why, "scoped_vmem_instruction": why}
    most, taken_by = find_most_scoped(memory.module)
    none = (None, "no instruction takes any")
    return {"scoped_vmem_bytes": most or none, "scoped_vmem_instruction": taken_by or none}


def find_most_scoped(module: HloModule) -> tuple[int, str]:
    """Bytes and instruction of the most scoped VMEM; (0, ""): none."""
    every = module.instructions
    most, taken_by = 0, -1
    for row in np.flatnonzero(every["flags"] & HAS_BACKEND_CONFIG).tolist():
        at, length = every[["backend_config_offset", "backend_config_length"]][row].item()
        config = bytes(module.data[at : at + length])
        if b"used_scoped_memory_configs" not in config:
            continue
        try:
            parsed = json.loads(config)
        except (ValueError, RecursionError):  # not JSON: the backend's own business
            continue
        used = parsed.get("used_scoped_memory_configs") if isinstance(parsed, dict) else None
        for field in used if isinstance(used, list) else ():
            if isinstance(field, dict) and _parse_integer(field.get("memory_space")) == VMEM:
                size = _parse_integer(field.get("size"))
                most, taken_by = (size, row) if size > most else (most, taken_by)
    return most, module.text(module.instructions["name"][taken_by]) if most else ""


def _parse_integer(value: Any) -> int:
    """Return a number, or one in quotes, as protobuf's JSON has 64-bit integers; 0 for anything else."""
    if isinstance(value, str) and len(value) < 20:
        value = int(value) if value.isascii() and value.isdigit() else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else 0


# ---- programs without a plan


def list_signature_rows(memory: ProgramMemory, number: int) -> list[dict[str, Any]]:
    """Return parameters and outputs of a program without a plan, as large as their layouts say, in one memory space:
    rows of the table allocations. What the program writes to a parameter's memory counts there alone."""
    module = memory.module
    donated = _find_donated(module)
    signature: list[tuple[int, int, int | None]] = []  # category, row of an instruction, number of the parameter
    for row in module.rows_of(module.entry) if module.entry >= 0 else ():
        if module.opcodes[row] == "parameter":
            signature.append((PARAMETER, row, module.parameter_numbers[row]))
    root = module.roots[module.entry] if module.entry >= 0 else -1
    if root >= 0:
        signature.append((OUTPUT, root, None))
    rows = []
    for category, row, parameter in signature:
        own = {} if category == PARAMETER else donated
        mine = [
            leaf
            for index, leaf in module.shape(module.shape_rows[row]).leaves()
            if leaf.memory_space == number and not any(index[:length] in own for length in range(len(index) + 1))
        ]
        size = sum(leaf.array.padded_bytes or 0 for leaf in mine)
        is_cut = size >= MOST or any(leaf.is_cut for leaf in mine)
        is_aliased = category == PARAMETER and parameter in donated.values()
        source = module.source_of(row)
        rows.append({
            "buffer": module.names[row] or None,
            "shape": memory.shape_text(module.shape(module.shape_rows[row])) or None,
            "opcode": module.opcodes[row] or None,
            "op_name": module.op_name(row) or None,
            "source": f"{source.file}:{source.line}" if source.file else None,
            "category": CATEGORIES[category],
            "bytes": None if is_cut else size,
            "parameter_number": parameter,
            "is_output": category == OUTPUT or is_aliased,
            "is_aliased": is_aliased,
            "is_tuple": False,
            "is_reusable": True,
        })  # fmt: skip
    return rows


def _find_donated(module: HloModule) -> dict[tuple[int, ...], int]:
    """Return the parameter that each element of the result is written to; empty if that does not decode."""
    try:
        aliases = Message(module.proto).message(_ALIASES).messages(1)
        return {tuple(aliase.integers(1)): aliase.integer(2) for aliase in aliases}
    except CaptureError:
        return {}
