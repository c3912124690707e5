"""From blocks to Arrow arrays of their exact size: events, their stats, and stats beside events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import bitmap_of_codes
from fastprof._native.xspace import Filter, Sink
from fastprof.decode.blocks import Block
from fastprof.decode.index import CaptureIndex
from fastprof.decode.picked_stats import PickedStats
from fastprof.decode.request import Decoded, Request
from fastprof.decode.span_stats import StatTexts
from fastprof.decode.stat_columns import Values, WideColumn, integers_not_zero
from fastprof.decode.text_pools import MergedTexts, TextTable, dictionary_array, index_dtype, narrow_indices
from fastprof.decode.workers import Workers
from fastprof.decode.xspace_capture import Capture, Kinds
from fastprof.schema.array_types import Bools, Int32s, Records
from fastprof.schema.capture_tables import KINDS
from fastprof.schema.value_classes import dataclass

_PLAIN = {
    "event_id": np.int64, "plane_id": np.int32, "line_id": np.int32, "metadata_id": np.int64,
    "start_ps": np.int64, "duration_ps": np.int64, "num_occurrences": np.int64,
}  # fmt: skip
_SPARSE = ("num_occurrences",)
"""Of these columns only some rows are written. Others begin as memory that nobody has touched, for which NumPy asks for
huge pages."""
_STAT_NUMBERS = {
    "event_id": ("stat_event_id", np.int64),
    "int_value": ("int_value", np.int64),
    "double_value": ("double_value", np.float64),
}
"""Columns of event_stats that are numbers: what the core calls them, and their types."""
_ANY_SIZE = 2**31 - 1

_Places = Sequence[tuple[Capture, Records]]
"""The places of bytes that each block met."""
Defaults = tuple[Kinds | None, Values | None]


@dataclass(frozen=True, slots=True)
class CaptureLookups:
    """What numbers in the events of one capture are looked up in. ``tables``, ``defaults``: as Sink takes them."""

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
    """How columns are filled. ``stats``: the texts of stats. ``dictionaries``: of columns of events; ``stat_names``: of
    the column ``stat``. ``wide``: stats beside events, those of ``request.wide``, then those of ``request.flags``.
    ``may_lack_start``: whether events may have no start."""

    request: Request
    stats: TextTable
    dictionaries: dict[str, pa.Array]
    stat_names: pa.Array
    wide: Sequence[WideColumn] = ()
    may_lack_start: bool = True


@dataclass(frozen=True, slots=True)
class _Buffers:
    """What a fill writes into. Numbers of texts below ``text_base`` are of the name tables, those from it on of a
    block's own texts, which ``merged`` numbers after the name tables."""

    rows: int
    stat_rows: int
    text_base: int
    columns: dict[str, npt.NDArray[Any]]
    wide: list[tuple[Kinds, Values]]
    merged: MergedTexts | None
    picked: PickedStats | None


def filled(
    layout: Layout,
    lookups: Mapping[int, CaptureLookups],
    share: Sequence[Block],
    workers: Workers,
    stage: str | None,
    fixed_types: bool = False,
) -> Decoded:
    """The rows of the blocks, filled side by side. ``lookups``: by number of the capture; ``fixed_types``: as
    Decoder.decode says."""
    request = layout.request
    buffers = _buffers(layout, share, fixed_types)
    tasks, row, stat_row = [], 0, 0
    for number, block in enumerate(share):
        tasks.append(partial(_fill, request, buffers, lookups[block.capture], number, block, row, stat_row))
        row += block.rows
        stat_row += block.stats
    sinks = workers.run(stage, tasks)
    texts = _all_texts(layout.stats, buffers, share, sinks)
    places = []
    for block, sink in zip(share, sinks, strict=True):
        places.append((lookups[block.capture].part.capture, np.frombuffer(sink.bytes_at(), records.BYTES_AT)))
    unnamed = sum(sink.unnamed for sink in sinks)
    picks = buffers.picked.columns() if buffers.picked else []
    del sinks
    events = {name: _event_array(layout, buffers, name, unnamed) for name in request.events}
    stats = {name: _stat_array(layout, buffers, name, texts, places, fixed_types) for name in request.stats}
    beside = list(zip(layout.wide, buffers.wide, strict=True))
    wide = {
        column.name: column.array(kind, value, texts, _bytes_of(places, i), fixed_types)
        for i, (column, (kind, value)) in enumerate(beside[: len(request.wide)])
    }
    flags = {column.name: integers_not_zero(kind, value) for column, (kind, value) in beside[len(request.wide) :]}
    metas = buffers.columns["name"] if request.metas else np.zeros(0, np.int32)
    return Decoded(buffers.rows, buffers.stat_rows, events, stats, wide, flags, metas, picks, texts)


def _buffers(layout: Layout, share: Sequence[Block], fixed_types: bool) -> _Buffers:
    request = layout.request
    rows = sum(block.rows for block in share)
    stat_rows = sum(block.stats for block in share) if request.stats else 0
    merged = None
    if request.picks or any(block.own_texts for block in share):
        merged = MergedTexts(layout.stats.memory, layout.stats)
    text_base = merged.base if merged else len(layout.stats)

    def indices(size: int, count: int) -> npt.NDArray[Any]:
        return narrow_indices(_ANY_SIZE if fixed_types else size, count)

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


