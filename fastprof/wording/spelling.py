"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable


def meant(requested: str, known: Iterable[str]) -> str:
    """``; did you mean 'op-stats'?`` with the most similar known name; empty if none is similar. Ignores case, and the
    difference between ``-`` and ``_``."""
    from difflib import get_close_matches

    names = {_plain(name): name for name in known}
    close = get_close_matches(_plain(requested)[:100], names, 1)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
