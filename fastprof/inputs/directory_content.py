"""A directory and its captures. What one without captures holds, by the content of its files: traces, profiles, graphs,
and formats that are not read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Final

from fastprof.errors import UsageError
from fastprof.inputs import graph_files
from fastprof.inputs.graph_files import GraphFiles
from fastprof.inputs.paths import below
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

_PROFILE = pattern_of(r"(?P<host>profile)_(?P<span>\d{1,18})")
"""A profile of tfprof, as ProfileContext names it: after the step in which it was written."""
_TIMELINE = pattern_of(r"timeline-(\d{1,18})\.json(?:\.gz|\.zst)?")
"""A timeline of TensorFlow 1, as ProfilerHook names it: after its step."""
_MOST_MESSAGES: Final = 1_000
_MOST_DOCUMENTS: Final = 1_000
"""Documents in directories below the one named that are looked into."""
_TRIES: Final = 3
_DIGITS = pattern_of(r"\d+")
_LIKELY = pattern_of(r"(?i)trace|profile|rank|kineto")


@dataclass(slots=True, eq=False)
class Place:
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

    @property
    def is_full(self) -> bool:
        """Whether there is something to read beside programs."""
        return bool(self.captures or self.traces or self.graph)


def split_profile(name: str) -> tuple[str, int] | None:
    """What all profiles of one ProfileContext are called, and the step of this one. None: they are not named so."""
    match = _PROFILE.fullmatch(name)
    return None if match is None else (match["host"], int(match["span"]))


def look_into(place: Place) -> None:
    """Note traces of JSON, whatever their names, without any profiles of tfprof, else a graph. But for timelines of
    steps that a profile has, or the runs of a graph."""
    traces, profiles = _traces_by_content(place)
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
        graph = graph_files.of_directory(place.directory, place.messages[:_MOST_MESSAGES])
    except UsageError:
        if not traces:
            raise
        return
    if graph is not None and set(steps.values()) <= {step for step, _ in graph.runs}:
        place.known, place.graph, place.traces = dict.fromkeys(traces, Path(graph.graph).name), graph, []


def find_traces(places: Iterable[Place]) -> list[Place]:
    """Return the places that hold traces of JSON, whatever their names; likely names are looked into first."""
    runs: list[Place] = []
    left = _MOST_DOCUMENTS
    for place in sorted(places, key=lambda place: not any(map(_LIKELY.search, place.documents))):
        if not place.traces:
            place.traces, left = _traces_by_shape(place, left)
        if place.traces:
            runs.append(place)
    return runs


def _traces_by_shape(place: Place, left: int) -> tuple[list[str], int]:
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


def _traces_by_content(place: Place) -> tuple[list[str], list[str]]:
    """Documents of JSON that are traces, and profiles of tfprof."""
    named = [name for name in place.documents if split_profile(name)]
    traces = [name for name in place.documents if name not in named and _is_trace(place, name)]
    return traces, [name for name in named if _is_profile(place, name)]


def _is_trace(place: Place, name: str) -> bool:
    from fastprof.inputs.formats import chrome_json  # only this search opens files
    from fastprof.inputs.source import beginning

    return chrome_json.is_trace(beginning(below(place.directory, name)))


def _is_profile(place: Place, name: str) -> bool:
    from fastprof.inputs.formats import HEAD, profile_proto
    from fastprof.inputs.source import beginning

    return profile_proto.begins(beginning(below(place.directory, name))[:HEAD])


def name_foreign_formats(directory: str, files: Iterable[str]) -> dict[str, str]:
    """Return the format of files that are known to be of another one, by their path below the directory."""
    from fastprof.inputs.other_files import name_foreign_format
    from fastprof.inputs.source import beginning

    formats = {os.path.relpath(file, directory): name_foreign_format(beginning(file)) for file in files}
    return {name: form for name, form in formats.items() if form is not None}
