"""The hive layout: a folder a table, a folder a host, one file; events in row groups, streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from fastprof.decode import EVENT_COLUMNS, STAT_COLUMNS, Request
from fastprof.export.nesting_stream import nesting_stream
from fastprof.export.writers import Writer
from fastprof.schema import TABLES
from fastprof.table_set import TableSet

ROW_GROUP = 1 << 20
KEYS = ("host", "run")
"""Partition keys are in the path, and so not columns of the files."""
NO_RUN = "__HIVE_DEFAULT_PARTITION__"
"""How hive writes a null key."""


def export_tables(tables: TableSet, out: Path, chosen: Sequence[str], writer: type[Writer]) -> None:
    """Writes each table of each selected host under ``out``."""
    selection = tables.selection
    hosts = [host for host in tables.session.hosts if selection.hosts is None or host in selection.hosts]
    for host in hosts:
        one = TableSet(tables.session, selection.narrowed(hosts=host))
        _Host(one, out, host, hosts, writer).export(chosen)


class _Host:
    """One host's files."""

    def __init__(self, tables: TableSet, out: Path, host: str, exported: Sequence[str], writer: type[Writer]) -> None:
        self.tables = tables
        self.out = out
        self.host = host
        self.exported = exported
        self.writer = writer

    def path(self, table: str) -> Path:
        """Where a table goes; sessions of several runs have a folder a run."""
        folder = self.out / table
        captures = self.tables.session.captures
        if len({capture.run for capture in captures}) > 1:
            run = next(capture.run for capture in captures if capture.host == self.host)
            folder /= f"run={quote(run, safe='') if run else NO_RUN}"
        folder /= f"host={quote(self.host, safe='')}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"part-0.{self.writer.suffix}"

    def export(self, chosen: Sequence[str]) -> None:
        streamed = [name for name in chosen if name in ("events", "event_stats")]
        if streamed:
            self._stream(streamed)
        if "nesting" in chosen:
            self._write("nesting", nesting_stream(self.tables, ROW_GROUP))
        for name in chosen:
            if name not in ("events", "event_stats", "nesting", "import_log"):
                self._write(name, iter([self.tables[name]]))
        if "import_log" in chosen:  # last: the others add to it
            self._write("import_log", iter([self._log_rows()]))

    def _log_rows(self) -> pa.Table:
        """Rows of this host's file; the first host takes those of no host, such as files that were left out."""
        session, hosts = self.tables.session, self.exported
        owner: dict[str | None, str] = {capture.path: "" for capture in session.captures}
        for capture in reversed(session.captures):
            if capture.host in hosts:
                owner[capture.path] = capture.host
        table = self.tables["import_log"]
        mine = [owner.get(path, hosts[0]) == self.host for path in table["path"].to_pylist()]
        return table.filter(pa.array(mine, pa.bool_()))

    def _write(self, name: str, parts: Iterator[pa.Table]) -> None:
        output = _Output(self, name)
        try:
            for part in parts:
                output.write(part)
        finally:
            output.close()

    def _stream(self, names: Sequence[str]) -> None:
        """Events and their stats, decoded once: while one share is written, the next is being decoded."""
        request = Request(
            tuple(c for c in EVENT_COLUMNS if c not in KEYS) if "events" in names else (),
            STAT_COLUMNS if "event_stats" in names else (),
        )
        decoder = self.tables.decoder(request)
        outputs = {name: _Output(self, name) for name in names}
        try:
            with ThreadPoolExecutor(max(2, len(names))) as pool:
                writing: list[Future[None]] = []
                for share in self.tables.shares(decoder, ROW_GROUP):
                    decoded = decoder.decode(share, "exporting")
                    for future in writing:
                        future.result()
                    arrays: dict[str, Mapping[str, pa.Array]] = {"events": decoded.events, "event_stats": decoded.stats}
                    del decoded
                    writing = [
                        pool.submit(output.write, self.tables.table(TABLES[name], arrays[name]))
                        for name, output in outputs.items()
                    ]
                    del arrays
                for future in writing:
                    future.result()
        finally:
            for output in outputs.values():
                output.close()


class _Output:
    """One file, opened with its first rows; without any it is written empty."""

    def __init__(self, host: _Host, table: str) -> None:
        self.table = table
        self.path = host.path(table)
        self.kind = host.writer
        self.metadata = host.tables.session.metadata()
        self.writer: Writer | None = None
        self.schema: pa.Schema | None = None

    def write(self, rows: pa.Table) -> None:
        rows = rows.drop_columns([name for name in KEYS if name in rows.column_names])
        rows = with_used_texts(rows)
        if self.writer is None or self.schema is None:
            self.schema = rows.schema
            self.writer = self.kind(self.path, rows.schema)
        self.writer.write(rows.cast(self.schema) if rows.schema != self.schema else rows)

    def close(self) -> None:
        if self.writer is None:
            schema = TABLES[self.table].arrow().with_metadata(dict(self.metadata))
            empty = schema.empty_table()
            self.write(empty)
        if self.writer is not None:
            self.writer.close()


def with_used_texts(table: pa.Table) -> pa.Table:
    """The table with its dictionaries cut down to the texts that occur, and int32 indices: a file has one schema."""
    columns, fields = [], []
    for column, field in zip(table.columns, table.schema, strict=True):
        if pa.types.is_dictionary(field.type):
            chunks = [_compact(chunk) for chunk in column.chunks]
            column = pa.chunked_array(chunks or [_compact(column.combine_chunks())])
            field = field.with_type(column.type)
        columns.append(column)
        fields.append(field)
    return pa.table(columns, schema=pa.schema(fields, table.schema.metadata))


def _compact(array: pa.DictionaryArray) -> pa.DictionaryArray:
    texts = array.dictionary
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not len(array):
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), texts.slice(0, 0))
    valid = None if not array.null_count else np.asarray(array.is_valid())
    numbers = np.asarray(array.indices.fill_null(0)).astype(np.int32)
    used = np.zeros(max(len(texts), 1), bool)
    used[numbers if valid is None else numbers[valid]] = True
    place = (np.cumsum(used) - 1).astype(np.int32)
    kept = texts.take(pa.array(np.flatnonzero(used[: len(texts)])))
    indices = pa.array(place[numbers], mask=None if valid is None else ~valid)
    return pa.DictionaryArray.from_arrays(indices, kept, safe=False)
