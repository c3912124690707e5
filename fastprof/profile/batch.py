"""Reports of many runs, one run after the other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fastprof.errors import CaptureError, NotFoundError, UnreadableError
from fastprof.inputs import resolve as sessions
from fastprof.inputs.resolve import Run
from fastprof.profile.loading import load, on_engine

if TYPE_CHECKING:
    from concurrent.futures import Executor

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
    there = {run.name: run for run in sessions.runs(logdir)}
    wanted = list(there) if runs is None else [one.name if isinstance(one, Run) else one for one in runs]
    for name in wanted:
        if name not in there:
            raise NotFoundError(f"no run {name!r}; there are: {', '.join(there)}", path=os.fspath(logdir))
    how = {"on_error": on_error, "threads": threads, "max_unpacked": max_unpacked}

    def opened(run: Run) -> Profile:
        return load(run, **how)  # type: ignore[arg-type]

    if executor is not None:
        from fastprof.engines.engine import Engine

        engine = Engine(executor, retries, host_timeout, in_flight)

        def opened(run: Run) -> Profile:
            return on_engine(run, how | {"run": None, "as_hosts": False}, engine, None)

    return _each([there[name] for name in wanted], opened, names, params or {}, on_error == "skip")


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
