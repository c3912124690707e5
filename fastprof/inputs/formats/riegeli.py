"""Riegeli: files of records, each an XSpace, as XLA writes them beside or instead of ``.xplane.pb``.

    block of 65,536 bytes                                        next block
    | header 24 | chunk header 40 | data of the chunk ...        | header 24 | ... data | chunk header | ...

A chunk has some records, one after the other or transposed, compressed or not. XSpaces that follow each other are one:
repeated planes and lines are merged while they are decoded. What a record only repeats is left out: host names, errors
and warnings.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NoReturn

from fastprof.errors import CaptureError
from fastprof.inputs.formats import riegeli_chunks
from fastprof.inputs.formats.contract import Remark

NAME: Final = "riegeli"
BLOCK, BLOCK_HEADER, CHUNK_HEADER = 65536, 24, 40
_USABLE: Final = BLOCK - BLOCK_HEADER
SIGNATURE: Final = bytes.fromhex(
    "83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9"
    "0000000000000000e19f13c0e9b1c37273000000000000000000000000000000"
)
_LARGEST_CHUNK: Final = 1 << 32
"""A chunk is kept until it is complete; a header may say anything."""
_KINDS: Final = b"smprt"
_REPEATED: Final = {2: "errors", 3: "warnings", 4: "hostnames"}
"""Fields of an XSpace that are texts, and which every record repeats."""


def begins(head: bytes) -> bool:
    """Whether a file has the signature of one of Riegeli's, or of the chunk in it."""
    return head[:32] == SIGNATURE[:32] or head[24:64] == SIGNATURE[24:64]


def scribe(path: str, salvage: bool) -> Scribe:
    return Scribe(path, salvage)


