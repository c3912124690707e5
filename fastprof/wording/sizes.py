"""Sizes of memory as people write them, 2GiB, 512MiB, 1.5GB, a bare number of bytes, and as sentences tell them."""

from __future__ import annotations

import re

_UNITS = {
    "b": 1,
    **{f"{prefix}ib": 1 << 10 * power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
}
_SIZE = re.compile(r"\s*\+?(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?i?b)?\s*", re.ASCII | re.IGNORECASE)
_LONGEST = 60


def byte_count(text: str) -> int:
    """The size in bytes, 1 or more, a fraction of one rounded up. Raises ValueError, in words for the user, for what
    is no size."""
    from fractions import Fraction

    match = _SIZE.fullmatch(text) if len(text) <= _LONGEST else None
    unit = None if match is None else _UNITS.get((match[2] or "b").lower())
    if match is None or unit is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a size; write a number of bytes, or one and KiB, MiB, GiB or GB")
    size = -int(-Fraction(match[1]) * unit // 1)
    if not 0 < size < 1 << 63:
        raise ValueError(f"{text!r} is not between 1 byte and 8 EiB")
    return size


def size_text(size: int) -> str:
    """Three digits or more, and a unit."""
    for unit, bits in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if abs(size) >= 1 << bits:
            return f"{size / (1 << bits):,.3g} {unit}" if abs(size) < 1000 << bits else f"{size >> bits:,} {unit}"
    return f"{size} bytes"
