"""The runs that a server shows: those of a log directory, or the one session that was named. Each version is opened
once."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import CaptureError, ChangedError, FastprofError, NotFoundError, UnreadableError
from fastprof.inputs.open_files import TooLargeError, Watched, find_file
from fastprof.inputs.paths import is_directory
from fastprof.inputs.resolve import choose_for_times, list_ahead
from fastprof.inputs.stores.store_path import bind_paths
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.query import RequestError
from fastprof.viewer.run_list import RunList, RunTrends
from fastprof.viewer.viewed_run import ViewedRun

if TYPE_CHECKING:
    from fastprof.inputs.resolve import CaptureFile, Run
    from fastprof.profile.profile import Profile

_MOST_OPEN = 4
_PATIENCE_S = 0.5
_NAMED = 8
_PAUSE_S = 10.0
"""Pause before a run is tried again that the system refused to read, as it does if its disk is full."""
_TRIES = 3
"""Tries to open a run whose files change meanwhile."""
BROKEN: Final = (CaptureError, UnreadableError)
"""Errors of a run that is there and cannot be opened."""

Load = Callable[["Run | str | None"], "Profile"]
"""Function that opens the session, or the run of it that is given or has that name."""


class NotOpenError(Exception):
    """Raised if the run is not open, or not as it is now, and the caller may not wait for that. ``version``: the one
    that was requested, None for any."""

    def __init__(self, run: str, version: str | None) -> None:
        super().__init__(run)
        self.run, self.version = run, version


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """Run that is opened for a page: all its requests are for this version of this run. Without a run none can be
    opened yet. ``notice``: what the page has to say about the choice."""

    name: str | None
    version: str | None
    hosts: list[str]
    notice: str | None


@dataclass(frozen=True, slots=True)
class ListedRuns:
    """Runs in a list. ``rows``: of each run its name, hosts, and whether it is the newest; ``open``: it is shown if a
    request names none; ``problem``: why it cannot be opened, as far as that is known. ``count``: the number of runs
    that match."""

    rows: list[dict[str, Any]]
    count: int


@dataclass(frozen=True, slots=True)
class _RunFault:
    """Fault for which a run cannot be opened, and its files as they were then. ``until_s``: when it is tried again
    although they are the same, None for never."""

    error: FastprofError
    files: tuple[Watched | None, ...]
    until_s: float | None

    def holds(self, files: tuple[Watched | None, ...]) -> bool:
        """Return whether a run of these files cannot be opened, either."""
        return bool(files) and files == self.files and (self.until_s is None or time.monotonic() < self.until_s)


class ViewedRuns:
    """``source``: what the user named, which may be a path. ``first``: the session as it was opened at the start; None:
    a directory in which no run could be opened yet. ``directory``: the log directory, if it is one. ``reading``: how
    damaged files are read, as in ``fastprof.load``."""

    def __init__(
        self, source: Any, first: Profile | None, load: Load, cache: CacheFolder | None = None, reading: str = "raise"
    ) -> None:
        source = bind_paths(source)
        is_path = isinstance(source, (str, os.PathLike))
        self.directory = source if is_path and is_directory(os.fspath(source)) else None
        self._source = source
        self._runs = RunList(self.directory)
        self._load = load
        self._cache = cache
        self._lock = threading.Lock()
        self._opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._choosing = threading.Lock()
        self._open: OrderedDict[str, ViewedRun] = OrderedDict()
        self._faults: dict[str, _RunFault] = {}
        self._passed: tuple[str, str] | None = None
        self.stopping = threading.Event()
        self._trends = RunTrends(load, cache, self.stopping, reading)
        self.title = _get_title(source, first)
        self.usual: str | None = None
        """Run that is shown if a request names none."""
        if first is not None:
            self.usual = first.run or self.title
            self._open[self.usual] = self._viewed(first, self.usual)

    # ---- which there are

    def listed(self, q: str = "", first: int = 0, most: int | None = None, also: str | None = None) -> ListedRuns:
        """Return the runs whose names contain ``q``, newest first, ``most`` of them from number ``first`` on: runs may
        be written while the server is up. ``also``: a run that is listed in any case, as the usual one is."""
        runs = self._runs.now()
        newest = next(iter(runs), None)
        matching = [run for run in runs if q.lower() in run.name.lower()] if q else runs
        shown = matching[first:] if most is None else matching[first : first + most]
        list_ahead(shown)
        rows = [self._row(run.name, run.hosts, self._problem(run, run is newest), run is newest) for run in shown]
        names = {run.name for run in shown}
        for name in dict.fromkeys((also, self.usual)):
            if name is not None and name not in names and not (q or first):
                run = next((known for known in runs if known.name == name), None)
                if run is not None:
                    rows.append(self._row(name, run.hosts, self._problem(run, False)))
                elif name == self.usual:
                    rows.append(self._row(name, [], None, newest is None))
        return ListedRuns(rows, len(matching))

    def _row(self, name: str, hosts: list[str], problem: str | None, newest: bool = False) -> dict[str, Any]:
        run = self._open.get(name)
        known = hosts if run is None else [host.name for host in run.hosts]
        return {"name": name, "hosts": known, "newest": newest, "open": name == self.usual, "problem": problem}

    def _problem(self, run: Run, newest: bool) -> str | None:
        fault = self._faults.get(run.name)
        if fault is not None and fault.files == _list_files(run.files):
            return str(fault.error)
        if newest and run.name not in self._open:  # the profiler may only have begun to write it
            empty = next((file for file in run.files if _is_empty(file.source)), None)
            return None if empty is None else f"{empty.path}: the file is empty"
        return None

    def trends(self, most: int) -> tuple[list[dict[str, Any]], int]:
        """Return the rows of the newest runs, as far as they are computed, and the number of the
        others."""
        runs = choose_for_times(self._runs.now())[:most]
        rows = self._trends.known(runs)
        return rows, len(runs) - len(rows)

    # ---- opening

    def opened(self, name: str | None) -> OpenedRun:
        """Open a run as it is now for a page: that of the name, or the one that is shown first. NotFoundError,
        CaptureError, UnreadableError: that run cannot be opened."""
        notice = None
        if name is None and self.directory is not None:
            run, notice = self._chosen()
            if run is None:
                return OpenedRun(None, None, [], notice)
        else:
            run = self.run(name)
        return OpenedRun(run.name, run.version, [host.name for host in run.hosts], notice)

    def _chosen(self) -> tuple[ViewedRun | None, str | None]:
        """Return the usual run; if there is none yet, or it cannot be opened any more, the newest that can. And what
        there is to say about the choice."""
        with self._choosing:
            passed: tuple[str, str] | None = None
            if self.usual is not None:
                try:
                    return self.run(self.usual), self._notice()
                except (*BROKEN, NotFoundError) as error:
                    passed = self.usual, str(error)
            for candidate in self._runs.now():
                if candidate.name == self.usual:
                    continue
                try:
                    run = self.run(candidate.name)
                except BROKEN as error:
                    passed = passed or (candidate.name, str(error))
                else:
                    self.usual, self._passed = run.name, passed
                    return run, self._notice()
        if passed is None:
            return None, f"No runs in {self.title} yet. The page opens the first run that appears."
        return None, f"No run in {self.title} can be opened yet. The run {passed[0]}: {passed[1]}"

    def _notice(self) -> str | None:
        """Say which run was passed over when the usual one was chosen, as long as it cannot be opened."""
        if self._passed is None or self._passed[0] not in self._faults:
            return None
        name, problem = self._passed
        return f"The run {name} cannot be opened: {problem}. The newest readable run is shown: {self.usual}."

    def run(
        self, name: str | None = None, version: str | None = None, fresh_s: float = 0.0, *, may_open: bool = True
    ) -> ViewedRun:
        """Return the run of that name, being made ready, as it is now, or that version of it. ``fresh_s``: if its files
        are many, they are not checked again for so long. NotFoundError: there is none; RequestError 410: that version
        is gone; CaptureError, UnreadableError: it cannot be opened; NotOpenError: it has to be opened first, and that
        is not ``may_open``."""
        wanted = name or self.usual
        if wanted is None:
            raise NotFoundError(f"no runs in {self.title} yet; /api/open opens the first run that appears")
        run = self._open.get(wanted)
        if run is not None and version is not None:
            _check_version(run, version, fresh_s)
        if run is None or run.replaced(fresh_s) is not None:
            if not may_open:
                raise NotOpenError(wanted, version)
            try:
                run = self._reopened(wanted)
            except BROKEN as error:
                if version is None:
                    raise
                raise RequestError(410, f"{_explain_gone(wanted)}: {error}") from None
            if version is not None:
                _check_version(run, version, fresh_s)
        self._used(run)
        run.start()
        return run

    def _used(self, run: ViewedRun) -> None:
        """Close runs that were not used lately, except the usual one."""
        with self._lock:
            if self._open.get(run.name) is not run:
                return
            self._open.move_to_end(run.name)
            if self.usual is not None and self.usual in self._open:
                self._open.move_to_end(self.usual)
            while len(self._open) > _MOST_OPEN:
                _, left = self._open.popitem(last=False)
                left.leave()

    def _reopened(self, wanted: str) -> ViewedRun:
        """Return the run as it is now, opened once, whoever asks; requests for other runs go on."""
        if wanted != self.usual and self._runs.find(wanted) is None:
            names = [run["name"] for run in self.listed(most=_NAMED).rows]
            raise NotFoundError(f"no run {wanted!r}; there are: {', '.join(names)}")
        with self._lock:
            opening = self._opening[wanted]
        with opening:
            run = self._open.get(wanted)
            if run is None or run.replaced() is not None:
                run = self._loaded(wanted)
                with self._lock:
                    self._open[wanted] = run
        return run

    def _loaded(self, name: str) -> ViewedRun:
        files = self._files_of(name)
        fault = self._faults.get(name)
        if fault is not None and fault.holds(files):
            raise fault.error.with_traceback(None)
        for left in reversed(range(_TRIES)):
            try:
                run = self._viewed(self._load(None if self.directory is None else name), name)
            except ChangedError:
                if not left:
                    raise
                files = self._files_of(name)
            except BROKEN as error:
                lasts = isinstance(error, (CaptureError, TooLargeError))
                self._faults[name] = _RunFault(error, files, None if lasts else time.monotonic() + _PAUSE_S)
                raise
            else:
                self._faults.pop(name, None)
                return run
        raise AssertionError("the last try returns or raises")

    def _files_of(self, name: str) -> tuple[Watched | None, ...]:
        """Return the files of a run as they are now, or none if they are unknown."""
        from fastprof.inputs.resolve import resolve

        if self.directory is not None:
            run = self._runs.find(name)
            return () if run is None else _list_files(run.files)
        try:
            return _list_files(resolve(self._source).files)
        except FastprofError:
            return ()

    def _viewed(self, profile: Profile, name: str) -> ViewedRun:
        return ViewedRun(profile, self._cache, self.stopping, name)

    def stop(self) -> None:
        """Give up what is being built; soon, as a rule, and no thread is to be cut off in the middle."""
        self.stopping.set()
        for run in list(self._open.values()):
            run.changes.happened()
            run.wait_for_end(_PATIENCE_S)
        if self._cache is not None:
            self._cache.let_go()


def _check_version(run: ViewedRun, version: str, fresh_s: float) -> None:
    """Raise RequestError 410 if the run is of another version, or of that one no longer."""
    gone = run.replaced(fresh_s)
    if run.version != version:
        gone = f"{_explain_gone(run.name)}; reload the page"
    if gone is not None:
        raise RequestError(410, gone)


def _explain_gone(name: str) -> str:
    return f"the capture of the run {name} changed after this page was loaded"


def _list_files(captures: Sequence[CaptureFile]) -> tuple[Watched | None, ...]:
    names = [file.source for file in captures if isinstance(file.source, str)]
    return tuple(find_file(name) for name in (*names, *(program for file in captures for program in file.programs)))


def _is_empty(source: object) -> bool:
    now = find_file(source) if isinstance(source, str) else None
    return now is not None and now[1][0] == 0


def _get_title(source: Any, profile: Profile | None) -> str:
    if isinstance(source, (str, os.PathLike)):
        return Path(os.fsdecode(source)).absolute().name or str(source)
    sources = [] if profile is None else profile.sources
    return Path(sources[0]).name if len(sources) == 1 else f"{len(sources)} captures"
