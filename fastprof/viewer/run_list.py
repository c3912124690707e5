"""The runs of a log directory: the list of them, the version of each, and the row of trends of each.

A version is which files a run was read from. Listing is done by one thread at a time. A row of trends is computed once
and kept in the cache folder, named after the files of its run, so that the next start opens no run; a server computes
rows in a thread, the newest run first.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastprof._version import __version__
from fastprof.decode.array_memory import adopt_thread
from fastprof.decode.xspace_capture import Capture
from fastprof.errors import ChangedError, FastprofError
from fastprof.inputs.log_directory import is_transient, split_name
from fastprof.inputs.open_files import Watched, find_file
from fastprof.inputs.paths import show_path
from fastprof.profile import batch
from fastprof.profile.batch import RunFigures, measure_figures
from fastprof.tables.table_set import OpenSession
from fastprof.viewer.cache_folder import make_source_key
from fastprof.viewer.host_files import FACTS_VERSION, STORE_FORMAT

if TYPE_CHECKING:
    from fastprof.inputs.resolve import Run
    from fastprof.profile.profile import Profile
    from fastprof.viewer.cache_folder import CacheFolder


_KEPT = 5.0
"""Lifetime of a list, as a multiple of the time that it took: tens of thousands of runs take seconds."""


class RunList:
    """List of runs. ``directory``: the log directory, or None if there is none, and no run is listed. ``quick_s``: a
    list that takes no longer is made again each time."""

    def __init__(self, directory: str | os.PathLike[str] | None, quick_s: float = 0.02) -> None:
        self._directory, self.quick_s = directory, quick_s
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._listed_s, self._took_s = -float("inf"), 0.0

    def now(self) -> list[Run]:
        """Return the runs, newest first: as they are now, or were shortly before, if they are many."""
        return list(self._within(_KEPT).values())

    def find(self, name: str) -> Run | None:
        """Return the run of that name, or None. One that is not on the list may have been written since."""
        return self._within(_KEPT).get(name) or self._within(1.0).get(name)

    def _within(self, times: float) -> dict[str, Run]:
        with self._lock:  # who comes while another lists takes what that finds
            if self._directory is not None and time.monotonic() - self._listed_s > times * self._took_s:
                began = time.monotonic()
                self._runs = _list_runs(self._directory)
                self._listed_s = time.monotonic()
                took = self._listed_s - began
                self._took_s = took if took > self.quick_s else 0.0
            return self._runs


def _list_runs(directory: str | os.PathLike[str]) -> dict[str, Run]:
    from fastprof.inputs.resolve import list_runs

    try:
        return {run.name: run for run in list_runs(directory)}
    except FastprofError:  # it has no run yet
        return {}


_SETTLED_NS: Final = 100_000_000
"""Age from which on a change of a folder also changes its time of change."""


class RunVersion:
    """Files of an open session, watched, and the folders of runs: their hosts may write captures one after the other.
    ``name``: equal for equal files, in all processes, so that browsers may store what is made of them for good; what
    comes from no file never has the same name again.

    Raises ChangedError if a file is another one by now.
    """

    def __init__(self, session: OpenSession) -> None:
        self._captures = session.captures
        files = dict.fromkeys(file for capture in session.captures for file in capture.program_files)
        self._programs = [watched for file in files if (watched := find_file(file)) is not None]
        made_by = (__version__, STORE_FORMAT, FACTS_VERSION)
        identities = []
        for capture in session.captures:
            key = "programs alone" if capture.only_programs else make_capture_key(capture, *made_by)
            identities.append((key or os.urandom(8).hex(), capture.host, capture.salvage))
        parts = repr((identities, self._programs))
        self.name = hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
        self.count = len(self._captures) + len(self._programs)
        folders: dict[str, _WatchedFolder] = {}  # of captures that were found in a run, rather than named
        remarked = {Path(path).name for path in session.log.paths()}
        for capture in session.captures:
            if capture.run is not None and capture.source.file is not None:
                file = Path(os.fsdecode(capture.source.file[2]))
                folder = folders.setdefault(str(file.parent), _WatchedFolder(str(file.parent), set(remarked)))
                folder.known.add(show_path(file.name))
        self._folders = list(folders.values())
        self.check()

    def check(self) -> None:
        """Raise ChangedError if a file is another one by now, or a run has a capture more. A file that was deleted is
        not: what was opened of it can still be read."""
        for capture in self._captures:
            check_capture(capture)
        for watched in self._programs:
            if find_file(watched[2]) not in (None, watched):
                raise _make_changed_error(os.fsdecode(watched[2]))
        for folder in self._folders:
            folder.check()


class _WatchedFolder:
    """Folder of a run. ``known``: the names of its files that were read, or left out with a remark."""

    def __init__(self, path: str, known: set[str]) -> None:
        self.path = path
        self.known = known
        self._looked_at: int | None = None
        """Time of its last change, at the last look, or None if it may have changed since."""

    def check(self) -> None:
        """Raise ChangedError if a capture has been added."""
        try:
            changed = Path(self.path).stat().st_mtime_ns
            if changed == self._looked_at:
                return
            names = os.listdir(self.path)  # noqa: PTH208 - names alone are quicker
        except OSError:
            return  # the folder was deleted
        for name in names:
            if not split_name(name) or is_transient(name) or show_path(name) in self.known:
                continue
            if Path(self.path, name).is_file():
                text = "the run had no such file when it was loaded; load it again"
                raise ChangedError(text, path=show_path(str(Path(self.path, name))))
        self._looked_at = changed if time.time_ns() - changed > _SETTLED_NS else None


def check_capture(capture: Capture) -> None:
    """Raise ChangedError if the file of the capture, compressed or not, is another one by now."""
    watched = capture.source.file
    now = None if watched is None else find_file(watched[2])
    if now is None:
        capture.source.check_unchanged()
    elif now != watched:
        raise _make_changed_error(capture.path)


def make_capture_key(capture: Capture, *more: object) -> str | None:
    """Return ``make_source_key`` of the file that the capture was opened from. ChangedError: it is another one by
    now."""
    more += (capture.host,) if capture.is_part else ()
    key = None if capture.source.file is None else make_source_key(os.fsdecode(capture.source.file[2]), *more)
    check_capture(capture)
    return key


def _make_changed_error(path: str) -> ChangedError:
    return ChangedError("the file changed since it was loaded; load it again", path=path)


Row = dict[str, Any]
Measure = Callable[["Profile", Sequence[str]], Mapping[str, Row]]
"""Makes rows of a profile, by name."""
_TREND: Final = "trend"
"""Name of the row of trends; others are of figures, and have the name of their report."""
State = tuple[Watched | None, ...]
"""Files of a run, as they are."""
_TRIES: Final = 3
"""Tries for a run that is being written."""


class RunTrends:
    """Rows of trends, and figures of reports. ``load``: opens a run; ``reading``: the reading options that change rows;
    ``stopping``: set to stop computing."""

    def __init__(
        self,
        load: Callable[[Run], Profile],
        cache: CacheFolder | None,
        stopping: threading.Event | None = None,
        reading: str = "raise",
    ) -> None:
        self._load, self._cache, self._reading = load, cache, reading
        self._stopping = stopping or threading.Event()
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[State, Row]] = {}
        self._wanted: Sequence[Run] = ()
        self._thread: threading.Thread | None = None

    def known(self, runs: Sequence[Run]) -> list[Row]:
        """Return the rows of these runs that are there; the others are computed from now on, in place of those of the
        request before."""
        rows = [row for run in runs if (row := self._row(run)) is not None]
        with self._lock:
            self._rows = {run.name: self._rows[run.name] for run in runs if run.name in self._rows}
            self._wanted = runs
            if len(rows) < len(runs) and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._compute, name="fastprof-trends", daemon=True)
                self._thread.start()
        return rows

    def row(self, run: Run) -> Row:
        """Return the row of a run, computed if it is not there."""
        state = _get_file_states(run)
        try:
            values = self._load_values(run, (_TREND,), _measure_trend)[_TREND]
        except FastprofError as error:
            values = {"problem": str(error)}
        row = {"run": run.name, **values}
        with self._lock:
            self._rows[run.name] = state, row
        return row

    def figures(self, run: Run, logdir: str, names: Sequence[str]) -> RunFigures:
        """Return the figures of these reports of a run; those that are not there are computed, in one pass."""

        try:
            return RunFigures(logdir, run.name, self._load_values(run, names, measure_figures))
        except FastprofError as error:
            return RunFigures(logdir, run.name, error=str(error))

    def _row(self, run: Run) -> Row | None:
        state, row = self._rows.get(run.name, (None, None))
        return row if state == _get_file_states(run) else None

    def _compute(self) -> None:
        """Compute the rows of a request one after the other; begin again only for another request."""
        adopt_thread()
        done: Sequence[Run] | None = None
        while not self._stopping.is_set():
            with self._lock:
                if done is self._wanted:
                    self._thread = None
                    return
                done = self._wanted
            for run in done:
                if self._stopping.is_set() or self._wanted is not done:
                    break
                if self._row(run) is None:
                    self.row(run)

    def _load_values(self, run: Run, names: Sequence[str], measure: Measure) -> dict[str, Row]:
        for left in reversed(range(_TRIES)):
            try:
                return self._values(run, names, measure)
            except ChangedError:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _values(self, run: Run, names: Sequence[str], measure: Measure) -> dict[str, Row]:
        """Return the rows of these names; ``measure`` computes those that are not there, and maybe others."""
        key = None if self._cache is None else self._make_key(run)
        if self._cache is None or key is None:
            return dict(measure(self._load(run), names))
        kept = ((name, self._cache.find(f"{name}-{key}", _read_row)) for name in names)
        rows = {name: row for name, row in kept if row is not None}
        missing = [name for name in names if name not in rows]
        if not missing:
            return rows
        profile = self._load(run)
        version = RunVersion(profile.table_set.session)
        measured = measure(profile, missing)
        version.check()
        if self._make_key(run) != key:
            raise _make_changed_error(run.path)
        for name, row in measured.items():
            text = json.dumps(row)
            rows[name] = self._cache.opened(f"{name}-{key}", partial(_write_row, text=text), _read_row)
        return rows

    def _make_key(self, run: Run) -> str | None:
        """Return the cache key of what a run's rows are made of, without opening the run, or None if its files have no
        key."""
        keys = [make_source_key(path) for path in _list_paths(run)]
        if not keys or None in keys:
            return None
        parts = repr((__version__, self._reading, [file.host for file in run.files], keys))
        digest = hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
        return f"{batch.VERSION}-{digest}"


def _measure_trend(profile: Profile, _: Sequence[str]) -> dict[str, Row]:
    """Return the row of trends, and the figures of its reports, which cost nothing more."""
    return {_TREND: batch.measure_run(profile)} | measure_figures(profile, batch.REPORTS)


def _write_row(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii")


def _read_row(path: Path) -> Row:
    row = json.loads(path.read_bytes())
    if not isinstance(row, dict):
        raise ValueError("the row of a run is an object")
    return row


def _get_file_states(run: Run) -> State:
    return tuple(find_file(path) for path in _list_paths(run))


def _list_paths(run: Run) -> list[str]:
    """Return the files that a run is read from, each once."""
    sources = [file.source for file in run.files]
    paths = [path for part in sources for path in ([part] if isinstance(part, str) else getattr(part, "paths", []))]
    return list(dict.fromkeys([*paths, *(program for file in run.files for program in file.programs)]))
