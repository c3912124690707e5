"""The pprof files of tfprof's code view: a sample for each node, with the stack of lines that made it.

A location is a call: the line of the caller, and the function that it calls.
"""

from __future__ import annotations

import gzip
from typing import Any, Final, NamedTuple

from fastprof.derive.tfprof.code_view import GRADIENT, CodeLines
from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import FIGURES, Recorded
from fastprof.derive.tfprof.view_set import ViewSet
from fastprof.derive.tfprof.views import Shown
from fastprof.errors import UsageError
from fastprof.schema.message_fields import put, varint

_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _COMMENT = 1, 2, 4, 5, 6, 13
MEASURES: Final = {
    "bytes": "Sum of operation total memory requests, excluding deallocations.",
    "peak_bytes": "Sum of operation peak memory usage.",
    "residual_bytes": "Sum of operation allocated memory after finish.",
    "output_bytes": "Sum of operation output size.",
    "micros": "Sum of accelerator execution time and cpu execution time.",
    "accelerator_micros": "Accelerator execution time.",
    "cpu_micros": "CPU execution time.",
    "params": "Model parameters.",
    "float_ops": "Model float operations (Only available if defined).",
}


class _Frame(NamedTuple):
    file: str
    line: int
    function: str
    function_line: int


def compressed(shown: Shown, views: ViewSet, options: Options, *, as_tfprof: bool = False) -> bytes:
    """The file of a code view. ``as_tfprof``: with the samples that tfprof writes, which are some. UsageError: not one
    figure is selected, which samples count beside nodes."""
    step, selected = options.step, set(options.select)
    if len(selected) != 1 or not selected <= set(MEASURES):
        raise UsageError(f"a file of pprof counts one of {', '.join(MEASURES)}: select one")
    (measure,) = selected
    nodes = _nodes_as_tfprof(shown, views.lines) if as_tfprof else _nodes_of_rows(shown, views.lines)
    return gzip.compress(_Profile(measure).message(shown, views, step, nodes), mtime=0)


def _nodes_of_rows(shown: Shown, lines: CodeLines) -> list[list[int]]:
    """The accounted nodes of each row, and of the hidden lines below it."""
    place_of = dict(zip(shown.row.tolist(), range(len(shown.row)), strict=True))
    nodes: list[list[int]] = [[] for _ in place_of]
    near: list[int] = []
    for row, above in enumerate(lines.forest.parent.tolist()):
        near.append(place_of.get(row, near[above] if row else 0))
        nodes[near[row]] += shown.of_row(row).tolist()
    return nodes


def _nodes_as_tfprof(shown: Shown, lines: CodeLines) -> list[list[int]]:
    """The accounted nodes of the last lines below each last row that is shown: tfprof has no sample of a node if its
    line calls another one."""
    end = lines.forest.end
    nodes: list[list[int]] = [[] for _ in shown.row]
    for place in range(1, len(nodes)):
        row = int(shown.row[place])
        if shown.forest.end[place] == place + 1:
            last = (line for line in range(row, int(end[row])) if end[line] == line + 1)
            nodes[place] = [node for line in last for node in shown.of_row(line).tolist()]
    return nodes


class _Profile:
    def __init__(self, measure: str) -> None:
        self._measure = measure
        self._strings = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[tuple[str, int, str], int] = {}
        self._parts: list[bytes] = []

    def message(self, shown: Shown, views: ViewSet, step: int, nodes: list[list[int]]) -> bytes:
        values, unit = _values(views.recorded, step, self._measure)
        for kind, of in (("count", "count"), (self._measure, unit)):
            self._parts.append(put(_SAMPLE_TYPE, put(1, self._text(kind)) + put(2, self._text(of))))
        frames = _frames(views.lines, shown)
        names, parent = views.recorded.names, shown.forest.parent.tolist()
        calls = [b""] * len(parent)  # the ids of a row's stack, innermost first
        for place in range(1, len(parent)):
            above = parent[place]
            if above > 0:
                calls[place] = varint(self._location(frames[above], frames[place])) + calls[above]
            for node in nodes[place]:
                label = put(1, self._text("graph node:")) + put(2, self._text(names[node].as_py()))
                value = varint(1) + varint(int(values[node]))
                self._parts.append(put(_SAMPLE, put(1, calls[place]) + put(2, value) + put(3, label)))
        comment = put(_COMMENT, self._text(MEASURES[self._measure]))
        return b"".join([*self._parts, comment, *(put(_STRING, text) for text in self._strings)])

    def _text(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _location(self, caller: _Frame, callee: _Frame) -> int:
        key = caller.file, caller.line, callee.function
        number = self._locations.get(key)
        if number is None:
            number = self._locations[key] = len(self._locations) + 1
            line = put(1, self._function(callee)) + put(2, caller.line)
            self._parts.append(put(_LOCATION, put(1, number) + put(4, line)))
        return number

    def _function(self, frame: _Frame) -> int:
        key = frame.file, frame.function, frame.function_line
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            module = frame.file.rpartition("/")[2].rpartition(".")[0] or frame.file.rpartition("/")[2]
            named = self._text(f"{module}:{frame.function}")
            described = put(1, number) + put(2, named) + put(3, named) + put(4, self._text(frame.file))
            self._parts.append(put(_FUNCTION, described + put(5, frame.function_line)))
        return number


def _values(recorded: Recorded, step: int, measure: str) -> tuple[Ints, str]:
    """A figure of each node, and its unit. Times of captures are nanoseconds, rounded."""
    place = FIGURES.index(measure)
    if measure.endswith("micros") and recorded.is_capture:
        return (recorded.ticks(step)[place] + 500) // 1000, "nanoseconds"
    unit = next((unit for suffix, unit in _UNITS.items() if measure.endswith(suffix)), "count")
    return recorded.figures(step)[place], unit


_UNITS: Final = {"micros": "microseconds", "bytes": "bytes"}


def _frames(lines: CodeLines, shown: Shown) -> list[Any]:
    """The frame of each row; of the root None."""
    frames: list[_Frame | None] = []
    for row in shown.row.tolist():
        if row == 0:
            frames.append(None)
            continue
        frame = lines.frames[lines.frame[row]].as_py()
        suffix = GRADIENT if lines.is_gradient[row] else ""
        frames.append(_Frame(frame["file"], frame["line"], frame["function"] + suffix, frame["function_line"]))
    return frames
