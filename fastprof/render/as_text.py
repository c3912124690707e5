"""Text for people: aligned columns, times and sizes in units that suit, long names cut in the middle.

The first block of rows settles widths and units; a stream of any length goes on in that layout, and a
number too wide for it is printed whole, out of line. Texts are data: nothing in them reaches a terminal
raw. Nulls are blank. Numbers lean right, texts left.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fastprof.render import quantities
from fastprof.render.cells import json_text
from fastprof.render.look import Look
from fastprof.render.rows import Data, blocks
from fastprof.render.screen import cut, pad, printable, width

_LAYOUT_ROWS = 1_000
_GAP = "  "
_NARROWEST = 8  # cells that a text keeps, however many columns there are


@dataclass(slots=True)
class _Column:
    title: str
    text: Callable[[Any], str]
    number: bool
    cells: int = 0


def lines(data: Data, look: Look) -> Iterator[str]:
    """The lines of a table, title first; none has blanks at its end."""
    schema, batches = blocks(data, _LAYOUT_ROWS)
    first = next(batches, None)
    rows = [] if first is None else _rows(first)
    times = _times(schema, rows)
    columns = [_column(field, times, look) for field in schema]
    cells = [_cells(columns, row) for row in rows]
    _settle_widths(columns, cells, look)
    yield look.strong(_line(columns, [column.title for column in columns], look))
    for row in cells:
        yield _line(columns, row, look)
    for batch in batches:
        for values in _rows(batch):
            yield _line(columns, _cells(columns, values), look)


def paragraph(text: str, look: Look, lead: str = "  ") -> list[str]:
    """The lines of a text from a capture: escaped, broken at the width, indented by the length of ``lead``."""
    clean = printable(text)
    if look.width is None:
        return [lead + clean]
    broken = textwrap.wrap(clean, max(2 * _NARROWEST, look.width - len(lead)), break_on_hyphens=False) or [""]
    return [lead + broken[0], *(" " * len(lead) + line for line in broken[1:])]


def _rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in batch.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _cells(columns: Sequence[_Column], row: Sequence[Any]) -> list[str]:
    return ["" if value is None else column.text(value) for column, value in zip(columns, row, strict=True)]


_TIME_SCALES = {"_ps": 1, "_ns": 1000}
_MOMENTS = ("start_ps",)  # read against one another, so they must show how they differ


def _times(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> dict[str, quantities.Quantity]:
    """How each column of times is written: durations in one unit where one suits them all, else each its own."""
    values: dict[str, list[int]] = {}
    for position, field in enumerate(schema):
        scale = _TIME_SCALES.get(field.name[-3:])
        if scale and pa.types.is_integer(field.type) and not field.name.endswith("_unix_ns"):
            values[field.name] = [row[position] * scale for row in rows if row[position] is not None]
    moments = {name: quantities.moment_column(values.pop(name)) for name in _MOMENTS if name in values}
    together = quantities.time_column([value for column in values.values() for value in column])
    durations = {name: together if together.unit else quantities.time_column(column) for name, column in values.items()}
    return moments | durations


def _column(field: pa.Field, times: Mapping[str, quantities.Quantity], look: Look) -> _Column:
    """How a column is written, by its type, its name and, for times, its first values."""
    name = printable(field.name)
    if not pa.types.is_integer(field.type):
        if pa.types.is_floating(field.type):
            return _Column(name, lambda value: f"{value:,.6g}", True)
        return _Column(name, _text, False)
    if name.endswith("_unix_ns"):
        return _Column(f"{name.removesuffix('_unix_ns')} (UTC)", quantities.unix_text, True)
    if field.name in times:
        quantity, scale = times[field.name], _TIME_SCALES[field.name[-3:]]
        unit = quantity.unit if look.unicode else quantity.unit.replace("µ", "u")
        title = name[:-3] + (f" ({unit})" if unit else "")
        return _Column(title, _time_text(quantity, scale, look), True)
    if name.endswith("_bytes"):
        return _Column(name.removesuffix("_bytes"), quantities.size_text, True)
    if name == "id" or name.endswith(("_id", "ordinal")):
        return _Column(name, str, True)
    return _Column(name, quantities.count_text, True)


def _time_text(quantity: quantities.Quantity, scale: int, look: Look) -> Callable[[int], str]:
    """How a time is written, ``us`` for ``µs`` where the encoding lacks the sign."""
    if look.unicode:
        return lambda value: quantity.text(value * scale)
    return lambda value: quantity.text(value * scale).replace("µ", "u")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    is_map = isinstance(value, list) and bool(value) and all(isinstance(item, tuple) for item in value)
    return printable(json_text(value, pairs=is_map))


def _settle_widths(columns: Sequence[_Column], rows: Sequence[Sequence[str]], look: Look) -> None:
    for position, column in enumerate(columns):
        column.cells = max([width(column.title), *(width(row[position]) for row in rows)])
    if look.width is None:
        return
    texts = [column for column in columns if not column.number]
    room = look.width - len(_GAP) * (len(columns) - 1) - sum(c.cells for c in columns if c.number)
    limit = _common_limit([column.cells for column in texts], room)
    for column in texts:
        column.cells = min(column.cells, max(limit, _NARROWEST))
    if texts and texts[-1] is columns[-1]:  # nothing stands to its right: rows to come may need the rest
        others = sum(column.cells for column in columns[:-1])
        texts[-1].cells = max(texts[-1].cells, look.width - len(_GAP) * (len(columns) - 1) - others)


def _common_limit(sizes: Sequence[int], room: int) -> int:
    """The largest width that all of ``sizes`` can be held to so that together they take ``room``."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return max(0, room // left)
        room, left = room - size, left - 1
    return max(sizes, default=0)


def _line(columns: Sequence[_Column], cells: Sequence[str], look: Look) -> str:
    parts = []
    for column, cell in zip(columns, cells, strict=True):
        if not column.number and look.width is not None:
            cell = cut(cell, column.cells, _ellipsis(look))
        parts.append(pad(cell, column.cells, right=column.number))
    return _GAP.join(parts).rstrip()


def _ellipsis(look: Look) -> str:
    return "…" if look.unicode else "..."
