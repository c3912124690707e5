"""The stats of one event, decoded alone: of its line only the piece that holds it is looked into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof.decode.blocks import Block, Wanted
from fastprof.decode.event_order import ordered_keys
from fastprof.decode.fill import STAT_COLUMNS, Decoded, Decoder, Request
from fastprof.decode.index import CaptureStructure, Structure
from fastprof.decode.selection import Selection
from fastprof.decode.session_texts import SessionNames
from fastprof.decode.span_stats import read_span_stats
from fastprof.errors import CaptureError, ChangedError
from fastprof.schema.array_types import Int32s, Records
from fastprof.schema.tables import KINDS
from fastprof.tables.table_set import TableSet

EVENT, METADATA = "event", "metadata"
_INTEGERS = ("int64", "uint64")
_MOST_BYTES = 32


@dataclass(frozen=True, slots=True)
class StatValue:
    """``value``: exact, as text. ``of``: whether the event has it itself, or its metadata. ``payload``: the bytes of a
    stat that holds bytes."""

    name: str
    kind: str
    value: str
    of: str
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What the capture says of one event. ``meta``: the row of its metadata in the capture, -1: it has none."""

    event_id: int
    line_id: int
    meta: int
    name: str
    display_name: str
    stats: tuple[StatValue, ...]


class _EveryStat(SessionNames):
    """Names under which all stats are known, met or not: of one event it is not known beforehand which it has."""

    def __init__(self, names: SessionNames) -> None:
        self.__dict__.update(names.__dict__)

    def used_stats(self, _parts: Sequence[CaptureStructure]) -> tuple[pa.Array, list[Int32s]]:
        for texts in self.texts:
            texts.refresh()
        return self.stats.array(), [texts.names for texts in self.texts]


class _NoLine(Wanted):
    """What is to be decoded is known by then: no line is looked into for it."""

    def pieces(self) -> list[npt.NDArray[np.bool_]] | None:
        return [np.zeros(len(part.pieces), bool) for part in self.structure.captures]


def read_event(tables: TableSet, number: int, line: int, place: int) -> EventFacts:
    """The event at ``place``, in the order of time, of a line of capture ``number``, by its place there. CaptureError:
    there is none."""
    structure = tables.session.structure
    with structure.lock:
        mine = [np.zeros(len(one.pieces), bool) for one in structure.captures]
        structure.ensure(records.HOP, mine)
        part = structure.captures[number]
        line_id = _first_line(structure, part) + line
        mine[number] = part.pieces["line_id"] == line_id
        structure.ensure(records.EVENTS, mine)
        key, event_id = _key_at(structure, part, line_id, place)
        try:
            decoded = _decoded(tables, number, key, event_id)
        except (
            ChangedError
        ):  # a stat that the plane does not declare, unless the file did change: the index declares it
            structure.ensure(records.STATS, mine)
            decoded = _decoded(tables, number, key, event_id)
        meta = int(decoded.metas[0])
        own = [_stat_value(row, EVENT) for row in _rows(decoded.stats)]
        name, shown, of_metadata = _metadata(tables, number, meta)
    return EventFacts(event_id, line_id, meta, name, shown, (*own, *of_metadata))


def _first_line(structure: Structure, part: CaptureStructure) -> int:
    """The line_id of the first line of a capture."""
    assert structure.lines is not None
    return int(np.searchsorted(structure.lines["plane_id"], part.plane_base))


def _decoded(tables: TableSet, number: int, key: Records, event_id: int) -> Decoded:
    """The one event that lies there."""
    session = tables.session
    request = Request(("event_id",), STAT_COLUMNS, metas=True)
    decoder = Decoder(session.structure, _EveryStat(session.names), _NoLine(session.structure, Selection()), request)
    ids = np.array([event_id], np.int64)
    block = Block(number, 1, int(key["stat_count"][0]), True, keys=key, event_ids=ids)
    return decoder.decode([block], stage=None)


