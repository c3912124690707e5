"""How a rendering should look where it goes: how wide, in colour or not, in which encoding."""

from __future__ import annotations

import codecs
from typing import NamedTuple

WIDTH = 100
"""Columns of text where there is no terminal to ask."""


class Look(NamedTuple):
    """``width``: columns of the screen, None to cut nothing. ``screen``: the bytes go to a terminal.

    ``file``: the bytes go to a file of their own, so Arrow may use the form that can be read at random.
    """

    width: int | None = WIDTH
    color: bool = False
    encoding: str = "utf-8"
    screen: bool = False
    file: bool = False

    @property
    def unicode(self) -> bool:
        """Whether the encoding writes every character that layout uses."""
        try:
            return codecs.lookup(self.encoding).name in ("utf-8", "utf-16", "utf-32")
        except LookupError:
            return False

    def narrower(self, cells: int) -> Look:
        """The same look in a space that many cells narrower."""
        return self if self.width is None else self._replace(width=self.width - cells)

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color and text else text
