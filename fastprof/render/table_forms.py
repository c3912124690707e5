"""Tables in one of four formats. A renderer is a generator of bytes and holds one block of rows at a time.

Every renderer takes a table or an iterable of record batches. The caller writes the bytes; a renderer knows neither
files nor terminals.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastprof.render.look import Look

if TYPE_CHECKING:
    from fastprof.render.rows import Data

_RENDERERS = {"table": "as_text", "json": "as_json", "csv": "as_csv", "arrow": "as_arrow"}
FORMATS = tuple(_RENDERERS)
"""What ``--format`` offers; text for people first."""

__all__ = ["FORMATS", "Look", "chunks", "renderer"]


def chunks(
    form: str,
    data: Data,
    *,
    name: str,
    look: Look,
    left_out: list[str] | None = None,
    by_worth: bool = False,
    wraps: str = "",
) -> Iterator[bytes]:
    """The bytes of ``data`` in a format, block by block.

    ``name``: the name of the table in JSON. ``left_out``: a list for the names of columns that do not fit the width of
    a text; without it lines are as long as necessary. ``by_worth``: leave out the last columns first; ``wraps``: a
    column of texts to break instead of cut. Raises KeyError for a format that is not in FORMATS.
    """
    if form == "table":
        lines = renderer(form).lines(data, look, left_out=left_out, by_worth=by_worth, wraps=wraps)
        return (f"{line}\n".encode(look.encoding, "backslashreplace") for line in lines)
    options: dict[str, dict[str, Any]] = {
        "json": {"name": name},
        "csv": {},
        "arrow": {"file": look.file},
    }
    blocks: Iterator[bytes] = renderer(form).chunks(data=data, **options[form])
    return blocks


def renderer(form: str) -> Any:
    """The module that writes a format. Others are not imported: some take longer than a small question."""
    return import_module(f"fastprof.render.{_RENDERERS[form]}")
