"""Which capture files make up what the user named: runs, hosts, files. No capture is opened here.

    resolve(what, run=…)     a file, run directory, log directory, glob, bytes, binary file, a list of those: all of
                             them as one run (several_runs.py keeps runs apart)
    runs(logdir)             the runs of a log directory, newest first

Paths and hosts are text fit for UTF-8, for tables and messages; ``source`` is what to open.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from fastprof.errors import FastprofError, NotFoundError, UnreadableError, UsageError
from fastprof.inputs.chosen_traces import leave_out_traces
from fastprof.inputs.directory_content import Place, split_profile
from fastprof.inputs.graph_files import GraphFiles
from fastprof.inputs.log_directory import (
    Search,
    ended,
    find_runs,
    is_program,
    is_transient,
    newest_first,
    pick,
    split_name,
    split_trace,
    without_aliases,
)
from fastprof.inputs.paths import absent, absolute, below, expand, is_directory, is_glob, is_link, mode_of, shown
from fastprof.inputs.rank_directories import name_ranks
from fastprof.schema.value_classes import dataclass
from fastprof.wording.moments import moment_of
from fastprof.wording.quantities import few

Input: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | GraphFiles
"""One thing that can be loaded; a list or tuple of them is a session too."""


ONLY_PROGRAMS = b"\x0a\x10\x12\x0e/host:metadata"
"""The capture that stands for programs without one: an XSpace with the plane that would hold them."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """One capture. ``host`` is None where no file name contains it: the capture's own hostnames may. ``run`` is the run
    of a log directory that it was found in. ``programs``: files of compiled programs that go with it, to be opened.
    ``pipe``: the user named a pipe or a device, which can be read once. ``before_planes``: what stands before the names
    of its planes, as the file has those of several hosts; then ``source`` is the part of it that has been opened."""

    host: str | None
    path: str
    source: Any
    run: str | None = None
    programs: tuple[str, ...] = ()
    pipe: bool = False
    before_planes: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a log directory: its files, one for each host, by name."""

    name: str
    path: str
    files: tuple[CaptureFile, ...]

    @property
    def hosts(self) -> list[str]:
        """The hosts in the names of files, in the order of the files."""
        return [file.host for file in self.files if file.host is not None]


Named: TypeAlias = Input | Run
"""What a user may name: something to load, or a run of ``runs``."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What was chosen or left out, as a row of import_log says it."""

    severity: str
    code: str
    message: str
    path: str | None


@dataclass(frozen=True, slots=True)
class Session:
    """The files to read together. ``run`` is None unless all come from runs of that name. ``programs``: files of
    compiled programs that go with all of them."""

    run: str | None
    files: tuple[CaptureFile, ...]
    remarks: tuple[Remark, ...]
    programs: tuple[str, ...] = ()


def resolve(what: Named | Sequence[Named], run: str | None = None, missing_ok: bool = False) -> Session:
    """The files that ``what`` stands for, as hosts of one run.

    ``run`` picks a run of a log directory, by its name or by the last part of it where that is unique.
    With ``missing_ok``, an item of a list that cannot be found or listed becomes a remark, unless nothing is
    left. Raises NotFoundError, UnreadableError, UsageError; CaptureError where all there is has a format
    that cannot be read.
    """
    return as_one(*named_parts(what, run, missing_ok))


def named_parts(
    what: Named | Sequence[Named], run: str | None, missing_ok: bool
) -> tuple[list[Session], list[FastprofError]]:
    """The parts that ``what`` names, the captures of a part in one directory; and what could not be found."""
    if run is not None and not run:
        raise UsageError("run is empty; give the name of a run, or omit it for the newest")
    listed = isinstance(what, (list, tuple))
    items = what if isinstance(what, (list, tuple)) else (what,)
    if not items:
        raise UsageError("the list of captures is empty; give at least one file or directory")
    parts: list[Session] = []
    faults: list[FastprofError] = []
    for item in items:
        try:
            parts += _resolve_item(item, run)
        except (NotFoundError, UnreadableError) as fault:
            if not (listed and missing_ok):
                raise
            faults.append(fault)
            code = "missing" if isinstance(fault, NotFoundError) else "unreadable"
            parts.append(Session(None, (), (Remark("error", code, fault.message, fault.path),)))
    if run is not None and not faults and all(part.run is None for part in parts):
        raise UsageError(f"run={run!r} chooses a run of a log directory, but no directory is given")
    return parts, faults


