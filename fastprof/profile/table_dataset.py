"""A table of a session as a pyarrow Dataset: DuckDB, Polars and others push columns and conditions into it.

    condition ──► planes ──► lines ──► times of lines ──► the lines that are left, decoded as batches
                  what of these the condition excludes, pyarrow finds; the rest it filters row by row

The Dataset is a real one, of a file a plane, because some of pyarrow reads Datasets without Python (a union, a join).
These files are made when they are read, with all columns; ``scanner``, which everything else comes through, decodes
only what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from fastprof.errors import UsageError
from fastprof.tables.dataset_rows import FORMAT, Rows, rows_of
from fastprof.tables.table_set import TableSet
from fastprof.tables.tables_of_runs import TablesOfRuns

Columns = Sequence[str] | Mapping[str, ds.Expression] | None


class _Profile(Protocol):
    """What a Dataset needs of a profile."""

    @property
    def exported(self) -> TableSet | TablesOfRuns: ...

    @property
    def sources(self) -> list[str]: ...


class TableDataset(ds.FileSystemDataset):  # type: ignore[misc]
    """One table of a profile; made by ``Profile.dataset``. It pickles as its profile does."""

    def __init__(self, profile: _Profile, table: str, stats: Sequence[str] = (), plain_texts: bool = False) -> None:
        self._made_of = (profile, table, tuple(stats), plain_texts)
        self._rows = rows_of(profile.exported, table, stats, plain_texts)
        self._condition: ds.Expression | None = None
        files = fs.PyFileSystem(_Pieces(self._rows))
        fragments = [FORMAT.make_fragment(name, files, one) for name, one in self._rows.pieces().items()]
        super().__init__(fragments, self._rows.schema, FORMAT, files)

    def scanner(self, columns: Columns = None, filter: ds.Expression | None = None, **how: Any) -> ds.Scanner:
        """A scanner that reads once. ``columns``: names, or expressions by name; ``how``: as pyarrow's scanners take
        it, what is about files is not used."""
        schema, condition = self._rows.schema, _both(self._condition, filter)
        used = _used(schema, columns, condition)
        batches = self._rows.batches(used, condition)
        kept = {name: how[name] for name in ("batch_size", "use_threads", "memory_pool") if name in how}
        part = pa.schema([schema.field(name) for name in used], schema.metadata)
        if columns is not None and not isinstance(columns, Mapping):
            columns = list(columns)
        return ds.Scanner.from_batches(batches, schema=part, columns=columns, filter=condition, **kept)

    def filter(self, expression: ds.Expression) -> TableDataset:
        """The rows for which the expression is true."""
        narrower: TableDataset = super().filter(expression)
        narrower._made_of, narrower._rows = self._made_of, self._rows
        narrower._condition = _both(self._condition, expression)
        return narrower

    def __repr__(self) -> str:
        profile, table, _, _ = self._made_of
        return f"<fastprof dataset {table} of {len(profile.sources)} hosts: {', '.join(self.schema.names)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (*self._made_of, self._condition)


def _again(
    profile: _Profile, table: str, stats: Sequence[str], plain_texts: bool, condition: ds.Expression | None
) -> TableDataset:
    made = TableDataset(profile, table, stats, plain_texts)
    return made if condition is None else made.filter(condition)


def _both(one: ds.Expression | None, other: ds.Expression | None) -> ds.Expression | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _used(schema: pa.Schema, columns: Columns, condition: ds.Expression | None) -> list[str]:
    """The names of the columns that are requested, or that expressions refer to, in the order of the schema. As an
    expression does not say what it refers to, each column is left out once, to see whether it is missed."""
    _bound(schema, columns, condition)  # raises what pyarrow says of columns that are not there
    every: list[str] = schema.names
    if columns is None:
        return every
    expressions = list(columns.values()) if isinstance(columns, Mapping) else []
    if condition is not None:
        expressions.append(condition)
    if any("FieldPath" in str(one) for one in expressions):  # which counts columns, so that none may be missing
        return every
    used = set() if isinstance(columns, Mapping) else set(columns)
    for name in every if expressions else ():
        if name not in used:
            try:
                _bound(pa.schema([one for one in schema if one.name != name]), dict(enumerate(expressions)), None)
            except (pa.ArrowInvalid, pa.ArrowKeyError):
                used.add(name)
    return [name for name in every if name in used] or every[:1]


def _bound(schema: pa.Schema, columns: Any, condition: ds.Expression | None) -> None:
    if isinstance(columns, Mapping):
        columns = {str(name): one for name, one in columns.items()}
    ds.Scanner.from_batches(iter(()), schema=schema, columns=columns, filter=condition)


class _Pieces(fs.FileSystemHandler):  # type: ignore[misc]
    """A file system whose files are the pieces of a table, as Arrow IPC with all columns."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pieces) and other._rows is self._rows

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def get_type_name(self) -> str:
        return "fastprof"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, fs.FileType.File) for path in paths]

    def get_file_info_selector(self, selector: object) -> NoReturn:
        self._refuse(selector)

    def open_input_file(self, path: str) -> pa.NativeFile:
        batches = self._rows.of_piece(path)
        table = pa.Table.from_batches(batches, self._rows.schema).unify_dictionaries()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
        return pa.BufferReader(sink.getvalue())

    open_input_stream = open_input_file

    def _refuse(self, *_: object) -> NoReturn:
        raise UsageError("a fastprof dataset is read only, and its files have no folders")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse
