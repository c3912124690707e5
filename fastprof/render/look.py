"""The properties of a destination: width, colour, encoding."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from fastprof.wording.flags import in_python

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
        return in_python(text) if self.python else text

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color and text else text
