"""The captures that ``load`` takes, opened: the tables of each run. A profile that was pickled opens them again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from fastprof.decode.selection import Selection
from fastprof.decode.workers import Progress, Workers, cpu_count
from fastprof.errors import FastprofError, MemoryLimitError, UnreadableError, UsageError
from fastprof.inputs import unpacking
from fastprof.inputs.resolve import Named, Run, Session
from fastprof.inputs.several_runs import resolve_runs
from fastprof.tables.open_session import OpenSession
from fastprof.tables.table_set import TableSet
from fastprof.wording.screen import printable

ON_ERROR = ("raise", "skip", "salvage")
_log = logging.getLogger("fastprof")


def open_runs(
    path: Named | Sequence[Named],
    *,
    run: str | Run | Sequence[str | Run] | None = None,
    as_hosts: bool = False,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    progress: Progress | None = None,
    again: bool = False,
) -> tuple[dict[str, TableSet], bool]:
    """The tables of each run by its name, and whether several runs were named; arguments and errors as of ``load``.
    ``again``: they were open before, so each is a file; UnreadableError: a pipe or a device is in its place."""
    most = checked_reading(on_error, threads, max_unpacked)
    found = resolve_runs(path, names_of_runs(run), missing_ok=on_error != "raise", as_hosts=as_hosts)
    for file in [file for session in found.values() for file in session.files if again and file.pipe]:
        raise UnreadableError("is a pipe or a device now; a file was expected", path=file.path)
    workers = Workers(threads or cpu_count(), progress)
    if len(found) == 1:
        return {name: _opened(session, on_error, workers, most) for name, session in found.items()}, False
    return _open_each(found, on_error, workers, most), True


def checked_reading(on_error: str, threads: int | None, max_unpacked: int | None) -> int:
    """The number of bytes that a compressed capture may unpack to. UsageError: one of these has another type
    or an unknown value."""
    if on_error not in ON_ERROR:
        raise UsageError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise UsageError("threads must be a whole number of at least 1")
    return unpacking.checked(max_unpacked)


def names_of_runs(run: str | Run | Sequence[str | Run] | None) -> str | list[str] | None:
    listed = [run] if run is None or isinstance(run, (str, Run)) else list(run) if isinstance(run, Sequence) else [run]
    names = [one.name if isinstance(one, Run) else one for one in listed]
    for name in names:
        if name is not None and not isinstance(name, str):
            raise UsageError(f"run must be the name of a run, or a list of names, not {type(name).__name__}")
    if isinstance(run, Sequence) and not isinstance(run, str):
        return [str(name) for name in names]
    return names[0]


def _opened(session: Session, on_error: str, workers: Workers, max_unpacked: int) -> TableSet:
    for remark in session.remarks:
        _log.info("%s", printable(remark.message))
    return TableSet(OpenSession(session, on_error, workers, max_unpacked), Selection())


def _open_each(found: Mapping[str, Session], on_error: str, workers: Workers, max_unpacked: int) -> dict[str, TableSet]:
    """The runs, opened. If damaged hosts may be left out, so may runs without any other; the log of the first reports
    them."""
    opened: dict[str, TableSet] = {}
    faults: list[FastprofError] = []
    for name, session in found.items():
        try:
            opened[name] = _opened(session, on_error, workers, max_unpacked)
        except MemoryLimitError:
            raise
        except FastprofError as error:
            if on_error == "raise":
                raise
            faults.append(error)
    if not opened:
        raise faults[0]
    for fault in faults:
        text = f"a run without a host that can be read: {fault.message}"
        next(iter(opened.values())).session.log.add("error", "skipped_run", text, fault.path)
    return opened
