"""One event, decoded alone, and its stats as values: of its line only the piece that holds it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof.decode.blocks import Block, find_key
from fastprof.decode.decoder import STAT_COLUMNS, CaptureLookups, Decoded, Layout, Request, fill_rows
from fastprof.decode.index import CaptureIndex, Index, find_unsorted_lines
from fastprof.decode.span_stats import SpanStats, read_metadata_stats
from fastprof.errors import CaptureError, ChangedError
from fastprof.schema.capture_tables import KINDS
from fastprof.schema.columns import Records
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
        """Return the rows of stats of this name."""

    def read(self, rows: Rows) -> list[StatValue]: ...


@dataclass(frozen=True, slots=True)
class EventStats:
    """All stats of an event, numbered: those of its own first."""

    parts: Sequence[StatColumns] = ()

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def read(self, first: int, count: int) -> list[StatValue]:
        """Return at most ``count`` stats, beginning with number ``first``."""
        stats: list[StatValue] = []
        for part in self.parts:
            stats += part.read(np.arange(first, min(first + count, len(part)))) if first < len(part) else []
            first, count = max(first - len(part), 0), count - max(min(len(part) - first, count), 0)
        return stats

    def values(self, name: str, of: str | None = None) -> Iterator[str]:
        """Yield the values of a stat, those of the event before those of its metadata; ``of``: only these."""
        for part in self.parts:
            if of in (None, part.of):
                rows = part.rows_of(name)
                for at in range(0, len(rows), _ROWS):
                    yield from (stat.value for stat in part.read(rows[at : at + _ROWS]))


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
        names, kinds, texts = (_get_shared_texts(self._columns[name], rows) for name in ("stat", "kind", "str_value"))
        others = [self._columns[name].take(rows).to_pylist() for name in ("int_value", "double_value", "bytes_value")]
        stats = []
        for name, kind, text, *numbers in zip(names, kinds, texts, *others, strict=True):
            value = next((candidate for candidate in (text, *numbers) if candidate is not None), None)
            value = value % 2**64 if kind == "uint64" and value is not None else value
            stats.append(_make_stat_value(name or "", kind or "", value, EVENT))
        return stats


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
            _make_stat_value(self._texts[stat].as_py(), KINDS[kind] if kind < len(KINDS) else "", value, METADATA)
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
        return np.array([row for row, stat in enumerate(self.stats) if stat.name == name], np.intp)

    def read(self, rows: Rows) -> list[StatValue]:
        return [self.stats[row] for row in rows.tolist()]


def _get_shared_texts(column: pa.Array, rows: Rows) -> list[str | None]:
    """Return values of a dictionary column; equal ones are one string in memory."""
    codes = column.indices.take(rows).to_pylist()
    distinct = {code: column.dictionary[code].as_py() for code in dict.fromkeys(codes) if code is not None}
    return [distinct.get(code) for code in codes]


def _make_stat_value(name: str, kind: str, value: Any, of: str) -> StatValue:
    if isinstance(value, bytes):
        more = "" if len(value) <= _MOST_BYTES else f" … of {len(value):,} bytes"
        return StatValue(name, kind, value[:_MOST_BYTES].hex(" ") + more, of, value)
    return StatValue(name, kind, "" if value is None else str(value), of)


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What the capture says of one event. ``meta``: the row of its metadata in the capture, -1: it has none."""

    event_id: int
    line_id: int
    meta: int
    name: str
    display_name: str
    stats: EventStats


def read_event(index: Index, number: int, line: int, place: int) -> EventFacts:
    """Return the event at ``place``, in the order of time, of a line of capture ``number``, by its place there.
    CaptureError: there is none."""
    index.ensure_lines()
    part = index.captures[number]
    line_id = int(np.searchsorted(index.lines["plane_id"], part.plane_base)) + line
    mine = {number: part.pieces["line_id"] == line_id}
    index.ensure(records.EVENTS, mine)
    key = _find_key_at(part, line_id, place)
    event_id = int(index.lines["first_event_id"][line_id]) + place
    try:
        decoded = _decode_event(index, number, key, event_id)
    except ChangedError:  # or it has a stat that its plane does not declare, which indexing declares
        index.ensure(records.STATS, mine)
        decoded = _decode_event(index, number, key, event_id)
    meta = int(decoded.metas[0])
    name, shown, of_metadata = _read_metadata(index, number, meta)
    return EventFacts(event_id, line_id, meta, name, shown, EventStats((OwnStats(decoded.stats), *of_metadata)))


def _decode_event(index: Index, number: int, key: Records, event_id: int) -> Decoded:
    """Return the event at this place, with all its stats."""
    names = index.names
    texts = names.texts[number].now()
    request = Request(("event_id",), STAT_COLUMNS, metas=True)
    lookups = CaptureLookups.of(
        request, index.captures[number], texts, meta_names=names.meta_names[number], stat_names=texts.names
    )
    layout = Layout(request, names.stats, {}, names.stats.array())
    block = Block(number, 1, int(key["stat_count"][0]), True, keys=key, event_ids=np.array([event_id], np.int64))
    return fill_rows(layout, {number: lookups}, [block], index.workers, None)


def _read_metadata(index: Index, number: int, meta: int) -> tuple[str, str, list[MetadataStats]]:
    """Name, display name and stats of a row of the capture's event metadata, empty for row -1."""
    if meta < 0:
        return "", "", []
    names, capture = index.names, index.captures[number].capture
    row = capture.metas[meta : meta + 1]
    (name,) = capture.texts(row, b"XEventMetadata.name", "name_")
    (shown,) = capture.texts(row, b"XEventMetadata.display_name", "display_")
    _, stats = read_metadata_stats(names.texts[number], meta)
    return name, shown, [MetadataStats(stats, names.stats.array())]


def _find_key_at(part: CaptureIndex, line_id: int, place: int) -> Records:
    """Return where the event lies in the file."""
    segments = part.known.segments
    segments = segments[part.pieces["line_id"][segments["piece"]] == line_id]
    if 0 <= place < int(segments["event_count"].sum()):
        if line_id in find_unsorted_lines(part.pieces, segments):
            return find_key(part, segments, place)
        lasts = np.cumsum(segments["event_count"])
        of = int(np.searchsorted(lasts, place, side="right"))
        segment = np.ascontiguousarray(segments[of : of + 1])
        keys = np.zeros(int(segment["event_count"][0]), records.EVENT_KEY)
        part.capture.source.check_unchanged()
        part.capture.xspace.event_keys(part.pieces, segment, keys, None)
        at = place - int(lasts[of] - segment["event_count"][0])
        return np.ascontiguousarray(keys[at : at + 1])
    raise CaptureError(f"line {line_id} has no event {place}", path=part.capture.path)
