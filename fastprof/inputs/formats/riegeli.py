"""Riegeli: files of records, each an XSpace, as XLA writes them beside or instead of ``.xplane.pb``.

    block of 65,536 bytes                                        next block
    | header 24 | chunk header 40 | data of the chunk ...        | header 24 | ... data | chunk header | ...

A chunk has some records, one after the other or transposed, compressed or not. XSpaces that follow each other are one:
repeated planes and lines are merged while they are decoded. What a record only repeats is left out: host names, errors
and warnings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
_WORKERS: Final = 2
_MOST_AHEAD: Final = 1 << 26
"""A chunk of more bytes is decoded alone."""


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


@dataclass(frozen=True, slots=True)
class Decoding:
    """The records of the chunk that begins at an offset, which a thread decodes. ``size``: its bytes; ``after``: where
    the next one begins. ``is_last``: nothing behind it is read."""

    begin: int
    after: int
    size: int
    records: Future[riegeli_chunks.Records]
    is_last: bool = False


class Scribe:
    """Takes a file a piece at a time; keeps the chunk that it is in, and those that are decoded side by side."""

    profile = None

    def __init__(self, path: str, salvage: bool) -> None:
        self.remarks: list[Remark] = []
        self.parts: bytes | None = None
        self._path = path
        self._salvage = salvage
        self._bytes = bytearray()
        self._base = 0
        self._at = 0
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fastprof")
        self._coming: deque[Decoding] = deque()
        self._repeated = riegeli_chunks.Repeated()
        self._lost: dict[str, tuple[int, int]] = {}

    def scan(self, chunk: bytes) -> list[Decoding]:
        """The chunks that have come."""
        self._bytes += chunk
        return list(self._ready(last=False))

    def push(self, scanned: list[Decoding]) -> list[memoryview]:
        return [record for one in scanned for record in self._after(one)]

    def finish(self) -> Iterator[memoryview]:
        for one in self._ready(last=True):
            yield from self._after(one)
        while self._coming:
            yield from self._records(self._coming.popleft())
        for text, (count, offset) in sorted(self._lost.items(), key=lambda lost: lost[1][1]):
            self.remarks.append(Remark("data_loss", "damaged_chunk", text, count, offset))

    def close(self) -> None:
        self._bytes.clear()
        self._pool.shutdown(cancel_futures=True)

    # ---- records

    def _after(self, one: Decoding) -> Iterator[memoryview]:
        """Records of the chunks before, while threads decode this one and the next; of a large one its own, too."""
        self._coming.append(one)
        most = 0 if one.is_last or one.size > _MOST_AHEAD else _WORKERS - 1
        while len(self._coming) > most:
            yield from self._records(self._coming.popleft())

    def _records(self, one: Decoding) -> Iterator[memoryview]:
        try:
            found = one.records.result()
            ranges = [kept for number in range(len(found.ranges)) for kept in self._repeated.left_out(found, number)]
        except DamagedError as damage:
            refuse(damage, self._path)
        except (riegeli_chunks.DamagedChunkError, MemoryError) as fault:
            undecodable = DamagedError(f"a chunk cannot be decoded: {fault}", one.begin, one.after)
            if not self._salvage:
                refuse(undecodable, self._path)
            self._lose(undecodable)
            return
        assert isinstance(found.values, bytes)
        yield from (memoryview(found.values)[first:end] for first, end in ranges)

    # ---- chunks

    @property
    def _end(self) -> int:
        return self._base + len(self._bytes)

    def _ready(self, *, last: bool) -> Iterator[Decoding]:
        """All chunks that have come. Damage is raised by whoever takes records: those before it are decoded first."""
        while self._at < self._end and (last or end_of_data(self._at, CHUNK_HEADER) <= self._end):
            try:
                chunk = self._chunk(last)
            except DamagedError as damage:
                if not self._salvage:
                    refused: Future[riegeli_chunks.Records] = Future()
                    refused.set_exception(damage)
                    yield Decoding(damage.offset, self._end, 0, refused, is_last=True)
                    return
                self._lose(damage)
                if damage.goes_on is None and not self._resynchronise(last):
                    return
                self._at = damage.goes_on if damage.goes_on is not None else self._at
                continue
            if chunk is None:
                return
            yield chunk
        self._drop()

    def _chunk(self, last: bool) -> Decoding | None:
        """The chunk that begins here, and on to the next; None: not all of it has come."""
        from fastprof._native.riegeli import riegeli_hash

        begin = self._at
        header = read_header(begin, self._end, last, lambda at, size: self._joined(self._pieces(at, size, None)))
        if header is None:
            return None
        data = self._joined(self._pieces(header.data, header.data_size, header.after))
        if riegeli_hash(data) != header.data_hash:
            raise DamagedError("the data of a chunk are damaged", begin, header.after)
        check_kind(header, begin)
        self._at = header.after
        if header.after - self._base > BLOCK:
            self._drop()
        records = self._pool.submit(riegeli_chunks.records, header.kind, data, header.records, header.decoded_size)
        return Decoding(begin, header.after, max(header.data_size, header.decoded_size), records)

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
