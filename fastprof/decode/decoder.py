"""Decode a selection of a session into Arrow arrays, all at once or share by share: what is requested of events and
their stats. No decoder waits for another one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import bitmap_of_codes
from fastprof._native.xspace import Filter, Sink
from fastprof.decode.blocks import Block, Columns, PickedStats, make_blocks
from fastprof.decode.index import CaptureIndex, Index, KnownEvents, may_lack_starts
from fastprof.decode.selection import Wanted
from fastprof.decode.span_stats import CaptureTexts, StatTexts, read_metadata_stats
from fastprof.decode.text_pools import MergedTexts, TextTable, get_index_dtype, make_dictionary_array, make_indices
from fastprof.decode.workers import Workers
from fastprof.decode.xspace_capture import Capture, Kinds
from fastprof.errors import UsageError
from fastprof.schema.capture_tables import CAPTURE_TABLES, KINDS
from fastprof.schema.columns import Bools, Int32s, Records, UInt8s, number_values
from fastprof.schema.tables import take_texts
from fastprof.schema.value_classes import dataclass

Share = list[Block]
"""Events that are decoded together."""

StatKinds = Mapping[str, Collection[int]]
"""The kinds of value of each stat."""


class Decoder:
    """Decodes the events of ``wanted``, as they were indexed when it was made. ``stat_names``: those of the column
    ``stat``."""

    def __init__(self, index: Index, wanted: Wanted, request: Request) -> None:
        self.index = index
        self.request = request
        self._wanted = wanted
        captures = index.captures
        pieces = wanted.pieces()
        salvage = any(part.capture.salvage for part in captures)
        index.ensure(records.STATS if request.picks and salvage else request.depth, pieces)
        if "event_id" in (*request.events, *request.stats):
            index.count_events()
        self._known = [part.known for part in captures]
        self._filters = self._event_filters()
        names = index.names
        texts = [text.now() for text in names.texts]
        wide = [WideColumn(name, index, self._known) for name in request.wide + request.flags]
        if wide:
            texts = [text.now() for text in names.texts]  # reading their defaults may declare stats
        self._texts = texts
        self.stat_names = pa.array([], pa.string())
        self._stat_index: list[Int32s] = []
        if request.stats or wide:
            self._number_used_stats()
        timeless = any(
            may_lack_starts(captures[i].pieces, self._known[i].segments)
            for i in wanted.captures()
            if pieces is None or pieces[i].any()
        )
        has_texts = bool(set(request.events) & {"host", "plane", "line", "name"})
        dictionaries = index.dictionaries() if has_texts else {}
        self._layout = Layout(request, names.stats, dictionaries, self.stat_names, wide, timeless)
        self._made: dict[int, CaptureLookups] = {}

    def _event_filters(self) -> list[Filter | None]:
        names = self.index.names
        texts = names.event_names.to_pylist() if self._wanted.selection.names else None
        filters: list[Filter | None] = [None] * len(self.index.captures)
        for i in self._wanted.captures():
            meta_names = None if texts is None else [texts[name] for name in names.meta_names[i].tolist()]
            filters[i] = self._wanted.filter(self.index.captures[i].capture.host, meta_names)
        return filters

    def _number_used_stats(self) -> None:
        """The names of the stats that the indexed events have, and each capture's stat metadata as indices of them."""
        numbers = []
        for known, texts in zip(self._known, self._texts, strict=True):
            used = np.zeros(len(texts.names), bool)
            used[: len(known.kinds)] = known.kinds[: len(used)] != 0
            numbers.append(np.where(used, texts.names, -1))
        in_use = np.unique(np.concatenate(numbers))
        in_use = in_use[in_use >= 0]
        table = self.index.names.stats.array()
        place = np.full(len(table) + 1, -1, np.int32)
        place[in_use] = np.arange(len(in_use))
        self.stat_names = take_texts(table, in_use)
        self._stat_index = [place[texts.names] for texts in self._texts]

    def _lookups(self, number: int) -> CaptureLookups:
        """Return the lookups of a capture, made when its first block is decoded."""
        if number not in self._made:
            names = self.index.names
            self._made[number] = CaptureLookups.of(
                self.request,
                self.index.captures[number],
                self._texts[number],
                meta_names=names.meta_names[number],
                stat_names=self._stat_index[number] if self._stat_index else None,
                filter=self._filters[number],
                wide=[(column.stat_rows[number], column.defaults[number]) for column in self._layout.wide],
                picks=[names.stats.find(name) for name in self.request.picks],
            )
        return self._made[number]

    def blocks(self) -> Iterator[Block]:
        """Return the blocks of the selection, lazily."""
        return make_blocks(self._wanted, self._known, self._filters, bool(self.request.stats))

    def shares(self, rows: int) -> Iterator[Share]:
        """Yield the blocks in groups of about ``rows`` rows, lazily."""
        share: Share = []
        count = 0
        for block in self.blocks():
            if count and count + block.rows > rows:
                yield share
                share, count = [], 0
            share.append(block)
            count += block.rows
        if share:
            yield share

    def possible_kinds(self) -> dict[str, set[int]]:
        """Return the kinds of value that each stat beside the events may have, by what has been indexed."""
        return {column.name: column.possible for column in self._layout.wide}

    def met_kinds(self) -> dict[str, set[int]]:
        """Return the kinds of value that each stat beside the events had so far."""
        return {column.name: column.met for column in self._layout.wide}

    def widen(self, kinds: StatKinds) -> None:
        """Give stats beside the events the types that they have if there are values of these kinds too."""
        for column in self._layout.wide:
            column.also |= set(kinds.get(column.name, ()))

    def decode(self, share: Sequence[Block], stage: str | None = "decoding", fixed_types: bool = False) -> Decoded:
        """Return the rows of the blocks, filled in parallel. ``fixed_types``: columns beside events have the types that
        all events of the session give them, whatever this share holds, and dictionaries have int32 indices."""
        lookups = {number: self._lookups(number) for number in {block.capture for block in share}}
        return fill_rows(self._layout, lookups, share, self.index.workers, stage, fixed_types)


