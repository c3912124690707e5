"""Stats that lie outside events: those of planes and of event metadata."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.xspace import Sink
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture, DeclaredStats
from fastprof.schema.array_types import Int32s, Int64s, Records
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class StatTexts:
    """The texts of stat metadata, by row, as numbers in a table of texts.

    ``names``  what a stat is called: #ID where its part declares no name
    ``texts``  what a ref stands for: -1 where its part declares none
    """

    stats: DeclaredStats
    names: Int32s
    texts: Int32s


class CaptureTexts:
    """Texts of one capture's stat metadata, in a table that captures may share. Threads may share it."""

    def __init__(self, capture: Capture, table: TextTable) -> None:
        self.capture = capture
        self.table = table
        self._lock = threading.Lock()
        self._known = self._read(capture.stats, np.zeros(0, np.int32), np.zeros(0, np.int32))

    def now(self) -> StatTexts:
        """Those of all stats that are declared by now. They never change."""
        if self._known.stats is not self.capture.stats:
            with self._lock:
                self._known = self._read(self.capture.stats, self._known.names, self._known.texts)
        return self._known

    def _read(self, stats: DeclaredStats, names: Int32s, texts: Int32s) -> StatTexts:
        """``names``, ``texts``: of the first rows, which have been read."""
        fresh = stats.metas[len(names) :]
        more = self.capture.intern(fresh["name_offset"], fresh["name_length"], b"XStatMetadata.name", self.table)
        named = more.copy()
        for row in np.flatnonzero(more < 0).tolist():
            named[row] = self.table.add(f"#{fresh['id'][row]}")
        return StatTexts(stats, np.concatenate([names, named]), np.concatenate([texts, more]))


@dataclass(frozen=True, slots=True)
class SpanStats:
    """Stats of a capture, one per row. ``stat`` and ``text`` are numbers in the table of texts, text -1 where there is
    none. ``bytes_at``: where bytes lie. ``span``: the number of the place where the stat was read."""

    capture: Capture
    stat_id: Int64s
    stat: Int32s
    kind: npt.NDArray[np.uint8]
    int_value: Int64s
    double_value: npt.NDArray[np.float64]
    text: Int32s
    bytes_at: Records
    span: npt.NDArray[np.intp]

    def first_rows(self, owners: Int64s, stat: int) -> npt.NDArray[np.intp]:
        """The row of the first value of a stat, -1: none, of each owner that has it. ``owners``: of each row."""
        rows = np.flatnonzero((self.stat == stat) & (self.stat >= 0) & (self.kind != records.NONE))
        return rows[np.unique(owners[rows], return_index=True)[1]]

    def places_of_bytes(self, rows: npt.NDArray[np.intp]) -> dict[int, tuple[int, int]]:
        """By those of the rows that hold bytes: their offset and length in the file."""
        at = self.bytes_at[np.isin(self.bytes_at["row"], rows)]
        return {row: (offset, length) for row, _, offset, length in at.tolist()}

    def taken(self, rows: npt.NDArray[np.intp]) -> SpanStats:
        """These rows, in this order."""
        place = np.full(len(self.kind), -1, np.int64)
        place[rows] = np.arange(len(rows))
        at = self.bytes_at[place[self.bytes_at["row"]] >= 0].copy()
        at["row"] = place[at["row"]]
        return SpanStats(
            self.capture, self.stat_id[rows], self.stat[rows], self.kind[rows], self.int_value[rows],
            self.double_value[rows], self.text[rows], at, self.span[rows],
        )  # fmt: skip

    def payloads(self, rows: npt.NDArray[np.intp] | None = None) -> dict[int, bytes]:
        """The bytes of those of the rows that have such a value; None: of all."""
        at = self.bytes_at if rows is None else self.bytes_at[np.isin(self.bytes_at["row"], rows)]
        return dict(zip(at["row"].tolist(), self.capture.copies(at[["offset", "length"]].tolist()), strict=True))

    def values(self, texts: pa.Array) -> list[Any]:
        """Python values. uint64 is positive, a ref without text is the number that it holds, None is no value.
        ``texts``: those of the table."""
        payloads = self.payloads()
        columns = (self.kind, self.int_value, self.double_value, self.text)
        values: list[Any] = [None] * len(self.kind)
        strings: dict[int, str] = {}  # a long text may be the value of many stats
        for row, (kind, integer, double, text) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if kind in (records.STR, records.REF) and text >= 0:
                if text not in strings:
                    strings[text] = texts[text].as_py()
                values[row] = strings[text]
            elif kind in (records.INT64, records.REF):
                values[row] = integer
            elif kind == records.UINT64:
                values[row] = integer % 2**64
            elif kind == records.DOUBLE:
                values[row] = double
            elif row in payloads:
                values[row] = payloads[row]
        return values


