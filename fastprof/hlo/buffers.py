"""The plan of a compiled program's memory: its buffers, the allocations that they lie in, and its heaps."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native.hlo import read_hlo_buffers
from fastprof._native.memory_kernels import heap_trace
from fastprof.schema.array_types import Int32s, Int64s, Records
from fastprof.schema.arrow_columns import texts_of

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
"""The structs of csrc/formats/hlo_buffers.h; a test compares their sizes with C's."""

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
        self.buffers, self.odd_buffers = _sized(np.frombuffer(raw["buffers"], BUFFER))
        self.allocations, self.odd_allocations = _sized(np.frombuffer(raw["allocations"], ALLOCATION))
        self.assigned, _ = _sized(np.frombuffer(raw["assigned"], ASSIGNED))
        self.traces: Records = np.frombuffer(raw["traces"], TRACE)
        self.events: Records = np.frombuffer(raw["events"], EVENT)
        self.indices: Int64s = np.frombuffer(raw["indices"], np.int64)
        self.texts = texts_of(*raw["texts"])

    def text(self, number: int) -> str:
        return str(self.texts[number].as_py())

    @cached_property
    def category(self) -> npt.NDArray[np.int8]:
        """By allocation, its place in CATEGORIES."""
        by = [self.allocations[name] != 0 for name in ("entry_parameter", "live_out", "thread_local", "constant")]
        return np.select(by, [PARAMETER, OUTPUT, THREAD_LOCAL, CONSTANT], TEMPORARY).astype(np.int8)

    @cached_property
    def aliased(self) -> npt.NDArray[np.bool_]:
        """By allocation: whether it is a parameter that a result is written to, as recorded, or because it may hold
        the program's result."""
        written = (self.allocations["aliased_output"] != 0) | (self.allocations["live_out"] != 0)
        aliased: npt.NDArray[np.bool_] = written & (self.allocations["entry_parameter"] != 0)
        return aliased

    @cached_property
    def whole_run(self) -> npt.NDArray[np.bool_]:
        """By allocation: whether it lives as long as the program runs, as parameters, outputs and constants do."""
        lives = [self.allocations[name] != 0 for name in ("entry_parameter", "live_out", "constant")]
        throughout: npt.NDArray[np.bool_] = lives[0] | lives[1] | lives[2]
        return throughout

    @cached_property
    def allocation_of(self) -> Int32s:
        """By buffer, the row of its allocation, the last of several that list it; -1: none."""
        return self._of_assigned("allocation", -1).astype(np.int32)

    @cached_property
    def lies(self) -> npt.NDArray[np.bool_]:
        """By buffer, whether it lies in an allocation; at the end False for -1."""
        lies: npt.NDArray[np.bool_] = np.append(self.allocation_of >= 0, False)
        return lies

    @cached_property
    def offset_of(self) -> Int64s:
        """By buffer, where in its allocation it begins; 0: it is in none."""
        return self._of_assigned("offset", 0)

    def _of_assigned(self, column: str, absent: int) -> Int64s:
        values = np.full(len(self.buffers), absent, np.int64)
        known = self.assigned["buffer"] >= 0
        values[self.assigned["buffer"][known]] = self.assigned[column][known]
        return values

    def inside(self, allocation: int) -> Int64s:
        """Rows of the buffers in an allocation."""
        first, count = self.allocations[["first_assigned", "assigned_count"]][allocation].item()
        rows = self.assigned["buffer"][first : first + count].astype(np.int64)
        inside: Int64s = rows[rows >= 0]
        return inside

    def largest(self, allocation: int, last: bool = False) -> int:
        """The row of the largest buffer in an allocation, of equal ones the first, or the ``last``. -1: no buffer, or
        only empty ones."""
        rows = self.inside(allocation)
        sizes = self.buffers["size"][rows]
        if not len(rows) or sizes.max() <= 0:
            return -1
        return int(rows[np.flatnonzero(sizes == sizes.max())[-1 if last else 0]])

    def index(self, row: Any) -> tuple[int, ...]:
        """The element of a value that a buffer holds, or of a parameter that an allocation is for."""
        first = int(row["first_index"])
        return tuple(self.indices[first : first + int(row["index_count"])].tolist())


def _sized(records: Records) -> tuple[Records, npt.NDArray[np.bool_]]:
    """The records with 0 for sizes below it, and where those are."""
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
        self.rows, places = _numbered(np.where(buffers.lies[named], named, np.int32(-1)), len(buffers.buffers))
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
        """The places of buffers in ``rows``; -1: the trace does not name them."""
        at = np.searchsorted(self.rows, buffers)
        places: Int64s = np.where(np.append(self.rows, -1)[at] == buffers, at, -1).astype(np.int64)
        return places

    def spans(self, buffers: npt.NDArray[np.integer[Any]]) -> tuple[Int64s, Int64s]:
        """``held`` and ``freed`` of buffers; -1: they own no memory of the heap."""
        at = self.places(buffers)
        return np.append(self.held, -1)[at].astype(np.int64), np.append(self.freed, -1)[at].astype(np.int64)


def _numbered(rows: Int32s, count: int) -> tuple[Int64s, Int32s]:
    """The distinct ones of some rows of ``count``, ascending, and the place of each among them; -1 stays -1."""
    if count > 8 * len(rows):  # few of many: sorting is faster than marking all
        distinct, places = np.unique(rows, return_inverse=True)
        absent = int(len(distinct) > 0 and distinct[0] < 0)
        return distinct[absent:].astype(np.int64), (places - absent).astype(np.int32)
    there = np.zeros(count + 1, bool)  # -1 is the last of these
    there[rows] = True
    there[-1] = False
    number = np.cumsum(there, dtype=np.int32) - 1
    number[-1] = -1
    return np.flatnonzero(there), number[rows].astype(np.int32)
