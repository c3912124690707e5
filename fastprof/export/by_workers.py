"""An export whose hosts are written by workers, which count what they have so that ids can count on; this process
writes what belongs to the session.

Of a dataset, each task writes the files that some hosts share, and returns their rows of small tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from fastprof._native import records
from fastprof.decode.selection import Selection
from fastprof.decode.workers import Progress
from fastprof.errors import OutputError
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
from fastprof.export.hive import (
    OF_SOURCE,
    HostFolder,
    NoTally,
    check_any_hosts,
    find_log_owners,
    index_for,
    log_folder_name,
    write_host,
    write_parts,
    write_sources,
)
from fastprof.export.new_files import make_parts_folder, wrap_output_errors
from fastprof.export.run_here import describe_host, describe_selection
from fastprof.export.writers import WRITERS
from fastprof.schema.tables import VERSION
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TABLES, OpenSession, TableSet, make_source_metadata

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog


NUMBERED: Final = ("planes", "lines", "events", "flows")
SHARED: Final = "workers need the file systems of this machine"


@dataclass(frozen=True, slots=True)
class Counts:
    """What the session needs to know of a host. ``numbered``: how many it has of what ``NUMBERED`` names; ``source``:
    what ``OF_SOURCE`` names; ``recorded``: the tables that its capture has, None: those that any XSpace has."""

    numbered: tuple[int, ...]
    start_unix_ns: int | None
    source: tuple[Any, ...]
    recorded: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class CountHosts:
    """``flows``, ``recorded``: whether that is needed, which costs time in other formats than XSpace."""

    flows: bool
    recorded: bool

    def of_hosts(self, tables: TableSet, numbers: Sequence[int]) -> list[Counts]:
        session = tables.session
        counts = [*zip(*_count_numbered(session, self.flows), strict=True)]
        return [self._of_host(session, number, counts[number]) for number in numbers]

    def _of_host(self, session: OpenSession, number: int, counts: tuple[int, ...]) -> Counts:
        capture, environment = session.captures[number], session.index.captures[number].environment
        recorded = None
        if self.recorded and environment.transcribed_from is not None:
            recorded = tuple(TableSet(session, Selection((capture.host,))).recorded())
        return Counts(counts, environment.start_unix_ns, tuple(getattr(capture, name) for name in OF_SOURCE), recorded)


def _count_numbered(session: OpenSession, flows: bool) -> list[list[int]]:
    """Return how many of what ``NUMBERED`` names each capture has."""
    index = session.index
    index.ensure(records.HOP)
    planes = [len(part.capture.plane_keys) for part in index.captures]
    ends = [part.plane_base + count for part, count in zip(index.captures, planes, strict=True)]
    lines = [
        index.lines[(index.lines["plane_id"] >= part.plane_base) & (index.lines["plane_id"] < end)]
        for part, end in zip(index.captures, ends, strict=True)
    ]
    events = [int(some["event_count"].sum()) for some in lines]
    return [planes, list(map(len, lines)), events, session.flow_ends() if flows else [0] * len(planes)]


@dataclass(frozen=True, slots=True)
class HostOfSession:
    """``first``: the ids of its first plane, line, event and flow in the session."""

    number: int
    run: str | None
    name: str
    first: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WriteHosts:
    """``parts``: the folder of the workers' folders; ``out``: what the export is called. ``hosts``: those of the file;
    ``start_unix_ns``: of the session."""

    tables: tuple[str, ...]
    format: str
    parts: str
    out: str
    hosts: tuple[HostOfSession, ...]
    start_unix_ns: int | None

    def of_hosts(self, tables: TableSet, numbers: Sequence[int]) -> list[str]:
        """Return the name of the folder of each host."""
        with wrap_output_errors(self.out):
            index_for(tables, self.tables)
            first = [[0, *accumulate(counts)] for counts in _count_numbered(tables.session, "flows" in self.tables)]
            columns = [
                self._written(tables, self.hosts[number], [of_kind[number] for of_kind in first]) for number in numbers
            ]
            if "import_log" in self.tables:
                tables.session.read_all()
            return columns

    def _written(self, tables: TableSet, host: HostOfSession, here: Sequence[int]) -> str:
        name = f"{host.number}-{os.urandom(6).hex()}"
        part = Path(self.parts, name)
        try:
            part.mkdir()
        except FileNotFoundError:
            raise OutputError(f"a worker does not see it: {SHARED}", path=self.out) from None
        more = dict(zip(NUMBERED, (there - own for there, own in zip(host.first, here, strict=True)), strict=True))
        about = make_source_metadata(self.start_unix_ns, [])
        del about["sources"]
        folder = HostFolder(part, WRITERS[self.format], host.run, host.name, more.__getitem__, about)
        of_host = TableSet(tables.session, tables.selection.narrowed(hosts=host.name))
        write_host(of_host, folder, self.tables, NoTally())
        return name


class ExportedHost(Protocol):
    """A host: its file, the place in that, its number and name in the session."""

    @property
    def file(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...


class HostsOfWorkers(Protocol):
    """All hosts of a run, which other processes read. ``of_each``, ``of_files``, ``of_groups``: what these do with
    them, each file at once or some of them again, alone or several by one process."""

    @property
    def run(self) -> str | None: ...

    @property
    def log(self) -> ImportLog: ...
    @property
    def places(self) -> Sequence[ExportedHost]: ...
    @property
    def files(self) -> int: ...
    @property
    def progress(self) -> Progress | None: ...
    def of_each(self, work: Any, report: Callable[[int], None]) -> list[Any]: ...
    def of_files(
        self,
        works: Mapping[int, tuple[Any, Selection]],
        took: Callable[[int, list[Any]], None],
        report: Callable[[int], None],
    ) -> None: ...
    def of_groups(
        self, works: Sequence[tuple[Any, Sequence[tuple[int, Selection]]]], report: Callable[[int], None]
    ) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class RunOfWorkers:
    """``name``: None if the session is this run alone. ``selection``: of its hosts and their events; ids are counted
    of all hosts."""

    name: str | None
    hosts: HostsOfWorkers
    selection: Selection


def export_by_workers(
    runs: Sequence[RunOfWorkers],
    temporary: Path,
    out: str,
    tables: Sequence[str] | None,
    format: str,
    progress: Progress | None,
) -> None:
    """Export tables (None: ``TableSet.recorded``) as ``hive.export_tables`` does, under the new folder ``temporary``,
    which becomes ``out``."""
    check_any_hosts(sum(1 for run in runs if run.selection.hosts != ()))
    files = sum(run.hosts.files for run in runs)
    report = RunProgress(progress or runs[0].hosts.progress, files)
    count = CountHosts(tables is None or "flows" in tables, tables is None)
    counted = [_CountedRun(run, run.hosts.of_each(count, report.of("indexing", run.hosts.files))) for run in runs]
    names = {name for run in counted for name in run.recorded()} if tables is None else set(tables)
    chosen = [name for name in TABLES if name in names]
    report = RunProgress(report.progress, sum(len(run.of_file) for run in counted))
    first = [0] * len(NUMBERED)
    sources: list[tuple[Any, ...]] = []
    with make_parts_folder(temporary) as parts:
        for run in counted:
            export = _ExportByWorkers(run, first, temporary, parts, out, tuple(chosen), format)
            sources += export.write(report.of("exporting", len(run.of_file)))
            first = run.after(first)
    write_sources(
        temporary,
        [run.start for run in counted if run.of_file],
        [dict(zip(OF_SOURCE, source, strict=True)) for source in sources],
    )


class RunProgress:
    """Progress over the files of all runs."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress = progress
        self._total = total
        self._before = 0

    def of(self, stage: str, files: int) -> Callable[[int], None]:
        """Receive how many of some files are done."""
        before = self._before
        self._before += files

        def report(done: int) -> None:
            if self.progress is not None:
                self.progress(stage, before + done, self._total)

        return report


