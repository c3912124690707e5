"""The hosts of a run that workers read, for a dataset: each task writes the files that some hosts share, and returns
their rows of small tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from fastprof.decode.selection import Selection
from fastprof.decode.workers import Progress
from fastprof.errors import OutputError
from fastprof.export.by_workers import SHARED, ExportedHost, RunOfWorkers, RunProgress
from fastprof.export.dataset_files import (
    HostFacts,
    HostTables,
    RunFiles,
    SmallRows,
    SmallTables,
    WrittenFile,
    open_hosts,
    write_group,
)
from fastprof.export.run_here import describe_host, describe_selection
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TABLES, TableSet


@dataclass(frozen=True, slots=True)
class DescribeHosts:
    """Returns the facts of each host, and the tables that its capture has if ``recorded``, None for an XSpace."""

    recorded: bool

    def of_hosts(self, tables: TableSet, numbers: Sequence[int]) -> list[tuple[HostFacts, list[str] | None]]:
        session = tables.session
        described: list[tuple[HostFacts, list[str] | None]] = []
        for number in numbers:
            recorded = None
            if self.recorded and session.index.captures[number].environment.transcribed_from is not None:
                recorded = TableSet(session, Selection((session.hosts[number],))).recorded()
            described.append((describe_host(session, number), recorded))
        return described


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Writes the files of a group. ``places``: of its hosts in each file, which may be read several times."""

    files: RunFiles
    group: tuple[HostFacts, ...]
    chosen: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]

    def of_files(self, files: Iterator[tuple[int, TableSet]]) -> tuple[list[WrittenFile], list[tuple[str, SmallRows]]]:
        """Return the files, and the rows of small tables of each host."""
        small: list[tuple[str, SmallRows]] = []

        def hosts() -> Iterator[HostTables]:
            for file, tables in files:
                yield from open_hosts(tables, self.places[file], self.chosen)
                if "import_log" in self.chosen:
                    tables.session.read_all()

        def take(host: str, rows: SmallRows) -> None:
            small.append((host, rows))

        return write_group(self.files, self.group, hosts(), self.chosen, take), small


class RunByWorkers:
    """A run whose hosts workers read."""

    def __init__(self, run: RunOfWorkers, progress: Progress | None) -> None:
        self._run = run
        self._hosts = run.hosts
        self.name = run.hosts.run
        self.log = run.hosts.log
        self.selected = describe_selection(run.selection)
        self._progress = RunProgress(progress or run.hosts.progress, run.hosts.files)
        self._recorded: list[list[str] | None] = []
        self._places: dict[int, ExportedHost] = {}

    def describe(self, recorded: bool) -> list[HostFacts]:
        """Return the facts of the selected hosts. NotFoundError: a selected host does not exist."""
        described = self._hosts.of_each(DescribeHosts(recorded), self._progress.of("indexing", self._hosts.files))
        places = self._hosts.places
        selection = self._run.selection
        selection.check_hosts([place.name for place in places])
        facts = []
        for place, (host, tables) in zip(places, described, strict=True):
            if selection.hosts is None or place.name in selection.hosts:
                self._places[place.number] = place
                self._recorded.append(tables)
                facts.append(replace(host, number=place.number, host=place.name))
        return facts

    def recorded(self) -> list[str]:
        if None in self._recorded:  # as of ``TableSet.recorded``
            return [name for name, table in TABLES.items() if not table.derived]
        names = {name for tables in self._recorded for name in tables or ()}
        return [name for name in TABLES if name in names]

    def write(
        self, files: RunFiles, groups: Sequence[Sequence[HostFacts]], chosen: Sequence[str], small: SmallTables
    ) -> list[WrittenFile]:
        works = [self._plan(files, group, chosen) for group in groups]
        report = RunProgress(self._progress.progress, len(works)).of("exporting", len(works))
        sizes = {host.host: host.size_bytes for group in groups for host in group}
        written: list[WrittenFile] = []
        for of_group, rows_of_hosts in self._hosts.of_groups(works, report):
            written += of_group
            for host, rows in rows_of_hosts:
                small.add(rows, sizes[host])
        tables = {file.table for file in written}
        there = {name for table in tables for name in files.destination.list(files.name_folder(table))}
        if not {file.name for file in written} <= there:
            raise OutputError(f"the files of a worker are not here: {SHARED}", path=files.destination.place)
        return written

    def _plan(
        self, files: RunFiles, group: Sequence[HostFacts], chosen: Sequence[str]
    ) -> tuple[WriteGroup, list[tuple[int, Selection]]]:
        """Return the work of a group, and how its files are read, in the order of hosts."""
        of_files: list[tuple[int, list[int]]] = []
        for host in group:
            place = self._places[host.number]
            if not of_files or of_files[-1][0] != place.file:
                of_files.append((place.file, []))
            of_files[-1][1].append(place.at)
        names = {host.host for host in group}
        times = self._run.selection.host_times
        selection = replace(
            self._run.selection,
            hosts=tuple(sorted(names)),
            host_times=None if times is None else tuple(time for time in times if time[0] in names),
        )
        places = tuple(tuple(numbers) for _, numbers in of_files)
        work = WriteGroup(files, tuple(group), tuple(chosen), places)
        return work, [(file, selection) for file, _ in of_files]

    def read_log(self) -> pa.Table:
        return self.log.table()
