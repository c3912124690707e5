"""Files that can be checked for damage: checksums of all their bytes follow these.

A file of the cache may be old, and disks, copies and people damage files: what is damaged is to be built again, before
anything trusts it. Reading 1 GB takes a tenth of a second if the system has it in memory.
"""

from __future__ import annotations

import os
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Final

from fastprof.decode.workers import Workers, cpu_count

_BLOCK: Final = 1 << 20
_SHARE: Final = 16
"""Blocks that a thread checks at a time: less than that is not worth a thread."""
_FOOT: Final = struct.Struct("<QI4s8s")
"""How many bytes there were, a checksum of the checksums and of that number, and the magic."""
_MAGIC: Final = b"fpsealed"


class DamagedError(ValueError):
    """The file is not what was written, or of another kind: it is to be built again."""


def seal(path: Path) -> None:
    """Adds the checksums to a complete file. OSError: it cannot be read or written."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        sums = _checksums(file.fileno(), size)
        file.seek(size)
        file.write(sums + _foot(size, sums))


def check(path: Path) -> None:
    """DamagedError: the file has no checksums, or others than its bytes. OSError: it cannot be read."""
    with path.open("rb") as file:
        descriptor = file.fileno()
        total = os.fstat(descriptor).st_size
        size = _recorded_size(descriptor, total)
        if size is None or total != size + _sums_size(size) + _FOOT.size:
            raise DamagedError("no checksums")
        tail = os.pread(descriptor, total - size, size)
        sums = tail[: -_FOOT.size]
        if tail != sums + _foot(size, sums) or sums != _checksums(descriptor, size):
            raise DamagedError("the bytes are not those that were written")


def content_size(path: Path) -> int:
    """How many bytes a file had before it was sealed, if it is."""
    with path.open("rb") as file:
        total = os.fstat(file.fileno()).st_size
        size = _recorded_size(file.fileno(), total)
    return total if size is None else size


def _foot(size: int, sums: bytes) -> bytes:
    return _FOOT.pack(size, zlib.crc32(sums + struct.pack("<Q", size)), b"", _MAGIC)


def _recorded_size(descriptor: int, total: int) -> int | None:
    """The number of bytes that the end of a file records; None: it records no possible number."""
    if total < _FOOT.size:
        return None
    size, _, _, magic = _FOOT.unpack(os.pread(descriptor, _FOOT.size, total - _FOOT.size))
    return int(size) if magic == _MAGIC and size <= total - _FOOT.size else None


def _sums_size(size: int) -> int:
    return -(-size // _BLOCK) * 4


def _checksums(descriptor: int, size: int) -> bytes:
    """A checksum for each block. Blocks are copied, not mapped: what has been checked need not stay in memory."""
    step = _SHARE * _BLOCK
    tasks = [partial(_share, descriptor, first, min(first + step, size)) for first in range(0, size, step)]
    return b"".join(Workers(cpu_count()).run(None, tasks))


def _share(descriptor: int, first: int, last: int) -> bytes:
    block, sums = memoryview(bytearray(min(_BLOCK, last - first))), bytearray()
    for at in range(first, last, _BLOCK):
        there = os.preadv(descriptor, [block[: min(_BLOCK, last - at)]], at)
        sums += struct.pack("<I", zlib.crc32(block[:there]))
    return bytes(sums)
