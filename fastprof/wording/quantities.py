"""Numbers as people read them: times and sizes in a readable unit, for a column in one unit if possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Final

TIME_UNITS = (("s", 10**12), ("ms", 10**9), ("µs", 10**6), ("ns", 10**3), ("ps", 1))
SIZE_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))

_TOP = 10**6  # of the column's unit: longer numbers are hard to read
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Quantity:
    """Notation of a column of times: the unit in its title, or "", and the text of each time."""

    unit: str
    text: Callable[[int], str]


def format_time(picoseconds: int) -> str:
    """Format a time with four digits and a unit: ``1.234 ms``."""
    return _format_scaled(picoseconds, TIME_UNITS)


def format_size(size: int) -> str:
    """Format a size with four digits and a unit: ``1.234 MiB``."""
    return _format_scaled(size, SIZE_UNITS)


def format_moment(picoseconds: int) -> str:
    """Format a single time stamp with three decimals: ``1,234.567 s``. Columns use ``choose_moment_unit``."""
    moment = choose_moment_unit([picoseconds])
    return f"{moment.text(picoseconds)} {moment.unit}"


def format_count(number: int) -> str:
    return f"{number:,}"


def count_noun(count: int, single: str, more: str) -> str:
    """Format a count with its noun: ``1 event``, ``2,000 events``."""
    return f"1 {single}" if count == 1 else f"{count:,} {more}"


def list_few(names: Iterable[str], limit: int = 5) -> str:
    """Join the first names with commas, and say how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - limit:,} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more


LONG: Final = 120
"""Most letters of a name in a sentence about it."""


