"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType


def meant(requested: str, known: Iterable[str], full: Mapping[str, str] = MappingProxyType({})) -> str:
    """``; did you mean 'op-stats'?`` with the most similar known name; empty if none is similar. Ignores case, and the
    difference between ``-`` and ``_``. ``full``: what to suggest for a name, if not the name itself."""
    from difflib import get_close_matches

    names = {_plain(name): name for name in known}
    close = get_close_matches(_plain(requested)[:100], names, 1)
    return f"; did you mean {full.get(names[close[0]], names[close[0]])!r}?" if close else ""


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
