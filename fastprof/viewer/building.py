"""Makes the stores and facts of a host, or opens those that a cache has.

The events of the capture come first, decoded without stats, so that they can be drawn soon; they are decoded once more,
with stats, for what is derived. Both times read one index, and one set of names, of one opened capture.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastprof._version import __version__
from fastprof.decode.workers import Progress
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.host_facts import FORMAT as FACTS_FORMAT
from fastprof.viewer.host_facts import VERSION as FACTS_VERSION
from fastprof.viewer.host_facts import HostFacts, fact_columns, write_facts
from fastprof.viewer.run_version import capture_key, check_capture
from fastprof.viewer.store import Store, TrackInput, build
from fastprof.viewer.store_file import FORMAT

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.timeline.derived_track import DerivedTimeline
    from fastprof.derive.timeline.host_timeline import HostTimeline

T = TypeVar("T")
Make = Callable[[Path], None]
_DERIVATION: Final = 4
"""Grows when other tracks are derived, raw ones are named or ordered otherwise, or more is kept of a host: older stores
are made again."""
_STORE: Final = (__version__, FORMAT, _DERIVATION)


def raw_store(
    tables: TableSet, number: int, cache: CacheFolder | None = None, progress: Progress | None = None
) -> Store:
    """The events of host ``number``, all of them. Raises what reading a capture raises."""

    def make(path: Path) -> None:
        from fastprof.derive.host import Host
        from fastprof.derive.timeline.host_timeline import raw_timeline
        from fastprof.derive.timeline.run_range import run_range

        workers = tables.session.workers
        with workers.reporting(progress):
            events = read_host(tables, number, (), (), ())
            timeline = raw_timeline(Host(events, workers))
            about = {
                "processes": _processes(timeline),
                "untimed": sum(events.untimed.values()),
                "run": run_range(events),
            }
            _write(path, timeline, tables, about)

    return _kept(tables, number, ("raw", *_STORE), cache, make, Store)


class DerivedHost:
    """Host ``number`` with the stats that tracks and facts are derived from. It is read when it is first needed, after
    ``pause``: not at all if the cache has all that is made of it."""

    def __init__(self, tables: TableSet, number: int, pause: Callable[[], object] = lambda: None) -> None:
        self.tables = tables
        self.number = number
        self._pause = pause

    @cached_property
    def host(self) -> Host:
        from fastprof.derive.host import Host
        from fastprof.derive.timeline.derived_lines import NEEDS

        self._pause()
        events = read_host(self.tables, self.number, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats)
        return Host(events, self.tables.session.workers)

    @cached_property
    def timeline(self) -> DerivedTimeline:
        from fastprof.derive.timeline.derived_lines import derived_timeline

        return derived_timeline(self.host)


def derived_store(of: DerivedHost, cache: CacheFolder | None = None, progress: Progress | None = None) -> Store:
    """The events of tracks that are derived from others, as XProf derives them; there may be none."""

    def make(path: Path) -> None:
        with of.tables.session.workers.reporting(progress):
            _write(path, of.timeline, of.tables, {"processes": _processes(of.timeline)})

    return _kept(of.tables, of.number, ("derived", *_STORE), cache, make, Store)


def derived_facts(of: DerivedHost, cache: CacheFolder | None = None, progress: Progress | None = None) -> HostFacts:
    """What is derived from a host besides tracks."""

    def make(path: Path) -> None:
        with of.tables.session.workers.reporting(progress):
            write_facts(path, fact_columns(of.tables, of.number, of.host, of.timeline))

    return _kept(of.tables, of.number, ("facts", FACTS_FORMAT, FACTS_VERSION), cache, make, HostFacts)


def _write(path: Path, timeline: HostTimeline, tables: TableSet, about: dict[str, Any]) -> None:
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
                "sort": track.tid,
                "kind": track.kind,
                "line": None if track.line is None else track.line.number,
            },
        )
        for track in timeline.tracks
    ]
    build(path, tracks, timeline.names, about, tables.session.workers)


def _processes(timeline: HostTimeline) -> list[dict[str, Any]]:
    return [
        {
            "pid": process.pid,
            "name": process.name,
            "sort": process.pid,
            "shown": process.shown,
            "plane": process.plane.name,
            "kind": process.plane.kind,
        }
        for process in timeline.processes
    ]


def _kept(
    tables: TableSet,
    number: int,
    what: tuple[object, ...],
    cache: CacheFolder | None,
    make: Make,
    read: Callable[[Path], T],
) -> T:
    """Whatever ``read`` reads from a file of the cache, which ``make`` writes. Without a cache, and for a stream, the
    file is gone as soon as it is open. ChangedError: the capture changed; nothing made of it is kept."""
    capture = tables.session.captures[number]

    def made(path: Path) -> None:
        make(path)
        check_capture(capture)

    if cache is None:
        with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
            made(Path(folder, "made"))
            return read(Path(folder, "made"))
    key = capture_key(capture, *what, number, capture.host, capture.salvage, str(tables.selection))
    return cache.opened(key, made, read)