def runs(logdir: str | os.PathLike[str], since: str | date | None = None) -> list[Run]:
    """The runs below a directory, newest first; a run directory is one run. ``since``: those captured then or later.

    Raises NotFoundError where there are none at all, UnreadableError; UsageError if ``logdir`` is not a directory, or
    ``since`` is not a time.
    """
    try:
        oldest = () if since is None else moment_of(since)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not isinstance(logdir, (str, os.PathLike)):
        raise UsageError(f"runs() takes the path of a log directory, not {type(logdir).__name__}")
    path = _text_of(logdir)
    mode = mode_of(path)
    if mode is None:
        raise absent(path)
    if not stat.S_ISDIR(mode):
        raise UsageError("is a file; runs can be listed only for a log directory", path=shown(path))
    places = newest_first(without_aliases(find_runs(path).runs))
    if not any(place.is_full for place in places):
        raise _no_captures(_read_run(places[0]), path)
    wanted = newest_first(places, oldest) if oldest else places
    return [Run(place.name, place.path, _read_run(place).files) for place in wanted if place.is_full]


def other_run(path: str, fault: str | None) -> tuple[str, int, str] | None:
    """Of a log directory whose newest run has a fault in the file ``fault``: that run, how many there are, and the next
    newest. None: it lies elsewhere, or there are no others."""
    try:
        found = runs(path)
    except FastprofError:
        return None
    if len(found) < 2 or fault is None or Path(found[0].path) not in Path(fault).parents:
        return None
    return found[0].name, len(found), found[1].name


def _resolve_item(item: object, run: str | None) -> list[Session]:
    if isinstance(item, Run):
        parts = [_of_run(part, item.name) for part in _resolve_path(_folder_of(item), run)]
        read = {file.path for part in parts for file in part.files}
        own = [file for file in item.files if file.path not in read and os.path.lexists(file.path)]
        return [Session(item.name, item.files, ())] if own else parts  # ranks, or one of several profiles
    if isinstance(item, (str, os.PathLike)):
        return _resolve_path(_text_of(item), run)
    if isinstance(item, (bytes, bytearray, memoryview)):
        return [_one_file(None, "<bytes>", item)]
    if isinstance(item, io.TextIOBase):
        message = 'the file is open as text; open it as binary: open(path, "rb")'
        raise UsageError(message, path=_stream_name(item))
    if isinstance(item, GraphFiles):
        return [_one_file(_host_of(Path(item.name).name), shown(item.name), item)]
    if callable(getattr(item, "read", None)):
        stream: Any = item  # anything with .read(n) will do
        return [_one_file(None, _stream_name(stream), stream)]
    advice = ""
    if isinstance(item, (list, tuple)):
        advice = "; nested lists are not accepted, give one flat list"
    elif isinstance(item, Iterable):
        advice = "; give several captures as a list"
    expected = "a path, bytes, a binary file object or a list of them"
    raise UsageError(f"cannot load {type(item).__name__}: expected {expected}{advice}")


def _of_run(part: Session, name: str) -> Session:
    """The part under the name that ``runs`` gave to the run."""
    return replace(part, run=name, files=tuple(replace(file, run=name) for file in part.files))


def _folder_of(run: Run) -> str:
    """Its directory as the system has it: ``run.path`` is text to show."""
    first = run.files[0].source if run.files else None
    return str(Path(first).parent) if isinstance(first, str) else run.path


