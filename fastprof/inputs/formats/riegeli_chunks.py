"""The records of one chunk of Riegeli: simple or transposed, in four compressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, overload

import numpy as np

from fastprof.schema.value_classes import dataclass

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


class Data(Protocol):
    """The bytes of a chunk, in memory or not."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> bytes: ...


class DamagedChunkError(ValueError):
    """What a chunk says of itself cannot be."""


@dataclass(frozen=True, slots=True)
class Records:
    """``values``: bytes in which records stand, where ``ranges`` say."""

    values: Data
    ranges: list[tuple[int, int]]


def records(kind: int, data: Data, count: int, size: int) -> Records:
    """The records of a chunk, ``count`` of them, ``size`` bytes in all; chunks of other kinds have none."""
    if kind not in b"rt":
        return Records(b"", [])
    if size > _limit(data) or count > max(size, 1) + len(data) * 8:
        raise DamagedChunkError(f"{count} records of {size} bytes in {len(data)}")
    return _simple(data, count, size) if kind == ord("r") else _transposed(data, count, size)


def is_plain(kind: int, data: Data) -> bool:
    """Whether the records of a chunk stand in its data as they are."""
    return kind != ord("t") and not (kind == ord("r") and len(data) and data[0] != _NONE)


def _limit(data: Data) -> int:
    """How large the contents of a chunk or block may be."""
    return min(_LARGEST, max(_ALWAYS, _MOST_GROWTH * len(data)))


class _Reader:
    """Reads numbers and blocks from the front."""

    def __init__(self, data: Data, at: int = 0, end: int | None = None) -> None:
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


def _plain(compression: int, data: bytes) -> bytes:
    """A block decompressed: its size stands first, if it is compressed."""
    if compression == _NONE:
        return data
    codec = _CODECS.get(compression)
    if codec is None:
        raise DamagedChunkError(f"a compression of code {compression}, which is not known")
    import pyarrow as pa

    reader = _Reader(data)
    size = reader.varint()
    if size > _limit(data):
        raise DamagedChunkError(f"a block that decompresses to {size} bytes")
    try:
        plain = pa.decompress(reader.rest(), decompressed_size=size, codec=codec, asbytes=True) if size else b""
    except (OSError, ValueError) as error:
        raise DamagedChunkError(f"{codec}: {error}") from None
    if len(plain) != size:
        raise DamagedChunkError(f"{codec}: {len(plain)} bytes in place of {size}")
    return bytes(plain)


def _simple(data: Data, count: int, size: int) -> Records:
    reader = _Reader(data)
    compression = reader.byte()
    lengths = _Reader(_plain(compression, reader.take(reader.varint())))
    at = first = reader.at if compression == _NONE else 0
    values: Data = data if compression == _NONE else _plain(compression, reader.rest())
    found = []
    for _ in range(count):
        length = lengths.varint()
        if length > len(values) - at:
            raise DamagedChunkError("a length beyond its end")
        found.append((at, at + length))
        at += length
    lengths.done()
    if at != len(values):
        raise DamagedChunkError("bytes are left over")
    if at - first != size:
        raise DamagedChunkError(f"{at - first} bytes in place of {size}")
    return Records(values, found)


# ---- transposed


def _transposed(chunk: Data, count: int, size: int) -> Records:
    from fastprof._native import riegeli

    data: Any = memoryview(chunk) if isinstance(chunk, bytes) else chunk  # slices of a view are no copies
    reader = _Reader(data)
    compression = reader.byte()
    header = _Reader(_plain(compression, reader.take(reader.varint())))
    bucket_count, buffer_count = header.varint(), header.varint()
    if bucket_count + buffer_count > len(header.data):
        raise DamagedChunkError("more buckets and buffers than its header has room for")
    begin = reader.at
    buckets = [_plain(compression, reader.take(header.varint())) for _ in range(bucket_count)]
    values = data[begin : reader.at] if compression == _NONE else b"".join(buckets)
    sizes = [header.varint() for _ in range(buffer_count)]
    _check_buckets(buckets, sizes)
    nodes, first, is_implicit = _nodes(header, buffer_count)
    bounds = np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))]).astype(np.int64)
    begins = np.zeros(count, np.int64)
    transitions = _plain(compression, reader.rest())
    try:
        out = riegeli.transposed(nodes, first, is_implicit, values, bounds, transitions, size, begins)
    except ValueError as error:
        raise DamagedChunkError(str(error)) from None
    ends = [*begins[::-1][1:].tolist(), size]
    return Records(out, list(zip(begins[::-1].tolist(), ends, strict=True)))


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


def _nodes(header: _Reader, buffer_count: int) -> tuple[np.ndarray, int, bool]:
    """The nodes of the machine, the first, and whether that is reached without a transition."""
    count = header.varint()
    if not 0 < count <= len(header.data):
        raise DamagedChunkError(f"{count} nodes")
    nodes = np.zeros(count, _NODE)
    tags = [header.varint() for _ in range(count)]
    after = [header.varint() for _ in range(count)]
    if max(tags) >= 1 << 35 or max(after) >= 2 * count:
        raise DamagedChunkError("a tag or a node that does not exist")
    subtypes = [header.byte() if tag >= 8 and tag & 7 == 0 else 0 for tag in tags]
    nodes["buffer"] = -1
    for at, (tag, subtype) in enumerate(zip(tags, subtypes, strict=True)):
        if _has_buffer(tag, subtype):
            buffer = header.varint()
            if buffer >= buffer_count:
                raise DamagedChunkError("a buffer that does not exist")
            nodes["buffer"][at] = buffer
        elif subtype > 137:
            raise DamagedChunkError(f"a subtype {subtype} of numbers")
    first = header.varint()
    header.done()
    if first >= count:
        raise DamagedChunkError("a first node that does not exist")
    nodes["tag"], nodes["subtype"] = tags, subtypes
    nodes["is_implicit"] = [one >= count for one in after]
    nodes["next"] = [one % count for one in after]
    _refuse_circles(nodes)
    return nodes, first, bool(nodes["is_implicit"][first])


def _has_buffer(tag: int, subtype: int) -> bool:
    return tag == 1 or (tag >= 8 and ((tag & 7 == 0 and subtype < 10) or tag & 7 in (1, 2, 5)))


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
        for one in path:
            state[one] = 2


# ---- fields of a record


class Repeated:
    """What of records only repeats is left out: host names, errors and warnings, which every record has."""

    def __init__(self) -> None:
        self._seen: dict[int, set[bytes]] = {number: set() for number in _REPEATED}

    def left_out(self, found: Records, number: int) -> list[tuple[int, int]]:
        """A record without the texts that earlier ones had, as ranges."""
        kept, last = found.ranges[number]
        parts = []
        for field, begin, end, value in _fields(found.values, kept, last, number):
            seen = self._seen.get(field)
            if seen is None or value is None:
                continue
            if value in seen:
                parts.append((kept, begin))
                kept = end
            seen.add(value)
        return [(first, end) for first, end in (*parts, (kept, last)) if first < end]


def _fields(values: Data, at: int, end: int, number: int) -> Iterator[tuple[int, int, int, bytes | None]]:
    """The fields of an XSpace between two places: number, begin, end, and the bytes of texts. Planes are passed over by
    their length."""
    reader, first = _Reader(values, at, end), at
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
                raise DamagedChunkError(f"a field {tag >> 3} of wire type {tag & 7}")
            yield tag >> 3, begin, reader.at, value
    except DamagedChunkError as fault:
        raise DamagedChunkError(f"record {number} is not an XSpace: {fault} at its byte {reader.at - first}") from None