class _CountedRun:
    """A run, and what was counted of its hosts."""

    def __init__(self, run: RunOfWorkers, counts: Sequence[Counts]) -> None:
        self.run = run
        self.counts = counts
        places = run.hosts.places
        run.selection.check_hosts([place.name for place in places])
        wanted = None if run.selection.hosts is None else set(run.selection.hosts)
        self.chosen = [number for number, place in enumerate(places) if wanted is None or place.name in wanted]
        self.of_file: dict[int, list[int]] = {}
        """The numbers of selected hosts per file."""
        for number in self.chosen:
            self.of_file.setdefault(places[number].file, []).append(number)
        self.start = min((count.start_unix_ns for count in counts if count.start_unix_ns is not None), default=None)

    def recorded(self) -> set[str]:
        """The names of recorded tables, as ``TableSet.recorded`` returns them."""
        some = [self.counts[number].recorded for number in self.chosen]
        if None in some:
            return {name for name, table in TABLES.items() if not table.derived}
        return {name for names in some for name in names or ()}

    def after(self, first: Sequence[int]) -> list[int]:
        """Return the first ids of the next run."""
        return [sum(some) for some in zip(first, *(count.numbered for count in self.counts), strict=True)]


class _ExportByWorkers:
    """The files of a run."""

    def __init__(
        self,
        run: _CountedRun,
        first: Sequence[int],
        out: Path,
        parts: Path,
        name: str,
        chosen: tuple[str, ...],
        form: str,
    ) -> None:
        self.run, self.places = run, run.run.hosts.places
        self.out, self.parts, self.name = out, parts, name
        self.chosen, self.form = chosen, form
        counts = [count.numbered for count in run.counts]
        self.first = [
            *zip(*(accumulate(kind, initial=at) for at, *kind in zip(first, *counts, strict=True)), strict=True)
        ]
        self.in_file: dict[int, list[ExportedHost]] = {}
        for place in self.places:
            self.in_file.setdefault(place.file, []).append(place)
        self.written: set[int] = set()

    def write(self, report: Callable[[int], None]) -> list[tuple[Any, ...]]:
        """Return the sources of the hosts that were written."""
        hosts = self.run.run.hosts
        if not self.run.of_file:
            return []
        try:
            hosts.of_files({file: self._work(file) for file in self.run.of_file}, self._took, report)
        except OutputError:
            if not self.parts.exists():
                text = "the hidden folder beside it, in which it was written, was removed in the meantime"
                raise OutputError(text, path=self.name) from None
            raise
        done = [number for number in self.run.chosen if number in self.written]
        for number in done:
            log_folder_name(hosts.log, self._path(number), self.places[number].name)
        if "import_log" in self.chosen:
            self._write_log(done)
        return [self.run.counts[number].source for number in done]

    def _work(self, file: int) -> tuple[WriteHosts, Selection]:
        run = self.run.run
        every = sorted(self.in_file[file], key=lambda place: place.at)
        hosts = tuple(HostOfSession(host.number, run.name, host.name, self.first[host.number]) for host in every)
        names = {self.places[number].name for number in self.run.of_file[file]}
        times = run.selection.host_times
        selection = replace(
            run.selection,
            hosts=tuple(sorted(names)),
            host_times=None if times is None else tuple(time for time in times if time[0] in names),
        )
        work = WriteHosts(self.chosen, self.form, str(self.parts), self.name, hosts, self.run.start)
        return work, selection

    def _took(self, file: int, folders: list[str | None]) -> None:
        """Put what a worker wrote in its place."""
        for number in self.run.of_file[file]:
            part = folders[self.places[number].at]
            assert part is not None
            there, here = self._folder(self.parts / part, number), self._folder(self.out, number)
            with wrap_output_errors(self.name):
                for table in self.chosen:
                    if table != "import_log":
                        _move_folder(there.of_table(table), here.of_table(table), self.name)
            self.written.add(number)

    def _folder(self, out: Path, number: int) -> HostFolder:
        return HostFolder(out, WRITERS[self.form], self.run.run.name, self.places[number].name)

    def _path(self, number: int) -> str:
        path: str = self.run.counts[number].source[OF_SOURCE.index("path")]
        return path

    def _write_log(self, done: Sequence[int]) -> None:
        log = self.run.run.hosts.log.table()
        files = [(self._path(number), place.name) for number, place in enumerate(self.places)]
        rows: dict[str, list[int]] = {}
        for row, owner in enumerate(find_log_owners(log, files, [self.places[number].name for number in done])):
            rows.setdefault(owner, []).append(row)
        for number in done:
            source = dict(zip(OF_SOURCE, self.run.counts[number].source, strict=True))
            sources = [{name: source[name] for name in ("path", "size_bytes")}]
            about = {"fastprof.schema_version": VERSION} | make_source_metadata(self.run.start, sources)
            mine = log.take(pa.array(rows.get(self.places[number].name, []), pa.int64()))
            write_parts(self._folder(self.out, number), "import_log", [mine.replace_schema_metadata(about)])


def _move_folder(folder: Path, target: Path, name: str) -> None:
    try:
        folder.rename(target)
    except FileNotFoundError:
        raise OutputError(f"the files of a worker are not here: {SHARED}", path=name) from None


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
