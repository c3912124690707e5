"""The version of a run: which files it was read from, and whether these are still the ones that were opened."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

from fastprof._version import __version__
from fastprof.decode.xspace_capture import Capture
from fastprof.errors import ChangedError
from fastprof.inputs.log_directory import is_transient, split_name
from fastprof.inputs.open_files import file_now
from fastprof.inputs.paths import shown
from fastprof.tables.open_session import OpenSession
from fastprof.viewer.cache_folder import source_key
from fastprof.viewer.host_facts import VERSION as FACTS_VERSION
from fastprof.viewer.store_file import FORMAT as STORE_FORMAT

_SETTLED_NS: Final = 100_000_000
"""A folder that changed within this time may change again and keep its time of change."""


class RunVersion:
    """The files of an open session, watched, and the folders of runs: their hosts may write captures one after the
    other. ``name``: equal for equal files, in all processes, so that browsers may
    keep what is made of them for good; what comes from no file never has the same name again.

    Raises ChangedError if a file is another one by now.
    """

    def __init__(self, session: OpenSession) -> None:
        self._captures = session.captures
        files = dict.fromkeys(file for capture in session.captures for file in capture.program_files)
        self._programs = [watched for file in files if (watched := file_now(file)) is not None]
        parts = repr(([_identity(capture) for capture in session.captures], self._programs))
        self.name = hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
        self.count = len(self._captures) + len(self._programs)
        self._folders = _folders(session)
        self.check()

    def check(self) -> None:
        """Raises ChangedError if a file is another one by now, or a run has a capture more. A file that was deleted is
        not: what was opened of it can still be read."""
        for capture in self._captures:
            check_capture(capture)
        for watched in self._programs:
            if file_now(watched[2]) not in (None, watched):
                raise _changed(os.fsdecode(watched[2]))
        for folder in self._folders:
            folder.check()


class _Folder:
    """The folder of a run. ``known``: the names of its files that were read, or left out with a remark."""

    def __init__(self, path: str, known: set[str]) -> None:
        self.path = path
        self.known = known
        self._looked_at: int | None = None
        """When it had changed last, at the last look; None: it may have changed since."""

    def check(self) -> None:
        """Raises ChangedError if a capture has been added."""
        try:
            changed = Path(self.path).stat().st_mtime_ns
            if changed == self._looked_at:
                return
            names = os.listdir(self.path)  # noqa: PTH208 - names alone are quicker
        except OSError:
            return  # the folder was deleted
        for name in names:
            if not split_name(name) or is_transient(name) or shown(name) in self.known:
                continue
            if Path(self.path, name).is_file():
                text = "the run had no such file when it was loaded; load it again"
                raise ChangedError(text, path=shown(str(Path(self.path, name))))
        self._looked_at = changed if time.time_ns() - changed > _SETTLED_NS else None


def _folders(session: OpenSession) -> list[_Folder]:
    """The folders of the captures that were found in a run, rather than named."""
    found: dict[str, _Folder] = {}
    remarked = {Path(path).name for path in session.log.paths()}
    for capture in session.captures:
        if capture.run is not None and capture.source.file is not None:
            file = Path(os.fsdecode(capture.source.file[2]))
            folder = found.setdefault(str(file.parent), _Folder(str(file.parent), set(remarked)))
            folder.known.add(shown(file.name))
    return list(found.values())


def check_capture(capture: Capture) -> None:
    """Raises ChangedError if the file of the capture, compressed or not, is another one by now."""
    watched = capture.source.file
    now = None if watched is None else file_now(watched[2])
    if now is None:
        capture.source.check_unchanged()
    elif now != watched:
        raise _changed(capture.path)


def capture_key(capture: Capture, *more: object) -> str | None:
    """``source_key`` of the file that the capture was opened from; ChangedError: it is another one by now."""
    more += (capture.host,) if capture.is_part else ()
    key = None if capture.source.file is None else source_key(os.fsdecode(capture.source.file[2]), *more)
    check_capture(capture)
    return key


def _changed(path: str) -> ChangedError:
    return ChangedError("the file changed since it was loaded; load it again", path=path)


def _identity(capture: Capture) -> tuple[object, ...]:
    made_by = (__version__, STORE_FORMAT, FACTS_VERSION)
    key = "programs alone" if capture.only_programs else capture_key(capture, *made_by)
    return key or os.urandom(8).hex(), capture.host, capture.salvage