def _fill(
    request: Request, buffers: _Buffers, lookups: CaptureLookups, number: int, block: Block, row: int, stat_row: int
) -> Sink:
    """Fills block ``number`` of a share, from ``row`` and ``stat_row`` on."""
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


def _all_texts(stats: TextTable, buffers: _Buffers, share: Sequence[Block], sinks: Sequence[Sink]) -> pa.Array:
    """The texts of the name tables, and behind them the sinks' own ones, in the order of the blocks."""
    if buffers.merged is None:
        return stats.array()
    row = stat_row = 0
    for number, (block, sink) in enumerate(zip(share, sinks, strict=True)):
        mapped = buffers.picked.own_numbers[number] if buffers.picked else buffers.merged.add(sink)
        if mapped is not None:
            if "text" in buffers.columns:
                _renumber(buffers.columns["text"][stat_row : stat_row + block.stats], buffers.text_base, mapped)
            for kind, value in buffers.wide:
                mine = slice(row, row + block.rows)
                _renumber(value[mine], buffers.text_base, mapped, kind[mine] == records.STR)
        row += block.rows
        stat_row += block.stats
    return buffers.merged.array()


def _renumber(numbers: npt.NDArray[Any], base: int, mapped: Int32s, only: Bools | None = None) -> None:
    own = numbers >= base
    if only is not None:
        own &= only
    numbers[own] = mapped[numbers[own] - base]


# ---- columns of events


def _event_array(layout: Layout, buffers: _Buffers, name: str, unnamed: int) -> pa.Array:
    values, present = buffers.columns[name], buffers.columns.get("present")
    if name == "name" and unnamed:
        validity, valid = bitmap_of_codes((values >= 0).view(np.uint8), 1 << 1)
        return dictionary_array(values, layout.dictionaries[name], validity, buffers.rows - valid)
    if name in layout.dictionaries:
        return dictionary_array(values, layout.dictionaries[name])
    if name == "num_occurrences" and present is None:
        return _nullable(values, bytearray((buffers.rows + 7) // 8), 0)
    flag = {"start_ps": records.HAS_START, "num_occurrences": records.HAS_OCCURRENCES}.get(name)
    if flag is None or present is None:
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)], 0)
    return _nullable(values, *bitmap_of_codes(present, sum(1 << code for code in range(4) if code & flag)))


# ---- columns of event_stats


def _stat_array(
    layout: Layout, buffers: _Buffers, name: str, texts: pa.Array, places: _Places, fixed_types: bool
) -> pa.Array:
    columns, kind = buffers.columns, buffers.columns["kind"]
    if name == "event_id":
        ids = columns["stat_event_id"]
        return pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(ids)], 0)
    if name == "kind":
        return dictionary_array(kind.view(np.int8), pa.array(KINDS))
    if name == "stat":
        return dictionary_array(columns["stat"], layout.stat_names)
    if name == "double_value":
        return _nullable(columns["double_value"], *bitmap_of_codes(kind, 1 << records.DOUBLE))
    if name == "int_value":
        kind = _with_lost_refs_as(records.UINT64, kind, columns.get("text"))
        return _nullable(columns[name], *bitmap_of_codes(kind, 1 << records.INT64 | 1 << records.UINT64))
    if name == "str_value":
        kind = _with_lost_refs_as(records.NONE, kind, columns["text"])
        validity, valid = bitmap_of_codes(kind, 1 << records.STR | 1 << records.REF)
        fitting = index_dtype(_ANY_SIZE if fixed_types else len(texts))
        return dictionary_array(columns["text"].astype(fitting, copy=False), texts, validity, buffers.stat_rows - valid)
    validity, valid = bitmap_of_codes(kind, 1 << records.BYTES)
    return _large_binary(_bytes_of(places, -1), buffers.stat_rows, validity, buffers.stat_rows - valid)


def _with_lost_refs_as(other: int, kind: Kinds, text: npt.NDArray[Any] | None) -> Kinds:
    """The kinds, with another for refs that lead nowhere; ``text``: None where it was not decoded."""
    if text is None or not (text < 0).any():
        return kind
    return np.where((kind == records.REF) & (text < 0), np.uint8(other), kind)


def _bytes_of(places: _Places, column: int) -> list[tuple[int, bytes]]:
    """Rows and values of a column of bytes; -1: of event_stats."""
    found: list[tuple[int, bytes]] = []
    for capture, at in places:
        mine = at[at["column"] == column]
        values = capture.copies(mine[["offset", "length"]].tolist())
        found += zip(mine["row"].tolist(), values, strict=True)
    return found


def _large_binary(values: list[tuple[int, bytes]], count: int, validity: bytearray, nulls: int) -> pa.Array:
    offsets = np.zeros(count + 1, np.int64)
    if values:  # else no page of the offsets is touched
        for row, value in values:
            offsets[row + 1] = len(value)
        np.cumsum(offsets, out=offsets)
    data = b"".join(value for _, value in values)
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers, null_count=nulls)


def _nullable(values: npt.NDArray[Any], validity: bytearray, valid: int) -> pa.Array:
    kind, buffers = pa.from_numpy_dtype(values.dtype), [pa.py_buffer(validity), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(values), buffers, null_count=len(values) - valid)
