"""Which capture files make up what the user named: runs, hosts, files, and what each run is called. No capture is
opened here. Hosts of one run are read together; runs are not.

    resolve(what, run=…)     a file, run directory, log directory, glob, bytes, binary file, a list of those: all of
                             them as one run (resolve_runs keeps runs apart)
    list_runs(logdir)        the runs of a log directory, newest first
    choose_for_times(runs)   runs for time comparisons: second windows replace those with Python functions

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
from fastprof.inputs.directory_content import CaptureDirectory, GraphFiles, leave_out_traces, split_profile
from fastprof.inputs.log_directory import (
    PROFILE,
    WITHOUT_PYTHON,
    Search,
    describe_early_end,
    drop_aliases,
    find_runs,
    is_program,
    is_transient,
    name_ranks,
    pick_run,
    sort_newest_first,
    split_name,
    split_trace,
)
from fastprof.inputs.paths import (
    expand_glob,
    find_parent,
    find_real_path,
    get_mode,
    is_directory,
    is_glob,
    is_link,
    is_present,
    join_path,
    list_entries,
    list_parts,
    make_absent_error,
    make_absolute,
    show_path,
)
from fastprof.inputs.stores.store_path import StorePath, is_url, make_store_path
from fastprof.schema.value_classes import dataclass
from fastprof.wording.amounts import parse_time_of_day
from fastprof.wording.quantities import list_few

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


class LateFiles:
    """The files of a run in a store, listed when they are first needed."""

    def __init__(self, place: CaptureDirectory) -> None:
        self._place = place
        self._files: tuple[CaptureFile, ...] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (self.read(),)

    @property
    def is_read(self) -> bool:
        return self._files is not None

    def expect(self) -> None:
        """Begin to list the files."""
        directory = self._place.directory
        if not self.is_read and isinstance(directory, StorePath):
            directory.store.list_ahead([directory.prefix])

    def read(self) -> tuple[CaptureFile, ...]:
        """Raise UnreadableError if the store cannot be listed."""
        if self._files is None:
            self._files = _read_run(self._place).files
        return self._files


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a log directory: its files, one for each host, by name."""

    name: str
    path: str
    listed: tuple[CaptureFile, ...] | LateFiles

    @property
    def is_unlisted(self) -> bool:
        """Return whether the files are not known yet, but will be listed in the store if they are needed."""
        return isinstance(self.listed, LateFiles) and not self.listed.is_read

    @property
    def files(self) -> tuple[CaptureFile, ...]:
        return self.listed.read() if isinstance(self.listed, LateFiles) else self.listed

    @property
    def hosts(self) -> list[str]:
        """The hosts in the names of files, in the order of the files."""
        return [file.host for file in self.files if file.host is not None]


Named: TypeAlias = Input | Run
"""What a user may name: something to load, or a run of ``list_runs``."""


@dataclass(frozen=True, slots=True)
class SessionRemark:
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
    remarks: tuple[SessionRemark, ...]
    programs: tuple[str, ...] = ()


def resolve(what: Named | Sequence[Named], run: str | None = None, missing_ok: bool = False) -> Session:
    """Return the files that ``what`` stands for, as hosts of one run.

    ``run`` picks a run of a log directory, by its name or by the last part of it where that is unique.
    With ``missing_ok``, an item of a list that cannot be found or listed becomes a remark, unless nothing is
    left. Raises NotFoundError, UnreadableError, UsageError; CaptureError where all there is has a format
    that cannot be read.
    """
    return join_parts(*find_named_parts(what, run, missing_ok))


def find_named_parts(
    what: Named | Sequence[Named], run: str | None, missing_ok: bool
) -> tuple[list[Session], list[FastprofError]]:
    """Return the parts that ``what`` names, the captures of a part in one directory; and what could not be found."""
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
            parts.append(Session(None, (), (SessionRemark("error", code, fault.message, fault.path),)))
    if run is not None and not faults and all(part.run is None for part in parts):
        raise UsageError(f"run={run!r} chooses a run of a log directory, but no directory is given")
    return parts, faults


