"""Where the runs of a log directory lie: ``plugins/profile/RUN/[HOST.]xplane.pb``, at any depth. Directories that hold
the traces of one rank each are joined: the directory around them is one run, whose hosts are the ranks.

A directory that holds captures is a run if it is the one named, lies directly below that one, or lies
directly below a ``plugins/profile``. Without any, traces of JSON of any name make a run of the one named. The walk goes
neither through links nor into runs. It takes ``plugins/profile`` and directories near to the one named first, and ends
after ``MOST_DIRECTORIES`` that are no runs.

run/rank_0/trace.json  run/rank_1/trace.json    the run is "run", its hosts are "rank_0" and "rank_1"
run/0/trace.json       run/1/trace.json         likewise, if the traces record these ranks

And directories that hold traces of several profiles, each of all ranks: each profile is a run.

run/1738923.5-TP-0.trace.json  run/1738999.1-TP-0.trace.json    the runs are "run/1738923.5" and "run/1738999.1"
"""

from __future__ import annotations

import re
import stat
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Final

from fastprof.errors import FastprofError, NotFoundError, UsageError
from fastprof.inputs.directory_content import (
    CaptureDirectory,
    find_traces,
    look_into,
    name_foreign_formats,
    split_profile,
)
from fastprof.inputs.paths import (
    Entry,
    find_last_change,
    find_real_path,
    join_path,
    list_entries,
    list_parts,
    make_absolute,
    make_unreadable_error,
    show_path,
)
from fastprof.inputs.stores.store_path import SIDE_BY_SIDE, StorePath
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import list_few

_RANK: Final = compile_late(r"(?:.*[-_.])?rank[-_.]?(\d{1,9})", re.IGNORECASE)
_NUMBER: Final = compile_late(r"\d{1,9}")
_RECORDED: Final = compile_late(rb'"distributedInfo"\s*:\s*\{[^{}\[\]]*?"rank"\s*:\s*(\d{1,9})\b')
_PROFILE: Final = compile_late(r"(\d{6,}(?:\.\d+)?)-TP-\d+\b.*")
"""SGLang trace name, with its profile id, a time."""
_LOOKED_INTO: Final = 2
"""Most numbered directories that are searched: there may be thousands."""


def join_ranks(top: CaptureDirectory, runs: Sequence[CaptureDirectory]) -> list[CaptureDirectory]:
    """Join the runs of rank directories to one run per parent directory."""
    groups: dict[tuple[tuple[str, ...], str], list[tuple[int, CaptureDirectory]]] = {}
    for place in runs:
        *around, name = list_parts(place.directory)[len(list_parts(top.directory)) :] or [""]
        match = _RANK.fullmatch(name) or _NUMBER.fullmatch(name)
        if match is not None and place.traces and not (place.captures or place.linked):
            digits = match[match.lastindex or 0]
            groups.setdefault((tuple(around), name.removesuffix(digits)), []).append((int(digits), place))
    joined = {
        id(ranks[0][1]): (_join_rank_runs(top, around, sorted(ranks, key=lambda rank: rank[0])), ranks)
        for (around, prefix), ranks in groups.items()
        if len(ranks) > 1 and (prefix or _has_recorded_ranks(ranks))
    }
    gone = {id(place) for _, ranks in joined.values() for _, place in ranks[1:]}
    return [joined[id(place)][0] if id(place) in joined else place for place in runs if id(place) not in gone]


def _join_rank_runs(
    top: CaptureDirectory, around: tuple[str, ...], ranks: Iterable[tuple[int, CaptureDirectory]]
) -> CaptureDirectory:
    directory = reduce(join_path, around, top.directory)
    place = CaptureDirectory(directory, show_path(directory), show_path("/".join(around)) if around else top.name)
    for _, rank in ranks:
        place.traces += [join_path(Path(rank.directory).name, trace) for trace in rank.traces]
    return place


def _has_recorded_ranks(ranks: Iterable[tuple[int, CaptureDirectory]]) -> bool:
    """Return whether traces in numbered directories record that number as their rank."""
    from fastprof.inputs.source import read_beginning  # only this search opens files

    some = sorted(ranks, key=lambda rank: rank[0])[:_LOOKED_INTO]
    heads = [
        (number, _RECORDED.search(read_beginning(join_path(rank.directory, rank.traces[0])))) for number, rank in some
    ]
    return all(match is not None and int(match[1]) == number for number, match in heads)


