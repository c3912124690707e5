"""Times as people write them: 1.5s, 300ms, a bare number of picoseconds."""

from __future__ import annotations

import re

_PICOSECONDS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
_TIME = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*(ps|ns|us|µs|ms|s)?\s*", re.ASCII)
_LONGEST = 60


def picoseconds(text: str) -> int:
    """The time in picoseconds. Raises ValueError, in words for the user, for what is no whole number of them."""
    from fractions import Fraction

    match = _TIME.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a time; write a number and ps, ns, us, ms or s")
    time = Fraction(match[1]) * _PICOSECONDS[match[2] or "ps"]
    if time.denominator != 1:
        raise ValueError(f"{text!r} is no whole number of picoseconds")
    if abs(time.numerator) >= 1 << 63:
        raise ValueError(f"{text!r} is beyond 106 days, the most that picoseconds count")
    return time.numerator


def moment_text(time_ps: int) -> str:
    """With three decimals, in the largest unit that is not too large."""
    for unit, size in (("s", 10**12), ("ms", 10**9), ("µs", 10**6), ("ns", 10**3)):
        if abs(time_ps) >= size:
            return f"{time_ps / size:,.3f} {unit}"
    return f"{time_ps} ps"
