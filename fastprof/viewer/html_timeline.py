"""A timeline of reduced detail for a saved report: the whole session at several levels, as fine as room allows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof._native import lod
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.link_documents import counters_document, steps_document
from fastprof.viewer.timeline_document import timeline_document

if TYPE_CHECKING:
    from fastprof.viewer.snapshot import Snapshot
    from fastprof.viewer.viewed_run import ViewedRun

_TILE_BITS: Final = 10
_BETWEEN_LEVELS: Final = 2
_LANES: Final = (None, 64, 8, 1)
_COUNTER_WIDTH: Final = 1_500
_HEAD = struct.Struct("<8I")


@dataclass(frozen=True, slots=True)
class SavedTimeline:
    """``documents``: what the page asks a server for, by name; ``tiles``: by level a tile of the whole session;
    ``exact``: whether the finest has every event by itself."""

    documents: dict[str, Any]
    tiles: dict[int, bytes]
    exact: bool


def saved_timeline(run: ViewedRun, hosts: list[str], most_slices: int) -> SavedTimeline:
    """Of a run that is built, these hosts; all levels together have about as many slices as that."""
    seen = run.snapshot
    tiles = _tiles(seen, most_slices)
    finest = tiles[min(tiles)]
    document = timeline_document(run)
    document["hosts"] = [host for host in document["hosts"] if host["host"] in hosts]
    documents = {
        "timeline": document,
        "levels": {"levels": sorted(tiles)},
        "names": _names(seen, tiles.values()),
        "steps": steps_document(run),
        "counters": dict(_counters(run, document)),
    }
    events = sum(host.store.events for host in seen.ready)
    return SavedTimeline(documents, tiles, _slices(finest) == events)


def _tiles(seen: Snapshot, most_slices: int) -> dict[int, bytes]:
    """Levels from the coarsest, with one tile for the session, to the finest for which there is room; at least one."""
    coarsest, lanes = _beginning(seen, most_slices)
    found: dict[int, bytes] = {}
    room = most_slices
    for level in range(coarsest, -1, -_BETWEEN_LEVELS):
        tile = _whole(seen, level, lanes)
        room -= _slices(tile)
        if found and room < 0:
            break
        found[level] = tile
        if int(_column(tile, 1, np.uint32).max(initial=1)) <= 1:  # every event is a slice: finer levels are the same
            break
    return found


def _beginning(seen: Snapshot, most_slices: int) -> tuple[int, int | None]:
    """The level at which one tile covers the session, and how many lanes of each track leave room for it. For too many
    tracks even then the level is coarser."""
    level = max(0, max(seen.span_ps, 1).bit_length() - _TILE_BITS)
    for lanes in _LANES:
        if _slices(_whole(seen, level, lanes)) <= most_slices:
            return level, lanes
    return min(level + _TILE_BITS, lod.COARSEST), _LANES[-1]


def _whole(seen: Snapshot, level: int, lanes: int | None) -> bytes:
    """A tile of a level that holds the whole session, however many buckets that are."""
    drawn = lod.Tile()
    for part in seen.tile_parts(None, lanes):
        part.store.draw(drawn, part, level, part.origin_ps, part.origin_ps + seen.span_ps)
    return drawn.packed(level, 0)


def _slices(tile: bytes) -> int:
    return int(_HEAD.unpack_from(tile)[3])


def _column(tile: bytes, number: int, dtype: type[np.generic]) -> Any:
    """A column of 32 bits of the slices: busy, count, name, at."""
    _, _, rows, slices, *_ = _HEAD.unpack_from(tile)
    body = -(-(_HEAD.size + 12 * rows) // 8) * 8
    return np.frombuffer(tile, dtype, slices, body + 16 * slices + 4 * number * slices)


def _names(seen: Snapshot, tiles: Any) -> dict[str, dict[str, str]]:
    """Names of all slices by host and number."""
    found: dict[int, set[int]] = {}
    for tile in tiles:
        _, _, rows, _, *_ = _HEAD.unpack_from(tile)
        tracks = np.frombuffer(tile, np.uint32, rows, _HEAD.size)
        ends = np.frombuffer(tile, np.uint32, rows, _HEAD.size + 8 * rows).astype(np.int64)
        hosts = np.repeat(tracks >> seen.id_bits, np.diff(ends, prepend=0))
        names = _column(tile, 2, np.uint32)
        for number in np.unique(hosts).tolist():
            found.setdefault(number, set()).update(np.unique(names[hosts == number]).tolist())
    by_host = {seen.hosts[number]: sorted(names) for number, names in found.items()}
    return {host.name: {str(name): host.store.short_name(name) for name in names} for host, names in by_host.items()}


def _counters(run: ViewedRun, document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every counter over the whole session, by track."""
    span = int(document["span_ps"])
    for process in document["processes"]:
        tracks = process["tracks"]
        for track, kind in zip(tracks["id"], tracks["kind"], strict=True):
            if kind == "counter":
                yield str(track), counters_document(run, process["host"], track, 0, span, _COUNTER_WIDTH)