def split_profiles(top: CaptureDirectory, place: CaptureDirectory) -> list[CaptureDirectory]:
    """Split a directory with several profiles into runs; with one profile it is the run itself."""
    ids = [match and match[1] for match in map(_PROFILE.fullmatch, place.traces)]
    if place.captures or None in ids or len(set(ids)) < 2:
        return [place]
    profiles: dict[str, CaptureDirectory] = {}
    for trace, profile in zip(place.traces, ids, strict=True):
        name = f"{profile}" if place is top else f"{place.name}/{profile}"
        profiles.setdefault(name, CaptureDirectory(place.directory, place.path, name, place.linked)).traces.append(
            trace
        )
    place.traces = []
    return list(profiles.values())


def name_ranks(workers: Mapping[str, str]) -> dict[str, str]:
    """Return the host of each trace by its worker; a rank directory's only trace is named after the directory."""
    count = Counter(Path(trace).parent for trace in workers)
    return {
        trace: str(folder) if folder != Path() and count[folder] == 1 else worker
        for trace, worker in workers.items()
        for folder in [Path(trace).parent]
    }


PROGRAM_SUFFIXES = (".hlo_proto.pb", ".hlo.pb")
"""Suffixes of files with a compiled program: beside captures the first counts, which XProf writes; both where they are
named."""
NO_PROGRAM = "NO_MODULE.hlo_proto.pb"
"""What XProf calls the empty file that it leaves beside captures without programs."""
MOST_DIRECTORIES: Final = 50_000
"""Directories that a search lists, plus ``_FOR_EACH_RUN`` for each run: a path such as / means all disks."""
_FOR_EACH_RUN: Final = 8
_DEEPEST: Final = 8
"""Levels of a store that are listed: each is a request."""
_SUFFIXES = (".xplane.riegeli", ".xplane.pb", ".xplane.pb.gz", ".xplane.pb.zst")
"""Suffixes of captures; of copies of one capture, the first is read. XProf reads the records of a host before its
``.xplane.pb``, too."""
_TRACE = compile_late(r"(?P<host>.*?)(?:\.(?P<span>\d+))?\.(?:pt\.)?trace\.json(?:\.gz)?", re.DOTALL)
"""A trace of JSON: HOST.trace.json of XProf, WORKER.SPAN.pt.trace.json of PyTorch, whose span is a time."""
_JSON = compile_late(r"\.json(?:\.gz|\.zst)?\Z")
_MESSAGE = compile_late(r"\.(?:pb|pbtxt)(?:\.gz|\.zst)?\Z|(?:run_meta|op_log|tfprof_log)\w*\Z")
_MOST_OTHERS: Final = 50
"""Files of unknown names whose content is looked at if there are no captures."""
_MOST_NAMED: Final = 3
_UNFINISHED = ("~", ".tmp", ".temp", ".part", ".partial", ".crdownload", ".gstmp")
PROFILE = ("plugins", "profile")
"""The directories between a log directory and its runs."""
_TIMESTAMP = compile_late("([0-9]{4})" + "_([0-9]{1,2})" * 5)
_DIGITS = compile_late(r"\d+")
_LOW, _HIGH = (1, 1, 0, 0, 0), (12, 31, 23, 59, 61)


def split_name(name: str) -> tuple[str, int] | None:
    """Host and rank of the suffix of a capture's file name, the rank of what is read first the lowest.

    The host of a plain ``xplane.pb`` is ``""``. None: captures are not named so.
    """
    for rank, suffix in enumerate(_SUFFIXES):
        if f".{name}".endswith(suffix):
            return name[: -len(suffix)], rank
    return None


def split_trace(name: str) -> tuple[str, int] | None:
    """Host of a trace's file name, and its span, 0 without one. None: traces are not named so, or it is a copy for
    another viewer (``perfetto_trace.json.gz``)."""
    match = _TRACE.fullmatch(name)
    return None if match is None else (match["host"], int(match["span"] or 0))


def is_program(name: str, *, beside: bool = False) -> bool:
    """Return whether files of compiled programs are named so; ``beside``: those that XProf writes beside captures."""
    plain = name.removesuffix(".gz").removesuffix(".zst")
    if beside:
        return plain.endswith(PROGRAM_SUFFIXES[0]) and not name.startswith(NO_PROGRAM)
    return plain.endswith(PROGRAM_SUFFIXES)


def is_transient(name: str) -> bool:
    """Hidden, or a copy that some tool has not finished."""
    return name.startswith((".", "~", "#")) or name.endswith(_UNFINISHED)


