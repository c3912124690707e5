"""Fields of protobuf messages, for formats whose files are small: read with the place of each fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fastprof.schema.message_fields import BYTES, FIXED32, FIXED64, VARINT

_MOST_BITS = 70
_MOST_LOOKED_AT = 4_000
CUT = "the message ends within a field"


Readable = bytes | bytearray | memoryview


class Field(NamedTuple):
    """``value``: an unsigned integer, or the bytes of a text or message; ``at``: where the value begins in the file."""

    number: int
    value: int | memoryview
    at: int


class BadMessageError(Exception):
    """``at``: where in the file."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.text = text
        self.at = at


def fields(data: memoryview, begin: int = 0) -> Iterator[Field]:
    """The fields of a message, which begins there in the file. BadMessageError: it ends within a field, or a field is
    of no kind that proto3 writes."""
    at, end = 0, len(data)
    while at < end:
        start = at
        tag, at = _varint(data, at, begin)
        kind = tag & 7
        if kind == VARINT:
            number, after = _varint(data, at, begin)
            yield Field(tag >> 3, number, begin + at)
            at = after
            continue
        if kind == BYTES:
            length, at = _varint(data, at, begin)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise BadMessageError(f"a field of wire type {kind}", begin + start)
        if length > end - at:
            raise BadMessageError(CUT, begin + start)
        value = data[at : at + length]
        yield Field(tag >> 3, value if kind == BYTES else int.from_bytes(value, "little"), begin + at)
        at += length


def sound_fields(data: memoryview, begin: int, salvage: bool) -> Iterator[Field]:
    """The fields of a message. ``salvage``: of a message that is cut, the last one is what is there of it, and what
    comes after a fault is left out."""
    if not salvage:
        yield from fields(data, begin)
        return
    try:
        yield from fields(data, begin)
    except BadMessageError as fault:
        rest = data[fault.at - begin :]
        if fault.text != CUT or rest[0] & 7 != BYTES or rest[0] >= 0x80:
            return
        length = next((place for place, byte in enumerate(rest[1:11], 1) if byte < 0x80), 0)
        if length:
            yield Field(rest[0] >> 3, rest[length + 1 :], fault.at + length + 1)


class BegunField(NamedTuple):
    """``kind``: its wire type; ``value``: 0 for fixed widths; ``is_cut``: the data end within the value."""

    number: int
    kind: int
    value: int | memoryview
    is_cut: bool


def begun_fields(data: memoryview, is_cut: bool) -> Iterator[BegunField]:
    """The fields of a message whose end may be missing (``is_cut``), to find out what it is: the first few thousand.
    BadMessageError: the bytes are not a message."""
    at, size = 0, len(data)
    for _ in range(_MOST_LOOKED_AT):
        if at >= size:
            return
        start = at
        tag, at = _varint_or_end(data, at, start)
        number, kind = tag >> 3, tag & 7
        value = 0
        if at and kind in (VARINT, BYTES):
            value, at = _varint_or_end(data, at, start)
        elif at and kind in (FIXED32, FIXED64):
            at += 4 if kind == FIXED32 else 8
        elif at:
            raise BadMessageError(f"a field of wire type {kind}", start)
        ends_early = kind == BYTES and value > size - at
        if (not at or ends_early) and not is_cut:
            raise BadMessageError(CUT, start)
        if not at:
            return
        if kind == BYTES:
            yield BegunField(number, kind, data[at : at + value], ends_early)
            at += value
        else:
            yield BegunField(number, kind, value, False)


def complete(data: Readable, at: int, base: int) -> tuple[int, int]:
    """From a field on: where the last one that is complete ends, and how many bytes the next needs at least."""
    size = len(data)
    while at < size:
        tag, after = _varint_or_end(data, at, base + at)
        kind = tag & 7
        if kind == BYTES and after:
            length, after = _varint_or_end(data, after, base + at)
            after += length if after else 0
        elif kind == VARINT and after:
            after = _varint_or_end(data, after, base + at)[1]
        elif after and kind in (FIXED32, FIXED64):
            after += 4 if kind == FIXED32 else 8
        elif after:
            raise BadMessageError(f"a field of wire type {kind}", base + at)
        if not after:
            return at, size + 1
        if after > size:
            return at, after
        at = after
    return at, size + 1


def _varint_or_end(data: Readable, at: int, field: int) -> tuple[int, int]:
    """The number and where it ends; 0: not in the data. ``field``: where its field begins in the file."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    if len(data) - at >= 10:
        raise BadMessageError("an integer has no end", field)
    return 0, 0


def _varint(data: memoryview, at: int, begin: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(data) and shift < _MOST_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise BadMessageError("an integer has no end", begin + at)


def signed(value: int | memoryview) -> int:
    """An integer of 64 bits with its sign; 0 if it is none."""
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value >> 63 else value


def text(value: int | memoryview) -> str:
    """Bytes that are not UTF-8 are replaced."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")


def message(value: int | memoryview) -> memoryview:
    return memoryview(b"") if isinstance(value, int) else value
