"""The front door of the API: load, runs and scan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastprof.decode.array_memory import limit_memory
from fastprof.decode.jobs import is_job_name
from fastprof.decode.selection import Interval, Patterns
from fastprof.decode.span_stats import KINETO
from fastprof.decode.workers import Progress
from fastprof.errors import CaptureError, NotFoundError, UnreadableError, UsageError
from fastprof.inputs import directory_content, open_files
from fastprof.inputs import resolve as sessions
from fastprof.inputs.resolve import Named, Run
from fastprof.inputs.stores.store_path import bind_paths
from fastprof.profile.profile import Profile, name_runs, open_runs
from fastprof.tables.table_set import BATCH_ROWS

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fastprof.engines.engine import Engine


def load(
    path: Named | Sequence[Named],
    *,
    run: str | Run | Sequence[str | Run] | None = None,
    as_hosts: bool = False,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retries: int = 2,
    host_timeout: float | None = None,
    in_flight: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> Profile:
    """Open captures.

    ``path``: a capture file, a run directory (or a Run of ``runs``), a log directory, a glob, a URL of one of these,
    bytes, a binary file object, or a list of these. gzip and zstd are recognized by content. From a log directory with
    several runs the newest run is loaded, unless ``run`` names another, or a list of others (see ``runs``). If the
    traces are of several jobs (``Profile.by_job``), ``run`` names one of these, as "job 1".

    Several runs stay apart: tables have the column ``run``, and each run has its own reports (``Profile.runs``).
    ``as_hosts``: read all captures as hosts of one run instead.

    ``on_error``: "raise" stops at the first damaged or missing host; "skip" loads the other hosts; "salvage" keeps
    what can be decoded before and after a fault. The table ``import_log`` lists omitted parts.
    ``threads``: the number of decoding threads; default: one per processor, or one for sessions below 1 MiB.
    ``max_unpacked``: the largest unpacked size of a compressed capture, in bytes; default: 16 GiB. A
    larger value also raises the memory limit of names, planes and lines, otherwise proportional to the capture.
    ``memory``: bytes that this process may use, at least 192 MiB; default: no limit. Arrays beyond it are temporary
    files, of threads that loaded with a limit and of fastprof's own; ``processes(n, memory=…)`` limits an executor's.
    ``progress``: called with a stage, the amount done, and the total.

    ``executor``: a concurrent.futures.Executor, or a function that makes one, such as
    ``fastprof.engines.processes(8)``: analyses then read each host there, and no capture is opened here but for tables;
    see docs/scale.md. ``retries``: for a host whose worker was lost; ``host_timeout``: maximum seconds for a host;
    ``in_flight``: hosts submitted to the executor at a time. ``threads`` is then that of a host, default: 1.

    ``storage_options``: options of the store of a URL, in addition to those of the environment; see docs/remote.md.
    ``filesystem``: a file system of fsspec or pyarrow that has ``path``.

    Raises NotFoundError, UnreadableError or CaptureError (all FastprofError) with file and byte offset. Loading finds
    the planes of the captures. Events are decoded at the first use of a table.
    """
    if memory is not None:
        limit_memory(memory)
    path = bind_paths(path, storage_options, filesystem)
    how: dict[str, Any] = {
        "run": name_runs(run),
        "as_hosts": as_hosts,
        "on_error": on_error,
        "threads": threads,
        "max_unpacked": max_unpacked,
    }
    try:
        if executor is not None:
            from fastprof.engines.engine import Engine

            engine = Engine(executor, retries, host_timeout, in_flight)
            return _open_profile(path, how, lambda how: load_on_engine(path, how, engine, progress))
        return _open_profile(path, how, progress=progress)
    except (CaptureError, UnreadableError) as error:
        where: Any = os.fspath(path) if run is None and isinstance(path, str | os.PathLike) else None
        if isinstance(where, str) and (other_run := sessions.find_other_run(where, error.path)):
            newest, count, other = other_run
            error.add_note(f"{newest} is the newest of {count} runs; read another: run={other!r}")
        raise


def load_graph(
    graph: str | os.PathLike[str],
    *,
    run_metadata: Sequence[str | os.PathLike[str]] | Mapping[int, str | os.PathLike[str]] = (),
    op_log: str | os.PathLike[str] | None = None,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
) -> Profile:
    """Open a TensorFlow 1 graph file as the profile that tfprof would make of it.

    ``graph``: a GraphDef, binary or text. ``run_metadata``: RunMetadata of its runs by step; in a list, the step of a
    file is the last number in its name, or else 0, 1, …. ``op_log``: an OpLogProto with types, float operations and
    code. Other arguments, and errors, are those of ``load``.
    """
    if isinstance(run_metadata, Mapping):
        steps = tuple(sorted((step, os.fspath(path)) for step, path in run_metadata.items()))
    elif isinstance(run_metadata, str | os.PathLike):
        raise UsageError("run_metadata is a list of files, or a dictionary of them by step")
    else:
        steps = directory_content.number_runs([os.fspath(path) for path in run_metadata])
    log = None if op_log is None else os.fspath(op_log)
    files = directory_content.GraphFiles(os.fspath(graph), steps, log, open_files.check_limit(max_unpacked))
    return load(files, on_error=on_error, threads=threads, max_unpacked=max_unpacked)


def load_again(path: Named | Sequence[Named], **how: Any) -> Profile:
    """Reopen captures. Also raises UnreadableError if a pipe has replaced one, because it might block forever."""
    return _open_profile(path, how, again=True)


def _open_profile(
    path: Named | Sequence[Named],
    how: dict[str, Any],
    on_engine: Callable[[dict[str, Any]], Profile] | None = None,
    **rest: Any,
) -> Profile:
    """Return the profile of a session, or of the jobs that ``run`` names, such as ``job 1``. ``on_engine`` opens it for
    an executor; the hosts of each job are then found here."""
    try:
        return _load_runs(path, how, rest) if on_engine is None else on_engine(how)
    except (NotFoundError, UsageError):
        wanted = [how["run"]] if isinstance(how.get("run"), str) else list(how.get("run") or ())
        if not wanted or not all(map(is_job_name, wanted)):
            raise
        how = {**how, "run": None}
        by_job = _load_runs(path, how, rest).by_job
        if not by_job.has_runs:
            raise
    if on_engine is not None:
        every = on_engine(how)
        jobs = {name: every.select(hosts=job.hosts["host"].to_pylist()) for name, job in by_job.runs.items()}
        by_job = _join_profiles(jobs, path, how)
    return by_job.runs[wanted[0]] if len(wanted) == 1 else by_job.select(runs=wanted)


def _load_runs(path: Named | Sequence[Named], how: dict[str, Any], rest: dict[str, Any]) -> Profile:
    opened, several = open_runs(path, **how, **rest)
    if not several:
        tables = next(iter(opened.values()))
        parts = tables.session.index.captures
        are_traces = len(parts) > 1 and all(part.environment.transcribed_from == KINETO for part in parts)
        if how.get("as_hosts") or not are_traces:
            return Profile(tables, path, how)
        from fastprof.profile.several_runs import ProfileOfTraces

        return ProfileOfTraces(tables, path, how)
    from fastprof.profile.several_runs import ProfileOfRuns  # late: most sessions are one run

    return ProfileOfRuns.of(opened, path, how)


def load_on_engine(
    path: Named | Sequence[Named], how: dict[str, Any], engine: Engine, progress: Progress | None
) -> Profile:
    """Load captures that ``engine`` reads."""
    from fastprof.profile.on_engine import open_profiles_on_engine  # late: most sessions do without it

    profiles = open_profiles_on_engine(path, how, engine, progress)
    return next(iter(profiles.values())) if len(profiles) == 1 else _join_profiles(profiles, path, how)


def _join_profiles(profiles: dict[str, Profile], path: Any, how: dict[str, Any]) -> Profile:
    from fastprof.profile.several_runs import ProfileOfRuns  # late: most sessions are one run

    return ProfileOfRuns.of_profiles(profiles, path, how)


def runs(
    logdir: str | os.PathLike[str],
    *,
    since: str | date | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> list[Run]:
    """List the runs of a log directory, newest first: ``.name``, ``.path``, ``.hosts``. ``since``: only runs of
    that time or later, as in ``batch``. ``storage_options``, ``filesystem``: as in ``load``."""
    return sessions.list_runs(bind_paths(logdir, storage_options, filesystem), since)


def scan(
    path: Named | Sequence[Named],
    *,
    columns: Sequence[str] | None = None,
    stats: Sequence[str] = (),
    hosts: str | Iterable[str] | None = None,
    planes: Patterns = None,
    lines: Patterns = None,
    names: Patterns = None,
    time_ps: Interval | None = None,
    batch_rows: int = BATCH_ROWS,
    run: str | Run | Sequence[str | Run] | None = None,
    as_hosts: bool = False,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> Iterator[pa.RecordBatch]:
    """Return events as record batches in bounded memory; arguments as of ``load``, ``Profile.select`` and
    ``Profile.scan``."""
    path = bind_paths(path, storage_options, filesystem)
    profile = load(path, run=run, as_hosts=as_hosts, on_error=on_error, threads=threads, max_unpacked=max_unpacked)
    chosen = profile.select(hosts=hosts, planes=planes, lines=lines, names=names, time_ps=time_ps)
    return chosen.scan(columns=columns, stats=stats, batch_rows=batch_rows)
