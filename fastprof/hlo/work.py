"""What an instruction costs: operations and bytes, as integers, and in the 32-bit floats that XLA adds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

import numpy as np

from fastprof.hlo.shapes import Index
from fastprof.schema.value_classes import dataclass

Float: TypeAlias = np.float32
Place = tuple[int, Index]
"""An operand, and a leaf of it; (): the entire operand."""

ZERO, ONE, UNKNOWN = Float(0), Float(1), Float(-1)
_MOST = 2.0**62


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one execution; 0 if the model knows nothing."""

    flops: int = 0
    """Operations, of narrow types counted as the fraction of the time that they take."""
    model_flops: int = 0
    """Operations."""
    bytes_accessed: int = 0
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    is_known: bool = False
    """True if the model knows what it does, or that it costs nothing; and no figure is cut to fit."""
    is_cut: bool = False
    """True if a figure is cut to fit 64 bits."""
    elsewhere: tuple[tuple[int, int, int], ...] = ()
    """Memory space as layouts number it, bytes read from it and written to it; without 0, which is HBM."""


NOTHING = Cost()
"""Cost of unknown instructions."""


class Effort:
    """Steps that the costs of one module may still take, beyond a constant per instruction. Instructions that share
    large parts would otherwise take the product of their sizes, in a module of a few bytes."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Spend steps. LookupError: fewer are left."""
        if steps > self._left:
            raise LookupError("an instruction takes too long to be measured")
        self._left -= steps


@dataclass(slots=True)
class Work:
    """``output`` and ``operand``: bytes written and read, by leaf. ``share``: how much of each operand is used, by
    default 1."""

    flops: Float = ZERO
    bytes: Float = ZERO
    output: dict[Index, Float] = field(default_factory=dict)
    operand: dict[Place, Float] = field(default_factory=dict)
    share: dict[int, float] = field(default_factory=dict)
    is_known: bool = True
    """False where it contains something of unknown work, such as a custom call."""

    def __len__(self) -> int:
        """Entries of its tables."""
        return len(self.output) + len(self.operand)

    def moves(self, total: float, output: float, *operands: float) -> None:
        """Set the bytes: in total, of the output, and of the first operands."""
        self.bytes, self.output[()] = Float(total), Float(output)
        for k, size in enumerate(operands):
            self.operand[k, ()] = Float(size)

    def add(self, other: Work) -> None:
        """Add the operations and bytes of another; ``share`` is its own."""
        self.is_known &= other.is_known
        self.flops = Float(self.flops + other.flops)
        self.bytes = Float(self.bytes + other.bytes)
        for index, size in other.output.items():
            self.output[index] = Float(self.output.get(index, ZERO) + size)
        for place, size in other.operand.items():
            self.operand[place] = Float(self.operand.get(place, ZERO) + size)

    def becomes(self, other: Work) -> None:
        """Share another's operations and bytes, to which neither adds from now on."""
        self.flops, self.bytes = other.flops, other.bytes
        self.output, self.operand = other.output, other.operand
        self.is_known = other.is_known


def find_largest_work(works: Iterable[Work]) -> Work:
    """Return the largest of each figure."""
    most = Work(flops=Float(-np.inf), bytes=Float(-np.inf))
    for work in works:
        most.is_known &= work.is_known
        most.flops, most.bytes = max(most.flops, work.flops), max(most.bytes, work.bytes)
        for index, size in work.output.items():
            most.output[index] = max(most.output.get(index, ZERO), size)
        for place, size in work.operand.items():
            most.operand[place] = max(most.operand.get(place, ZERO), size)
    return most


def round_nearest(value: Float) -> int:
    """Round to the nearest, halves up; negative numbers as ``truncate_float``."""
    number = float(value)
    return math.floor(number + 0.5) if 0 <= number <= _MOST else truncate_float(value)


def truncate_float(value: Float) -> int:
    """Return an integer; NaN is 0, and what is beyond 2**62 is cut to fit."""
    number = float(value)
    if -_MOST <= number <= _MOST:
        return int(number)
    return 0 if math.isnan(number) else int(math.copysign(_MOST, number))


def is_in_range(value: Float) -> bool:
    """Return whether it is a number that ``truncate_float`` does not cut."""
    return bool(-_MOST < float(value) < _MOST)


# ---- what counts as an operation: XLA has a count for GPUs and a general one

# The general one counts one operation per element of an elementwise instruction. XLA's own general analysis
# (HloCostAnalysis) counts transcendental functions separately; here they count as one, too.

_DEFAULT_CYCLES = 3
_CYCLES = {
    "add": "F64 97, C128 97",
    "subtract": "F64 97, C128 97",
    "multiply": "F64 97, C128 270",
    "divide": "S8 370, S16 367, S32 306, S64 918, U8 306, U16 302, U32 115, U64 838, F64 2016, C64 687, C128 7941",
    "power": "S8 392, S16 396, S64 601, U8 388, U16 399, U64 604, F16 975, F32 925, F64 5511, C64 3351, C128 18205",
    "exponential": "F16 108, F32 86, F64 1652, C64 1360, C128 4028",
    "exponential-minus-one": "F16 396, F32 381, F64 1900, C64 1400, C128 4161",
    "log": "F16 266, F32 244, F64 608, C64 950, C128 7599",
    "log-plus-one": "F16 284, F32 262, F64 2073, C64 842, C128 6962",
    "logistic": "F16 226, F32 176, F64 2412",
    "tanh": "F16 212, F32 190, F64 1609, C128 9939",
    "sqrt": "F16 97, F32 75, F64 986, C64 3193, C128 15606",
    "rsqrt": "F16 97, F32 75, F64 698, C64 2383, C128 11318",
    "cbrt": "F16 925, F32 867, F64 6339",
    "sine": "F32 662, F64 1789, C128 5878",
    "cosine": "F16 691, F32 662, F64 1717, C128 6613",
    "atan2": "F16 482, F32 486, F64 3747, C64 5353, C128 39027",
}
"""Per element, as XLA's cost model of GPUs has measured them on sm_86; it uses them for any device."""
_PAIRS = ((opcode, pair.split()) for opcode, row in _CYCLES.items() for pair in row.split(", "))
CYCLES = {(opcode, kind): int(cycles) for opcode, (kind, cycles) in _PAIRS}


@dataclass(frozen=True, slots=True)
class Counting:
    """A way to count. ``for_gpus``: as XLA counts for GPUs: operations on narrow types as the fraction of the time that
    they take, fused instructions as often as the fusion computes them, and only what XLA's analysis visits (see
    ``NOT_VISITED``); else every instruction counts, and once."""

    for_gpus: bool

    def of_element(self, opcode: str, element_type: str) -> int:
        """Return the operations of an elementwise opcode per element of a type such as F32; for an unknown opcode those
        of most."""
        return CYCLES.get((opcode, element_type), _DEFAULT_CYCLES) if self.for_gpus else 1


OF_GPUS = Counting(for_gpus=True)
"""Clock cycles of one GPU, for any device: XLA's GpuHloCostAnalysis."""
GENERAL = Counting(for_gpus=False)

NOT_VISITED = ("sort", "all-reduce", "all-reduce-start", "reduce-scatter")
"""Opcodes whose called computations XLA's analysis does not visit."""
