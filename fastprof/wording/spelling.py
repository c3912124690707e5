"""What was probably meant by a name that is not there."""

from __future__ import annotations

from collections.abc import Iterable


def meant(asked: str, known: Iterable[str]) -> str:
    """``; did you mean 'op-stats'?`` for the known name most like the one asked for; nothing where none is like it.
    Capitals, ``-`` and ``_`` make no difference."""
    from difflib import get_close_matches

    names = {_plain(name): name for name in known}
    close = get_close_matches(_plain(asked)[:100], names, 1)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
