"""Trace text for a terminal: no control characters, no wider than the screen, long names without shared parts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from fastprof.wording.patterns import compile_late

_INVISIBLE = compile_late("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]")
"""Characters that take part in names and show nothing, although Unicode does not count them as control characters."""

_NOT_ONE_CELL = compile_late("[^\0-\u02ff\u2010-\u2027]")
"""Characters that may take no cell or two: all except Latin ones, dashes and quotation marks."""


def escape_text(text: str) -> str:
    """Escape everything that does not print: control characters (C0, C1), direction marks, line separators, characters
    without width, lone surrogates.

    Names in a trace are arbitrary bytes. Unescaped, they could clear the screen, set the window title, or show one name
    as another.
    """
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    hidden = {character for character in set(text) if not character.isprintable() or _INVISIBLE.match(character)}
    return text.translate({ord(character): ascii(character)[1:-1] for character in hidden})


def cut_middle(text: str, cells: int) -> str:
    """Return both ends of a text that is far longer than ``cells``. ``fit_text`` gives the same result for it, but
    escaping and measuring an entire name of megabytes would take long."""
    ends = 4 * cells + 64  # with room for characters that take no cell
    return text if len(text) <= 2 * ends else text[:ends] + text[-ends:]


def escape_lines(text: str) -> str:
    """Escape everything that does not print, except line ends."""
    return "\n".join(escape_text(line) for line in text.split("\n"))


def measure_width(text: str) -> int:
    """Return the number of cells that printable ``text`` takes on a terminal."""
    if text.isascii() or not _NOT_ONE_CELL.search(text):
        return len(text)
    return sum(_measure_character(character) for character in text)


def _measure_character(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit_text(text: str, limit: int, ellipsis: str = "…") -> str:
    """Cut the middle of ``text`` to at most ``limit`` cells, because names differ at their ends."""
    if measure_width(text) <= limit:
        return text
    room = limit - len(ellipsis)
    if room < 2:
        return _take_cells(text, limit)
    tail = room // 2
    return _take_cells(text, room - tail) + ellipsis + _take_cells(text[::-1], tail)[::-1]


def _take_cells(text: str, limit: int) -> str:
    if text.isascii():
        return text[:limit]
    taken = 0
    for position, character in enumerate(text):
        taken += _measure_character(character)
        if taken > limit:
            return text[:position]
    return text


def wrap_text(text: str, limit: int) -> list[str]:
    """Split printable ``text`` into lines of at most ``limit`` cells, at blanks, or inside words that are longer."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if measure_width(longer) <= limit:
            lines[-1] = longer
            continue
        if not lines[-1]:
            lines.pop()
        *full, rest = _split_word(word, limit)
        lines += full
        if rest or not lines:
            lines.append(rest)
    return [line.rstrip() for line in lines]


def _split_word(word: str, limit: int) -> list[str]:
    """Split a word into pieces of at most ``limit`` cells; the last piece may be empty."""
    pieces = []
    start = taken = 0
    for place, character in enumerate(word):
        cells = _measure_character(character)
        if taken + cells > limit and place > start:
            pieces.append(word[start:place])
            start, taken = place, 0
        taken += cells
    return [*pieces, word[start:]]


def pad_text(text: str, cells: int, *, right: bool = False) -> str:
    """Pad ``text`` with blanks to ``cells``; ``right``: with blanks before it."""
    blanks = " " * max(0, cells - measure_width(text))
    return blanks + text if right else text + blanks


_LITTLE = 3  # of the room
_LEAST_ALIKE = 6  # shorter beginnings stay: they say what the names are
_BREAKS = (compile_late(r"(?=/)|(?<=[:,;(<\[ ])"), compile_late(r"(?<=[_.])"))  # the second ones if there are no others
_BRANCHES = tuple("│├└|` ")  # a tree is drawn before these names


class Elision:
    """Cutter of the strings of a column to ``limit`` cells. The shared beginning of long strings is left out, then the
    middle; strings that would look alike are cut again, before they differ."""

    def __init__(self, texts: Iterable[str], limit: int, ellipsis: str = "…") -> None:
        self._limit, self._ellipsis = limit, ellipsis
        long = list(dict.fromkeys(text for text in texts if measure_width(text) > limit))
        self._prefix = (
            ""
            if any(text.startswith(_BRANCHES) for text in long)
            else _find_shared_beginning(long, limit - len(ellipsis))
        )
        self._again: dict[str, str] = {}
        alike: dict[str, list[str]] = {}
        for text in long:
            alike.setdefault(self._cut(text), []).append(text)
        for same in alike.values():
            if len(same) > 1:
                self._again.update(zip(same, self._apart(same), strict=True))

    def __call__(self, text: str) -> str:
        if measure_width(text) <= self._limit:
            return text
        return self._again.get(text) or self._cut(text)

    def _cut(self, text: str) -> str:
        if self._prefix and text.startswith(self._prefix):
            text = self._ellipsis + text[len(self._prefix) :]
        return fit_text(text, self._limit, self._ellipsis)

    def _apart(self, texts: Sequence[str]) -> list[str]:
        """Cut strings that differ in their middles, from a little before the first difference on."""
        differ = len(_find_common_prefix(texts))
        start = max([*_find_breaks(texts[0][:differ])[-1:], differ - self._limit // 2])
        room = self._limit - len(self._ellipsis)
        return [self._ellipsis + _cut_beginning(text[start:], room, self._ellipsis) for text in texts]


def _find_shared_beginning(texts: Sequence[str], room: int) -> str:
    """Return the beginning that all strings share, up to the end of a name part: only what must go for all to fit,
    or all of it; empty if it is short, or if little more than numbers would be left: all-reduce-start.110."""
    if len(texts) < 2:
        return ""
    shared = _find_common_prefix(texts)
    ends = _find_breaks(shared)
    longest = max(map(measure_width, texts))
    enough = (end for end in ends if measure_width(shared[:end]) >= longest - room)
    prefix = shared[: next(enough, ends[-1])] if ends else ""
    return prefix if longest - measure_width(prefix) > room // _LITTLE else ""


def _find_common_prefix(texts: Sequence[str]) -> str:
    """Return the beginning that all strings share, which is that of the first and the last in order."""
    first, last = min(texts), max(texts)
    return next((first[:at] for at, (mine, other) in enumerate(zip(first, last, strict=False)) if mine != other), first)


def _find_breaks(text: str) -> list[int]:
    """Return the ends of name parts, without those near the beginning."""
    ends = ([at.end() for at in breaks.finditer(text) if at.end() >= _LEAST_ALIKE] for breaks in _BREAKS)
    return next((some for some in ends if some), [])


def _cut_beginning(text: str, room: int, ellipsis: str) -> str:
    if measure_width(text) <= room:
        return text
    taken = ""
    for character in text:
        if measure_width(taken + character) > room - len(ellipsis):
            break
        taken += character
    return taken + ellipsis
