"""What counts as an operation: XLA has a count for GPUs and a general one.

The general one counts one operation per element of an elementwise instruction. XLA's own general analysis
(HloCostAnalysis) counts transcendental functions separately; here they count as one, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counting:
    """A way to count."""

    of_element: Callable[[str, str], int]
    """For an elementwise opcode, per element of a type such as F32."""
    reducer: int
    """Per element of a reduction over devices whose computation is unknown."""
    concatenated: tuple[int, int]
    """Per element that is joined; and where it is joined along an uneven dimension other than the first."""
    narrow_types_save: bool
    """Whether operations on narrow types count as the fraction of the time that they take."""
    as_used: bool
    """Whether fused instructions count as often as the fusion computes them, or once."""
    visits_all: bool
    """Whether every instruction is counted, or only those that XLA's analysis visits: see ``NOT_VISITED``."""


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

OF_GPUS = Counting(
    lambda opcode, element_type: CYCLES.get((opcode, element_type), _DEFAULT_CYCLES), _DEFAULT_CYCLES, (6, 400),
    narrow_types_save=True, as_used=True, visits_all=False,
)  # fmt: skip
"""Clock cycles of one GPU, for any device: XLA's GpuHloCostAnalysis."""
GENERAL = Counting(lambda *_: 1, 1, (0, 0), narrow_types_save=False, as_used=False, visits_all=True)

NOT_VISITED = ("sort", "all-reduce", "all-reduce-start", "reduce-scatter")
"""Opcodes whose called computations XLA's analysis does not visit."""
