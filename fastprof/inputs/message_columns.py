"""The fields of many protobuf messages, as columns: for formats whose files have many messages of one kind. Tables of
messages and of messages in them, read in one pass; texts, each stored once, repeated integers, maps.

RUN = WantedFields((1, 2), messages={7: WantedFields((6,))})
runs = read_tables(data, at, RUN, "reading runs")
runs.integers(2), runs.messages[7].integers(6), runs.messages[7].parent     # parent: a row of runs
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fastprof._native.messages import read_message_fields, read_message_tables
from fastprof._native.transcribing import span_ints, span_texts
from fastprof.schema.columns import Int32s, Int64s, UInt64s, count_bounds, invert_order, number_owners, sort_rows
from fastprof.schema.tables import build_texts
from fastprof.schema.value_classes import dataclass

Buffer = bytes | bytearray | memoryview


class ByteSpans(NamedTuple):
    """Places of texts, bytes or messages in ``data``. A ``length`` of -1 means that there is none."""

    offset: Int64s
    length: Int64s

    def taken(self, rows: Int64s) -> ByteSpans:
        return ByteSpans(self.offset[rows], self.length[rows])


def make_whole_span(data: Buffer) -> ByteSpans:
    """Return the message that the bytes are."""
    return ByteSpans(np.zeros(1, np.int64), np.array([len(data)], np.int64))


class Owned(NamedTuple):
    """Values of a repeated field, in order, each with its message."""

    owner: Int64s
    at: ByteSpans


class MessageColumns:
    """The fields of messages that lie in ``data``. CaptureError: one does not decode; its offset is one in ``data``."""

    def __init__(self, data: Buffer, messages: ByteSpans, doing: str, left_out: Iterable[int] = ()) -> None:
        spans = np.empty((len(messages.offset), 2), np.uint64)
        spans[:, 0], spans[:, 1] = messages.offset, np.maximum(messages.length, 0)
        raw = read_message_fields(data, spans, left_out, doing)
        first, self._number, self._length = (np.frombuffer(raw[place], np.int64) for place in (0, 1, 3))
        self._value: UInt64s = np.frombuffer(raw[2], np.uint64)
        self._owner: Int64s = number_owners(np.diff(first))
        self.count = len(first) - 1

    def integers(self, number: int, default: int = 0) -> Int64s:
        """Return the last value of an integer field of each message."""
        values = np.full(self.count, default, np.int64)
        rows = np.flatnonzero((self._number == number) & (self._length < 0))
        values[self._owner[rows]] = self._value[rows].view(np.int64)
        return values

    def spans(self, number: int) -> ByteSpans:
        """Return the last value of a text, bytes or message field of each message."""
        spans = ByteSpans(np.zeros(self.count, np.int64), np.full(self.count, -1, np.int64))
        every = self.each(number)
        spans.offset[every.owner], spans.length[every.owner] = every.at
        return spans

    def values(self, number: int) -> tuple[Int64s, UInt64s, Int64s]:
        """Return all values of a field, in order: their messages; what they are, or offsets of bytes; and lengths of
        bytes, else -1."""
        rows = np.flatnonzero(self._number == number)
        return self._owner[rows], self._value[rows], self._length[rows]

    def each(self, number: int) -> Owned:
        """Return all values of a repeated text, bytes or message field."""
        rows = np.flatnonzero((self._number == number) & (self._length >= 0))
        return Owned(self._owner[rows], ByteSpans(self._value[rows].view(np.int64), self._length[rows]))


def decode_texts(data: Buffer, at: ByteSpans) -> list[str]:
    """Return spans as text; bytes that are not UTF-8 are replaced, and the text of a span that is not there is
    empty."""
    content = bytes(data) if isinstance(data, memoryview) else data
    ends = (at.offset + np.maximum(at.length, 0)).tolist()
    return [content[first:end].decode("utf-8", "replace") for first, end in zip(at.offset.tolist(), ends, strict=True)]


_Places = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class WantedFields:
    """Fields that are wanted, by number: of integers and of texts the last value counts; ``messages`` are rows of their
    own; ``numbers`` are repeated integers, packed or not; ``lists`` are repeated texts."""

    integers: tuple[int, ...] = ()
    texts: tuple[int, ...] = ()
    messages: Mapping[int, WantedFields] = field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    lists: tuple[int, ...] = ()


class MessageRows:
    """Messages of one kind, in the order of the bytes. ``parent``: the row of the message around each. ``rows_of``: by
    field, the messages, numbers and texts that are rows of their own."""

    def __init__(self, wanted: WantedFields, rows: Int64s, rows_of: Mapping[int, MessageRows]) -> None:
        self.parent: Int64s = rows[:, 0]
        self.rows_of = rows_of
        self._wanted = wanted
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def integers(self, number: int = 1) -> Int64s:
        """``number``: not needed where rows are numbers."""
        column: Int64s = self._rows[:, 1 + self._wanted.integers.index(number)]
        return column

    def spans(self, number: int = 1) -> ByteSpans:
        """``number``: not needed where rows are texts."""
        at = 1 + len(self._wanted.integers) + 2 * self._wanted.texts.index(number)
        return ByteSpans(np.ascontiguousarray(self._rows[:, at]), np.ascontiguousarray(self._rows[:, at + 1]))

    def last(self, parents: int) -> Int64s:
        """Return the last row of each of these parents, or -1."""
        rows = np.full(parents, -1, np.int64)
        rows[self.parent] = np.arange(len(self))
        return rows


_NUMBER, _TEXT = WantedFields((1,)), WantedFields(texts=(1,))


def read_tables(data: Buffer, at: ByteSpans, wanted: WantedFields, doing: str) -> MessageRows:
    """CaptureError: a message does not decode; its offset is one in ``data``."""
    kinds: list[WantedFields] = []
    tables: list[tuple[tuple[int, ...], tuple[int, ...], _Places, _Places, _Places]] = []

    def add(kind: WantedFields) -> int:
        number = len(kinds)
        kinds.append(kind)
        tables.append(((), (), [], [], []))
        messages = [(field, add(inner)) for field, inner in kind.messages.items()]
        numbers = [(field, add(_NUMBER)) for field in kind.numbers]
        tables[number] = (kind.integers, kind.texts, messages, numbers, [(field, add(_TEXT)) for field in kind.lists])
        return number

    add(wanted)
    spans = np.empty((len(at.offset), 2), np.uint64)
    spans[:, 0], spans[:, 1] = at.offset, np.maximum(at.length, 0)
    raw = read_message_tables(data, spans.reshape(-1), tables, doing)

    def rows(number: int) -> MessageRows:
        integers, texts, *inner = tables[number]
        values = np.frombuffer(raw[number], np.int64).reshape(-1, 1 + len(integers) + 2 * len(texts))
        return MessageRows(kinds[number], values, {field: rows(place) for some in inner for field, place in some})

    return rows(0)


class DistinctTexts(NamedTuple):
    """``words[number[i]]`` is text i; -1 if there is none. Words are in the order of their first use."""

    number: Int32s
    words: pa.Array

    def array(self) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(self.number, mask=self.number < 0), self.words)

    def rank(self) -> Int64s:
        """Return the place of each word in the order of bytes."""
        return invert_order(sort_words(self.words))


def sort_words(words: pa.Array) -> Int64s:
    """Return the places of distinct words in the order of their bytes."""
    import pyarrow.compute as pc  # late: most captures do without

    return np.asarray(pc.sort_indices(words)).astype(np.int64)


def read_texts(data: Buffer, at: ByteSpans, doing: str) -> DistinctTexts:
    """Invalid UTF-8 is replaced."""
    numbers, offsets, content = span_texts(data, _join_spans(at), True, doing)
    return DistinctTexts(np.frombuffer(numbers, np.int32), build_texts(offsets, content))


def read_bytes(data: Buffer, at: ByteSpans, doing: str) -> tuple[Int32s, ByteSpans, bytes]:
    """Return the distinct bytes: the number of each span, -1 if it is absent, and where each lies in the bytes
    returned."""
    numbers, offsets, content = span_texts(data, _join_spans(at), False, doing)
    bounds = np.frombuffer(offsets, np.int64)
    return np.frombuffer(numbers, np.int32), ByteSpans(bounds[:-1], np.diff(bounds)), content


def read_integers(data: Buffer, columns: MessageColumns, number: int, doing: str) -> tuple[Int64s, Int64s]:
    """Return all values of a repeated integer field of each message, packed or not, in order: messages and values."""
    owner, value, length = columns.values(number)
    packed = length >= 0
    if not packed.any():
        return owner, value.view(np.int64)
    spans = ByteSpans(value[packed].view(np.int64), length[packed])
    ends, unpacked = span_ints(data, _join_spans(spans), doing)
    counts = np.ones(len(owner), np.int64)
    counts[packed] = np.diff(np.frombuffer(ends, np.int64), prepend=0)
    content = np.empty(int(counts.sum()), np.int64)
    is_unpacked = np.repeat(packed, counts)
    content[is_unpacked] = np.frombuffer(unpacked, np.int64)
    content[~is_unpacked] = value[~packed].view(np.int64)
    return np.repeat(owner, counts), content


def _join_spans(at: ByteSpans) -> UInt64s:
    spans = np.empty((len(at.offset), 2), np.uint64)
    spans[:, 0], spans[:, 1] = at.offset, at.length.view(np.uint64)
    return spans.reshape(-1)


def sort_by_key(owner: Int64s, key: Int64s) -> Int64s:
    """Return the order of entries of maps by ``owner`` and ``key``: of several with one key the last, as protobuf has
    it."""
    step, rise = np.diff(owner), np.diff(key)
    if ((step > 0) | ((step == 0) & (rise > 0))).all():
        return np.arange(len(owner))
    order = sort_rows(owner, key)
    is_last = np.ones(len(order), bool)
    is_last[:-1] = (np.diff(owner[order]) != 0) | (np.diff(key[order]) != 0)
    return order[is_last]


def find_ends(owner: Int64s, count: int) -> Int64s:
    """Return 0 and where the values of each owner end, for values in the order of their ``count`` owners."""
    return count_bounds(np.bincount(owner, minlength=count))
