"""The stats of events in the form that has all of them: lists of values with a key each, as the C writer takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.xprof_events import NamedValues
from fastprof.decode.request import Decoded
from fastprof.derive.timeline.derived_track import Arg
from fastprof.xprof.trace.trace_host import Texts, TraceHost, arrow_texts

STATS: Final = ("event_id", "stat", "kind", "int_value", "double_value", "str_value")
"""The columns of stats that values are made of."""
HIDDEN_STATS: Final = frozenset({"_pt", "_p", "_ct", "_c", "_r", "flops", "program_id", "symbol_id"})
_NO_TEXTS: Final[Texts] = (np.zeros(1, np.int64), b"")
_COLUMN = tuple[npt.NDArray[Any], npt.NDArray[Any], int, npt.NDArray[Any], npt.NDArray[Any]]


class Keys:
    """Names of stats, numbered in the order of their bytes, in which they are shown."""

    def __init__(self, names: Sequence[str]) -> None:
        shown = sorted(set(names) - HIDDEN_STATS)
        self._number = {name: number for number, name in enumerate(shown)}
        self.texts = arrow_texts(shown)

    def number(self, name: str) -> int:
        """-1: it is not shown."""
        return self._number.get(name, -1)

    def numbers(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """The same of several; one more at the end, for stats without a name."""
        return np.array([*(self.number(name) for name in names), -1], np.int32)


class AddedColumns:
    """Columns of added values, to take ranges of rows from. Of numbers with kinds XProf reads all but int64 as 0."""

    def __init__(self, columns: Sequence[Arg], keys: Keys) -> None:
        self._texts: dict[str, int] = {}
        self._columns = [self._column(one, keys) for one in columns if len(one.rows)]
        self.texts = arrow_texts(list(self._texts))

    def _column(self, one: Arg, keys: Keys) -> _COLUMN:
        nothing = np.zeros(len(one.rows), np.int32)
        key = np.full(len(one.rows), keys.number(one.name), np.int32)
        if isinstance(one.values, list):
            texts = np.array([self._texts.setdefault(text, len(self._texts)) for text in one.values], np.int32)
            return one.rows, key, records.STR, nothing.astype(np.int64), texts
        kind = {"f": records.DOUBLE, "u": records.UINT64}.get(one.values.dtype.kind, records.INT64)
        values = one.values.astype(np.int64) if kind == records.INT64 else one.values.view(np.int64)
        if one.kinds is not None:
            values = np.where(one.kinds == records.INT64, values, 0)
        return one.rows, key, kind, values, nothing

    def of_rows(self, first: int, last: int) -> NamedValues:
        """The values of rows ``first`` to ``last``, which are numbered from 0 then."""
        parts: list[tuple[npt.NDArray[Any], ...]] = []
        for rows, key, kind, value, text in self._columns:
            here = slice(*np.searchsorted(rows, [first, last]))
            kinds = np.full(here.stop - here.start, kind, np.uint8)
            parts.append((rows[here] - first, key[here], kinds, value[here], text[here]))
        if not parts:
            return no_values(last - first)
        row, key, kinds, value, text = (np.concatenate(column) for column in zip(*parts, strict=True))
        return by_row(row, last - first, key, kinds, value, text, self.texts)


def by_row(
    row: npt.NDArray[Any],
    count: int,
    key: npt.NDArray[Any],
    kind: npt.NDArray[Any],
    value: npt.NDArray[Any],
    text: npt.NDArray[Any],
    texts: Texts,
) -> NamedValues:
    """Values in the order of their rows, those of one row as they come."""
    order = np.argsort(row, kind="stable")
    first = np.searchsorted(row[order], np.arange(count + 1))
    columns = (np.ascontiguousarray(one[order]) for one in (key, kind, value))
    key, kind, value = columns
    return NamedValues(first, key, kind, value, None, text[order].astype(np.int32), texts)


def no_values(count: int) -> NamedValues:
    nothing = np.zeros(0, np.int64)
    return NamedValues(
        np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8), nothing, None,
        np.zeros(0, np.int32), _NO_TEXTS,
    )  # fmt: skip


def of_decoded(decoded: Decoded, key_of_stat: npt.NDArray[np.int32], rows: npt.NDArray[np.intp]) -> NamedValues:
    """The recorded stats of these rows of a share."""
    stats = decoded.stats
    event_id = int64_values(stats["event_id"])
    events = int64_values(decoded.events["event_id"])
    first = np.searchsorted(event_id, np.append(events[rows], np.iinfo(np.int64).max))
    key = key_of_stat[dictionary_indices(stats["stat"])]  # a stat without a name is -1, the last
    kind = dictionary_indices(stats["kind"]).view(np.uint8)
    real = np.frombuffer(stats["double_value"].buffers()[1] or b"", np.float64)
    text = dictionary_indices(stats["str_value"]).astype(np.int32, copy=False)
    return NamedValues(first, key, kind, int64_values(stats["int_value"]), real, text, arrow_texts(decoded.texts))


def int64_values(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.frombuffer(array.buffers()[1] or b"", np.int64)[array.offset : array.offset + len(array)]


def dictionary_indices(array: pa.Array) -> npt.NDArray[Any]:
    """The numbers of a dictionary array, arbitrary for nulls."""
    kind = array.type.index_type.to_pandas_dtype()
    return np.frombuffer(array.buffers()[1] or b"", kind)[array.offset : array.offset + len(array)]


class MetadataStats:
    """The stats of event metadata."""

    def __init__(self, trace: TraceHost) -> None:
        session = trace.tables.session
        self._owner, self._stats = session.metadata_stats(trace.number)
        self._texts = session.index.names.stats.array()
        used = np.unique(self._stats.stat)
        self.names: Mapping[int, str] = {int(one): self._texts[int(one)].as_py() for one in used.tolist() if one >= 0}

    def values(self, long_names: Sequence[str], keys: Keys) -> NamedValues:
        """By row of metadata: its name if another is displayed, then its stats."""
        stats = self._stats
        number = np.full(max(self.names, default=-1) + 2, -1, np.int32)
        for stat, name in self.names.items():
            number[stat] = keys.number(name)
        long = [row for row, name in enumerate(long_names) if name]
        texts = pa.concat_arrays([
            self._texts.cast(pa.large_string()), pa.array([long_names[row] for row in long], pa.large_string())
        ])  # fmt: skip
        base = len(self._texts)
        is_double = stats.kind == records.DOUBLE
        value = np.where(is_double, stats.double_value.view(np.int64), stats.int_value)
        zeros = np.zeros(len(long), np.int64)
        return by_row(
            np.concatenate([np.array(long, np.int64), self._owner]),
            len(long_names),
            np.concatenate([np.full(len(long), keys.number("long_name"), np.int32), number[stats.stat]]),
            np.concatenate([np.full(len(long), records.STR, np.uint8), stats.kind.astype(np.uint8)]),
            np.concatenate([zeros, value]),
            np.concatenate([np.arange(base, base + len(long)), stats.text]),
            arrow_texts(texts),
        )
