"""What an instruction costs: operations and bytes, as integers, and in the 32-bit floats that XLA adds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from fastprof.hlo.shapes import Index

Float: TypeAlias = np.float32
Place = tuple[int, Index]
"""An operand, and a leaf of it; (): the entire operand."""

ZERO, ONE, UNKNOWN = Float(0), Float(1), Float(-1)
_MOST = 2.0**62


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one execution; 0 where the model knows nothing."""

    flops: int = 0
    """Operations, of narrow types counted as the fraction of the time that they take."""
    model_flops: int = 0
    """Operations."""
    bytes_accessed: int = 0
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    is_known: bool = False
    """Whether the model knows what it does, or that it costs nothing; and no figure is cut to fit."""
    elsewhere: tuple[tuple[int, int, int], ...] = ()
    """Memory space as layouts number it, bytes read from it and written to it; without 0, which is HBM."""


NOTHING = Cost()
"""Of unknown instructions."""


class Effort:
    """Steps that the costs of one module may still take, beyond a constant per instruction. Instructions that share
    large parts would otherwise take the product of their sizes, in a module of a few bytes."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """LookupError: fewer are left."""
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

    def moves(self, total: float, output: float | None = None, **operands: float) -> None:
        """Sets the bytes: in total, of the output, and of operands by number: ``op0=…``."""
        self.bytes = Float(total)
        if output is not None:
            self.output[()] = Float(output)
        for name, size in operands.items():
            self.operand[int(name[2:]), ()] = Float(size)

    def add(self, other: Work) -> None:
        """Adds the operations and bytes of another; ``share`` is its own."""
        self.is_known &= other.is_known
        self.flops = Float(self.flops + other.flops)
        self.bytes = Float(self.bytes + other.bytes)
        for index, size in other.output.items():
            self.output[index] = Float(self.output.get(index, ZERO) + size)
        for place, size in other.operand.items():
            self.operand[place] = Float(self.operand.get(place, ZERO) + size)

    def becomes(self, other: Work) -> None:
        """Shares another's operations and bytes, to which neither adds from now on."""
        self.flops, self.bytes = other.flops, other.bytes
        self.output, self.operand = other.output, other.operand
        self.is_known = other.is_known


def largest(works: Iterable[Work]) -> Work:
    """The largest of each figure."""
    most = Work(flops=Float(-np.inf), bytes=Float(-np.inf))
    for work in works:
        most.is_known &= work.is_known
        most.flops, most.bytes = max(most.flops, work.flops), max(most.bytes, work.bytes)
        for index, size in work.output.items():
            most.output[index] = max(most.output.get(index, ZERO), size)
        for place, size in work.operand.items():
            most.operand[place] = max(most.operand.get(place, ZERO), size)
    return most


def nearest(value: Float) -> int:
    """Rounded, halves up; negative numbers as ``truncated``."""
    number = float(value)
    return math.floor(number + 0.5) if 0 <= number <= _MOST else truncated(value)


def truncated(value: Float) -> int:
    """An integer; NaN is 0, and what is beyond 2**62 is cut to fit."""
    number = float(value)
    if -_MOST <= number <= _MOST:
        return int(number)
    return 0 if math.isnan(number) else int(math.copysign(_MOST, number))


def fits(value: Float) -> bool:
    """Whether it is a number that ``truncated`` does not cut."""
    return bool(-_MOST < float(value) < _MOST)
