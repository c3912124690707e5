"""Sessions that stay open between questions, confined to folders."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import NotFoundError, UsageError
from fastprof.inputs.open_files import Watched, find_file
from fastprof.inputs.paths import show_path
from fastprof.profile.gate import BASELINE_SUFFIX
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.inputs.resolve import Run
    from fastprof.profile.profile import Profile

_MOST_OPEN: Final = 4
Files = tuple[Watched | None, ...]


class WarmSessions:
    """Opens sessions in ``folders``, and keeps the ones used last open until their files change. Threads may share it.
    ``reading``: as of ``load``."""

    def __init__(self, folders: Sequence[str], reading: dict[str, Any]) -> None:
        self.folders = [os.path.realpath(folder) for folder in folders]
        missing = next(
            (given for given, real in zip(folders, self.folders, strict=True) if not Path(real).exists()), None
        )
        if missing is not None:
            raise NotFoundError("no such file or directory", path=show_path(missing))
        self._reading = reading
        self._open: OrderedDict[tuple[str, str | None], tuple[Files, Profile]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, session: str, run: str | None = None) -> Profile:
        """Return the session, opened again if its files are not what they were. UsageError: it is outside of the
        folders. Other errors are those of ``load``."""
        from fastprof import load
        from fastprof.inputs.resolve import resolve

        path = self.confine(session)
        key = path, run
        with self._lock:  # two questions for one session open it once
            sources = [str(file.source) for file in resolve(path, run).files]
            self._confine_sources(sources)
            files = tuple(map(find_file, sources))
            known = self._open.pop(key, None)
            if known is None or known[0] != files:
                profile = load(path, run=run, **self._reading)
                self._confine_sources(profile.sources)  # a link may have changed
                known = files, profile
            self._open[key] = known
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
            return known[1]

    def confine_all(self, path: str) -> str:
        """Return the real path of a session, log directory or file whose captures are all in the folders. Errors are
        those of ``confine``."""
        from fastprof import runs
        from fastprof.inputs.resolve import resolve

        place = self.confine(path)
        if not place.endswith(BASELINE_SUFFIX):
            try:
                listed = [file for run in runs(place) for file in run.files]
            except (NotFoundError, UsageError):
                listed = list(resolve(place).files)
            self._confine_sources([str(file.source) for file in listed])
        return place

    def _confine_sources(self, sources: Sequence[str]) -> None:
        """Raise UsageError if a capture is outside of the folders: a link in them may lead out. Its target is not
        named."""
        for source in sources:
            if not any(Path(os.path.realpath(source)).is_relative_to(folder) for folder in self.folders):
                raise UsageError("a link of this session leads outside of the folders of this server")

    def confine(self, path: str) -> str:
        """Return the real path of a session. UsageError: it is outside of the folders. NotFoundError: no such session;
        the error names one that there is."""
        if not path or "\0" in path:
            raise UsageError("the path of the session is empty or has a null character")
        if set(path) & set("*?[") and not Path(path).exists():
            raise UsageError(f"{show_path(path)} is a pattern; name one session")
        within = [Path(folder) if Path(folder).is_dir() else Path(folder).parent for folder in self.folders]
        allowed = self._list_allowed(within, path)
        if not allowed:
            places = ", ".join(show_path(folder) for folder in self.folders)
            raise UsageError(f"{show_path(path)} is outside of the folders of this server: {places}")
        present = [allowed_path for allowed_path in allowed if Path(allowed_path).exists()]
        if not present:
            tails = ["/".join(Path(path).parts[count:]) for count in range(1, len(Path(path).parts))]
            names = [entry.name for place in within for entry in place.iterdir()]
            nearest = [tail for tail in tails if any(map(os.path.exists, self._list_allowed(within, tail)))]
            close = suggest_name(path, [name for name in names if self._list_allowed(within, name)])
            advice = f"; did you mean {nearest[0]!r}?" if nearest else close
            where = "no such file or directory in the folders of this server"
            raise NotFoundError(f"{where}{advice}", path=show_path(path))
        return next(iter(present), allowed[0])

    def _list_allowed(self, within: Sequence[Path], path: str) -> list[str]:
        """Return the real paths of ``path``, from each place of ``within``, that are in the folders."""
        candidates = [os.path.realpath(place / path) for place in within]  # an absolute path stays itself
        return [real for real in candidates if any(Path(real).is_relative_to(folder) for folder in self.folders)]

    def list_runs(self) -> list[tuple[str, Run | None]]:
        """Return all runs of each folder, newest first; a folder without runs is a session itself."""
        from fastprof import runs

        listed: list[tuple[str, Run | None]] = []
        for folder in self.folders:
            try:
                within = [run for run in runs(folder) if Path(os.path.realpath(run.path)).is_relative_to(folder)]
                listed += [(folder, run) for run in within]
            except (NotFoundError, UsageError):
                listed.append((folder, None))
        return listed
