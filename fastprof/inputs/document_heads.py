"""Whether a file of JSON is a trace, by how it begins: programs name theirs as they like."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Final

from fastprof.inputs.formats import chrome_json

_LOOKED_AT: Final = 1 << 20
"""Bytes, packed or not: tools write what they know of devices first, before the events."""
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ANY_HEADER: Final = 47  # of zlib: gzip, and 32 KiB of window
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_PHASE = re.compile(rb'"ph"\s*:\s*"')


def is_trace(path: str) -> bool:
    """Whether the document has ``traceEvents``, or is an array with phases. False: not, or it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            head = _unpacked(file.read(_LOOKED_AT))
    except OSError:
        return False
    if not chrome_json.begins(head):
        return False
    return bool(_EVENTS.search(head) or (_ARRAY.match(head) and _PHASE.search(head)))


def _unpacked(head: bytes) -> bytes:
    """What of a compressed file's beginning can be unpacked; all other bytes as they are."""
    if head.startswith(_GZIP):
        try:
            return zlib.decompressobj(_ANY_HEADER).decompress(head, _LOOKED_AT)
        except zlib.error:
            return b""
    if head.startswith(_ZSTD):
        return _of_zstd(head)
    return head


def _of_zstd(head: bytes) -> bytes:
    import pyarrow as pa

    parts: list[bytes] = []
    try:
        with pa.CompressedInputStream(pa.BufferReader(head), "zstd") as stream:
            while sum(map(len, parts)) < _LOOKED_AT and (part := stream.read(1 << 16)):
                parts.append(part)
    except (OSError, pa.ArrowInvalid):  # the head ends within a frame
        pass
    return b"".join(parts)
