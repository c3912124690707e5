"""Tables in one of four formats, for a destination of some width, colour and encoding.

A renderer is a generator of bytes and holds one block of rows at a time. It takes a table or an iterable of record
batches. The caller writes the bytes; a renderer knows neither files nor terminals.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from fastprof.wording.spelling import translate_flags

if TYPE_CHECKING:
    from fastprof.render.rows import Data


WIDTH = 100
"""Width of text without a terminal."""


class Look(NamedTuple):
    """Destination of text. ``width``: cells per line, or None for unlimited. ``screen``: it is a terminal. ``file``: it
    is a file, so Arrow uses its file format. ``python``: the reader is in Python, so advice names parameters, not
    flags. ``verbose``: reports are shown with all their sections, columns and remarks."""

    width: int | None = WIDTH
    color: bool = False
    encoding: str = "utf-8"
    screen: bool = False
    file: bool = False
    python: bool = False
    verbose: bool = False

    @property
    def unicode(self) -> bool:
        """Return whether the encoding has every character that the layout uses."""
        try:
            return codecs.lookup(self.encoding).name in ("utf-8", "utf-16", "utf-32")
        except LookupError:
            return False

    def narrower(self, cells: int) -> Look:
        """Return the look with ``cells`` less width."""
        return self if self.width is None else self._replace(width=self.width - cells)

    def fit(self, text: str) -> str:
        """Replace layout characters that the encoding may lack."""
        return text if self.unicode else text.replace("µ", "u").replace("…", "...")

    def advised(self, text: str) -> str:
        """Write flags in a text as the reader gives them."""
        return translate_flags(text) if self.python else text

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color and text else text


_RENDERERS = {"table": "as_text", "json": "as_json", "csv": "as_csv", "arrow": "as_arrow"}
FORMATS = tuple(_RENDERERS)
"""Values of ``--format``, text for people first."""

__all__ = ["FORMATS", "Look", "load_renderer", "render_table"]


def render_table(
    form: str,
    data: Data,
    *,
    name: str,
    look: Look,
    left_out: list[str] | None = None,
    by_worth: bool = False,
    wraps: str = "",
) -> Iterator[bytes]:
    """Yield the bytes of ``data`` in a format, block by block.

    ``name``: name of the table in JSON. ``left_out``: a list for the names of columns that do not fit the width of a
    text; without it lines are as long as necessary. ``by_worth``: hide the last columns first; ``wraps``: a column of
    strings to wrap instead of cut. KeyError: the format is not in FORMATS.
    """
    if form == "table":
        lines = load_renderer(form).lines(data, look, left_out=left_out, by_worth=by_worth, wraps=wraps)
        return (f"{line}\n".encode(look.encoding, "backslashreplace") for line in lines)
    options: dict[str, dict[str, Any]] = {"json": {"name": name}, "csv": {}, "arrow": {"file": look.file}}
    blocks: Iterator[bytes] = load_renderer(form).chunks(data=data, **options[form])
    return blocks


def load_renderer(form: str) -> Any:
    """Import the module that writes a format, and no other: some take longer than a small question."""
    return import_module(f"fastprof.render.{_RENDERERS[form]}")