def list_runs(logdir: str | os.PathLike[str], since: str | date | None = None) -> list[Run]:
    """Return the runs below a directory, newest first; a run directory is one run. ``since``: those captured then or
    later.

    Raises NotFoundError where there are none at all, UnreadableError; UsageError if ``logdir`` is not a directory, or
    ``since`` is not a time.
    """
    try:
        oldest = () if since is None else parse_time_of_day(since)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not isinstance(logdir, (str, os.PathLike)):
        raise UsageError(f"runs() takes the path of a log directory, not {type(logdir).__name__}")
    path = format_path(logdir)
    mode = get_mode(path)
    if mode is None:
        raise make_absent_error(path)
    if not stat.S_ISDIR(mode):
        raise UsageError("is a file; runs can be listed only for a log directory", path=show_path(path))
    places = sort_newest_first(drop_aliases(find_runs(path).runs))
    if not any(place.is_full for place in places):
        only = ", only compiled programs, which load() reads" if _read_run(places[0]).programs else ""
        raise NotFoundError(f"no captures{only}", path=show_path(path))
    wanted = sort_newest_first(places, oldest) if oldest else places
    full = [place for place in wanted if place.is_full]
    return [
        Run(place.name, place.path, LateFiles(place) if place.is_unlisted else _read_run(place).files) for place in full
    ]


def choose_for_times(runs: Iterable[Run]) -> list[Run]:
    """Return the runs for time comparisons. A second window without Python functions replaces the first one."""
    every = list(runs)
    named = {run.name: run for run in every}
    second = {f"{name}{WITHOUT_PYTHON}" for name in named} & set(named)
    return [named.get(f"{run.name}{WITHOUT_PYTHON}", run) for run in every if run.name not in second]


def list_ahead(runs: Iterable[Run]) -> None:
    """Begin to list the files of runs in stores, side by side."""
    for run in runs:
        if isinstance(run.listed, LateFiles):
            run.listed.expect()


def find_other_run(path: str, fault: str | None) -> tuple[str, int, str] | None:
    """Return the newest run of a log directory if the file ``fault`` is in it, the number of runs, and the next newest.
    None: the fault lies elsewhere, or there are no other runs."""
    try:
        runs = list_runs(path)
    except FastprofError:
        return None
    if len(runs) < 2 or fault is None or Path(runs[0].path) not in Path(fault).parents:
        return None
    return runs[0].name, len(runs), runs[1].name


def _resolve_item(item: object, run: str | None) -> list[Session]:
    if isinstance(item, Run):
        # The directory is named as the system has it: ``item.path`` is text to show.
        first = item.files[0].source if item.files else None
        folder = find_parent(first) if isinstance(first, str) else item.path
        parts = [_find_run_part(part, item.name) for part in _resolve_path(folder, run)]
        read = {file.path for part in parts for file in part.files}
        own = [file for file in item.files if file.path not in read and is_present(file.source)]
        return [Session(item.name, item.files, ())] if own else parts  # ranks, or one of several profiles
    if isinstance(item, (str, os.PathLike)):
        return _resolve_path(format_path(item), run)
    if isinstance(item, (bytes, bytearray, memoryview)):
        return [_make_file_session(None, "<bytes>", item)]
    if isinstance(item, io.TextIOBase):
        message = 'the file is open as text; open it as binary: open(path, "rb")'
        raise UsageError(message, path=_get_stream_name(item))
    if isinstance(item, GraphFiles):
        return [_make_file_session(_find_host(Path(item.name).name), show_path(item.name), item)]
    if callable(getattr(item, "read", None)):
        stream: Any = item  # anything with .read(n) will do
        return [_make_file_session(None, _get_stream_name(stream), stream)]
    advice = ""
    if isinstance(item, (list, tuple)):
        advice = "; nested lists are not accepted, give one flat list"
    elif isinstance(item, Iterable):
        advice = "; give several captures as a list"
    expected = "a path, bytes, a binary file object or a list of them"
    raise UsageError(f"cannot load {type(item).__name__}: expected {expected}{advice}")


def _find_run_part(part: Session, name: str) -> Session:
    """Rename a part as ``list_runs`` names its run."""
    return replace(part, run=name, files=tuple(replace(file, run=name) for file in part.files))


def format_path(path: str | os.PathLike[Any]) -> str:
    text = os.fsdecode(path)
    if not text:
        raise UsageError("the path is empty; give a capture, a run directory or a log directory")
    return make_store_path(text) if is_url(text) and not isinstance(text, StorePath) else text


def _get_stream_name(stream: object) -> str:
    name = getattr(stream, "name", None)  # a number where the stream was made from a descriptor
    return show_path(os.fsdecode(name)) if isinstance(name, (str, bytes)) and name else "<stream>"


def _make_file_session(host: str | None, path: str, source: Input) -> Session:
    return Session(None, (CaptureFile(host, path, source),), ())


