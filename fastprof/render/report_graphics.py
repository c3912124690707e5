"""Reports as pictures and as files of flame graph tools: SVG drawings, pprof, speedscope.

Stacks are paths from the root of a report's tree to a node, weighted by the time of the node without its children;
times are in nanoseconds, rounded. https://github.com/google/pprof/blob/main/proto/profile.proto and
https://www.speedscope.app/file-format-schema.json describe the formats.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from fastprof._version import __version__
from fastprof.errors import UsageError
from fastprof.schema.message_fields import encode_varint, put

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses.contract import AnalysisReport


DRAWN = {
    **dict.fromkeys(("overview", "diagnosis"), "findings"),
    **{name: name for name in ("op_profile", "roofline", "tf_data", "memory_viewer", "communication", "python_time")},
}
"""Modules of render/svg by the analysis that each draws."""


def draw_report(report: AnalysisReport) -> str:
    """Draw a report as SVG. UsageError: the analysis has no drawing."""
    if report.analysis not in DRAWN:
        raise UsageError(f"{report.analysis} has no drawing; these analyses have: {list_drawn_verbs()}")
    drawn: str = importlib.import_module(f"fastprof.render.svg.{DRAWN[report.analysis]}").draw(report)
    return drawn


def list_drawn_verbs() -> str:
    """Return the verbs of the analyses with a drawing, separated by commas."""
    return ", ".join(name.replace("_", "-") for name in DRAWN)


STACKED = ("op_profile", "python_time")
"""Analyses with stacks."""
Frame = tuple[str, str | None]
"""Name and source location, ``file:line`` or None."""


class WeightedStacks(NamedTuple):
    """Stacks of a tree. ``weight_ps``: weights by node, without zeros. ``measure``: their name, in one word."""

    title: str
    measure: str
    tree: pa.Table
    weight_ps: dict[int, int]

    def paths(self, nodes: list[int]) -> list[list[Frame]]:
        """Return the stack of each node, the outermost frame first."""
        parents, names = self.tree["parent"].to_pylist(), self.tree["name"].to_pylist()
        located = "source" in self.tree.column_names
        sources = self.tree["source"].to_pylist() if located else [None] * len(names)
        stacks = []
        for node in nodes:
            path = [node]
            while above := parents[path[-1]]:
                path.append(above)
            stacks.append([(names[above], sources[above]) for above in reversed(path)])
        return stacks


def list_stacks(report: AnalysisReport, form: str) -> tuple[WeightedStacks, ...]:
    """Return all stacks of a report. UsageError: the analysis has none for this ``form``."""
    if report.analysis not in STACKED:
        raise UsageError(f"{report.analysis} has no stacks for {form}; these analyses have: {list_stacked_verbs()}")
    return tuple(
        WeightedStacks(title, measure, tree, _get_own_times(tree, column))
        for title, measure, tree, column in _list_trees(report)
    )


def list_stacked_verbs() -> str:
    """Return the verbs of the analyses with stacks, separated by commas."""
    return ", ".join(name.replace("_", "-") for name in STACKED)


def split_location(source: str | None) -> tuple[str, int | None]:
    """Return the file and line of a source location; the line may be unknown."""
    file, _, line = (source or "").rpartition(":")
    return (file, int(line)) if file and line.isdigit() else (source or "", None)


def _list_trees(report: AnalysisReport) -> tuple[tuple[str, str, pa.Table, str], ...]:
    """Return title, measure, tree table and time column of each tree. Times of nodes include all below them."""
    if report.analysis == "python_time":
        stacks = report.tables["stacks"]
        return ("Time of threads", "time", stacks, "total_ps"), ("Time of devices", "device", stacks, "device_ps")
    from fastprof.analyses.op_profile import OpProfile

    group_by = report.detail_as(OpProfile).group_by
    tree, scopes = report.tables["tree"], report.tables["scopes"]
    return (
        (f"Device time by {group_by}", "time", tree, "self_ps"),
        ("Device time by scope of the model", "time", scopes, "self_ps"),
        (f"Wasted time by {group_by}", "wasted", tree, "lost_ps"),
    )


def _get_own_times(table: pa.Table, column: str) -> dict[int, int]:
    """Return the nonzero times of nodes without their children. Rounded parts may add up to more than the node."""
    times = [time or 0 for time in table[column].to_pylist()]
    own = list(times)
    for parent, time in zip(table["parent"].to_pylist()[1:], times[1:], strict=True):
        own[parent] -= time
    return {node: time for node, time in enumerate(own) if time > 0}


_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _DEFAULT_TYPE = 1, 2, 4, 5, 6, 14


def encode_pprof(report: AnalysisReport) -> Iterator[bytes]:
    """Return the pprof file. UsageError: the analysis has no stacks."""
    import gzip

    first, *others = list_stacks(report, "pprof")
    same = [first, *(other for other in others if other.tree is first.tree and other.weight_ps)]
    return iter([gzip.compress(_PprofProfile(same).message(), mtime=0)])


class _PprofProfile:
    """Encoder of a pprof profile. ``of``: stacks of one tree, one for each value of a sample."""

    def __init__(self, of: list[WeightedStacks]) -> None:
        self._of = of
        self._strings = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Frame, int] = {}
        self._parts: list[bytes] = []

    def message(self) -> bytes:
        for stacks in self._of:
            unit = put(1, self._text(stacks.measure)) + put(2, self._text("nanoseconds"))
            self._parts.append(put(_SAMPLE_TYPE, unit))
        nodes = sorted({node for stacks in self._of for node in stacks.weight_ps})
        for node, path in zip(nodes, self._of[0].paths(nodes), strict=True):
            ids = b"".join(encode_varint(self._location(frame)) for frame in reversed(path))
            values = b"".join(encode_varint((stacks.weight_ps.get(node, 0) + 500) // 1000) for stacks in self._of)
            self._parts.append(put(_SAMPLE, put(1, ids) + put(2, values)))
        self._parts.append(put(_DEFAULT_TYPE, self._text(self._of[0].measure)))
        return b"".join(self._parts) + b"".join(put(_STRING, text) for text in self._strings)

    def _text(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _location(self, frame: Frame) -> int:
        number = self._locations.get(frame)
        if number is None:
            number = self._locations[frame] = len(self._locations) + 1
            name, source = frame
            file, line = split_location(source)
            at = put(1, self._function(name, file)) + (b"" if line is None else put(2, line))
            self._parts.append(put(_LOCATION, put(1, number) + put(4, at)))
        return number

    def _function(self, name: str, file: str) -> int:
        number = self._functions.get((name, file))
        if number is None:
            number = self._functions[name, file] = len(self._functions) + 1
            named = self._text(name)
            self._parts.append(
                put(_FUNCTION, put(1, number) + put(2, named) + put(3, named) + put(4, self._text(file)))
            )
        return number


_SPEEDSCOPE_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(report: AnalysisReport) -> Iterator[bytes]:
    """Return the speedscope document. UsageError: the analysis has no stacks."""
    return _write_speedscope(report, list_stacks(report, "speedscope"))


def _write_speedscope(report: AnalysisReport, profiles: tuple[WeightedStacks, ...]) -> Iterator[bytes]:
    title = report.analysis.replace("_", " ")
    head = {
        "$schema": _SPEEDSCOPE_SCHEMA,
        "name": title,
        "exporter": f"fastprof {__version__}",
        "activeProfileIndex": 0,
    }
    yield (json.dumps(head)[:-1] + ', "profiles": [').encode("ascii")
    frames: dict[Frame, int] = {}
    for number, stacks in enumerate(profiles):
        if number == 0 or stacks.weight_ps:
            yield b",\n" if number else b"\n"
            yield _write_profile(stacks, frames).encode("ascii")
    yield b'],\n"shared": {"frames": [\n'
    yield ",\n".join(map(_write_frame, frames)).encode("ascii")
    yield b"]}}\n"


def _write_profile(stacks: WeightedStacks, frames: dict[Frame, int]) -> str:
    """Return a profile, and add its frames to ``frames``."""
    paths = stacks.paths(list(stacks.weight_ps))
    numbers = ([frames.setdefault(frame, len(frames)) for frame in path] for path in paths)
    samples = ",".join(json.dumps(stack, separators=(",", ":")) for stack in numbers)
    weights = ",".join(map(_format_nanoseconds, stacks.weight_ps.values()))
    head = json.dumps({"type": "sampled", "name": stacks.title, "unit": "nanoseconds", "startValue": 0})[:-1]
    end = _format_nanoseconds(sum(stacks.weight_ps.values()))
    return f'{head}, "endValue": {end}, "samples": [{samples}],\n"weights": [{weights}]}}'


def _write_frame(frame: Frame) -> str:
    name, source = frame
    record: dict[str, object] = {"name": name}
    file, line = split_location(source)
    if file:
        record |= {"file": file} if line is None else {"file": file, "line": line}
    return json.dumps(record)


def _format_nanoseconds(ps: int) -> str:
    """Format a time as an exact JSON number of nanoseconds."""
    ns, rest = divmod(ps, 1000)
    return f"{ns}.{rest:03}".rstrip("0") if rest else str(ns)