EVENT_COLUMNS = tuple(CAPTURE_TABLES["events"].names())

STAT_COLUMNS = tuple(CAPTURE_TABLES["event_stats"].names())


@dataclass(frozen=True, slots=True)
class Request:
    """Events and columns to decode.

    ``events``, ``stats``: columns of the tables events and event_stats. ``wide``: stats, by name, as columns beside
    the events. ``flags``: stats, by name, as one truth per event: an integer other than zero. ``picks``: stats, by
    name, that few events may have. ``metas``: also the row of each event's metadata in the capture.
    """

    events: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()
    metas: bool = False

    @property
    def depth(self) -> int:
        return records.STATS if self.stats or self.wide or self.flags else records.EVENTS


@dataclass(frozen=True, slots=True)
class Decoded:
    """Arrays by column name; ``rows`` and ``stat_rows`` say how long they are. ``picks``: as Request.picks. Where their
    kind is STR or REF, the value is the number of one of ``texts``."""

    rows: int
    stat_rows: int
    events: dict[str, pa.Array]
    stats: dict[str, pa.Array]
    wide: dict[str, pa.Array]
    flags: dict[str, Bools]
    metas: Int32s
    picks: list[Columns]
    texts: pa.Array


_PLAIN = {
    "event_id": np.int64, "plane_id": np.int32, "line_id": np.int32, "metadata_id": np.int64,
    "start_ps": np.int64, "duration_ps": np.int64, "num_occurrences": np.int64,
}  # fmt: skip

_SPARSE = ("num_occurrences",)
"""Columns that only some rows fill. The others begin as untouched memory, for which NumPy asks for huge
pages."""

_STAT_NUMBERS = {
    "event_id": ("stat_event_id", np.int64),
    "int_value": ("int_value", np.int64),
    "double_value": ("double_value", np.float64),
}
"""Columns of event_stats that are numbers: what the core calls them, and their types."""

_ANY_SIZE = 2**31 - 1

_Places = Sequence[tuple[Capture, Records]]
"""The places of bytes in each block."""

Values = npt.NDArray[np.int64]
Defaults = tuple[Kinds | None, Values | None]