def _metadata(tables: TableSet, number: int, meta: int) -> tuple[str, str, list[StatValue]]:
    """Name, display name and stats of a row of the capture's event metadata; -1: there is none."""
    if meta < 0:
        return "", "", []
    session = tables.session
    capture = session.structure.captures[number].capture
    row = capture.metas[meta : meta + 1]
    (name,) = capture.texts(row, b"XEventMetadata.name", "name_")
    (shown,) = capture.texts(row, b"XEventMetadata.display_name", "display_")
    spans = np.frombuffer(capture.xspace.meta_stats(), records.OWNED_SPAN)
    spans = np.ascontiguousarray(spans[spans["owner"] == meta])
    stats = read_span_stats(session.names.texts[number], spans, np.full(len(spans), row["part"][0], np.int64))
    texts = session.names.stats.array()
    data = memoryview(capture.source.data)
    places = {int(at["row"]): (int(at["offset"]), int(at["length"])) for at in stats.bytes_at}
    found = []
    for i in range(len(stats.kind)):
        kind = int(stats.kind[i])
        at, length = places.get(i, (0, 0))
        cell = {
            "kind": KINDS[kind] if kind < len(KINDS) else None,
            "stat": texts[int(stats.stat[i])].as_py(),
            "int_value": int(stats.int_value[i]),
            "double_value": float(stats.double_value[i]) if kind == records.DOUBLE else None,
            "str_value": texts[int(stats.text[i])].as_py() if stats.text[i] >= 0 else None,
            "bytes_value": bytes(data[at : at + length]) if kind == records.BYTES else None,
        }
        found.append(_stat_value(cell, METADATA))
    return name, shown, found


def _key_at(structure: Structure, part: CaptureStructure, line_id: int, place: int) -> tuple[Records, int]:
    """Where the event lies in the file, and its event_id."""
    assert structure.lines is not None
    event_id = int(structure.lines["first_event_id"][line_id]) + place
    segments = part.segments[part.pieces["line_id"][part.segments["piece"]] == line_id]
    if 0 <= place < int(segments["event_count"].sum()):
        if line_id in structure.unsorted_lines(part):
            before = 0
            for keys in ordered_keys(part, segments, None):
                if place < before + len(keys):
                    return np.ascontiguousarray(keys[place - before : place - before + 1]), event_id
                before += len(keys)
        else:
            lasts = np.cumsum(segments["event_count"])
            of = int(np.searchsorted(lasts, place, side="right"))
            segment = np.ascontiguousarray(segments[of : of + 1])
            keys = np.zeros(int(segment["event_count"][0]), records.EVENT_KEY)
            part.capture.source.check_unchanged()
            part.capture.xspace.event_keys(part.pieces, segment, keys, None)
            at = place - int(lasts[of] - segment["event_count"][0])
            return np.ascontiguousarray(keys[at : at + 1]), event_id
    raise CaptureError(f"line {line_id} has no event {place}", path=part.capture.path)


def _rows(stats: dict[str, Any]) -> Iterator[dict[str, Any]]:
    columns = {name: array.to_pylist() for name, array in stats.items()}
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _stat_value(row: dict[str, Any], of: str) -> StatValue:
    kind = row["kind"] or ""
    if kind in _INTEGERS and row["int_value"] is not None:
        number = row["int_value"]
        value = str(number % 2**64 if kind == "uint64" else number)
    elif row["double_value"] is not None:
        value = repr(row["double_value"])
    elif row["str_value"] is not None:
        value = row["str_value"]
    elif row["bytes_value"] is not None:
        value = _bytes_text(row["bytes_value"])
    elif row["int_value"] is not None:
        value = str(row["int_value"])
    else:
        value = ""
    return StatValue(row["stat"] or "", kind, value, of, row["bytes_value"] or b"")


def _bytes_text(value: bytes) -> str:
    more = "" if len(value) <= _MOST_BYTES else f" … of {len(value):,} bytes"
    return value[:_MOST_BYTES].hex(" ") + more
