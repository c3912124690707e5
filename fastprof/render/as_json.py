"""JSON: one document per table, with descriptions of its columns and one object per row.

    {"table": "events",
     "columns": [{"name": "start_ps", "type": "int64", "unit": "ps", "description": "..."}, ...],
     "rows": [
    {"start_ps": 12, ...},
    ...]}

Each row is one line, for ``jq '.rows[].name'`` and ``pandas.DataFrame(document["rows"])``. Integers are exact (readers
that use doubles lose digits beyond 2**53). NaN and infinities, which JSON numbers lack, are the texts "NaN",
"Infinity" and "-Infinity". Bytes are base64; a map is an object. The text is always ASCII.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from fastprof.render.rows import Data, number_names, split_rows
from fastprof.schema.tables import REASON
from fastprof.wording.cells import ColumnCells, join_cells
from fastprof.wording.json_values import format_json, json_quote


def chunks(name: str, data: Data) -> Iterator[bytes]:
    """Yield the document of a table, ended by a newline."""
    yield from write_table(name, data)
    yield b"\n"


def write_sections(summary: Mapping[str, Any], tables: Mapping[str, Data]) -> Iterator[bytes]:
    """Yield one document of several tables: ``{"summary": {...}, NAME: {"table": NAME, ...}, ...}``."""
    yield f'{{"summary": {format_json(dict(summary))}'.encode("ascii")
    for name, data in tables.items():
        yield f",\n{json_quote(name)}: ".encode("ascii")
        yield from write_table(name, data)
    yield b"}\n"


def write_by_run(documents: Mapping[str, Iterable[bytes]]) -> Iterator[bytes]:
    """Yield one document of several runs: ``{"runs": {NAME: DOCUMENT, …}}``, ended by a newline."""
    lead = '{"runs": {'
    for run, document in documents.items():
        yield f"{lead}{json_quote(run)}: ".encode("ascii")
        yield from document
        lead = ","
    yield b"}}\n"


def write_table(name: str, data: Data) -> Iterator[bytes]:
    """Yield a table as an object, without a line end."""
    schema, batches = split_rows(data)
    names = number_names(schema)
    columns = ",\n  ".join(
        format_json(describe_column(column, field)) for column, field in zip(names, schema, strict=True)
    )
    yield f'{{"table": {json_quote(name)},\n "columns": [{columns}],\n "rows": ['.encode("ascii")
    cells = [ColumnCells(quote=json_quote, null="null") for _ in names]
    keys = [f"{json_quote(column)}: " for column in names]
    leads = [",\n{" + (keys[0] if keys else ""), *(f", {key}" for key in keys[1:])]
    first = True
    for batch in batches:
        text = join_cells(batch, cells, leads, "}")
        if text:
            yield text[1:] if first else text  # every row starts with the comma before it
            first = False
    yield b"]}"


def describe_column(name: str, field: pa.Field) -> dict[str, str | None]:
    """Return name, type, unit and description of a column, and the reason for its unknown cells."""
    keys = (b"unit", b"description", REASON)
    entries = {
        key.decode(): value.decode("utf-8", "replace") for key, value in (field.metadata or {}).items() if key in keys
    }
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return {
        "name": name,
        "type": str(kind),
        "unit": entries.get("unit"),
        "description": entries.get("description"),
        **({"reason": entries["reason"]} if "reason" in entries else {}),
    }
