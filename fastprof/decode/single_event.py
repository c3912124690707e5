"""One event, decoded alone: of its line only the piece that holds it is looked into."""

from __future__ import annotations

import numpy as np

from fastprof._native import records
from fastprof.decode.blocks import Block
from fastprof.decode.event_order import key_in_order
from fastprof.decode.fill import CaptureLookups, Layout, filled
from fastprof.decode.index import CaptureIndex, Index, unsorted_lines
from fastprof.decode.request import STAT_COLUMNS, Decoded, Request
from fastprof.decode.span_stats import metadata_stats
from fastprof.decode.stat_values import EventStats, MetadataStats, OwnStats
from fastprof.errors import CaptureError, ChangedError
from fastprof.schema.array_types import Records
from fastprof.schema.value_classes import dataclass


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
    """The event at ``place``, in the order of time, of a line of capture ``number``, by its place there. CaptureError:
    there is none."""
    index.ensure_lines()
    part = index.captures[number]
    line_id = int(np.searchsorted(index.lines["plane_id"], part.plane_base)) + line
    mine = {number: part.pieces["line_id"] == line_id}
    index.ensure(records.EVENTS, mine)
    key = _key_at(part, line_id, place)
    event_id = int(index.lines["first_event_id"][line_id]) + place
    try:
        decoded = _decoded(index, number, key, event_id)
    except ChangedError:  # or it has a stat that its plane does not declare, which indexing declares
        index.ensure(records.STATS, mine)
        decoded = _decoded(index, number, key, event_id)
    meta = int(decoded.metas[0])
    name, shown, of_metadata = _metadata(index, number, meta)
    return EventFacts(event_id, line_id, meta, name, shown, EventStats((OwnStats(decoded.stats), *of_metadata)))


def _decoded(index: Index, number: int, key: Records, event_id: int) -> Decoded:
    """The one event at this place, with all its stats."""
    names = index.names
    texts = names.texts[number].now()
    request = Request(("event_id",), STAT_COLUMNS, metas=True)
    lookups = CaptureLookups.of(
        request, index.captures[number], texts, meta_names=names.meta_names[number], stat_names=texts.names
    )
    layout = Layout(request, names.stats, {}, names.stats.array())
    block = Block(number, 1, int(key["stat_count"][0]), True, keys=key, event_ids=np.array([event_id], np.int64))
    return filled(layout, {number: lookups}, [block], index.workers, None)


def _metadata(index: Index, number: int, meta: int) -> tuple[str, str, list[MetadataStats]]:
    """Name, display name and stats of a row of the capture's event metadata; -1: there is none."""
    if meta < 0:
        return "", "", []
    names, capture = index.names, index.captures[number].capture
    row = capture.metas[meta : meta + 1]
    (name,) = capture.texts(row, b"XEventMetadata.name", "name_")
    (shown,) = capture.texts(row, b"XEventMetadata.display_name", "display_")
    _, stats = metadata_stats(names.texts[number], meta)
    return name, shown, [MetadataStats(stats, names.stats.array())]


def _key_at(part: CaptureIndex, line_id: int, place: int) -> Records:
    """Where the event lies in the file."""
    segments = part.known.segments
    segments = segments[part.pieces["line_id"][segments["piece"]] == line_id]
    if 0 <= place < int(segments["event_count"].sum()):
        if line_id in unsorted_lines(part.pieces, segments):
            return key_in_order(part, segments, place)
        lasts = np.cumsum(segments["event_count"])
        of = int(np.searchsorted(lasts, place, side="right"))
        segment = np.ascontiguousarray(segments[of : of + 1])
        keys = np.zeros(int(segment["event_count"][0]), records.EVENT_KEY)
        part.capture.source.check_unchanged()
        part.capture.xspace.event_keys(part.pieces, segment, keys, None)
        at = place - int(lasts[of] - segment["event_count"][0])
        return np.ascontiguousarray(keys[at : at + 1])
    raise CaptureError(f"line {line_id} has no event {place}", path=part.capture.path)
