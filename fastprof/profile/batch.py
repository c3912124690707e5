"""Reports of many runs, one run after the other, and the runs side by side."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import zip_longest
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
    runs: str | Run | Iterable[str | Run] | None = None,
    since: str | date | None = None,
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

    ``runs``: some of them, by name, in this order. ``since``: those of that time or later, by their name, else by the
    last change of their files: "2026-11-01", "2026-11-01 12:30" or a ``datetime``. ``params``: of the analyses. The
    others are those of ``load``; one executor serves all runs. With ``on_error="skip"`` a run without a host that can
    be read is left out, and warned of. NotFoundError: there are no runs, or none of a name; other errors are raised
    when the run is reached.
    """
    how = {"on_error": on_error, "threads": threads, "max_unpacked": max_unpacked}
    engine = _engine(executor, retries, host_timeout, in_flight)
    profiles = _profiles(_wanted(logdir, runs, since), how, engine, names, params or {})
    return _each(profiles, names, params or {}, on_error == "skip")


def trends(
    logdir: str | os.PathLike[str],
    *,
    runs: str | Run | Iterable[str | Run] | None = None,
    since: str | date | None = None,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retries: int = 2,
    host_timeout: float | None = None,
    in_flight: int | None = None,
) -> pa.Table:
    """The runs of a log directory side by side, newest first: the table of ``fastprof trends``, computed each time.

    Columns: run, step_count, step_time_p50_ps, step_time_max_ps, input_share, not_computing_share, finding_share,
    finding (what costs most), memory_peak_bytes, start_unix_ns, problem. ``runs``, ``since``: some of them, as of
    ``batch``. The others are those of ``load``; one executor serves all runs. A run that cannot be read has its error
    as ``problem``. NotFoundError: there are no runs, or none of a name.
    """
    from fastprof.profile.trends import REPORTS, of_profile, table

    how = {"on_error": on_error, "threads": threads, "max_unpacked": max_unpacked}
    engine = _engine(executor, retries, host_timeout, in_flight)
    rows = []
    for run, opened in _profiles(_wanted(logdir, runs, since), how, engine, REPORTS, {}):
        try:
            row = of_profile(opened())
        except FastprofError as error:
            row = {"problem": str(error)}
        rows.append({"run": run.name} | row)
    return table(rows)


def _wanted(
    logdir: str | os.PathLike[str], runs: str | Run | Iterable[str | Run] | None, since: str | date | None
) -> list[Run]:
    if runs is None:
        return sessions.runs(logdir, since)
    given = [runs] if isinstance(runs, str | Run) else runs
    there = {run.name: run for run in sessions.runs(logdir)}
    wanted = [one.name if isinstance(one, Run) else one for one in given]
    for name in wanted:
        if name not in there:
            raise NotFoundError(f"no run {name!r}; there are: {', '.join(there)}", path=os.fspath(logdir))
    recent = there if since is None else {run.name for run in sessions.runs(logdir, since)}
    return [there[name] for name in wanted if name in recent]


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


def _profiles(
    runs: Sequence[Run], how: dict[str, Any], engine: Engine | None, names: Sequence[str], params: Mapping[str, Any]
) -> Iterator[tuple[Run, Callable[[], Profile]]]:
    """Each run, and what opens it. Workers that have nothing else to do begin with the next run for these reports."""
    if engine is None:
        for run in runs:
            yield run, partial(load, run, **how)
        return
    begun: Callable[[], Profile] | None = None
    try:
        for run, following in zip_longest(runs, runs[1:]):
            opened, begun = begun or partial(_on_engine, run, how, engine), None
            engine.ahead = None
            if following is not None:
                begun = _begun(following, how, engine, names, params)
            yield run, opened
    finally:
        if engine.ahead is not None:
            engine.ahead.cancel()


def _on_engine(run: Run, how: dict[str, Any], engine: Engine) -> Profile:
    return on_engine(run, how | {"run": None, "as_hosts": False}, engine, None)


def _begun(
    run: Run, how: dict[str, Any], engine: Engine, names: Sequence[str], params: Mapping[str, Any]
) -> Callable[[], Profile] | None:
    """What returns the profile of a run. None: something is wrong with it, which is for its own turn."""
    from fastprof.profile.on_engine import ProfileOnEngine

    try:
        profile = _on_engine(run, how, engine)
        if isinstance(profile, ProfileOnEngine):
            profile.begin(names, params)
    except FastprofError:
        return None
    return lambda: profile


def _each(
    profiles: Iterable[tuple[Run, Callable[[], Profile]]], names: Sequence[str], params: Mapping[str, Any], skip: bool
) -> Iterator[tuple[Run, dict[str, Report]]]:
    for run, opened in profiles:
        try:
            found = opened().reports(*names, **params)
        except (CaptureError, UnreadableError) as error:
            if not skip:
                raise
            warnings.warn(f"the run {run.name} is left out: {error}", stacklevel=2)
        else:
            yield run, found
