"""Riegeli: files of records, each an XSpace, as XLA writes them beside or instead of ``.xplane.pb``. Chunks of records
are simple or transposed, in four compressions; where records are neither compressed nor transposed, they are read in
place.

    block of 65,536 bytes                                        next block
    | header 24 | chunk header 40 | data of the chunk ...        | header 24 | ... data | chunk header | ...

A chunk has some records, one after the other or transposed, compressed or not. XSpaces that follow each other are one:
repeated planes and lines are merged while they are decoded. What a record only repeats is left out: host names, errors
and warnings.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from itertools import accumulate
from typing import Any, Final, NoReturn, Protocol, overload

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import FormatRemark
from fastprof.inputs.open_files import prefetch
from fastprof.schema.columns import count_bounds
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import format_size

_CODECS: Final = {0x62: "brotli", 0x7A: "zstd", 0x73: "snappy"}
_NONE: Final = 0
_LARGEST: Final = 1 << 32
"""Bytes that a chunk may decompress to: XLA makes chunks of a mebibyte, or of one XSpace."""
_MOST_GROWTH: Final = 4096
_ALWAYS: Final = 1 << 24
"""Events do not compress to a 4096th; a small chunk may always become this large."""
_REPEATED: Final = {2: "errors", 3: "warnings", 4: "hostnames"}
"""Fields of an XSpace that are texts, and which every record repeats."""
_NODE: Final = np.dtype([(name, "i8") for name in ("tag", "next", "buffer", "subtype", "is_implicit")])
"""The struct of csrc/formats/transposed_records.h."""


class ChunkData(Protocol):
    """The bytes of a chunk, in memory or not."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> bytes: ...


class DamagedChunkError(ValueError):
    """What a chunk says of itself cannot be."""


@dataclass(frozen=True, slots=True)
class ChunkRecords:
    """``values``: bytes in which records stand, where ``ranges`` say."""

    values: ChunkData
    ranges: list[tuple[int, int]]


def decode_records(kind: int, data: ChunkData, count: int, size: int) -> ChunkRecords:
    """Return the records of a chunk, ``count`` of them, ``size`` bytes in all; chunks of other kinds have none."""
    if kind not in b"rt":
        return ChunkRecords(b"", [])
    if size > _limit_size(data) or count > max(size, 1) + len(data) * 8:
        raise DamagedChunkError("more records, or larger ones, than its data can hold")
    return _read_simple(data, count, size) if kind == ord("r") else _read_transposed(data, count, size)


def is_plain(kind: int, data: ChunkData) -> bool:
    """Return whether the records of a chunk stand in its data as they are."""
    return kind != ord("t") and not (kind == ord("r") and len(data) and data[0] != _NONE)


def _limit_size(data: ChunkData) -> int:
    """Return how large the contents of a chunk or block may be."""
    return min(_LARGEST, max(_ALWAYS, _MOST_GROWTH * len(data)))


