"""Text of a trace for a terminal: without control characters, and no wider than the terminal.

Widths of characters come from ``unicodedata``, not from a package such as wcwidth: the core needs numpy and pyarrow
only, and the two differ in rare sequences such as joined emoji.
"""

from __future__ import annotations

import unicodedata

from fastprof.wording.patterns import pattern_of

_INVISIBLE = pattern_of("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]")
"""Characters that take part in names and show nothing, although Unicode does not count them as control characters."""

_NOT_ONE_CELL = pattern_of("[^\0-\u02ff\u2010-\u2027]")
"""All that may take no cell or two: any character but Latin ones, dashes, quotation marks and the like."""


def printable(text: str) -> str:
    """``text`` with escapes for everything that does not print: control characters (C0, C1), marks of direction,
    separators of lines, characters without width, lone surrogates.

    Names in a trace are arbitrary bytes. Unescaped, they could clear the screen, set the title of the window, or show
    one name as another.
    """
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    hidden = {one for one in set(text) if not one.isprintable() or _INVISIBLE.match(one)}
    return text.translate({ord(one): ascii(one)[1:-1] for one in hidden})


def excerpt(text: str, cells: int) -> str:
    """Both ends of a text that is far longer than ``cells``; ``cut`` gives the same result for it. Escaping and
    measuring an entire name of megabytes would take long."""
    ends = 4 * cells + 64  # with room for characters that take no cell
    return text if len(text) <= 2 * ends else text[:ends] + text[-ends:]


def printable_lines(text: str) -> str:
    """As ``printable``, but keeps line ends."""
    return "\n".join(printable(line) for line in text.split("\n"))


def width(text: str) -> int:
    """Cells that printable ``text`` takes on a terminal."""
    if text.isascii() or not _NOT_ONE_CELL.search(text):
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, limit: int, ellipsis: str = "…") -> str:
    """``text`` in at most ``limit`` cells. The middle is left out, because names differ at their ends."""
    if width(text) <= limit:
        return text
    room = limit - len(ellipsis)
    if room < 2:
        return _head(text, limit)
    tail = room // 2
    return _head(text, room - tail) + ellipsis + _head(text[::-1], tail)[::-1]


def _head(text: str, limit: int) -> str:
    if text.isascii():
        return text[:limit]
    taken = 0
    for position, character in enumerate(text):
        taken += _cells(character)
        if taken > limit:
            return text[:position]
    return text


def wrapped(text: str, limit: int) -> list[str]:
    """Printable ``text`` in lines of at most ``limit`` cells, broken at blanks, or inside words that are longer."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) <= limit:
            lines[-1] = longer
            continue
        if not lines[-1]:
            lines.pop()
        *full, rest = _pieces(word, limit)
        lines += full
        if rest or not lines:
            lines.append(rest)
    return [line.rstrip() for line in lines]


def _pieces(word: str, limit: int) -> list[str]:
    """A word in pieces of at most ``limit`` cells; the last piece may be empty."""
    pieces = []
    start = taken = 0
    for place, character in enumerate(word):
        cells = _cells(character)
        if taken + cells > limit and place > start:
            pieces.append(word[start:place])
            start, taken = place, 0
        taken += cells
    return [*pieces, word[start:]]


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """``text``, padded with blanks to ``cells``; ``right``: with blanks before it."""
    blanks = " " * max(0, cells - width(text))
    return blanks + text if right else text + blanks
