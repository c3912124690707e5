"""Numbers as tfprof rounds them."""

from __future__ import annotations


def amount(value: int) -> str:
    """1.23k, 1.23m, 1.23b; less than a thousand as it is."""
    return _scaled(value, "", (("k", 10**3), ("m", 10**6), ("b", 10**9)))


def time(micros: int) -> str:
    return _scaled(micros, "us", (("ms", 10**3), ("sec", 10**6)))


def memory(size: int) -> str:
    return _scaled(size, "B", (("KB", 10**3), ("MB", 10**6)))


def _scaled(value: int, unit: str, larger: tuple[tuple[str, int], ...]) -> str:
    if value < larger[0][1]:
        return f"{value}{unit}"
    name, scale = next(step for step in reversed(larger) if value >= step[1])
    return f"{value / scale:.2f}{name}"
