"""The hosts of a run that this process reads, for a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import pyarrow as pa

from fastprof.decode.import_log import ImportLog
from fastprof.decode.selection import Selection
from fastprof.decode.workers import Progress
from fastprof.decode.xspace_capture import Capture
from fastprof.export.dataset_files import (
    HostFacts,
    RunFiles,
    SmallRows,
    SmallTables,
    WrittenFile,
    open_hosts,
    write_group,
)
from fastprof.export.hive import EVENT_TABLES, ExportTally, event_count, index_for
from fastprof.tables.nesting_stream import PASSES
from fastprof.tables.table_set import OpenSession, TableSet

_SAMPLES, _SAMPLE_BYTES = 16, 1 << 16


def digest_capture(capture: Capture) -> str:
    """Return a digest of samples of a capture: of all bytes of a small one."""
    digest = blake2b(digest_size=16)
    size = capture.source.size
    step = max(_SAMPLE_BYTES, (size - _SAMPLE_BYTES) // (_SAMPLES - 1))
    for offset in range(0, size, step):
        digest.update(capture.source.read(offset, _SAMPLE_BYTES))
    return digest.hexdigest()


def describe_host(session: OpenSession, number: int) -> HostFacts:
    capture = session.captures[number]
    start = session.index.captures[number].environment.start_unix_ns
    return HostFacts(number, capture.host, capture.path, capture.size_bytes, start, digest_capture(capture))


def describe_selection(selection: Selection) -> str:
    """Return the selected events as text, without hosts: these are known by their captures."""
    return repr((selection.planes, selection.lines, selection.names, selection.time_ps, selection.host_times))


class RunHere:
    """A run of an open session."""

    def __init__(self, tables: TableSet, progress: Progress | None) -> None:
        self.tables = tables
        self.name = tables.session.run
        self.log: ImportLog = tables.session.log
        self.selected = describe_selection(tables.selection)
        self._progress = progress or tables.workers.progress

    def describe(self, recorded: bool) -> list[HostFacts]:  # noqa: ARG002
        hosts = set(self.tables.selected_hosts())
        session = self.tables.session
        return [describe_host(session, number) for number, host in enumerate(session.hosts) if host in hosts]

    def recorded(self) -> list[str]:
        return self.tables.recorded()

    def write(
        self, files: RunFiles, groups: Sequence[Sequence[HostFacts]], chosen: Sequence[str], small: SmallTables
    ) -> list[WrittenFile]:
        tables, written = self.tables, list[WrittenFile]()
        with tables.workers.reporting(self._progress):
            index_for(tables, chosen)
            hosts = open_hosts(tables, (host.number for group in groups for host in group), chosen)
            passes = any(name in EVENT_TABLES for name in chosen) + PASSES * ("nesting" in chosen)
            total = len(chosen) * sum(map(len, groups))
            tally = ExportTally(tables.workers, passes * event_count(tables), total)
            for group in groups:
                sizes = {host.host: host.size_bytes for host in group}

                def take(host: str, rows: SmallRows, sizes: dict[str, int] = sizes) -> None:
                    small.add(rows, sizes[host])

                written += write_group(
                    files, group, (host for _, host in zip(group, hosts, strict=False)), chosen, take, tally
                )
        return written

    def read_log(self) -> pa.Table:
        return TableSet(self.tables.session, self.tables.selection)["import_log"]