def read_span_stats(texts: CaptureTexts, spans: Records, parts: Int64s) -> SpanStats:
    """Reads stats at given places; ``parts[i]`` is the part whose names span i uses. Texts go into the table. To
    salvage, what does not decode is left out."""
    capture, table = texts.capture, texts.table
    capture.source.check_unchanged()
    unknown = capture.xspace.unknown_in_spans(spans, parts)
    capture.declare(np.frombuffer(unknown, records.UNKNOWN_STAT))
    known = texts.now()
    count = len(spans)
    base = len(table)
    columns: dict[str, Any] = {
        "stat": np.zeros(count, np.int32),
        "kind": np.zeros(count, np.uint8),
        "int_value": np.zeros(count, np.int64),
        "double_value": np.zeros(count, np.float64),
        "text": np.full(count, -1, np.int32),
    }
    stat_id = np.zeros(count, np.int64)
    lookups = {"stat_names": known.names, "stat_texts": known.texts}
    sink = Sink(capture.memory, columns, lookups, text_base=base, want_stats=True)
    known.stats.xspace.fill_spans(spans, parts, stat_id, sink)
    capture.log.add_faults(sink.faults(), capture.path)
    take_own_texts(columns["text"], sink, base, table)
    bytes_at = np.frombuffer(sink.bytes_at(), records.BYTES_AT)
    stat_id = capture.stat_ids_of(stat_id, parts)
    stats = SpanStats(capture, stat_id, bytes_at=bytes_at, span=np.arange(count), **columns)
    return stats.taken(np.flatnonzero(stats.kind != records.LOST_REF)) if capture.salvage else stats


def metadata_stats(texts: CaptureTexts, of: int | None = None) -> tuple[Records, SpanStats]:
    """Stats of the event metadata of a capture (``of``: of this row alone): where they lie, with the row of metadata as
    their owner, and what they are."""
    capture = texts.capture
    spans = np.frombuffer(capture.xspace.meta_stats(), records.OWNED_SPAN)
    if of is not None:
        spans = np.ascontiguousarray(spans[spans["owner"] == of])
    parts = np.ascontiguousarray(capture.metas["part"][spans["owner"]])
    stats = read_span_stats(texts, spans, parts)
    return spans[stats.span], stats


def take_own_texts(numbers: npt.NDArray[np.int32], sink: Sink, base: int, table: TextTable) -> None:
    """Replaces the sink's numbers of its own texts, from ``base`` on, by theirs in the table."""
    offsets, data = sink.texts()
    if len(offsets) <= 8:
        return
    mapped = table.add_all(offsets, data)
    own = numbers >= base
    numbers[own] = mapped[numbers[own] - base]


def owned_spans(spans: Records) -> Records:
    """Spans of a part as spans that say their owner, the part."""
    owned = np.zeros(len(spans), records.OWNED_SPAN)
    owned["offset"], owned["length"], owned["owner"] = spans["offset"], spans["length"], spans["part"]
    return owned
