"""CSV in UTF-8: a header with column names, then one line per row.

A text is quoted if it contains a comma, a quote or a line end, if it starts or ends with a blank, and if it is empty,
because an empty cell is a null. A text that a spreadsheet would take for a formula begins with an apostrophe
(``wording/cells.py``). Lists and maps are JSON text, bytes are base64; NaN and infinities are ``NaN``,
``Infinity`` and ``-Infinity``. Lines end in a line feed.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastprof.render.rows import Data, split_rows
from fastprof.wording.cells import ColumnCells, escape_formula, join_cells
from fastprof.wording.patterns import compile_late

_AWKWARD = compile_late(r'[",\r\n]|^\s|\s$|^$')


def chunks(data: Data) -> Iterator[bytes]:
    """Yield the lines of ``data``, a block at a time."""
    schema, batches = split_rows(data)
    yield (",".join(_quote_text(name) for name in schema.names) + "\n").encode()
    cells = [ColumnCells(quote=_quote_text, null="") for _ in schema.names]
    leads = ["", *[","] * (len(cells) - 1)]
    for batch in batches:
        yield join_cells(batch, cells, leads, "\n")


def _quote_text(text: str) -> str:
    text = escape_formula(text)
    return '"' + text.replace('"', '""') + '"' if _AWKWARD.search(text) else text
