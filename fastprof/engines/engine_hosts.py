"""The hosts of a run as analyses see them, where other processes read them: no file is opened here. Results of many
hosts are merged by the workers, 32 hosts a task, then 32 groups a task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from fastprof.analyses import accumulation
from fastprof.analyses.accumulation import HostPlan, HostStates, SessionFacts
from fastprof.decode.import_log import ImportLog
from fastprof.decode.jobs import note_jobs, order_ranks
from fastprof.decode.selection import Selection
from fastprof.decode.workers import HOSTS_READ, Progress
from fastprof.decode.xspace_capture import name_hosts
from fastprof.derive.host import Choice
from fastprof.derive.steps.host_steps import HostSteps
from fastprof.engines.engine import Engine
from fastprof.engines.gather import Gathering, gather
from fastprof.engines.host_task import (
    VERSIONS,
    Analyses,
    BytesOf,
    FilesTask,
    FilesWork,
    GroupTask,
    HostInFile,
    HostTask,
    HostWork,
    Kept,
    Packed,
    Payloads,
    Reading,
    StepsOfHosts,
    unpack,
)  # fmt: skip
from fastprof.engines.worker import combine_hosts, keep_files, renumber_host, renumber_kept
from fastprof.errors import EngineError, FastprofError, UsageError
from fastprof.inputs.directory_content import GraphFiles
from fastprof.inputs.resolve import CaptureFile, Session
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_clocks import note_clocks


@dataclass(frozen=True, slots=True)
class PackedPart:
    """What was kept of ``hosts`` hosts. ``number``: that of one host in the session, if it was kept under another."""

    packed: Packed
    hosts: int = 1
    number: int | None = None


def merge_in_groups(
    parts: Sequence[PackedPart],
    work: Analyses,
    engine: Engine,
    payloads: Payloads,
    report: Callable[[int, int], None],
) -> list[PackedPart]:
    """Return the parts, which are hosts, as few as one process has them, in their order. ``report``: how many groups of
    how many are merged. Raises as ``gather``."""
    counts, left, done = [*accumulation.count_groups(len(parts))], [], 0
    level = list(parts)

    def submitted(executor: Executor, task: GroupTask) -> Future[Kept]:
        loaded = [
            replace(part, payload=payloads.read(part.payload), beside=payloads.read(part.beside)) for part in task.parts
        ]
        return executor.submit(combine_hosts, replace(task, parts=tuple(loaded)))

    for count in counts:
        some = [level[accumulation.GROUP * i : accumulation.GROUP * (i + 1)] for i in range(count)]
        left.append(level[accumulation.GROUP * count :])
        tasks = [_make_task(i, of_group, work) for i, of_group in enumerate(some)]
        before = done
        made = gather(
            engine,
            tasks,
            lambda now, before=before: report(before + now, sum(counts)),  # type: ignore[misc]
            payloads.stored,
            submitted,
        )
        level = [PackedPart(wrap_packed(made[task.number]), task.hosts) for task in tasks]
        done += count
    return [part for parts in reversed([*left, level]) for part in parts]


def _make_task(number: int, parts: Sequence[PackedPart], work: Analyses) -> GroupTask:
    given, numbers = tuple(part.packed for part in parts), tuple(part.number for part in parts)
    return GroupTask(VERSIONS, number, work, given, numbers, sum(part.hosts for part in parts))


def wrap_packed(kept: Kept) -> Packed:
    """Return the value that a worker returned."""
    assert kept.packed is not None
    return kept.packed


_MOST_BYTES: Final = 64 << 20
"""Most bytes of captures that are given as bytes and travel with their task."""
_FORKED: Final = (
    "workers are forked processes, which may hang if Arrow threads ran before the fork: spawn them, as "
    "fastprof.engines.processes does"
)


class EngineSession:
    """The files of a run that an engine's workers read. ``log``: what they found, as the log of an open session."""

    def __init__(self, session: Session, engine: Engine, reading: Reading, progress: Progress | None = None) -> None:
        self.engine = engine
        self.reading = reading
        self.progress = progress
        self.run = session.run
        self.log = ImportLog()
        for remark in session.remarks:
            self.log.add(remark.severity, remark.code, remark.message, remark.path)
        self.begun: Round | None = None
        self.files = tuple(map(_make_sendable, session.files))
        self._sizes = [_get_file_size(file) for file in self.files]

    @property
    def names(self) -> list[str | None]:
        """The hosts that the names of files contain."""
        return [file.host for file in self.files]

    def task(self, number: int, work: Any, selection: Selection, **rest: Any) -> HostTask:
        size, changed = self._sizes[number]
        reading = replace(self.reading, selection=selection)
        given = {"first": number, "hosts": selection.hosts_of(len(self.files)), "names": None} | rest
        return HostTask(
            VERSIONS, number, file=self.files[number], reading=reading, work=work, size_bytes=size, changed_ns=changed,
            **given,
        )  # fmt: skip


