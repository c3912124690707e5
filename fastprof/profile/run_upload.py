"""Runs that are captured for a store: written to a temporary log directory, then uploaded. A capture is uploaded whole
or not at all, and never replaces an object; if the upload fails, the temporary copy stays."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from fastprof.errors import OutputError
from fastprof.export.destinations import StoreFolder
from fastprof.export.new_files import wrap_output_errors
from fastprof.inputs.log_directory import PROFILE
from fastprof.inputs.stores.store_path import make_store_path
from fastprof.profile.run_names import number_name, suggest_run_names

_AT_ONCE: Final = 64 << 20
"""Captures up to this size are put by one request, which the store refuses if the object exists."""
_PIECE: Final = 8 << 20


class RunUpload:
    """Log directory in a store, at ``url``. ``folder``: the local log directory that its runs are written to first.
    Raises UsageError: the URL is wrong, or of a store that cannot be listed; OutputError: no folder can be made."""

    def __init__(self, url: str, *, is_named: bool) -> None:
        """``is_named``: runs have names that the user gave, and are added to runs of these names."""
        path = make_store_path(url)
        self._target = StoreFolder(path)
        self.url = str(path).rstrip("/")
        with wrap_output_errors(tempfile.gettempdir()):
            self.folder = tempfile.mkdtemp(prefix="fastprof-captured-")
        self._is_named = is_named
        self._sent = set[Path]()

    def has_run(self, name: str) -> bool:
        """Return whether the store has a run of this name. Raises OutputError."""
        return next(self._target.list(_name_objects(name)), None) is not None

    def send(self, run: str) -> str:
        """Upload a run of ``folder``, and return its URL. A capture whose name is taken gets a number, too; a run that
        is named by the time gets a later time. OutputError: it says where the temporary copy is."""
        name = Path(run).name
        try:
            if not self._is_named and self.has_run(name):
                name = next(other for other in suggest_run_names() if not self.has_run(other))
            for file in sorted(Path(run).iterdir()):
                for free in number_name(file.name):
                    if self._put_new(file, _name_objects(name) + free):
                        break
        except OutputError as error:
            text = f"{error.message}; the captures are in {run}"
            raise OutputError(text, path=error.path) from error
        self._sent.add(Path(run))
        return f"{self.url}/{_name_objects(name).rstrip('/')}"

    def discard(self) -> None:
        """Delete the temporary copies of runs, unless one was not uploaded."""
        if self._sent.issuperset(Path(self.folder).joinpath(*PROFILE).glob("*")):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _put_new(self, file: Path, name: str) -> bool:
        """Upload a file unless the store has an object of this name, and return whether it did."""
        with wrap_output_errors(str(file), "cannot read"), file.open("rb") as content:
            if file.stat().st_size <= _AT_ONCE:
                return self._target.put_new(name, content.read())
            if name in self._target.list(name[: name.rindex("/") + 1]):
                return False
            with self._target.open_writer(name) as sink:
                while piece := content.read(_PIECE):
                    sink.write(piece)
        return True


def _name_objects(run: str) -> str:
    return "".join(f"{part}/" for part in (*PROFILE, run))
