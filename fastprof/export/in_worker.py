"""What a worker does for an export: counts what its hosts have, so that ids can count on, and writes their files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from fastprof._native import records
from fastprof.decode.selection import Selection
from fastprof.errors import OutputError
from fastprof.export.hive import OF_SOURCE, NoTally
from fastprof.export.host_files import HostFolder, index_for, write_host
from fastprof.export.new_files import output_errors
from fastprof.export.writers import WRITERS
from fastprof.schema.value_classes import dataclass
from fastprof.tables.open_session import OpenSession, source_metadata
from fastprof.tables.table_set import TableSet

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
        counts = [*zip(*_numbered(session, self.flows), strict=True)]
        return [self._of_host(session, number, counts[number]) for number in numbers]

    def _of_host(self, session: OpenSession, number: int, counts: tuple[int, ...]) -> Counts:
        capture, environment = session.captures[number], session.index.captures[number].environment
        recorded = None
        if self.recorded and environment.transcribed_from is not None:
            recorded = tuple(TableSet(session, Selection((capture.host,))).recorded())
        return Counts(counts, environment.start_unix_ns, tuple(getattr(capture, name) for name in OF_SOURCE), recorded)


def _numbered(session: OpenSession, flows: bool) -> list[list[int]]:
    """Of what ``NUMBERED`` names, how many each capture has."""
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
        """The name of the folder of each host."""
        with output_errors(self.out):
            index_for(tables, self.tables)
            first = [[0, *accumulate(counts)] for counts in _numbered(tables.session, "flows" in self.tables)]
            found = [
                self._written(tables, self.hosts[number], [of_kind[number] for of_kind in first]) for number in numbers
            ]
            if "import_log" in self.tables:
                tables.session.read_all()
            return found

    def _written(self, tables: TableSet, host: HostOfSession, here: Sequence[int]) -> str:
        name = f"{host.number}-{os.urandom(6).hex()}"
        part = Path(self.parts, name)
        try:
            part.mkdir()
        except FileNotFoundError:
            raise OutputError(f"a worker does not see it: {SHARED}", path=self.out) from None
        more = dict(zip(NUMBERED, (there - own for there, own in zip(host.first, here, strict=True)), strict=True))
        about = source_metadata(self.start_unix_ns, [])
        del about["sources"]
        folder = HostFolder(part, WRITERS[self.format], host.run, host.name, more.__getitem__, about)
        of_host = TableSet(tables.session, tables.selection.narrowed(hosts=host.name))
        write_host(of_host, folder, self.tables, NoTally())
        return name
