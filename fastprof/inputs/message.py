"""One protobuf message, read whole by C and then looked up by field number."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Self

import numpy as np

from fastprof._native.messages import read_message, read_message_fields
from fastprof.errors import CaptureError
from fastprof.schema.columns import UInt64s

Value = int | memoryview
"""The value of a varint or fixed-size field, or the bytes of a length-delimited one."""

_OFTEN_EMPTY = (68, 82)
"""Fields of instructions that compilers write without content: frontend attributes and statistics."""


class Message:
    """The fields of a message. CaptureError: it does not decode. ``DOING``: what is being read, for errors."""

    DOING: ClassVar = "reading HLO"
    __slots__ = ("_values",)

    def __init__(self, data: memoryview) -> None:
        self._values: dict[int, list[Value]] = read_message(data, self.DOING) if len(data) else {}

    @classmethod
    def of(cls, values: dict[int, list[Value]]) -> Message:
        """Return a message whose fields have been read already."""
        message = cls.__new__(cls)
        message._values = values
        return message

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def values(self, number: int) -> Sequence[Value]:
        """Return all values of a field, of whatever wire type."""
        return self._values.get(number, ())

    def numbers(self) -> list[int]:
        """Return the numbers of the fields, by first occurrence."""
        return list(self._values)

    def has_any(self, numbers: frozenset[int]) -> bool:
        return not numbers.isdisjoint(self._values)

    def integer(self, number: int, default: int = 0) -> int:
        """Return the last value of an int64 field."""
        values = self._values.get(number)
        return _make_signed(values[-1]) if values and isinstance(values[-1], int) else default

    def integers(self, number: int) -> list[int]:
        """Return all values of a repeated int64 field, packed or not."""
        values: list[int] = []
        for value in self._values.get(number, ()):
            values += [_make_signed(value)] if isinstance(value, int) else _unpack_integers(value)
        return values

    def flag(self, number: int) -> bool:
        return self.integer(number) != 0

    def data(self, number: int) -> memoryview:
        """Return the last value of a message, string or bytes field; empty where there is none."""
        values = self._values.get(number)
        return values[-1] if values and isinstance(values[-1], memoryview) else memoryview(b"")

    def text(self, number: int) -> str:
        """``data`` as text, with replacements for what is not UTF-8."""
        return bytes(self.data(number)).decode("utf-8", "replace")

    def parts(self, number: int) -> list[memoryview]:
        """Return all values of a repeated message, string or bytes field."""
        return [value for value in self._values.get(number, ()) if isinstance(value, memoryview)]

    def message(self, number: int) -> Self:
        """Return the last value of a message field; an empty message where there is none."""
        return type(self)(self.data(number))

    def messages(self, number: int) -> list[Self]:
        return [type(self)(part) for part in self.parts(number)]

    def double(self, number: int) -> float:
        """Return the last value of a double field, or 0.0."""
        return float(struct.unpack("<d", struct.pack("<Q", self.integer(number) & (1 << 64) - 1))[0])

    def single(self, number: int) -> float:
        """Return the last value of a float field, or 0.0."""
        return float(struct.unpack("<f", struct.pack("<I", self.integer(number) & (1 << 32) - 1))[0])


def scan_messages(
    data: memoryview, offsets: UInt64s, lengths: UInt64s, left_out: Iterable[int]
) -> Callable[[int], Message]:
    """Find the fields of many messages in one pass, and return a function that gives the message of a place among
    ``offsets``. Fields in ``left_out`` are treated as absent. CaptureError: one does not decode."""
    spans = np.ascontiguousarray(np.column_stack([offsets, lengths]), np.uint64)
    raw = read_message_fields(data, spans, left_out, Message.DOING)
    first, numbers, sizes = (np.frombuffer(raw[place], np.int64).tolist() for place in (0, 1, 3))
    values: list[int] = np.frombuffer(raw[2], np.uint64).tolist()

    def message(place: int) -> Message:
        fields: dict[int, list[Value]] = {}
        for at in range(first[place], first[place + 1]):
            value, size, number = values[at], sizes[at], numbers[at]
            if size or number not in _OFTEN_EMPTY:
                fields.setdefault(number, []).append(value if size < 0 else data[value : value + size])
        return Message.of(fields)

    return message


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number at a byte, and where it ends."""
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


def _make_signed(value: int) -> int:
    """Return an int64 from the bits of a varint."""
    return value - (1 << 64) if value >> 63 else value


def _unpack_integers(data: memoryview) -> list[int]:
    """Return the int64 values of a packed field."""
    raw = bytes(data)
    if raw.isascii():  # one byte each
        return list(raw)
    values: list[int] = []
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        values.append(_make_signed(value))
    return values