def _make_sendable(file: CaptureFile) -> CaptureFile:
    """Return the file as a task has it. UsageError: it is read once, or is too large to travel."""
    source = file.source
    if isinstance(source, bytes | bytearray | memoryview):
        if memoryview(source).nbytes > _MOST_BYTES:
            raise UsageError("captures above 64 MiB cannot be sent to workers as bytes; pass their files")
        return replace(file, source=bytes(source))
    if file.pipe or not isinstance(source, str | Path | GraphFiles):
        raise UsageError("a stream cannot be sent to workers; save it to a file, and pass the file")
    return file


def _get_file_size(file: CaptureFile) -> tuple[int | None, int | None]:
    try:
        known = Path(file.source).stat()
    except (OSError, TypeError, ValueError):
        return None, None  # the worker says what is wrong with it, if anything
    return known.st_size, known.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Round:
    """A task a file, and what came back."""

    work: Any
    selection: Selection
    tasks: list[HostTask]
    gathering: Gathering
    payloads: Payloads


@dataclass(frozen=True, slots=True)
class HostPlace:
    """A host: the file, the place in it, and its number in the session."""

    file: int
    at: int
    number: int
    name: str


class EngineHosts:
    """The selected hosts of a run."""

    def __init__(self, session: EngineSession, selection: Selection) -> None:
        self.session = session
        self.log = session.log
        self._selection = selection
        self._facts: SessionFacts | None = None
        self._places: list[HostPlace] = []
        self._steps: dict[str, list[HostSteps]] = {}
        self._payloads = Payloads()

    @property
    def alone(self) -> bool:
        """A file may hold several hosts, and is not looked into here."""
        return False

    def steps(self, source: str) -> list[HostSteps]:
        if source not in self._steps:
            report = self._reporting("reading steps")
            states = self._round(StepsOfHosts(source), Selection(self._selection.hosts), {}, report)
            of_hosts = self._unpacked(states)
            self._steps[source] = [replace(steps, number=place.number) for place, steps in of_hosts]
        return self._steps[source]

    def kept(self, plan: HostPlan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterator[HostStates]:
        """Yield the state of each host. Workers do not know ``without``: what they kept for these is dropped."""
        work = Analyses(plan.names, plan.given, plan.steps, plan.keepers)
        of_file: dict[int, dict[int, Choice]] = {}
        for place, choice in zip(self._places, choices or (), strict=choices is not None):
            of_file.setdefault(place.file, {})[place.at] = choice
        states = self._round(work, self._selection, of_file, self._reporting(HOSTS_READ))
        # Workers merge hosts if there are many, each in a file of its own.
        many = len(self._places) > accumulation.GROUP and all(len(state.hosts) == 1 for state in states.values())
        if many and any(accumulation.is_merged(plan, name) for name in plan.analyses):
            of_places = self._merged(states, work, plan)
        else:
            of_places = self._of_places(states, plan)
        for of_place in of_places:
            for name in without:
                of_place.kept.pop(name, None)
                of_place.errors.pop(name, None)
            yield of_place

    def _of_places(self, states: dict[int, Kept], plan: HostPlan) -> Iterator[HostStates]:
        texts: dict[str, str] = {}
        files = dict(states)
        for place, value in self._unpacked(states):
            if place.number != place.file + place.at:
                renumber_host(value.kept, plan, place.number)
            value.kept |= self._each(files[place.file], plan, place, texts)
            yield value

    def _each(self, file: Kept, plan: HostPlan, place: HostPlace, texts: dict[str, str]) -> dict[str, list[Any]]:
        """Return the state of a host, unpacked each time that it is looked at."""
        given = self._payloads, plan, place, texts
        of_host = file.each[place.at] if file.each else {}
        return {
            name: [accumulation.PackedValue(partial(self._read, *given, name, packed))]
            for name, packed in of_host.items()
        }

    def _read(
        self, payloads: Payloads, plan: HostPlan, place: HostPlace, texts: dict[str, str], name: str, packed: Packed
    ) -> Any:
        value = self._unpack(payloads, payloads.read(packed.payload), packed, place.file, texts)
        return value if place.number == place.file + place.at else renumber_kept(plan, name, value, place.number)

    def _merged(self, states: dict[int, Kept], work: Analyses, plan: HostPlan) -> Iterator[HostStates]:
        """Yield what is kept of groups of hosts, which workers merge, and of the last ones."""
        parts = [
            PackedPart(wrap_packed(states[place.file]), 1, None if place.number == place.file else place.number)
            for place in self._places
        ]
        first, texts = 0, dict[str, str]()
        progress = partial(self._report, "combining hosts")
        for part in merge_in_groups(parts, work, self.session.engine, self._payloads, progress):
            places = self._places[first : first + part.hosts]
            first += part.hosts
            merged: HostStates = self._value(part.packed, places[0].file, texts)[0]
            if part.number is not None:
                renumber_host(merged.kept, plan, part.number)
            for place in places:
                file = states.pop(place.file)
                of_host: dict[str, list[Any]] = {}
                if file.alone is not None:
                    of_host = self._value(file.alone, place.file, texts)[0]
                    if place.number != place.file:
                        renumber_host(of_host, plan, place.number)
                for name, values in (of_host | self._each(file, plan, place, texts)).items():
                    merged.kept.setdefault(name, []).extend(values)
            yield merged

    def facts(self) -> SessionFacts:
        assert self._facts is not None, "no host was read"
        return self._facts

    # ---- other work

    @property
    def places(self) -> list[HostPlace]:
        """Facts of the selected hosts, in the order of the session, after they were read."""
        return self._places

    @property
    def run(self) -> str | None:
        return self.session.run

    @property
    def files(self) -> int:
        return len(self.session.files)

    @property
    def progress(self) -> Progress | None:
        return self.session.progress

    def of_each(self, work: HostWork, report: Callable[[int], None]) -> list[Any]:
        """Return what work returns of each host, in the order of ``places``. ``report``: called with how many files are
        done; of those that the session can do without if they are faulty, ``log`` has a row."""
        return [of_host for _, of_host in self._unpacked(self._round(work, self._selection, {}, report))]

    def of_files(
        self,
        works: Mapping[int, tuple[HostWork, Selection]],
        took: Callable[[int, list[Any]], None],
        report: Callable[[int], None],
    ) -> None:
        """Once more, of some files by their numbers, the hosts under the names that the session has for them. ``took``:
        called with each file, and what work returned of its hosts, as it comes; faults as of ``of_each``."""
        session = self.session
        names: dict[int, dict[int, str]] = {}
        for place in self._places:
            names.setdefault(place.file, {})[place.at] = place.name
        tasks = [
            session.task(file, work, selection, names=tuple(name for _, name in sorted(names[file].items())))
            for file, (work, selection) in works.items()
        ]

        def stored(kept: Kept) -> Kept:
            if kept.fault is None:
                took(kept.number, self._value(wrap_packed(kept), kept.number, {}))
            return replace(kept, packed=None)

        states = gather(session.engine, tasks, report, stored)
        self._without_faulty(states, self.log)
        for state in states.values():
            self.log.take(state.log)

    def of_groups(
        self,
        works: Sequence[tuple[FilesWork, Sequence[tuple[int, Selection]]]],
        report: Callable[[int], None],
    ) -> Iterator[Any]:
        """Yield what each work returns of its files, in order, after all are done; names and faults as of
        ``of_files``."""
        session, payloads = self.session, Payloads()
        names: dict[int, dict[int, str]] = {}
        for place in self._places:
            names.setdefault(place.file, {})[place.at] = place.name
        named = {file: tuple(name for _, name in sorted(of_file.items())) for file, of_file in names.items()}
        tasks = []
        for number, (work, files) in enumerate(works):
            of_files = [session.task(file, None, selection, names=named[file]) for file, selection in files]
            tasks.append(FilesTask(VERSIONS, number, work, tuple(of_files)))
        states = gather(
            session.engine, tasks, report, payloads.stored, lambda executor, task: executor.submit(keep_files, task)
        )
        self._without_faulty(states, self.log)
        for number, state in sorted(states.items()):
            self.log.take(state.log)
            packed = wrap_packed(state)
            yield self._unpack(payloads, payloads.take(packed.payload), packed, works[number][1][0][0], {})

    # ---- a round: a task a file

    def _round(
        self,
        work: Analyses | StepsOfHosts | HostWork,
        selection: Selection,
        choices: dict[int, dict[int, Choice]],
        report: Callable[[int], None],
    ) -> dict[int, Kept]:
        """Return what workers keep of each file, packed. ``_places``: of the selected hosts, in the order of the
        session."""
        session = self.session
        begun, session.begun = session.begun, None
        if begun is None or choices or (begun.work, begun.selection) != (work, selection):
            if begun is not None:
                begun.gathering.cancel()
            begun = self._begun(work, selection, choices)
        tasks, payloads = begun.tasks, begun.payloads
        self._payloads = payloads
        states = begun.gathering.run(report)
        places = self._placed(states)
        misnamed = [
            i for i, state in states.items() if any(state.hosts[place.at].host != place.name for place in places[i])
        ]
        if misnamed:  # the second host of a name: what is kept of it has its name
            names = {i: tuple(place.name for place in places[i]) for i in misnamed}
            again = [replace(tasks[i], names=names[i]) for i in misnamed]
            states |= gather(session.engine, again, stored=payloads.stored)
        every = sorted((place for of_file in places.values() for place in of_file), key=lambda place: place.number)
        self._places = [place for place in every if selection.hosts is None or place.name in selection.hosts]
        return states

    def _begun(self, work: Any, selection: Selection, choices: dict[int, dict[int, Choice]]) -> Round:
        session, payloads = self.session, Payloads()
        tasks = [session.task(i, work, selection, choices=choices.get(i)) for i in range(self.files)]
        return Round(work, selection, tasks, Gathering(session.engine, tasks, payloads.stored), payloads)

    def begin(self, plan: HostPlan) -> None:
        """Workers read hosts for this plan if they have nothing else to do; ``kept`` of it takes what they did."""
        work = Analyses(plan.names, plan.given, plan.steps, plan.keepers)
        self.session.begun = self._begun(work, self._selection, {})
        self.session.engine.ahead = self.session.begun.gathering

    def _reporting(self, stage: str) -> Callable[[int], None]:
        return lambda done: self._report(stage, done, self.files)

    def _report(self, stage: str, done: int, total: int) -> None:
        if self.session.progress is not None and total > 1:
            self.session.progress(stage, done, total)

    def _placed(self, states: dict[int, Kept]) -> dict[int, list[HostPlace]]:
        """Return, per file, the places of its hosts, as if all were opened in one process. Logs what opening would.
        Faulty files are taken out of ``states``; if none is left, the last fault is raised."""
        log = ImportLog()
        self._without_faulty(states, log)
        listed = [(i, at) for i in sorted(states) for at in range(len(states[i].hosts))]
        order = order_ranks(((host.rank, host.path) for host in self._hosts(states, listed)), log)
        hosts = [replace(host) for host in self._hosts(states, [listed[place] for place in order])]
        name_hosts(hosts, log)
        note_clocks(hosts, [host.start_unix_ns for host in hosts], log)
        note_jobs([host.host for host in hosts], [host.job for host in hosts], log)
        for i in sorted(states):
            for row in states[i].log:
                log.add(row.severity, row.code, row.example, row.path, row.count, row.first_offset)
        if any(state.forked for state in states.values()):
            log.add("notice", "forked_workers", _FORKED, None)
        self.log.take(log.rows())
        self._selection.check_hosts([host.host for host in hosts])
        wanted = self._selection.hosts
        chosen = [host for host in hosts if wanted is None or host.host in wanted]
        self._facts = SessionFacts(
            frozenset(host.transcribed_from for host in chosen), sum(host.events for host in hosts)
        )
        places: dict[int, list[HostPlace]] = {i: [] for i in states}
        for number, (place, host) in enumerate(zip(order, hosts, strict=True)):
            file, at = listed[place]
            places[file].append(HostPlace(file, at, number, host.host))
        return {file: sorted(some, key=lambda place: place.at) for file, some in places.items()}

    @staticmethod
    def _without_faulty(states: dict[int, Kept], log: ImportLog) -> None:
        """Take faulty files out, with a row of the log each; raises the last fault if no file is left."""
        faults = [state.fault for state in (states.pop(i) for i in sorted(states) if states[i].fault is not None)]
        for fault in faults:
            assert fault is not None
            log.add("error", "skipped_host", fault.message, fault.path, offset=fault.offset)
        if not states:
            raise cast(FastprofError, faults[-1])

    def _hosts(self, states: dict[int, Kept], listed: Sequence[tuple[int, int]]) -> list[HostInFile]:
        return [states[file].hosts[at] for file, at in listed]

    def _unpacked(self, states: dict[int, Kept]) -> Iterator[tuple[HostPlace, Any]]:
        """Yield the states of each host, unpacked when its first host is taken, and forgotten after that."""
        of_file: dict[int, list[Any]] = {}
        texts: dict[str, str] = {}
        for place in self._places:
            if place.file not in of_file:
                state = states.pop(place.file)
                hosts = of_file[place.file] = self._value(wrap_packed(state), place.file, texts)
                if state.alone is not None:
                    for of_host, alone in zip(hosts, self._value(state.alone, place.file, texts), strict=True):
                        if of_host is not None:
                            of_host.kept |= alone
            yield place, of_file[place.file][place.at]
            of_file[place.file][place.at] = None

    def _value(self, packed: Packed, file: int, texts: dict[str, str]) -> Any:
        """Unpacked, with the programs of a file."""
        return self._unpack(self._payloads, self._payloads.take(packed.payload), packed, file, texts)

    def _unpack(self, payloads: Payloads, data: bytes, packed: Packed, file: int, texts: dict[str, str]) -> Any:
        beside = packed.beside if isinstance(packed.beside, bytes) else (payloads.file, packed.beside)
        return unpack(data, packed.raw_bytes, beside, self.log, partial(self._bytes_of_program, file), texts)

    def _bytes_of_program(self, file: int, program_id: int, offset: int) -> bytes:
        """One host is asked for the bytes of a program."""
        task = self.session.task(file, BytesOf(program_id, offset), Selection())
        (kept,) = gather(self.session.engine, [task]).values()
        if kept.fault is not None or kept.packed is None:
            raise kept.fault or EngineError("no worker has the program", path=task.file.path)
        table: bytes = self._value(kept.packed, file, {})
        return table
