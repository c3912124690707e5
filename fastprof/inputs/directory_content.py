"""A directory and its captures. What one without captures holds, by the content of its files: traces (the latest
of each worker are read); profiles; a graph of TensorFlow 1, whose files are read as one.

host_77.17.pt.trace.json  host_77.18.pt.trace.json    two cycles of one worker: the later one is read
7-TP-0-DECODE.trace.json  7-TP-0-EXTEND.trace.json    two phases of one rank, as SGLang names them: one is read
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final

from fastprof.errors import CaptureError, UsageError
from fastprof.inputs import open_files
from fastprof.inputs.paths import find_last_change, join_path, make_absolute, show_path
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import list_few

_STEP = compile_late(r"(\d{1,18})\D*")


@dataclass(slots=True)
class GraphFiles:
    """A binary file, as ``load`` takes it. Its bytes are made when they are first read. ``runs``: step and path of each
    RunMetadata."""

    graph: str
    runs: tuple[tuple[int, str], ...] = ()
    op_log: str | None = None
    max_unpacked: int = open_files.MOST_UNPACKED
    as_tfprof: bool = False
    """Read the log and the inputs of nodes as tfprof does, not as recorded."""
    complaints: list[str] = field(default_factory=list, repr=False)
    """tfprof's messages on standard error for these files, once they are read."""
    _data: bytes | None = field(default=None, repr=False)
    _at: int = 0

    @property
    def name(self) -> str:
        return self.graph

    @property
    def paths(self) -> list[str]:
        """All of its files."""
        return [self.graph, *(path for _, path in self.runs), *filter(None, [self.op_log])]

    def read(self, size: int) -> bytes:
        """CaptureError: a file does not decode, or is something else. UnreadableError."""
        if self._data is None:
            self._data = self._made()
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def __reduce__(self) -> tuple[object, ...]:
        """Return the files, to be read again."""
        return GraphFiles, (self.graph, self.runs, self.op_log, self.max_unpacked, self.as_tfprof)

    def _made(self) -> bytes:
        from fastprof.inputs.profile_model import ProfileModel, find_log_place

        model = ProfileModel(as_tfprof=self.as_tfprof)
        adds: list[tuple[str, tuple[str, ...], Callable[[bytes], None]]] = [
            (path, _RUNS, partial(model.add_run, step)) for step, path in self.runs
        ]
        if self.op_log:
            adds.insert(find_log_place(len(adds), as_tfprof=self.as_tfprof), (self.op_log, _LOGS, model.add_log))
        for path, kinds, add in ((self.graph, _GRAPHS, model.add_graph), *adds):
            data = _read_message(path, kinds, self.max_unpacked)
            try:
                add(data)
            except CaptureError as fault:
                raise CaptureError(fault.message, path=show_path(path), offset=fault.offset) from None
        if len(self.runs) == 1:
            self.complaints[:] = model.complaints
        return b"".join(model.profile())


_GRAPHS, _RUNS, _LOGS = ("graph_def", "graph_def_text"), ("run_metadata", "run_metadata_text"), ("op_log",)
_KINDS = {"a GraphDef": _GRAPHS, "RunMetadata": _RUNS, "an OpLogProto of tfprof": _LOGS}
_FIELDS: Final = {_GRAPHS: (1, 2, 3, 4), _RUNS: (1, 2, 3, 4, 5), _LOGS: (1, 2)}
"""Field numbers of each message."""


def _read_message(path: str, kinds: tuple[str, ...], max_unpacked: int) -> bytes:
    """Return the file as a protobuf. CaptureError: its format is not one of ``kinds``. A message without the fields
    that identify its format, such as a run without nodes, is accepted if it has no foreign fields."""
    from fastprof.inputs.formats import HEAD, find_format, graph_def_text, run_metadata_text
    from fastprof.inputs.message import BadMessageError, encode_text_proto, has_only_fields
    from fastprof.inputs.source import read_entire

    data = read_entire(make_absolute(path), show_path(path), max_unpacked)
    form = find_format(data[:HEAD])
    if data and (not has_only_fields(data, _FIELDS[kinds]) if form is None else form.NAME not in kinds):
        wanted = next(name for name, known in _KINDS.items() if known == kinds)
        raise CaptureError(f"this is not {wanted}", path=show_path(path), offset=0, salvageable=False)
    texts = {graph_def_text.NAME: graph_def_text.GRAPH, run_metadata_text.NAME: run_metadata_text.RUN}
    if form is None or form.NAME not in texts:
        return data
    try:
        return b"".join(encode_text_proto(data, texts[form.NAME]))
    except BadMessageError as fault:
        raise CaptureError(fault.text, path=show_path(path), offset=fault.at) from None