def _resolve_path(path: str, run: str | None) -> list[Session]:
    mode = get_mode(path)
    if mode is None:
        if is_glob(path) and not is_link(path):
            return _resolve_glob(path, run)
        raise make_absent_error(path)
    if stat.S_ISDIR(mode):
        return [_resolve_directory(path, run)]
    name = Path(path).name
    if is_program(name):
        return [Session(None, (), (), (make_absolute(path),))]
    split = split_name(name)
    host = split[0] if split else _find_host(name)
    pipe = not stat.S_ISREG(mode)
    if pipe and not split:
        host = ""  # /dev/fd/63 is the name of no host
    return [Session(None, (CaptureFile(show_path(host) or None, show_path(path), make_absolute(path), pipe=pipe),), ())]


def _find_host(name: str) -> str:
    """Return the host that a file of another name is of; torch's handler writes HOST_PID.TIME.pt.trace.json."""
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
        return _read_run(pick_run(search.runs, run, path))
    places = sort_newest_first(drop_aliases(search.runs))
    full = [place for place in places if place.is_full]
    while full and not full[0].listed().is_full:  # what is full may be unknown until it is listed
        del full[0]
    if not full:
        return _read_run(places[0])
    chosen = search.top if search.top.is_full else full[0]
    session = _read_run(chosen)
    return replace(session, remarks=(*_describe_choice(chosen, full, search), *session.remarks))


def _describe_choice(chosen: CaptureDirectory, full: list[CaptureDirectory], search: Search) -> list[SessionRemark]:
    """Remarks on a run that was not requested by name. ``full``: the runs that can be read."""
    remarks: list[SessionRemark] = []
    others = [place.name for place in full if place is not chosen]
    if others:
        code = "runs_below" if chosen is search.top else "newest_run"
        which = "in this directory" if chosen is search.top else f"the newest of {len(full)}"
        left = f"{len(others)} other run{'s' if len(others) > 1 else ''}"
        advice = f"choose with run=NAME, or --run NAME: {list_few(others)}"
        text = f"read the run {chosen.name}, {which}; left out {left}; {advice}"
        remarks.append(SessionRemark("info", code, text, chosen.path))
    second = f"{chosen.name}{WITHOUT_PYTHON}"
    is_local = not is_url(str(chosen.path))  # in a store, listed names are enough
    if second in others or (is_local and is_directory(f"{chosen.path}{WITHOUT_PYTHON}")):
        text = f"the second window of {chosen.name}, without Python functions: use it for step times and rates"
        remarks.append(SessionRemark("info", "second_window", text, f"{chosen.path}{WITHOUT_PYTHON}"))
    if search.deeper:
        text = f"there are captures deeper, in directories that are not runs of this one: {list_few(search.deeper)}"
        remarks.append(SessionRemark("info", "captures_deeper", text, search.top.path))
    if search.unlisted:
        remarks.append(SessionRemark("notice", "search_ended", describe_early_end(search), search.top.path))
    if search.refused:
        text = f"directories that the system refused to list: {list_few(search.refused)}"
        remarks.append(SessionRemark("notice", "unreadable_directory", text, search.top.path))
    return remarks


def _read_run(place: CaptureDirectory) -> Session:
    """Return the files of a directory, one for each host."""
    place.listed()
    if place.graph is not None:
        graph_host = _find_host(Path(place.graph.graph).name)
        graph_file = CaptureFile(show_path(graph_host), show_path(place.graph.graph), place.graph, place.name or None)
        return Session(place.name or None, (graph_file,), tuple(_list_timelines(place)))
    if not place.captures and place.traces:
        return _read_traces(place)
    best: dict[str, tuple[int, str]] = {}
    hosts = {name: split_name(name) or ("", 0) for name in place.captures}
    folder = make_absolute(place.directory)
    programs = tuple(join_path(folder, name) for name in place.programs)
    for name, (host, rank) in hosts.items():
        best[host] = min(best.get(host, (rank, name)), (rank, name))
    files: list[CaptureFile] = []
    remarks: list[SessionRemark] = []
    for name, (host, _) in hosts.items():
        full = join_path(place.directory, name)
        first = best[host][1]
        if name == first:
            known_host, run = show_path(host) or None, place.name or None
            files.append(CaptureFile(known_host, show_path(full), join_path(folder, name), run, programs))
        else:
            is_copy = not first.endswith(".riegeli")
            text = (
                f"not read, because it is a compressed copy of {show_path(first)}"
                if is_copy
                else (f"not read, because {show_path(first)} is of the same host and session")
            )
            remarks.append(
                SessionRemark("notice", "compressed_copy" if is_copy else "same_session", text, show_path(full))
            )
    for name in place.traces:
        text = "not read: a trace of the session, whose captures are read"
        remarks.append(SessionRemark("info", "same_session", text, show_path(join_path(place.directory, name))))
    return Session(place.name or None, tuple(files), tuple(remarks), () if files else programs)


