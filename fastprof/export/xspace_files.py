"""The captures of a session as XSpace files, whatever formats they have been in.

    OUT.xplane.pb               of one host
    OUT/HOST.xplane.pb          of several, with the compiled programs beside the captures: a run directory

What was read is written: an open capture is an XSpace, which scribes of other formats have made (``inputs/formats``).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fastprof.decode.workers import Workers
from fastprof.decode.xspace_capture import Capture
from fastprof.errors import OutputError, UsageError
from fastprof.export.host_names import is_shortened, log_shortened, replace_controls, shorten_path_part
from fastprof.export.new_files import make_complete_folder, wrap_output_errors
from fastprof.tables.table_set import TableSet

SUFFIX: Final = ".xplane.pb"
_CHUNK: Final = 1 << 22
_NOT_FIRST: Final = (".", "~", "#")
"""What files begin with that are hidden, or that some tool has not finished."""


def list_captures(tables: TableSet) -> list[Capture]:
    """Return the captures of the selected hosts, without those that are only compiled programs."""
    hosts = set(tables.selected_hosts())
    captures = [capture for capture in tables.session.captures if capture.host in hosts and not capture.only_programs]
    if not captures:
        raise UsageError("there are only compiled programs, which are not converted")
    return captures


def list_program_files(captures: Sequence[Capture]) -> list[str]:
    """Files of compiled programs that are read with these captures, the first of each name."""
    by_name: dict[str, str] = {}
    for capture in captures:
        for file in capture.program_files:
            by_name.setdefault(Path(file).name, file)
    return list(by_name.values())


def read_chunks(captures: Sequence[Capture], workers: Workers) -> Iterator[bytes]:
    """Yield the bytes of one capture, which is an XSpace. ChangedError: its file has changed since it was loaded."""
    (capture,) = captures
    yield from _encode_chunks(capture, workers, 0, capture.source.size)


def _encode_chunks(capture: Capture, workers: Workers, done: int, total: int) -> Iterator[bytes]:
    source = capture.source
    for offset in range(0, source.size, _CHUNK):
        yield source.read(offset, _CHUNK)
        workers.report("converting", done + offset, total)
    source.check_unchanged()


def write_folder(captures: Sequence[Capture], workers: Workers, out: str, force: bool) -> None:
    """Write a run directory. OutputError: it exists, and ``force`` is not given or it has other files, too; or it
    cannot be written."""
    path = Path(out)
    names = name_files([capture.host for capture in captures])
    programs = list_program_files(captures)
    _check_not_read(captures, path)
    known = {*names, *(Path(file).name for file in programs)}

    def is_part(name: str, is_folder: bool) -> bool:
        return name in known and not is_folder

    done, total = 0, sum(capture.source.size for capture in captures)
    with (
        wrap_output_errors(out),
        make_complete_folder(path, force, is_part, "this run", "the files that it writes") as folder,
    ):
        for name, capture in zip(names, captures, strict=True):
            with (folder / name).open("xb") as file:
                for chunk in _encode_chunks(capture, workers, done, total):
                    file.write(chunk)
            if is_shortened(replace_controls(capture.host)):
                log_shortened(capture.log, capture.path, name)
            done += capture.source.size
        for program in programs:
            shutil.copyfile(program, folder / Path(program).name)


def name_files(hosts: Sequence[str]) -> list[str]:
    """Return the file of each host: its name, shortened, with _ for slashes and control characters; the second ``a_b``
    is ``a_b#2``."""
    names: list[str] = []
    for host in hosts:
        stem = shorten_path_part(replace_controls(host))
        stem = f"_{stem[1:]}" if stem.startswith(_NOT_FIRST) else stem or "unknown"
        name, number = stem + SUFFIX, 1
        while name in names:
            number += 1
            name = f"{stem}#{number}{SUFFIX}"
        names.append(name)
    return names


def _check_not_read(captures: Sequence[Capture], path: Path) -> None:
    for capture in captures:
        is_read = False
        with suppress(OSError, ValueError):  # one of them does not exist
            is_read = path.samefile(Path(capture.path).parent)
        if is_read:
            raise OutputError("has captures that are read; a capture is never overwritten", path=str(path))
