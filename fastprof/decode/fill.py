"""Events, their stats, and stats beside events: from blocks to Arrow arrays of their exact size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import bitmap_of_codes
from fastprof._native.xspace import Filter, Sink
from fastprof.decode.blocks import Block, Wanted, blocks
from fastprof.decode.index import Structure, label
from fastprof.decode.picked_stats import Columns, PickedStats
from fastprof.decode.session_texts import SessionNames
from fastprof.decode.stat_columns import WideColumn, integers_not_zero
from fastprof.decode.text_pools import (
    MergedTexts,
    TextTable,
    dictionary_array,
    narrow_indices,
)
from fastprof.schema.array_types import Int32s
from fastprof.schema.tables import KINDS, TABLES

EVENT_COLUMNS = tuple(TABLES["events"].names())
STAT_COLUMNS = tuple(TABLES["event_stats"].names())
_PLAIN = {
    "event_id": np.int64, "plane_id": np.int32, "line_id": np.int32, "metadata_id": np.int64,
    "start_ps": np.int64, "duration_ps": np.int64, "num_occurrences": np.int64,
}  # fmt: skip
_SPARSE = ("num_occurrences",)
"""Of these columns only some rows are written. Others begin as memory that nobody has touched, for which NumPy asks for
huge pages."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be decoded: columns of events, columns of event_stats, stats beside events by name, and likewise stats
    of which only matters whether they are an integer other than zero. ``picks``: stats that few events may have, by
    name. ``metas``: which event metadata each event has, by its row in the capture; the column ``name`` is not."""

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
    flags: dict[str, npt.NDArray[np.bool_]]
    metas: Int32s
    picks: list[Columns]
    texts: pa.Array


class Decoder:
    """Decodes one selection of a session, whole or block by block."""

    def __init__(self, structure: Structure, names: SessionNames, wanted: Wanted, request: Request) -> None:
        self.structure = structure
        self.names = names
        self.request = request
        salvage = any(part.capture.salvage for part in structure.captures)
        structure.ensure(records.STATS if request.picks and salvage else request.depth, wanted.pieces())
        self._filters = self._event_filters(wanted)
        self._wanted = wanted
        self.dictionaries: dict[str, pa.Array] = {}
        if set(request.events) & {"host", "plane", "line", "name"}:
            self._number_dictionaries()
        pieces = wanted.pieces()
        self.may_lack_start = any(
            structure.may_lack_start(part)
            for i, part in enumerate(structure.captures)
            if pieces is None or pieces[i].any()
        )
        beside = request.wide + request.flags
        if request.stats or beside:
            self.stat_names, self._stat_index = names.used_stats(structure.captures)
        self._wide = [WideColumn(name, structure, names) for name in beside]
        self._picks: dict[int, dict[str, Any]] = {}

    def find_picks(self, capture: int) -> None:
        """Looks up the number that each stat metadata is picked under, and the parts that have any of them."""
        if not self.request.picks or capture in self._picks:
            return
        texts = self.names.texts[capture]
        texts.refresh()
        numbers = np.full(len(texts.names), -1, np.int16)
        for i, name in enumerate(self.request.picks):
            numbers[texts.names == self.names.stats.find(name)] = i
        metas = texts.capture.stat_metas
        parts = np.zeros(len(texts.capture.parts), np.uint8)
        parts[metas["part"][np.flatnonzero(numbers >= 0)]] = 1
        self._picks[capture] = {"pick_of_stat": numbers, "pick_parts": parts}

    def _event_filters(self, wanted: Wanted) -> list[Filter | None]:
        filters: list[Filter | None] = []
        texts = self.names.event_names.to_pylist() if wanted.selection.names else None
        for part, numbers in zip(self.structure.captures, self.names.meta_names, strict=True):
            meta_names = None if texts is None else [texts[i] for i in numbers.tolist()]
            filters.append(wanted.filter(part.capture.host, meta_names))
        return filters

    def _number_dictionaries(self) -> None:
        """Gives the pieces their indices in the dictionaries of hosts, planes and lines."""
        captures = self.structure.captures
        memory = captures[0].capture.memory
        hosts, planes, lines = TextTable(memory), TextTable(memory), TextTable(memory)
        labels = label(self.structure.line_names, self.structure.line_display_names)
        line_index = np.array([lines.add(text) for text in labels], np.int32)
        for part in captures:
            part.pieces["host"] = hosts.add(part.capture.host)
            plane_index = np.array([planes.add(name) for name, _ in part.capture.plane_keys], np.int32)
            if len(part.pieces):
                part.pieces["plane"] = plane_index[part.pieces["plane_id"] - part.plane_base]
                part.pieces["line"] = line_index[part.pieces["line_id"]]
        self.dictionaries = {
            "host": hosts.array(), "plane": planes.array(), "line": lines.array(), "name": self.names.event_names,
        }  # fmt: skip

    # ---- blocks

    def blocks(self) -> Iterator[Block]:
        """The blocks of the selection, lazily."""
        return blocks(self._wanted, self._filters, bool(self.request.stats))

    def decode(self, share: Sequence[Block], stage: str | None = "decoding", fixed_types: bool = False) -> Decoded:
        """The rows of the blocks, filled side by side. ``fixed_types``: columns beside events have the types that
        all events of the session give them, whatever this share holds, and dictionaries have int32 indices."""
        with self.structure.lock:
            return _Filling(self, share, fixed_types).run(stage)


class _Filling:
    """The columns of some blocks while they are being filled."""

    def __init__(self, decoder: Decoder, share: Sequence[Block], fixed_types: bool) -> None:
        self.decoder = decoder
        self.fixed_types = fixed_types
        self.share = share
        request = decoder.request
        self.rows = sum(block.rows for block in share)
        self.stat_rows = sum(block.stats for block in share) if request.stats else 0
        self.own_texts = bool(request.picks) or any(block.own_texts for block in share)
        self.text_base = len(decoder.names.stats)
        self.merged: MergedTexts | None = None
        if self.own_texts:
            self.merged = MergedTexts(decoder.structure.captures[0].capture.memory, decoder.names.stats)
        self.picked: PickedStats | None = None
        if request.picks and self.merged:
            self.picked = PickedStats(len(request.picks), self.rows, self.merged)
        self.columns: dict[str, npt.NDArray[Any]] = {}
        for name in request.events:
            if name in _PLAIN:
                self.columns[name] = (np.zeros if name in _SPARSE else np.empty)(self.rows, _PLAIN[name])
            else:
                self.columns[name] = self._indices(len(decoder.dictionaries[name]), self.rows)
        if request.metas:
            self.columns["name"] = np.empty(self.rows, np.int32)
        if decoder.may_lack_start and {"start_ps", "num_occurrences"} & set(request.events):
            self.columns["present"] = np.zeros(self.rows, np.uint8)
        self._add_stat_columns(request.stats)
        self.wide = [(np.zeros(self.rows, np.uint8), np.zeros(self.rows, np.int64)) for _ in decoder._wide]

    def _add_stat_columns(self, wanted: Sequence[str]) -> None:
        count = self.stat_rows
        if not wanted:
            return
        self.columns["kind"] = np.zeros(count, np.uint8)
        if "event_id" in wanted:
            self.columns["stat_event_id"] = np.zeros(count, np.int64)
        if "stat" in wanted:
            self.columns["stat"] = self._indices(len(self.decoder.stat_names), count)
        if "int_value" in wanted:
            self.columns["int_value"] = np.zeros(count, np.int64)
        if "double_value" in wanted:
            self.columns["double_value"] = np.zeros(count, np.float64)
        if "str_value" in wanted:
            size = 2**31 - 1 if self.own_texts else self.text_base
            self.columns["text"] = self._indices(size, count)

    def _indices(self, size: int, count: int) -> npt.NDArray[Any]:
        return narrow_indices(2**31 - 1 if self.fixed_types else size, count)

    def run(self, stage: str | None) -> Decoded:
        tasks, row, stat_row = [], 0, 0
        for capture in {block.capture for block in self.share}:
            self.decoder.find_picks(capture)
        for number, block in enumerate(self.share):
            tasks.append(partial(self._fill, number, block, row, stat_row))
            row += block.rows
            stat_row += block.stats
        sinks = self.decoder.structure.workers.run(stage, tasks)
        self.texts = self._take_texts(sinks)
        self.bytes_at = [np.frombuffer(sink.bytes_at(), records.BYTES_AT) for sink in sinks]
        unnamed = sum(sink.unnamed for sink in sinks)
        request = self.decoder.request
        picks = self.picked.columns() if self.picked else []
        del sinks
        events = {name: self._event_array(name, unnamed) for name in request.events}
        stats = {name: self._stat_array(name) for name in request.stats}
        beside = list(zip(self.decoder._wide, self.wide, strict=True))
        wide = {
            column.name: column.array(kind, value, self.texts, self._bytes_of(i), self.fixed_types)
            for i, (column, (kind, value)) in enumerate(beside[: len(request.wide)])
        }
        flags = {column.name: integers_not_zero(kind, value) for column, (kind, value) in beside[len(request.wide) :]}
        metas = self.columns["name"] if request.metas else np.zeros(0, np.int32)
        return Decoded(self.rows, self.stat_rows, events, stats, wide, flags, metas, picks, self.texts)

    def _fill(self, number: int, block: Block, row: int, stat_row: int) -> Sink:
        decoder = self.decoder
        part = decoder.structure.captures[block.capture]
        tables: dict[str, Any] = {"meta_names": decoder.names.meta_names[block.capture]}
        if decoder.request.metas:
            tables["meta_names"] = np.arange(len(part.capture.metas), dtype=np.int32)
        if decoder.request.picks:
            tables |= decoder._picks[block.capture]
            tables["stat_texts"] = decoder.names.texts[block.capture].texts
        if part.capture.meta_ids is not None:
            tables["meta_ids"] = part.capture.meta_ids
        wide = []
        if decoder.request.stats or self.wide:
            tables["stat_texts"] = decoder.names.texts[block.capture].texts
            tables["stat_names"] = decoder._stat_index[block.capture]
        if self.wide:
            tables["wide_of_stat"] = self._wide_of_stat(block.capture)
            for column, (kind, value) in zip(decoder._wide, self.wide, strict=True):
                wide.append((kind, value, *column.defaults[block.capture]))
        memory = part.capture.memory
        sink = Sink(
            memory, self.columns, tables, decoder._filters[block.capture], wide, self.text_base,
            bool(decoder.request.stats), self.picked.unused(memory) if self.picked else None,
        )  # fmt: skip
        block.fill(part, sink, row, stat_row)
        if self.picked:
            self.picked.add(number, block.rows, sink)
        return sink

    def _wide_of_stat(self, capture: int) -> Int32s:
        columns = np.full(len(self.decoder.names.texts[capture].names), -1, np.int32)
        for i, column in enumerate(self.decoder._wide):
            columns[column.stat_rows[capture]] = i
        return columns

    # ---- what the fill leaves to do

    def _take_texts(self, sinks: Sequence[Sink]) -> pa.Array:
        """All texts, with the sinks' own ones numbered after those of the name tables, in the order of the blocks."""
        if self.merged is None:
            return self.decoder.names.stats.array()
        row = stat_row = 0
        for number, (block, sink) in enumerate(zip(self.share, sinks, strict=True)):
            mapped = self.picked.own_numbers[number] if self.picked else self.merged.add(sink)
            if mapped is not None:
                if "text" in self.columns:
                    self._renumber(self.columns["text"][stat_row : stat_row + block.stats], mapped)
                for kind, value in self.wide:
                    texts = value[row : row + block.rows]
                    self._renumber(texts, mapped, kind[row : row + block.rows] == records.STR)
            row += block.rows
            stat_row += block.stats
        return self.merged.array()

    def _renumber(self, numbers: npt.NDArray[Any], mapped: Int32s, only: npt.NDArray[np.bool_] | None = None) -> None:
        own = numbers >= self.text_base
        if only is not None:
            own &= only
        numbers[own] = mapped[numbers[own] - self.text_base]

    def _event_array(self, name: str, unnamed: int) -> pa.Array:
        values = self.columns[name]
        present = self.columns.get("present")
        if name == "name":
            if not unnamed:
                return dictionary_array(values, self.decoder.dictionaries[name])
            validity, valid = bitmap_of_codes((values >= 0).view(np.uint8), 1 << 1)
            return dictionary_array(values, self.decoder.dictionaries[name], validity, self.rows - valid)
        if name in self.decoder.dictionaries:
            return dictionary_array(values, self.decoder.dictionaries[name])
        if name == "start_ps" and present is not None:
            wanted = sum(1 << code for code in range(4) if code & records.HAS_START)
            return _nullable(values, *bitmap_of_codes(present, wanted))
        if name == "num_occurrences":
            if present is None:
                return _nullable(values, bytearray((self.rows + 7) // 8), 0)
            wanted = sum(1 << code for code in range(4) if code & records.HAS_OCCURRENCES)
            return _nullable(values, *bitmap_of_codes(present, wanted))
        return _plain(values)

    def _stat_array(self, name: str) -> pa.Array:
        kind = self.columns["kind"]
        if name == "event_id":
            return _plain(self.columns["stat_event_id"])
        if name == "kind":
            return dictionary_array(kind.view(np.int8), pa.array(KINDS))
        if name == "stat":
            return dictionary_array(self.columns["stat"], self.decoder.stat_names)
        if name == "int_value":
            return self._int_values(kind)
        if name == "double_value":
            return _nullable(self.columns["double_value"], *bitmap_of_codes(kind, 1 << records.DOUBLE))
        if name == "str_value":
            return self._str_values(kind)
        validity, valid = bitmap_of_codes(kind, 1 << records.BYTES)
        return self._large_binary(self._bytes_of(-1), self.stat_rows, validity, self.stat_rows - valid)

    def _dangling(self, kind: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp] | None:
        """Rows of refs that lead nowhere; None without looking where there can be none."""
        text = self.columns.get("text")
        if text is None or not (text < 0).any():
            return None
        return np.flatnonzero((kind == records.REF) & (text < 0))

    def _int_values(self, kind: npt.NDArray[np.uint8]) -> pa.Array:
        wanted = 1 << records.INT64 | 1 << records.UINT64
        rows = self._dangling(kind)
        if rows is not None:
            kind = kind.copy()
            kind[rows] = records.UINT64
        return _nullable(self.columns["int_value"], *bitmap_of_codes(kind, wanted))

    def _str_values(self, kind: npt.NDArray[np.uint8]) -> pa.Array:
        rows = self._dangling(kind)
        if rows is not None:
            kind = kind.copy()
            kind[rows] = records.NONE
        validity, valid = bitmap_of_codes(kind, 1 << records.STR | 1 << records.REF)
        text = self.columns["text"]
        fitting = self._indices(len(self.texts), 0).dtype
        return dictionary_array(text.astype(fitting, copy=False), self.texts, validity, self.stat_rows - valid)

    def _bytes_of(self, column: int) -> list[tuple[int, int, bytes]]:
        """Rows of a bytes column (-1: event_stats): capture, row, value."""
        found = []
        for block, at in zip(self.share, self.bytes_at, strict=True):
            data = memoryview(self.decoder.structure.captures[block.capture].capture.source.data)
            mine = at[at["column"] == column]
            for row, _, offset, length in mine.tolist():
                found.append((block.capture, row, bytes(data[offset : offset + length])))
        return found

    def _large_binary(
        self, values: list[tuple[int, int, bytes]], count: int, validity: bytearray, nulls: int
    ) -> pa.Array:
        offsets = np.zeros(count + 1, np.int64)
        if values:
            for _, row, value in values:
                offsets[row + 1] = len(value)
            np.cumsum(offsets, out=offsets)
        data = b"".join(value for _, _, value in values)
        buffers = [pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.large_binary(), count, buffers, null_count=nulls)


def _plain(values: npt.NDArray[Any]) -> pa.Array:
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], null_count=0)


def _nullable(values: npt.NDArray[Any], validity: bytearray, valid: int) -> pa.Array:
    buffers = [pa.py_buffer(validity), pa.py_buffer(values)]
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), buffers, null_count=len(values) - valid
    )
