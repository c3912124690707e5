"""Rows as numbered paragraphs, for tables whose cells are sentences:

1. TPU:0 waits for copies between host and device: 77.4 s, 84.1 %
   op: copy-done.4
   advice: Keep arrays on the device: …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fastprof.render import as_text
from fastprof.wording import quantities
from fastprof.wording.screen import width

if TYPE_CHECKING:
    from fastprof.render.look import Look


def lines(table: pa.Table, look: Look) -> Iterator[str]:
    """The first column and the amounts of each row, then a line for each other text. Unknown cells are left out."""
    for number, (head, texts) in enumerate(paragraphs(table, look), 1):
        lead = f"  {number}. "
        yield from as_text.paragraph(head, look, lead)
        for name, text in texts:
            yield from as_text.paragraph(f"{name}: {text}", look, " " * width(lead))


def paragraphs(table: pa.Table, look: Look) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Of each row what it says with its amounts, and its other texts with the names of their columns."""
    fields = list(table.schema)
    for row in table.to_pylist():
        texts = [(field.name, row[field.name]) for field in fields[1:] if isinstance(row[field.name], str)]
        yield look.fit(_head(fields, row)), [(name.replace("_", " "), text) for name, text in texts]


def _head(fields: list[pa.Field], row: dict[str, Any]) -> str:
    """The first cell, with the amounts of the row. A column ``is_bound`` has whether these are upper bounds, and
    ``rest_share`` leaves start-up out; it is left out itself if it looks like ``share``."""
    amounts = {
        field.name: quantities.measured(row[field.name], _unit(field))
        for field in fields[1:]
        if isinstance(row[field.name], int | float) and not isinstance(row[field.name], bool)
    }
    if amounts.get("rest_share") == amounts.get("share"):
        amounts.pop("rest_share", None)
    if not amounts:
        return str(row[fields[0].name])
    bound = "up to " if row.get("is_bound") else ""
    return f"{row[fields[0].name]}: {bound}" + ", ".join(text + _OF.get(name, "") for name, text in amounts.items())


_OF: Final = {"rest_share": " without start-up"}


def _unit(field: pa.Field) -> str | None:
    unit = (field.metadata or {}).get(b"unit", b"").decode("utf-8", "replace")
    return unit or None
