"""Reports as JSON by column, for pages that show them: about a third of the size of the rows of report_json.py.

    {"analysis": "op_stats", "fastprof_version": "…", "schema_version": "1",
     "scalars": {…}, "notices": […],
     "tables": {
    "ops": {"table": "ops", "length": 3, "first": 0, "of": 3, "columns": [
    {"name": "name", "type": "string", "unit": null, "description": "…", "texts": ["a", "b"], "codes": [0, 1, -1]},
    {"name": "self_ps", "type": "int64", "unit": "ps", "description": "…", "values": [1, 2, null]}, …]}, …}}

Figures, notices and single values are written as in report_json.py. Texts are those that differ, and for each row the
number of its text, -1 where it is null. ``of`` is how many rows there are where only ``length`` of them are written,
from the row ``first`` on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.errors import UsageError
from fastprof.render import as_json, report_json
from fastprof.render.rows import unique_names
from fastprof.wording.cells import TEXT, ColumnCells, json_quote, json_text

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

_BLOCK_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Part:
    """What of a report is written. ``tables``: those written, None: all;
    ``columns``: by table those written, of tables not named all; of each table the rows from ``first`` on, at most
    ``rows``; texts longer than ``letters`` are cut."""

    tables: Collection[str] | None = None
    columns: Mapping[str, Collection[str]] = field(default_factory=dict)
    first: int = 0
    rows: int | None = None
    letters: int | None = None


def chunks(report: Report, part: Part | None = None) -> Iterator[bytes]:
    """The document of one report, ended by a newline. UsageError: no such table or column."""
    chosen = part or Part()
    for name in [*(chosen.tables or ()), *chosen.columns]:
        _known("table", name, report.tables)
    for name, columns in chosen.columns.items():
        for column in columns:
            _known(f"column of {name}", column, report.tables[name].schema.names)
    return _document(report, chosen)


def _known(kind: str, name: str, there: Collection[str]) -> None:
    if name not in there:
        raise UsageError(f"there is no {kind} {name!r}; there are {', '.join(there)}")


def _document(report: Report, part: Part) -> Iterator[bytes]:
    yield (report_json.head(report) + ',\n "tables": {').encode("ascii")
    lead = b"\n"
    for name in report.tables:
        if part.tables is not None and name not in part.tables:
            continue  # not looked at: making it may take longer than all of the others
        yield lead + json_quote(name).encode("ascii") + b": "
        yield from _table(name, report.tables[name], part)
        lead = b",\n"
    yield b"}}\n"


def _table(name: str, table: pa.Table, part: Part) -> Iterator[bytes]:
    kept = table.slice(part.first) if part.rows is None else table.slice(part.first, part.rows)
    if name in part.columns:
        kept = kept.select([column for column in kept.schema.names if column in part.columns[name]])
    letters, first = part.letters, part.first
    sizes = f'"length": {kept.num_rows}, "first": {first}, "of": {table.num_rows}'
    yield f'{{"table": {json_quote(name)}, {sizes}, "columns": ['.encode("ascii")
    lead = "\n"
    for column, kind, values in zip(unique_names(kept.schema), kept.schema, kept.columns, strict=True):
        described = json_text(as_json.described(column, kind))
        yield f"{lead}{described[:-1]}, ".encode("ascii")
        yield from _values(values, letters)
        yield b"}"
        lead = ",\n"
    yield b"]}"


def _values(column: pa.ChunkedArray, letters: int | None) -> Iterator[bytes]:
    if pa.types.is_dictionary(column.type) or _is_text(column.type):
        yield from _texts(column, letters)
        return
    cells = ColumnCells(quote=json_quote, null="null")
    yield b'"values": ['
    lead = b""
    for block in _blocks(column):
        yield lead + _joined(cells.texts(block))
        lead = b","
    yield b"]"


def _texts(column: pa.ChunkedArray, letters: int | None) -> Iterator[bytes]:
    """The texts that differ, then the number of the text of each row."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # values that no row has are left out, and null texts are null
    encoded = column.cast(pa.large_string()).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.large_string())
    encoded = encoded.dictionary_encode()
    yield b'"texts": ['
    lead = ""
    for text in encoded.dictionary:
        yield (lead + json_quote(_cut(text.as_py(), letters))).encode("ascii")
        lead = ","
    yield b'], "codes": ['
    yield _joined(pc.cast(pc.fill_null(encoded.indices, -1), TEXT))
    yield b"]"


def _cut(text: str, letters: int | None) -> str:
    return text if letters is None or len(text) <= letters else text[:letters] + "…"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _blocks(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in column.chunks:
        for start in range(0, len(chunk), _BLOCK_ROWS):
            yield chunk.slice(start, _BLOCK_ROWS)


def _joined(texts: pa.Array) -> bytes:
    """The texts with commas between them."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if len(texts) == 0:
        return b""
    one_list = pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), pc.cast(texts, TEXT))
    joined: bytes = pc.binary_join(one_list, pa.scalar(",", TEXT))[0].as_buffer().to_pybytes()
    return joined
