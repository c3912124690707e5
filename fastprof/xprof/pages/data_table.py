"""DataTables: the JSON form of a table that XProf's pages read, and the way XProf writes numbers into text.

    {"cols": [{"id": "opName", "label": "Input Op", "type": "string"}, ...],
     "rows": [{"c": [{"v": "Iterator::Map"}, {"v": 3.0}, ...]}, ...],
     "p": {"enqueue_us": "0.000", ...}}

Every number is a double there, and every property a text. ``p`` is there only where it says something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.schema.value_classes import dataclass

Cell = str | float | bool | None
"""Value of a cell; whole numbers are written as doubles."""
Values = Iterable[Cell] | npt.NDArray[Any]
Row = TypeVar("Row")


class LazyRows:
    """Rows of a table that are made while they are written, because there may be millions of them."""

    def __init__(self, make: Callable[[], Iterator[object]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[object]:
        return self._make()


@dataclass(frozen=True, slots=True)
class Col:
    """A column: its id, its heading (its id if no label is given), and its role in a chart."""

    id: str
    type: str
    label: str | None = None
    role: str | None = None

    def head(self) -> dict[str, object]:
        head: dict[str, object] = {"id": self.id, "label": self.id if self.label is None else self.label}
        if self.role is not None:
            head["p"] = {"role": self.role}
        head["type"] = self.type
        return head


def text(name: str, label: str | None = None, role: str | None = None) -> Col:
    return Col(name, "string", label, role)


def number(name: str, label: str | None = None, role: str | None = None) -> Col:
    return Col(name, "number", label, role)


def boolean(name: str, label: str | None = None) -> Col:
    return Col(name, "boolean", label)


def make_data_table(
    columns: Sequence[Col], rows: Iterable[Sequence[Cell]] = (), p: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Make a DataTable; ``rows`` have a cell per column, in the order of the columns."""
    table: dict[str, object] = {"cols": [column.head() for column in columns]}
    if p:
        table["p"] = dict(sorted(p.items()))
    table["rows"] = [
        {"c": [_make_cell(column.type, value) for column, value in zip(columns, row, strict=True)]} for row in rows
    ]
    return table


def join_columns(columns: Iterable[tuple[Col, Values]], p: Mapping[str, str] | None = None) -> dict[str, object]:
    """Make a DataTable of columns with their cells, one per row."""
    heads, values = zip(*columns, strict=True)
    cells = (value.tolist() if isinstance(value, np.ndarray) else value for value in values)
    return make_data_table(heads, zip(*cells, strict=True), p)


def join_rows(
    columns: Iterable[tuple[Col, Callable[[Row], Cell]]], rows: Sequence[Row], p: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Make a DataTable of columns with their formulas, which make a cell of each of the rows."""
    return join_columns([(column, map(formula, rows)) for column, formula in columns], p)


def _make_cell(kind: str, value: Cell) -> dict[str, object]:
    if kind == "number":
        double = math.nan if value is None else float(value)
        return {"v": double if math.isfinite(double) else None}
    return {"v": bool(value) if kind == "boolean" else value}


def _format_fixed(value: float, digits: int) -> str:
    """Format as C prints it: 0/0, the only source of NaN here, is ``-nan`` on the processors that XProf runs on."""
    return "-nan" if math.isnan(value) else f"{value:.{digits}f}"


one_digit, two_digits, three_digits = (partial(_format_fixed, digits=digits) for digits in (1, 2, 3))


def format_percent(value: float) -> str:
    """Format a share in percent, as ``12.3%``; XProf writes a negative one as unknown."""
    return "unknown" if value < 0 else f"{one_digit(value)}%"


def anchor(url: str, words: str) -> str:
    """Make a link as XProf writes it; both parts are constants of ours, never text of a capture."""
    return f'<a href="{url}" target="_blank">{words}</a>'
