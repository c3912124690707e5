"""Where data goes: standard output, or a file that appears whole or not at all."""

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
    """An open output: ``send`` writes bytes to it; ``look`` says what suits it.

    ``clear`` is called before bytes go to a terminal, which a line of progress may be on.
    """

    def __init__(
        self, write: Callable[[bytes | memoryview], int | None], look: Look, name: str, clear: Callable[[], object]
    ) -> None:
        self._write = write
        self.look = look
        self.name = name
        self._clear = clear if look.screen else lambda: None

    def send(self, chunks: Iterable[bytes]) -> None:
        """Write all of ``chunks``. Raises OutputError, or BrokenPipeError where the reader has gone."""
        for chunk in chunks:
            self._clear()
            with _output_errors(self.name):
                self._write_whole(chunk)

    def _write_whole(self, chunk: bytes) -> None:
        """Unbuffered outputs, as with PYTHONUNBUFFERED, may take a part at a time."""
        rest = memoryview(chunk)
        while len(rest):
            taken = self._write(rest)
            if taken is None:
                raise BlockingIOError(errno.EAGAIN, "the output takes no more and does not wait")
            rest = rest[taken:]


def format_for(asked: str | None, path: str | None, there: Container[str] = ()) -> str:
    """The format asked for, else the one that the file is named for, else text. ``there``: formats that the verb has
    beside those that all have."""
    if asked is not None:
        return asked
    if path is not None and path.lower().endswith(speedscope.SUFFIX):
        if "speedscope" not in there:
            raise UsageError(f"{path}: this verb has no stacks for speedscope; these do: {speedscope.verbs()}")
        return "speedscope"
    suffix = "" if path is None else Path(path).suffix.lower()
    if suffix in (".parquet", ".pq"):
        raise UsageError(f"{path}: this verb writes no Parquet; 'fastprof export' does")
    if suffix == ".svg" and "svg" not in there:
        raise UsageError(f"{path}: this verb draws nothing; these do: {report_svg.verbs()}")
    return _SUFFIXES.get(suffix, "table")


@contextlib.contextmanager
def opened(args: argparse.Namespace, form: str) -> Iterator[Sink]:
    """The file that the flags name, or standard output for none and ``-``."""
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
    """Say which columns a table had no room for."""
    names = ", ".join(reversed([name for name in dict.fromkeys(left_out) if name]))
    if names:
        args.talk.note(f"no room for {names}; --wide shows all")


def note_written(args: argparse.Namespace) -> None:
    """Say where the data went, where that is a file."""
    if args.output not in (None, "-"):
        args.talk.note(f"Wrote {args.output}")


def flush_standard_output() -> None:
    """Hand on what is buffered, while an error can still be told. Raises as ``Sink.send`` does."""
    if sys.stdout is not None:
        with _output_errors(_STDOUT):
            sys.stdout.flush()


def abandon(stream: TextIO | None) -> None:
    """Send what the stream still buffers nowhere: the interpreter's own flush at exit stays silent."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = cast(TextIO, stream).fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _look_of_standard_output(form: str, wide: bool) -> Look:
    import shutil

    stream = sys.stdout
    if stream is None or stream.closed:
        raise OutputError(f"{_STDOUT} is closed; give -o FILE")
    terminal = stream.isatty()
    if terminal and form == "arrow":
        raise UsageError("Arrow is binary and would garble the terminal; give -o FILE, or redirect it")
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
        raise OutputError("exists already, and is not overwritten without --force", path=path)
    temporary = target.with_name(f".fastprof-{os.urandom(6).hex()}.partial")
    try:
        with _writing(temporary, "xb", path) as write:
            yield write
        _move_into_place(temporary, target, path, force)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(target: Path, mode: str, path: str) -> Iterator[Callable[[bytes | memoryview], int | None]]:
    """Open ``target`` and close it, which writes what is buffered; faults are told of ``path``, once."""
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
    """Whether to write straight to the path: a pipe or ``/dev/null`` cannot be replaced by a file."""
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
    """Give the file its name; without ``force`` never over one that has appeared since."""
    with _output_errors(path):
        if not force:
            try:
                target.hardlink_to(temporary)
            except FileExistsError:
                message = "appeared meanwhile, and is not overwritten without --force"
                raise OutputError(message, path=path) from None
            except OSError:
                pass  # a file system without links
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