def _text_of(path: str | os.PathLike[Any]) -> str:
    text = os.fsdecode(path)
    if not text:
        raise UsageError("the path is empty; give a capture, a run directory or a log directory")
    return text


def _stream_name(stream: object) -> str:
    name = getattr(stream, "name", None)  # a number where the stream was made from a descriptor
    return shown(os.fsdecode(name)) if isinstance(name, (str, bytes)) and name else "<stream>"


def _one_file(host: str | None, path: str, source: Input) -> Session:
    return Session(None, (CaptureFile(host, path, source),), ())


def _resolve_path(path: str, run: str | None) -> list[Session]:
    mode = mode_of(path)
    if mode is None:
        if is_glob(path) and not is_link(path):
            return _resolve_glob(path, run)
        raise absent(path)
    if stat.S_ISDIR(mode):
        return [_resolve_directory(path, run)]
    name = Path(path).name
    if is_program(name):
        return [Session(None, (), (), (absolute(path),))]
    split = split_name(name)
    host = split[0] if split else _host_of(name)
    pipe = not stat.S_ISREG(mode)
    if pipe and not split:
        host = ""  # /dev/fd/63 is the name of no host
    return [Session(None, (CaptureFile(shown(host) or None, shown(path), absolute(path), pipe=pipe),), ())]


def _host_of(name: str) -> str:
    """The host that a file of another name is of; torch's handler writes HOST_PID.TIME.pt.trace.json."""
    name = name.removesuffix(".gz").removesuffix(".zst").removesuffix(".pb")
    plain = name.removesuffix(".json").removesuffix(".trace")
    if not plain.endswith(".pt") or plain == name:
        return plain
    plain = plain.removesuffix(".pt")
    worker, _, span = plain.rpartition(".")
    return worker if worker and span.isdecimal() else plain


def _resolve_directory(path: str, run: str | None) -> Session:
    search = find_runs(path, run)
    if run is not None:
        return _read_run(pick(search.runs, run, path))
    places = newest_first(without_aliases(search.runs))
    full = [place for place in places if place.is_full]
    if not full:
        return _read_run(places[0])
    chosen = search.top if search.top.is_full else full[0]
    session = _read_run(chosen)
    return replace(session, remarks=(*_choice(chosen, full, search), *session.remarks))


def _choice(chosen: Place, full: list[Place], search: Search) -> list[Remark]:
    """Remarks on a run that was not requested by name. ``full``: the runs that can be read."""
    remarks: list[Remark] = []
    others = [place.name for place in full if place is not chosen]
    if others:
        code = "runs_below" if chosen is search.top else "newest_run"
        which = "in this directory" if chosen is search.top else f"the newest of {len(full)}"
        left = f"{len(others)} other run{'s' if len(others) > 1 else ''}"
        advice = f"choose with run=NAME, or --run NAME: {few(others)}"
        text = f"read the run {chosen.name}, {which}; left out {left}; {advice}"
        remarks.append(Remark("info", code, text, chosen.path))
    if search.deeper:
        text = f"there are captures deeper, in directories that are not runs of this one: {few(search.deeper)}"
        remarks.append(Remark("info", "captures_deeper", text, search.top.path))
    if search.unlisted:
        remarks.append(Remark("notice", "search_ended", ended(search), search.top.path))
    if search.refused:
        text = f"directories that the system refused to list: {few(search.refused)}"
        remarks.append(Remark("notice", "unreadable_directory", text, search.top.path))
    return remarks


