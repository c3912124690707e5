"""The captures that ``load`` opens: the tables of each run, runs by name, and the reports of an open session. A profile
that was pickled opens them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from fastprof.analyses import contract
from fastprof.decode.selection import Selection
from fastprof.decode.workers import Progress, Workers, count_cpus
from fastprof.errors import FastprofError, MemoryLimitError, NotFoundError, UnreadableError, UsageError
from fastprof.inputs import open_files
from fastprof.inputs.resolve import Named, Run, Session, resolve_runs
from fastprof.tables.open_session import OpenSession
from fastprof.tables.table_set import TableSet
from fastprof.wording.amounts import Steps
from fastprof.wording.screen import escape_text
from fastprof.wording.spelling import suggest_name

T = TypeVar("T")


class Runs(dict[str, T]):
    """A name that is not there is a NotFoundError with those that are."""

    def __missing__(self, name: object) -> NoReturn:
        raise NotFoundError(explain_missing_run(name, self))


def explain_missing_run(name: object, there: Collection[str]) -> str:
    """A sentence: this run does not exist, and these do."""
    names = list(map(str, there))
    likely = suggest_name(name, names) if isinstance(name, str) else ""
    return f"no run {name!r} in this session; there are: {', '.join(names)}{likely}"


def choose_runs(known: Iterable[str], wanted: str | Iterable[str] | None) -> list[str]:
    """The runs that are wanted (None: all), in the order of the known ones. NotFoundError: one is unknown."""
    there = list(known)
    names = there if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if name not in there:
            raise NotFoundError(explain_missing_run(name, there))
    return [name for name in there if name in names]


Computing = Callable[[Sequence[str], Mapping[str, Any], str], dict[str, contract.AnalysisReport]]
"""From names of analyses, their parameters and a format to the reports."""


def compute_reports(
    session: OpenSession,
    selection: Selection,
    steps: Steps | None,
    names: Sequence[str],
    params: Mapping[str, Any],
    form: str,
) -> dict[str, contract.AnalysisReport]:
    """The reports of an open session."""
    from fastprof.analyses import runner

    session.jobs()
    return runner.run(TableSet(session, selection), names, params, steps, get_host_readers(names, form))


def get_host_readers(names: Sequence[str], form: str) -> Mapping[str, contract.Keeper]:
    """What a format needs of each host beside the reports: XProf's pages need more."""
    if form != "xprof":
        return {}
    from fastprof.xprof import report_xprof

    return report_xprof.list_keepers(names)


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
    most = check_reading(on_error, threads, max_unpacked)
    found = resolve_runs(path, name_runs(run), missing_ok=on_error != "raise", as_hosts=as_hosts)
    for file in [file for session in found.values() for file in session.files if again and file.pipe]:
        raise UnreadableError("is a pipe or a device now; a file was expected", path=file.path)
    workers = Workers(threads or count_cpus(), progress)
    if len(found) == 1:
        return {name: _open_session(session, on_error, workers, most) for name, session in found.items()}, False
    return _open_each(found, on_error, workers, most), True


def check_reading(on_error: str, threads: int | None, max_unpacked: int | None) -> int:
    """The number of bytes that a compressed capture may unpack to. UsageError: one of these has another type
    or an unknown value."""
    if on_error not in ON_ERROR:
        raise UsageError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise UsageError("threads must be a whole number of at least 1")
    return open_files.check_limit(max_unpacked)


def name_runs(run: str | Run | Sequence[str | Run] | None) -> str | list[str] | None:
    listed = [run] if run is None or isinstance(run, (str, Run)) else list(run) if isinstance(run, Sequence) else [run]
    names = [one.name if isinstance(one, Run) else one for one in listed]
    for name in names:
        if name is not None and not isinstance(name, str):
            raise UsageError(f"run must be the name of a run, or a list of names, not {type(name).__name__}")
    if isinstance(run, Sequence) and not isinstance(run, str):
        return [str(name) for name in names]
    return names[0]


def _open_session(session: Session, on_error: str, workers: Workers, max_unpacked: int) -> TableSet:
    for remark in session.remarks:
        _log.info("%s", escape_text(remark.message))
    return TableSet(OpenSession(session, on_error, workers, max_unpacked), Selection())


def _open_each(found: Mapping[str, Session], on_error: str, workers: Workers, max_unpacked: int) -> dict[str, TableSet]:
    """The runs, opened. If damaged hosts may be left out, so may runs without any other; the log of the first reports
    them."""
    opened: dict[str, TableSet] = {}
    faults: list[FastprofError] = []
    for name, session in found.items():
        try:
            opened[name] = _open_session(session, on_error, workers, max_unpacked)
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
