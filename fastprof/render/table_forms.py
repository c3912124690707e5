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
"""Width of text if there is no terminal."""


class Look(NamedTuple):
    """``width``: columns of text; None: unlimited. ``screen``: the destination is a terminal.

    ``file``: the destination is a file, so Arrow uses its file format. ``python``: the reader is in Python, so advice
    names parameters, not flags.
    """

    width: int | None = WIDTH
    color: bool = False
    encoding: str = "utf-8"
    screen: bool = False
    file: bool = False
    python: bool = False

    @property
    def unicode(self) -> bool:
        """Whether the encoding has every character that the layout uses."""
        try:
            return codecs.lookup(self.encoding).name in ("utf-8", "utf-16", "utf-32")
        except LookupError:
            return False

    def narrower(self, cells: int) -> Look:
        """The same look, ``cells`` narrower."""
        return self if self.width is None else self._replace(width=self.width - cells)

    def fit(self, text: str) -> str:
        """The text without the signs of the layout that the encoding may lack."""
        return text if self.unicode else text.replace("µ", "u").replace("…", "...")

    def advised(self, text: str) -> str:
        """The text with flags as the reader gives them."""
        return translate_flags(text) if self.python else text

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color and text else text


_RENDERERS = {"table": "as_text", "json": "as_json", "csv": "as_csv", "arrow": "as_arrow"}
FORMATS = tuple(_RENDERERS)
"""What ``--format`` offers; text for people first."""

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
    """The bytes of ``data`` in a format, block by block.

    ``name``: the name of the table in JSON. ``left_out``: a list for the names of columns that do not fit the width of
    a text; without it lines are as long as necessary. ``by_worth``: leave out the last columns first; ``wraps``: a
    column of texts to break instead of cut. Raises KeyError for a format that is not in FORMATS.
    """
    if form == "table":
        lines = load_renderer(form).lines(data, look, left_out=left_out, by_worth=by_worth, wraps=wraps)
        return (f"{line}\n".encode(look.encoding, "backslashreplace") for line in lines)
    options: dict[str, dict[str, Any]] = {
        "json": {"name": name},
        "csv": {},
        "arrow": {"file": look.file},
    }
    blocks: Iterator[bytes] = load_renderer(form).chunks(data=data, **options[form])
    return blocks


def load_renderer(form: str) -> Any:
    """The module that writes a format. Others are not imported: some take longer than a small question."""
    return import_module(f"fastprof.render.{_RENDERERS[form]}")