class _ChunkReader:
    """Reads numbers and blocks from the front."""

    def __init__(self, data: ChunkData, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def byte(self) -> int:
        if self.at >= self.end:
            raise DamagedChunkError("it ends early")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise DamagedChunkError("a number of more than ten bytes")

    def take(self, size: int) -> bytes:
        if size > self.end - self.at:
            raise DamagedChunkError("a length beyond its end")
        self.at += size
        return self.data[self.at - size : self.at]

    def rest(self) -> bytes:
        return self.take(self.end - self.at)

    def done(self) -> None:
        if self.at != self.end:
            raise DamagedChunkError("bytes are left over")


def _decompress_block(compression: int, data: bytes) -> bytes:
    """Return a block decompressed: its size stands first, if it is compressed."""
    if compression == _NONE:
        return data
    codec = _CODECS.get(compression)
    if codec is None:
        raise DamagedChunkError("an unknown compression")
    import pyarrow as pa

    reader = _ChunkReader(data)
    size = reader.varint()
    if size > _limit_size(data):
        raise DamagedChunkError("a block that decompresses to more than its data can hold")
    try:
        plain = pa.decompress(reader.rest(), decompressed_size=size, codec=codec, asbytes=True) if size else b""
    except (OSError, ValueError) as error:
        raise DamagedChunkError(f"{codec}: {error}") from None
    if len(plain) != size:
        raise DamagedChunkError(f"{codec}: a block of another size than recorded")
    return bytes(plain)


def _read_simple(data: ChunkData, count: int, size: int) -> ChunkRecords:
    reader = _ChunkReader(data)
    compression = reader.byte()
    lengths = _ChunkReader(_decompress_block(compression, reader.take(reader.varint())))
    at = first = reader.at if compression == _NONE else 0
    values: ChunkData = data if compression == _NONE else _decompress_block(compression, reader.rest())
    records = []
    for _ in range(count):
        length = lengths.varint()
        if length > len(values) - at:
            raise DamagedChunkError("a length beyond its end")
        records.append((at, at + length))
        at += length
    lengths.done()
    if at != len(values):
        raise DamagedChunkError("bytes are left over")
    if at - first != size:
        raise DamagedChunkError("records of another size than recorded")
    return ChunkRecords(values, records)


# ---- transposed


def _read_transposed(chunk: ChunkData, count: int, size: int) -> ChunkRecords:
    from fastprof._native import riegeli

    data: Any = memoryview(chunk) if isinstance(chunk, bytes) else chunk  # slices of a view are no copies
    reader = _ChunkReader(data)
    compression = reader.byte()
    header = _ChunkReader(_decompress_block(compression, reader.take(reader.varint())))
    bucket_count, buffer_count = header.varint(), header.varint()
    if bucket_count + buffer_count > len(header.data):
        raise DamagedChunkError("more buckets and buffers than its header has room for")
    begin = reader.at
    buckets = [_decompress_block(compression, reader.take(header.varint())) for _ in range(bucket_count)]
    values = data[begin : reader.at] if compression == _NONE else b"".join(buckets)
    sizes = [header.varint() for _ in range(buffer_count)]
    _check_buckets(buckets, sizes)
    nodes, first, is_implicit = _read_nodes(header, buffer_count)
    bounds = count_bounds(np.array(sizes, np.int64)).astype(np.int64)
    begins = np.zeros(count, np.int64)
    transitions = _decompress_block(compression, reader.rest())
    try:
        out = riegeli.transposed(nodes, first, is_implicit, values, bounds, transitions, size, begins)
    except ValueError as error:
        raise DamagedChunkError(str(error)) from None
    ends = [*begins[::-1][1:].tolist(), size]
    return ChunkRecords(out, list(zip(begins[::-1].tolist(), ends, strict=True)))


def _check_buckets(buckets: list[bytes], sizes: list[int]) -> None:
    """Buffers are pieces of buckets; none lies in two, and nothing is left."""
    left = 0
    rest = iter(buckets)
    for size in sizes:
        while not left and size:
            bucket = next(rest, None)
            if bucket is None:
                raise DamagedChunkError("buffers are larger than its buckets")
            left = len(bucket)
        if size > left:
            raise DamagedChunkError("a buffer crosses a bucket")
        left -= size
    if left or any(rest):
        raise DamagedChunkError("buckets are larger than its buffers")


def _read_nodes(header: _ChunkReader, buffer_count: int) -> tuple[np.ndarray, int, bool]:
    """Return the nodes of the machine, the first, and whether that is reached without a transition."""
    count = header.varint()
    if not 0 < count <= len(header.data):
        raise DamagedChunkError("an impossible number of nodes")
    nodes = np.zeros(count, _NODE)
    tags = [header.varint() for _ in range(count)]
    after = [header.varint() for _ in range(count)]
    if max(tags) >= 1 << 35 or max(after) >= 2 * count:
        raise DamagedChunkError("a tag or a node that does not exist")
    subtypes = [header.byte() if tag >= 8 and tag & 7 == 0 else 0 for tag in tags]
    nodes["buffer"] = -1
    for at, (tag, subtype) in enumerate(zip(tags, subtypes, strict=True)):
        has_buffer = tag == 1 or (tag >= 8 and ((tag & 7 == 0 and subtype < 10) or tag & 7 in (1, 2, 5)))
        if has_buffer:
            buffer = header.varint()
            if buffer >= buffer_count:
                raise DamagedChunkError("a buffer that does not exist")
            nodes["buffer"][at] = buffer
        elif subtype > 137:
            raise DamagedChunkError("an unknown subtype of numbers")
    first = header.varint()
    header.done()
    if first >= count:
        raise DamagedChunkError("a first node that does not exist")
    nodes["tag"], nodes["subtype"] = tags, subtypes
    nodes["is_implicit"] = [following >= count for following in after]
    nodes["next"] = [following % count for following in after]
    _refuse_circles(nodes)
    return nodes, first, bool(nodes["is_implicit"][first])


def _refuse_circles(nodes: np.ndarray) -> None:
    """Implicit nodes that lead to each other would never end."""
    after, implicit = nodes["next"].tolist(), nodes["is_implicit"].tolist()
    state = bytearray(len(after))
    for start in range(len(after)):
        path, at = [], start
        while implicit[at] and not state[at]:
            state[at] = 1
            path.append(at)
            at = after[at]
        if implicit[at] and state[at] == 1:
            raise DamagedChunkError("a circle of nodes without transitions")
        for node in path:
            state[node] = 2


# ---- fields of a record


class RepeatedParts:
    """What of records only repeats is left out: host names, errors and warnings, which every record has."""

    def __init__(self) -> None:
        self._seen: dict[int, set[bytes]] = {number: set() for number in _REPEATED}

    def left_out(self, records: ChunkRecords, number: int) -> list[tuple[int, int]]:
        """Return a record without the texts that earlier ones had, as ranges."""
        kept, last = records.ranges[number]
        parts = []
        for field, begin, end, value in _split_fields(records.values, kept, last, number):
            seen = self._seen.get(field)
            if seen is None or value is None:
                continue
            if value in seen:
                parts.append((kept, begin))
                kept = end
            seen.add(value)
        return [(first, end) for first, end in (*parts, (kept, last)) if first < end]


def _split_fields(values: ChunkData, at: int, end: int, number: int) -> Iterator[tuple[int, int, int, bytes | None]]:
    """Yield the fields of an XSpace between two places: number, begin, end, and the bytes of texts. Planes are passed
    over by their length."""
    reader, first = _ChunkReader(values, at, end), at
    try:
        while reader.at < end:
            begin = reader.at
            tag = reader.varint()
            if tag & 7 == 2:
                length = reader.varint()
                value = reader.take(length) if tag >> 3 in _REPEATED else None
                reader.at += 0 if value is not None else length
                if reader.at > end:
                    raise DamagedChunkError("a length beyond its end")
            elif tag & 7 == 0:
                reader.varint()
                value = None
            else:
                raise DamagedChunkError("a field of an unknown wire type")
            yield tag >> 3, begin, reader.at, value
    except DamagedChunkError as fault:
        raise DamagedChunkError(f"record {number} is not an XSpace: {fault} at its byte {reader.at - first}") from None


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
    """Return whether a file has the signature of one of Riegeli's, or of the chunk in it."""
    return head[:32] == SIGNATURE[:32] or head[24:64] == SIGNATURE[24:64]


def scribe(path: str, salvage: bool) -> RiegeliScribe:
    return RiegeliScribe(path, salvage)


def find_data_end(begin: int, size: int) -> int:
    """Return where ``size`` bytes end that begin at an offset of the file: blocks begin with headers."""
    return begin + size + BLOCK_HEADER * ((size + (begin + _USABLE - 1) % BLOCK) // _USABLE)


def find_chunk_end(begin: int, data_size: int, records: int) -> int:
    """Return where a chunk ends: it reaches past its data if it has more records than bytes."""
    at = begin + records
    inside = (BLOCK - 1) - (at + BLOCK - 1) % BLOCK
    return max(find_data_end(begin, CHUNK_HEADER + data_size), at + max(0, inside - (_USABLE - 1)))


class DamagedRiegeliError(Exception):
    """``goes_on``: where the next chunk begins, if that is known."""

    def __init__(self, text: str, offset: int, goes_on: int | None) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset
        self.goes_on = goes_on


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """Describes a chunk that begins at an offset. ``data``, ``end``: where its data begin and end; ``after``: where the
    next chunk begins. Data lie between headers of blocks."""

    data_size: int
    data_hash: int
    kind: int
    records: int
    decoded_size: int
    data: int
    end: int
    after: int


def read_header(begin: int, size: int, is_all: bool, joined: Callable[[int, int], bytes]) -> ChunkHeader | None:
    """Return the header of a chunk in a file. ``size`` bytes of that have come, or all. None: not all of the chunk has
    come. ``joined``: bytes of the file between headers of blocks, by their place and number. Raises
    DamagedRiegeliError."""
    from fastprof._native.riegeli import riegeli_hash

    if find_data_end(begin, CHUNK_HEADER) > size:
        raise DamagedRiegeliError("the file ends in the header of a chunk", begin, size)
    raw = joined(begin, CHUNK_HEADER)
    if riegeli_hash(raw[8:]) != int.from_bytes(raw[:8], "little"):
        raise DamagedRiegeliError("the header of a chunk is damaged", begin, None)
    data_size, data_hash, decoded_size = (int.from_bytes(raw[at : at + 8], "little") for at in (8, 16, 32))
    end, records = find_data_end(begin, CHUNK_HEADER + data_size), int.from_bytes(raw[25:32], "little")
    if data_size > _LARGEST_CHUNK:
        raise DamagedRiegeliError(f"a chunk of more than {format_size(_LARGEST_CHUNK)}, which is not read", begin, None)
    if end > size:
        if not is_all:
            return None
        raise DamagedRiegeliError("the file ends in a chunk", begin, size)
    places = (find_data_end(begin, CHUNK_HEADER), end, find_chunk_end(begin, data_size, records))
    return ChunkHeader(data_size, data_hash, raw[24], records, decoded_size, *places)


def check_kind(header: ChunkHeader, begin: int) -> None:
    if header.kind not in _KINDS:
        raise DamagedRiegeliError("an unknown kind of chunk", begin, header.after)


def is_block_header(raw: bytes | memoryview) -> bool:
    from fastprof._native.riegeli import riegeli_hash

    return len(raw) == BLOCK_HEADER and riegeli_hash(raw[8:]) == int.from_bytes(raw[:8], "little")


def refuse_damage(damage: DamagedRiegeliError, path: str) -> NoReturn:
    raise CaptureError(f"reading Riegeli: {damage.text}", path=path, offset=damage.offset) from None


@dataclass(frozen=True, slots=True)
class Decoding:
    """The records of the chunk that begins at an offset, which a thread decodes. ``size``: its bytes; ``after``: where
    the next one begins. ``is_last``: nothing behind it is read."""

    begin: int
    after: int
    size: int
    records: Callable[[], ChunkRecords]
    is_last: bool = False


class RiegeliScribe:
    """Takes a file a piece at a time; keeps the chunk that it is in, and those that are decoded side by side."""

    profile = None

    def __init__(self, path: str, salvage: bool) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.remarks: list[FormatRemark] = []
        self.parts: bytes | None = None
        self._path = path
        self._salvage = salvage
        self._bytes = bytearray()
        self._base = 0
        self._at = 0
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fastprof")
        self._coming: deque[Decoding] = deque()
        self._repeated = RepeatedParts()
        self._lost: dict[str, tuple[int, int]] = {}

    def scan(self, chunk: bytes) -> list[Decoding]:
        """Return the chunks that have come."""
        self._bytes += chunk
        return list(self._ready(last=False))

    def push(self, scanned: list[Decoding]) -> list[memoryview]:
        return [record for chunk in scanned for record in self._after(chunk)]

    def finish(self) -> Iterator[memoryview]:
        for chunk in self._ready(last=True):
            yield from self._after(chunk)
        while self._coming:
            yield from self._records(self._coming.popleft())
        for text, (count, offset) in sorted(self._lost.items(), key=lambda lost: lost[1][1]):
            self.remarks.append(FormatRemark("data_loss", "damaged_chunk", text, count, offset))

    def close(self) -> None:
        self._bytes.clear()
        self._pool.shutdown(cancel_futures=True)

    # ---- records

    def _after(self, chunk: Decoding) -> Iterator[memoryview]:
        """Records of the chunks before, while threads decode this one and the next; of a large one its own, too."""
        self._coming.append(chunk)
        most = 0 if chunk.is_last or chunk.size > _MOST_AHEAD else _WORKERS - 1
        while len(self._coming) > most:
            yield from self._records(self._coming.popleft())

    def _records(self, chunk: Decoding) -> Iterator[memoryview]:
        try:
            records = chunk.records()
            ranges = [
                kept for number in range(len(records.ranges)) for kept in self._repeated.left_out(records, number)
            ]
        except DamagedRiegeliError as damage:
            refuse_damage(damage, self._path)
        except (DamagedChunkError, MemoryError) as fault:
            undecodable = DamagedRiegeliError(f"a chunk cannot be decoded: {fault}", chunk.begin, chunk.after)
            if not self._salvage:
                refuse_damage(undecodable, self._path)
            self._lose(undecodable)
            return
        assert isinstance(records.values, bytes)
        yield from (memoryview(records.values)[first:end] for first, end in ranges)

    # ---- chunks

    @property
    def _end(self) -> int:
        return self._base + len(self._bytes)

    def _ready(self, *, last: bool) -> Iterator[Decoding]:
        """Yield all chunks that have come. Damage is raised by whoever takes records: those before it are decoded
        first."""
        while self._at < self._end and (last or find_data_end(self._at, CHUNK_HEADER) <= self._end):
            try:
                chunk = self._chunk(last)
            except DamagedRiegeliError as damage:
                if not self._salvage:
                    refuse = partial(refuse_damage, damage, self._path)
                    yield Decoding(damage.offset, self._end, 0, refuse, is_last=True)
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
        """Return the chunk that begins here, and on to the next; None: not all of it has come."""
        from fastprof._native.riegeli import riegeli_hash

        begin = self._at
        header = read_header(begin, self._end, last, lambda at, size: self._joined(self._pieces(at, size, None)))
        if header is None:
            return None
        data = self._joined(self._pieces(header.data, header.data_size, header.after))
        if riegeli_hash(data) != header.data_hash:
            raise DamagedRiegeliError("the data of a chunk are damaged", begin, header.after)
        check_kind(header, begin)
        self._at = header.after
        if header.after - self._base > BLOCK:
            self._drop()
        records = self._pool.submit(decode_records, header.kind, data, header.records, header.decoded_size)
        return Decoding(begin, header.after, max(header.data_size, header.decoded_size), records.result)

    def _pieces(self, begin: int, size: int, goes_on: int | None) -> list[tuple[int, int]]:
        """Return where bytes of the file stand, without the headers of blocks, which must be sound: places and
        lengths."""
        pieces, at = [], begin
        while size:
            if at % BLOCK == 0:
                if not self._is_block(at):
                    raise DamagedRiegeliError("the header of a block is damaged", at, goes_on)
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

    def _lose(self, damage: DamagedRiegeliError) -> None:
        count, first = self._lost.get(damage.text, (0, damage.offset))
        self._lost[damage.text] = count + 1, first

    def _resynchronise(self, last: bool) -> bool:
        """Skip to the next sound block: where a chunk begins there, or where the chunk that it interrupts ends."""
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


Read = Callable[[int, int], bytes]
"""Bytes of the file, by their place and number; fewer if it ends before."""

_STRETCH: Final = 16 * BLOCK
_NEAR: Final = 256


class _DataInFile:
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
        """Yield where these bytes stand in the file."""
        number = bisect_right(self._ends, first)
        while first < end:
            place, size = self._pieces[number]
            length = min(end, self._ends[number]) - first
            yield place + size - (self._ends[number] - first), length
            first, number = first + length, number + 1


def _skip_headers(
    read: Read, begin: int, end: int, goes_on: int | None
) -> Generator[tuple[int, memoryview], None, None]:
    """Yield places and bytes of the file without the headers of blocks, which must be sound. A thread reads the next
    piece meanwhile."""
    bounds = range(begin // _STRETCH * _STRETCH, end, _STRETCH)
    stretches = ((max(begin, at), read(max(begin, at), min(end, at + _STRETCH) - max(begin, at))) for at in bounds)
    with closing(prefetch(stretches) if len(bounds) > 1 else stretches) as coming:
        for base, raw in coming:
            view, at = memoryview(raw), base
            while at < base + len(raw):
                if at % BLOCK == 0:
                    if not is_block_header(bytes(view[at - base : at - base + BLOCK_HEADER])):
                        raise DamagedRiegeliError("the header of a block is damaged", at, goes_on)
                    at += BLOCK_HEADER
                until = min(base + len(raw), at // BLOCK * BLOCK + BLOCK)
                yield at, view[at - base : until - base]
                at = until


def _get_data(read: Read, header: ChunkHeader, begin: int) -> _DataInFile | None:
    """Return the data of a chunk, whose hash is right. None: its records do not stand there as they are."""
    from fastprof._native.riegeli import RiegeliHash

    places: list[tuple[int, int]] = []
    hasher = RiegeliHash()
    with closing(_skip_headers(read, header.data, header.end, header.after)) as pieces:
        for at, piece in pieces:
            if not places and not is_plain(header.kind, bytes(piece[:1])):
                return None
            hasher.add(piece)
            places.append((at, len(piece)))
    if hasher.value() != header.data_hash:
        raise DamagedRiegeliError("the data of a chunk are damaged", begin, header.after)
    check_kind(header, begin)
    return _DataInFile(read, places)


def _list_chunks(read: Read, size: int) -> Iterator[tuple[int, ChunkHeader]]:
    def joined(at: int, count: int) -> bytes:
        return b"".join(piece for _, piece in _skip_headers(read, at, find_data_end(at, count), None))

    at = 0
    while at < size:
        header = read_header(at, size, True, joined)
        assert header is not None
        yield at, header
        at = header.after


def _list_places(read: Read, size: int) -> list[tuple[int, int]] | None:
    places: list[tuple[int, int]] = []
    repeated = RepeatedParts()
    for begin, header in _list_chunks(read, size):
        data = _get_data(read, header, begin)
        if data is None:
            return None
        try:
            records = decode_records(header.kind, data, header.records, header.decoded_size)
            for number in range(len(records.ranges)):
                for first, end in repeated.left_out(records, number):
                    places += data.places(first, end)
        except (DamagedChunkError, MemoryError) as fault:
            raise DamagedRiegeliError(f"a chunk cannot be decoded: {fault}", begin, header.after) from None
    return places


def find_parts(read: Read, size: int, path: str) -> bytes | None:
    """Return where the XSpace stands in a file of this size, as a scribe's ``parts``. None: it is compressed,
    transposed, or empty. CaptureError: the file is damaged."""
    try:
        places = _list_places(read, size)
    except DamagedRiegeliError as damage:
        refuse_damage(damage, path)
    return b"".join(struct.pack("<QQ", *place) for place in places) if places else None
