"""Reports of many runs, one run after the other, and the runs side by side."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fastprof.errors import CaptureError, FastprofError, NotFoundError, UnreadableError
from fastprof.inputs import resolve as sessions
from fastprof.inputs.resolve import Run
from fastprof.profile.loading import load, on_engine

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa

    from fastprof.engines.engine import Engine
    from fastprof.profile.profile import Profile
    from fastprof.profile.report import Report


def batch(
    logdir: str | os.PathLike[str],
    *names: str,
    runs: Iterable[str | Run] | None = None,
    params: Mapping[str, Any] | None = None,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retries: int = 2,
    host_timeout: float | None = None,
    in_flight: int | None = None,
) -> Iterator[tuple[Run, dict[str, Report]]]:
    """The reports ``names`` (none: all) of each run of a log directory, newest first, as each run is complete.

    ``runs``: some of them, by name, in this order. ``params``: of the analyses. The others are those of ``load``; one
    executor serves all runs. With ``on_error="skip"`` a run without a host that can be read is left out, and warned of.
    NotFoundError: there are no runs, or none of a name; other errors are raised when the run is reached.
    """
    how = {"on_error": on_error, "threads": threads, "max_unpacked": max_unpacked}
    engine = _engine(executor, retries, host_timeout, in_flight)
    return _each(_wanted(logdir, runs), partial(_opened, how, engine), names, params or {}, on_error == "skip")


def trends(
    logdir: str | os.PathLike[str],
    *,
    runs: Iterable[str | Run] | None = None,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retries: int = 2,
    host_timeout: float | None = None,
    in_flight: int | None = None,
) -> pa.Table:
    """The runs of a log directory side by side, newest first: the table of ``fastprof trends``, computed each time.

    Columns: run, step_count, step_time_p50_ps, step_time_max_ps, not_computing_share, finding_share, finding (what
    costs most), memory_peak_bytes, start_unix_ns, problem. ``runs``: some of them, by name, in this order. The others
    are those of ``load``; one executor serves all runs. A run that cannot be read has its error as ``problem``.
    NotFoundError: there are no runs, or none of a name.
    """
    from fastprof.profile.trends import of_profile, table

    how = {"on_error": on_error, "threads": threads, "max_unpacked": max_unpacked}
    engine = _engine(executor, retries, host_timeout, in_flight)
    rows = []
    for run in _wanted(logdir, runs):
        try:
            row = of_profile(_opened(how, engine, run))
        except FastprofError as error:
            row = {"problem": str(error)}
        rows.append({"run": run.name} | row)
    return table(rows)


def _wanted(logdir: str | os.PathLike[str], runs: Iterable[str | Run] | None) -> list[Run]:
    there = {run.name: run for run in sessions.runs(logdir)}
    wanted = list(there) if runs is None else [one.name if isinstance(one, Run) else one for one in runs]
    for name in wanted:
        if name not in there:
            raise NotFoundError(f"no run {name!r}; there are: {', '.join(there)}", path=os.fspath(logdir))
    return [there[name] for name in wanted]


def _engine(
    executor: Executor | Callable[[], Executor] | None,
    retries: int,
    host_timeout: float | None,
    in_flight: int | None,
) -> Engine | None:
    if executor is None:
        return None
    from fastprof.engines.engine import Engine

    return Engine(executor, retries, host_timeout, in_flight)


def _opened(how: dict[str, Any], engine: Engine | None, run: Run) -> Profile:
    if engine is None:
        return load(run, **how)
    return on_engine(run, how | {"run": None, "as_hosts": False}, engine, None)


def _each(
    runs: Iterable[Run], opened: Callable[[Run], Profile], names: Iterable[str], params: Mapping[str, Any], skip: bool
) -> Iterator[tuple[Run, dict[str, Report]]]:
    for run in runs:
        try:
            found = opened(run).reports(*names, **params)
        except (CaptureError, UnreadableError) as error:
            if not skip:
                raise
            warnings.warn(f"the run {run.name} is left out: {error}", stacklevel=2)
        else:
            yield run, found
