"""Riegeli: files of records, each an XSpace, as XLA writes them beside or instead of ``.xplane.pb``.

    block of 65,536 bytes                                        next block
    | header 24 | chunk header 40 | data of the chunk ...        | header 24 | ... data | chunk header | ...

A chunk has some records, one after the other or transposed, compressed or not. XSpaces that follow each other are one:
repeated planes and lines are merged while they are decoded. What a record only repeats is left out: host names, errors
and warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from fastprof.errors import CaptureError
from fastprof.inputs.formats import riegeli_chunks
from fastprof.inputs.formats.contract import Remark
from fastprof.schema.value_classes import dataclass

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


class DamagedError(Exception):
    """``goes_on``: where the next chunk begins, if that is known."""

    def __init__(self, text: str, offset: int, goes_on: int | None) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset
        self.goes_on = goes_on


@dataclass(frozen=True, slots=True)
class Header:
    """Of a chunk that begins at an offset. ``data``, ``end``: where its data begin and end; ``after``: where the next
    chunk begins. Data lie between headers of blocks."""

    data_size: int
    data_hash: int
    kind: int
    records: int
    decoded_size: int
    data: int
    end: int
    after: int


def read_header(begin: int, size: int, is_all: bool, joined: Callable[[int, int], bytes]) -> Header | None:
    """The header of a chunk in a file. ``size`` bytes of that have come, or all. None: not all of the chunk has come.
    ``joined``: bytes of the file between headers of blocks, by their place and number. Raises DamagedError."""
    from fastprof._native.riegeli import riegeli_hash

    if end_of_data(begin, CHUNK_HEADER) > size:
        raise DamagedError("the file ends in the header of a chunk", begin, size)
    raw = joined(begin, CHUNK_HEADER)
    if riegeli_hash(raw[8:]) != int.from_bytes(raw[:8], "little"):
        raise DamagedError("the header of a chunk is damaged", begin, None)
    data_size, data_hash, decoded_size = (int.from_bytes(raw[at : at + 8], "little") for at in (8, 16, 32))
    end, records = end_of_data(begin, CHUNK_HEADER + data_size), int.from_bytes(raw[25:32], "little")
    if data_size > _LARGEST_CHUNK:
        raise DamagedError(f"a chunk of {data_size} bytes, which is not read", begin, None)
    if end > size:
        if not is_all:
            return None
        raise DamagedError("the file ends in a chunk", begin, size)
    places = (end_of_data(begin, CHUNK_HEADER), end, end_of_chunk(begin, data_size, records))
    return Header(data_size, data_hash, raw[24], records, decoded_size, *places)


def check_kind(header: Header, begin: int) -> None:
    if header.kind not in _KINDS:
        raise DamagedError(f"a chunk of kind {chr(header.kind)!r}, which is not known", begin, header.after)


def is_block_header(raw: bytes | memoryview) -> bool:
    from fastprof._native.riegeli import riegeli_hash

    return len(raw) == BLOCK_HEADER and riegeli_hash(raw[8:]) == int.from_bytes(raw[:8], "little")


def refuse(damage: DamagedError, path: str) -> NoReturn:
    raise CaptureError(f"reading Riegeli: {damage.text}", path=path, offset=damage.offset) from None


class Scribe:
    """Takes a file a piece at a time; keeps the chunk that it is in."""

    profile = None

    def __init__(self, path: str, salvage: bool) -> None:
        self.remarks: list[Remark] = []
        self.parts: bytes | None = None
        self._path = path
        self._salvage = salvage
        self._bytes = bytearray()
        self._base = 0
        self._at = 0
        self._repeated = riegeli_chunks.Repeated()
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
            except DamagedError as damage:
                if not self._salvage:
                    refuse(damage, self._path)
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
        header = read_header(begin, self._end, last, lambda at, size: self._joined(self._pieces(at, size, None)))
        if header is None:
            return None
        data = self._joined(self._pieces(header.data, header.data_size, header.after))
        if riegeli_hash(data) != header.data_hash:
            raise DamagedError("the data of a chunk are damaged", begin, header.after)
        check_kind(header, begin)
        try:
            found = riegeli_chunks.records(header.kind, data, header.records, header.decoded_size)
            ranges = [kept for number in range(len(found.ranges)) for kept in self._repeated.left_out(found, number)]
        except (riegeli_chunks.DamagedChunkError, MemoryError) as fault:
            raise DamagedError(f"a chunk cannot be decoded: {fault}", begin, header.after) from None
        self._at = header.after
        if header.after - self._base > BLOCK:
            self._drop()
        assert isinstance(found.values, bytes)
        return [memoryview(found.values)[first:end] for first, end in ranges]

    def _pieces(self, begin: int, size: int, goes_on: int | None) -> list[tuple[int, int]]:
        """Where bytes of the file stand, without the headers of blocks, which must be sound: places and lengths."""
        pieces, at = [], begin
        while size:
            if at % BLOCK == 0:
                if not self._is_block(at):
                    raise DamagedError("the header of a block is damaged", at, goes_on)
                at += BLOCK_HEADER
            part = min(size, BLOCK - at % BLOCK)
            pieces.append((at, part))
            at, size = at + part, size - part
        return pieces

    def _joined(self, pieces: list[tuple[int, int]]) -> bytes:
        with memoryview(self._bytes) as view:
            return b"".join([view[at - self._base : at - self._base + size] for at, size in pieces])

    def _is_block(self, at: int) -> bool:
        return is_block_header(bytes(self._bytes[at - self._base : at - self._base + BLOCK_HEADER]))

    def _drop(self) -> None:
        """Forget what has been read."""
        done = max(min(self._at, self._end) - self._base, 0)
        del self._bytes[:done]
        self._base += done

    # ---- damage

    def _lose(self, damage: DamagedError) -> None:
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
