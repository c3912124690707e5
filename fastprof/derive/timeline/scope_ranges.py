"""Ranges of annotations that kernels lie in, as ids: a capture may tell which range lies in which."""

from __future__ import annotations

from typing import Final

from fastprof.tables.host_events import HostEvents

PLANE: Final = "/host:__ScopeRangeCallStack__"
_UNNAMED: Final = "#"


class ScopeRanges:
    """The plane has a stat for each range: its id is that of the range, its value the range around it."""

    def __init__(self, events: HostEvents) -> None:
        plane = events.plane_named(PLANE)
        stats = {} if plane is None else plane.stats
        self._around: dict[int, int] = {
            int(name[1:]): value
            for name, value in stats.items()
            if name.startswith(_UNNAMED) and name[1:].isdecimal() and isinstance(value, int)
        }

    def around(self, innermost: int) -> list[int]:
        """The ids of a range and of those around it, outermost first."""
        found, seen = [innermost], set()
        while (outer := self._around.get(found[-1])) is not None and outer not in seen:
            seen.add(outer)
            found.append(outer)
        return found[::-1]
