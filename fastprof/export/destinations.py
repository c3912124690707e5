"""Places that exports write to, as named objects: complete or absent, in a local folder or in a store."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Protocol

from fastprof.errors import OutputError, UsageError
from fastprof.export.new_files import move_file, wrap_output_errors
from fastprof.inputs.stores.store_path import StorePath, is_url, make_store_path
from fastprof.inputs.stores.store_verbs import AbsentError, RefusedError, StoreError


class Sink(Protocol):
    """Receives the bytes of one object. pyarrow's writers take it as a file."""

    def write(self, data: bytes | memoryview, /) -> int: ...


class Destination(Protocol):
    """Objects by name, such as ``events/run=r/part-0.parquet``. An object is complete or absent; writing it again
    replaces it. A destination pickles, and workers write to it. All methods raise OutputError."""

    @property
    def place(self) -> str:
        """Path or URL, as messages show it."""

    def open_writer(self, name: str) -> AbstractContextManager[Sink]:
        """Open a new object, which appears when the block ends without an error."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Put an object unless there is one of this name; returns whether it was put. Of several callers, one wins."""

    def put(self, name: str, data: bytes) -> None:
        """Put or replace an object."""

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an object, None if there is none."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with a prefix, which ends in ``/`` or is empty."""

    def delete(self, name: str) -> None:
        """Delete an object, if there is one."""


def open_destination(out: str | os.PathLike[str]) -> Destination:
    """Return the destination of a path or URL. UsageError: the URL is wrong, or of a store that cannot be listed."""
    if is_url(os.fspath(out)) or isinstance(out, StorePath):
        return StoreFolder(out if isinstance(out, StorePath) else make_store_path(out))
    return LocalFolder(os.path.realpath(out), os.fspath(out))


_PARTIAL = ".partial"
"""Suffix of hidden files, which are being written, or were left by a process that was killed."""


class LocalFolder:
    """Files of a folder. A file is written under a hidden name in its own folder, then renamed, or linked where it must
    not replace another. A lock shows that its process lives: ``list`` yields only hidden files that were left."""

    def __init__(self, folder: str, place: str) -> None:
        self.folder = folder
        self.place = place

    @contextmanager
    def open_writer(self, name: str) -> Iterator[Sink]:
        with self._open_hidden(name) as (hidden, file):
            yield file
            file.flush()
            hidden.replace(self._path(name))

    def put_new(self, name: str, data: bytes) -> bool:
        with self._open_hidden(name) as (hidden, file):
            file.write(data)
            file.flush()
            return move_file(hidden, self._path(name))

    def put(self, name: str, data: bytes) -> None:
        with self.open_writer(name) as sink:
            sink.write(data)

    def read(self, name: str) -> bytes | None:
        with wrap_output_errors(self.place, "cannot read"):
            try:
                return self._path(name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def list(self, prefix: str) -> Iterator[str]:
        with wrap_output_errors(self.place, "cannot read"):
            for folder, below, files in os.walk(Path(self.folder, prefix)):
                below.sort()
                for file in sorted(files):
                    path = Path(folder, file)
                    if not (file.startswith(".") and file.endswith(_PARTIAL) and _is_locked(path)):
                        yield path.relative_to(self.folder).as_posix()

    def delete(self, name: str) -> None:
        with wrap_output_errors(self.place):
            path = self._path(name)
            path.unlink(missing_ok=True)
            with suppress(OSError):  # others are in it
                path.parent.rmdir()

    def _path(self, name: str) -> Path:
        return Path(self.folder, name)

    @contextmanager
    def _open_hidden(self, name: str) -> Iterator[tuple[Path, BinaryIO]]:
        """Open a locked file beside the one of this name; it is deleted at the end if it is still there."""
        target = self._path(name)
        with wrap_output_errors(self.place):
            hidden, file = _open_locked(target)
            try:
                with file:
                    yield hidden, file
            finally:
                hidden.unlink(missing_ok=True)


def _open_locked(target: Path) -> tuple[Path, BinaryIO]:
    for attempt in range(100):
        hidden = target.with_name(f".{blake2b(os.fsencode(target.name), digest_size=8).hexdigest()}"
                                  f".{os.urandom(6).hex()}{_PARTIAL}")  # fmt: skip
        try:
            os.makedirs(target.parent, exist_ok=True)  # noqa: PTH103  Path.mkdir recurses forever below /proc
            file = hidden.open("xb", buffering=1 << 20)
        except FileNotFoundError:
            if attempt == 99:
                raise
            continue  # another process deleted its last file, and the folder with it
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if hidden.exists():
            return hidden, file
        file.close()  # another process took it for one that was left
    raise OutputError("another process deletes what is being written", path=str(target))


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # it is gone, or nothing is known of it
    return False


class StoreFolder:
    """Objects below a path of a store. An upload that fails leaves no object."""

    def __init__(self, path: StorePath) -> None:
        self.path = path
        self.place = str(path)
        self._verbs = path.store.verbs
        if not self._verbs.can_list:
            raise UsageError("writing needs a folder, or a store that can be listed, such as gs:// or s3://", path=path)

    def __reduce__(self) -> tuple[object, ...]:
        return StoreFolder, (self.path,)

    @contextmanager
    def open_writer(self, name: str) -> Iterator[Sink]:
        with self._explain_errors("write"), self._verbs.open_writer(self._key(name)) as sink:
            yield sink

    def put_new(self, name: str, data: bytes) -> bool:
        with self._explain_errors("write"):
            return self._verbs.put(self._key(name), data, overwrite=False)

    def put(self, name: str, data: bytes) -> None:
        with self._explain_errors("write"):
            self._verbs.put(self._key(name), data, overwrite=True)

    def read(self, name: str) -> bytes | None:
        with self._explain_errors("read"):
            try:
                with self._verbs.open_reader(self._key(name)) as stream:
                    return stream.read()
            except AbsentError:
                return None

    def list(self, prefix: str) -> Iterator[str]:
        with self._explain_errors("list"):
            level = self._verbs.list_level(self._key(prefix))
        for name in sorted(level.objects):
            yield prefix + name
        for name in sorted(level.folders):
            yield from self.list(f"{prefix}{name}/")

    def delete(self, name: str) -> None:
        with self._explain_errors("delete"), suppress(AbsentError):
            self._verbs.delete(self._key(name))

    def _key(self, name: str) -> str:
        return self.path.prefix + name

    @contextmanager
    def _explain_errors(self, verb: str) -> Iterator[None]:
        """Raise failures of the store as OutputError, without secrets."""
        try:
            yield
        except RefusedError as error:
            text = f"the store refuses access: {error}; credentials were looked for in: {self._verbs.credentials}"
            raise OutputError(text, path=self.place) from None
        except (StoreError, OSError) as error:
            raise OutputError(f"the store cannot {verb}: {StoreError(str(error))}", path=self.place) from None