@dataclass(slots=True)
class Search:
    """What a search of a directory finds: the runs, that directory first if it is one, and what resembles captures."""

    top: CaptureDirectory
    runs: list[CaptureDirectory] = field(default_factory=list)
    distant: list[CaptureDirectory] = field(default_factory=list)
    """Directories with traces, or documents that may be traces, that are runs only if there are no others."""
    others: list[str] = field(default_factory=list)
    """The first files that are not named as captures are."""
    deeper: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    strays: dict[str, tuple[int, str]] = field(default_factory=dict)
    passed_over: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    """Directories named as hidden or unfinished copies are, where a run may stand: parts below the one named, path."""
    unlisted: int = 0
    """Directories that were known but not listed, because there are too many."""

    def note(self, kind: str, name: str) -> None:
        count, first = self.strays.get(kind, (0, name))
        self.strays[kind] = (count + 1, min(first, name))  # directories have no order

    def note_other(self, path: str) -> None:
        if len(self.others) < _MOST_OTHERS:
            self.others.append(path)


def find_runs(path: str, wanted: str | None = None) -> Search:
    """Return the runs below a directory, without links to runs that are there themselves: see ``pick_run``. ``wanted``:
    a run that may be named as hidden and unfinished copies are, if no other has that name.

    Raises NotFoundError without a run, UnreadableError where the directory cannot be listed.
    """
    parts_of_top = list_parts(make_absolute(path))
    if ".." in parts_of_top:
        parts_of_top = Path(make_absolute(path)).resolve().parts
    is_stored = isinstance(path, StorePath)
    directory_of_top = path if is_stored else str(Path(path))
    search = Search(CaptureDirectory(directory_of_top, show_path(path), show_path(parts_of_top[-1].strip("/")) or "/"))
    queue: deque[tuple[tuple[str, ...], str, bool]] = deque([((), search.top.directory, False)])
    listed = 0
    while queue:
        if listed >= MOST_DIRECTORIES + _FOR_EACH_RUN * len(search.runs):
            search.unlisted = len(queue)
            break
        listed += 1
        if isinstance(path, StorePath):
            path.store.list_ahead(
                item[1].prefix for item in islice(queue, SIDE_BY_SIDE) if isinstance(item[1], StorePath)
            )
        parts, directory, linked = queue.popleft()
        place = CaptureDirectory(directory, show_path(directory), linked=linked) if parts else search.top
        try:
            inside, links, hidden = _list_captures(place, search)
        except OSError as fault:
            if not parts:
                raise fault if isinstance(fault, FastprofError) else make_unreadable_error(path, fault) from fault
            search.refused.append(place.path)
            continue
        full = parts_of_top + parts
        _classify(place, parts, full, search)
        if linked:
            continue
        is_profile = full[-2:] == PROFILE
        if is_stored and len(parts) >= _DEEPEST:
            continue
        if is_stored and is_profile:
            search.runs += _list_names(parts, directory, inside, search)
            continue
        if is_profile or not parts:
            search.passed_over += [((*parts, name), join_path(directory, name)) for name in hidden]
        if (place.captures or place.traces) and not is_profile:
            inside, links = [name for name in inside if name == "plugins"], []
        # A link is looked at where a run may stand, and never walked through: links can make circles.
        if parts and not is_profile:
            search.links += [show_path(join_path(directory, name)) for name in links]
            links = []
        children = [(name, False) for name in inside] + [(name, True) for name in links]
        for name, link in sorted(children):
            is_near = is_profile or name == PROFILE[0] or (*full[-1:], name) == PROFILE
            (queue.appendleft if is_near else queue.append)(((*parts, name), join_path(directory, name), link))
    if wanted is not None and not _find_named(search.runs, show_path(wanted))[1]:
        search.runs += _list_passed_over(search, show_path(wanted))
    if not search.runs:
        look_into(search.top)
        search.runs = [search.top] if search.top.is_full else find_traces(search.distant)
        named = {place.path for place in search.runs}
        search.deeper = [path for path in search.deeper if path not in named]
    joined = join_ranks(search.top, search.runs)
    if wanted is None or _find_named(joined, show_path(wanted))[1]:
        search.runs = joined
    search.runs = [profile for place in search.runs for profile in split_profiles(search.top, place)]
    if not search.runs:
        raise _make_nothing_error(path, search)
    return search


