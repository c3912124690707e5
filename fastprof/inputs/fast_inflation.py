"""Gzip that isal inflates, if it is installed (the extra ``gzip``): in a third of the time.

isal reads only what is sound. From anything else on, the caller has the stream read by zlib, so that results, errors
and what is left of damaged data are the same with and without isal.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

_GZIP: Final = 16 + zlib.MAX_WBITS
_PIECE: Final = 1 << 16


class NotSoundError(Exception):
    """The data are damaged, cut off, or something else follows them."""


def inflated(read: Callable[[int], bytes], size: int) -> Iterator[bytes] | None:
    """Chunks of ``size`` bytes; the last may have fewer. They raise NotSoundError. None: isal is not installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return _chunks(isal_zlib, read, size)


def _chunks(isal: Any, read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    stream, parts, count, left = isal.decompressobj(_GZIP), [], 0, b""
    while True:
        more = left or read(_PIECE)
        try:
            part = stream.decompress(more, size - count)
        except isal.error as error:
            raise NotSoundError from error
        if not (more or part or stream.eof):
            raise NotSoundError
        parts.append(part)
        count += len(part)
        if count == size:
            yield b"".join(parts)
            parts, count = [], 0
        left = stream.unconsumed_tail
        if stream.eof:
            left = stream.unused_data or read(_PIECE)
            if not left:
                break
            stream = isal.decompressobj(_GZIP)
    if count:
        yield b"".join(parts)
