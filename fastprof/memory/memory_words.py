"""Sizes, moments, names and counts in the sentences of the memory profile."""

from __future__ import annotations

from fastprof.memory.host_memory import MemoryFigures


def size_text(size: int) -> str:
    """Three digits or more, and a unit."""
    for unit, bits in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if abs(size) >= 1 << bits:
            return f"{size / (1 << bits):,.3g} {unit}" if abs(size) < 1000 << bits else f"{size >> bits:,} {unit}"
    return f"{size} bytes"


def moment_text(time_ps: int) -> str:
    """With three decimals, in the largest unit that is not too large."""
    for unit, size in (("s", 10**12), ("ms", 10**9), ("µs", 10**6), ("ns", 10**3)):
        if abs(time_ps) >= size:
            return f"{time_ps / size:,.3f} {unit}"
    return f"{time_ps} ps"


def name_of(host: MemoryFigures, allocator: int, several: bool) -> str:
    """Of an allocator; ``several``: there are several hosts."""
    name = host.memory.names[allocator] or "an allocator without a name"
    return f"{name} of {host.memory.host}" if several else name


def op_of(host: MemoryFigures, number: int) -> str:
    """``number``: in op_names, -1: none."""
    name = host.events.sites.op_names[number] if number >= 0 else None
    return "an op that is not recorded" if name is None else name


def counted(count: int, one: str, more: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {more}"
