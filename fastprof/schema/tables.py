"""Schemas of tables, and their columns: type, unit, nullability, a description and a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import Any, Final

import pyarrow as pa

from fastprof.schema.arrow_columns import typed
from fastprof.schema.value_classes import dataclass

VERSION = "3"
"""Goes up when a column is renamed, retyped or removed."""

REASON: Final = b"reason"
"""In the metadata of a column of a report: why cells that would be 0 are null."""

Formula = Callable[[Any], Any]
"""From the rows that a table is built from to one value per row: an Arrow array, a NumPy array or a list."""


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
    """Records without which a 0 is unknown; reports null it (``analyses/unknown_cells.py``)."""

    def array(self, rows: Any) -> pa.Array:
        """The values for ``rows``, which is whatever the formula takes."""
        values = getattr(rows, self.name) if self.of is None else self.of(rows)
        return typed(values, self.type) if self.null is None else pa.array(values, self.type, mask=self.null(rows))

    def field(self, actual: pa.DataType | None = None) -> pa.Field:
        metadata = {"description": self.description}
        if self.unit:
            metadata["unit"] = self.unit
        return pa.field(self.name, actual or self.type, self.nullable, metadata)


def resting_on(need: Need, *columns: Column) -> tuple[Column, ...]:
    """Return the columns with this need, which their descriptions then name."""
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


@dataclass(frozen=True, slots=True)
class TableSchema:
    name: str
    row: str
    columns: tuple[Column, ...]
    derived: bool = False

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def arrow(self) -> pa.Schema:
        return pa.schema([column.field() for column in self.columns])

    def of(self, rows: Any) -> pa.Table:
        """The table of ``rows``, each column by its formula."""
        return pa.Table.from_arrays([column.array(rows) for column in self.columns], schema=self.arrow())

    def of_parts(self, parts: Iterable[Any]) -> pa.Table:
        """The rows of several parts, such as hosts, as one table."""
        tables = [self.of(rows) for rows in parts]
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if tables else self.empty()

    def empty(self) -> pa.Table:
        return self.arrow().empty_table()


TEXT = pa.dictionary(pa.int32(), pa.string())


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with dictionaries of text as text; of any length, for a text that repeats may pass 2 GiB."""
    fields = [f.with_type(pa.large_string()) if pa.types.is_dictionary(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)