@dataclass(frozen=True, slots=True)
class CaptureLookups:
    """Lookup tables for the numbers in the events of one capture. ``tables``, ``defaults``: as Sink takes them."""

    part: CaptureIndex
    texts: StatTexts
    filter: Filter | None
    tables: dict[str, Any]
    defaults: Sequence[Defaults]

    @classmethod
    def of(
        cls,
        request: Request,
        part: CaptureIndex,
        texts: StatTexts,
        *,
        meta_names: Int32s,
        stat_names: Int32s | None,
        filter: Filter | None = None,
        wide: Sequence[tuple[npt.NDArray[np.intp], Defaults]] = (),
        picks: Sequence[int] = (),
    ) -> CaptureLookups:
        """``meta_names``: by row of event metadata, ``stat_names``: by row of stat metadata, None: not wanted.
        ``wide``: the rows of stat metadata of each column, and its defaults. ``picks``: numbers of names of stats."""
        capture, count = part.capture, len(texts.names)
        metas = np.arange(len(capture.metas), dtype=np.int32)
        tables: dict[str, Any] = {"meta_names": metas if request.metas else meta_names}
        if capture.meta_ids is not None:
            tables["meta_ids"] = capture.meta_ids
        if stat_names is not None or picks:
            tables["stat_texts"] = texts.texts
        if stat_names is not None:
            tables["stat_names"] = stat_names
        if wide:
            columns = np.full(count, -1, np.int32)
            for i, (rows, _) in enumerate(wide):
                columns[rows] = i
            tables["wide_of_stat"] = columns
        if picks:
            numbers = np.full(count, -1, np.int16)
            for i, name in enumerate(picks):
                numbers[texts.names == name] = i
            parts = np.zeros(len(capture.parts), np.uint8)
            parts[texts.stats.metas["part"][np.flatnonzero(numbers >= 0)]] = 1
            tables |= {"pick_of_stat": numbers, "pick_parts": parts}
        return cls(part, texts, filter, tables, [defaults for _, defaults in wide])


@dataclass(frozen=True, slots=True)
class Layout:
    """Plan for filling columns. ``stats``: texts of stats. ``dictionaries``: of event columns; ``stat_names``: of the
    column ``stat``. ``wide``: stats beside events, those of ``request.wide``, then those of ``request.flags``.
    ``may_lack_start``: whether events may have no start."""

    request: Request
    stats: TextTable
    dictionaries: dict[str, pa.Array]
    stat_names: pa.Array
    wide: Sequence[WideColumn] = ()
    may_lack_start: bool = True


@dataclass(frozen=True, slots=True)
class _Buffers:
    """Buffers that a fill writes into. Numbers of texts below ``text_base`` are of the name tables, later ones of a
    block's own texts, which ``merged`` numbers after the name tables."""

    rows: int
    stat_rows: int
    text_base: int
    columns: dict[str, npt.NDArray[Any]]
    wide: list[tuple[Kinds, Values]]
    merged: MergedTexts | None
    picked: PickedStats | None


def fill_rows(
    layout: Layout,
    lookups: Mapping[int, CaptureLookups],
    share: Sequence[Block],
    workers: Workers,
    stage: str | None,
    fixed_types: bool = False,
) -> Decoded:
    """Return the rows of the blocks, filled in parallel. ``lookups``: by number of the capture; ``fixed_types``: as
    Decoder.decode says."""
    request = layout.request
    buffers = _make_buffers(layout, share, fixed_types)
    tasks, row, stat_row = [], 0, 0
    for number, block in enumerate(share):
        tasks.append(partial(_fill_block, request, buffers, lookups[block.capture], number, block, row, stat_row))
        row += block.rows
        stat_row += block.stats
    sinks = workers.run(stage, tasks)
    texts = _join_texts(layout.stats, buffers, share, sinks)
    places = []
    for block, sink in zip(share, sinks, strict=True):
        places.append((lookups[block.capture].part.capture, np.frombuffer(sink.bytes_at(), records.BYTES_AT)))
    unnamed = sum(sink.unnamed for sink in sinks)
    picks = buffers.picked.columns() if buffers.picked else []
    del sinks
    events = {name: _make_event_array(layout, buffers, name, unnamed) for name in request.events}
    stats = {name: _make_stat_array(layout, buffers, name, texts, places, fixed_types) for name in request.stats}
    beside = list(zip(layout.wide, buffers.wide, strict=True))
    wide = {
        column.name: column.array(kind, value, texts, _find_bytes(places, i), fixed_types)
        for i, (column, (kind, value)) in enumerate(beside[: len(request.wide)])
    }
    flags = {column.name: mask_nonzero_integers(kind, value) for column, (kind, value) in beside[len(request.wide) :]}
    metas = buffers.columns["name"] if request.metas else np.zeros(0, np.int32)
    return Decoded(buffers.rows, buffers.stat_rows, events, stats, wide, flags, metas, picks, texts)


