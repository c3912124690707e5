"""Files and folders that appear complete or not at all: a file is written without a name, if the file system can, and
gets its name at the end; a folder is filled under a hidden name."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from fastprof.errors import FastprofError, OutputError

LOGDIR: Final = "fastprof-runs"
"""Default log directory of recordings, in the working directory."""
Write = Callable[[bytes | memoryview], int | None]


@contextmanager
def wrap_output_errors(name: str, failure: str = "cannot write") -> Iterator[None]:
    """Errors of the system become OutputError on ``name``; BrokenPipeError stays: the reader is gone."""
    try:
        yield
    except (BrokenPipeError, FastprofError):
        raise
    except OSError as error:
        raise OutputError(f"{failure}: {_get_reason(error)}", path=name) from error


@contextmanager
def open_new_file(path: str, force: bool, flag: str = "--force") -> Iterator[Write]:
    """The ``write`` of a new file. A pipe or a device such as ``/dev/null`` is written directly.

    Raises OutputError if the file exists (unless ``force``; ``flag`` is its name in the message) or cannot be written.
    """
    if _is_device(path):
        with _open_and_close(Path(path), "wb", path) as write:
            yield write
        return
    target = Path(os.path.realpath(path))
    advice = f"use {flag} to overwrite it"
    if target.exists() and not force:
        raise OutputError(f"already exists; {advice}", path=path)
    hidden = target.with_name(f".fastprof-{os.urandom(6).hex()}.partial")
    nameless = open_nameless(target.parent, 0o666)
    try:
        opened: tuple[Path | int, str] = (hidden, "xb") if nameless is None else (os.dup(nameless), "wb")
        with _open_and_close(opened[0], opened[1], path) as write:
            yield write
        with wrap_output_errors(path):
            if nameless is not None:
                os.link(DESCRIPTOR.format(nameless), hidden, src_dir_fd=nameless, follow_symlinks=True)
            if force or not _link_file(target, hidden, path, advice):
                hidden.replace(target)
    finally:
        hidden.unlink(missing_ok=True)
        if nameless is not None:
            os.close(nameless)


DESCRIPTOR = "/proc/self/fd/{}"
"""Path that reopens a descriptor."""


def open_nameless(folder: Path, mode: int) -> int | None:
    """Return the descriptor of a new file without a name, which disappears with its last descriptor. None if the system
    has no such files, or cannot reopen or name them."""
    try:
        number = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
    except (AttributeError, OSError):
        return None
    if Path(DESCRIPTOR.format(number)).is_symlink():
        return number
    os.close(number)
    return None


@contextmanager
def make_complete_folder(
    path: Path, force: bool, is_part: Callable[[str, bool], bool], singular: str, several: str
) -> Iterator[Path]:
    """A hidden folder to fill, which then becomes ``path``: complete or not at all.

    ``is_part``: of a path below it, and whether that is a folder: whether ``force`` may replace a folder that has it.
    ``one``, ``several``: what the folder is, in messages. Raises OutputError if ``path`` exists, unless it is replaced.
    """
    named = path.name not in ("", "..")  # the folder of the process may be the one that is replaced, so names are full
    target = Path(os.path.realpath(path.parent), path.name) if named else Path(os.path.realpath(path))

    def check() -> None:
        if not (target.is_symlink() or target.exists()):
            return
        if not force:
            raise OutputError("already exists; use force (--force) to replace it", path=str(path))
        if not target.is_dir() or target.is_symlink():
            raise OutputError("already exists and is not a folder; delete it first", path=str(path))
        for below in target.rglob("*"):
            name = below.relative_to(target).as_posix()
            if not is_part(name, below.is_dir()):
                text = f"contains {name!r}, which is not part of {singular}; force (--force) replaces only {several}"
                raise OutputError(text, path=str(path))

    check()
    with make_hidden_folder(target) as temporary:
        yield temporary
        check()  # it may have appeared meanwhile
        _replace_folder(temporary, target)


def _replace_folder(temporary: Path, target: Path) -> None:
    """Put the complete folder in its place; an older one is gone only after that."""
    if not target.exists():
        temporary.rename(target)
        return
    with make_hidden_folder(target, "old") as old:
        try:
            target.rename(old / "replaced")
            temporary.rename(target)
        except BaseException:
            if not target.exists():
                (old / "replaced").rename(target)
            raise


def make_temporary_folder(name: str) -> AbstractContextManager[Path]:
    """Make a folder for temporary files that only this user may open. It is deleted at the end, or by the next process
    that makes a folder of this name."""
    import tempfile

    return make_hidden_folder(Path(tempfile.gettempdir(), name), mode=0o700)


@contextmanager
def make_hidden_folder(target: Path, suffix: str = "partial", mode: int = 0o777) -> Iterator[Path]:
    """A hidden folder beside ``target``, to be renamed; deleted at the end if it is still there. Unfinished ones of
    processes that were killed are deleted before: the system lets go of the lock of a folder when its process ends."""
    import glob
    import shutil

    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.partial"):
        _remove_unless_held(left)
    folder, held = _make_locked_folder(target, suffix, mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


@contextmanager
def make_parts_folder(temporary: Path) -> Iterator[Path]:
    """A folder for what other processes write, in one that ``make_hidden_folder`` made. It has another name when it is
    deleted: a process that still writes does not find it, and makes nothing that would be left over."""
    import shutil

    parts = temporary / ".parts"
    parts.mkdir()
    try:
        yield parts
    finally:
        gone = temporary.with_name(f"{temporary.name.rsplit('.', 2)[0]}.{os.urandom(4).hex()}.partial")
        with suppress(OSError):
            parts.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


_FOLDER_ITSELF = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def _make_locked_folder(target: Path, suffix: str, mode: int) -> tuple[Path, int]:
    """Return a new folder, and its descriptor, which holds its lock if the file system has locks."""
    while True:
        folder = target.parent / f".{target.name}.{os.urandom(4).hex()}.{suffix}"
        folder.mkdir(mode, parents=True)
        try:
            held = os.open(folder, _FOLDER_ITSELF)
        except FileNotFoundError:
            continue  # another process took it for one that was left
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        if folder.exists():
            return folder, held
        os.close(held)


def _remove_unless_held(folder: Path) -> None:
    import shutil

    try:
        number = os.open(folder, _FOLDER_ITSELF)
    except OSError:
        return
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass  # its process is alive, or nothing is known of it
    finally:
        os.close(number)


@contextmanager
def _open_and_close(target: Path | int, mode: str, path: str) -> Iterator[Write]:
    """Open ``target``, a path or a descriptor, and close it, which flushes it. Errors name ``path``, once."""
    with wrap_output_errors(path):
        file = cast(BinaryIO, open(target, mode))  # noqa: PTH123, SIM115
    try:
        yield file.write
        with wrap_output_errors(path):
            file.close()
    finally:
        with suppress(OSError):
            file.close()


def _is_device(path: str) -> bool:
    """Return whether to write to the path directly, because a file cannot replace it."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutputError(_get_reason(error), path=path) from None
    if stat.S_ISDIR(mode):
        raise OutputError("is a directory", path=path)
    return not stat.S_ISREG(mode)


def _link_file(target: Path, temporary: Path, path: str, advice: str) -> bool:
    """Give the file its name, which never replaces a file that has appeared meanwhile. False: the file system has no
    links."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise OutputError(f"was created in the meantime; {advice}", path=path) from None
    except OSError:
        return False
    return True


def move_file(file: Path, target: Path) -> bool:
    """Give a complete file another name on its file system. False: another file has it. Raises OSError."""
    try:
        target.hardlink_to(file)
    except FileExistsError:
        return False
    except OSError:  # the file system has no links
        if target.exists():
            return False
        file.rename(target)
        return True
    file.unlink()
    return True


def _get_reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else error.strerror) or str(error)
