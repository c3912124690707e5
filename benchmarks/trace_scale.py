"""Scales a capture at hand: repeats each line's events, shifted in time, and keeps all else as it is.

Of the planes, all or those of some names.

A tile holds the events of a part of a line as bytes, with gaps for each event's offset and length. A
repetition patches the gaps; only when an offset grows by a byte is the tile laid out afresh.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from trace_writer import (
    LINE_EVENTS,
    LINE_ID,
    LINE_NAME,
    LINE_TIMESTAMP_NS,
    PLANE_LINES,
    PLANE_NAME,
    XSPACE_PLANES,
    Bytes,
    CaptureWriter,
    Ints,
    PlaneWriter,
    Words,
    scatter_varints,
    varint,
    varint_sizes,
)

EVENT_OFFSET_PS, EVENT_DURATION_PS, EVENT_STATS, EVENT_OCCURRENCES = 2, 3, 4, 5
TILE_EVENTS = 50_000
BEFORE_EVENTS = (LINE_ID, LINE_NAME, LINE_TIMESTAMP_NS)

Buffer = bytes | memoryview


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """The varint at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def fields(data: Buffer, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """For each field: its number, where it begins, where its value begins after any length, where it ends."""
    while at < end:
        begin = at
        tag, at = read_varint(data, at)
        value = at
        match tag & 7:
            case 0:
                _, at = read_varint(data, at)
            case 1:
                at += 8
            case 2:
                size, value = read_varint(data, at)
                at = value + size
            case 5:
                at += 4
            case wire:
                raise ValueError(f"wire type {wire} at byte {begin}: only plain captures are scaled")
        yield tag >> 3, begin, value, at


@dataclass(slots=True)
class Event:
    """An event: bytes before its offset, the offset or None where it has no time, bytes after it."""

    before: bytes
    offset: int | None
    after: bytes
    duration: int
    stats: int


def parse_event(data: Buffer, begin: int, end: int) -> Event:
    before, after = bytearray(), bytearray()
    offset: int | None = 0
    duration = stats = 0
    for number, first, value, last in fields(data, begin, end):
        if number == EVENT_OFFSET_PS:
            offset = _signed(read_varint(data, value)[0])
            continue
        if number == EVENT_OCCURRENCES:
            offset = None
        elif number == EVENT_DURATION_PS:
            duration = read_varint(data, value)[0]
        elif number == EVENT_STATS:
            stats += 1
        (before if number == 1 else after).extend(data[first:last])
    return Event(bytes(before), offset, bytes(after), duration, stats)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


@dataclass(slots=True)
class Tile:
    """Events of a line whose times are shifted together."""

    pieces: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timed: list[bool] = field(default_factory=list)
    rest_sizes: list[int] = field(default_factory=list)
    offset_sizes: Words | None = None
    offset_places: Ints | None = None
    buffer: Bytes | None = None

    def add(self, event: Event) -> None:
        """Appends an event. Two pieces of it stay as they are; a length and an offset go between them."""
        self.pieces += [event.before, event.after]
        self.timed.append(event.offset is not None)
        self.offsets.append(event.offset or 0)
        self.rest_sizes.append(len(event.before) + len(event.after))

    def shifted(self, by: int) -> memoryview:
        """The events as fields of a line, all ``by`` picoseconds later."""
        offsets = (np.array(self.offsets, np.int64) + by).view(np.uint64)
        sizes = np.where(self.timed, varint_sizes(offsets), np.uint64(0))
        if self.offset_sizes is None or not np.array_equal(sizes, self.offset_sizes):
            self._lay_out(sizes)
        assert self.buffer is not None and self.offset_places is not None
        timed = np.flatnonzero(self.timed)
        scatter_varints(self.buffer, self.offset_places[timed], offsets[timed], sizes[timed])
        return self.buffer.data

    def _lay_out(self, sizes: Words) -> None:
        """Fresh bytes for offsets of these sizes; an event without a time has no offset at all."""
        out = bytearray()
        places = np.zeros(len(sizes), np.int64)
        for number, size in enumerate(sizes.tolist()):
            before, after = self.pieces[2 * number], self.pieces[2 * number + 1]
            room = size + 1 if size else 0
            out += b"\x22" + varint(self.rest_sizes[number] + room) + before
            if room:
                out += b"\x10"
                places[number] = len(out)
                out += bytes(size)
            out += after
        self.buffer = np.frombuffer(out, np.uint8)
        self.offset_sizes, self.offset_places = sizes, places


@dataclass(slots=True)
class Line:
    """A line of the capture: encoded fields before its events, the events as tiles, fields after."""

    head: bytes
    tiles: list[Tile]
    tail: bytes
    stats: int
    first_ps: int
    last_ps: int

    @property
    def events(self) -> int:
        return sum(len(tile.offsets) for tile in self.tiles)


def parse_line(data: Buffer, begin: int, end: int) -> Line:
    line = Line(b"", [], b"", 0, 0, 0)
    head, tail = bytearray(), bytearray()
    for number, first, value, last in fields(data, begin, end):
        if number != LINE_EVENTS:
            (head if number in BEFORE_EVENTS else tail).extend(data[first:last])
            continue
        event = parse_event(data, value, last)
        if not line.tiles or len(line.tiles[-1].offsets) == TILE_EVENTS:
            line.tiles.append(Tile())
        line.tiles[-1].add(event)
        line.stats += event.stats
        if event.offset is not None:
            line.first_ps = min(line.first_ps, event.offset)
            line.last_ps = max(line.last_ps, event.offset + event.duration)
    line.head, line.tail = bytes(head), bytes(tail)
    return line


def parts(data: Buffer, planes: str) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a capture, less the planes whose names the regular expression does not find."""
    for number, begin, value, end in fields(data, 0, len(data)):
        if number != XSPACE_PLANES or re.search(planes, plane_name(data, value, end)):
            yield number, begin, value, end


def plane_name(data: Buffer, begin: int, end: int) -> str:
    names = [bytes(data[value:last]) for field, _, value, last in fields(data, begin, end) if field == PLANE_NAME]
    return names[-1].decode(errors="replace") if names else ""


def period_ps(data: Buffer, planes: str) -> int:
    """How long the planes are: what each repetition is shifted by, so that lines stay in step."""
    first = last = 0
    for number, _, value, end in parts(data, planes):
        if number == XSPACE_PLANES:
            for plane_field, _, line_begin, line_end in fields(data, value, end):
                if plane_field == PLANE_LINES:
                    line = parse_line(data, line_begin, line_end)
                    first, last = min(first, line.first_ps), max(last, line.last_ps)
    return last - first + 1_000


def scale(source: Path, target: Path, times: int, planes: str = "") -> tuple[int, int, int]:
    """Writes ``source`` with every line's events ``times`` times over; counts the events, stats and lines.

    Only planes whose names the regular expression ``planes`` finds.
    """
    counts = [0, 0, 0]
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = memoryview(mapped)
        try:
            period = period_ps(data, planes)
            with CaptureWriter(target) as out:
                for number, begin, value, end in parts(data, planes):
                    if number == XSPACE_PLANES:
                        with out.plane() as plane:
                            _scale_plane(data, value, end, plane, period, times, counts)
                    else:
                        out.raw(bytes(data[begin:end]))
        finally:
            data.release()
    return counts[0], counts[1], counts[2]


def _scale_plane(
    data: memoryview, begin: int, end: int, plane: PlaneWriter, period: int, times: int, counts: list[int]
) -> None:
    for number, first, value, last in fields(data, begin, end):
        if number != PLANE_LINES:
            plane.write(data[first:last])
            continue
        line = parse_line(data, value, last)
        with plane.long_line(line.head, line.tail) as spool:
            for repetition in range(times):
                for tile in line.tiles:
                    spool.write(tile.shifted(repetition * period))
        for index, more in enumerate((line.events * times, line.stats * times, 1)):
            counts[index] += more
