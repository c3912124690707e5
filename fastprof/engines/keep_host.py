"""What a worker does: opens one file, keeps what is wanted of its hosts, and forgets it."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastprof.analyses import keeping, merging, runner, step_choice
from fastprof.decode.jobs import read_job_facts
from fastprof.decode.rank_order import rank_of
from fastprof.decode.workers import Workers
from fastprof.engines.host_task import (
    VERSIONS,
    Analyses,
    BytesOf,
    GroupTask,
    HostInFile,
    HostTask,
    Kept,
    Packed,
    StepsOfHosts,
    arrived,
)
from fastprof.engines.packing import pack
from fastprof.errors import ChangedError, FastprofError, MemoryLimitError, UsageError
from fastprof.inputs.resolve import Session
from fastprof.tables.open_session import OpenSession
from fastprof.tables.table_set import TableSet


def keep_host(task: HostTask) -> Kept:
    """What is kept of the hosts of a file. Whatever is wrong with the file is returned, so that no engine tries it
    again."""
    return answered(task, lambda: _kept(task))


def answered(task: HostTask | GroupTask, make: Callable[[], Kept]) -> Kept:
    """What is made for a task, and what it took."""
    begin = time.perf_counter()
    if task.versions != VERSIONS:
        text = f"the worker has other versions than the session: {VERSIONS}, not {task.versions}"
        return Kept(task.number, fault=UsageError(text))
    return replace(
        make(),
        wall_s=time.perf_counter() - begin,
        peak_bytes=peak_bytes(),
        forked=type(multiprocessing.current_process()).__name__ == "ForkProcess",
        worker=f"{socket.gethostname()}:{os.getpid()}",
    )


def _kept(task: HostTask) -> Kept:
    path = task.file.path
    try:
        session = _opened(task)
    except FastprofError as error:
        return Kept(task.number, fault=error, in_opening=True)
    except MemoryError:
        return Kept(task.number, fault=MemoryLimitError("out of memory", path=path), in_opening=True)
    log = session.log
    try:
        done = _done(session, task)
        each, alone = _each(done, task), _alone(done, task)
        packed = Packed(*pack(done))
        hosts = [] if isinstance(task.work, BytesOf) else _hosts(session, task)
    except FastprofError as error:
        return Kept(task.number, fault=error, log=tuple(log.rows()))
    except MemoryError:
        return Kept(task.number, fault=MemoryLimitError("out of memory", path=path), log=tuple(log.rows()))
    return Kept(task.number, tuple(hosts), packed, alone, each, log=tuple(log.rows()))


def _each(done: Any, task: HostTask) -> tuple[dict[str, Packed], ...]:
    """If there are many hosts, takes out of what was kept what the session looks at one host after the other."""
    if not isinstance(task.work, Analyses) or task.hosts <= merging.GROUP:
        return ()
    plan = plan_of(task.work)
    names = [name for name in plan.analyses if merging.one_by_one(plan, name)]
    if not names:
        return ()
    of_hosts = [{name: one.kept.pop(name) for name in names if name in one.kept} if one else {} for one in done]
    return tuple({name: Packed(*pack(*values)) for name, values in of_host.items()} for of_host in of_hosts)


def _alone(done: Any, task: HostTask) -> Packed | None:
    """If hosts will be merged, takes out of what was kept what does not merge, so that it need not travel again."""
    if not isinstance(task.work, Analyses) or task.hosts <= merging.GROUP:
        return None
    plan = plan_of(task.work)
    merge = {name for name in plan.analyses if merging.merges(plan, name)}
    if not merge:
        return None
    of_hosts = [one and {name: one.kept.pop(name) for name in [*one.kept] if name not in merge} for one in done]
    return Packed(*pack(of_hosts)) if any(of_hosts) else None


def _opened(task: HostTask) -> OpenSession:
    file, reading = task.file, task.reading
    if task.size_bytes is not None and isinstance(file.source, str) and (place := Path(file.source)).exists():
        now = place.stat()
        if (now.st_size, now.st_mtime_ns) != (task.size_bytes, task.changed_ns):
            raise ChangedError("the file changed after it was listed; load it again", path=file.path)
    one = Session(file.run, (arrived(file),), ())
    workers = Workers(reading.threads)
    return OpenSession(one, reading.on_error, workers, reading.max_unpacked, task.first, task.hosts, task.names)


def _hosts(session: OpenSession, task: HostTask) -> list[HostInFile]:
    """The hosts of the file. The first one counts the events of all."""
    events = keeping.facts(session, ()).events
    found = []
    for number, capture in enumerate(session.captures):
        recorded = session.index.captures[number].environment
        about = (rank_of(capture), recorded.start_unix_ns, recorded.transcribed_from, 0 if number else events)
        job = read_job_facts(capture, recorded)
        found.append(HostInFile(capture.host, capture.path, *about, job, _is_selected(capture.host, task)))
    return found


def _is_selected(host: str, task: HostTask) -> bool:
    wanted = task.reading.selection.hosts
    return wanted is None or host in wanted


def _done(session: OpenSession, task: HostTask) -> Any:
    """Of each host that is selected, what is wanted; None of others."""
    work, tables = task.work, TableSet(session, replace(task.reading.selection, hosts=None))
    chosen = [number for number, host in enumerate(session.hosts) if _is_selected(host, task)]
    if isinstance(work, BytesOf):
        return _bytes(session, work)
    if isinstance(work, StepsOfHosts):
        found: list[Any] = step_choice.steps_of_hosts(tables, chosen, work.source)
    elif not isinstance(work, Analyses):
        found = work.of_hosts(tables, chosen)
    else:
        plan = plan_of(work)
        choices = task.choices or {}
        found = [keeping.keep(tables, number, plan, choices.get(number)) for number in chosen]
    of_number = dict(zip(chosen, found, strict=True))
    return [of_number.get(number) for number in range(len(session.hosts))]


def plan_of(work: Analyses) -> keeping.Plan:
    return runner.plan_of(runner.closure(work.names), work.names, work.params, work.steps, work.keepers)


def _bytes(session: OpenSession, work: BytesOf) -> bytes:
    for number in range(len(session.captures)):
        for program in session.programs(number):
            if (program.id, program.offset) == (work.program_id, work.offset):
                return program.source.read(program.offset, program.length)
    raise ChangedError("the file changed while it was being read; load it again", path=session.captures[0].path)


def peak_bytes() -> int:
    """The most memory that this process has had; 0: the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
