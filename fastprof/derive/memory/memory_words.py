"""Sizes, moments, names and counts in the sentences of the memory profile."""

from __future__ import annotations

from fastprof.derive.memory.host_memory import MemoryFigures


def name_of(host: MemoryFigures, allocator: int, several: bool) -> str:
    """Of an allocator; ``several``: there are several hosts."""
    name = host.memory.names[allocator] or "an allocator without a name"
    return f"{name} of {host.memory.host}" if several else name


def op_of(host: MemoryFigures, number: int) -> str:
    """``number``: in op_names, -1: none."""
    name = host.events.sites.op_names[number] if number >= 0 else None
    return "an op that is not recorded" if name is None else name
