"""Text tables for people: aligned columns, readable units for times and sizes, long names without shared parts.

All rows of a small table determine its layout. For larger tables and streams, the first block determines widths and
units; a wider number in a later block is printed in full and not aligned. Texts are escaped before they reach a
terminal. Nulls are blank, unless the caller says otherwise. Numbers are aligned right, texts left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from math import isfinite
from typing import Any

import pyarrow as pa

from fastprof.render.rows import Data, list_rows, split_rows
from fastprof.render.table_forms import Look
from fastprof.schema.value_classes import dataclass
from fastprof.wording import quantities
from fastprof.wording.json_values import format_json
from fastprof.wording.screen import (
    Elision,
    cut_middle,
    escape_text,
    fit_text,
    measure_width,
    pad_text,
    wrap_text,
)

_LAYOUT_ROWS = 1_000
_MEASURED_ROWS = 20_000  # all rows of a table up to this size determine its layout
_GAP = "  "
_NARROWEST = 8  # least cells of a text column
_READABLE = 16  # least cells of a text column if columns may be left out instead
_THOUSAND = 1_000
_LAST_READABLE = 28  # least cells of the last column, which holds long names
_DEVICES = ("device", "last_device", "source", "target")  # names that differ at their ends, and say nothing if cut
_COMFORTABLE = 24  # least cells of a text column if titles may be broken instead
_TITLE_LIMITS = (16, 12, 9)  # cells per line of a broken title, tried in turn


@dataclass(slots=True)
class _Column:
    title: str
    text: Callable[[Any], str]
    number: bool
    source: int = 0
    cells: int = 0
    bar: bool = False
    head: Sequence[str] = ()  # the lines of its title
    least: int = 0  # cells that the text keeps at the expense of others
    cut: Callable[[str], str] = str  # a text as long as the column is wide
    wraps: bool = False  # texts are broken at blanks


def lines(
    data: Data,
    look: Look,
    *,
    null: str = "",
    bar: str | None = None,
    left_out: list[str] | None = None,
    by_worth: bool = False,
    first_keeps: int = 0,
    stays: str = "",
    wraps: str = "",
) -> Iterator[str]:
    """Yield the lines of a table, titles first, without trailing blanks.

    ``null``: notation of a null. ``bar``: a column of shares, 0 to 1, to draw as bars at the end of the rows.
    ``left_out``: a list for the names of hidden columns. If it is given and the table is too wide, titles are broken,
    then columns are hidden, numbers first. Without it all columns are shown, however long the lines. ``by_worth``: hide
    the last column first, whatever its type. ``first_keeps``: cells that the first column keeps at the expense of
    others. ``stays``: a column that is never hidden or cut. ``wraps``: a column of strings to wrap instead of cut.
    """
    layout_rows = _LAYOUT_ROWS
    if isinstance(data, pa.Table) and data.num_rows <= _MEASURED_ROWS:
        data, layout_rows = data.combine_chunks(), _MEASURED_ROWS
    schema, batches = split_rows(data, layout_rows)
    first = next(batches, None)
    rows = [] if first is None else list_rows(first)
    columns = _make_columns(schema, rows, look, bar)
    cells = [_format_cells(columns, row, null) for row in rows]
    if left_out is not None and look.width is not None:
        for column in columns:
            column.least = _LAST_READABLE if column.title in (*_DEVICES, wraps) else 0
        columns[-1].least = _LAST_READABLE
        columns[0].least = max(columns[0].least, first_keeps, _LAST_READABLE if wraps else 0)
        _break_titles(columns, cells, look)
        for dropped in _choose_hidden(columns, cells, look, by_worth, stays):
            column = columns.pop(dropped)
            left_out += [] if column.bar else [schema.names[column.source]]
            for row in cells:
                del row[dropped]
    _settle_widths(columns, cells, look, _NARROWEST if left_out is None else _READABLE)
    if look.width is not None:
        for position, column in enumerate(columns):
            if not column.number:
                column.wraps = column.title == wraps and column.cells > 0
                column.cut = Elision((row[position] for row in cells), column.cells, look.fit("…"))
    for number in range(-max((len(column.head) for column in columns), default=1), 0):
        yield look.strong(_layout_line(columns, [(("",) * -number + tuple(c.head))[number] for c in columns], look))
    for row in cells:
        yield from _layout_row(columns, row, look)
    for batch in batches:
        for values in list_rows(batch):
            yield from _layout_row(columns, _format_cells(columns, values, null), look)


def make_grid(
    table: pa.Table, look: Look, *, null: str, bar: str | None
) -> tuple[list[str], list[bool], list[list[str]]]:
    """Return a table for layouts other than lines: titles, whether columns hold numbers, and the cells of each row."""
    rows = list_rows(table)
    columns = _make_columns(table.schema, rows, look, bar)
    numbers = [column.number and not column.bar for column in columns]
    return [column.title for column in columns], numbers, [_format_cells(columns, row, null) for row in rows]


_MOST_WRAPPED = 10_000
"""Most cells of a text on a terminal: profilers record errors and names of any length."""


def wrap_paragraph(text: str, look: Look, lead: str = "  ") -> list[str]:
    """Return the lines of a text, escaped, wrapped, and indented by the width of ``lead``. The middle of a text that
    would fill screens is left out."""
    if look.width is None:
        return [lead + escape_text(look.advised(text))]
    clean = fit_text(escape_text(look.advised(cut_middle(text, _MOST_WRAPPED))), _MOST_WRAPPED, look.fit("…"))
    first, *rest = wrap_text(clean, max(2 * _NARROWEST, look.width - measure_width(lead)))
    return [lead + first, *(" " * measure_width(lead) + line for line in rest)]


def _format_cells(columns: Sequence[_Column], row: Sequence[Any], null: str) -> list[str]:
    values = [(column, row[column.source]) for column in columns]
    return [("" if column.bar else null) if value is None else column.text(value) for column, value in values]


def _make_columns(schema: pa.Schema, rows: Sequence[Sequence[Any]], look: Look, bar: str | None) -> list[_Column]:
    times = _choose_time_units(schema, rows)
    columns = [_make_column(field, times, look) for field in schema]
    for position, column in enumerate(columns):
        column.source = position
    if bar is not None:
        source = schema.names.index(bar)
        columns.append(_Column("", lambda share: quantities.draw_bar(share, look.unicode), True, source, bar=True))
    for column in columns:
        column.head = (column.title,)
    return columns


_TIME_SCALES = {"_ps": 1, "_ns": 1000}
_NUMBERS = ("id", "rank", "step", "group")  # names, not amounts: without commas between thousands
_MOMENTS = ("start_ps",)  # readers compare them, so their differences must show


def _choose_time_units(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> dict[str, quantities.Quantity]:
    """Return the notation of each time column: one unit for all durations if one suits them, else one per column."""
    values: dict[str, list[int]] = {}
    for position, field in enumerate(schema):
        scale = _TIME_SCALES.get(field.name[-3:])
        if scale and _is_count(field.type) and not field.name.endswith("_unix_ns"):
            known = [row[position] for row in rows if row[position] is not None and isfinite(row[position])]
            values[field.name] = [round(value * scale) for value in known]
    moments = {name: quantities.choose_moment_unit(values.pop(name)) for name in _MOMENTS if name in values}
    together = quantities.choose_time_unit([value for column in values.values() for value in column])
    durations = {
        name: together if together.unit else quantities.choose_time_unit(column) for name, column in values.items()
    }
    return moments | durations


def _make_column(field: pa.Field, times: Mapping[str, quantities.Quantity], look: Look) -> _Column:
    """Return the notation of a column by its type, name and unit; for times also by its first values."""
    name = escape_text(field.name)
    if not _is_count(field.type):
        return _Column(name, partial(_format_text, look.width), False)
    unit = (field.metadata or {}).get(b"unit", b"").decode("utf-8", "replace")
    measured = quantities.MEASURES.get(unit)
    if measured is not None:
        return _Column(look.fit(measured.title(name)), measured.number, True)
    if pa.types.is_floating(field.type) and field.name not in times and unit != "bytes":
        return _Column(name, lambda value: f"{value:.4g}" if abs(value) < _THOUSAND else f"{value:,.6g}", True)
    if name.endswith("_unix_ns"):
        return _Column(f"{name.removesuffix('_unix_ns')} (UTC)", quantities.format_unix_time, True)
    if field.name in times:
        quantity, scale = times[field.name], _TIME_SCALES[field.name[-3:]]
        title = name[:-3] + (f" ({look.fit(quantity.unit)})" if quantity.unit else "")
        return _Column(title, lambda value: look.fit(quantities.format_rounded(value * scale, quantity.text)), True)
    if name.endswith("_bytes") or unit == "bytes":
        return _Column(
            name.removesuffix("_bytes"), lambda value: quantities.format_rounded(value, quantities.format_size), True
        )
    if name in _NUMBERS or name.endswith(("_id", "ordinal")):
        return _Column(name, str, True)
    return _Column(name, quantities.format_count, True)


def _format_text(cells: int | None, value: Any) -> str:
    """Format a value that is not a number. ``cells``: the most cells to show, or None for all."""
    if isinstance(value, str):
        return escape_text(value if cells is None else cut_middle(value, cells))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, date):  # also with a time
        return str(value)
    is_map = isinstance(value, list) and bool(value) and all(isinstance(item, tuple) for item in value)
    return escape_text(format_json(value, pairs=is_map))


def _is_count(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _break_titles(columns: Sequence[_Column], rows: Sequence[Sequence[str]], look: Look) -> None:
    """Break titles that are wider than the cells below them, only as far as necessary to fit the width."""
    for limit in _TITLE_LIMITS:
        _settle_widths(columns, rows, look, _COMFORTABLE)
        if _fits(columns, look):
            return
        for position, column in enumerate(columns):
            below = max((measure_width(row[position]) for row in rows), default=0)
            column.head = _break_title(column.title, max(limit, below))


def _break_title(title: str, cells: int) -> list[str]:
    """Split a title into lines of at most ``cells`` cells, after a ``_`` or at a blank if possible."""
    head = [""]
    for piece in re.findall(r"[^_ ]*[_ ]?", title):
        if head[-1] and measure_width(head[-1] + piece.rstrip()) > cells:
            head.append("")
        head[-1] += piece
    return [line.rstrip() for line in head]


def _fits(columns: Sequence[_Column], look: Look) -> bool:
    taken = sum(column.cells + len(_GAP) for column in columns) - len(_GAP)
    return look.width is None or taken <= look.width


def _choose_hidden(
    columns: Sequence[_Column], rows: Sequence[Sequence[str]], look: Look, by_worth: bool, stays: str
) -> Iterator[int]:
    """Yield positions of columns to remove until the others fit: with ``by_worth`` the last column, else the last
    number except the first one, then strings except the last one. The first column, that drawn as bars, and that with
    the title ``stays`` always stay."""
    while len(columns) > 1:
        _settle_widths(columns, rows, look, _READABLE)
        if _fits(columns, look):
            return
        barred = {column.source for column in columns if column.bar}
        spare = [p for p, column in enumerate(columns) if p and (column.bar or column.source not in barred)]
        spare = [p for p in spare if not stays or columns[p].title != stays]
        if not spare:
            return
        if by_worth:
            yield spare[-1]
            continue
        numbers = [p for p in spare if columns[p].number and not columns[p].bar][1:]
        texts = [p for p in spare if not columns[p].number and p != len(columns) - 1]
        yield (numbers or texts or spare)[-1]


def _settle_widths(
    columns: Sequence[_Column], rows: Sequence[Sequence[str]], look: Look, narrowest: int = _NARROWEST
) -> None:
    for position, column in enumerate(columns):
        column.cells = max([*map(measure_width, column.head), *(measure_width(row[position]) for row in rows)])
    if look.width is None:
        return
    texts = [column for column in columns if not column.number]
    room = look.width - len(_GAP) * (len(columns) - 1) - sum(c.cells for c in columns if c.number)
    limit = _find_common_limit([column.cells for column in texts], room)
    first = [column for column in texts if min(column.cells, column.least) > limit]
    for column in first:
        column.cells = min(column.cells, column.least)
        room -= column.cells
    rest = [column for column in texts if column not in first]
    limit = _find_common_limit([column.cells for column in rest], room)
    for column in rest:
        column.cells = min(column.cells, max(limit, narrowest, column.least))
    if texts and texts[-1] is columns[-1]:  # nothing is to its right: later rows may use the remaining width
        others = sum(column.cells for column in columns[:-1])
        texts[-1].cells = max(texts[-1].cells, look.width - len(_GAP) * (len(columns) - 1) - others)


def _find_common_limit(sizes: Sequence[int], room: int) -> int:
    """Return the largest limit such that ``sizes``, each cut to it, together take at most ``room``."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return max(0, room // left)
        room, left = room - size, left - 1
    return max(sizes, default=0)


def _layout_row(columns: Sequence[_Column], cells: Sequence[str], look: Look) -> Iterator[str]:
    """Yield the line of a row, or several if a cell is wrapped."""
    pieces = [wrap_text(cell, c.cells) if c.wraps else [cell] for c, cell in zip(columns, cells, strict=True)]
    for number in range(max(map(len, pieces), default=1)):
        yield _layout_line(columns, [piece[number] if number < len(piece) else "" for piece in pieces], look)


def _layout_line(columns: Sequence[_Column], cells: Sequence[str], look: Look) -> str:
    parts = []
    for column, cell in zip(columns, cells, strict=True):
        if not column.number and look.width is not None:
            cell = column.cut(cell)
        parts.append(pad_text(cell, column.cells, right=column.number and not column.bar))
    return _GAP.join(parts).rstrip()
