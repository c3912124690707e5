"""A table that --table names, and which of its rows: ``by_cause?cause=transfer&device=TPU:0``, as findings give their
evidence. Values are quoted as in an address."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from fastprof.errors import UsageError
from fastprof.wording.spelling import meant

if TYPE_CHECKING:
    import pyarrow as pa


class TableChoice(NamedTuple):
    """``equal``: columns, and the value of each as a text."""

    name: str
    equal: tuple[tuple[str, str], ...] = ()

    def rows_of(self, table: pa.Table) -> pa.Table:
        """The rows in which the columns have these values. UsageError: the table lacks such a column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for column, value in self.equal:
            if column not in table.column_names:
                known = ", ".join(table.column_names) + meant(column, table.column_names)
                raise UsageError(f"--table: the table {self.name} has no column {column!r}; it has: {known}")
            text = value.encode("utf-8", "surrogateescape")  # bytes of an argument outside of UTF-8
            there = pc.equal(pc.cast(pc.cast(table[column], pa.string()), pa.binary()), pa.scalar(text, pa.binary()))
            table = table.filter(there)  # rows whose value is unknown go, too
        return table


def table_choice(text: str) -> TableChoice:
    """Reads a choice. ValueError: it is none."""
    from urllib.parse import parse_qsl  # late: few commands name a table

    name, _, query = text.partition("?")
    try:
        return TableChoice(name, tuple(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))))
    except ValueError:
        raise ValueError(f"{query!r} is not COLUMN=VALUE, or several of these with & between them") from None


def one_of(names: Collection[str], text: str) -> TableChoice:
    """Reads a choice among tables. ValueError: it is none."""
    choice = table_choice(text)
    if choice.name not in names:
        close = meant(choice.name, names)
        raise ValueError(f"invalid choice: {choice.name!r}{close} (choose from {', '.join(names)})")
    return choice
