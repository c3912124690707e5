"""Cuts long names of one column where they are alike, so that what distinguishes them stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastprof.wording.patterns import pattern_of
from fastprof.wording.screen import cut, width

_LITTLE = 3  # of the room
_LEAST_ALIKE = 6  # shorter beginnings stay: they say what the names are
_BREAKS = (pattern_of(r"(?=/)|(?<=[:,;(<\[ ])"), pattern_of(r"(?<=[_.])"))  # the second ones if there are no others
_BRANCHES = tuple("│├└|` ")  # a tree is drawn before these names


class Elision:
    """Cuts the texts of a column to ``limit`` cells. What all long ones have in common at their beginnings is left out,
    then the middle; texts that would look alike are cut again, before they differ."""

    def __init__(self, texts: Iterable[str], limit: int, ellipsis: str = "…") -> None:
        self._limit, self._ellipsis = limit, ellipsis
        long = list(dict.fromkeys(text for text in texts if width(text) > limit))
        self._prefix = "" if any(text.startswith(_BRANCHES) for text in long) else _shared(long, limit - len(ellipsis))
        self._again: dict[str, str] = {}
        alike: dict[str, list[str]] = {}
        for text in long:
            alike.setdefault(self._cut(text), []).append(text)
        for same in alike.values():
            if len(same) > 1:
                self._again.update(zip(same, self._apart(same), strict=True))

    def __call__(self, text: str) -> str:
        if width(text) <= self._limit:
            return text
        return self._again.get(text) or self._cut(text)

    def _cut(self, text: str) -> str:
        if self._prefix and text.startswith(self._prefix):
            text = self._ellipsis + text[len(self._prefix) :]
        return cut(text, self._limit, self._ellipsis)

    def _apart(self, texts: Sequence[str]) -> list[str]:
        """Texts that differ in their middles: from a little before the first difference on."""
        differ = len(_common(texts))
        start = max([*_breaks(texts[0][:differ])[-1:], differ - self._limit // 2])
        room = self._limit - len(self._ellipsis)
        return [self._ellipsis + _beginning(text[start:], room, self._ellipsis) for text in texts]


def _shared(texts: Sequence[str], room: int) -> str:
    """The beginning that all texts share, up to the end of a part of a name: only as much as has to go so that all
    texts fit, or all of it. Empty if it is short, or if little more is left than numbers: all-reduce-start.110."""
    if len(texts) < 2:
        return ""
    shared = _common(texts)
    ends = _breaks(shared)
    longest = max(map(width, texts))
    enough = (end for end in ends if width(shared[:end]) >= longest - room)
    prefix = shared[: next(enough, ends[-1])] if ends else ""
    return prefix if longest - width(prefix) > room // _LITTLE else ""


def _common(texts: Sequence[str]) -> str:
    """The beginning that all texts have: that of the first and the last of them in order."""
    first, last = min(texts), max(texts)
    return next((first[:at] for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), first)


def _breaks(text: str) -> list[int]:
    """The ends of the parts of a name, without those near its beginning."""
    ends = ([at.end() for at in breaks.finditer(text) if at.end() >= _LEAST_ALIKE] for breaks in _BREAKS)
    return next((some for some in ends if some), [])


def _beginning(text: str, room: int, ellipsis: str) -> str:
    if width(text) <= room:
        return text
    taken = ""
    for character in text:
        if width(taken + character) > room - len(ellipsis):
            break
        taken += character
    return taken + ellipsis
