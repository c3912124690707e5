"""The type of the numbers that a GPU kernel computes with, by its name or by the types that its HLO instruction reads.

No profiler records it. Libraries write it into the names of their kernels, templates of C++ have it as an argument, and
a compiled program has the types of its arrays. Of several types in a name the narrowest counts: sums are mostly wider
than what they add up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

from fastprof.wording.patterns import pattern_of

_TENSILE: Final = pattern_of(r"Cijk_A[a-z]+_B[a-z]+_(4xi8|I8|F8|B8|[HBSDCZ])")
"""Names of AMD's library of products. Cijk_Ailk_Bljk_BBS_BH_MT128x128x32 reads bf16 (B), writes bf16 and adds up in f32
(S); BH says that it scales what it adds to, and adds up in more bits."""
_OF_TENSILE: Final = {
    "4xi8": "s8", "I8": "s8", "F8": "f8", "B8": "f8", "H": "f16", "B": "bf16", "S": "f32", "D": "f64", "C": "c64",
    "Z": "c128",
}  # fmt: skip
_COMMUNICATES: Final = pattern_of(r"^[nr]ccl")
_NAMED: Final = tuple((name, pattern_of(pattern, re.IGNORECASE)) for name, pattern in (
    ("f4", r"e2m1|^nvjet_(?:sm\d+_)?oo"),
    ("f8", r"e[45]m[23]|float8|fp8_\w*(?:gemm|matmul|mqa)|^nvjet_(?:sm\d+_)?q"),
    ("s8", r"i8816|i16832|imma|i8i8_"),
    ("bf16", r"bf(?:loat)?16|^nvjet_(?:sm\d+_)?t"),
    ("f16", r"(?<!b)f(?:p|loat)?16(?!\d)|(?<![a-z])half(?![a-z])|h884|h1688|h16816|s884|(?<![a-z])h(?:gemm|cudnn)"
            r"|^nvjet_(?:sm\d+_)?h"),
    ("tf32", r"tf32|(?<!turing_)s1688"),
    ("f32", r"f(?:p|loat)?32(?!\d)|(?<!\w)float\d?(?!\w)|(?<![a-z])s(?:gemm|cudnn|kudnn)|ffma"),
    ("f64", r"f(?:p|loat)?64(?!\d)|(?<!\w)double\d?(?!\w)|(?<![a-z])d(?:gemm|cudnn|884)"),
))  # fmt: skip
_FLOATS: Final = pattern_of(r"b?f\d|c64|c128")
_NARROW: Final = pattern_of(r"b?f(?:16|8|4)|s8")


def of_kernel(kernel: str, types_read: Callable[[], Collection[str]]) -> str | None:
    """The type, such as bf16, in the name of a kernel, else that of the only floats that its instruction reads; None:
    neither shows one, or the kernel only communicates. ``types_read``: called if the name has none."""
    if _COMMUNICATES.match(kernel):
        return None
    tensile = _TENSILE.search(kernel)
    if tensile:
        return _OF_TENSILE[tensile[1]]
    named = next((name for name, pattern in _NAMED if pattern.search(kernel)), None)
    if named is not None:
        return named
    floats = [one for one in types_read() if _FLOATS.match(one)]
    return floats[0] if len(floats) == 1 else None


def is_narrow(name: str) -> bool:
    """Whether numbers of this type have at most 16 bits."""
    return _NARROW.match(name) is not None