def _list_names(
    parts: tuple[str, ...], directory: str, names: Iterable[str], search: Search
) -> Iterator[CaptureDirectory]:
    """Yield runs of a store by their names alone: there may be thousands, and one is read."""

    def list_files(place: CaptureDirectory) -> None:
        _list_captures(place, search)

    for name in names:
        path = join_path(directory, name)
        shown = show_path("/".join((*parts[:-2], name)))
        yield CaptureDirectory(path, show_path(path), shown, list_files=list_files)


def _list_captures(place: CaptureDirectory, search: Search) -> tuple[list[str], list[str], list[str]]:
    """Note the captures of a directory and what resembles them; its subdirectories, links to such, and subdirectories
    named as hidden or unfinished copies are."""
    below: list[str] = []
    links: list[str] = []
    hidden: list[str] = []
    for entry in list_entries(place.directory):
        name = entry.name
        if is_transient(name):
            if "xplane." in name:
                search.note("unfinished or hidden", name)
            if entry.is_dir(follow_symlinks=False):
                hidden.append(name)
        elif entry.is_dir(follow_symlinks=False):
            below.append(name)
        elif entry.is_symlink() and _is_directory_link(entry):
            links.append(name)
        elif _is_file_or_missing(entry):  # no pipe, nor a link to one
            _note_file(name, place, search)
    place.captures.sort()
    place.traces.sort()
    place.documents.sort()
    place.programs.sort()
    place.messages.sort()
    return below, links, hidden


def _is_file_or_missing(entry: Entry) -> bool:
    """Return whether an entry is a file; or a link to nothing or to what may not be looked at, which is a missing
    host."""
    if not entry.is_symlink():
        return entry.is_file(follow_symlinks=False)
    try:
        return stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return True


def _note_file(name: str, place: CaptureDirectory, search: Search) -> None:
    if split_name(name):
        place.captures.append(name)
    elif split_trace(name):
        place.traces.append(name)
    elif is_program(name, beside=True):
        place.programs.append(name)
    else:
        search.note_other(join_path(place.directory, name))
        if _JSON.search(name) or split_profile(name):
            place.documents.append(name)
        elif _MESSAGE.search(name) and not name.startswith(NO_PROGRAM):
            place.messages.append(name)
            search.note("read only if the file itself is named", name)


def _is_directory_link(link: Entry) -> bool:
    try:
        return link.is_dir()
    except OSError:  # a circle of links
        return False


def _classify(place: CaptureDirectory, parts: tuple[str, ...], full: tuple[str, ...], search: Search) -> None:
    """File the directory ``parts`` below the one named under runs, or under what was perhaps meant."""
    in_profile = full[-3:-1] == PROFILE
    only_programs = not parts and place.programs  # of the directory that was named
    if parts:  # train/RUN for train/plugins/profile/RUN
        place.name = show_path("/".join((*parts[:-3], parts[-1]) if in_profile else parts))
    if not (place.captures or place.traces or only_programs):
        if place.linked:
            search.links.append(place.path)
        elif parts and place.documents:
            search.distant.append(place)
    elif len(parts) < 2 or in_profile:
        search.runs.append(place)
    else:
        search.deeper.append(place.path)
        if not place.captures:
            search.distant.append(place)


def _make_nothing_error(path: str, search: Search) -> NotFoundError:
    if Path(path, "_fastprof").is_dir():
        text = "an export of fastprof, not captures: `fastprof sql` and readers of Parquet read it"
        return NotFoundError(text, path=show_path(path))
    message = (
        "no captures: looked for HOST.xplane.pb, also .gz, .zst and .riegeli, and for HOST.trace.json and "
        "WORKER.pt.trace.json, also .gz, in this directory, "
        "in those directly below it, and in every plugins/profile/RUN at any depth, "
        "and for JSON traces of any name at any depth"
    )
    formats = name_foreign_formats(search.top.directory, search.others)
    documents = [name for name in search.top.documents if name not in formats]
    if documents:
        message += f"; in this directory no JSON is a trace: {list_few(map(show_path, documents))}"
    if search.deeper:
        message += f"; there are captures deeper, give their directory: {list_few(search.deeper)}"
    for kind, (count, name) in search.strays.items():
        if count == 1 and name in formats:
            continue
        message += f"; {show_path(name)}{f' and {count - 1} more' if count > 1 else ''}: {kind}"
    if search.links:
        message += f"; links are not followed, give their target: {list_few(search.links)}"
    if search.unlisted:
        message += f"; {describe_early_end(search)}"
    for form in sorted(set(formats.values())):
        names = sorted(show_path(name) for name in formats if formats[name] == form)
        message += f"; {list_few(names, _MOST_NAMED)}: {form}"
    if search.refused:
        message += f"; the system refused to list: {list_few(search.refused)}"
    return NotFoundError(message, path=show_path(path))


