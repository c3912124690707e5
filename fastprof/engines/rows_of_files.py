"""The rows of a table, a file at a time: what Spark, Ray Data and Dask read on their workers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastprof.decode.selection import Selection
from fastprof.decode.workers import Workers
from fastprof.engines.host_task import restore_file
from fastprof.errors import ChangedError, FastprofError, MemoryLimitError, NotFoundError, UsageError
from fastprof.inputs import open_files
from fastprof.inputs.resolve import CaptureFile, Session, resolve
from fastprof.schema.capture_tables import HOST, RUN
from fastprof.schema.tables import decode_dictionaries
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TABLES, OpenSession, TableSet, explain_missing_table
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.decode.xspace_capture import Capture
    from fastprof.inputs.resolve import Named

KEYS = (RUN.name, HOST.name)
PLANE_TABLES = ("events", "event_stats")
"""Whose rows are split by plane."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of a table in one file; ``plane``: of its planes of this name, None: of all. It can be pickled; nothing
    is opened before rows are read."""

    file: CaptureFile
    table: str
    columns: tuple[str, ...]
    on_error: str = "raise"
    plane: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return _get_schema(self.table, self.columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in batches of about a quarter of a million. Raises as ``load`` does; with "skip", a file that
        is damaged has no rows."""
        from fastprof.tables.dataset_rows import open_rows

        session = self._opened()
        if session is None:
            return
        for host in session.hosts:
            planes = None if self.plane is None else rf"\A{re.escape(self.plane)}\Z"
            selection = Selection((host,)).narrowed(planes=planes)
            rows = open_rows(TableSet(session, selection), self.table, (), plain_texts=True)
            own = [name for name in self.columns if name not in KEYS]
            for batch in rows.batches(own or rows.schema.names[:1], None):
                yield self._with_keys(batch, {RUN.name: self.file.run or "", HOST.name: host})

    def by_plane(self) -> list[FileRows]:
        """Split the rows by plane. Opens the file to see its planes; a damaged file stays whole, for whoever reads it.
        UsageError: the table is not ``events`` or ``event_stats``."""
        if self.table not in PLANE_TABLES:
            raise UsageError(f"{' and '.join(PLANE_TABLES)} are split by plane; {self.table} are not")
        alone = Session(self.file.run, (restore_file(self.file),), ())
        try:
            captures = OpenSession(alone, "raise", Workers(1), open_files.check_limit(None)).captures
        except FastprofError:
            return [self]
        there = [name for capture in captures for name, _ in _list_planes(capture)]
        return [replace(self, plane=name) for name in dict.fromkeys(there)] or [self]

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def _opened(self) -> OpenSession | None:
        alone = Session(self.file.run, (restore_file(self.file),), ())
        try:
            return OpenSession(alone, self.on_error, Workers(1), open_files.check_limit(None))
        except (ChangedError, MemoryLimitError):
            raise
        except FastprofError:
            if self.on_error == "skip":
                return None
            raise

    def _with_keys(self, batch: pa.RecordBatch, keys: dict[str, str]) -> pa.RecordBatch:
        own = dict(zip(batch.schema.names, batch.columns, strict=True))
        own |= {name: pa.repeat(pa.scalar(keys[name], pa.large_string()), len(batch)) for name in keys}
        return pa.RecordBatch.from_arrays([own[name] for name in self.columns], schema=self.schema)


def _list_planes(capture: Capture) -> list[tuple[str, int]]:
    """Return the planes of a capture that have lines."""
    if not len(capture.pieces):
        return []
    return [capture.plane_keys[number] for number in np.unique(capture.plane_of_part[capture.pieces["part"]])]


def host_rows(
    path: Named | Sequence[Named],
    table: str = "events",
    *,
    columns: Sequence[str] | None = None,
    run: str | None = None,
    hosts: Collection[str] | None = None,
    on_error: str = "raise",
) -> list[FileRows]:
    """Return the rows of a table, by file: of a run, or of what else ``load`` takes. Each has the columns ``run`` and
    ``host`` first; texts are large_string. Ids count from 0 in each file: the key of an event is (run, host, event_id).

    ``columns``: names; None: all. ``hosts``: names, as in the names of files. ``on_error``: "raise", "skip" or
    "salvage". UsageError: no such table or column; NotFoundError: no such host.
    """
    if table not in TABLES:
        raise UsageError(explain_missing_table(table))
    known = _get_schema(table, None).names
    chosen = known if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise UsageError(
                f"{table} have no column {name!r}; there are: {', '.join(known)}{suggest_name(name, known)}"
            )
    files = resolve(path, run).files
    for host in hosts or ():
        if host not in [file.host for file in files]:
            raise NotFoundError(
                f"no file of a host {host!r}; there are: {', '.join(file.host or '-' for file in files)}"
            )
    wanted = [file for file in files if hosts is None or file.host in hosts]
    return [FileRows(file, table, tuple(chosen), on_error) for file in wanted]


def _get_schema(table: str, columns: Sequence[str] | None) -> pa.Schema:
    own = [field for field in decode_dictionaries(TABLES[table].arrow()) if field.name not in KEYS]
    keys = [pa.field(column.name, pa.large_string()) for column in (RUN, HOST)]
    fields = {field.name: field for field in (*keys, *own)}
    return pa.schema([fields[name] for name in (fields if columns is None else columns)])
