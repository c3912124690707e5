"""An oracle: reads XSpace bytes into plain Python objects, slowly and plainly, with no code of fastprof.

    parse(data)     bytes -> Space: the messages as they stand in the file

`slow_tables` goes on from there, to the rows of fastprof's tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


class WireError(ValueError):
    """The bytes are not a protobuf message."""


# ---- the wire format ------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:  # most are of one byte
        return data[at], at + 1
    value = 0
    for place in range(10):
        if at + place >= len(data):
            raise WireError("a varint is cut off")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & (1 << 64) - 1, at + place + 1
    raise WireError("a varint of more than ten bytes")


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - at:
        raise WireError("a field is cut off")
    return data[at : at + size], at + size


def _group_end(data: bytes, at: int, number: int) -> int:
    """Where the group that was opened ends, with all that is in it read past."""
    while True:
        tag, at = _varint(data, at)
        if tag & 7 == 4:
            if tag >> 3 != number:
                raise WireError("a group ends that did not begin")
            return at
        at = _value(data, at, tag)[1]


def _value(data: bytes, at: int, tag: int) -> tuple[Any, int]:
    number, wire_type = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise WireError("a field has no legal number")
    match wire_type:
        case 0:
            return _varint(data, at)
        case 1:
            return _take(data, at, 8)
        case 2:
            size, at = _varint(data, at)
            return _take(data, at, size)
        case 3:
            return None, _group_end(data, at, number)
        case 5:
            return _take(data, at, 4)
    raise WireError(f"wire type {wire_type}")


def _fields(data: bytes) -> Iterator[tuple[tuple[int, int], Any]]:
    """Each field as ((number, wire type), value): an unsigned int, or bytes, or None for a group."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _value(data, at, tag)
        yield (tag >> 3, tag & 7), value


def signed(value: int) -> int:
    """An unsigned 64-bit number as two's complement."""
    return value - (1 << 64) if value >= 1 << 63 else value


# ---- messages -------------------------------------------------------------------------------------


@dataclass
class Stat:
    metadata_id: int = 0
    kind: str = "none"
    value: Any = None
    """int for int64, uint64 and ref, else float, str or bytes."""


@dataclass
class Event:
    metadata_id: int = 0
    offset_ps: int = 0
    num_occurrences: int | None = None
    duration_ps: int = 0
    stats: list[Stat] = field(default_factory=list)


@dataclass
class Line:
    id: int = 0
    name: str = ""
    timestamp_ns: int = 0
    events: list[Event] = field(default_factory=list)
    duration_ps: int = 0
    display_id: int = 0
    display_name: str = ""


@dataclass
class EventMetadata:
    id: int = 0
    name: str = ""
    metadata: bytes | None = None
    display_name: str = ""
    stats: list[Stat] = field(default_factory=list)
    child_ids: list[int] = field(default_factory=list)


@dataclass
class StatMetadata:
    id: int = 0
    name: str = ""
    description: str = ""


@dataclass
class Plane:
    """The last entry of a key counts, in its place: metadata is in the order of the entries that count."""

    id: int = 0
    name: str = ""
    lines: list[Line] = field(default_factory=list)
    event_metadata: dict[int, EventMetadata] = field(default_factory=dict)
    stat_metadata: dict[int, StatMetadata] = field(default_factory=dict)
    stats: list[Stat] = field(default_factory=list)


@dataclass
class Space:
    planes: list[Plane] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hostnames: list[str] = field(default_factory=list)


def _stat(data: bytes) -> Stat:
    stat = Stat()
    for key, value in _fields(data):
        match key:
            case (1, 0):
                stat.metadata_id = signed(value)
            case (2, 1):
                stat.kind, stat.value = "double", struct.unpack("<d", value)[0]
            case (3, 0):
                stat.kind, stat.value = "uint64", value
            case (4, 0):
                stat.kind, stat.value = "int64", signed(value)
            case (5, 2):
                stat.kind, stat.value = "str", value.decode()
            case (6, 2):
                stat.kind, stat.value = "bytes", value
            case (7, 0):
                stat.kind, stat.value = "ref", value
    return stat


def _event(data: bytes) -> Event:
    event = Event()
    for key, value in _fields(data):
        match key:
            case (1, 0):
                event.metadata_id = signed(value)
            case (2, 0):
                event.offset_ps, event.num_occurrences = signed(value), None
            case (3, 0):
                event.duration_ps = signed(value)
            case (4, 2):
                event.stats.append(_stat(value))
            case (5, 0):
                event.offset_ps, event.num_occurrences = 0, signed(value)
    return event


def _line(data: bytes) -> Line:
    line = Line()
    for key, value in _fields(data):
        match key:
            case (1, 0):
                line.id = signed(value)
            case (2, 2):
                line.name = value.decode()
            case (3, 0):
                line.timestamp_ns = signed(value)
            case (4, 2):
                line.events.append(_event(value))
            case (9, 0):
                line.duration_ps = signed(value)
            case (10, 0):
                line.display_id = signed(value)
            case (11, 2):
                line.display_name = value.decode()
    return line


def _event_metadata(data: bytes) -> EventMetadata:
    meta = EventMetadata()
    for key, value in _fields(data):
        match key:
            case (1, 0):
                meta.id = signed(value)
            case (2, 2):
                meta.name = value.decode()
            case (3, 2):
                meta.metadata = value
            case (4, 2):
                meta.display_name = value.decode()
            case (5, 2):
                meta.stats.append(_stat(value))
            case (6, 0):
                meta.child_ids.append(signed(value))
            case (6, 2):
                at = 0
                while at < len(value):
                    child, at = _varint(value, at)
                    meta.child_ids.append(signed(child))
    return meta


def _stat_metadata(data: bytes) -> StatMetadata:
    meta = StatMetadata()
    for key, value in _fields(data):
        match key:
            case (1, 0):
                meta.id = signed(value)
            case (2, 2):
                meta.name = value.decode()
            case (3, 2):
                meta.description = value.decode()
    return meta


def _entry(data: bytes) -> tuple[int, bytes]:
    """Key and value of a map entry. A value that comes twice is merged: for messages, their bytes joined."""
    key, value = 0, b""
    for at, found in _fields(data):
        if at == (1, 0):
            key = signed(found)
        elif at == (2, 2):
            value += found
    return key, value


def _plane(data: bytes) -> Plane:
    plane = Plane()
    for key, value in _fields(data):
        match key:
            case (1, 0):
                plane.id = signed(value)
            case (2, 2):
                plane.name = value.decode()
            case (3, 2):
                plane.lines.append(_line(value))
            case (4, 2):
                id, raw = _entry(value)
                plane.event_metadata.pop(id, None)
                plane.event_metadata[id] = _event_metadata(raw)
            case (5, 2):
                id, raw = _entry(value)
                plane.stat_metadata.pop(id, None)
                plane.stat_metadata[id] = _stat_metadata(raw)
            case (6, 2):
                plane.stats.append(_stat(value))
    return plane


def parse(data: bytes) -> Space:
    """The messages in `data`. Raises WireError or UnicodeDecodeError."""
    space = Space()
    for key, value in _fields(data):
        match key:
            case (1, 2):
                space.planes.append(_plane(value))
            case (2, 2):
                space.errors.append(value.decode())
            case (3, 2):
                space.warnings.append(value.decode())
            case (4, 2):
                space.hostnames.append(value.decode())
    return space
