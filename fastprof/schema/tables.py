"""Table schemas and Arrow columns: type, unit, nullability, description and formula, and how reports build them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.schema.value_classes import dataclass


def make_column(values: Any, kind: pa.DataType) -> pa.Array:
    """Return values as an array of this type. Avoids a cast if it can: the first cast imports a module, which takes 30
    ms."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return array if array.type == kind else array.cast(kind)


_FEW: Final = 4096


def take_texts(texts: pa.Array, rows: npt.NDArray[Any]) -> pa.Array:
    """These rows of an array of texts. If they are few, without ``take``, which imports a module of 13 MB."""
    if len(rows) > _FEW:
        return texts.take(pa.array(rows))
    return pa.array([texts[row].as_py() for row in rows.tolist()], texts.type)


def mark_nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of null rows, as ``is_null``, but without importing pyarrow.compute."""
    if not column.null_count:
        return np.zeros(len(column), bool)
    valid = np.frombuffer(column.buffers()[0], np.uint8)
    bits = np.unpackbits(valid, count=column.offset + len(column), bitorder="little")
    return ~bits[column.offset :].view(np.bool_)


def make_texts(texts: Sequence[str]) -> pa.Array:
    """Return large strings, which take a fifth of the memory of a list."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:  # half a surrogate pair
        return pa.array([text.encode("utf-8", "replace") for text in texts], pa.large_binary()).cast(pa.large_string())


def build_texts(offsets: bytes, data: bytes) -> pa.Array:
    """Return texts as Arrow strings, from int64 offsets and bytes; large ones only where they pass 2 GiB."""
    count = len(offsets) // 8 - 1
    if len(data) < 2**31:
        narrow = np.frombuffer(offsets, np.int64).astype(np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(narrow), pa.py_buffer(data))
    return pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


def encode_texts(values: Sequence[str | None], at: npt.NDArray[Any]) -> pa.DictionaryArray:
    """``values[at[i]]`` in row i; None becomes null. The dictionary holds each text once."""
    distinct = dict.fromkeys(values)
    distinct.pop(None, None)
    place: dict[str | None, int] = dict(zip(distinct, range(len(distinct)), strict=True))
    number = np.fromiter(map((place | {None: -1}).__getitem__, values), np.int32, len(values))
    rows = number[at] if len(number) else np.zeros(0, np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(rows, mask=rows < 0), pa.array(list(distinct), pa.string()))


def divide_or_null(part: npt.NDArray[Any], whole: npt.NDArray[Any] | float) -> pa.Array:
    """``part / whole``; null where the whole is 0."""
    wholes = np.broadcast_to(np.asarray(float(whole) if isinstance(whole, int) else whole), part.shape)
    return pa.array(np.divide(part, wholes, out=np.zeros(len(part)), where=wholes != 0), mask=wholes == 0)


VERSION = "4"
"""Goes up when a column is renamed, retyped or removed."""

REASON: Final = b"reason"
"""Column metadata key: why cells are null instead of 0."""


def explain_nulls(table: pa.Table, reasons: Mapping[str, str]) -> pa.Table:
    """Add the reasons why cells are null, by column, to the columns that have such cells."""
    fields = [
        field.with_metadata({**(field.metadata or {}), REASON: reasons[field.name]})
        if field.name in reasons and table[field.name].null_count
        else field
        for field in table.schema
    ]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, table.schema.metadata))


Formula = Callable[[Any], Any]
"""A function from the rows that a table is built from to one value per row: an Arrow array, a NumPy array or a list."""


