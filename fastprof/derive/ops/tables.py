"""Ops and what they cost: the rows that every op statistic is made of.

An op is known by (program_id, name). On the host program_id is 0, or the id of an input pipeline stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import isqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.kernels import group_sums
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Bools, Float64s, Int32s, Int64s, Records, UInt8s
from fastprof.schema.value_classes import dataclass

DURATIONS = "the durations of ops"
"""What does not add up, in messages of errors."""

IDLE = "IDLE"
"""Name and category of the row for time without any op."""

TENSOR_CORE, SPARSE_CORE = 1, 2
"""Codes of ``core_type``; 0: unknown."""

READ, WRITE = 1, 2
"""Codes of what a memory access does; 0: unknown."""

FROM_CAPTURE, FROM_HLO, FROM_SHAPES = 1, 2, 3
"""Codes of where figures of work are from; 0: they are not known."""

MOST_WORK = 2.0**100
"""Larger figures of flops, bytes or joules are damage; those below add up and divide without overflow."""

HBM, CMEM, VMEM = 1, 2, 3
"""Codes of memory spaces; 0: unknown."""
OTHER_SPACES: Final = 1000
"""Added to the number that layouts give a memory space if it has no code of its own here."""
HOST: Final = OTHER_SPACES + 5
"""The host's memory: S(5) in layouts."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryAccess:
    """Bytes that ops move, by memory space and direction; an op without a row here has no such breakdown."""

    row: Int32s
    """Row of the op in its table."""
    operation: UInt8s
    """READ, WRITE or 0."""
    space: Int64s
    """HBM, CMEM, VMEM or another number."""
    bytes: Float64s
    """Bytes of all occurrences together."""

    @classmethod
    def none(cls) -> MemoryAccess:
        return cls(np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def of(cls, accesses: Sequence[tuple[int, int, int, float]]) -> MemoryAccess:
        """Of row, operation, space and bytes of each access."""
        types = (np.int32, np.uint8, np.int64, np.float64)
        columns = zip(*accesses, strict=True) if accesses else ((), (), (), ())
        return cls(*(np.array(column, dtype) for column, dtype in zip(columns, types, strict=True)))

    def where(self, chosen: Bools) -> MemoryAccess:
        return MemoryAccess(*(getattr(self, name)[chosen] for name in self.__slots__))

    def and_also(self, other: MemoryAccess) -> MemoryAccess:
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return MemoryAccess(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class OpTable:
    """n ops, a column each. ``OpTable.of`` makes one and fills the columns that are not given.

    Times are exact int64 picoseconds. Work (flops, bytes) is float64: exact below 2**53, and never overflows.
    Work is that of all occurrences together.
    """

    program_id: Int64s
    """Program (uint64 as two's complement); on the host 0, or the id of an input pipeline stage."""
    name: list[str]
    category: list[str]
    """HLO category; type of a framework op; "" if unknown."""
    provenance: list[str]
    """Framework op that it comes from, `name:type`; "" if unknown."""
    long_name: list[str]
    """The HLO instruction in full."""
    deduplicated_name: list[str]
    source_file: list[str]
    source_line: Int64s
    """-1: unknown."""
    source_stack: list[str]
    attribution: list[str]
    """How the op was found for events that do not name it themselves; "" if they do."""
    unattributed: list[str]
    """Why it is not known which op its events belong to; "" if it is."""
    no_work: list[str]
    """Why the work of a product of PyTorch is not known; "" of all others."""
    occurrences: Int64s
    executions: Int64s
    """How often the op ran as a whole: on GPUs one execution may be several occurrences, which are kernels."""
    time_ps: Int64s
    """Sum of durations."""
    self_ps: Int64s
    """Sum of durations less those of nested ops."""
    min_ps: Int64s
    """Shortest occurrence."""
    normalized_ps: Int64s
    """time_ps at the nominal clock (TPU)."""
    dma_stall_ps: Int64s
    flops: Float64s
    model_flops: Float64s
    bytes_accessed: Float64s
    energy_j: Float64s
    cores: Int32s
    """Cores that the op ran on."""
    core_type: UInt8s
    """TENSOR_CORE, SPARSE_CORE or 0."""
    is_eager: Bools
    tells_memories: Bools
    """Whether the capture says how the bytes of an op of one core divide over memories, if only that it is not known:
    then ``memory`` has no row of it. False of ops that were combined."""
    flops_source: UInt8s
    """FROM_CAPTURE, FROM_HLO, FROM_SHAPES or 0: where ``flops`` and ``model_flops`` are from."""
    bytes_source: UInt8s
    """The same of ``bytes_accessed`` and ``memory``."""
    memory: MemoryAccess

    def __len__(self) -> int:
        return len(self.name)

    @classmethod
    def of(cls, name: Sequence[str], **columns: object) -> OpTable:
        """A table of these names; columns left out are 0, "", -1 (source_line), ``occurrences``
        (executions) or False."""
        count = len(name)
        columns.setdefault("executions", columns.get("occurrences"))
        filled: dict[str, object] = {"name": list(name)}
        for column in TEXT_COLUMNS:
            given = columns.pop(column, None)
            filled[column] = [""] * count if given is None else list(given)  # type: ignore[call-overload]
        for column, dtype in NUMBER_COLUMNS.items():
            given = columns.pop(column, None)
            blank = -1 if column == "source_line" else 0
            filled[column] = np.full(count, blank, dtype) if given is None else np.asarray(given, dtype)
        filled["memory"] = columns.pop("memory", None) or MemoryAccess.none()
        if columns:
            raise TypeError(f"an op table has no column {', '.join(columns)}")
        return cls(**filled)  # type: ignore[arg-type]

    @classmethod
    def empty(cls) -> OpTable:
        return cls.of([])

    def take(self, rows: Int64s) -> OpTable:
        """These rows, in this order; each at most once."""
        picked = rows.tolist()
        columns: dict[str, object] = {}
        for column in ("name", *TEXT_COLUMNS):
            texts = getattr(self, column)
            columns[column] = [texts[row] for row in picked]
        for column in NUMBER_COLUMNS:
            columns[column] = getattr(self, column)[rows]
        to = np.full(len(self), -1, np.int32)
        to[rows] = np.arange(len(rows), dtype=np.int32)
        memory = replace(self.memory, row=to[self.memory.row])
        return OpTable(**columns, memory=memory.where(memory.row >= 0))  # type: ignore[arg-type]

    def moved_bytes(self, space: int, operation: int | None = None) -> Float64s:
        """Bytes of each op to or from a memory space; 0 if the op has no breakdown."""
        chosen = self.memory.space == space
        if operation is not None:
            chosen &= self.memory.operation == operation
        return np.bincount(self.memory.row[chosen], self.memory.bytes[chosen], len(self)).astype(np.float64)

    def has_breakdown(self) -> Bools:
        """Which ops say how their bytes divide over memory spaces."""
        known = np.zeros(len(self), bool)
        known[self.memory.row] = True
        return known

    def hbm_bytes(self) -> Float64s:
        """Bytes to and from HBM; of an op without a breakdown all its bytes."""
        return np.where(self.has_breakdown(), self.moved_bytes(HBM), self.bytes_accessed)


_NUMBER_TYPES: Final = {
    "Bools": np.bool_, "Float64s": np.float64, "Int32s": np.int32, "Int64s": np.int64, "UInt8s": np.uint8,
}  # fmt: skip
TEXT_COLUMNS: Final = tuple(one.name for one in fields(OpTable) if one.type == "list[str]" and one.name != "name")
"""The columns of texts, without ``name``."""
NUMBER_COLUMNS: Final[dict[str, type[np.generic]]] = {
    one.name: _NUMBER_TYPES[str(one.type)] for one in fields(OpTable) if one.type in _NUMBER_TYPES
}
"""The columns of numbers, with their types."""


_HALF: Final = np.uint64(32)
_LOW_BITS: Final = np.uint64(2**32 - 1)


def is_work(figures: Float64s) -> Bools:
    """Which figures may be work; others, such as those below 0 and NaN, count as not recorded."""
    with np.errstate(invalid="ignore"):
        known: Bools = (figures >= 0) & (figures <= MOST_WORK)
    return known


def exact_sum(values: npt.NDArray[Any] | Sequence[int], what: str = DURATIONS) -> int:
    """The sum of integers. CaptureError: 64 bits cannot hold it, so that the times are damaged."""
    total = sum(values.tolist() if isinstance(values, np.ndarray) else values)
    if not -(2**63) <= total < 2**63:
        raise CaptureError(f"{what} do not add up in 64 bits")
    return int(total)


def span_ps(host: str, plane: str, begin: int, end: int) -> int:
    """From ``begin`` to ``end``; 0: the end comes first. CaptureError: 64 bits cannot hold it."""
    if end - begin >= 2**63:
        raise CaptureError(f"the times of plane {plane} of host {host} span more than 64 bits of picoseconds can count")
    return max(end - begin, 0)


def summed_by(row: npt.NDArray[Any], values: npt.NDArray[Any], count: int, what: str = DURATIONS) -> Records:
    """Exact sums of integers by row, of ``count`` rows, as records.GROUP_SUM; values of negative rows are left out.
    CaptureError: a sum does not fit 64 bits."""
    sums = np.zeros(count, records.GROUP_SUM)
    try:
        group_sums(np.ascontiguousarray(row, np.int32), np.ascontiguousarray(values, np.int64), sums)
    except OverflowError as error:
        raise CaptureError(f"{what} do not add up in 64 bits") from error
    return sums


def sums_by(row: npt.NDArray[Any], values: npt.NDArray[Any], count: int, what: str = DURATIONS) -> Int64s:
    """The totals of ``summed_by``."""
    return summed_by(row, values, count, what)["total"].copy()


def deviations_by(row: npt.NDArray[Any], values: npt.NDArray[Any], sums: Records) -> list[int | None]:
    """The standard deviation (sample) of values by row, rounded down; None: a row has fewer than two. ``sums``: of
    ``summed_by``.

    Of n values it is sqrt((n * squares - total**2) / (n * (n - 1))). Squares take up to 126 bits, so value
    = high * 2**32 + low is squared in parts, and each part is added up in halves of 32 bits."""
    number = np.abs(values).astype(np.uint64)
    high, low = number >> _HALF, number & _LOW_BITS
    squares = [0] * len(sums)
    for product, place in ((low * low, 0), (high * low, 33), (high * high, 64)):
        for part, more in ((product & _LOW_BITS, 0), (product >> _HALF, 32)):
            added = sums_by(row, part, len(sums)).tolist()
            squares = [square + (one << place + more) for square, one in zip(squares, added, strict=True)]
    counted = zip(sums["count"].tolist(), sums["total"].tolist(), squares, strict=True)
    return [isqrt((n * square - total**2) // (n * (n - 1))) if n > 1 else None for n, total, square in counted]


def quartiles(values: Int64s) -> list[int]:
    """The quartiles of integers in ascending order, at least one: by their places, linear between two values, rounded
    down. Of 10, 20, 40 they are 15, 20, 30."""
    places = [divmod(quarter * (len(values) - 1), 4) for quarter in (1, 2, 3)]
    return [
        (int(values[at]) * (4 - rest) + int(values[min(at + 1, len(values) - 1)]) * rest) // 4 for at, rest in places
    ]


def least_by(row: npt.NDArray[Any], values: npt.NDArray[Any], count: int) -> Int64s:
    """The smallest value of each of ``count`` rows; 0: it has none."""
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, row, values)
    return np.where(np.bincount(row, minlength=count) > 0, least, 0)


def exact_product(values: Int64s, times: int, what: str = DURATIONS) -> Int64s:
    """Integers, none of them negative, times a number. CaptureError: a product does not fit 64 bits."""
    if times and int(values.max(initial=0)) > (2**63 - 1) // times:
        raise CaptureError(f"{what} do not add up in 64 bits")
    return values * times


@dataclass(frozen=True, slots=True, eq=False)
class Ops:
    """Ops of a thread, a core, a device or a host, and the time they are measured against.

    ``table`` has no row for idle time: that is ``idle_ps``.
    """

    table: OpTable
    total_ps: int = 0
    """Time observed: of each line or device at least its span, and at least the time in which its ops ran, summed."""
    op_ps: int = 0
    """Sum of self times."""
    normalized_op_ps: int = 0
    """Sum of self times at the nominal clock (TPU)."""
    infeed_enqueue_ps: int = 0
    """Time from infeed enqueue to infeed enqueue, but for the last of each host thread: their durations."""
    infeed_enqueue_start_diff_ps: int = 0
    """The same, from start to start."""
    overlapped_ps: int = 0
    """Self time that ran while other ops of the same device did, on other lines of it: ``op_ps`` counts it again."""
    parts: int = 1
    """Threads, cores or devices that these are the ops of; 0: there was nothing to observe, not even idle time."""
    children: OpTable | None = None
    """SparseCore ops that run on behalf of ops of ``table``; in no sum of it."""
    parent: Int32s | None = None
    """Of each child, the row of its op in ``table``."""

    @property
    def busy_ps(self) -> int:
        """Time in which any op ran."""
        return self.op_ps - self.overlapped_ps

    @property
    def idle_ps(self) -> int:
        return self.total_ps - self.busy_ps

    @property
    def shared_ps(self) -> int:
        """What shares of self time are of: that of all ops, and idle time."""
        return self.op_ps + self.idle_ps

    @classmethod
    def none(cls) -> Ops:
        return cls(OpTable.empty(), parts=0)
