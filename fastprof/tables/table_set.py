"""An open session, and its tables: decoded on first use, in parallel, and only what is requested."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof._native import records
from fastprof._native.xspace import Memory
from fastprof._version import __version__
from fastprof.decode import metadata_tables
from fastprof.decode.decoder import EVENT_COLUMNS, STAT_COLUMNS, Decoded, Decoder, Request, Share
from fastprof.decode.import_log import ImportLog
from fastprof.decode.index import Index
from fastprof.decode.jobs import Jobs, note_jobs, read_job_facts, sort_by_rank, split_by_host
from fastprof.decode.nesting import (
    ASYNC_STAT,
    find_placement,
    get_int64s,
    make_nesting_arrays,
    nest_events,
    number_lines,
)
from fastprof.decode.selection import Selection, Wanted
from fastprof.decode.span_stats import SpanStats, read_metadata_stats
from fastprof.decode.text_pools import TextTable
from fastprof.decode.workers import Workers
from fastprof.decode.xspace_capture import Capture, name_hosts
from fastprof.errors import CaptureError, ChangedError, FastprofError, MemoryLimitError, UsageError
from fastprof.hlo.program_tables import PROGRAM_TABLES
from fastprof.inputs.resolve import Session
from fastprof.inputs.source import measure_objects, open_ahead
from fastprof.schema.capture_tables import CAPTURE_TABLES, EVENT_ID
from fastprof.schema.columns import Int64s, find_runs
from fastprof.schema.tables import VERSION, Count, Kind, Picoseconds, TableSchema
from fastprof.tables.flows import FLOWS, make_flows_table
from fastprof.tables.graph_nodes import GRAPH_NODES, make_graph_nodes_table, read_graphs
from fastprof.tables.host_clocks import note_clocks
from fastprof.tables.tfprof_tables import TFPROF_TABLES
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.hlo.programs import Program
    from fastprof.inputs.profile_columns import ProfileColumns
    from fastprof.tables.flows import Arrows
    from fastprof.tables.tfprof_rows import LazyColumns

NESTING: Final = TableSchema("nesting", "an event and its place among the events of its line", (
    EVENT_ID,
    Kind(pa.int32())("depth", "number of events that enclose the event on its line; null: an aggregated event"),
    Count("parent_id", "innermost event that encloses the event; null: no event does"),
    Picoseconds("self_time_ps", "duration minus the time that children cover; null: an aggregated event"),
), derived=True)  # fmt: skip

TABLES: Final = (
    CAPTURE_TABLES | PROGRAM_TABLES | TFPROF_TABLES | {table.name: table for table in (NESTING, FLOWS, GRAPH_NODES)}
)

BATCH_ROWS = 1 << 18
_OPENED_AHEAD = 16
"""Captures in stores that are fetched while the first of them is opened."""
_LIKENED, _LIKENABLE = 2_000, 100  # names that a suggestion compares, and their letters: likeness costs their square


def explain_missing_table(name: object) -> str:
    """Explain that this table does not exist, and list those that do."""
    return f"no table {name!r}; {_list_names(name, TABLES)}"


def _list_names(name: object, known: Collection[str]) -> str:
    return f"there are: {', '.join(known)}{suggest_name(name, known) if isinstance(name, str) else ''}"


class TableSet(Mapping[str, pa.Table]):
    """Tables by name, of one selection of a session. What is decoded is kept."""

    def __init__(self, session: OpenSession, selection: Selection) -> None:
        selection.check_hosts(session.hosts)
        self.session = session
        self.selection = selection
        self.wanted = Wanted(session.index, selection)
        self._tables: dict[str, pa.Table] = {}
        self._reading = threading.RLock()

    def __getitem__(self, name: str) -> pa.Table:
        if name not in TABLES:
            raise KeyError(explain_missing_table(name))
        if name not in self._tables:
            self.read(name)
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    def decoded(self) -> Mapping[str, pa.Table]:
        """Return the tables that have been decoded so far, by name."""
        return self._tables

    def __contains__(self, name: object) -> bool:
        return name in TABLES

    def __repr__(self) -> str:
        return f"<fastprof tables: {', '.join(TABLES)}>"

    def read(self, *names: str) -> dict[str, pa.Table]:
        """Decode several tables in one pass."""
        for name in names:
            if name not in TABLES:
                raise UsageError(explain_missing_table(name))
        with self._reading:  # so that each is decoded once
            self._decode_missing([name for name in names if name not in self._tables])
        return {name: self._tables[name] for name in names}

    def _decode_missing(self, missing: Sequence[str]) -> None:
        events = EVENT_COLUMNS if "events" in missing else ()
        stats = STAT_COLUMNS if "event_stats" in missing else ()
        if events or stats:
            decoded = self.decode(Request(events, stats))
            if events:
                self._tables["events"] = self.table(TABLES["events"], decoded.events)
            if stats:
                self._tables["event_stats"] = self.table(TABLES["event_stats"], decoded.stats)
        of_programs = [name for name in missing if name in PROGRAM_TABLES]
        if of_programs:
            from fastprof.hlo.capture_tables import make_hlo_tables  # most captures carry no programs

            programs = ((host, program, self.session.log) for host, program in self.programs())
            for name, table in make_hlo_tables(of_programs, programs).items():
                self._tables[name] = self._described(table)
        for name in missing:
            if name not in self._tables:
                self._tables[name] = self._small_table(name)

    def table(
        self, schema: TableSchema, arrays: Mapping[str, pa.Array], beside: Mapping[str, pa.Array] | None = None
    ) -> pa.Table:
        """Return arrays as a table with our metadata; ``beside``: stats of events, by name."""
        fields = [schema[name].field(array.type) for name, array in arrays.items()]
        for name, array in (beside or {}).items():
            text = {"description": f"stat {name}: the event's own, else its metadata's"}
            fields.append(pa.field(name, array.type, True, text))
        columns = [*arrays.values(), *(beside or {}).values()]
        return self._described(pa.Table.from_arrays(columns, schema=pa.schema(fields)))

    def _described(self, table: pa.Table) -> pa.Table:
        about = self.session.metadata(self.selection.hosts)
        return table.replace_schema_metadata({"fastprof.schema_version": VERSION, **dict(about)})

    # ---- events

    def decoder(self, request: Request, selection: Selection | None = None) -> Decoder:
        """Return the decoder of ``selection``, or of this table set's own."""
        wanted = self.wanted if selection is None else Wanted(self.session.index, selection)
        return Decoder(self.session.index, wanted, request)

    def decode(self, request: Request, selection: Selection | None = None) -> Decoded:
        decoder = self.decoder(request, selection)
        return decoder.decode(list(decoder.blocks()))

    def event_table(self, columns: Sequence[str] | None, stats: Sequence[str]) -> pa.Table:
        request = self.event_request(columns, stats)
        decoded = self.decode(request)
        return self.table(TABLES["events"], decoded.events, decoded.wide)

    def batches(self, request: Request, rows: int, decoder: Decoder | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the requested columns as record batches of about ``rows`` rows and of one schema; one empty batch if
        there are no events. ``decoder``: of this request, if there is one already."""
        decoder = decoder or self.decoder(request)
        share: Share | None = None
        for share in decoder.shares(rows):
            yield from self._batch(decoder.decode(share, fixed_types=True)).to_batches(max_chunksize=rows)
        if share is None:
            empty = self._batch(decoder.decode([], fixed_types=True)).combine_chunks()
            arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in empty.columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=empty.schema)

    def _batch(self, decoded: Decoded) -> pa.Table:
        return self.table(TABLES["events"], decoded.events, decoded.wide)

    def stat_names(self) -> list[str]:
        """Return the names of the stats that the selected events or their metadata have."""
        decoder = self.decoder(Request(stats=("stat",)))
        names = set(self["event_metadata_stats"].column("stat").unique().to_pylist())
        for share in decoder.shares(BATCH_ROWS):
            names.update(decoder.decode(share, stage=None).stats["stat"].unique().to_pylist())
        return sorted(names - {None})  # a damaged stat that was salvaged has no name

    def event_request(
        self, columns: Sequence[str] | None, stats: Sequence[str], others: Sequence[TableSet] = ()
    ) -> Request:
        """Return the request of event_table, of this run and of ``others``. UsageError: a name is unknown or doubled,
        or no capture of the session declares a stat of this name. Whether a host, or an event of the selection, has the
        stat does not matter: it is null where it is absent."""
        if isinstance(columns, str):
            raise UsageError("columns takes a list of names")
        chosen = EVENT_COLUMNS if columns is None else tuple(columns)
        for name in chosen:
            if name not in EVENT_COLUMNS:
                raise UsageError(f"events have no column {name!r}; {_list_names(name, EVENT_COLUMNS)}")
        if isinstance(stats, str) or not all(isinstance(name, str) for name in stats):
            raise UsageError("stats takes a list of names")
        for name in stats:
            if not name.isascii() and name.encode(errors="replace").decode() != name:
                raise UsageError(f"no stat is called {name!r}: it is not text")
        clashes = [name for name in stats if name in chosen] + [n for n in stats if list(stats).count(n) > 1]
        if clashes or len(set(chosen)) < len(chosen):
            raise UsageError(f"a column is requested twice: {clashes[0] if clashes else chosen}")
        for name in stats:
            _check_declared(name, [tables.session.index.names.stats for tables in (self, *others)])
        return Request(chosen, (), tuple(stats))

    # ---- the other tables

    def _small_table(self, name: str) -> pa.Table:
        if name == "nesting":
            return self._nesting()
        if name == "flows":
            return self._flows()
        if name in TFPROF_TABLES:
            return self._tfprof(name)
        index = self.session.index
        if name == "graph_nodes":
            table = make_graph_nodes_table(index, np.flatnonzero(self._wanted_hosts()).tolist())
        elif name == "import_log":
            self.session.read_all()
            table = self.session.log.table()
        else:
            index.ensure(records.HOP)
            build: Any = getattr(metadata_tables, f"make_{name}_table")
            wanted: Any = {"hosts": self._wanted_hosts, "lines": self.wanted.lines}.get(name, self.wanted.planes)
            table = build(index, wanted())
        return self._described(table)

    def recorded(self) -> list[str]:
        """Return the names of the tables that are read from the captures. Of traces in other formats these are flows,
        too, programs and profiles of tfprof only if there are any."""
        names = [name for name, table in TABLES.items() if not table.derived]
        session, numbers = self.session, np.flatnonzero(self._wanted_hosts()).tolist()
        if any(session.index.captures[number].environment.transcribed_from is None for number in numbers):
            return names
        absent = {*(() if self.programs() else PROGRAM_TABLES)}
        if all(session.tfprof(number) is None for number in numbers):
            absent.update(TFPROF_TABLES)
        arrows = session.arrows()
        flows = [FLOWS.name] if any(len(arrow.flow) for number in numbers for arrow in arrows[number]) else []
        return [*(name for name in names if name not in absent), *flows]

    def programs(self) -> list[tuple[str, Program]]:
        """Return the compiled programs of the selected hosts, whatever else is selected, with their hosts. None is
        decoded."""
        numbers = np.flatnonzero(self._wanted_hosts()).tolist()
        return [(self.session.hosts[i], program) for i in numbers for program in self.session.programs(i)]

    @property
    def workers(self) -> Workers:
        return self.session.workers

    def selected_hosts(self) -> list[str]:
        return [host for host, wanted in zip(self.session.hosts, self._wanted_hosts(), strict=True) if wanted]

    def _wanted_hosts(self) -> list[bool]:
        hosts = self.selection.hosts
        return [hosts is None or host in hosts for host in self.session.hosts]

    def _nesting(self) -> pa.Table:
        """Nesting of all events of the selected lines, then the rows of the selected events."""
        of_lines = self.selection.of_whole_lines()
        events = self.decode(self.nesting_request(), of_lines)
        lines = self.session.index.lines
        chosen = np.flatnonzero(Wanted(self.session.index, of_lines).lines())
        rows = number_lines(lines["event_count"][chosen], lines["first_event_id"][chosen])
        if rows["last"][-1:].sum() != events.rows:  # faults have been left out: count what is there
            line = np.asarray(events.events["line_id"])
            starts = find_runs(line)
            counts = np.diff(np.append(starts, len(line)))
            chosen, rows = line[starts], number_lines(counts, get_int64s(events.events["event_id"])[starts])
        start = events.events["start_ps"]
        places = find_placement(start, events.flags.get(ASYNC_STAT))
        depth, parent, self_time = nest_events(
            get_int64s(start),
            get_int64s(events.events["duration_ps"]),
            places,
            rows,
            self.session.workers,
            lines["slack_ps"][chosen],
        )
        columns = make_nesting_arrays(events.events["event_id"], depth, parent, self_time, places)
        table = self.table(NESTING, dict(zip(NESTING.names(), columns, strict=True)))
        if not self.selection.filters_events:
            return table
        selected = get_int64s(self.decode(Request(("event_id",))).events["event_id"])
        return table.take(pa.array(np.searchsorted(get_int64s(table["event_id"]), selected)))

    def _flows(self) -> pa.Table:
        """Return the arrows that have a selected event at an end, or at both."""
        session, wanted = self.session, self._wanted_hosts()
        hosts = [(host, arrow) for host, arrows, is_wanted in zip(session.hosts, session.arrows(), wanted, strict=True)
                 for arrow in arrows if is_wanted]  # fmt: skip
        if hosts and (self.selection.filters_events or self.selection.planes or self.selection.lines):
            selected = get_int64s(self.decode(Request(("event_id",))).events["event_id"])
            hosts = [
                (host, events.chosen(np.isin(events.from_event_id, selected) | np.isin(events.to_event_id, selected)))
                for host, events in hosts
            ]
        return self.table(FLOWS, make_flows_table(hosts))

    def _tfprof(self, name: str) -> pa.Table:
        """Return a table of the profiles of the selected hosts, whatever else is selected."""
        profiles = [(number, self.session.tfprof(number)) for number in np.flatnonzero(self._wanted_hosts()).tolist()]
        known = [(self.session.captures[number], profile) for number, profile in profiles if profile is not None]
        if not known:
            return self._described(TFPROF_TABLES[name].empty())
        from fastprof.tables.tfprof_rows import make_tfprof_table  # late: most captures carry no profile

        parts = ((capture.host, profile, capture.path) for capture, profile in known)
        return self._described(make_tfprof_table(TFPROF_TABLES[name], parts))

    def tfprof_columns(self, host: str) -> dict[str, LazyColumns]:
        """Return the tables of tfprof for one host, a column at a time. CaptureError, KeyError: it has no profile."""
        from fastprof.tables.tfprof_rows import LazyColumns

        number = self.session.hosts.index(host)
        profile, capture = self.session.tfprof(number), self.session.captures[number]
        if profile is None:
            raise KeyError(host)
        return {name: LazyColumns(name, host, profile, capture.path) for name in TFPROF_TABLES}

    def nesting_request(self) -> Request:
        """Return the request of what nesting is computed from. The stat of asynchronous events is only looked for where
        a plane has it."""
        has_async = self.session.index.names.stats.find(ASYNC_STAT) >= 0
        return Request(("event_id", "line_id", "start_ps", "duration_ps"), flags=(ASYNC_STAT,) if has_async else ())


def _check_declared(stat: str, declared: Sequence[TextTable]) -> None:
    """UsageError: no capture of the session declares a stat of this name. Stats that the captures use without a name,
    ``#12``, are known only once all events are read; they pass."""
    if any(texts.find(stat) >= 0 for texts in declared) or re.fullmatch("#-?[0-9]+", stat):
        return
    names = [name for texts in declared for name in texts.array().slice(0, _LIKENED).to_pylist()]
    likely = [name for name in dict.fromkeys(names) if len(name) <= _LIKENABLE][:_LIKENED]
    raise UsageError(f"no capture has a stat {stat!r}; the table stat_metadata lists all{suggest_name(stat, likely)}")


class OpenSession:
    """The captures of a session, opened; what all selections of it share. ``first``: the number of the first host,
    ``files``: how many files the session has, and ``names``: what it calls these hosts, if these captures are some of
    it."""

    def __init__(
        self,
        session: Session,
        on_error: str,
        workers: Workers,
        max_unpacked: int,
        first: int = 0,
        files: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.workers = workers
        self.first = first
        self.files = len(session.files) if files is None else files
        self.log = ImportLog()
        self.run = session.run
        for remark in session.remarks:
            self.log.add(remark.severity, remark.code, remark.message, remark.path)
        self.captures = sort_by_rank(self._open(session, on_error, max_unpacked), self.log)
        if names is None:
            name_hosts(self.captures, self.log)
        else:
            for capture, name in zip(self.captures, names, strict=False):
                capture.host = name
        self.index = Index(self.captures, workers, self.log)
        note_clocks(self.captures, [part.environment.start_unix_ns for part in self.index.captures], self.log)
        self._all_read = False
        self._reading_all = threading.Lock()
        self._programs: dict[int, list[Program]] = {}
        self._profiles: dict[int, ProfileColumns | None] = {}
        self._listing = [threading.Lock() for _ in self.captures]
        self._arrows: list[list[Arrows]] | None = None
        self._flow_ends: list[int] = []
        self._reading_flows = threading.Lock()
        self._jobs: Jobs | None = None
        self._finding_jobs = threading.Lock()

    def _open(self, session: Session, on_error: str, max_unpacked: int) -> list[Capture]:
        memory = Memory()
        captures: list[Capture] = []
        failure: FastprofError | None = None
        sizes = measure_objects(file.source for file in session.files)
        for number, file in enumerate(session.files):
            if any(sizes):
                self.workers.report("fetching bytes", sum(sizes[:number]), sum(sizes))
            try:
                open_ahead(ahead.source for ahead in session.files[number : number + _OPENED_AHEAD])
                capture = Capture(file, memory, self.log, on_error == "salvage", max_unpacked)
                self.workers.expect(capture.source.size)
                if capture.only_programs:
                    from fastprof.hlo.programs import check_sizes

                    capture.size_bytes = sum(check_sizes(capture.program_files))
                if on_error == "skip":  # reads all that can be broken, before a broken host has numbered anything
                    alone = Index([capture], self.workers, ImportLog())
                    metadata_tables.read_all(alone)
                    read_graphs(alone, 0)
                captures += split_by_host(capture, file)
            except (ChangedError, MemoryLimitError):
                raise  # no fault of the host
            except FastprofError as error:
                if on_error == "raise":
                    raise
                failure = error
                self.log.add("error", "skipped_host", error.message, error.path, offset=error.offset)
        if not captures and failure is not None:
            raise failure
        return captures

    def read_all(self) -> None:
        """Read all that can be faulty, once, so that the log knows of it."""
        with self._reading_all:
            if self._all_read:
                return
            metadata_tables.read_all(self.index)
            for number in range(len(self.captures)):
                for program in self.programs(number):
                    with suppress(CaptureError):  # which the log knows then
                        program.read(self.log)
                read_graphs(self.index, number)
            self.arrows()
            self.jobs()
            self._all_read = True

    def arrows(self) -> list[list[Arrows]]:
        """Return the arrows of flows that each capture records, read once. CaptureError: they are damaged.
        ChangedError."""
        for capture in self.captures:
            capture.source.check_unchanged()
        if all(part.environment.transcribed_from is None for part in self.index.captures):
            return [[] for _ in self.captures]  # XSpaces record none
        from fastprof.tables.flows import make_arrows, read_capture_flows

        with self._reading_flows:
            if self._arrows is None:
                parts = [read_capture_flows(part, self.log) for part in self.index.captures]
                self._flow_ends = [sum(len(flows.ends) for flows in part) for part in parts]
                before = accumulate(self._flow_ends, initial=0)
                self._arrows = [
                    make_arrows(self.index, number, part, first)
                    for number, (part, first) in enumerate(zip(parts, before, strict=False))
                ]
        return self._arrows

    def tfprof(self, number: int) -> ProfileColumns | None:
        """Return the profile of tfprof that capture ``number`` carries, or None. CaptureError: it is damaged.
        ChangedError."""
        capture = self.captures[number]
        capture.source.check_unchanged()
        if self.index.captures[number].environment.transcribed_from is None:
            return None  # XSpaces carry none
        from fastprof.decode.span_stats import read_tfprof_profile

        with self._listing[number]:
            if number not in self._profiles:
                self._profiles[number] = read_tfprof_profile(capture)
            return self._profiles[number]

    def flow_ends(self) -> list[int]:
        """Return the number of ends of flows that each capture records."""
        self.arrows()
        return self._flow_ends or [0] * len(self.captures)

    def metadata_stats(self, number: int) -> tuple[Int64s, SpanStats]:
        """Return the stats of the event metadata of capture ``number``, and the row of metadata that each is of."""
        spans, stats = read_metadata_stats(self.index.names.texts[number])
        return spans["owner"], stats

    def programs(self, number: int, metadata: tuple[Int64s, SpanStats] | None = None) -> list[Program]:
        """Return the compiled programs of capture ``number``, listed once. ``metadata``: what ``read_metadata_stats``
        returned, where it has been read."""
        with self._listing[number]:
            if number not in self._programs:
                from fastprof.hlo.programs import STATS, list_programs_of_capture  # most captures carry no programs

                numbers = {name: self.index.names.stats.find(name) for name in STATS}
                owners, stats = metadata or self.metadata_stats(number)
                self._programs[number] = list_programs_of_capture(self.captures[number], owners, stats, numbers)
            return self._programs[number]

    @property
    def hosts(self) -> list[str]:
        return [capture.host for capture in self.captures]

    def jobs(self) -> Jobs:
        """Return the numbers of the captures by job, found once. The log has a row if these are several."""
        with self._finding_jobs:
            if self._jobs is None:
                parts = self.index.captures
                facts = [read_job_facts(part.capture, part.environment) for part in parts] if len(parts) > 1 else [None]
                self._jobs = note_jobs(self.hosts, facts, self.log)
            return self._jobs

    def start_unix_ns(self) -> int | None:
        """Return the start of profiling on the first host; None: not recorded."""
        starts = (part.environment.start_unix_ns for part in self.index.captures)
        return min((start for start in starts if start is not None), default=None)

    def metadata(self, hosts: Sequence[str] | None) -> list[tuple[str, str]]:
        """Return the metadata of every table about its sources. ``hosts``: those of its rows, or None for all."""
        captures = self.captures if hosts is None else [c for c in self.captures if c.host in hosts]
        sources = [{"path": c.path, "size_bytes": c.size_bytes} for c in captures]
        return list(make_source_metadata(self.start_unix_ns(), sources).items())


def make_source_metadata(start_unix_ns: int | None, sources: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the metadata of tables: the start of their session and the captures of their rows."""
    return {
        "fastprof.version": __version__,
        "session_start_unix_ns": "" if start_unix_ns is None else str(start_unix_ns),
        "sources": json.dumps(sources),
    }