def _make_buffers(layout: Layout, share: Sequence[Block], fixed_types: bool) -> _Buffers:
    request = layout.request
    rows = sum(block.rows for block in share)
    stat_rows = sum(block.stats for block in share) if request.stats else 0
    merged = None
    if request.picks or any(block.own_texts for block in share):
        merged = MergedTexts(layout.stats.memory, layout.stats)
    text_base = merged.base if merged else len(layout.stats)

    def indices(size: int, count: int) -> npt.NDArray[Any]:
        return make_indices(_ANY_SIZE if fixed_types else size, count)

    columns: dict[str, npt.NDArray[Any]] = {}
    for name in request.events:
        if name in _PLAIN:
            columns[name] = (np.zeros if name in _SPARSE else np.empty)(rows, _PLAIN[name])
        else:
            columns[name] = indices(len(layout.dictionaries[name]), rows)
    if request.metas:
        columns["name"] = np.empty(rows, np.int32)
    if layout.may_lack_start and {"start_ps", "num_occurrences"} & set(request.events):
        columns["present"] = np.zeros(rows, np.uint8)
    if request.stats:
        columns["kind"] = np.zeros(stat_rows, np.uint8)
    for name in request.stats:
        if name in _STAT_NUMBERS:
            column, kind = _STAT_NUMBERS[name]
            columns[column] = np.zeros(stat_rows, kind)
        elif name == "stat":
            columns["stat"] = indices(len(layout.stat_names), stat_rows)
        elif name == "str_value":
            columns["text"] = indices(_ANY_SIZE if merged else text_base, stat_rows)
    wide = [(np.zeros(rows, np.uint8), np.zeros(rows, np.int64)) for _ in layout.wide]
    picked = PickedStats(len(request.picks), rows, merged) if request.picks and merged else None
    return _Buffers(rows, stat_rows, text_base, columns, wide, merged, picked)


def _fill_block(
    request: Request, buffers: _Buffers, lookups: CaptureLookups, number: int, block: Block, row: int, stat_row: int
) -> Sink:
    """Fill block ``number`` of a share, from ``row`` and ``stat_row`` on."""
    memory, picked = lookups.part.capture.memory, buffers.picked
    wide = [(*column, *defaults) for column, defaults in zip(buffers.wide, lookups.defaults, strict=True)]
    sink = Sink(
        memory, buffers.columns, lookups.tables, lookups.filter, wide, buffers.text_base,
        bool(request.stats), picked.unused(memory) if picked else None,
    )  # fmt: skip
    block.fill(lookups.part, lookups.texts.stats.xspace, sink, row, stat_row)
    if picked:
        picked.add(number, block.rows, sink)
    return sink


def _join_texts(stats: TextTable, buffers: _Buffers, share: Sequence[Block], sinks: Sequence[Sink]) -> pa.Array:
    """Return the texts of the name tables, and behind them the sinks' own ones, in the order of the blocks."""
    if buffers.merged is None:
        return stats.array()
    row = stat_row = 0
    for number, (block, sink) in enumerate(zip(share, sinks, strict=True)):
        mapped = buffers.picked.own_numbers[number] if buffers.picked else buffers.merged.add(sink)
        if mapped is not None:
            if "text" in buffers.columns:
                _renumber_texts(buffers.columns["text"][stat_row : stat_row + block.stats], buffers.text_base, mapped)
            for kind, value in buffers.wide:
                mine = slice(row, row + block.rows)
                _renumber_texts(value[mine], buffers.text_base, mapped, kind[mine] == records.STR)
        row += block.rows
        stat_row += block.stats
    return buffers.merged.array()


def _renumber_texts(numbers: npt.NDArray[Any], base: int, mapped: Int32s, only: Bools | None = None) -> None:
    own = numbers >= base
    if only is not None:
        own &= only
    numbers[own] = mapped[numbers[own] - base]


