"""The stats of a single event as values. Each is made when it is read: there may be many, which share long texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.span_stats import SpanStats
from fastprof.schema.capture_tables import KINDS
from fastprof.schema.value_classes import dataclass

EVENT, METADATA = "event", "metadata"
_MOST_BYTES = 32
_ROWS = 256

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class StatValue:
    """``value``: exact, as text. ``of``: whether the event has it itself, or its metadata. ``payload``: the bytes of a
    stat that holds bytes."""

    name: str
    kind: str
    value: str
    of: str
    payload: bytes = b""


class StatColumns(Protocol):
    """Stats of one origin, ``of``."""

    @property
    def of(self) -> str: ...

    def __len__(self) -> int: ...

    def rows_of(self, name: str) -> Rows:
        """The rows of stats of this name."""

    def read(self, rows: Rows) -> list[StatValue]: ...


@dataclass(frozen=True, slots=True)
class EventStats:
    """All stats of an event, numbered: those of its own first."""

    parts: Sequence[StatColumns] = ()

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def read(self, first: int, count: int) -> list[StatValue]:
        """At most ``count`` stats, from a number on."""
        found: list[StatValue] = []
        for part in self.parts:
            found += part.read(np.arange(first, min(first + count, len(part)))) if first < len(part) else []
            first, count = max(first - len(part), 0), count - max(min(len(part) - first, count), 0)
        return found

    def values(self, name: str, of: str | None = None) -> Iterator[str]:
        """The values of a stat, those of the event before those of its metadata; ``of``: only these."""
        for part in self.parts:
            if of in (None, part.of):
                rows = part.rows_of(name)
                for at in range(0, len(rows), _ROWS):
                    yield from (one.value for one in part.read(rows[at : at + _ROWS]))


class OwnStats:
    """Rows of event_stats."""

    of = EVENT

    def __init__(self, columns: dict[str, pa.Array]) -> None:
        self._columns = columns
        names = columns["stat"]
        self._names, self._codes = names.dictionary, np.asarray(names.indices.fill_null(-1))

    def __len__(self) -> int:
        return len(self._codes)

    def rows_of(self, name: str) -> Rows:
        code = self._names.index(name).as_py()
        return np.flatnonzero(self._codes == code) if code >= 0 else np.zeros(0, np.intp)

    def read(self, rows: Rows) -> list[StatValue]:
        names, kinds, texts = (_texts(self._columns[name], rows) for name in ("stat", "kind", "str_value"))
        others = [self._columns[name].take(rows).to_pylist() for name in ("int_value", "double_value", "bytes_value")]
        found = []
        for name, kind, text, *numbers in zip(names, kinds, texts, *others, strict=True):
            value = next((one for one in (text, *numbers) if one is not None), None)
            value = value % 2**64 if kind == "uint64" and value is not None else value
            found.append(_stat_value(name or "", kind or "", value, EVENT))
        return found


class MetadataStats:
    """Stats of event metadata; ``texts``: those that their numbers are of."""

    of = METADATA

    def __init__(self, stats: SpanStats, texts: pa.Array) -> None:
        self._stats, self._texts = stats, texts

    def __len__(self) -> int:
        return len(self._stats.kind)

    def rows_of(self, name: str) -> Rows:
        code = self._texts.index(name).as_py()
        return np.flatnonzero(self._stats.stat == code) if code >= 0 else np.zeros(0, np.intp)

    def read(self, rows: Rows) -> list[StatValue]:
        stats = self._stats.taken(rows)
        columns = zip(stats.stat.tolist(), stats.kind.tolist(), stats.values(self._texts), strict=True)
        return [
            _stat_value(self._texts[stat].as_py(), KINDS[kind] if kind < len(KINDS) else "", value, METADATA)
            for stat, kind, value in columns
        ]


@dataclass(frozen=True, slots=True)
class ListedStats:
    """Stats that are few."""

    of: str
    stats: Sequence[StatValue]

    def __len__(self) -> int:
        return len(self.stats)

    def rows_of(self, name: str) -> Rows:
        return np.array([row for row, one in enumerate(self.stats) if one.name == name], np.intp)

    def read(self, rows: Rows) -> list[StatValue]:
        return [self.stats[row] for row in rows.tolist()]


def _texts(column: pa.Array, rows: Rows) -> list[str | None]:
    """Values of a dictionary column: equal ones are one text in memory."""
    codes = column.indices.take(rows).to_pylist()
    distinct = {code: column.dictionary[code].as_py() for code in dict.fromkeys(codes) if code is not None}
    return [distinct.get(code) for code in codes]


def _stat_value(name: str, kind: str, value: Any, of: str) -> StatValue:
    if isinstance(value, bytes):
        return StatValue(name, kind, _bytes_text(value), of, value)
    return StatValue(name, kind, "" if value is None else str(value), of)


def _bytes_text(value: bytes) -> str:
    more = "" if len(value) <= _MOST_BYTES else f" … of {len(value):,} bytes"
    return value[:_MOST_BYTES].hex(" ") + more
