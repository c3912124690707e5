"""A protobuf message read once and asked by field number: what the writers of HLO text look attributes up in."""

from __future__ import annotations

import struct

from fastprof.errors import CaptureError
from fastprof.hlo.proto_fields import signed, varint

Value = int | memoryview
_NUMBER, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
_GROUPS = (3, 4)
"""Kinds of fields, as tags tell them; what is in a group is read as if it stood outside."""


class Message:
    """The fields of a message. CaptureError: it does not decode."""

    __slots__ = ("_values",)

    def __init__(self, data: memoryview) -> None:
        self._values: dict[int, list[Value]] = {}
        at, end = 0, len(data)
        try:
            while at < end:
                at = self._read_field(data, at)
        except IndexError:
            raise CaptureError("a number has no end, reading HLO") from None

    @classmethod
    def of(cls, values: dict[int, list[Value]]) -> Message:
        """Of fields that have been read already."""
        message = cls.__new__(cls)
        message._values = values
        return message

    def _read_field(self, data: memoryview, at: int) -> int:
        """Takes the field at a byte, and returns where the next one is. Numbers of one byte are read here."""
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = varint(data, at - 1)
        kind = tag & 7
        if kind in (_NUMBER, _BYTES):
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = varint(data, at - 1)
        elif kind in _FIXED:
            size = _FIXED[kind]
        elif kind in _GROUPS:
            return at
        else:
            raise CaptureError("a tag is broken, reading HLO")
        value: Value = size
        if kind != _NUMBER:
            value = self._payload(data, at, size, kind)
            at += size
        number = tag >> 3
        if number in self._values:
            self._values[number].append(value)
        else:
            self._values[number] = [value]
        return at

    @staticmethod
    def _payload(data: memoryview, at: int, size: int, kind: int) -> Value:
        payload = data[at : at + size]
        if len(payload) < size:
            raise CaptureError("a length runs past the end of its message, reading HLO")
        return payload if kind == _BYTES else int.from_bytes(payload, "little")

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def has_any(self, numbers: frozenset[int]) -> bool:
        return not numbers.isdisjoint(self._values)

    def integer(self, number: int, default: int = 0) -> int:
        """The last value of an int64 field."""
        found = self._values.get(number)
        return signed(found[-1]) if found and isinstance(found[-1], int) else default

    def integers(self, number: int) -> list[int]:
        """All values of a repeated int64 field, packed or not."""
        found: list[int] = []
        for value in self._values.get(number, ()):
            found += [signed(value)] if isinstance(value, int) else unpacked(value)
        return found

    def flag(self, number: int) -> bool:
        return self.integer(number) != 0

    def data(self, number: int) -> memoryview:
        """The last value of a message, string or bytes field; empty where there is none."""
        found = self._values.get(number)
        return found[-1] if found and isinstance(found[-1], memoryview) else memoryview(b"")

    def text(self, number: int) -> str:
        """The same as text; what is not UTF-8 in it is replaced."""
        return bytes(self.data(number)).decode("utf-8", "replace")

    def parts(self, number: int) -> list[memoryview]:
        """All values of a repeated message, string or bytes field."""
        return [value for value in self._values.get(number, ()) if isinstance(value, memoryview)]

    def message(self, number: int) -> Message:
        """An empty one where there is none."""
        return Message(self.data(number))

    def messages(self, number: int) -> list[Message]:
        return [Message(part) for part in self.parts(number)]

    def double(self, number: int) -> float:
        """Of a double field; 0.0 where there is none."""
        return float(struct.unpack("<d", struct.pack("<Q", self.integer(number) & (1 << 64) - 1))[0])

    def single(self, number: int) -> float:
        """Of a float field; 0.0 where there is none."""
        return float(struct.unpack("<f", struct.pack("<I", self.integer(number) & (1 << 32) - 1))[0])


def unpacked(data: memoryview) -> list[int]:
    """The int64 values of a packed field. CaptureError: the last has no end."""
    found: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            found.append(signed(value & (1 << 64) - 1))
            value = shift = 0
        elif (shift := shift + 7) > 63:
            break
    if shift:
        raise CaptureError("a number has no end, reading HLO")
    return found