def _make_event_array(layout: Layout, buffers: _Buffers, name: str, unnamed: int) -> pa.Array:
    values, present = buffers.columns[name], buffers.columns.get("present")
    if name == "name" and unnamed:
        validity, valid = bitmap_of_codes((values >= 0).view(np.uint8), 1 << 1)
        return make_dictionary_array(values, layout.dictionaries[name], validity, buffers.rows - valid)
    if name in layout.dictionaries:
        return make_dictionary_array(values, layout.dictionaries[name])
    if name == "num_occurrences" and present is None:
        return _make_nullable(values, np.zeros((buffers.rows + 7) // 8, np.uint8), 0)
    flag = {"start_ps": records.HAS_START, "num_occurrences": records.HAS_OCCURRENCES}.get(name)
    if flag is None or present is None:
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)], 0)
    return _make_nullable(values, *bitmap_of_codes(present, sum(1 << code for code in range(4) if code & flag)))


def _make_stat_array(
    layout: Layout, buffers: _Buffers, name: str, texts: pa.Array, places: _Places, fixed_types: bool
) -> pa.Array:
    columns, kind = buffers.columns, buffers.columns["kind"]
    if name == "event_id":
        ids = columns["stat_event_id"]
        return pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(ids)], 0)
    if name == "kind":
        return make_dictionary_array(kind.view(np.int8), pa.array(KINDS))
    if name == "stat":
        return make_dictionary_array(columns["stat"], layout.stat_names)
    if name == "double_value":
        return _make_nullable(columns["double_value"], *bitmap_of_codes(kind, 1 << records.DOUBLE))
    if name == "int_value":
        kind = _replace_lost_refs(records.UINT64, kind, columns.get("text"))
        return _make_nullable(columns[name], *bitmap_of_codes(kind, 1 << records.INT64 | 1 << records.UINT64))
    if name == "str_value":
        kind = _replace_lost_refs(records.NONE, kind, columns["text"])
        validity, valid = bitmap_of_codes(kind, 1 << records.STR | 1 << records.REF)
        fitting = get_index_dtype(_ANY_SIZE if fixed_types else len(texts))
        return make_dictionary_array(
            columns["text"].astype(fitting, copy=False), texts, validity, buffers.stat_rows - valid
        )
    validity, valid = bitmap_of_codes(kind, 1 << records.BYTES)
    return _make_large_binary(_find_bytes(places, -1), buffers.stat_rows, validity, buffers.stat_rows - valid)


def _replace_lost_refs(other: int, kind: Kinds, text: npt.NDArray[Any] | None) -> Kinds:
    """Return the kinds, with ``other`` for refs that lead nowhere. ``text`` is None if it was not decoded."""
    if text is None or not (text < 0).any():
        return kind
    return np.where((kind == records.REF) & (text < 0), np.uint8(other), kind)


def _find_bytes(places: _Places, column: int) -> list[tuple[int, bytes]]:
    """Return rows and values of a column of bytes; -1 is the one of event_stats."""
    pairs: list[tuple[int, bytes]] = []
    for capture, at in places:
        mine = at[at["column"] == column]
        values = capture.copies(mine[["offset", "length"]].tolist())
        pairs += zip(mine["row"].tolist(), values, strict=True)
    return pairs


def _make_large_binary(values: list[tuple[int, bytes]], count: int, validity: UInt8s, nulls: int) -> pa.Array:
    offsets = np.zeros(count + 1, np.int64)
    if values:  # else no page of the offsets is touched
        for row, value in values:
            offsets[row + 1] = len(value)
        np.cumsum(offsets, out=offsets)
    data = b"".join(value for _, value in values)
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers, null_count=nulls)


def _make_nullable(values: npt.NDArray[Any], validity: UInt8s, valid: int) -> pa.Array:
    kind, buffers = pa.from_numpy_dtype(values.dtype), [pa.py_buffer(validity), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(values), buffers, null_count=len(values) - valid)


_INTEGERS = {records.INT64, records.UINT64}

_TEXTS = {records.STR, records.REF}

_CAPTURE_SHIFT = 40

_EXACT = 2**53


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
    words = take_texts(texts, np.flatnonzero(used))
    if valid.all():
        return make_dictionary_array(narrow, words)
    packed = np.packbits(valid, bitorder="little")
    return make_dictionary_array(narrow, words, packed, int((~valid).sum()))
