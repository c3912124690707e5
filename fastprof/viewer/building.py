"""Makes the stores of a host, or opens those that a cache has: the events of the capture first, which takes least, then
those derived of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastprof._version import __version__
from fastprof.decode.workers import Progress
from fastprof.tables.host_events import read_host
from fastprof.tables.table_set import TableSet
from fastprof.viewer.cache_folder import CacheFolder, source_key
from fastprof.viewer.store import Store, TrackInput, build
from fastprof.viewer.store_file import FORMAT

if TYPE_CHECKING:
    from fastprof.derive.timeline.host_timeline import HostTimeline

Make = Callable[[Path], None]
_DERIVATION: Final = 2
"""Grows when other tracks are derived, or raw ones named or ordered otherwise: stores of before are made again."""


def raw_store(
    tables: TableSet, number: int, cache: CacheFolder | None = None, progress: Progress | None = None
) -> Store:
    """The events of host ``number``, all of them. Raises what reading a capture raises."""

    def make(path: Path) -> None:
        from fastprof.derive.host import Host
        from fastprof.derive.timeline.host_timeline import raw_timeline

        workers = tables.session.workers
        with workers.reporting(progress):
            timeline = raw_timeline(Host(read_host(tables, number, (), (), ()), workers))
            _write(path, timeline, tables, _processes(timeline))

    return _stored(tables, number, "raw", cache, make)


def derived_store(
    tables: TableSet,
    number: int,
    cache: CacheFolder | None = None,
    progress: Progress | None = None,
    derive: Callable[[], HostTimeline] | None = None,
) -> Store:
    """The events of tracks that are derived of others, as XProf derives them; there may be none. ``derive``: gives them
    where they are to be made, for callers that need them besides."""

    def make(path: Path) -> None:
        with tables.session.workers.reporting(progress):
            timeline = derive() if derive else _derived_timeline(tables, number)
            _write(path, timeline, tables, _processes(timeline))

    return _stored(tables, number, "derived", cache, make)


def _derived_timeline(tables: TableSet, number: int) -> HostTimeline:
    from fastprof.derive.host import Host
    from fastprof.derive.timeline.derived_lines import NEEDS, derived_timeline

    events = read_host(tables, number, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats)
    return derived_timeline(Host(events, tables.session.workers))


def _write(path: Path, timeline: HostTimeline, tables: TableSet, processes: list[dict[str, Any]]) -> None:
    tracks = [
        TrackInput(
            timeline.start_ps[track.first : track.last],
            timeline.duration_ps[track.first : track.last],
            timeline.name[track.first : track.last],
            track.first,
            {
                "process": track.process.number,
                "name": track.name,
                "tid": track.tid,
                "sort": track.sort,
                "kind": track.kind,
                "line": None if track.line is None else track.line.number,
            },
        )
        for track in timeline.tracks
    ]
    build(path, tracks, timeline.names, {"processes": processes}, tables.session.workers)


def _processes(timeline: HostTimeline) -> list[dict[str, Any]]:
    return [
        {
            "pid": process.pid,
            "name": process.name,
            "sort": process.sort,
            "shown": process.shown,
            "plane": process.plane.name,
            "kind": process.plane.kind,
        }
        for process in timeline.processes
    ]


def _stored(tables: TableSet, number: int, stage: str, cache: CacheFolder | None, make: Make) -> Store:
    """The store of a stage, of the cache. Without one, or of a stream, its file is gone as soon as it is open."""
    capture = tables.session.captures[number]
    made_by = (__version__, FORMAT, _DERIVATION)
    key = source_key(capture.path, stage, *made_by, number, capture.host, capture.salvage, str(tables.selection))
    if cache is None:
        with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
            path = Path(folder, "store")
            make(path)
            return Store(path)
    return cache.opened(key, make, Store)
