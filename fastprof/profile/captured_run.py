"""A run that is being captured: ``LOGDIR/plugins/profile/RUN``, into which the capture of each host is written when it
comes, complete or not at all, or moved.

The directory is there from the start, so that no other capture takes its name, and goes if nothing came.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from socket import gethostname
from typing import Final

from fastprof.errors import OutputError
from fastprof.export.new_files import moved, new_file, new_folder, output_errors
from fastprof.export.xspace_files import SUFFIX, file_names
from fastprof.inputs.log_directory import PROFILE

_TIMESTAMP: Final = "%Y_%m_%d_%H_%M_%S"
_MOST_TRIES: Final = 600
_CAPTURES: Final = ("*.xplane.pb", "*.pt.trace.json")
_PIECE: Final = 1 << 26
_NAMED: Final[deque[Path]] = deque(maxlen=_MOST_TRIES)
"""Runs that this process has named by the time. A name is not given again when its run is removed, so that the names of
runs have the order in which they were taken."""


class CapturedRun:
    """``name``: of the run (see ``is_run_name``); None: the time, in whole seconds, the next that no other run has.
    ``is_shared``: other processes write to the named run, too. Raises OutputError."""

    def __init__(self, log_directory: str, name: str | None = None, *, is_shared: bool = False) -> None:
        self._made: list[Path] = []
        self._hosts: list[str] = []
        self._files: list[Path] = []
        self._lock = threading.Lock()
        profile = Path(log_directory, *PROFILE)
        with output_errors(log_directory, "cannot make the directory of the run"):
            for folder in (*reversed(profile.parents), profile):
                self._make(folder, is_shared=True)
            self.path = self._named(profile, name, is_shared) if name is not None else self._timed(profile)

    @property
    def name(self) -> str:
        return self.path.name

    def save(self, host: str, pieces: Sequence[memoryview]) -> str:
        """Writes the capture of a host, and returns its path. Threads may call it. Raises OutputError."""
        with self._lock:
            self._hosts.append(host)
            path = str(self.path / file_names(self._hosts)[-1])
        with new_file(path, force=False) as write:
            for piece in pieces:
                for at in range(0, len(piece), _PIECE):
                    write(piece[at : at + _PIECE])
        with self._lock:
            self._files.append(Path(path))
        return path

    def take(self, file: Path) -> Path:
        """Moves a complete capture here from the same file system; if its name is taken, it gets a number, too."""
        stem, dot, rest = file.name.partition(".")
        with output_errors(str(self.path)):
            for number in count(1):
                target = self.path / (file.name if number == 1 else f"{stem}#{number}{dot}{rest}")
                if moved(file, target):
                    break
        return target

    def remove(self) -> None:
        """What was saved here; the directory goes if others have put nothing into it. Raises OutputError."""
        with output_errors(str(self.path), "cannot delete"):
            for file in self._files:
                file.unlink(missing_ok=True)
        _remove_if_empty(self.path)

    def remove_if_empty(self) -> None:
        """Also the directories above it that were made for it."""
        for folder in reversed(self._made):
            _remove_if_empty(folder)

    def _named(self, profile: Path, name: str, is_shared: bool) -> Path:
        path = profile / name
        if not self._make(path, is_shared=is_shared) and not is_shared:
            raise OutputError("already exists; give the run another name", path=str(path))
        return path

    def _timed(self, profile: Path) -> Path:
        for name in islice(run_names(), _MOST_TRIES):
            path = profile / name
            if path not in _NAMED and self._make(path):
                _NAMED.append(path)
                return path
        raise OutputError("has runs of all of the next seconds", path=str(profile))

    def _make(self, folder: Path, *, is_shared: bool = False) -> bool:
        """Whether the directory was made. ``is_shared``: another process may make it meanwhile."""
        if is_shared and folder.is_dir():
            return False
        try:
            folder.mkdir()
        except FileExistsError:
            if is_shared and not folder.is_dir():
                raise
            return False
        self._made.append(folder)
        return True


class NewestRuns:
    """Of captures again and again: the ``most`` newest runs stay, None: all."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._runs: deque[CapturedRun] = deque()

    def add(self, run: CapturedRun) -> None:
        """Removes what is too old. Raises OutputError."""
        self._runs.append(run)
        while self._most is not None and len(self._runs) > self._most:
            self._runs.popleft().remove()


@contextmanager
def unfinished(log_directory: str) -> Iterator[Path]:
    """A hidden folder in a log directory, for what a profiler writes before it moves to a run. If nothing does, a log
    directory that was made for it goes, too. Raises OutputError."""
    path = Path(log_directory)
    with output_errors(log_directory, "cannot write to the log directory"), ExitStack() as made:
        if not path.is_dir():
            path.mkdir(parents=True)
            made.callback(_remove_if_empty, path)
        # Locks of a file system may not reach other machines: each only deletes what its own processes have left.
        folder = made.enter_context(
            new_folder(path / f"recording-{file_names([gethostname()])[0].removesuffix(SUFFIX)}")
        )
        made = made.pop_all()
    with made:
        yield folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def moved_to_run(folder: Path, log_directory: str, name: str | None) -> str | None:
    """Moves what a profiler wrote somewhere below the folder to a run, which other processes may write to if it has a
    name. Returns the run; None: nothing was written. Raises OutputError."""
    files = sorted(file for pattern in _CAPTURES for file in folder.rglob(pattern))
    if not files:
        return None
    run = CapturedRun(log_directory, name, is_shared=True)
    try:
        for file in files:
            run.take(file)
    finally:
        run.remove_if_empty()
    return str(run.path)


def run_names() -> Iterator[str]:
    """The local time, as XProf names runs; then the seconds that follow."""
    for second in count(int(time.time())):
        yield time.strftime(_TIMESTAMP, time.localtime(second))


def is_run_name(name: str) -> bool:
    """Whether it names one directory, here and on a server, that a log directory shows as a run."""
    return bool(name) and not name.startswith(".") and name.isprintable() and not {"/", "\\", ":"} & set(name)
