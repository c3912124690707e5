"""Files and folders that appear complete or not at all: written under a hidden name, then renamed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from fastprof.errors import FastprofError, OutputError

Write = Callable[[bytes | memoryview], int | None]


@contextmanager
def output_errors(name: str, failure: str = "cannot write") -> Iterator[None]:
    """Errors of the system become OutputError on ``name``; BrokenPipeError stays: the reader is gone."""
    try:
        yield
    except (BrokenPipeError, FastprofError):
        raise
    except OSError as error:
        raise OutputError(f"{failure}: {_reason(error)}", path=name) from error


@contextmanager
def new_file(path: str, force: bool, flag: str = "--force") -> Iterator[Write]:
    """The ``write`` of a new file. A pipe or a device such as ``/dev/null`` is written directly.

    Raises OutputError if the file exists (unless ``force``; ``flag`` is its name in the message) or cannot be written.
    """
    if _is_device(path):
        with _writing(Path(path), "wb", path) as write:
            yield write
        return
    target = Path(os.path.realpath(path))
    advice = f"use {flag} to overwrite it"
    if target.exists() and not force:
        raise OutputError(f"already exists; {advice}", path=path)
    temporary = target.with_name(f".fastprof-{os.urandom(6).hex()}.partial")
    try:
        with _writing(temporary, "xb", path) as write:
            yield write
        with output_errors(path):
            if force or not _linked(target, temporary, path, advice):
                temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path, suffix: str = "partial") -> Iterator[Path]:
    """A hidden folder beside ``target``, to be renamed; deleted at the end if it is still there."""
    folder = target.parent / f".{target.name}.{os.urandom(4).hex()}.{suffix}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _writing(target: Path, mode: str, path: str) -> Iterator[Write]:
    """Open ``target``, and close it, which writes what is buffered. Errors name ``path``, once."""
    with output_errors(path):
        file = cast(BinaryIO, target.open(mode))
    try:
        yield file.write
        with output_errors(path):
            file.close()
    finally:
        with suppress(OSError):
            file.close()


def _is_device(path: str) -> bool:
    """Whether to write to the path directly, because a file cannot replace it."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutputError(_reason(error), path=path) from None
    if stat.S_ISDIR(mode):
        raise OutputError("is a directory", path=path)
    return not stat.S_ISREG(mode)


def _linked(target: Path, temporary: Path, path: str, advice: str) -> bool:
    """Give the file its name, which never replaces a file that has appeared meanwhile. False: the file system has no
    links."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise OutputError(f"was created meanwhile; {advice}", path=path) from None
    except OSError:
        return False
    return True


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else error.strerror) or str(error)
