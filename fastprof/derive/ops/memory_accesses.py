"""Reads the stat memory_access_breakdown: the bytes that an op moves, by memory space and direction.

It is a MemoryAccessBreakdown of op_metrics.proto: repeated field 1, each with operation_type 1, memory_space 2,
bytes_accessed 3, all varints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fastprof.derive.ops.tables import (
    CMEM,
    HBM,
    READ,
    VMEM,
    WRITE,
    MemoryAccess,
)
from fastprof.schema.array_types import Int64s
from fastprof.wording.quantities import size_text

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


Totals = dict[tuple[int, int], int]
"""Bytes by direction and space."""


def memory_accesses(payloads: Mapping[int, bytes], keys: Int64s, known: dict[bytes, Totals]) -> MemoryAccess:
    """The accesses of each op, ``keys[i]`` being the payload of op i, for one occurrence. Of a payload that is cut off
    or holds something else, what comes before counts. ``known``: payloads read before; cores that run one program
    share them."""
    accesses: list[tuple[int, int, int, int]] = []
    for row, key in enumerate(keys.tolist()):
        payload = payloads.get(key, b"")
        totals = known.get(payload)
        if totals is None:
            totals = known[payload] = _totals(payload)
        accesses += [(row, operation, space, count) for (operation, space), count in totals.items()]
    return MemoryAccess.of(accesses)


def access_text(payload: bytes) -> str:
    """One line per memory and direction: ``HBM read: 8.000 MiB (8,388,608 bytes)``; "": none is recorded."""
    return "\n".join(_access(space, operation, size) for (operation, space), size in _totals(payload).items())


def _access(space: int, operation: int, size: int) -> str:
    exact = f" ({size:,} bytes)" if abs(size) >= 1024 else ""
    return f"{_SPACES.get(space, f'memory {space}')} {_WAYS.get(operation, 'moved')}: {size_text(size)}{exact}"


_SPACES: Final = {0: "unknown memory", HBM: "HBM", CMEM: "CMEM", VMEM: "VMEM"}
_WAYS: Final = {READ: "read", WRITE: "written"}


def _totals(payload: bytes) -> Totals:
    totals: Totals = {}
    for operation, space, count in _accesses(payload):
        totals[operation, space] = totals.get((operation, space), 0) + count
    return totals


def _accesses(data: bytes) -> Iterator[tuple[int, int, int]]:
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            fields = {at: known for at, known in _fields(value) if isinstance(known, int)}
            operation = fields.get(1, 0)
            space = fields.get(2, 0)
            yield operation if operation in (READ, WRITE) else 0, space - (space >> 63 << 64), fields.get(3, 0)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's varints and length-delimited fields, as far as they are whole."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            if at <= len(data):
                yield tag >> 3, value
        elif kind == _BYTES:
            length, at = _varint(data, at)
            if at + length <= len(data):
                yield tag >> 3, data[at : at + length]
            at += length
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A value and where it ends: past the end if it is cut off."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value % 2**64, at
        shift += 7
    return 0, len(data) + 1