@dataclass(frozen=True, slots=True)
class Need:
    """Records that figures and cells rest on: without them a 0 is unknown. ``count``: the figure, or column of the same
    row, that counts them or sums their time; ``absent`` says that there are none. An empty ``absent``: a ``count`` of 0
    is known, and gives its own reason if it is not. ``only``: a column and its values in the rows that need them; None:
    all rows do."""

    count: str
    absent: str = ""
    only: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column, defined once: name, type, description, and the formula of its values.

    ``type`` is the widest type: dictionary indices may be narrower.
    """

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False
    unit: str | None = None
    of: Formula | None = field(default=None, compare=False, kw_only=True)
    """The values; an Arrow array brings its own nulls. None: the attribute of the rows that has the column's name."""
    null: Formula | None = field(default=None, compare=False, kw_only=True)
    """Which rows are null, as booleans, where ``of`` does not say so itself."""
    needs: tuple[Need, ...] = field(default=(), kw_only=True)
    """Records without which a 0 is unknown; reports null it (``analyses/runner.py``)."""

    def array(self, rows: Any) -> pa.Array:
        """Return the values for ``rows``, which is whatever the formula takes."""
        values = getattr(rows, self.name) if self.of is None else self.of(rows)
        return (
            make_column(values, self.type) if self.null is None else pa.array(values, self.type, mask=self.null(rows))
        )

    def field(self, actual: pa.DataType | None = None) -> pa.Field:
        metadata = {"description": self.description} | ({"unit": self.unit} if self.unit else {})
        return pa.field(self.name, actual or self.type, self.nullable, metadata)


def resting_on(need: Need, *columns: Column) -> tuple[Column, ...]:
    """Add a need to columns, and name it in their descriptions."""
    why = need.absent or f"the figure {need.count} is null"
    return tuple(
        replace(
            column,
            needs=(*column.needs, need),
            nullable=True,
            description=column.description + (f", or {why}" if "null:" in column.description else f"; null: {why}"),
        )
        for column in columns
    )


class ObjectRows:
    """Rows that are objects, such as named tuples: columns without a formula take the attribute of their name.

    ``figures``: values that formulas need besides, by name.
    """

    def __init__(self, each: Sequence[Any], **figures: Any) -> None:
        self.__dict__.update(figures, each=each)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return [getattr(row, name) for row in self.each]


@dataclass(frozen=True, slots=True)
class TableSchema:
    name: str
    row: str
    columns: tuple[Column, ...]
    derived: bool = False
    made: list[pa.Schema] = field(init=False, compare=False, repr=False)  # none, or what `arrow` returns

    def __post_init__(self) -> None:  # a copy with other columns has none
        object.__setattr__(self, "made", [])

    def __getitem__(self, name: str) -> Column:
        return {column.name: column for column in self.columns}[name]

    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def arrow(self) -> pa.Schema:
        if not self.made:
            self.made.append(pa.schema([column.field() for column in self.columns]))
        return self.made[0]

    def of(self, rows: Any) -> pa.Table:
        """Return the table of ``rows``, each column by its formula."""
        return pa.Table.from_arrays([column.array(rows) for column in self.columns], schema=self.arrow())

    def of_parts(self, parts: Iterable[Any]) -> pa.Table:
        """Return the rows of several parts, such as hosts, as one table."""
        tables = [self.of(rows) for rows in parts]
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if tables else self.empty()

    def empty(self) -> pa.Table:
        return self.arrow().empty_table()


TEXT = pa.dictionary(pa.int32(), pa.string())


def decode_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Return the schema with dictionaries of text as text; of any length, for a text that repeats may pass 2 GiB."""
    fields = [f.with_type(pa.large_string()) if pa.types.is_dictionary(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)


@dataclass(frozen=True, slots=True)
class Kind:
    """Makes columns of one type and unit."""

    type: pa.DataType
    unit: str | None = None

    def __call__(self, name: str, description: str, of: Formula | None = None, null: Formula | None = None) -> Column:
        return Column(name, self.type, description, "null:" in description, self.unit, of=of, null=null)


Bytes: Final = Kind(pa.int64(), "bytes")
Count: Final = Kind(pa.int64())
Flag: Final = Kind(pa.bool_())
Number: Final = Kind(pa.float64())
Picoseconds: Final = Kind(pa.int64(), "ps")
Percent: Final = Kind(pa.float64(), "%")
Share: Final = Kind(pa.float64(), "share")
String: Final = Kind(pa.string())
Text: Final = Kind(TEXT)
"""Text with few distinct values: a dictionary."""
