"""Trends over the runs of a log directory: the row of each is computed once, and kept in the cache folder.

Rows of a server are computed in a thread, the newest run first; whoever asks has those that are there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import ChangedError, FastprofError
from fastprof.inputs.open_files import Watched, file_now
from fastprof.profile import trends
from fastprof.viewer.run_version import RunVersion
from fastprof.viewer.sealed_file import content_size

if TYPE_CHECKING:
    from fastprof.inputs.resolve import Run
    from fastprof.profile.profile import Profile
    from fastprof.viewer.cache_folder import CacheFolder

Row = dict[str, Any]
State = tuple[Watched | None, ...]
"""The files of a run, as they are."""
_TRIES: Final = 3
"""Of a run that is being written."""


class RunTrends:
    """``load``: opens the run of a name; ``stopping``: set when nothing more is to be computed."""

    def __init__(
        self, load: Callable[[str], Profile], cache: CacheFolder | None, stopping: threading.Event | None = None
    ) -> None:
        self._load, self._cache = load, cache
        self._stopping = stopping or threading.Event()
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[State, Row]] = {}
        self._wanted: Sequence[Run] = ()
        self._thread: threading.Thread | None = None

    def known(self, runs: Sequence[Run]) -> list[Row]:
        """The rows of these runs that are there; the others are computed from now on, in place of those of the request
        before."""
        found = [row for run in runs if (row := self._row(run)) is not None]
        with self._lock:
            self._rows = {run.name: self._rows[run.name] for run in runs if run.name in self._rows}
            self._wanted = runs
            if len(found) < len(runs) and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._compute, name="fastprof-trends", daemon=True)
                self._thread.start()
        return found

    def row(self, run: Run) -> Row:
        """The row of a run, computed if it is not there."""
        state = _state(run)
        try:
            values = self._kept(run.name)
        except FastprofError as error:
            values = {"problem": str(error)}
        found = {"run": run.name, **values}
        with self._lock:
            self._rows[run.name] = state, found
        return found

    def _row(self, run: Run) -> Row | None:
        state, row = self._rows.get(run.name, (None, None))
        return row if state == _state(run) else None

    def _compute(self) -> None:
        while not self._stopping.is_set():
            missing = next((run for run in self._wanted if self._row(run) is None), None)
            with self._lock:
                if missing is None:
                    self._thread = None
                    return
            self.row(missing)

    def _kept(self, name: str) -> Row:
        for left in reversed(range(_TRIES)):
            try:
                return self._values(self._load(name))
            except ChangedError:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _values(self, profile: Profile) -> Row:
        if self._cache is None:
            return trends.of_profile(profile)
        version = RunVersion(profile.table_set.session)
        salvaged = "-salvaged" if any(one.salvage for one in profile.table_set.session.captures) else ""
        key = f"trend-{trends.VERSION}-{version.name}{salvaged}"
        return self._cache.opened(key, lambda path: _write(path, profile, version), _read)


def _write(path: Path, profile: Profile, version: RunVersion) -> None:
    row = trends.of_profile(profile)
    version.check()
    path.write_text(json.dumps(row), encoding="ascii")


def _read(path: Path) -> Row:
    row = json.loads(path.read_bytes()[: content_size(path)])
    if not isinstance(row, dict):
        raise ValueError("the row of a run is an object")
    return row


def _state(run: Run) -> State:
    return tuple(file_now(file.source) for file in run.files if isinstance(file.source, str))
