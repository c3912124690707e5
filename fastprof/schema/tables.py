"""Schemas of tables, and their columns: type, unit, nullability, a description and a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

import pyarrow as pa

from fastprof.schema.arrow_columns import typed
from fastprof.schema.value_classes import dataclass

VERSION = "3"
"""Goes up when a column is renamed, retyped or removed."""

Formula = Callable[[Any], Any]
"""From the rows that a table is built from to one value per row: an Arrow array, a NumPy array or a list."""


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

    def array(self, rows: Any) -> pa.Array:
        """The values for ``rows``, which is whatever the formula takes."""
        values = getattr(rows, self.name) if self.of is None else self.of(rows)
        return typed(values, self.type) if self.null is None else pa.array(values, self.type, mask=self.null(rows))

    def field(self, actual: pa.DataType | None = None) -> pa.Field:
        metadata = {"description": self.description}
        if self.unit:
            metadata["unit"] = self.unit
        return pa.field(self.name, actual or self.type, self.nullable, metadata)


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
