"""Regular expressions that are compiled when they are first used: most processes use a quarter of those they import."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

MOST_SEARCHED: Final = 1 << 16
"""Most characters of a name that patterns search. Names from compiled programs have some ten thousand; a search of many
megabytes would take seconds for each pattern."""
_METHODS: Final = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split")


def compile_late(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Compile a regular expression at its first use, which raises its errors."""
    return cast("re.Pattern[AnyStr]", _LatePattern(text, flags))


class _LatePattern:
    def __init__(self, text: Any, flags: int) -> None:
        self._given: tuple[Any, int] = (text, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = re.compile(*self._given)
        for method in _METHODS:  # later look-ups bypass this function
            setattr(self, method, getattr(made, method))
        return getattr(made, name)