def shorten_name(name: str, limit: int = 40) -> str:
    """Cut a name with … to this length."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


def format_unix_time(nanoseconds: int) -> str:
    """Format Unix time as UTC, to the nanosecond: ``2026-11-21 09:30:00.123456789``."""
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{nanoseconds:,} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest:09d}"


def choose_time_unit(picoseconds: Sequence[int]) -> Quantity:
    """Return the notation of these times: one unit if three decimals show them all, else a unit for each.

    The unit is the largest in which the shortest time shows at least two digits. If the longest would then have more
    than six digits before its point, each time has its own unit.
    """
    sizes = [abs(time) for time in picoseconds if time]
    if sizes:
        least, most = min(sizes), max(sizes)
        for name, unit in TIME_UNITS:
            if least * 100 >= unit and most < unit * _TOP and (most >= unit or unit == 1):
                return _make_quantity(name, unit)
    return Quantity("", format_time)


def choose_moment_unit(picoseconds: Sequence[int]) -> Quantity:
    """Return the notation of these time stamps: the unit of the largest, with enough decimals to distinguish them, down
    to a nanosecond."""
    most = max((abs(moment) for moment in picoseconds), default=0)
    name, unit = next(((name, unit) for name, unit in TIME_UNITS if most >= unit), TIME_UNITS[-1])
    apart = len(set(picoseconds))
    for decimals in (3, 6, 9):
        if decimals > 3 and unit < 10**decimals:
            break
        quantity = _make_quantity(name, unit, decimals, always=True)
        if len({quantity.text(moment) for moment in picoseconds}) == apart:
            break
    return quantity


def format_rounded(value: float, text: Callable[[int], str]) -> str:
    """Format a time or size, rounded to an integer first, because means have fractions."""
    return text(round(value)) if isfinite(value) else _odd(value)


@dataclass(frozen=True, slots=True)
class Measure:
    """Notation of figures in a unit. ``number`` writes the number; ``sign``: unit sign, which may take a prefix;
    ``ending``: ending of column names in this unit."""

    ending: str
    sign: str
    number: Callable[[float], str]

    def title(self, name: str) -> str:
        return f"{name.removesuffix(self.ending)} ({self.sign})"

    def text(self, value: float) -> str:
        number = self.number(value)
        return f"{number}{self.sign}" if number[-1:].isalpha() and isfinite(value) else f"{number} {self.sign}"


def format_measure(value: float, unit: str | None) -> str:
    """Format a single figure with its unit."""
    if unit in _TIMES:
        return format_rounded(value * _TIMES[unit], format_time)
    if unit == "bytes":
        return format_rounded(value, format_size)
    if unit in MEASURES:
        return MEASURES[unit].text(value)
    number = format_count(value) if isinstance(value, int) else _format_plain(value)
    return f"{number} {unit}" if unit else number


def format_cost(cost_ps: int, share: float | None, *, is_bound: bool) -> str:
    """Format the cost of a finding and its share of the run."""
    cost = f"{'up to ' if is_bound else ''}{format_measure(cost_ps, 'ps')}"
    return cost if share is None else f"{cost}, {format_measure(share, 'share')}"


def draw_bar(share: float, unicode: bool) -> str:
    """Draw a bar whose length is this share, 0 to 1, of the longest bar; empty for other values."""
    if not 0 < share <= 1 + 1e-9:
        return ""
    eighths = round(min(share, 1.0) * BAR * 8)
    if not unicode:
        return "#" * round(eighths / 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def _format_plain(value: float) -> str:
    return f"{value:,.6g}" if isfinite(value) else _odd(value)


def _format_percent(value: float) -> str:
    return f"{value:,.1f}" if isfinite(value) else _odd(value)


def _format_share(value: float) -> str:
    return _format_percent(100 * value)


def _format_prefixed(value: float) -> str:
    """Format a number with four digits and an SI prefix: ``1.234 T``."""
    for prefix, size in _PREFIXES:
        if isfinite(value) and abs(value) >= size:
            return f"{value / size:,.4g} {prefix}"
    return _format_plain(value)


def _odd(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]


BAR = 12
"""Cells of the longest bar."""
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_TIMES = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}

MEASURES = {
    "%": Measure("_percent", "%", _format_percent),
    "share": Measure("_share", "%", _format_share),
    "bytes/s": Measure("_bytes_per_s", "B/s", _format_prefixed),
    "flop": Measure("_flops", "FLOP", _format_prefixed),
    "flop/s": Measure("_flops_per_s", "FLOP/s", _format_prefixed),
    "hz": Measure("_hz", "Hz", _format_prefixed),
    "us": Measure("_us", "µs", _format_plain),
    "ms": Measure("_ms", "ms", _format_plain),
    "s": Measure("_s", "s", _format_plain),
    "joules": Measure("_joules", "J", _format_prefixed),
    "watts": Measure("_watts", "W", _format_prefixed),
}
"""Units of figures that are neither counts nor integers of picoseconds or bytes."""


def _make_quantity(name: str, unit: int, decimals: int = 3, *, always: bool = False) -> Quantity:
    """Return the notation of numbers whose unit is in the title. A number that is too small or too large for it has its
    own unit, unless ``always`` is set."""

    def text(picoseconds: int) -> str:
        size = abs(picoseconds)
        if size and not always and (size * 1000 < unit or size >= unit * _TOP * 1000):
            return format_time(picoseconds)
        return _format_decimal(picoseconds, unit, 0 if unit == 1 else decimals)

    return Quantity(name, text)


def _format_scaled(value: int, units: Sequence[tuple[str, int]]) -> str:
    for name, unit in units:
        if abs(value) >= unit:
            decimals = 0 if unit == 1 else max(0, 4 - len(str(abs(value) // unit)))
            return f"{_format_decimal(value, unit, decimals)} {name}"
    return f"{value} {units[-1][0]}"


def _format_decimal(value: int, unit: int, decimals: int) -> str:
    """Format ``value / unit``, rounded to ``decimals``, with commas between thousands."""
    scale = 10**decimals
    quotient, rest = divmod(abs(value) * scale, unit)
    if rest * 2 > unit or (rest * 2 == unit and quotient % 2):
        quotient += 1
    sign = "-" if value < 0 and quotient else ""
    integer, part = divmod(quotient, scale)
    return f"{sign}{integer:,}.{part:0{decimals}d}" if decimals else f"{sign}{integer:,}"


STEP_CATEGORIES: Final = {
    "step_time": "step time",
    "device_compute": "device compute",
    "device_to_device": "copies between devices",
    "device_collectives": "collectives",
    "host_compute": "host compute",
    "kernel_launch": "launch preparation",
    "input": "input",
    "output": "copies to the host",
    "compilation": "compilation",
    "all_others": "unattributed time",
    "compute": "compute",
    "copies": "copies",
    "not_training": "evaluation, logging and saving",
    "idle": "device idle time",
    "sparse_core_v0_compute": "waiting for SparseCores",
    "sparse_core_v0_input": "input of SparseCores",
}
"""Display name of each category of step time, by name."""


def format_step_category(category: str) -> str:
    """Return the display name of a category of step time; other names stay unchanged."""
    return STEP_CATEGORIES.get(category, category)