def number_runs(paths: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Files of RunMetadata with their steps: the last numbers in their names, if all have different ones, else from 0
    in the order given."""
    matches = [_STEP.findall(Path(path).name) for path in paths]
    numbers = [int(digits[-1]) for digits in matches if digits]
    steps = numbers if len(set(numbers)) == len(paths) else range(len(paths))
    return tuple(sorted(zip(steps, paths, strict=True)))


def find_graph_files(directory: str, names: Sequence[str]) -> GraphFiles | None:
    """Return the graph among these files of a directory with its runs and log, known by content; None: a graph, or what
    goes with it, is absent. UsageError: there are several graphs."""
    from fastprof.inputs.formats import HEAD, find_format
    from fastprof.inputs.source import read_beginning

    by_kind: dict[tuple[str, ...], list[str]] = {kinds: [] for kinds in _KINDS.values()}
    for name in names:
        form = find_format(read_beginning(join_path(directory, name))[:HEAD])
        for kinds, paths in by_kind.items():
            if form is not None and form.NAME in kinds:
                paths.append(join_path(directory, name))
    graphs, runs, logs = by_kind.values()
    if not graphs or not (runs or logs):
        return None
    for what, several in (("graphs", graphs), ("logs of ops", logs)):
        if len(several) > 1:
            text = (
                f"several {what}: {list_few(Path(path).name for path in several)}; choose with fastprof tfprof --graph"
            )
            raise UsageError(text, path=show_path(directory))
    return GraphFiles(
        make_absolute(graphs[0]), number_runs([make_absolute(run) for run in runs]), logs[0] if logs else None
    )


_PROFILE = compile_late(r"(?P<host>profile)_(?P<span>\d{1,18})")
"""A profile of tfprof, as ProfileContext names it: after the step in which it was written."""
_TIMELINE = compile_late(r"timeline-(\d{1,18})\.json(?:\.gz|\.zst)?")
"""A timeline of TensorFlow 1, as ProfilerHook names it: after its step."""
_MOST_MESSAGES: Final = 1_000
_MOST_DOCUMENTS: Final = 1_000
"""Documents in directories below the one named that are looked into."""
_TRIES: Final = 3
_DIGITS = compile_late(r"\d+")
_LIKELY = compile_late(r"(?i)trace|profile|rank|kineto")


@dataclass(slots=True, eq=False)
class CaptureDirectory:
    """A directory and the captures in it. ``path`` is for people; ``linked``: found through a link."""

    directory: str
    path: str
    name: str = ""
    linked: bool = False
    captures: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    """Files of JSON of other names, and profiles of tfprof: traces, if their content says so."""
    programs: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    """Files that may be parts of a graph of TensorFlow 1 and its runs, if their content says so."""
    graph: GraphFiles | None = None
    """A graph and its runs, if there is nothing else: their content says so."""
    known: dict[str, str] = field(default_factory=dict)
    """Timelines of steps that another file has, which says more of them; and that file."""
    list_files: Callable[[CaptureDirectory], None] | None = field(default=None, repr=False)
    """Lists a directory of a store, once its files are needed."""

    @property
    def is_unlisted(self) -> bool:
        return self.list_files is not None

    @property
    def is_full(self) -> bool:
        """Return whether there is something to read other than programs, as there should be if it is not listed yet."""
        return bool(self.is_unlisted or self.captures or self.traces or self.graph)

    def listed(self) -> CaptureDirectory:
        """Return this directory with its files. UnreadableError: its store cannot be listed."""
        list_files, self.list_files = self.list_files, None
        if list_files is not None:
            list_files(self)
        return self


def split_profile(name: str) -> tuple[str, int] | None:
    """Return what all profiles of one ProfileContext are called, and the step of this one. None: they are not named
    so."""
    match = _PROFILE.fullmatch(name)
    return None if match is None else (match["host"], int(match["span"]))


def look_into(place: CaptureDirectory) -> None:
    """Note traces of JSON, whatever their names, without any profiles of tfprof, else a graph. But for timelines of
    steps that a profile has, or the runs of a graph."""
    named = [name for name in place.documents if split_profile(name)]
    traces = [name for name in place.documents if name not in named and _is_trace(place, name)]
    profiles = [name for name in named if _is_profile(place, name)]
    steps = {name: int(match[1]) for name in traces if (match := _TIMELINE.fullmatch(name))}
    last = max(profiles, key=lambda name: split_profile(name) or ("", 0), default="")
    if split := split_profile(last):
        place.known = {name: last for name, step in steps.items() if step <= split[1]}
    place.traces = [name for name in traces if name not in place.known]
    if place.known or not traces:
        place.traces = sorted(place.traces + profiles)
    if place.traces and (profiles or len(steps) < len(traces)):
        return
    try:
        graph = find_graph_files(place.directory, place.messages[:_MOST_MESSAGES])
    except UsageError:
        if not traces:
            raise
        return
    if graph is not None and set(steps.values()) <= {step for step, _ in graph.runs}:
        place.known, place.graph, place.traces = dict.fromkeys(traces, Path(graph.graph).name), graph, []


def find_traces(places: Iterable[CaptureDirectory]) -> list[CaptureDirectory]:
    """Return the places that hold traces of JSON, whatever their names; likely names are looked into first."""
    runs: list[CaptureDirectory] = []
    left = _MOST_DOCUMENTS
    for place in sorted(places, key=lambda place: not any(map(_LIKELY.search, place.documents))):
        if not place.traces:
            place.traces, left = _find_traces_by_shape(place, left)
        if place.traces:
            runs.append(place)
    return runs


def _find_traces_by_shape(place: CaptureDirectory, left: int) -> tuple[list[str], int]:
    """Documents with names such as that of a trace, but for numbers: of thousands of ranks, one is looked into.
    ``left``: how many may be; how many still may be."""
    of_shape: dict[str, list[str]] = {}
    for name in place.documents:
        of_shape.setdefault(_DIGITS.sub("0", name), []).append(name)
    traces: list[str] = []
    for names in of_shape.values():
        for name in names[: min(_TRIES, left)]:
            left -= 1
            if _is_trace(place, name):
                traces += names
                break
    return sorted(traces), left


def _is_trace(place: CaptureDirectory, name: str) -> bool:
    from fastprof.inputs.formats import chrome_json  # only this search opens files
    from fastprof.inputs.source import read_beginning

    return chrome_json.is_trace(read_beginning(join_path(place.directory, name)))


def _is_profile(place: CaptureDirectory, name: str) -> bool:
    from fastprof.inputs.formats import HEAD, profile_proto
    from fastprof.inputs.source import read_beginning

    return profile_proto.begins(read_beginning(join_path(place.directory, name))[:HEAD])


def name_foreign_formats(directory: str, files: Iterable[str]) -> dict[str, str]:
    """Return the format of files that are known to be of another one, by their path below the directory."""
    from fastprof.inputs.foreign_files import name_foreign_format
    from fastprof.inputs.source import read_beginning

    formats = {os.path.relpath(file, directory): name_foreign_format(read_beginning(file)) for file in files}
    return {name: form for name, form in formats.items() if form is not None}


OTHER_PHASE: Final = "other_phase"
_PHASE: Final = compile_late(
    r"(?:^|[-_.])(prefill(?:ing)?|decod(?:e|ing)|extend|context|ctx|gen(?:eration)?)(?=[-_.]|$)", re.IGNORECASE
)
"""Phases of inference in the name of a trace."""


def leave_out_traces(directory: str, workers: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, str]]:
    """Return the traces to leave out, each with a code of import_log and the reason. ``workers``: of each trace the
    worker, and the time or step in its name."""
    left = _list_other_phases(directory, {name: worker for name, (worker, _) in workers.items()})
    latest: dict[str, tuple[int, str]] = {}
    for name, (worker, span) in workers.items():
        latest[worker] = max(latest.get(worker, (span, name)), (span, name))
    for name, (worker, _) in workers.items():
        later = latest[worker][1]
        if name in left or later == name:
            continue
        if split_profile(name) is not None:
            left[name] = "earlier_profile", f"not read, because {show_path(later)} has all of its steps"
        else:
            left[name] = "earlier_trace", f"not read, because {show_path(later)} is a later trace of the same worker"
    return left


def _list_other_phases(directory: str, workers: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the traces of all phases but one, if workers have traces of several phases."""
    of_worker: dict[str, set[str]] = {}
    of_phase: dict[str, list[str]] = {}
    for name, worker in workers.items():
        if match := _PHASE.search(worker):
            phase = match[1].casefold()
            of_worker.setdefault(worker[: match.start()] + worker[match.end() :], set()).add(phase)
            of_phase.setdefault(phase, []).append(name)
    several = {phase for phases in of_worker.values() if len(phases) > 1 for phase in phases}
    if not several:
        return {}
    read = max(sorted(several), key=lambda phase: (len(of_phase[phase]), find_last_change(directory, of_phase[phase])))
    others = sorted(several - {read})
    text = (
        f"not read: ranks have a trace for each phase, and only the phase {read} is read, not {list_few(others)}; to "
        f"read another phase, name only its traces"
    )
    return {name: (OTHER_PHASE, text) for phase in others for name in of_phase[phase]}
