"""Parsers of amounts as people write them: times (1.5s), sizes (2GiB), step ranges (3:5, train=3:5), times of day."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import NamedTuple

from fastprof.wording.patterns import compile_late

_PICOSECONDS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
_TIME = compile_late(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*(ps|ns|us|µs|ms|s)?\s*", re.ASCII)
_BYTES = {
    "b": 1,
    **{f"{prefix}ib": 1 << 10 * power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
}
_SIZE = compile_late(r"\s*\+?(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?i?b)?\s*", re.ASCII | re.IGNORECASE)
_STEPS = compile_late(r"(\d{1,18})?(?:\s*(:)\s*(\d{1,18})?)?", re.ASCII)
_LONGEST = 60


class Steps(NamedTuple):
    """Steps with numbers from ``first`` up to ``last``, which is excluded; None leaves an end open. ``name``: name of
    the steps, such as train, or None for any name."""

    first: int | None
    last: int | None
    name: str | None = None

    def __str__(self) -> str:
        """Return the range in the form that ``parse_step_range`` reads."""
        first, last = ("" if bound is None else str(bound) for bound in (self.first, self.last))
        only = self.first is not None and self.last == self.first + 1
        return (f"{self.name}=" if self.name else "") + (first if only else f"{first}:{last}")


def parse_time(text: str) -> int:
    """Parse a time in picoseconds. ValueError: not a time, or not an integer number of picoseconds."""
    from fractions import Fraction

    match = _TIME.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a time; write a number and ps, ns, us, ms or s")
    time = Fraction(match[1]) * _PICOSECONDS[match[2] or "ps"]
    if time.denominator != 1:
        raise ValueError(f"{text!r} is not an integer number of picoseconds")
    if abs(time.numerator) >= 1 << 63:
        raise ValueError(f"{text!r} is more than 106 days, the limit of 64-bit picoseconds")
    return time.numerator


def parse_duration(text: str) -> int:
    """Parse a time with its unit. ValueError: it has none, or is not a time."""
    time = parse_time(text)
    if text.strip()[-1] != "s":
        raise ValueError(f"{text!r} has no unit; write ps, ns, us, ms or s, as in {text.strip()}us")
    return time


def parse_size(text: str) -> int:
    """Parse a size in bytes, at least 1; fractions of a byte are rounded up. ValueError: not a size."""
    from fractions import Fraction

    match = _SIZE.fullmatch(text) if len(text) <= _LONGEST else None
    unit = None if match is None else _BYTES.get((match[2] or "b").lower())
    if match is None or unit is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a size; write a number of bytes, or a number and KiB, MiB or GiB")
    size = -int(-Fraction(match[1]) * unit // 1)
    if not 0 < size < 1 << 63:
        raise ValueError(f"{text!r} is not between 1 byte and 8 EiB")
    return size


def parse_step_range(text: str) -> Steps:
    """Parse ``A:B``, ``A:``, ``:B``, or ``A`` for one step, without B. ``train=A:B`` is of the steps called train.
    ValueError: not a range of steps."""
    name, equals, numbers = text.rpartition("=")
    shown = repr(text) if len(text) <= _LONGEST else repr(text[:_LONGEST] + "…")
    if equals and not name.strip():
        raise ValueError(f"{shown} names no steps before the =; write NAME=A:B, as in train=3:5, or A:B")
    called, numbers = name.strip() or None, numbers.strip()
    prefix = f"{called[:_LONGEST]}=" if called else ""
    span = re.fullmatch(r"(\d{1,18})\s*-\s*(\d{1,18})", numbers, re.ASCII)
    if span and int(span[1]) <= int(span[2]):
        low, high = int(span[1]), int(span[2])
        raise ValueError(f"{shown} is not a range of steps; for steps {low} to {high} write {prefix}{low}:{high + 1}")
    if re.fullmatch(r"[\s\d:]*", numbers, re.ASCII) and re.search(r"\d{19}", numbers, re.ASCII):
        raise ValueError(f"{shown} is not a range of steps; step numbers have at most 18 digits")
    match = _STEPS.fullmatch(numbers)
    if match is None or not (match[1] or match[3]):
        raise ValueError(
            f"{shown} is not a range of steps; write A:B, A:, :B, A or NAME=A:B; B is excluded: 3:5 is 3 and 4"
        )
    first, last = (None if bound is None else int(bound) for bound in (match[1], match[3]))
    if not match[2] and first is not None:
        last = first + 1
    if first is not None and last is not None and last <= first:
        raise ValueError(f"{shown} contains no step; the second number is excluded: 3:5 is 3 and 4")
    return Steps(first, last, called)


def parse_time_of_day(given: str | date) -> tuple[float, ...]:
    """Return year, month, day, hour, minute and second in local time, or three of them for a date. ``given``: ISO 8601,
    "2026-11-01" or "2026-11-01 12:30"; a run name, 2026_11_01_12_30_00 or its beginning; or a ``datetime``. ValueError:
    not a time."""
    if isinstance(given, str):
        day, of_day = given.split("_")[:3], given.split("_")[3:]
        written = " ".join(["-".join(day), ":".join(of_day)]).strip() if len(day) == 3 else given
        try:
            given = datetime.fromisoformat(written)
        except ValueError:
            raise ValueError(f"{given!r} is not a time; write 2026-11-01, or 2026-11-01 12:30") from None
    if not isinstance(given, date):
        raise ValueError(f"a time is a text or a datetime, not {type(given).__name__}")
    if not isinstance(given, datetime):
        return given.year, given.month, given.day
    local = given if given.tzinfo is None else given.astimezone()
    return (*local.timetuple()[:5], local.second + local.microsecond / 1e6)
