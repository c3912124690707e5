"""Reports as JSON: figures with unit and definition, notices, and tables with descriptions of their columns.

    {"analysis": "overview", "fastprof_version": "…", "schema_version": "4",
     "scalars": {
    "step_time_ps": {"value": 7000000000, "unit": "ps", "definition": "…", "reason": null},
     …},
     "notices": [
    {"severity": "recommendation", "text": "…"},
     …],
     "tables": {
    "ops": {"table": "ops", "columns": […], "rows": […]},
     …}}

The shape is stable: names stay, and an unknown value is null with a reason. Tables are written as in as_json.py. For
the pages in the browser, tables are written by column, which takes about a third of the size:

    "ops": {"table": "ops", "length": 3, "first": 0, "of": 3, "columns": [
    {"name": "name", "type": "string", "unit": null, "description": "…", "texts": ["a", "b"], "codes": [0, 1, -1]},
    {"name": "self_ps", "type": "int64", "unit": "ps", "description": "…", "values": [1, 2, null]}, …]}

``texts`` are the distinct strings of a column, ``codes`` the position of each row's string, or -1 for null. ``of`` is
the number of rows of the table; ``length`` of them are written, from row ``first`` on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from fastprof._version import __version__
from fastprof.errors import UsageError
from fastprof.render import as_json
from fastprof.render.rows import number_names
from fastprof.schema.tables import VERSION
from fastprof.schema.value_classes import dataclass
from fastprof.wording.cells import TEXT, ColumnCells, is_text
from fastprof.wording.json_values import format_json, json_quote

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport


def chunks(report: AnalysisReport, limit: int | None = None) -> Iterator[bytes]:
    """Yield the document of a report, ended by a newline; at most ``limit`` rows of each table."""
    yield from _write_document(report, limit)
    yield b"\n"


def several(reports: Mapping[str, AnalysisReport], limit: int | None = None) -> Iterator[bytes]:
    """Yield one document of several reports by name."""
    lead = b"{"
    for name, report in reports.items():
        yield lead + f"{json_quote(name)}: ".encode("ascii")
        yield from _write_document(report, limit)
        lead = b",\n"
    yield b"}\n" if reports else b"{}\n"


def _write_document(report: AnalysisReport, limit: int | None) -> Iterator[bytes]:
    yield (_write_head(report) + ',\n "tables": {').encode("ascii")
    lead = "\n"
    for name, table in report.tables.items():
        yield f"{lead}{json_quote(name)}: ".encode("ascii")
        yield from as_json.write_table(name, table if limit is None else table.slice(0, limit))
        lead = ",\n"
    yield b"}}"


def _write_head(report: AnalysisReport) -> str:
    """Return the document up to its tables, with its opening brace."""
    names = (("analysis", report.analysis), ("fastprof_version", __version__), ("schema_version", VERSION))
    pieces = [", ".join(f"{json_quote(key)}: {json_quote(value)}" for key, value in names)]
    described = {
        name: {"value": scalar.value, "unit": scalar.unit, "definition": scalar.definition, "reason": scalar.reason}
        for name, scalar in report.scalars.items()
    }
    scalars = [f"{json_quote(name)}: {format_json(scalar)}" for name, scalar in described.items()]
    pieces.append(' "scalars": {\n' + ",\n".join(scalars) + "}")
    notices = [format_json({"severity": notice.severity, "text": notice.text}) for notice in report.notices]
    pieces.append(' "notices": [\n' + ",\n".join(notices) + "]")
    return "{" + ",\n".join(pieces)


# ---- by column


_BLOCK_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class ReportPart:
    """Part of a report to write. ``tables``: names of tables, or None for all. ``columns``: names of columns by table;
    tables without an entry have all. ``first``, ``rows``: first row of each table, and most rows. ``letters``: most
    letters of a string. ``most_bytes``: most bytes of all tables. Tables end early to stay below; column
    descriptions and a row of the first table are always written."""

    tables: Collection[str] | None = None
    columns: Mapping[str, Collection[str]] = field(default_factory=dict)
    first: int = 0
    rows: int | None = None
    letters: int | None = None
    most_bytes: int | None = None


def write_columns(report: AnalysisReport, part: ReportPart | None = None) -> Iterator[bytes]:
    """Yield the document of a report by column, ended by a newline. UsageError: no such table or column."""
    chosen = part or ReportPart()
    _check_names("table", [*(chosen.tables or ()), *chosen.columns], report.tables)
    for name, columns in chosen.columns.items():
        _check_names(f"column of {name}", columns, report.tables[name].schema.names)
    return _write_parts(report, chosen)


def _check_names(kind: str, wanted: Iterable[str], names: Collection[str]) -> None:
    for name in wanted:
        if name not in names:
            raise UsageError(f"there is no {kind} {name!r}; there are {', '.join(names)}")


def _write_parts(report: AnalysisReport, part: ReportPart) -> Iterator[bytes]:
    yield (_write_head(report) + ',\n "tables": {').encode("ascii")
    lead, written = b"\n", 0
    for name in report.tables:
        if part.tables is not None and name not in part.tables:
            continue  # never touched: computing it may take longer than all others
        yield lead + json_quote(name).encode("ascii") + b": "
        if part.most_bytes is None:
            yield from _write_table(name, report.tables[name], part)
        else:
            text = _write_fitting(name, report.tables[name], part, part.most_bytes - written, least=int(not written))
            written += len(text)
            yield text
        lead = b",\n"
    yield b"}}\n"


def _write_fitting(name: str, table: pa.Table, part: ReportPart, room: int, least: int) -> bytes:
    """Return as many rows of a table, at least ``least``, as ``room`` bytes hold."""
    cell = 2  # bytes of the shortest
    rows = max(min(table.num_rows - part.first, max(room, 0) // (cell * max(table.num_columns, 1))), least)
    rows = rows if part.rows is None else min(rows, part.rows)
    while True:
        text = b"".join(_write_table(name, table, replace(part, rows=rows)))
        if len(text) <= room or rows <= least:
            return text
        rows = max(least, rows * max(room, 0) * 9 // (len(text) * 10))


def _write_table(name: str, table: pa.Table, part: ReportPart) -> Iterator[bytes]:
    rows = table.slice(part.first) if part.rows is None else table.slice(part.first, part.rows)
    if name in part.columns:
        rows = rows.select([column for column in rows.schema.names if column in part.columns[name]])
    sizes = f'"length": {rows.num_rows}, "first": {part.first}, "of": {table.num_rows}'
    yield f'{{"table": {json_quote(name)}, {sizes}, "columns": ['.encode("ascii")
    lead = "\n"
    for column, kind, values in zip(number_names(rows.schema), rows.schema, rows.columns, strict=True):
        described = format_json(as_json.describe_column(column, kind))
        yield f"{lead}{described[:-1]}, ".encode("ascii")
        yield from _write_values(values, part.letters)
        yield b"}"
        lead = ",\n"
    yield b"]}"


def _write_values(column: pa.ChunkedArray, letters: int | None) -> Iterator[bytes]:
    if pa.types.is_dictionary(column.type) or is_text(column.type):
        yield from _write_texts(column, letters)
        return
    cells = ColumnCells(quote=json_quote, null="null")
    yield b'"values": ['
    lead = b""
    for chunk in column.chunks:
        for start in range(0, len(chunk), _BLOCK_ROWS):
            yield lead + _join_texts(cells.texts(chunk.slice(start, _BLOCK_ROWS)))
            lead = b","
    yield b"]"


def _write_texts(column: pa.ChunkedArray, letters: int | None) -> Iterator[bytes]:
    """Yield the distinct strings, then the position of each row's string."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # drops values that no row has, and makes null texts null
    encoded = column.cast(pa.large_string()).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.large_string())
    encoded = encoded.dictionary_encode()
    yield b'"texts": ['
    lead = ""
    for scalar in encoded.dictionary:
        text = scalar.as_py()
        shown = text if letters is None or len(text) <= letters else text[:letters] + "…"
        yield (lead + json_quote(shown)).encode("ascii")
        lead = ","
    yield b'], "codes": ['
    yield _join_texts(pc.cast(pc.fill_null(encoded.indices, -1), TEXT))
    yield b"]"


def _join_texts(texts: pa.Array) -> bytes:
    """Join strings with commas."""
    if len(texts) == 0:
        return b""
    one_list = pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), pc.cast(texts, TEXT))
    joined: bytes = pc.binary_join(one_list, pa.scalar(",", TEXT))[0].as_buffer().to_pybytes()
    return joined
