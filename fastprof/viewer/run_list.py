"""The runs of a log directory, which is listed by one thread at a time, and no more often than listing is worth."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from fastprof.errors import FastprofError

if TYPE_CHECKING:
    from fastprof.inputs.resolve import Run

_KEPT = 5.0
"""A list is good for this multiple of the time that it took: tens of thousands of runs take seconds."""
_QUICK_S = 0.02
"""A list that takes no longer is not kept."""


class RunList:
    """``directory``: the log directory; None: there is none, and no run is listed."""

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._listed_s, self._took_s = -float("inf"), 0.0

    def now(self) -> list[Run]:
        """The runs, newest first: as they are now, or were a moment ago, if they are many."""
        return list(self._within(_KEPT).values())

    def find(self, name: str) -> Run | None:
        """The run of that name. One that is not on the list may have been written since."""
        return self._within(_KEPT).get(name) or self._within(1.0).get(name)

    def _within(self, times: float) -> dict[str, Run]:
        with self._lock:  # who comes while another lists takes what that finds
            if self._directory is not None and time.monotonic() - self._listed_s > times * self._took_s:
                began = time.monotonic()
                self._runs = _listed(self._directory)
                self._listed_s = time.monotonic()
                took = self._listed_s - began
                self._took_s = took if took > _QUICK_S else 0.0
            return self._runs


def _listed(directory: str | os.PathLike[str]) -> dict[str, Run]:
    from fastprof.inputs.resolve import runs

    try:
        return {run.name: run for run in runs(directory)}
    except FastprofError:  # it has no run yet
        return {}
