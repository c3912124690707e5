"""Sizes, moments, names and counts in the sentences of the memory profile."""

from __future__ import annotations

from fastprof.memory.host_memory import MemoryFigures
from fastprof.size_text import size_text as size_text


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
