"""Times and counts of the ops of many hosts, host by host, compressed: seldom looked at, and most alike.

A row of a host's table is six integers, all rows of a column after each other, table after table:

    place of its name and of its category in the texts, occurrences, executions, time_ps, self_ps
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.derive.ops.framework import framework_rows
from fastprof.derive.ops.tables import OpTable, sums_by
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

_COLUMNS: Final = ("occurrences", "executions", "time_ps", "self_ps")
_DECISIVE: Final = ("name", "provenance", "category")
"""What framework ops depend on."""
_CODEC: Final = "zstd"


@dataclass(frozen=True, slots=True)
class OpsByHost:
    """``counts``: rows of each table; ``texts``: names and categories, each once."""

    counts: tuple[int, ...]
    texts: tuple[str, ...]
    packed: bytes

    @classmethod
    def of(cls, tables: Iterable[OpTable]) -> OpsByHost:
        counts, columns, places = [], [], _Places()
        for table in tables:
            counts.append(len(table))
            columns += [places.of(table.name), places.of(table.category)]
            columns += [getattr(table, name) for name in _COLUMNS]
        data = np.concatenate([*columns, np.zeros(0, np.int64)]).astype("<i8").tobytes()
        return cls(tuple(counts), tuple(places.known), pa.compress(data, codec=_CODEC, asbytes=True))

    def tables(self) -> Iterator[OpTable]:
        """With these columns alone."""
        width = 2 + len(_COLUMNS)
        size = 8 * width * sum(self.counts)
        data = pa.decompress(self.packed, size, codec=_CODEC)
        numbers, at = np.frombuffer(data, "<i8"), 0
        for count in self.counts:
            names, categories, *columns = numbers[at : at + width * count].reshape(width, count)
            at += width * count
            texts = ([self.texts[place] for place in some.tolist()] for some in (names, categories))
            yield OpTable.of(next(texts), category=next(texts), **dict(zip(_COLUMNS, columns, strict=True)))


class FrameworkTimes:
    """Times and counts of the device ops of hosts, by framework op, as ``by_framework_op`` has them."""

    def __init__(self) -> None:
        self._before: tuple[OpTable, Int64s, list[str], list[str]] | None = None

    def of(self, table: OpTable) -> OpTable:
        before = self._before
        if before is None or any(getattr(before[0], name) != getattr(table, name) for name in _DECISIVE):
            self._before = before = table, *framework_rows(table)
        _, row, names, types = before
        sums = {name: sums_by(row, getattr(table, name), len(names)) for name in _COLUMNS}
        return OpTable.of(names, category=types, **sums)


class _Places:
    """The place of each text in those that are ``known``. Hosts of a program mostly have the same ops."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._before: list[tuple[list[str], Int64s]] = []

    def of(self, texts: list[str]) -> Int64s:
        for other, places in self._before:
            if other == texts:
                return places
        found = np.fromiter((self.known.setdefault(text, len(self.known)) for text in texts), np.int64)
        self._before = [*islice(reversed(self._before), 7), (texts, found)]
        return found
