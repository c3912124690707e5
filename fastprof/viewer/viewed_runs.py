"""The runs that a server shows: those of a log directory, or the one session that was named. Each is opened once."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastprof.errors import FastprofError, NotFoundError
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.viewed_run import ViewedRun

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

_MOST_OPEN = 4
_PATIENCE_S = 0.5

Load = Callable[[str | None], "Profile"]
"""Opens the session, or the run of that name of it."""


class ViewedRuns:
    """``source``: what the user named, which may be a path. ``first``: the session as it was opened at the start."""

    def __init__(self, source: Any, first: Profile, load: Load, cache: CacheFolder | None = None) -> None:
        self._directory = source if isinstance(source, (str, os.PathLike)) and Path(source).is_dir() else None
        self._load = load
        self._cache = cache
        self._lock = threading.Lock()
        self._opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._open: OrderedDict[str, ViewedRun] = OrderedDict()
        self.stopping = threading.Event()
        self.usual = first.run or _title(source, first)
        """The run that is shown if a request names none."""
        self.title = _title(source, first)
        self._open[self.usual] = ViewedRun(first, self._cache, self.stopping)

    def listed(self) -> list[dict[str, Any]]:
        """Every run, newest first, as it is now: runs may be written while the server is up."""
        first = self._open[self.usual]
        hosts = [host.name for host in first.hosts]
        alone = [{"name": self.usual, "hosts": hosts, "newest": True}]
        if self._directory is None:
            return alone
        from fastprof.inputs.resolve import runs

        try:
            found = runs(self._directory)
        except FastprofError:
            return alone
        there = [
            {"name": run.name, "hosts": hosts if run.name == self.usual else run.hosts, "newest": not number}
            for number, run in enumerate(found)
        ]
        return there if any(run["name"] == self.usual for run in there) else alone + there

    def run(self, name: str | None) -> ViewedRun:
        """The run of that name, being made ready. NotFoundError: there is none."""
        wanted = name or self.usual
        if wanted not in self._open:
            names = [run["name"] for run in self.listed()]
            if wanted not in names:
                raise NotFoundError(f"no run {wanted!r}; there are: {', '.join(names[:8])}")
        with self._lock:
            opening = self._opening[wanted]
        with opening:  # so that it is opened once; requests for other runs go on
            run = self._open.get(wanted) or ViewedRun(self._load(wanted), self._cache, self.stopping)
            with self._lock:
                self._open[wanted] = run
                self._open.move_to_end(wanted)
                self._open.move_to_end(self.usual)
                while len(self._open) > _MOST_OPEN:
                    _, left = self._open.popitem(last=False)
                    left.leave()
        run.start()
        return run

    def stop(self) -> None:
        """What is being built is given up; soon, as a rule, and no thread is to be cut off in the middle."""
        self.stopping.set()
        for run in list(self._open.values()):
            run.changes.happened()
            run.wait_for_end(_PATIENCE_S)
        if self._cache is not None:
            self._cache.let_go()


def _title(source: Any, profile: Profile) -> str:
    if isinstance(source, (str, os.PathLike)):
        return Path(os.fsdecode(source)).absolute().name or str(source)
    sources = profile.sources
    return Path(sources[0]).name if len(sources) == 1 else f"{len(sources)} captures"
