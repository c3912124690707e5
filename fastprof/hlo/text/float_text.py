"""Floats as HLO text has them.

32 and 64 bits with 6 and 15 digits where these restore the value, else with 9 and 17; other types with enough digits to
distinguish their values. The payload of a NaN is printed unless it is the plain quiet NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from fastprof.hlo.shapes import TYPE_NAMES
from fastprof.schema.value_classes import dataclass

Numbers = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Small:
    """A float of at most a byte. ``specials``: "ieee" (infinities and NaNs at the largest exponent), "fn" (one NaN, all
    bits of it set), "fnuz" (one NaN, where -0 would be), "none"."""

    exponent: int
    mantissa: int
    bias: int
    specials: str
    signed: bool = True


_SMALL = {
    "F8E5M2": Small(5, 2, 15, "ieee"),
    "F8E4M3": Small(4, 3, 7, "ieee"),
    "F8E3M4": Small(3, 4, 3, "ieee"),
    "F8E4M3FN": Small(4, 3, 7, "fn"),
    "F8E4M3B11FNUZ": Small(4, 3, 11, "fnuz"),
    "F8E5M2FNUZ": Small(5, 2, 16, "fnuz"),
    "F8E4M3FNUZ": Small(4, 3, 8, "fnuz"),
    "F8E8M0FNU": Small(8, 0, 127, "fn", signed=False),
    "F4E2M1FN": Small(2, 1, 1, "none"),
}
SMALL = {TYPE_NAMES.index(name): small for name, small in _SMALL.items()}
"""By xla.PrimitiveType."""
_DIGITS = {"float16": (5, 5), "bfloat16": (4, 4), "float32": (6, 9), "float64": (15, 17)}
_MANTISSAS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def float_texts(values: Numbers, name: str | None = None) -> list[str]:
    """Of float16, float32 or float64; or of bfloat16 given as uint16, with that ``name``."""
    name = name or str(values.dtype)
    bits = values.view(f"u{values.dtype.itemsize}")
    if name == "bfloat16":
        values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    few, most = _DIGITS[name]
    numbers: list[float] = values.tolist()
    written = (f"%.{few}g " * len(numbers)) % tuple(numbers)
    texts = written.split()
    if few != most:
        with np.errstate(over="ignore"):
            again = np.fromstring(written, np.float64, sep=" ").astype(values.dtype)
        for place in np.flatnonzero(again != values).tolist():
            texts[place] = f"%.{most}g" % numbers[place]
    for place in np.flatnonzero(np.isnan(values)).tolist():
        texts[place] = _nan(int(bits[place]), _MANTISSAS[name], 8 * bits.dtype.itemsize)
    return texts


def small_float_texts(kind: int, values: Sequence[int]) -> list[str]:
    """Of floats of at most a byte, by their bits. KeyError: another ``kind``."""
    table = _table(kind)
    return [table[value % len(table)] for value in values]


@cache
def _table(kind: int) -> tuple[str, ...]:
    small = SMALL[kind]
    bits = small.exponent + small.mantissa + small.signed
    return tuple(_small_text(small, value, bits) for value in range(1 << bits))


def _small_text(small: Small, bits: int, width: int) -> str:
    mantissa = bits & (1 << small.mantissa) - 1
    exponent = bits >> small.mantissa & (1 << small.exponent) - 1
    negative = small.signed and bits >> width - 1
    at_top = exponent == (1 << small.exponent) - 1
    if small.specials == "fnuz" and bits == 1 << width - 1:
        return "-nan"
    if small.specials == "fn" and at_top and mantissa == (1 << small.mantissa) - 1:
        return "-nan" if negative else "nan"
    if small.specials == "ieee" and at_top and mantissa:
        return _nan(bits, small.mantissa, width)
    if small.specials == "ieee" and at_top:
        size = math.inf
    elif exponent or not small.signed:
        size = math.ldexp((1 << small.mantissa) + mantissa, exponent - small.bias - small.mantissa)
    else:
        size = math.ldexp(mantissa, 1 - small.bias - small.mantissa)
    digits = math.ceil(1 + (small.mantissa + 1) * math.log10(2))
    return f"%.{digits}g" % (-size if negative else size)


def _nan(bits: int, mantissa: int, width: int) -> str:
    payload = bits & (1 << mantissa) - 1
    sign = "-" if bits >> width - 1 else ""
    return f"{sign}nan" if payload == 1 << mantissa - 1 else f"{sign}nan(0x{payload:x})"
