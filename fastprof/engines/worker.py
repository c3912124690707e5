"""The work of a worker: open one file, reduce its hosts to what is wanted, forget it; and merge what hosts gave, 32 at
a time, so that the session holds little of it."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastprof.analyses import accumulation, runner
from fastprof.analyses.accumulation import HostPlan, HostStates, merge_states
from fastprof.decode.import_log import ImportLog
from fastprof.decode.jobs import read_job_facts, read_rank
from fastprof.decode.workers import Workers
from fastprof.engines.host_task import (
    VERSIONS,
    Analyses,
    BytesOf,
    FilesTask,
    GroupTask,
    HostInFile,
    HostTask,
    Kept,
    Packed,
    StepsOfHosts,
    pack,
    restore_file,
    unpack,
)
from fastprof.errors import ChangedError, EngineError, FastprofError, MemoryLimitError, UsageError
from fastprof.inputs.resolve import Session
from fastprof.tables.table_set import OpenSession, TableSet


def keep_host(task: HostTask) -> Kept:
    """Return what is kept of the hosts of a file. Whatever is wrong with the file is returned, so that no engine tries
    it again."""
    return answer_task(task, lambda: _keep_hosts(task))


def answer_task(task: HostTask | GroupTask | FilesTask, make: Callable[[], Kept]) -> Kept:
    """Run a task; return the answer with time and memory used."""
    begin = time.perf_counter()
    if task.versions != VERSIONS:
        text = f"the worker has other versions than the session: {VERSIONS}, not {task.versions}"
        return Kept(task.number, fault=UsageError(text))
    return replace(
        make(),
        wall_s=time.perf_counter() - begin,
        peak_bytes=measure_peak_bytes(),
        forked=type(multiprocessing.current_process()).__name__ == "ForkProcess",
        worker=f"{socket.gethostname()}:{os.getpid()}",
    )


def _keep_hosts(task: HostTask) -> Kept:
    path = task.file.path
    try:
        session = _open_file(task)
    except FastprofError as error:
        return Kept(task.number, fault=error, in_opening=True)
    except MemoryError:
        return Kept(task.number, fault=MemoryLimitError("out of memory", path=path), in_opening=True)
    log = session.log
    try:
        done = _read_selected(session, task)
        each, alone = _split_hosts(done, task), _split_unmergeable(done, task)
        packed = Packed(*pack(done))
        hosts = [] if isinstance(task.work, BytesOf) else _list_hosts(session, task)
    except FastprofError as error:
        return Kept(task.number, fault=error, log=tuple(log.rows()))
    except MemoryError:
        return Kept(task.number, fault=MemoryLimitError("out of memory", path=path), log=tuple(log.rows()))
    return Kept(task.number, tuple(hosts), packed, alone, each, log=tuple(log.rows()))


def keep_files(task: FilesTask) -> Kept:
    """Return what is kept of some files. Faults are returned, as of ``keep_host``."""
    return answer_task(task, lambda: _keep_files(task))


def _keep_files(task: FilesTask) -> Kept:
    log = ImportLog()
    try:
        packed = Packed(*pack(task.work.of_files(_open_each(task.tasks, log))))
    except FastprofError as error:
        return Kept(task.number, fault=error, log=tuple(log.rows()))
    except MemoryError:
        return Kept(task.number, fault=MemoryLimitError("out of memory", path=task.path), log=tuple(log.rows()))
    return Kept(task.number, packed=packed, log=tuple(log.rows()))


def _open_each(tasks: Sequence[HostTask], log: ImportLog) -> Iterator[tuple[int, TableSet]]:
    for place, task in enumerate(tasks):
        try:
            session = _open_file(task)
        except FastprofError as error:
            if task.on_error == "raise":
                raise
            log.add("error", "skipped_host", error.message, error.path, offset=error.offset)
            continue
        yield place, TableSet(session, replace(task.reading.selection, hosts=None))
        log.take(session.log.rows())


def _split_hosts(done: Any, task: HostTask) -> tuple[dict[str, Packed], ...]:
    """If there are many hosts, takes out of what was kept what the session looks at one host after the other."""
    if not isinstance(task.work, Analyses) or task.hosts <= accumulation.GROUP:
        return ()
    plan = get_plan(task.work)
    names = [name for name in plan.analyses if accumulation.is_lazy(plan, name)]
    if not names:
        return ()
    of_hosts = [{name: host.kept.pop(name) for name in names if name in host.kept} if host else {} for host in done]
    return tuple({name: Packed(*pack(*values)) for name, values in of_host.items()} for of_host in of_hosts)


def _split_unmergeable(done: Any, task: HostTask) -> Packed | None:
    """If hosts will be merged, takes out of what was kept what does not merge, so that it need not travel again."""
    if not isinstance(task.work, Analyses) or task.hosts <= accumulation.GROUP:
        return None
    plan = get_plan(task.work)
    merge = {name for name in plan.analyses if accumulation.is_merged(plan, name)}
    if not merge:
        return None
    of_hosts = [host and {name: host.kept.pop(name) for name in [*host.kept] if name not in merge} for host in done]
    return Packed(*pack(of_hosts)) if any(of_hosts) else None


def _open_file(task: HostTask) -> OpenSession:
    file, reading = task.file, task.reading
    if task.size_bytes is not None and isinstance(file.source, str) and (place := Path(file.source)).exists():
        now = place.stat()
        if (now.st_size, now.st_mtime_ns) != (task.size_bytes, task.changed_ns):
            raise ChangedError("the file changed after it was listed; load it again", path=file.path)
    session = Session(file.run, (restore_file(file),), ())
    workers = Workers(reading.threads)
    return OpenSession(session, reading.on_error, workers, reading.max_unpacked, task.first, task.hosts, task.names)


def _list_hosts(session: OpenSession, task: HostTask) -> list[HostInFile]:
    """Return the hosts of the file. The first one counts the events of all."""
    events = accumulation.get_session_facts(session, ()).events
    hosts = []
    for number, capture in enumerate(session.captures):
        recorded = session.index.captures[number].environment
        about = (read_rank(capture), recorded.start_unix_ns, recorded.transcribed_from, 0 if number else events)
        job = read_job_facts(capture, recorded)
        hosts.append(HostInFile(capture.host, capture.path, *about, job, _is_selected(capture.host, task)))
    return hosts


def _is_selected(host: str, task: HostTask) -> bool:
    wanted = task.reading.selection.hosts
    return wanted is None or host in wanted


def _read_selected(session: OpenSession, task: HostTask) -> Any:
    """Return what is wanted of each selected host, and None of the others."""
    work, tables = task.work, TableSet(session, replace(task.reading.selection, hosts=None))
    chosen = [number for number, host in enumerate(session.hosts) if _is_selected(host, task)]
    if isinstance(work, BytesOf):
        return _read_program_bytes(session, work)
    if isinstance(work, StepsOfHosts):
        values: list[Any] = accumulation.read_host_steps(tables, chosen, work.source)
    elif not isinstance(work, Analyses):
        values = work.of_hosts(tables, chosen)
    else:
        plan = get_plan(work)
        choices = task.choices or {}
        values = [accumulation.keep_host(tables, number, plan, choices.get(number)) for number in chosen]
    of_number = dict(zip(chosen, values, strict=True))
    return [of_number.get(number) for number in range(len(session.hosts))]


def get_plan(work: Analyses) -> accumulation.HostPlan:
    return runner.make_plan(runner.add_prerequisites(work.names), work.names, work.params, work.steps, work.keepers)


def _read_program_bytes(session: OpenSession, work: BytesOf) -> bytes:
    for number in range(len(session.captures)):
        for program in session.programs(number):
            if (program.id, program.offset) == (work.program_id, work.offset):
                return program.source.read(program.offset, program.length)
    raise ChangedError("the file changed while it was being read; load it again", path=session.captures[0].path)


def measure_peak_bytes() -> int:
    """Return the most memory that this process has had; 0: the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def combine_hosts(task: GroupTask) -> Kept:
    """One of the parts of a group, packed as they are. Whatever is wrong is returned, so that no engine tries it
    again."""
    return answer_task(task, lambda: _combine_parts(task))


