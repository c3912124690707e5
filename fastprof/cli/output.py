"""The destination of data: standard output, or a file that appears complete or not at all."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from fastprof.errors import OutputError, UsageError
from fastprof.render import report_svg, speedscope
from fastprof.render.look import WIDTH, Look

_SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".svg": "svg",
}
_STDOUT = "standard output"


class Sink:
    """An open output: ``send`` writes bytes to it; ``look`` describes it.

    ``clear`` is called before bytes go to a terminal, because a progress line may be on it.
    """

    def __init__(
        self, write: Callable[[bytes | memoryview], int | None], look: Look, name: str, clear: Callable[[], object]
    ) -> None:
        self._write = write
        self.look = look
        self.name = name
        self._clear = clear if look.screen else lambda: None

    def send(self, chunks: Iterable[bytes]) -> None:
        """Write all ``chunks``. Raises OutputError, or BrokenPipeError if the reader is gone."""
        for chunk in chunks:
            self._clear()
            with _output_errors(self.name):
                self._write_all(chunk)

    def _write_all(self, chunk: bytes) -> None:
        """Unbuffered outputs, as with PYTHONUNBUFFERED, may accept only a part of a write."""
        rest = memoryview(chunk)
        while len(rest):
            taken = self._write(rest)
            if taken is None:
                raise BlockingIOError(errno.EAGAIN, "the output is full and non-blocking")
            rest = rest[taken:]


def format_for(requested: str | None, path: str | None, more: Container[str] = ()) -> str:
    """The requested format, else the one that the suffix of the file names, else text. ``more``: formats of this verb
    beyond those of all verbs."""
    if requested is not None:
        return requested
    if path is not None and path.lower().endswith(speedscope.SUFFIX):
        if "speedscope" not in more:
            raise UsageError(f"{path}: this verb has no stacks for speedscope; these verbs have: {speedscope.verbs()}")
        return "speedscope"
    suffix = "" if path is None else Path(path).suffix.lower()
    if suffix in (".parquet", ".pq"):
        raise UsageError(f"{path}: this verb does not write Parquet; 'fastprof export' does")
    if suffix == ".svg" and "svg" not in more:
        raise UsageError(f"{path}: this verb has no drawing; these verbs have: {report_svg.verbs()}")
    return _SUFFIXES.get(suffix, "table")


@contextlib.contextmanager
def opened(args: argparse.Namespace, form: str) -> Iterator[Sink]:
    """The file that the flags name, or standard output without one and for ``-``."""
    path: str | None = args.output
    clear = args.talk.progress.clear
    if path is None or path == "-":
        look = _look_of_standard_output(form, args.wide)
        yield Sink(sys.stdout.buffer.write, look, _STDOUT, clear)
        return
    look = Look(width=None if args.wide else WIDTH, file=True)
    with _file(path, args.force) as write:
        yield Sink(write, look, path, clear)


def note_left_out(args: argparse.Namespace, left_out: Iterable[str]) -> None:
    """Note the columns that did not fit."""
    names = ", ".join(reversed([name for name in dict.fromkeys(left_out) if name]))
    if names:
        args.talk.note(f"hidden columns: {names}; --wide shows all")


def note_written(args: argparse.Namespace) -> None:
    """Note the file that was written."""
    if args.output not in (None, "-"):
        args.talk.note(f"Wrote {args.output}")


def flush_standard_output() -> None:
    """Write what is buffered while errors can still be reported. Raises as ``Sink.send`` does."""
    if sys.stdout is not None:
        with _output_errors(_STDOUT):
            sys.stdout.flush()


def abandon(stream: TextIO | None) -> None:
    """Discard what the stream still buffers, so that the interpreter's flush at exit stays silent."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = cast(TextIO, stream).fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _look_of_standard_output(form: str, wide: bool) -> Look:
    import shutil

    stream = sys.stdout
    if stream is None or stream.closed:
        raise OutputError(f"{_STDOUT} is closed; use -o FILE")
    terminal = stream.isatty()
    if terminal and form == "arrow":
        raise UsageError("Arrow data are binary and would garble the terminal; use -o FILE, or redirect the output")
    width: int | None = WIDTH
    if wide:
        width = None
    elif terminal or os.environ.get("COLUMNS", "").isdigit():
        width = max(40, shutil.get_terminal_size((WIDTH, 24)).columns)
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Look(width, terminal and not plain, stream.encoding or "ascii", terminal)


@contextlib.contextmanager
def _file(path: str, force: bool) -> Iterator[Callable[[bytes | memoryview], int | None]]:
    if _is_device(path):
        with _writing(Path(path), "wb", path) as write:
            yield write
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not force:
        raise OutputError("already exists; use --force to overwrite it", path=path)
    temporary = target.with_name(f".fastprof-{os.urandom(6).hex()}.partial")
    try:
        with _writing(temporary, "xb", path) as write:
            yield write
        _move_into_place(temporary, target, path, force)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(target: Path, mode: str, path: str) -> Iterator[Callable[[bytes | memoryview], int | None]]:
    """Open ``target``, and close it, which writes what is buffered. Errors name ``path``, once."""
    with _output_errors(path):
        file = cast(BinaryIO, target.open(mode))
    try:
        yield file.write
        with _output_errors(path):
            file.close()
    finally:
        with contextlib.suppress(OSError):
            file.close()


def _is_device(path: str) -> bool:
    """Whether to write to the path directly: a pipe or ``/dev/null`` cannot be replaced by a file."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutputError(_reason(error), path=path) from None
    if stat.S_ISDIR(mode):
        raise OutputError("is a directory", path=path)
    return not stat.S_ISREG(mode)


def _move_into_place(temporary: Path, target: Path, path: str, force: bool) -> None:
    """Give the file its name. Without ``force``, never replace a file that has appeared meanwhile."""
    with _output_errors(path):
        if not force:
            try:
                target.hardlink_to(temporary)
            except FileExistsError:
                raise OutputError("was created meanwhile; use --force to overwrite it", path=path) from None
            except OSError:
                pass  # the file system has no links
            else:
                return
        temporary.replace(target)


@contextlib.contextmanager
def _output_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, OutputError):
        raise
    except OSError as error:
        raise OutputError(f"cannot write: {_reason(error)}", path=name) from None


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
