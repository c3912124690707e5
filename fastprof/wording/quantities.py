"""Numbers as people read them: times and sizes in a readable unit, for a column in one unit if possible.

Times, sizes and counts are integers: the exact value is rounded once, half to even. Sentences and tables use the same
functions, so that they show the same digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite

TIME_UNITS = (("s", 10**12), ("ms", 10**9), ("µs", 10**6), ("ns", 10**3), ("ps", 1))
SIZE_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))

_TOP = 10**6  # of the column's unit: longer numbers are hard to read
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Quantity:
    """The notation of a column of times: the unit in its title, or "", and the text of each time."""

    unit: str
    text: Callable[[int], str]


def time_text(picoseconds: int) -> str:
    """Four digits and a unit: ``1.234 ms``."""
    return _scaled(picoseconds, TIME_UNITS)


def size_text(size: int) -> str:
    """Four digits and a unit: ``1.234 MiB``."""
    return _scaled(size, SIZE_UNITS)


def moment_text(picoseconds: int) -> str:
    """A single moment with three decimals: ``1,234.567 s``. Moments in a column use ``moment_column``."""
    moment = moment_column([picoseconds])
    return f"{moment.text(picoseconds)} {moment.unit}"


def count_text(number: int) -> str:
    return f"{number:,}"


def counted(count: int, one: str, more: str) -> str:
    """A count with its noun: ``1 event``, ``2,000 events``."""
    return f"1 {one}" if count == 1 else f"{count:,} {more}"


def few(names: Iterable[str], limit: int = 5) -> str:
    """The first names, separated by commas, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - limit:,} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more


def shortened(name: str, limit: int = 40) -> str:
    """The name, cut with … to this length."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


def unix_text(nanoseconds: int) -> str:
    """Unix time as UTC, to the nanosecond: ``2026-11-21 09:30:00.123456789``."""
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{nanoseconds:,} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest:09d}"


def time_column(picoseconds: Sequence[int]) -> Quantity:
    """The notation of these times: in one unit if three decimals show them all, else each in its own unit.

    The unit is the largest in which the shortest time shows at least two digits. If the longest would then have more
    than six digits before its point, each time has its own unit.
    """
    sizes = [abs(time) for time in picoseconds if time]
    if sizes:
        least, most = min(sizes), max(sizes)
        for name, unit in TIME_UNITS:
            if least * 100 >= unit and most < unit * _TOP and (most >= unit or unit == 1):
                return _in_one_unit(name, unit)
    return Quantity("", time_text)


def moment_column(picoseconds: Sequence[int]) -> Quantity:
    """The notation of these moments: in the unit that suits the largest, with enough decimals to distinguish them, down
    to a nanosecond."""
    most = max((abs(moment) for moment in picoseconds), default=0)
    name, unit = next(((name, unit) for name, unit in TIME_UNITS if most >= unit), TIME_UNITS[-1])
    apart = len(set(picoseconds))
    for decimals in (3, 6, 9):
        if decimals > 3 and unit < 10**decimals:
            break
        quantity = _in_one_unit(name, unit, decimals, always=True)
        if len({quantity.text(moment) for moment in picoseconds}) == apart:
            break
    return quantity


def rounded(value: float, text: Callable[[int], str]) -> str:
    """A time or size, rounded to an integer first, because means have fractions."""
    return text(round(value)) if isfinite(value) else _odd(value)


@dataclass(frozen=True, slots=True)
class Measure:
    """The notation of figures in a unit: ``number`` writes the number; ``sign`` is the unit, which may take a prefix.

    ``ending``: the ending of column names in this unit.
    """

    ending: str
    sign: str
    number: Callable[[float], str]

    def title(self, name: str) -> str:
        return f"{name.removesuffix(self.ending)} ({self.sign})"

    def text(self, value: float) -> str:
        number = self.number(value)
        return f"{number}{self.sign}" if number[-1:].isalpha() and isfinite(value) else f"{number} {self.sign}"


def measured(value: float, unit: str | None) -> str:
    """A single figure with its unit."""
    if unit in _TIMES:
        return rounded(value * _TIMES[unit], time_text)
    if unit == "bytes":
        return rounded(value, size_text)
    if unit in MEASURES:
        return MEASURES[unit].text(value)
    number = count_text(value) if isinstance(value, int) else _plain(value)
    return f"{number} {unit}" if unit else number


def bar_text(share: float, unicode: bool) -> str:
    """A bar whose length is this share, 0 to 1, of the longest bar; empty for other values."""
    if not 0 < share <= 1 + 1e-9:
        return ""
    eighths = round(min(share, 1.0) * BAR * 8)
    if not unicode:
        return "#" * round(eighths / 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def _plain(value: float) -> str:
    return f"{value:,.6g}" if isfinite(value) else _odd(value)


def _percent(value: float) -> str:
    return f"{value:,.1f}" if isfinite(value) else _odd(value)


def _share(value: float) -> str:
    return _percent(100 * value)


def _prefixed(value: float) -> str:
    """Four digits and an SI prefix: ``1.234 T``."""
    for prefix, size in _PREFIXES:
        if isfinite(value) and abs(value) >= size:
            return f"{value / size:,.4g} {prefix}"
    return _plain(value)


def _odd(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]


BAR = 12
"""Cells of the longest bar."""
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_TIMES = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}

MEASURES = {
    "%": Measure("_percent", "%", _percent),
    "share": Measure("_share", "%", _share),
    "bytes/s": Measure("_bytes_per_s", "B/s", _prefixed),
    "flop": Measure("_flops", "FLOP", _prefixed),
    "flop/s": Measure("_flops_per_s", "FLOP/s", _prefixed),
    "hz": Measure("_hz", "Hz", _prefixed),
    "us": Measure("_us", "µs", _plain),
    "ms": Measure("_ms", "ms", _plain),
    "s": Measure("_s", "s", _plain),
    "joules": Measure("_joules", "J", _prefixed),
    "watts": Measure("_watts", "W", _prefixed),
}
"""Units of figures that are neither counts nor integers of picoseconds or bytes."""


def _in_one_unit(name: str, unit: int, decimals: int = 3, *, always: bool = False) -> Quantity:
    """Numbers without their unit, which is in the title.

    A number that is too small or too large for this unit has its own unit, unless ``always`` is set.
    """

    def text(picoseconds: int) -> str:
        size = abs(picoseconds)
        if size and not always and (size * 1000 < unit or size >= unit * _TOP * 1000):
            return time_text(picoseconds)
        return _decimal(picoseconds, unit, 0 if unit == 1 else decimals)

    return Quantity(name, text)


def _scaled(value: int, units: Sequence[tuple[str, int]]) -> str:
    for name, unit in units:
        if abs(value) >= unit:
            decimals = 0 if unit == 1 else max(0, 4 - len(str(abs(value) // unit)))
            return f"{_decimal(value, unit, decimals)} {name}"
    return f"{value} {units[-1][0]}"


def _decimal(value: int, unit: int, decimals: int) -> str:
    """``value / unit``, rounded to ``decimals``, with commas between thousands."""
    scale = 10**decimals
    quotient, rest = divmod(abs(value) * scale, unit)
    if rest * 2 > unit or (rest * 2 == unit and quotient % 2):
        quotient += 1
    sign = "-" if value < 0 and quotient else ""
    integer, part = divmod(quotient, scale)
    return f"{sign}{integer:,}.{part:0{decimals}d}" if decimals else f"{sign}{integer:,}"