def _read_traces(place: CaptureDirectory) -> Session:
    """Return the traces of a directory without captures: of each worker the newest."""
    workers = {name: split_trace(name) or split_profile(name) or (_find_host(name), 0) for name in place.traces}
    left = leave_out_traces(place.directory, workers)
    hosts = name_ranks({name: host for name, (host, _) in workers.items() if name not in left})
    files: list[CaptureFile] = []
    remarks: list[SessionRemark] = []
    for name in workers:
        full = show_path(join_path(place.directory, name))
        if name in left:
            remarks.append(SessionRemark("notice", *left[name], full))
        else:
            source = join_path(make_absolute(place.directory), name)
            files.append(CaptureFile(show_path(hosts[name]) or None, full, source, place.name or None))
    return Session(place.name or None, tuple(files), (*remarks, *_list_timelines(place)))


def _list_timelines(place: CaptureDirectory) -> list[SessionRemark]:
    """Remarks on timelines that are not read."""
    return [
        SessionRemark(
            "info",
            "same_session",
            f"not read, because {show_path(other)} has its step",
            show_path(join_path(place.directory, name)),
        )
        for name, other in place.known.items()
    ]


def _resolve_glob(pattern: str, run: str | None) -> list[Session]:
    """Return the captures matched; without any, the run directories, else log directories, else any files."""
    matches = expand_glob(pattern)
    directories = dict.fromkeys(path for path in matches if is_directory(path))
    groups: dict[str, CaptureDirectory] = {}
    for path in matches:
        name, parent = Path(path).name, find_parent(path)
        if is_transient(name) or not split_name(name) or path in directories:
            continue
        groups.setdefault(parent, CaptureDirectory(parent, show_path(parent))).captures.append(name)
    parts = [_read_run(place) for place in groups.values()]
    programs = tuple(make_absolute(path) for path in matches if is_program(Path(path).name, beside=True))
    if parts and programs:
        parts.append(Session(None, (), (), programs))
    if parts and (not directories or any(part.files for part in parts)):
        return parts
    if matches and not directories:
        return [part for path in matches for part in _resolve_path(path, None)]
    faults: list[NotFoundError | UnreadableError] = []
    for path in [path for path in directories if _has_captures(path)] or directories:
        try:
            parts.append(_resolve_directory(path, run))
        except (NotFoundError, UnreadableError) as fault:
            faults.append(fault)
    if not parts:
        if len(faults) == 1:
            raise faults[0]
        looked = f"{len(matches)} paths match, but none has captures" if matches else "no path matches"
        wanted = f" of a run {run!r}" if matches and run is not None else ""
        raise NotFoundError(f"{looked}{wanted}; ** means directories at any depth", path=show_path(pattern))
    return parts


def _has_captures(directory: str) -> bool:
    try:
        return any(split_name(entry.name) and not is_transient(entry.name) for entry in list_entries(directory))
    except OSError:
        return False


def join_parts(parts: list[Session], faults: list[FastprofError]) -> Session:
    """One session of several parts: a file counts once, and no two files have the same host."""
    files: list[CaptureFile] = []
    remarks: list[SessionRemark] = []
    seen: set[object] = set()
    for part in parts:
        remarks += part.remarks
        # Hosts of one run directory may be links to one file, and are hosts of their own all the same.
        keys = [_identify_file(file) if len(parts) > 1 else None for file in part.files]
        for file, key in zip(part.files, keys, strict=True):
            if key in seen:
                remarks.append(SessionRemark("info", "duplicate_file", "given more than once, read once", file.path))
            else:
                files.append(file)
        seen.update(keys)
    programs = tuple(dict.fromkeys(program for part in parts for program in part.programs))
    if programs:  # they go with each of the captures; without any they make up one of their own
        if not files:
            path = programs[0] if len(programs) == 1 else find_parent(programs[0])
            files = [CaptureFile(None, show_path(path), ONLY_PROGRAMS, None, programs)]
        else:
            files = [replace(file, programs=tuple(dict.fromkeys((*file.programs, *programs)))) for file in files]
    if not files and faults:
        others = f"; {len(faults) - 1} others failed too" if len(faults) > 1 else ""
        raise type(faults[0])(faults[0].message + others, path=faults[0].path)
    if not files:
        raise NotFoundError("no captures", path=remarks[0].path if remarks else None)
    folders = list(dict.fromkeys(show_path(find_parent(file.source)) for file in files if isinstance(file.source, str)))
    if len(folders) > 1:  # they may be of several runs
        folder_names = list(dict.fromkeys(Path(folder).name for folder in folders))
        listed = list_few(folder_names if len(folder_names) == len(folders) else folders)
        text = f"captures of {len(folders)} directories are read as hosts of one run: {listed}"
        remarks += [SessionRemark("info", "several_runs", text, None)]
    names = {part.run for part in parts if part.files}
    run = names.pop() if len(names) == 1 else None
    return Session(run, _number_hosts(files, remarks), tuple(remarks))