def end_of_data(begin: int, size: int) -> int:
    """Where ``size`` bytes end that begin at an offset of the file: blocks begin with headers."""
    return begin + size + BLOCK_HEADER * ((size + (begin + _USABLE - 1) % BLOCK) // _USABLE)


def end_of_chunk(begin: int, data_size: int, records: int) -> int:
    """A chunk reaches past its data if it has more records than bytes."""
    at = begin + records
    inside = (BLOCK - 1) - (at + BLOCK - 1) % BLOCK
    return max(end_of_data(begin, CHUNK_HEADER + data_size), at + max(0, inside - (_USABLE - 1)))


@dataclass(frozen=True, slots=True)
class _Header:
    data_size: int
    data_hash: int
    kind: int
    records: int
    decoded_size: int


class Scribe:
    """Takes a file a piece at a time; keeps the chunk that it is in. ``places``: gets where the XSpace stands in the
    file, as places and lengths; then nothing else is given."""

    def __init__(self, path: str, salvage: bool, places: list[tuple[int, int]] | None = None) -> None:
        self.remarks: list[Remark] = []
        self.parts: bytes | None = None
        self._places = places
        self._path = path
        self._salvage = salvage
        self._bytes = bytearray()
        self._base = 0
        self._at = 0
        self._seen: dict[int, set[bytes]] = {number: set() for number in _REPEATED}
        self._lost: dict[str, tuple[int, int]] = {}

    def scan(self, chunk: bytes) -> list[memoryview]:
        """Chunks are decoded here: nothing else happens with them."""
        self._bytes += chunk
        return list(self._ready(last=False))

    def push(self, scanned: list[memoryview]) -> list[memoryview]:
        return scanned

    def finish(self) -> Iterator[memoryview]:
        yield from self._ready(last=True)
        for text, (count, offset) in self._lost.items():
            self.remarks.append(Remark("data_loss", "damaged_chunk", text, count, offset))

    def close(self) -> None:
        self._bytes.clear()

    # ---- chunks

    @property
    def _end(self) -> int:
        return self._base + len(self._bytes)

    def _ready(self, *, last: bool) -> Iterator[memoryview]:
        """The records of all chunks that have come."""
        while self._at < self._end and (last or end_of_data(self._at, CHUNK_HEADER) <= self._end):
            try:
                records = self._chunk(last)
            except _Damaged as damage:
                if not self._salvage:
                    self._refuse(damage.text, damage.offset)
                self._lose(damage)
                if damage.goes_on is None and not self._resynchronise(last):
                    return
                self._at = damage.goes_on if damage.goes_on is not None else self._at
                continue
            if records is None:
                return
            yield from records
        self._drop()

    def _chunk(self, last: bool) -> list[memoryview] | None:
        """The records of the chunk that begins here, and on to the next; None: not all of it has come."""
        from fastprof._native.riegeli import riegeli_hash

        begin = self._at
        header = self._read_header(begin)
        if header is None:
            if end_of_data(begin, CHUNK_HEADER) > self._end:
                raise _Damaged("the file ends in the header of a chunk", begin, self._end)
            raise _Damaged("the header of a chunk is damaged", begin, None)
        end = end_of_data(begin, CHUNK_HEADER + header.data_size)
        if header.data_size > _LARGEST_CHUNK:
            raise _Damaged(f"a chunk of {header.data_size} bytes, which is not read", begin, None)
        if end > self._end:
            if not last:
                return None
            raise _Damaged("the file ends in a chunk", begin, self._end)
        after = end_of_chunk(begin, header.data_size, header.records)
        pieces = self._pieces(end_of_data(begin, CHUNK_HEADER), header.data_size, after)
        data = self._joined(pieces)
        if riegeli_hash(data) != header.data_hash:
            raise _Damaged("the data of a chunk are damaged", begin, after)
        if header.kind not in _KINDS:
            raise _Damaged(f"a chunk of kind {chr(header.kind)!r}, which is not known", begin, after)
        try:
            found = riegeli_chunks.records(header.kind, data, header.records, header.decoded_size)
            ranges = [kept for number in range(len(found.ranges)) for kept in self._once(found, number)]
        except (riegeli_chunks.DamagedChunkError, MemoryError) as fault:
            raise _Damaged(f"a chunk cannot be decoded: {fault}", begin, after) from None
        self._at = after
        if after - self._base > BLOCK:
            self._drop()
        if self._places is None:
            return [memoryview(found.values)[first:end] for first, end in ranges]
        if not found.is_plain:
            raise NotInPlaceError
        self._places += _places(pieces, ranges)
        return []

    def _read_header(self, begin: int) -> _Header | None:
        from fastprof._native.riegeli import riegeli_hash

        if end_of_data(begin, CHUNK_HEADER) > self._end:
            return None
        raw = self._joined(self._pieces(begin, CHUNK_HEADER, None))
        if riegeli_hash(raw[8:]) != int.from_bytes(raw[:8], "little"):
            return None
        sizes = [int.from_bytes(raw[at : at + 8], "little") for at in (8, 16, 32)]
        return _Header(sizes[0], sizes[1], raw[24], int.from_bytes(raw[25:32], "little"), sizes[2])

    def _pieces(self, begin: int, size: int, goes_on: int | None) -> list[tuple[int, int]]:
        """Where bytes of the file stand, without the headers of blocks, which must be sound: places and lengths."""
        pieces, at = [], begin
        while size:
            if at % BLOCK == 0:
                if not self._is_block(at):
                    raise _Damaged("the header of a block is damaged", at, goes_on)
                at += BLOCK_HEADER
            part = min(size, BLOCK - at % BLOCK)
            pieces.append((at, part))
            at, size = at + part, size - part
        return pieces

    def _joined(self, pieces: list[tuple[int, int]]) -> bytes:
        with memoryview(self._bytes) as view:
            return b"".join([view[at - self._base : at - self._base + size] for at, size in pieces])

    def _is_block(self, at: int) -> bool:
        from fastprof._native.riegeli import riegeli_hash

        raw = bytes(self._bytes[at - self._base : at - self._base + BLOCK_HEADER])
        return len(raw) == BLOCK_HEADER and riegeli_hash(raw[8:]) == int.from_bytes(raw[:8], "little")

    def _drop(self) -> None:
        """Forget what has been read."""
        done = max(min(self._at, self._end) - self._base, 0)
        del self._bytes[:done]
        self._base += done

    # ---- damage

    def _refuse(self, text: str, offset: int) -> NoReturn:
        raise CaptureError(f"reading Riegeli: {text}", path=self._path, offset=offset)

    def _lose(self, damage: _Damaged) -> None:
        count, first = self._lost.get(damage.text, (0, damage.offset))
        self._lost[damage.text] = count + 1, first

    def _resynchronise(self, last: bool) -> bool:
        """On to the next block that is sound: where a chunk begins there, or the one that it interrupts ends."""
        at = (self._at // BLOCK + 1) * BLOCK
        while at + BLOCK_HEADER <= self._end:
            if self._is_block(at):
                raw = bytes(self._bytes[at - self._base : at - self._base + BLOCK_HEADER])
                before, after = (int.from_bytes(raw[place : place + 8], "little") for place in (8, 16))
                self._at = at if before == 0 else at + after
                return True
            at += BLOCK
        self._at = max(self._at, at if not last else self._end)
        return not last and self._at < self._end

    # ---- records

    def _once(self, found: riegeli_chunks.Records, number: int) -> list[tuple[int, int]]:
        """A record without the texts that earlier ones had, as ranges."""
        kept, last = found.ranges[number]
        parts = []
        for field, begin, end, value in riegeli_chunks.fields(found.values, kept, last, number):
            seen = self._seen.get(field)
            if seen is None or value is None:
                continue
            if value in seen:
                parts.append((kept, begin))
                kept = end
            seen.add(value)
        return [(first, end) for first, end in (*parts, (kept, last)) if first < end]


class NotInPlaceError(Exception):
    """The XSpace does not stand in the file as it is."""


def parts_in_file(chunks: Iterable[bytes], path: str) -> bytes | None:
    """Where the XSpace stands in a file whose bytes these are, as a scribe's ``parts``. None: it is compressed,
    transposed, or empty. CaptureError: the file is damaged."""
    places: list[tuple[int, int]] = []
    scribe = Scribe(path, False, places)
    try:
        for chunk in chunks:
            scribe.scan(chunk)
        for _ in scribe.finish():
            pass
    except NotInPlaceError:
        return None
    return b"".join(struct.pack("<QQ", *place) for place in places) or None


def _places(pieces: list[tuple[int, int]], ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where ranges of data stand in the file, whose pieces are the data."""
    ends = list(accumulate(size for _, size in pieces))
    for first, end in ranges:
        number = bisect_right(ends, first)
        while first < end:
            place, size = pieces[number]
            length = min(end, ends[number]) - first
            yield place + size - (ends[number] - first), length
            first, number = first + length, number + 1


class _Damaged(Exception):  # noqa: N818
    """``goes_on``: where the next chunk begins, if that is known."""

    def __init__(self, text: str, offset: int, goes_on: int | None) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset
        self.goes_on = goes_on
