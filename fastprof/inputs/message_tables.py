"""Tables of messages and of messages in them, read in one pass: where a reader needs few fields of very many messages.

RUN = Message((1, 2), messages={7: Message((6,))})
runs = read_tables(data, at, RUN, "reading runs")
runs.integers(2), runs.messages[7].integers(6), runs.messages[7].parent     # parent: a row of runs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from fastprof._native.messages import read_message_tables
from fastprof.inputs.message_columns import Buffer, Spans
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

_Places = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Message:
    """Fields that are wanted, by number: of integers and of texts the last value counts; ``messages`` are rows of their
    own; ``numbers`` are repeated integers, packed or not; ``lists`` are repeated texts."""

    integers: tuple[int, ...] = ()
    texts: tuple[int, ...] = ()
    messages: Mapping[int, Message] = field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    lists: tuple[int, ...] = ()


class Rows:
    """Messages of one kind, in the order of the bytes. ``parent``: the row of the message around each. ``rows_of``: by
    field, the messages, numbers and texts that are rows of their own."""

    def __init__(self, wanted: Message, rows: Int64s, rows_of: Mapping[int, Rows]) -> None:
        self.parent: Int64s = rows[:, 0]
        self.rows_of = rows_of
        self._wanted = wanted
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def integers(self, number: int = 1) -> Int64s:
        """``number``: not needed where rows are numbers."""
        found: Int64s = self._rows[:, 1 + self._wanted.integers.index(number)]
        return found

    def spans(self, number: int = 1) -> Spans:
        """``number``: not needed where rows are texts."""
        at = 1 + len(self._wanted.integers) + 2 * self._wanted.texts.index(number)
        return Spans(np.ascontiguousarray(self._rows[:, at]), np.ascontiguousarray(self._rows[:, at + 1]))

    def last(self, parents: int) -> Int64s:
        """The last row of each of the rows around these; -1: it has none."""
        found = np.full(parents, -1, np.int64)
        found[self.parent] = np.arange(len(self))
        return found


_NUMBER, _TEXT = Message((1,)), Message(texts=(1,))


def read_tables(data: Buffer, at: Spans, wanted: Message, doing: str) -> Rows:
    """CaptureError: a message does not decode; its offset is one in ``data``."""
    kinds: list[Message] = []
    tables: list[tuple[tuple[int, ...], tuple[int, ...], _Places, _Places, _Places]] = []

    def add(kind: Message) -> int:
        number = len(kinds)
        kinds.append(kind)
        tables.append(((), (), [], [], []))
        messages = [(one, add(inner)) for one, inner in kind.messages.items()]
        numbers = [(one, add(_NUMBER)) for one in kind.numbers]
        tables[number] = (kind.integers, kind.texts, messages, numbers, [(one, add(_TEXT)) for one in kind.lists])
        return number

    add(wanted)
    spans = np.empty((len(at.offset), 2), np.uint64)
    spans[:, 0], spans[:, 1] = at.offset, np.maximum(at.length, 0)
    raw = read_message_tables(data, spans.reshape(-1), tables, doing)

    def rows(number: int) -> Rows:
        integers, texts, *inner = tables[number]
        values = np.frombuffer(raw[number], np.int64).reshape(-1, 1 + len(integers) + 2 * len(texts))
        return Rows(kinds[number], values, {one: rows(place) for some in inner for one, place in some})

    return rows(0)
