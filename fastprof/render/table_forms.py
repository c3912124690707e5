"""Tables in one of four formats. A renderer is a generator of bytes and holds one block of rows at a time.

Every renderer takes a table or an iterable of record batches. The caller writes the bytes; a renderer knows neither
files nor terminals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastprof.render.look import Look

if TYPE_CHECKING:
    from fastprof.render.rows import Data

FORMATS = ("table", "json", "csv", "arrow")
"""What ``--format`` offers; text for people first."""

__all__ = ["FORMATS", "Look", "chunks"]


def chunks(
    form: str, data: Data, *, name: str, look: Look, left_out: list[str] | None = None, by_worth: bool = False
) -> Iterator[bytes]:
    """The bytes of ``data`` in a format, block by block.

    ``name``: the name of the table in JSON. ``left_out``: a list for the names of columns that do not fit the width of
    a text; without it lines are as long as necessary. ``by_worth``: leave out the last columns first. Raises KeyError
    for a format that is not in FORMATS.
    """
    if form == "table":
        from fastprof.render import as_text

        lines = as_text.lines(data, look, left_out=left_out, by_worth=by_worth)
        return (f"{line}\n".encode(look.encoding, "backslashreplace") for line in lines)
    if form == "json":
        from fastprof.render import as_json

        return as_json.chunks(name, data)
    if form == "csv":
        from fastprof.render import as_csv

        return as_csv.chunks(data, screen=look.screen)
    if form == "arrow":
        from fastprof.render import as_arrow

        return as_arrow.chunks(data, file=look.file)
    raise KeyError(form)
