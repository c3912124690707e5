"""A table of a session as a pyarrow Dataset: DuckDB, Polars and others push columns and conditions into it.

    condition ──► planes ──► lines ──► times of lines ──► the lines that are left, decoded as batches
                  what of these the condition excludes, pyarrow finds; the rest it filters row by row

The Dataset is a real one, of a file a plane, because some of pyarrow reads Datasets without Python (a union, a join).
These files are made when they are read, with all columns; ``scanner``, which serves all other reads, decodes only what
is requested.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs

from fastprof.errors import UsageError
from fastprof.tables.dataset_rows import FORMAT, Rows, open_rows
from fastprof.tables.table_set import BATCH_ROWS, TableSet
from fastprof.tables.tables_of_runs import TablesOfRuns
from fastprof.wording.patterns import compile_late

Columns = Sequence[str] | Mapping[str, ds.Expression] | None
_COMPARISON: Final = compile_late(r'\((\w+) (==|!=|<=?|>=?) ("(?:[^"\\]|\\.)*"|[-+.\w]+)\)')
_ALL_OF: Final = compile_late(r"[() ]*(?:and[() ]*)*")


class _Profile(Protocol):
    """Profile as a Dataset needs it."""

    @property
    def exported(self) -> TableSet | TablesOfRuns: ...

    @property
    def sources(self) -> list[str]: ...


class TableDataset(ds.FileSystemDataset):  # type: ignore[misc]
    """One table of a profile; made by ``Profile.dataset``. It pickles as its profile does."""

    def __init__(self, profile: _Profile, table: str, stats: Sequence[str] = (), plain_texts: bool = False) -> None:
        self._made_of = (profile, table, tuple(stats), plain_texts)
        self._rows = open_rows(profile.exported, table, stats, plain_texts)
        self._condition: ds.Expression | None = None
        files = fs.PyFileSystem(_Pieces(self._rows))
        fragments = [FORMAT.make_fragment(name, files, piece) for name, piece in self._rows.pieces().items()]
        super().__init__(fragments, self._rows.schema, FORMAT, files)

    def scanner(self, columns: Columns = None, filter: ds.Expression | None = None, **how: Any) -> Scan:
        """Return a scanner of the rows. ``columns``: names, or expressions by name; ``how``: as pyarrow's scanners take
        it; only ``batch_size`` is used."""
        schema, condition = self._rows.schema, _join_conditions(self._condition, filter)
        if columns is not None and not isinstance(columns, Mapping):
            columns = list(columns)
        used = _find_used_columns(schema, columns, condition)
        rows = how.get("batch_size") or BATCH_ROWS
        if not isinstance(rows, int) or not 0 < rows < 2**31:
            raise UsageError(f"batch_size must be an integer number of rows above 0, not {rows!r}")
        return Scan(self._rows, used, columns, condition, rows)

    def filter(self, expression: ds.Expression) -> TableDataset:
        """Return the dataset of the rows for which the expression is true."""
        narrower: TableDataset = super().filter(expression)
        narrower._made_of, narrower._rows = self._made_of, self._rows
        narrower._condition = _join_conditions(self._condition, expression)
        return narrower

    def __repr__(self) -> str:
        profile, table, _, _ = self._made_of
        return f"<fastprof dataset {table} of {len(profile.sources)} hosts: {', '.join(self.schema.names)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _select_again, (*self._made_of, self._condition)


class Scan:
    """Stand-in for pyarrow's scanners, which read ahead in threads of their own: a thread that still runs Python would
    end a process that exits."""

    def __init__(
        self, rows: Rows, used: Sequence[str], columns: Columns, condition: ds.Expression | None, batch_rows: int
    ) -> None:
        self._rows, self._used, self._condition, self._batch_rows = rows, used, condition, batch_rows
        self._columns = columns
        self._demanded = find_demanded_texts(rows.schema, condition)
        self.dataset_schema: pa.Schema = rows.schema
        empty = pa.schema([rows.schema.field(name) for name in used]).empty_table()
        self.projected_schema: pa.Schema = self._shown(empty).schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; each call reads them again."""
        for batch in self._rows.batches(self._used, self._condition):
            if self._demanded:
                batch = keep_demanded_rows(batch, self._demanded)
            yield from self._shown(pa.Table.from_batches([batch])).to_batches(max_chunksize=self._batch_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows. No more is read than they need."""
        first, left = [], num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            first.append(batch.slice(0, left))
            left -= len(first[-1])
            if not left:
                break
        return pa.Table.from_batches(first, self.projected_schema)

    def take(self, indices: Any) -> pa.Table:
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        return sum(len(batch) for batch in self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _shown(self, table: pa.Table) -> pa.Table:
        """Return the rows for which the condition is true, as the columns that were requested."""
        if self._condition is None and not isinstance(self._columns, Mapping):
            return table if self._columns is None else table.select(self._columns)
        return ds.dataset(table).to_table(columns=self._columns, filter=self._condition)


def _select_again(
    profile: _Profile, table: str, stats: Sequence[str], plain_texts: bool, condition: ds.Expression | None
) -> TableDataset:
    made = TableDataset(profile, table, stats, plain_texts)
    return made if condition is None else made.filter(condition)


def _join_conditions(first: ds.Expression | None, second: ds.Expression | None) -> ds.Expression | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _find_used_columns(schema: pa.Schema, columns: Columns, condition: ds.Expression | None) -> list[str]:
    """Return the names of the columns that are requested, or that expressions refer to, in the order of the schema. As
    an expression does not say what it refers to, each column is left out once, to see whether it is missed."""
    _bind_condition(schema, columns, condition)  # raises what pyarrow says of columns that are not there
    every: list[str] = schema.names
    if columns is None:
        return every
    expressions = list(columns.values()) if isinstance(columns, Mapping) else []
    if condition is not None:
        expressions.append(condition)
    # a FieldPath counts columns, so that none may be missing
    if any("FieldPath" in str(expression) for expression in expressions):
        return every
    used = set() if isinstance(columns, Mapping) else set(columns)
    for name in every if expressions else ():
        if name not in used:
            try:
                _bind_condition(
                    pa.schema([field for field in schema if field.name != name]), dict(enumerate(expressions)), None
                )
            except (pa.ArrowInvalid, pa.ArrowKeyError):
                used.add(name)
    return [name for name in every if name in used] or every[:1]


def _bind_condition(schema: pa.Schema, columns: Any, condition: ds.Expression | None) -> None:
    if isinstance(columns, Mapping):
        columns = {str(name): column for name, column in columns.items()}
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


def find_demanded_texts(schema: pa.Schema, condition: ds.Expression | None) -> dict[str, str]:
    """Return the text that each dictionary column must equal, of those where all parts of the condition are
    comparisons. Rows without it are left out before pyarrow evaluates the condition, because it writes each text of
    a dictionary out to compare it. pyarrow does not show the parts of an expression, only its text."""
    text = str(condition)
    if condition is None or not _ALL_OF.fullmatch(_COMPARISON.sub("", text)):
        return {}
    demanded = {}
    for match in _COMPARISON.finditer(text):
        name, compares, value = match.groups()
        if compares == "==" and value.startswith('"') and name in schema.names:
            try:
                wanted = json.loads(value)
            except ValueError:
                continue
            is_understood = str(ds.field(name) == pa.scalar(wanted, pa.string())) == match[0]
            if is_understood and pa.types.is_dictionary(schema.field(name).type):
                demanded[name] = wanted
    return demanded


def keep_demanded_rows(batch: pa.RecordBatch, demanded: dict[str, str]) -> pa.RecordBatch:
    """Return the rows that have the demanded texts."""
    for name, text in demanded.items():
        column = batch.column(name)
        batch = batch.filter(pc.equal(column.dictionary, pa.scalar(text, pa.string())).take(column.indices))
    return batch
