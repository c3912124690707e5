"""The fields of many protobuf messages, as columns: for formats whose files have many messages of one kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fastprof._native.messages import read_message_fields
from fastprof.schema.array_types import Int64s, UInt64s

Buffer = bytes | bytearray | memoryview


class Spans(NamedTuple):
    """Where texts, bytes or messages lie in ``data``. A ``length`` of -1: there is none."""

    offset: Int64s
    length: Int64s

    def taken(self, rows: Int64s) -> Spans:
        return Spans(self.offset[rows], self.length[rows])


def all_of(data: Buffer) -> Spans:
    """The message that the bytes are."""
    return Spans(np.zeros(1, np.int64), np.array([len(data)], np.int64))


class Owned(NamedTuple):
    """Values of a repeated field, in order, each with its message."""

    owner: Int64s
    at: Spans


class MessageColumns:
    """Of messages that lie in ``data``. CaptureError: one does not decode; its offset is one in ``data``."""

    def __init__(self, data: Buffer, messages: Spans, doing: str, left_out: Iterable[int] = ()) -> None:
        spans = np.empty((len(messages.offset), 2), np.uint64)
        spans[:, 0], spans[:, 1] = messages.offset, np.maximum(messages.length, 0)
        raw = read_message_fields(data, spans, left_out, doing)
        first, self._number, self._length = (np.frombuffer(raw[place], np.int64) for place in (0, 1, 3))
        self._value: UInt64s = np.frombuffer(raw[2], np.uint64)
        self._owner: Int64s = np.repeat(np.arange(len(first) - 1), np.diff(first))
        self.count = len(first) - 1

    def integers(self, number: int, default: int = 0) -> Int64s:
        """The last value of an integer field of each message."""
        values = np.full(self.count, default, np.int64)
        rows = np.flatnonzero((self._number == number) & (self._length < 0))
        values[self._owner[rows]] = self._value[rows].view(np.int64)
        return values

    def spans(self, number: int) -> Spans:
        """The last value of a text, bytes or message field of each message."""
        found = Spans(np.zeros(self.count, np.int64), np.full(self.count, -1, np.int64))
        every = self.each(number)
        found.offset[every.owner], found.length[every.owner] = every.at
        return found

    def values(self, number: int) -> tuple[Int64s, UInt64s, Int64s]:
        """All values of a field, in order: their messages; what they are, or offsets of bytes; and lengths of bytes,
        else -1."""
        rows = np.flatnonzero(self._number == number)
        return self._owner[rows], self._value[rows], self._length[rows]

    def each(self, number: int) -> Owned:
        """All values of a repeated text, bytes or message field."""
        rows = np.flatnonzero((self._number == number) & (self._length >= 0))
        return Owned(self._owner[rows], Spans(self._value[rows].view(np.int64), self._length[rows]))


def texts(data: Buffer, at: Spans) -> list[str]:
    """Bytes that are not UTF-8 are replaced; of a span that is not there the text is empty."""
    content = bytes(data) if isinstance(data, memoryview) else data
    ends = (at.offset + np.maximum(at.length, 0)).tolist()
    return [content[first:end].decode("utf-8", "replace") for first, end in zip(at.offset.tolist(), ends, strict=True)]
