"""Where an XSpace stands in a file of Riegeli whose records are neither compressed nor transposed.

    file      | header | chunk header | compression, lengths | record ... | header | ... record | record ...
    places                                                     ^^^^^^^^^^            ^^^^^^^^^^   ^^^^^^^^^^

A chunk is hashed as it is read, a few blocks at a time, and not kept. Of its records only what stands at the beginning
of fields is read once more.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import accumulate
from typing import Final, overload

from fastprof.inputs.formats import riegeli, riegeli_chunks
from fastprof.inputs.formats.riegeli import BLOCK, BLOCK_HEADER, DamagedError
from fastprof.inputs.made_ahead import made_ahead

Read = Callable[[int, int], bytes]
"""Bytes of the file, by their place and number; fewer if it ends before."""

_STRETCH: Final = 16 * BLOCK
_NEAR: Final = 256


class _Data:
    """Bytes of a file between headers of blocks. ``pieces``: their places and lengths."""

    def __init__(self, read: Read, pieces: list[tuple[int, int]]) -> None:
        self._read = read
        self._pieces = pieces
        self._ends = list(accumulate(size for _, size in pieces))
        self._near, self._from = b"", 0

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> bytes: ...
    def __getitem__(self, index: int | slice) -> int | bytes:
        if isinstance(index, slice):
            first, end, _ = index.indices(len(self))
            return b"".join([self._read(*place) for place in self.places(first, end)])
        if not self._from <= index < self._from + len(self._near):
            self._near, self._from = self[index : index + _NEAR], index
        return self._near[index - self._from]

    def places(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Where these bytes stand in the file."""
        number = bisect_right(self._ends, first)
        while first < end:
            place, size = self._pieces[number]
            length = min(end, self._ends[number]) - first
            yield place + size - (self._ends[number] - first), length
            first, number = first + length, number + 1


def _pieces(read: Read, begin: int, end: int, goes_on: int | None) -> Generator[tuple[int, memoryview], None, None]:
    """Bytes of the file without the headers of blocks, which must be sound: places, and the bytes there. A thread reads
    the next stretch meanwhile."""
    bounds = range(begin // _STRETCH * _STRETCH, end, _STRETCH)
    stretches = ((max(begin, at), read(max(begin, at), min(end, at + _STRETCH) - max(begin, at))) for at in bounds)
    with closing(made_ahead(stretches) if len(bounds) > 1 else stretches) as coming:
        for base, raw in coming:
            view, at = memoryview(raw), base
            while at < base + len(raw):
                if at % BLOCK == 0:
                    if not riegeli.is_block_header(bytes(view[at - base : at - base + BLOCK_HEADER])):
                        raise DamagedError("the header of a block is damaged", at, goes_on)
                    at += BLOCK_HEADER
                until = min(base + len(raw), at // BLOCK * BLOCK + BLOCK)
                yield at, view[at - base : until - base]
                at = until


def _data_of(read: Read, header: riegeli.Header, begin: int) -> _Data | None:
    """The data of a chunk, whose hash is right. None: its records do not stand there as they are."""
    from fastprof._native.riegeli import RiegeliHash

    found: list[tuple[int, int]] = []
    hasher = RiegeliHash()
    with closing(_pieces(read, header.data, header.end, header.after)) as pieces:
        for at, piece in pieces:
            if not found and not riegeli_chunks.is_plain(header.kind, bytes(piece[:1])):
                return None
            hasher.add(piece)
            found.append((at, len(piece)))
    if hasher.value() != header.data_hash:
        raise DamagedError("the data of a chunk are damaged", begin, header.after)
    riegeli.check_kind(header, begin)
    return _Data(read, found)


def _chunks(read: Read, size: int) -> Iterator[tuple[int, riegeli.Header]]:
    def joined(at: int, count: int) -> bytes:
        return b"".join(piece for _, piece in _pieces(read, at, riegeli.end_of_data(at, count), None))

    at = 0
    while at < size:
        header = riegeli.read_header(at, size, True, joined)
        assert header is not None
        yield at, header
        at = header.after


def _places(read: Read, size: int) -> list[tuple[int, int]] | None:
    places: list[tuple[int, int]] = []
    repeated = riegeli_chunks.Repeated()
    for begin, header in _chunks(read, size):
        data = _data_of(read, header, begin)
        if data is None:
            return None
        try:
            found = riegeli_chunks.records(header.kind, data, header.records, header.decoded_size)
            for number in range(len(found.ranges)):
                for first, end in repeated.left_out(found, number):
                    places += data.places(first, end)
        except (riegeli_chunks.DamagedChunkError, MemoryError) as fault:
            raise DamagedError(f"a chunk cannot be decoded: {fault}", begin, header.after) from None
    return places


def parts_in_file(read: Read, size: int, path: str) -> bytes | None:
    """Where the XSpace stands in a file of this size, as a scribe's ``parts``. None: it is compressed, transposed, or
    empty. CaptureError: the file is damaged."""
    try:
        places = _places(read, size)
    except DamagedError as damage:
        riegeli.refuse(damage, path)
    return b"".join(struct.pack("<QQ", *place) for place in places) if places else None