def _read_run(place: Place) -> Session:
    """The files of a directory, one for each host."""
    if place.graph is not None:
        return _read_graph(place, place.graph)
    if not place.captures and place.traces:
        return _read_traces(place)
    best: dict[str, tuple[int, str]] = {}
    hosts = {name: split_name(name) or ("", 0) for name in place.captures}
    folder = absolute(place.directory)
    programs = tuple(below(folder, name) for name in place.programs)
    for name, (host, rank) in hosts.items():
        best[host] = min(best.get(host, (rank, name)), (rank, name))
    files: list[CaptureFile] = []
    remarks: list[Remark] = []
    for name, (host, _) in hosts.items():
        full = below(place.directory, name)
        first = best[host][1]
        if name == first:
            known_host, run = shown(host) or None, place.name or None
            files.append(CaptureFile(known_host, shown(full), below(folder, name), run, programs))
        else:
            is_copy = not first.endswith(".riegeli")
            text = (
                f"not read, because it is a compressed copy of {shown(first)}"
                if is_copy
                else (f"not read, because {shown(first)} is of the same host and session")
            )
            remarks.append(Remark("notice", "compressed_copy" if is_copy else "same_session", text, shown(full)))
    for name in place.traces:
        text = "not read: a trace of the session, whose captures are read"
        remarks.append(Remark("info", "same_session", text, shown(below(place.directory, name))))
    return Session(place.name or None, tuple(files), tuple(remarks), () if files else programs)


def _read_traces(place: Place) -> Session:
    """The traces of a directory without captures: of each worker the newest."""
    workers = {name: _worker_of(name) for name in place.traces}
    left = leave_out_traces(place.directory, workers)
    hosts = name_ranks({name: host for name, (host, _) in workers.items() if name not in left})
    files: list[CaptureFile] = []
    remarks: list[Remark] = []
    for name in workers:
        full = shown(below(place.directory, name))
        if name in left:
            remarks.append(Remark("notice", *left[name], full))
        else:
            source = below(absolute(place.directory), name)
            files.append(CaptureFile(shown(hosts[name]) or None, full, source, place.name or None))
    return Session(place.name or None, tuple(files), (*remarks, *_known(place)))


def _known(place: Place) -> list[Remark]:
    """Remarks on timelines that are not read."""
    return [
        Remark(
            "info",
            "same_session",
            f"not read, because {shown(other)} has its step",
            shown(below(place.directory, name)),
        )
        for name, other in place.known.items()
    ]


def _read_graph(place: Place, graph: GraphFiles) -> Session:
    """A graph and its runs are one file."""
    host = _host_of(Path(graph.graph).name)
    file = CaptureFile(shown(host), shown(graph.graph), graph, place.name or None)
    return Session(place.name or None, (file,), tuple(_known(place)))


def _worker_of(name: str) -> tuple[str, int]:
    """Whose trace it is, and its span."""
    return split_trace(name) or split_profile(name) or (_host_of(name), 0)


def _no_captures(session: Session, path: str) -> FastprofError:
    """Of a directory without captures that can be read."""
    if session.programs:
        return NotFoundError("no captures, only compiled programs, which load() reads", path=shown(path))
    return NotFoundError("no captures", path=shown(path))


def _resolve_glob(pattern: str, run: str | None) -> list[Session]:
    """The captures matched; without any, the run directories, else log directories, else any files."""
    matches = expand(pattern)
    directories = dict.fromkeys(path for path in matches if is_directory(path))
    groups: dict[Path, Place] = {}
    for path in matches:
        if is_transient(path.name) or not split_name(path.name) or path in directories:
            continue
        place = groups.setdefault(path.parent, Place(str(path.parent), shown(str(path.parent))))
        place.captures.append(path.name)
    parts = [_read_run(place) for place in groups.values()]
    programs = tuple(absolute(str(path)) for path in matches if is_program(path.name, beside=True))
    if parts and programs:
        parts.append(Session(None, (), (), programs))
    if parts and (not directories or any(part.files for part in parts)):
        return parts
    if matches and not directories:
        return [part for path in matches for part in _resolve_path(str(path), None)]
    faults: list[NotFoundError | UnreadableError] = []
    for path in [path for path in directories if _holds_captures(path)] or directories:
        try:
            parts.append(_resolve_directory(str(path), run))
        except (NotFoundError, UnreadableError) as fault:
            faults.append(fault)
    if not parts:
        if len(faults) == 1:
            raise faults[0]
        looked = f"{len(matches)} paths match, but none has captures" if matches else "no path matches"
        wanted = f" of a run {run!r}" if matches and run is not None else ""
        raise NotFoundError(f"{looked}{wanted}; ** means directories at any depth", path=shown(pattern))
    return parts


