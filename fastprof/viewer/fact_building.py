"""Makes the facts of a host (host_facts.py), or opens those that a cache has."""

from __future__ import annotations

import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fastprof.decode.workers import Progress
from fastprof.tables.table_set import TableSet
from fastprof.viewer.cache_folder import CacheFolder, source_key
from fastprof.viewer.fact_file import FORMAT, write_facts
from fastprof.viewer.host_facts import VERSION, HostFacts, fact_columns, facts_in

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.timeline.derived_track import DerivedTimeline


class LateHost:
    """Host ``number`` of the session, read when it is first needed: not at all where the cache has all that is made of
    it."""

    def __init__(self, tables: TableSet, number: int) -> None:
        self.tables = tables
        self.number = number

    @cached_property
    def host(self) -> Host:
        from fastprof.derive.host import Host
        from fastprof.derive.timeline.derived_lines import NEEDS
        from fastprof.tables.host_events import read_host

        events = read_host(self.tables, self.number, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats)
        return Host(events, self.tables.session.workers)

    @cached_property
    def derived(self) -> DerivedTimeline:
        from fastprof.derive.timeline.derived_lines import derived_timeline

        return derived_timeline(self.host)


def stored_facts(late: LateHost, cache: CacheFolder | None, progress: Progress | None = None) -> HostFacts:
    """The facts of a host, of the cache where there is one."""

    def make(path: Path) -> None:
        with late.tables.session.workers.reporting(progress):
            write_facts(path, fact_columns(late.tables, late.number, late.host, late.derived))

    if cache is None:
        with tempfile.TemporaryDirectory(prefix="fastprof-") as folder:
            make(Path(folder, "facts"))
            return facts_in(Path(folder, "facts"))
    capture, selection = late.tables.session.captures[late.number], late.tables.selection
    key = source_key(capture.path, "facts", FORMAT, VERSION, late.number, capture.host, capture.salvage, str(selection))
    return cache.opened(key, make, facts_in)
