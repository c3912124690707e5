"""Riegeli: files of records, each an XSpace, as XLA writes them beside or instead of ``.xplane.pb``.

    block of 65,536 bytes                                        next block
    | header 24 | chunk header 40 | data of the chunk ...        | header 24 | ... data | chunk header | ...

A chunk has some records, one after the other or transposed, compressed or not. XSpaces that follow each other are one:
repeated planes and lines are merged while they are decoded. What a record only repeats is left out: host names, errors
and warnings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from fastprof.errors import CaptureError
from fastprof.inputs.formats import riegeli_chunks
from fastprof.inputs.formats.contract import PlainScribe, Remark

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


class Scribe(PlainScribe):
    """Takes a file a piece at a time; keeps the chunk that it is in."""

    def __init__(self, path: str, salvage: bool) -> None:
        self.remarks: list[Remark] = []
        self._path = path
        self._salvage = salvage
        self._bytes = bytearray()
        self._base = 0
        self._at = 0
        self._seen: dict[int, set[bytes]] = {number: set() for number in _REPEATED}
        self._lost: dict[str, tuple[int, int]] = {}

    def push(self, chunk: bytes) -> bytes | None:
        self._bytes += chunk
        return b"".join(self._ready(last=False)) or None

    def finish(self) -> Iterator[bytes]:
        yield from self._ready(last=True)
        for text, (count, offset) in self._lost.items():
            self.remarks.append(Remark("data_loss", "damaged_chunk", text, count, offset))

    def close(self) -> None:
        self._bytes.clear()

    # ---- chunks

    @property
    def _end(self) -> int:
        return self._base + len(self._bytes)

    def _ready(self, *, last: bool) -> Iterator[bytes]:
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

    def _chunk(self, last: bool) -> list[bytes] | None:
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
        data = self._taken(end_of_data(begin, CHUNK_HEADER), header.data_size, after)
        if riegeli_hash(data) != header.data_hash:
            raise _Damaged("the data of a chunk are damaged", begin, after)
        if header.kind not in _KINDS:
            raise _Damaged(f"a chunk of kind {chr(header.kind)!r}, which is not known", begin, after)
        try:
            found = riegeli_chunks.records(header.kind, data, header.records, header.decoded_size)
            shortened = [self._once(record, number) for number, record in enumerate(found)]
        except (riegeli_chunks.DamagedChunkError, MemoryError) as fault:
            raise _Damaged(f"a chunk cannot be decoded: {fault}", begin, after) from None
        self._at = after
        if after - self._base > BLOCK:
            self._drop()
        return shortened

    def _read_header(self, begin: int) -> _Header | None:
        from fastprof._native.riegeli import riegeli_hash

        if end_of_data(begin, CHUNK_HEADER) > self._end:
            return None
        raw = self._taken(begin, CHUNK_HEADER, None)
        if riegeli_hash(raw[8:]) != int.from_bytes(raw[:8], "little"):
            return None
        sizes = [int.from_bytes(raw[at : at + 8], "little") for at in (8, 16, 32)]
        return _Header(sizes[0], sizes[1], raw[24], int.from_bytes(raw[25:32], "little"), sizes[2])

    def _taken(self, begin: int, size: int, goes_on: int | None) -> bytes:
        """Bytes of the file without the headers of blocks, which must be sound."""
        parts, at = [], begin
        while size:
            if at % BLOCK == 0:
                if not self._is_block(at):
                    raise _Damaged("the header of a block is damaged", at, goes_on)
                at += BLOCK_HEADER
            part = min(size, BLOCK - at % BLOCK)
            parts.append(bytes(self._bytes[at - self._base : at - self._base + part]))
            at, size = at + part, size - part
        return b"".join(parts)

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

    def _once(self, record: bytes, number: int) -> bytes:
        """A record without the texts that earlier ones had."""
        parts, kept = [], 0
        for field, begin, end, value in riegeli_chunks.fields(record, number):
            seen = self._seen.get(field)
            if seen is None or value is None:
                continue
            if value in seen:
                parts.append(record[kept:begin])
                kept = end
            seen.add(value)
        return b"".join([*parts, record[kept:]]) if parts else record


class _Damaged(Exception):  # noqa: N818
    """``goes_on``: where the next chunk begins, if that is known."""

    def __init__(self, text: str, offset: int, goes_on: int | None) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset
        self.goes_on = goes_on