def _combine_parts(task: GroupTask) -> Kept:
    plan, texts = get_plan(task.work), dict[str, str]()
    parts: list[HostStates] = []
    try:
        for packed, number in zip(task.parts, task.numbers, strict=True):
            assert isinstance(packed.payload, bytes) and isinstance(packed.beside, bytes)
            (part,) = unpack(packed.payload, packed.raw_bytes, packed.beside, ImportLog(), _fetch_no_program, texts)
            if number is not None:
                renumber_host(part.kept, plan, number)
            parts.append(part)
        merged = Packed(*pack([merge_states(parts, plan)]))
    except FastprofError as error:
        return Kept(task.number, fault=error)
    except MemoryError:
        return Kept(task.number, fault=MemoryLimitError(f"out of memory, merging results of {task.what}"))
    return Kept(task.number, packed=merged)


def renumber_host(kept: dict[str, list[Any]], plan: HostPlan, number: int) -> None:
    """What was kept of a host, of the host of this number in the session."""
    for name in kept:
        kept[name] = [renumber_kept(plan, name, value, number) for value in kept[name]]


def renumber_kept(plan: HostPlan, name: str, value: Any, number: int) -> Any:
    """Renumber the state that an analysis kept of a host."""
    numbered = getattr(plan.analyses[name], "numbered", None)
    return value if numbered is None else numbered(value, number)


def _fetch_no_program(program_id: int, _: int) -> bytes:
    raise EngineError(f"the program {program_id} is not where hosts are merged")
