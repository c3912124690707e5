"""Reports in the format of pprof, gzipped: samples of stacks with values, which are times in nanoseconds, rounded.

https://github.com/google/pprof/blob/main/proto/profile.proto describes the format::

    Sample      values, and the ids of its locations, the innermost first
    Location    the line of a function
    Function    name and file
    strings     every text, by number; number 0 is the empty one
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastprof.render.weighted_stacks import Frame, WeightedStacks, located, stacks_of
from fastprof.schema.message_fields import put, varint

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

SUFFIXES: Final = (".pprof", ".pprof.pb.gz")
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _DEFAULT_TYPE = 1, 2, 4, 5, 6, 14


def chunks(report: Report) -> Iterator[bytes]:
    """The file. Raises UsageError for an analysis without stacks."""
    first, *others = stacks_of(report, "pprof")
    same = [first, *(one for one in others if one.tree is first.tree and one.weight_ps)]
    return iter([gzip.compress(_Profile(same).message(), mtime=0)])


class _Profile:
    """``of``: what each value of a sample is; all are of one tree."""

    def __init__(self, of: list[WeightedStacks]) -> None:
        self._of = of
        self._strings = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Frame, int] = {}
        self._parts: list[bytes] = []

    def message(self) -> bytes:
        for one in self._of:
            unit = put(1, self._text(one.measure)) + put(2, self._text("nanoseconds"))
            self._parts.append(put(_SAMPLE_TYPE, unit))
        nodes = sorted({node for one in self._of for node in one.weight_ps})
        for node, path in zip(nodes, self._of[0].paths(nodes), strict=True):
            ids = b"".join(varint(self._location(frame)) for frame in reversed(path))
            values = b"".join(varint((one.weight_ps.get(node, 0) + 500) // 1000) for one in self._of)
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
            file, line = located(source)
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
