"""Writes captures: varints and events encoded by NumPy, planes spooled to disk until their size is known.

A message is written after its length, so the lines of a plane wait in an unnamed temporary file until
the plane ends. Memory is a few chunks of events, whatever the size of the capture.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

COPY_BYTES = 8 << 20

XSPACE_PLANES, XSPACE_HOSTNAMES = 1, 4
PLANE_ID, PLANE_NAME, PLANE_LINES, PLANE_EVENT_METADATA, PLANE_STAT_METADATA, PLANE_STATS = range(1, 7)
LINE_ID, LINE_NAME, LINE_TIMESTAMP_NS, LINE_EVENTS = range(1, 5)
LINE_DISPLAY_NAME = 11
VARINT, LEN = 0, 2


def varint(value: int) -> bytes:
    """The varint of an integer; a negative one as its 64-bit two's complement, ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(field: int, value: int) -> bytes:
    """A varint field; nothing for zero, as proto3 leaves defaults out."""
    return varint(field << 3 | VARINT) + varint(value) if value else b""


def bytes_field(field: int, value: bytes) -> bytes:
    return varint(field << 3 | LEN) + varint(len(value)) + value


def text_field(field: int, value: str) -> bytes:
    """A string field; nothing for the empty string."""
    return bytes_field(field, value.encode()) if value else b""


def map_entry(field: int, key: int, value: bytes) -> bytes:
    """An entry of a map<int64, message>; the C++ serialiser always writes key and value."""
    return bytes_field(field, b"\x08" + varint(key) + bytes_field(2, value))


def varint_sizes(values: Words) -> Words:
    """Bytes that each value takes as a varint."""
    sizes = np.ones(len(values), np.uint64)
    big = np.flatnonzero(values > 0x7F)
    rest = values[big] >> np.uint64(7)
    while len(big):
        sizes[big] += np.uint64(1)
        more = rest > 0x7F
        big, rest = big[more], rest[more] >> np.uint64(7)
    return sizes


def scatter_varints(out: Bytes, at: Ints, values: Words, sizes: Words) -> None:
    """Writes each value as a varint of its size at its position in ``out``."""
    while len(at):
        more = sizes > 1
        low = (values & np.uint64(0x7F)).astype(np.uint8)
        out[at] = low | (more.astype(np.uint8) << 7)
        at, sizes, values = at[more] + 1, sizes[more] - np.uint64(1), values[more] >> np.uint64(7)


def encode_tokens(tokens: Words, raw: Ints) -> tuple[Bytes, Ints]:
    """Tokens as varints, those at ``raw`` as one byte each; also where each begins, and the end."""
    sizes = varint_sizes(tokens)
    sizes[raw] = 1
    ends = np.cumsum(sizes.view(np.int64))
    begins = np.concatenate([np.zeros(1, np.int64), ends])
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    scatter_varints(out, begins[:-1], tokens, sizes)
    if len(raw):
        out[begins[raw]] = tokens[raw].astype(np.uint8)
    return out, begins


class CaptureWriter:
    """An XSpace on disk, written plane by plane."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out: BinaryIO = path.open("wb", buffering=COPY_BYTES)
        self.spool = tempfile.TemporaryFile(dir=path.parent, buffering=COPY_BYTES)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.out.close()
        self.spool.close()
        if error is not None:
            self.path.unlink(missing_ok=True)

    def raw(self, data: bytes) -> None:
        """Encoded fields of the XSpace itself."""
        self.out.write(data)

    @contextmanager
    def plane(self) -> Iterator[PlaneWriter]:
        """A plane, whose fields are written in order."""
        self.spool.seek(0)
        self.spool.truncate()
        plane = PlaneWriter(self.spool)
        yield plane
        self.spool.seek(0)
        size = sum(part if isinstance(part, int) else len(part) for part in plane.parts)
        self.out.write(varint(XSPACE_PLANES << 3 | LEN) + varint(size))
        for part in plane.parts:
            if isinstance(part, int):
                self._copy_spooled(part)
            else:
                self.out.write(part)

    def _copy_spooled(self, size: int) -> None:
        while size:
            block = self.spool.read(min(size, COPY_BYTES))
            self.out.write(block)
            size -= len(block)


class PlaneWriter:
    """A plane in the making: its parts in order, bytes at hand or a number of bytes of the spool."""

    def __init__(self, spool: IO[bytes]) -> None:
        self.spool = spool
        self.parts: list[bytes | int] = [0]

    def write(self, data: bytes | memoryview) -> None:
        """Encoded bytes, which go to the spool."""
        last = self.parts[-1]
        if not isinstance(last, int):
            raise TypeError("a length is followed by the bytes that it counts")
        self.parts[-1] = last + self.spool.write(data)

    def line(self, head: bytes, events: bytes | memoryview, tail: bytes) -> None:
        """A line whose events are at hand: encoded fields before them, the events, encoded fields after."""
        self.write(_line_prefix(len(head) + len(events) + len(tail)) + head)
        self.write(events)
        self.write(tail)

    @contextmanager
    def long_line(self, head: bytes, tail: bytes) -> Iterator[PlaneWriter]:
        """A line of any size: its encoded events are written to what this yields."""
        self.parts += [b"", 0]
        yield self
        events_size = self.parts[-1]
        assert isinstance(events_size, int)
        self.parts[-2] = _line_prefix(len(head) + events_size + len(tail)) + head
        self.write(tail)


def _line_prefix(size: int) -> bytes:
    return varint(PLANE_LINES << 3 | LEN) + varint(size)


def line_head(line_id: int, name: str, timestamp_ns: int) -> bytes:
    """The fields of a line that come before its events."""
    base = number_field(LINE_TIMESTAMP_NS, timestamp_ns)
    return number_field(LINE_ID, line_id) + text_field(LINE_NAME, name) + base


def line_tail(display_name: str) -> bytes:
    """The fields of a line that come after its events."""
    return text_field(LINE_DISPLAY_NAME, display_name)
