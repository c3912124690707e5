"""The files of one host: one a table, events in row groups, streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof.decode.request import EVENT_COLUMNS, STAT_COLUMNS, Request
from fastprof.export.host_names import shortened
from fastprof.export.writers import Writer
from fastprof.tables.nesting_stream import PASSES, nesting_stream
from fastprof.tables.table_set import TABLES, TableSet
from fastprof.tables.tables_of_runs import renumbered
from fastprof.wording.patterns import pattern_of

ROW_GROUP = 1 << 20
EVENT_TABLES: Final = ("events", "event_stats")
"""Decoded together, in one pass."""
_NULL: Final = pattern_of("(?:_|%(?:25)*5F)_HIVE_DEFAULT_PARTITION__")


class Tally(Protocol):
    """Hears how far the files of a host are."""

    def begin(self, events: int) -> None:
        """A pass over ``events`` events begins."""

    def passed(self, events: int) -> None:
        """This number of events of the pass has been read."""

    def wrote(self, tables: int) -> None:
        """Tables are complete, and with them the pass."""


class HostFolder:
    """Where the files of a host are, and what they have of its session. ``out``: a folder that exists. ``run``: None
    if the session is one run. ``first_id``: what is added to ids, as of ``renumbered``; ``about``: metadata."""

    def __init__(
        self,
        out: Path,
        kind: type[Writer],
        run: str | None,
        host: str,
        first_id: Callable[[str], int] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.out = out
        self.kind = kind
        self.host = host
        self._first_id = first_id
        self._about = about
        keys = {"host": host} if run is None else {"run": run, "host": host}
        self.keys = tuple(keys)
        self._below = [f"{key}={folder_value(value)}" for key, value in keys.items()]

    def of_table(self, table: str) -> Path:
        """The folder of a table; the folder that holds it exists."""
        folder = self.out
        for name in (table, *self._below[:-1]):  # not those above: who gave ``out`` may have deleted it
            folder /= name
            folder.mkdir(exist_ok=True)
        return folder / self._below[-1]

    def new_file(self, table: str) -> Path:
        folder = self.of_table(table)
        folder.mkdir(exist_ok=True)
        return folder / f"part-0.{self.kind.suffix}"

    def as_written(self, rows: pa.Table) -> pa.Table:
        """The rows as the file has them: without the keys of its folders, with ids of the session."""
        rows = rows.drop_columns([name for name in self.keys if name in rows.column_names])
        if self._about is not None:
            about = {name.encode(): text.encode() for name, text in self._about.items()}
            rows = rows.replace_schema_metadata((rows.schema.metadata or {}) | about)
        return rows if self._first_id is None else renumbered(rows, self._first_id)

    def write(self, table: str, parts: Iterable[pa.Table], empty: Callable[[], pa.Table] | None = None) -> None:
        """The file of a table; ``empty``: the table, if there are no parts, None: there are."""
        with _Output(self, table, empty) as output:
            for part in parts:
                output.write(part)


def index_for(tables: TableSet, chosen: Sequence[str]) -> None:
    """Index the selected hosts as deep as the tables need, so that the export is one stage after this one."""
    index = tables.session.index
    depths = {"events": records.EVENTS, "event_stats": records.STATS, "nesting": tables.nesting_request().depth}
    if "import_log" in chosen:  # which lists faults of everything
        index.ensure(records.STATS)
    else:
        index.ensure(max(depths.get(name, records.HOP) for name in chosen), tables.wanted.pieces())


def event_count(tables: TableSet) -> int:
    """The events of the selected lines."""
    return int(tables.session.index.lines["event_count"][tables.wanted.lines()].sum())


def write_host(tables: TableSet, folder: HostFolder, chosen: Sequence[str], tally: Tally) -> None:
    """All tables of a host but import_log. ``tables``: of this host."""
    events = event_count(tables)
    streamed = [name for name in chosen if name in EVENT_TABLES]
    if streamed:
        tally.begin(events)
        _stream(tables, folder, streamed, tally)
        tally.wrote(len(streamed))
    if "nesting" in chosen:
        tally.begin(PASSES * events)
        folder.write("nesting", nesting_stream(tables, ROW_GROUP, tally.passed), partial(_empty, tables, "nesting"))
        tally.wrote(1)
    for name in chosen:
        if name not in (*EVENT_TABLES, "nesting", "import_log"):
            folder.write(name, [tables[name]])
            tally.wrote(1)


def _empty(tables: TableSet, name: str) -> pa.Table:
    empty = TABLES[name].arrow().empty_table()
    return tables.table(TABLES[name], dict(zip(empty.column_names, empty.columns, strict=True)))


def _stream(tables: TableSet, folder: HostFolder, names: Sequence[str], tally: Tally) -> None:
    """Events and their stats, decoded once: while one share is written, the next is being decoded."""
    request = Request(
        tuple(c for c in EVENT_COLUMNS if c not in folder.keys) if "events" in names else (),
        STAT_COLUMNS if "event_stats" in names else (),
    )
    decoder = tables.decoder(request)
    with ExitStack() as open_files:
        outputs = {
            name: open_files.enter_context(_Output(folder, name, partial(_empty, tables, name))) for name in names
        }
        pool = open_files.enter_context(ThreadPoolExecutor(len(outputs)))
        writing: list[Future[None]] = []
        read = 0
        for share in decoder.shares(ROW_GROUP):
            decoded = decoder.decode(share, None)
            for future in writing:
                future.result()
            tally.passed(read)
            read = sum(block.events for block in share)
            arrays: dict[str, Mapping[str, pa.Array]] = {"events": decoded.events, "event_stats": decoded.stats}
            del decoded
            writing = [
                pool.submit(output.write, tables.table(TABLES[name], arrays[name])) for name, output in outputs.items()
            ]
            del arrays
        for future in writing:
            future.result()


def folder_value(name: str) -> str:
    """The name, shortened and URL-encoded, as a partition key has it. What readers take for null is encoded twice,
    because they decode it first; so is what that would be mistaken for."""
    name = short_value(name)
    if _NULL.fullmatch(name):
        name = ("%5F" if name[0] == "_" else "%25") + name[1:]
    return quote(name, safe="")


def short_value(name: str) -> str:
    return shortened(name, lambda one: len(quote(one, safe="")))


class _Output:
    """One file, opened with its first rows; written empty if there are none."""

    def __init__(self, folder: HostFolder, table: str, empty: Callable[[], pa.Table] | None) -> None:
        self.folder = folder
        self.path = folder.new_file(table)
        self.empty = empty
        self.writer: Writer | None = None
        self.schema: pa.Schema | None = None

    def __enter__(self) -> _Output:
        return self

    def write(self, rows: pa.Table) -> None:
        rows = with_used_texts(self.folder.as_written(rows))
        if self.writer is None or self.schema is None:
            self.schema = rows.schema
            self.writer = self.folder.kind(self.path, rows.schema)
        self.writer.write(rows.cast(self.schema) if rows.schema != self.schema else rows)

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        if error is not None:
            with suppress(OSError, pa.ArrowException):  # the first error is the one that counts
                self._close()
            return
        if self.writer is None and self.empty is not None:
            self.write(self.empty())
        self._close()

    def _close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def with_used_texts(table: pa.Table) -> pa.Table:
    """The table with its dictionaries cut down to the texts that occur, in the order in which they do, and int32
    indices: a file has one schema, and the same bytes whichever hosts the session has besides."""
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
    if not len(array):
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), texts.slice(0, 0))
    valid = None if not array.null_count else np.asarray(array.is_valid())
    numbers = np.asarray(array.indices.fill_null(0)).astype(np.int32)
    occurring = _in_order(numbers if valid is None else numbers[valid], len(texts))
    place = np.zeros(max(len(texts), 1), np.int32)
    place[occurring] = np.arange(len(occurring), dtype=np.int32)
    indices = pa.array(place[numbers], mask=None if valid is None else ~valid)
    return pa.DictionaryArray.from_arrays(indices, texts.take(pa.array(occurring)), safe=False)


def _in_order(numbers: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    """The numbers that occur, all below ``count``, by their first place."""
    first = np.full(count, -1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of several places of a number, the last one stays
    there = np.flatnonzero(first >= 0)
    return there[np.argsort(first[there])]
