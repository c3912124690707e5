"""Numbers for people: times and sizes in a unit that suits, one for a whole column where one does.

All integer arithmetic: what is shown is the exact value, rounded once, half to even.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

TIME_UNITS = (("s", 10**12), ("ms", 10**9), ("µs", 10**6), ("ns", 10**3), ("ps", 1))
SIZE_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))

_TOP = 10**6  # of the column's unit: beyond, digits are too many to read
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a column of times is written: the unit that its title bears, or none, and each time."""

    unit: str
    text: Callable[[int], str]


def time_text(picoseconds: int) -> str:
    """Four digits and a unit: ``1.234 ms``."""
    return _scaled(picoseconds, TIME_UNITS)


def size_text(size: int) -> str:
    """Four digits and a unit: ``1.234 MiB``."""
    return _scaled(size, SIZE_UNITS)


def count_text(number: int) -> str:
    return f"{number:,}"


def unix_text(nanoseconds: int) -> str:
    """Unix time as UTC, to the nanosecond: ``2026-11-21 09:30:00.123456789``."""
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{nanoseconds:,} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest:09d}"


def time_column(picoseconds: Sequence[int]) -> Quantity:
    """How to write these times: in one unit where three decimals show them all, else each in its own.

    The unit is the largest in which the least time still shows two digits, unless the greatest would
    then take more than six before its point: times as far apart as that have a unit each.
    """
    sizes = [abs(time) for time in picoseconds if time]
    if sizes:
        least, most = min(sizes), max(sizes)
        for name, unit in TIME_UNITS:
            if least * 100 >= unit and most < unit * _TOP and (most >= unit or unit == 1):
                return _in_one_unit(name, unit)
    return Quantity("", time_text)


def moment_column(picoseconds: Sequence[int]) -> Quantity:
    """How to write moments: in the unit that suits the greatest, to a nanosecond where they are that close."""
    most = max((abs(moment) for moment in picoseconds), default=0)
    name, unit = next(((name, unit) for name, unit in TIME_UNITS if most >= unit), TIME_UNITS[-1])
    apart = len(set(picoseconds))
    for decimals in (3, 6, 9):
        if decimals > 3 and unit < 10**decimals:
            break
        quantity = _in_one_unit(name, unit, decimals, whole=True)
        if len({quantity.text(moment) for moment in picoseconds}) == apart:
            break
    return quantity


def _in_one_unit(name: str, unit: int, decimals: int = 3, *, whole: bool = False) -> Quantity:
    """Numbers without their unit, which the title bears.

    A number that shows nothing in it has one of its own, unless ``whole`` forbids.
    """

    def text(picoseconds: int) -> str:
        size = abs(picoseconds)
        if size and not whole and (size * 1000 < unit or size >= unit * _TOP * 1000):
            return time_text(picoseconds)
        return _decimal(picoseconds, unit, 0 if unit == 1 else decimals)

    return Quantity(name, text)


def _scaled(value: int, units: Sequence[tuple[str, int]]) -> str:
    for name, unit in units:
        if abs(value) >= unit:
            whole = abs(value) // unit
            decimals = 0 if unit == 1 else max(0, 4 - len(str(whole)))
            return f"{_decimal(value, unit, decimals)} {name}"
    return f"{value} {units[-1][0]}"


def _decimal(value: int, unit: int, decimals: int) -> str:
    """``value / unit`` rounded to ``decimals``, with thousands separated."""
    scale = 10**decimals
    quotient, rest = divmod(abs(value) * scale, unit)
    if rest * 2 > unit or (rest * 2 == unit and quotient % 2):
        quotient += 1
    sign = "-" if value < 0 and quotient else ""
    whole, part = divmod(quotient, scale)
    return f"{sign}{whole:,}.{part:0{decimals}d}" if decimals else f"{sign}{whole:,}"
