"""The version of a run: which files it was read from, and whether these are still the ones that were opened."""

from __future__ import annotations

import hashlib
import os

from fastprof._version import __version__
from fastprof.decode.xspace_capture import Capture
from fastprof.errors import ChangedError
from fastprof.inputs.source import Watched
from fastprof.tables.open_session import OpenSession
from fastprof.viewer.cache_folder import source_key
from fastprof.viewer.host_facts import VERSION as FACTS_VERSION
from fastprof.viewer.store_file import FORMAT as STORE_FORMAT


class RunVersion:
    """The files of an open session, watched. ``name``: equal for equal files, in all processes, so that browsers may
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
        self.check()

    def check(self) -> None:
        """Raises ChangedError if a file is another one by now. A file that was deleted is not: what was opened of it
        can still be read."""
        for capture in self._captures:
            check_capture(capture)
        for watched in self._programs:
            if file_now(watched[2]) not in (None, watched):
                raise _changed(os.fsdecode(watched[2]))


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
    key = None if capture.source.file is None else source_key(os.fsdecode(capture.source.file[2]), *more)
    check_capture(capture)
    return key


def file_now(name: str | bytes) -> Watched | None:
    """The file of that name as it is now; None: there is none."""
    try:
        now = os.stat(name)  # noqa: PTH116 - names may be bytes
    except OSError:
        return None
    return (now.st_dev, now.st_ino), (now.st_size, now.st_mtime_ns), name


def _changed(path: str) -> ChangedError:
    return ChangedError("the file changed since it was loaded; load it again", path=path)


def _identity(capture: Capture) -> tuple[object, ...]:
    made_by = (__version__, STORE_FORMAT, FACTS_VERSION)
    key = "programs alone" if capture.only_programs else capture_key(capture, *made_by)
    return key or os.urandom(8).hex(), capture.host, capture.salvage
