"""The captures of a session, opened: what all selections of it share."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fastprof._native.xspace import Memory
from fastprof._version import __version__
from fastprof.decode import metadata_tables
from fastprof.decode.import_log import ImportLog
from fastprof.decode.index import Index
from fastprof.decode.jobs import Jobs, note_jobs, read_job_facts, sort_by_rank, split_by_host
from fastprof.decode.span_stats import SpanStats, read_metadata_stats
from fastprof.decode.workers import Workers
from fastprof.decode.xspace_capture import Capture, name_hosts
from fastprof.errors import CaptureError, ChangedError, FastprofError, MemoryLimitError
from fastprof.inputs.resolve import Session
from fastprof.schema.columns import Int64s
from fastprof.tables.graph_nodes import read_graphs
from fastprof.tables.host_clocks import note_clocks

if TYPE_CHECKING:
    from fastprof.hlo.programs import Program
    from fastprof.inputs.profile_columns import ProfileColumns
    from fastprof.tables.flows import Arrows


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
        for file in session.files:
            try:
                capture = Capture(file, memory, self.log, on_error == "salvage", max_unpacked)
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
        """Reads all that can be faulty, once, so that the log knows of it."""
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
        """The arrows of flows that each capture records, read once. CaptureError: they are damaged.
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
        """The profile of tfprof that capture ``number`` carries; None: none. CaptureError: it is damaged.
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
        """The number of ends of flows that each capture records."""
        self.arrows()
        return self._flow_ends or [0] * len(self.captures)

    def metadata_stats(self, number: int) -> tuple[Int64s, SpanStats]:
        """The stats of the event metadata of capture ``number``, and the row of metadata that each is of."""
        spans, stats = read_metadata_stats(self.index.names.texts[number])
        return spans["owner"], stats

    def programs(self, number: int, metadata: tuple[Int64s, SpanStats] | None = None) -> list[Program]:
        """The compiled programs of capture ``number``, listed once. ``metadata``: what ``read_metadata_stats``
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
        """The numbers of the captures by job, found once. The log has a row if these are several."""
        with self._finding_jobs:
            if self._jobs is None:
                parts = self.index.captures
                facts = [read_job_facts(part.capture, part.environment) for part in parts] if len(parts) > 1 else [None]
                self._jobs = note_jobs(self.hosts, facts, self.log)
            return self._jobs

    def start_unix_ns(self) -> int | None:
        """The start of profiling on the first host; None: not recorded."""
        starts = (part.environment.start_unix_ns for part in self.index.captures)
        return min((start for start in starts if start is not None), default=None)

    def metadata(self, hosts: Sequence[str] | None) -> list[tuple[str, str]]:
        """What every table says of where it comes from. ``hosts``: those of its rows; None: all."""
        captures = self.captures if hosts is None else [c for c in self.captures if c.host in hosts]
        sources = [{"path": c.path, "size_bytes": c.size_bytes} for c in captures]
        return list(make_source_metadata(self.start_unix_ns(), sources).items())


def make_source_metadata(start_unix_ns: int | None, sources: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What tables say of the start of their session and of the captures of their rows."""
    return {
        "fastprof.version": __version__,
        "session_start_unix_ns": "" if start_unix_ns is None else str(start_unix_ns),
        "sources": json.dumps(sources),
    }