def _holds_captures(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return any(split_name(entry.name) and not is_transient(entry.name) for entry in entries)
    except OSError:
        return False


def as_one(parts: list[Session], faults: list[FastprofError]) -> Session:
    """One session of several parts: a file counts once, and no two files have the same host."""
    files: list[CaptureFile] = []
    remarks: list[Remark] = []
    seen: set[object] = set()
    for part in parts:
        remarks += part.remarks
        # Hosts of one run directory may be links to one file, and are hosts of their own all the same.
        keys = [_identity(file) if len(parts) > 1 else None for file in part.files]
        for file, key in zip(part.files, keys, strict=True):
            if key in seen:
                remarks.append(Remark("info", "duplicate_file", "given more than once, read once", file.path))
            else:
                files.append(file)
        seen.update(keys)
    programs = tuple(dict.fromkeys(program for part in parts for program in part.programs))
    files = _with_programs(files, programs)
    if not files and faults:
        others = f"; {len(faults) - 1} others failed too" if len(faults) > 1 else ""
        raise type(faults[0])(faults[0].message + others, path=faults[0].path)
    if not files:
        raise NotFoundError("no captures", path=remarks[0].path if remarks else None)
    remarks += _several_runs(files)
    names = {part.run for part in parts if part.files}
    run = names.pop() if len(names) == 1 else None
    return Session(run, _distinct_hosts(files, remarks), tuple(remarks))


def _with_programs(files: list[CaptureFile], programs: tuple[str, ...]) -> list[CaptureFile]:
    """Programs that were named go with each of the captures; without any they make up one of their own."""
    if not programs:
        return files
    if not files:
        path = programs[0] if len(programs) == 1 else str(Path(programs[0]).parent)
        return [CaptureFile(None, shown(path), ONLY_PROGRAMS, None, programs)]
    return [replace(file, programs=tuple(dict.fromkeys((*file.programs, *programs)))) for file in files]


def _several_runs(files: list[CaptureFile]) -> list[Remark]:
    """Captures of several directories may be of several runs."""
    folders = list(dict.fromkeys(str(Path(file.path).parent) for file in files if isinstance(file.source, str)))
    if len(folders) < 2:
        return []
    names = list(dict.fromkeys(Path(folder).name for folder in folders))
    listed = few(names if len(names) == len(folders) else folders)
    text = f"captures of {len(folders)} directories are read as hosts of one run: {listed}"
    return [Remark("info", "several_runs", text, None)]


def _identity(file: CaptureFile) -> object:
    return os.path.realpath(file.source) if isinstance(file.source, str) else id(file.source)


def _distinct_hosts(files: list[CaptureFile], remarks: list[Remark]) -> tuple[CaptureFile, ...]:
    """Number the second and later files of a host: vm, vm#2, vm#3."""
    taken = {file.host for file in files}
    last: dict[str, int] = {}
    distinct: list[CaptureFile] = []
    for file in files:
        host = file.host
        if host is not None and host in last:
            name = host
            while name in taken:
                last[host] += 1
                name = f"{host}#{last[host]}"
            taken.add(name)
            text = f"a second capture of host {host}; tables call it {name}"
            remarks.append(Remark("notice", "duplicate_host", text, file.path))
            file = replace(file, host=name)
        elif host is not None:
            last[host] = 1
        distinct.append(file)
    return tuple(distinct)
