"""Stats as columns: picked stats that few events have, and stats beside all events as typed columns."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.xspace import Memory, Picks, Sink
from fastprof.decode.index import Index, KnownEvents
from fastprof.decode.span_stats import CaptureTexts, read_metadata_stats
from fastprof.decode.text_pools import MergedTexts, get_index_dtype, make_dictionary_array
from fastprof.decode.xspace_capture import Kinds
from fastprof.errors import UsageError
from fastprof.schema.columns import Int32s, Int64s, number_values
from fastprof.schema.value_classes import dataclass

Columns = tuple[Int32s, npt.NDArray[np.uint8], Int64s]
"""Rows, ascending, each once; what the values are; the values."""


@dataclass(slots=True)
class _Stretch:
    columns: Columns
    count: int = 0

    @property
    def room(self) -> int:
        return len(self.columns[0]) - self.count

    def written(self) -> Columns:
        """Return the columns without their unwritten end, whose memory goes back to the system."""
        for column in self.columns:
            column.resize(self.count, refcheck=False)
        return self.columns


class PickedStats:
    """``stat_count`` stats of ``rows`` events; each block adds some."""

    def __init__(self, stat_count: int, rows: int, texts: MergedTexts) -> None:
        self.own_numbers: list[Int32s | None] = []
        """What the own texts of each block are called among all."""
        self._stat_count = stat_count
        self._to_come = rows
        self._texts = texts
        self._stretches: list[list[_Stretch]] = [[] for _ in range(stat_count)]
        self._waiting: dict[int, tuple[int, Sink]] = {}
        self._unused: list[Picks] = []
        self._lock = threading.Lock()

    def unused(self, memory: Memory) -> Picks:
        """Columns for a block to write into."""
        with self._lock:
            for i, picks in enumerate(self._unused):
                if picks.memory is memory:
                    return self._unused.pop(i)
        return Picks(memory, self._stat_count)

    def add(self, number: int, rows: int, sink: Sink) -> None:
        """Take the picks of block ``number``, which has ``rows`` events; blocks may come in any order."""
        places = []
        with self._lock:
            self._waiting[number] = (rows, sink)
            while (following := len(self.own_numbers)) in self._waiting:
                places.append(self._place(*self._waiting.pop(following)))
        for picks, own_numbers, stretches in places:
            for stat, (columns, at) in stretches.items():
                picks.copy(stat, at, *columns, own_numbers, self._texts.base)
            picks.clear()
            with self._lock:
                self._unused.append(picks)

    def _place(self, rows: int, sink: Sink) -> tuple[Picks, Int32s | None, dict[int, tuple[Columns, int]]]:
        """Place the picks of the next block: return them, the numbers of their own texts, and columns and row by
        stat."""
        assert sink.picks is not None
        self._to_come -= rows
        self.own_numbers.append(self._texts.add(sink))
        places = {}
        for stat, count in enumerate(sink.picks.counts()):
            if not count:
                continue
            stretches = self._stretches[stat]
            if not stretches or stretches[-1].room < count:
                stretches.append(self._stretch(count, rows))
            places[stat] = (stretches[-1].columns, stretches[-1].count)
            stretches[-1].count += count
        return sink.picks, self.own_numbers[-1], places

    def _stretch(self, count: int, rows: int) -> _Stretch:
        """Room for what ``rows`` events have, and for what those to come have if they are alike."""
        likely = min(self._to_come, self._to_come * count * 9 // (rows * 8))
        try:
            return _Stretch(_make_empty(count + likely))
        except MemoryError:
            return _Stretch(_make_empty(count))

    def columns(self) -> list[Columns]:
        """Return all values by stat, once all blocks are there."""
        assert not self._waiting
        return [_join_stretches(stretches) for stretches in self._stretches]


def _make_empty(count: int) -> Columns:
    return np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count, np.int64)


def _join_stretches(stretches: list[_Stretch]) -> Columns:
    parts = [stretch.written() for stretch in stretches] or [_make_empty(0)]
    if len(parts) == 1:
        return parts[0]
    rows, kinds, values = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(kinds), np.concatenate(values)


_INTEGERS = {records.INT64, records.UINT64}

_TEXTS = {records.STR, records.REF}

_CAPTURE_SHIFT = 40

_EXACT = 2**53

Values = npt.NDArray[np.int64]


class WideColumn:
    """One stat. Its type follows from the kinds that its values have: integers are int64, doubles float64, both
    float64 where that is exact and else text, texts a dictionary, bytes large_binary, bytes and others text. A ref
    is a text, even where it leads nowhere: there it is the number that it holds."""

    def __init__(self, name: str, index: Index, known: Sequence[KnownEvents]) -> None:
        self.name = name
        names = index.names
        if name.startswith("#"):  # stats of event metadata that have no name get one when they are read
            for texts in names.texts:
                read_metadata_stats(texts)
        number = names.stats.array().index(name).as_py()
        self.stat_rows: list[npt.NDArray[np.intp]] = []
        self.defaults: list[tuple[Kinds | None, Values | None]] = []
        self._default_bytes: dict[int, bytes] = {}
        self.possible: set[int] = set()
        """The kinds that its values may have, by what has been indexed."""
        self.met: set[int] = set()
        """The kinds that its values had so far."""
        self.also: set[int] = set()
        """Kinds of values that it has elsewhere, in columns that must be of one type with this one."""
        for i, texts in enumerate(names.texts):
            rows = np.flatnonzero(texts.now().names == number) if number >= 0 else np.zeros(0, np.intp)
            self.stat_rows.append(rows)
            kinds = known[i].kinds[rows[rows < len(known[i].kinds)]]
            self.possible |= {code for code in range(7) if (kinds >> code & 1).any()}
            self.defaults.append(self._defaults_of(i, texts, number) if len(rows) else (None, None))
        self.possible.discard(records.NONE)

    def _defaults_of(self, number: int, texts: CaptureTexts, stat: int) -> tuple[Kinds | None, Values | None]:
        capture = texts.capture
        spans, stats = read_metadata_stats(texts)
        rows = np.flatnonzero((stats.stat == stat) & (stats.kind != records.NONE))[::-1]  # of several, the first stays
        if not len(rows):
            return None, None
        kind = np.full(len(capture.metas), records.NONE, np.uint8)
        value = np.zeros(len(capture.metas), np.int64)
        owner = spans["owner"][rows]
        kinds = stats.kind[rows]
        values = np.where(kinds == records.DOUBLE, stats.double_value[rows].view(np.int64), stats.int_value[rows])
        values = np.where(np.isin(kinds, list(_TEXTS)), stats.text[rows], values)
        dangling = (kinds == records.REF) & (stats.text[rows] < 0)
        kinds = np.where(dangling, records.LOST_REF, kinds).astype(np.uint8)
        values = np.where(dangling, stats.int_value[rows], values)
        payloads = stats.payloads(rows[kinds == records.BYTES])
        for i in np.flatnonzero(kinds == records.BYTES).tolist():
            key = number << _CAPTURE_SHIFT | int(owner[i])
            self._default_bytes[key] = payloads[int(rows[i])]
            values[i] = key
        kind[owner] = kinds
        value[owner] = values
        self.possible |= set(np.unique(kinds).tolist())
        return kind, value

    def array(
        self, kind: Kinds, value: Values, texts: pa.Array, own_bytes: list[tuple[int, bytes]], fixed: bool = False
    ) -> pa.Array:
        """Return the column; ``fixed``: of the type that all events of the session together give."""
        met = set(np.unique(kind).tolist())
        self.met |= met - {records.NONE}
        kinds = (self.possible | met if fixed else met) | self.also
        kinds = {records.REF if code == records.LOST_REF else code for code in kinds} - {records.NONE}
        if not kinds or kinds <= _INTEGERS:
            return _make_numbers(value, kind != records.NONE, pa.int64())
        if kinds == {records.DOUBLE}:
            return _make_numbers(value.view(np.float64), kind != records.NONE, pa.float64())
        if kinds <= _INTEGERS | {records.DOUBLE}:
            exact = _convert_doubles(kind, value)
            if exact is not None:
                return _make_numbers(exact, kind != records.NONE, pa.float64())
            if fixed:
                raise UsageError(
                    f"the stat {self.name!r} has doubles and integers above 2**53; read event_stats instead"
                )
        if kinds <= _TEXTS and records.LOST_REF not in met:
            return _make_dictionary(value, np.isin(kind, list(_TEXTS)), texts, fixed)
        own = dict(own_bytes)
        if kinds == {records.BYTES}:
            return pa.array(
                [self._bytes(row, value, own) if k == records.BYTES else None for row, k in enumerate(kind.tolist())],
                pa.large_binary(),
            )
        return self._as_text(kind, value, texts, own, fixed)

    def _bytes(self, row: int, value: Values, own: dict[int, bytes]) -> bytes:
        return own[row] if row in own else self._default_bytes[int(value[row])]

    def _as_text(self, kind: Kinds, value: Values, texts: pa.Array, own: dict[int, bytes], fixed: bool) -> pa.Array:
        """Return values of several kinds as text: integers in decimal, doubles in the shortest exact form."""
        distinct: dict[tuple[int, int], int] = {}
        written: list[str] = []
        indices = np.full(len(kind), -1, np.int32)
        for row in np.flatnonzero(kind != records.NONE).tolist():
            key = (int(kind[row]), int(value[row]) if kind[row] != records.BYTES else row)
            if key not in distinct:
                distinct[key] = len(written)
                written.append(self._text(key, row, value, texts, own))
            indices[row] = distinct[key]
        unique, inverse = number_values(np.array(written, object))
        mapped = np.append(inverse, -1).astype(np.int32)[indices]
        return pa.DictionaryArray.from_arrays(
            pa.array(mapped.astype(np.int32 if fixed else get_index_dtype(len(unique))), mask=mapped < 0),
            pa.array(unique.tolist(), pa.string()),
        )

    def _text(self, key: tuple[int, int], row: int, value: Values, texts: pa.Array, own: dict[int, bytes]) -> str:
        kind, number = key
        if kind in _TEXTS:
            return str(texts[number].as_py())
        if kind in (records.UINT64, records.LOST_REF):
            return str(number % 2**64)
        if kind == records.DOUBLE:
            return repr(float(value[row : row + 1].view(np.float64)[0]))
        if kind == records.BYTES:
            return self._bytes(row, value, own).decode("utf-8", "backslashreplace")
        return str(number)


def mask_nonzero_integers(kind: Kinds, value: Values) -> npt.NDArray[np.bool_]:
    """Return whether a stat beside events is an integer other than zero, per event."""
    nonzero: npt.NDArray[np.bool_] = np.isin(kind, list(_INTEGERS)) & (value != 0)
    return nonzero


def _make_numbers(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    values = np.where(valid, values, 0).astype(values.dtype)
    return pa.array(values, kind, mask=None if valid.all() else ~valid)


def _convert_doubles(kind: Kinds, value: Values) -> npt.NDArray[np.float64] | None:
    integers = np.isin(kind, list(_INTEGERS))
    held = value[integers]
    wrapped = (held < 0) & (kind[integers] == records.UINT64)
    if ((held > _EXACT) | (held < -_EXACT) | wrapped).any():
        return None
    return np.where(integers, value.astype(np.float64), value.view(np.float64))


def _make_dictionary(numbers: Values, valid: npt.NDArray[np.bool_], texts: pa.Array, fixed: bool) -> pa.Array:
    """Return the texts that occur, and each row's place among them; ``fixed``: by int32, however few there are."""
    used = np.zeros(len(texts), bool)
    used[numbers[valid]] = True
    place: Int32s = (np.cumsum(used) - 1).astype(np.int32)
    count = int(used.sum())
    indices = np.where(valid, place[np.where(valid, numbers, 0)], 0) if len(texts) else np.zeros(len(numbers))
    narrow = indices.astype(np.int32 if fixed else get_index_dtype(count))
    words = texts.take(pa.array(np.flatnonzero(used)))
    if valid.all():
        return make_dictionary_array(narrow, words)
    packed = np.packbits(valid, bitorder="little").tobytes()
    return make_dictionary_array(narrow, words, bytearray(packed), int((~valid).sum()))
