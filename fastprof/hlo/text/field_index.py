"""The fields of all instructions of a computation, found in one go."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fastprof._native.hlo_text import read_message_fields
from fastprof.hlo.text.message import Message, Value
from fastprof.schema.array_types import UInt64s

_OFTEN_EMPTY = (68, 82)
"""Fields that compilers write without anything in them: frontend attributes and statistics."""


class FieldIndex:
    """Of messages that lie at ``offsets`` of ``data``. Fields whose numbers are ``left_out`` are as if they were not
    there. Raises CaptureError where one does not decode."""

    def __init__(self, data: memoryview, offsets: UInt64s, lengths: UInt64s, left_out: Iterable[int]) -> None:
        self._data = data
        spans = np.ascontiguousarray(np.column_stack([offsets, lengths]), np.uint64)
        first, numbers, values, sizes = read_message_fields(data, spans, left_out)
        self._first: list[int] = np.frombuffer(first, np.int64).tolist()
        self._numbers: list[int] = np.frombuffer(numbers, np.int64).tolist()
        self._values: list[int] = np.frombuffer(values, np.uint64).tolist()
        self._sizes: list[int] = np.frombuffer(sizes, np.int64).tolist()

    def message(self, place: int) -> Message:
        """The fields of the message at this place among the offsets."""
        found: dict[int, list[Value]] = {}
        for at in range(self._first[place], self._first[place + 1]):
            at_or_value, size, number = self._values[at], self._sizes[at], self._numbers[at]
            value: Value = at_or_value if size < 0 else self._data[at_or_value : at_or_value + size]
            if not size and number in _OFTEN_EMPTY:
                continue
            if number in found:
                found[number].append(value)
            else:
                found[number] = [value]
        return Message.of(found)
