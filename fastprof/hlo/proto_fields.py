"""Reading the fields of small protobuf messages, such as the window of a convolution, where they are needed."""

from __future__ import annotations

from collections.abc import Iterator

from fastprof.errors import CaptureError

Field = tuple[int, int | memoryview]
"""A field number, and the value of a varint or fixed-size field, or the bytes of a length-delimited one."""

_SIZES = {1: 8, 5: 4}


def varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise CaptureError("a number has no end, reading HLO")


def fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message, in order; groups are not looked into. CaptureError: it does not decode."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(data, at)
            yield number, value
        elif kind in (1, 2, 5):
            size = _SIZES.get(kind)
            if size is None:
                size, at = varint(data, at)
            if size > len(data) - at:
                raise CaptureError("a length runs past the end of its message, reading HLO")
            payload = data[at : at + size]
            at += size
            yield number, payload if kind == 2 else int.from_bytes(payload, "little")
        elif kind not in (3, 4):
            raise CaptureError("a tag is broken, reading HLO")


def signed(value: int) -> int:
    """An int64 from the bits of a varint."""
    return value - (1 << 64) if value >> 63 else value


def integers(data: memoryview, number: int) -> list[int]:
    """All values of a repeated int64 field, packed or not."""
    found: list[int] = []
    for field, value in fields(data):
        if field != number:
            continue
        if isinstance(value, int):
            found.append(signed(value))
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            found.append(signed(one))
    return found


def integer(data: memoryview, number: int, default: int = 0) -> int:
    """The last value of an int64 field."""
    found = integers(data, number)
    return found[-1] if found else default


def messages(data: memoryview, number: int) -> list[memoryview]:
    """All values of a message, string or bytes field."""
    return [value for field, value in fields(data) if field == number and isinstance(value, memoryview)]


def message(data: memoryview, number: int) -> memoryview:
    """The last value of a message, string or bytes field; empty where there is none."""
    found = messages(data, number)
    return found[-1] if found else data[:0]
