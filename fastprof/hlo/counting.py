"""What counts as an operation: XLA has two ways to count, one for GPUs, and a general one.

The general one counts one operation for each element that an elementwise instruction computes; XLA's own general
analysis (HloCostAnalysis) keeps those of transcendental functions apart, here they count as one as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastprof.hlo.operator_cycles import DEFAULT_CYCLES, cycles


@dataclass(frozen=True, slots=True)
class Counting:
    """A way to count."""

    of_element: Callable[[str, str], int]
    """Of an elementwise opcode, on one element of a type, such as F32."""
    reducer: int
    """On one element, of a reduction over devices that does not say what it computes."""
    concatenated: tuple[int, int]
    """On each element that is joined; and where it is joined along a dimension but the first of uneven size."""
    narrow_types_save: bool
    """Whether operations on narrow types count as the fraction of the time that they take."""
    as_used: bool
    """Whether fused instructions count as often as the fusion computes them, or once."""
    visits_all: bool
    """Whether each instruction is known. Else those are not that only ``NOT_VISITED`` run, or nothing at all."""


def _one(_opcode: str, _element_type: str) -> int:
    return 1


OF_GPUS = Counting(cycles, DEFAULT_CYCLES, (6, 400), narrow_types_save=True, as_used=True, visits_all=False)
"""Clock cycles of one GPU, whichever the device is: XLA's GpuHloCostAnalysis, as XProf shows it."""

GENERAL = Counting(_one, 1, (0, 0), narrow_types_save=False, as_used=False, visits_all=True)

NOT_VISITED = ("sort", "all-reduce", "all-reduce-start", "reduce-scatter")
"""Opcodes of instructions of which XLA's analysis does not look into the computations that they call."""