def _identify_file(file: CaptureFile) -> object:
    return find_real_path(file.source) if isinstance(file.source, str) else id(file.source)


def _number_hosts(files: list[CaptureFile], remarks: list[SessionRemark]) -> tuple[CaptureFile, ...]:
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
            remarks.append(SessionRemark("notice", "duplicate_host", text, file.path))
            file = replace(file, host=name)
        elif host is not None:
            last[host] = 1
        distinct.append(file)
    return tuple(distinct)


_ADVICE = "name its directory, or read everything as hosts of one run with as_hosts=True (--as-hosts)"


def resolve_runs(
    what: Named | Sequence[Named],
    runs: str | Sequence[str] | None = None,
    *,
    missing_ok: bool = False,
    as_hosts: bool = False,
) -> dict[str, Session]:
    """Return the runs that ``what`` names, by name, in the order in which they are named.

    ``runs``: names of runs of a log directory; else, and for ``missing_ok``: as ``resolve`` takes them. A single run
    without a name is called "". ``as_hosts``: read all captures as hosts of one run. Raises as ``resolve`` does;
    UsageError if a capture beside several runs belongs to none.
    """
    names: Sequence[str | None] = [runs] if runs is None or isinstance(runs, str) else list(dict.fromkeys(runs))
    if not names:
        raise UsageError("the list of runs is empty; give at least one name, or omit it for the newest")
    parts: list[Session] = []
    faults: list[FastprofError] = []
    for name in names:
        more, failed = find_named_parts(what, name, missing_ok)
        parts += more
        faults += failed
    several = not as_hosts and sum(bool(part.files) for part in parts) > 1
    groups = _group_by_directory(parts) if several else {}
    if len(groups) < 2:
        session = join_parts(parts, faults)
        return {session.run or "": session}
    of_all = [part for part in parts if not part.files and part.programs]
    remarks = [part for part in parts if not part.files and not part.programs]
    sessions: dict[str, Session] = {}
    for name, group in zip(_make_distinct_names(groups), groups.values(), strict=True):
        session = join_parts([*remarks, *group, *of_all], [])
        sessions[name] = replace(session, run=name, files=tuple(replace(file, run=name) for file in session.files))
        remarks = []  # missing item is reported once
    return sessions


def _group_by_directory(parts: Iterable[Session]) -> dict[str, list[Session]]:
    """Return the parts with captures, by the directory of their run. UsageError: some belong to none, others to
    several."""
    groups: dict[str, list[Session]] = {}
    of_no_run: list[str] = []
    for part in parts:
        if not part.files:
            continue
        source = part.files[0].source
        folder = find_parent(os.fsdecode(source)) if isinstance(source, (str, os.PathLike)) else None
        if folder is None or (part.run is None and list_parts(folder)[-3:-1] != PROFILE):
            of_no_run.append(part.files[0].path)
        else:
            groups.setdefault(find_real_path(folder), []).append(part)
    if len(groups) > 1 and of_no_run:
        raise UsageError(f"of {len(groups)} runs, none is the directory of {list_few(of_no_run)}; {_ADVICE}")
    return groups


def _make_distinct_names(groups: dict[str, list[Session]]) -> list[str]:
    """Return the names of the runs; equal ones with as many directories above them as make them differ: A/RUN,
    B/RUN."""
    folders = [find_parent(os.fsdecode(group[0].files[0].source)) for group in groups.values()]
    paths = [list_parts(folder) for folder in folders]
    names = [group[0].run or show_path(parts[-1]) for group, parts in zip(groups.values(), paths, strict=True)]
    longest = max(map(len, paths))
    for length in range(2, longest + 1):
        repeated = {name for name in names if names.count(name) > 1}
        if not repeated:
            return names
        names = [
            _get_tail(parts, length) if name in repeated else name for name, parts in zip(names, paths, strict=True)
        ]
    return names if len(set(names)) == len(names) else [show_path(folder) for folder in folders]


def _get_tail(parts: tuple[str, ...], length: int) -> str:
    """Return the last parts of the path without plugins/profile: train/RUN for train/plugins/profile/RUN."""
    if parts[-3:-1] == PROFILE:
        parts = (*parts[:-3], parts[-1])
    return show_path("/".join(parts[-length:]))