WITHOUT_PYTHON: Final = "_without_python"
"""Suffix of a second run that was recorded without Python functions."""


def describe_early_end(search: Search) -> str:
    """Explain that a search of too many directories has ended early."""
    return (
        f"the search ended after {MOST_DIRECTORIES:,} directories, with {search.unlisted:,} and what is below them not "
        "searched; give a directory nearer to the captures"
    )


def sort_newest_first(runs: Iterable[CaptureDirectory], since: tuple[float, ...] = ()) -> list[CaptureDirectory]:
    """``since``: year, month, … of the oldest, in local time. Of runs of one time the last by name, and by number in
    it: iteration_20 is newer than iteration_3. A run counts as newer than its second run without Python functions."""
    places = list(runs)
    named = {place.name: place for place in places}
    moments = []
    for place in places:
        first = named.get(place.name.removesuffix(WITHOUT_PYTHON), place)
        name = (first is place, _DIGITS.sub(_pad_digits, place.name), place.name)
        moments.append((_find_capture_time(first), name, place))
    return [place for moment, _, place in sorted(moments, key=lambda entry: entry[:2], reverse=True) if moment >= since]


def _pad_digits(digits: re.Match[str]) -> str:
    return digits[0].zfill(20)


def _find_capture_time(place: CaptureDirectory) -> tuple[float, ...]:
    """Return when a run was captured, in local time: by its name, else by the last change of its captures."""
    match = _TIMESTAMP.fullmatch(place.name.rpartition("/")[2])
    if match:
        year, *rest = (int(digits) for digits in match.groups())
        if all(low <= value <= high for low, value, high in zip(_LOW, rest, _HIGH, strict=True)):
            return (year, *rest)
    changed = find_last_change(place.directory, place.captures or place.traces)
    try:
        local = time.localtime(changed)
    except (OverflowError, ValueError, OSError):  # a time that no calendar has
        return (0.0,)
    return (*local[:5], local.tm_sec + changed % 1)


def drop_aliases(runs: list[CaptureDirectory]) -> list[CaptureDirectory]:
    """Leave out links to runs that are there themselves, such as ``latest``."""
    if not any(place.linked for place in runs):
        return runs
    seen = {find_real_path(place.directory) for place in runs if not place.linked}
    distinct: list[CaptureDirectory] = []
    for place in runs:
        if place.linked:
            target = find_real_path(place.directory)
            if target in seen:
                continue
            seen.add(target)
        distinct.append(place)
    return distinct


def pick_run(runs: list[CaptureDirectory], name: str, path: str) -> CaptureDirectory:
    """Return the run of that name, or of that last part of a name if it is the only one; aliases count.

    Raises NotFoundError that lists the runs there are, UsageError where the name fits several.
    """
    wanted = show_path(name)
    exact, matches = _find_named(runs, wanted)
    if len(matches) == 1:
        return matches[0]
    if exact:
        advice = "give a directory: " + list_few(place.path for place in matches)
        raise UsageError(f"{len(matches)} runs are called {wanted}; {advice}", path=show_path(path))
    if matches:
        advice = "give a full name: " + list_few(place.name for place in sort_newest_first(matches))
        raise UsageError(f"{len(matches)} runs end in {wanted}; {advice}", path=show_path(path))
    names = list_few((place.name for place in sort_newest_first(drop_aliases(runs))), 20)
    raise NotFoundError(f"there is no run {wanted}; runs, newest first: {names}", path=show_path(path))


def _find_named(runs: list[CaptureDirectory], wanted: str) -> tuple[list[CaptureDirectory], list[CaptureDirectory]]:
    """Return the runs of that name; those, or without any the runs of that last part of a name, each once."""
    exact = [place for place in runs if place.name == wanted]
    return exact, drop_aliases(exact or [place for place in runs if place.name.rpartition("/")[2] == wanted])


def _list_passed_over(search: Search, wanted: str) -> list[CaptureDirectory]:
    """Return the runs of that last part of a name that the search did not look into."""
    named = Search(search.top)
    top = list_parts(make_absolute(search.top.directory))
    for parts, directory in search.passed_over:
        if show_path(parts[-1]) != wanted.rpartition("/")[2]:
            continue
        place = CaptureDirectory(directory, show_path(directory))
        with suppress(OSError):
            _list_captures(place, named)
            _classify(place, parts, top + parts, named)
    return named.runs
