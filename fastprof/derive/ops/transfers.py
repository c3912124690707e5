"""Ops that start, await or do a transfer that does not go at the speed of the device's memory.

An asynchronous transfer runs from its start (``copy-start``) to its end (``copy-done``): the time of neither depends
on how much it moves. Feeds, sends and copies to or from the host's memory go over a link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import without_serial
from fastprof.derive.ops.async_ops import DONE, PARTS, part_before
from fastprof.derive.ops.tables import HOST, MemoryAccess, OpTable
from fastprof.schema.array_types import Bools
from fastprof.wording.patterns import pattern_of

_LINKED: Final = frozenset({"send", "recv", "host send", "host recv"})
_FEEDS: Final = ("infeed", "outfeed")
_HOST_LAYOUT: Final = pattern_of(r"\{(?:(?!S\(5\))[^{}])*+S\(5\)[^{}]*+\}")


def waits(table: OpTable) -> Bools:
    """Ops whose time depends neither on arithmetic nor on the device's memory: starts and ends of asynchronous
    transfers, sends, feeds, copies to or from the host's memory."""
    waiting = np.array([_is_transfer(_kind(*one)) for one in zip(table.category, table.name, strict=True)], bool)
    linked = np.unique(table.memory.row[table.memory.space == HOST]).tolist()
    waiting[[row for row in linked if table.category[row]]] = True  # sums of ops have no category
    return waiting


def _kind(category: str, name: str) -> str:
    return category or without_serial(name)


@lru_cache(1 << 12)
def _is_transfer(kind: str) -> bool:
    return kind.endswith(PARTS) or kind in _LINKED or any(feed in kind for feed in _FEEDS)


def placed(table: OpTable) -> OpTable:
    """The same ops of one core. Those with recorded bytes but no recorded memory moved nothing to or from HBM, but used
    the host's memory if their layouts say so, else an unknown memory."""
    recorded = table.has_breakdown() | (table.bytes_accessed <= 0)
    linked = [
        not known and bool(_HOST_LAYOUT.search(text)) for known, text in zip(recorded, table.long_name, strict=True)
    ]
    silent = np.flatnonzero(~recorded & (table.tells_memories | np.array(linked, bool)))
    if not len(silent):
        return table
    spaces = [HOST if _HOST_LAYOUT.search(table.long_name[row]) else 0 for row in silent.tolist()]
    accesses = zip(silent.tolist(), spaces, table.bytes_accessed[silent].tolist(), strict=True)
    added = MemoryAccess.of([(row, 0, space, size) for row, space, size in accesses])
    return replace(table, memory=table.memory.and_also(added))


def once(table: OpTable) -> OpTable:
    """The same ops for sums over them: bytes recorded both for the start of a transfer and for its end count at the
    end. The same holds for the bytes of each memory and direction."""
    end_of = dict(_pairs(table))
    if not end_of:
        return table
    start, done = list(end_of), list(end_of.values())
    moved = table.bytes_accessed.copy()
    moved[start] = np.maximum(moved[start] - moved[done], 0.0)
    memory = table.memory
    keys = list(zip(memory.row.tolist(), memory.operation.tolist(), memory.space.tolist(), strict=True))
    sizes = dict(zip(keys, memory.bytes.tolist(), strict=True))
    left = memory.bytes.copy()
    for place, (row, way, space) in enumerate(keys):
        if row in end_of:
            left[place] = max(left[place] - sizes.get((end_of[row], way, space), 0.0), 0.0)
    return replace(table, bytes_accessed=moved, memory=replace(memory, bytes=left))


def _pairs(table: OpTable) -> Iterator[tuple[int, int]]:
    """Rows of starts and of their ends, if bytes are recorded for both."""
    ends = [
        row
        for row in np.flatnonzero(table.bytes_accessed > 0).tolist()
        if _kind(table.category[row], table.name[row]).endswith(DONE)
    ]
    if not ends:
        return
    keys = zip(table.program_id.tolist(), table.name, strict=True)
    rows = {key: row for row, key in enumerate(keys)}
    met = set[int]()
    for row in ends:
        start = rows.get((int(table.program_id[row]), part_before(table.name[row], table.long_name[row])), -1)
        if start >= 0 and start != row and start not in met and table.bytes_accessed[start] > 0:
            met.add(start)
            yield start, row
